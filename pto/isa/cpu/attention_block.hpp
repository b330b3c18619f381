// SPDX-License-Identifier: Apache-2.0
// Attention block: the rows of heads x queries and the keys that the loops of attention compute at
// a time, and their memory: packed operands, scores, weights, sums so far.
//
//     KeyBlock b(job);
//     b.move(0, 96);                // rows
//     b.key = 256, b.keys = 256;
//     const Seen keys = b.seen(5);   // that row 5 sees, counted from b.key
//
// Invariant: the sizes of blocks depend on the engine and the widths only.
// Thread safety: pure functions on the caller's memory.
#pragma once
#include "pto/isa/cpu/attention_job.hpp"
#include "pto/isa/cpu/matmul_pack.hpp"

PTO_NAMESPACE_BEGIN
namespace attention {

using matmul::FloatDot, matmul::kGroup, matmul::kLane, matmul::kRows, matmul::kVectors;
using matmul::quotient_up, matmul::share, matmul::smaller;
using V = Vec<float, kLane>;
using LooseV = typename VecOf<float, kLane>::loose;

static_assert(kVectors == 2);
constexpr int kPanel = kVectors * kLane;  // keys, or elements of a value, beside each other
constexpr int kSubRows = 96;              // of the most scores that are kept
constexpr int kTogether = kVectorBytes == 64 ? 2 * kRows : kSubRows;  // rows before their softmax
constexpr int kMostRows = kVectorBytes == 64 ? 1024 : 512;         // that share packed keys, values
constexpr int kRowFloats = (kVectorBytes == 64 ? 64 : 48) * 1024;  // of queries, and of outputs
constexpr int kMostKeys = kVectorBytes == 64 ? 512 : 256;          // of a block
constexpr int kMostKeysEver = 1024;                                // of those of bf16 too
constexpr int kGradientKeys = 128;                                 // of a block of the gradients
constexpr int kFewRows = 2 * kRows;     // that may read keys and values where they lie
constexpr int kNearFloats = 256 << 10;  // of keys and values, in the second cache
constexpr float kLowest = -__builtin_inff();

PTO_INLINE int rounded_up(int n, int to) { return quotient_up(n, to) * to; }
PTO_INLINE int larger(int a, int b) { return a > b ? a : b; }

struct Sizes {
  int keys, rows;                     // of a block
  int depth, outs;                    // the widths, rounded up to whole groups and panels
  int panel = kPanel;                 // keys, or elements of a value, beside each other
  int score_rows = kSubRows;          // that are kept
  bool has_weights = true;            // apart from the scores
  int element_bytes = sizeof(float);  // of packed queries, keys and values, and of weights

  explicit Sizes(const pto_attention_job& job, int most_keys = kMostKeys)
      : depth(rounded_up(job.width, kGroup)), outs(rounded_up(job.value_width, kPanel)) {
    const int width = larger(larger(depth, outs), 1);
    keys = smaller(width <= 96 ? kMostKeys : kMostKeys / 2, most_keys);
    rows = larger(smaller(kRowFloats / width, kMostRows), kSubRows);
  }
  int64_t score_stride() const { return keys + 16; }  // rows fall into different sets of the cache
  // The floats in whose place so many elements lie.
  int64_t floats(int64_t elements) const { return elements * element_bytes / int(sizeof(float)); }
};

// Where the parts of the workspace begin, in floats; each has room for a whole group at its end.
struct Areas {
  int64_t queries, outs, largest, sums, places, keys, values, scores, weights, end;

  explicit Areas(const Sizes& sizes) {
    int64_t at = 0;
    const auto take = [&at](int64_t floats) {
      const int64_t begin = at;
      at += (floats + kGroup + 15) / 16 * 16;
      return begin;
    };
    queries = take(sizes.floats(int64_t(sizes.rows) * sizes.depth));
    outs = take(int64_t(sizes.rows) * sizes.outs);
    largest = take(sizes.rows), sums = take(int64_t{kLane} * sizes.rows);
    places = take(2 * sizes.rows);
    keys = take(sizes.floats(int64_t(sizes.keys) * sizes.depth));
    values = take(sizes.floats(int64_t(sizes.keys) * sizes.outs));
    scores = take(sizes.score_rows * sizes.score_stride());
    weights = sizes.has_weights ? take(sizes.floats(int64_t(kSubRows) * sizes.keys)) : scores;
    end = at;
  }
};

// Keys of a block from its first one on: [first, last).
struct Seen {
  int first, last;
  bool any() const { return first < last; }
};

// Rows whose products are made together, and the keys that any of them sees, from a whole panel on.
struct Sliver {
  int row, rows;
  Seen keys;
};

class KeyBlock {
 public:
  explicit KeyBlock(const pto_attention_job& of) : KeyBlock(of, Sizes(of)) {}
  KeyBlock(const pto_attention_job& of, const Sizes& blocks)
      : job(of),
        sizes(blocks),
        sees_all_(of.first <= -PTO_ATTENTION_UNBOUNDED && of.last >= PTO_ATTENTION_UNBOUNDED),
        areas_(sizes),
        memory_(static_cast<float*>(of.workspace)) {}

  const pto_attention_job& job;
  const Sizes sizes;
  int row = 0, rows = 0;  // among heads x queries
  int key = 0, keys = 0;
  int sliver_rows = kRows;

  // Moves to other rows; notes the head and the query of each, so that nobody divides.
  void move(int first, int count) {
    row = first, rows = count;
    int32_t* to = places();
    for (int i = 0, h = row / job.queries, q = row % job.queries; i < rows; ++i, to += 2) {
      to[0] = h, to[1] = q;
      if (++q == job.queries) ++h, q = 0;
    }
  }
  int head(int i) const { return places()[2 * i]; }
  int query(int i) const { return places()[2 * i + 1]; }

  // A row's float of an operand without columns.
  float& of_row(const pto_attention_operand& x, int i) const {
    return static_cast<float*>(x.data)[head(i) * x.head_stride + query(i) * x.row_stride];
  }

  int slivers() const { return quotient_up(rows, sliver_rows); }
  // As equal as possible, the higher ones first.
  Sliver sliver(int number) const {
    const int low = rows / slivers(), higher = rows % slivers();
    return {number * low + smaller(number, higher), low + (number < higher), {0, 0}};
  }
  // Returns the sliver with its keys.
  Sliver look(Sliver s) const {
    if (sees_all_) {
      s.keys = {0, keys};
      return s;
    }
    s.keys = {keys, 0};
    for (int i = 0; i < s.rows; ++i) {
      const Seen one = seen(s.row + i);
      if (!one.any()) continue;
      s.keys.first = smaller(s.keys.first, one.first / sizes.panel * sizes.panel);
      s.keys.last = larger(s.keys.last, one.last);
    }
    return s;
  }
  Seen seen(int i) const {
    return sees_all_ ? Seen{0, keys} : seen_from(query(i), query(i), key, keys);
  }
  // All keys of the job from the first to the last one that any row sees.
  Seen seen_by_any() const {
    int least = query(0), most = least;
    for (int i = 1; i < rows; ++i) least = smaller(least, query(i)), most = larger(most, query(i));
    return seen_from(least, most, 0, job.keys);
  }

  // A row's queries and weights: its part of the panel of a sliver, whose `rows` rows lie beside
  // each other in groups of eight units. So slivers of one row are the rows of a matrix.
  float* queries(int i) const {
    return memory_ + areas_.queries + sizes.floats(int64_t(i) * sizes.depth);
  }
  float* weights(int i) const {
    return memory_ + areas_.weights + sizes.floats(int64_t(i) * sizes.keys);
  }
  // Rows of scores and outputs; the sums so far. Scores and weights count from the first row of
  // those whose scores are computed together.
  float* scores(int i) const { return memory_ + areas_.scores + i * sizes.score_stride(); }
  float* outs(int i) const { return memory_ + areas_.outs + int64_t(i) * sizes.outs; }
  float& largest(int i) const { return memory_[areas_.largest + i]; }
  LooseV& sums(int i) const {
    return *reinterpret_cast<LooseV*>(memory_ + areas_.sums + int64_t{kLane} * i);
  }
  // Panels of kPanel keys, [width][kPanel], and of kPanel elements of values, [keys][kPanel].
  float* key_panel(int at) const {
    return memory_ + areas_.keys + sizes.floats(int64_t(at) * sizes.depth);
  }
  float* value_panel(int at, int col) const {
    return memory_ + areas_.values + sizes.floats(int64_t(col) * sizes.keys + at * kPanel);
  }

 private:
  // The keys among `count` from `from` on that queries `least` to `most` see.
  Seen seen_from(int least, int most, int from, int count) const {
    const int64_t place = int64_t{job.position} - from;
    const int64_t first = place + least + job.first, last = place + most + job.last + 1;
    return {int(first < 0       ? 0
                : first > count ? count
                                : first),
            int(last < 0       ? 0
                : last > count ? count
                               : last)};
  }
  int32_t* places() const { return reinterpret_cast<int32_t*>(memory_ + areas_.places); }

  const bool sees_all_;  // each row sees all keys
  const Areas areas_;
  float* const memory_;
};

// Reads `Count` elements from number `at` of `size` on.
template <int Count, class T>
PTO_INLINE Vec<Compute<T>, Count> read(const T* from, int at, int64_t stride, int size) {
  const int count = smaller(size - at, Count);
  if (stride != 1) return lanes::gather<Count>(from + at * stride, stride, count);
  if (count == Count) return lanes::load<Count>(from + at);
  return lanes::load_part<Count>(from + at, count);
}

}  // namespace attention
PTO_NAMESPACE_END
