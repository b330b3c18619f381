// SPDX-License-Identifier: Apache-2.0
// pto_add_at (abi/program.h): elements of a part that join others at positions.
//
// The part is cut into lines along the axis, and these into pieces of neighbouring lines, which
// share no element of the result: each piece is the work of one thread, and each element takes its
// parts in their order. Where totals are wider than elements, a piece has a total for each element
// that it may reach, or, where these are too many, groups the parts of one position first.
#include "pto/abi/program.h"
#include "pto/isa/cpu/engine.hpp"
#include "pto/isa/cpu/host_memory.hpp"
#include "pto/isa/cpu/wide_totals.hpp"

namespace pto {
namespace {

constexpr int64_t kTotals = 256;              // elements whose totals are in the first cache
constexpr int64_t kLeastWidth = 8;            // of a piece: a cache line of totals
constexpr int64_t kReach = int64_t(1) << 19;  // bytes of totals that the second cache keeps
constexpr int64_t kShort = 64;                // elements of a row, for which sorting takes longer
constexpr int64_t kFew = 4;                   // elements for each part, to group the parts first
constexpr int64_t kSoon = 8;                  // rows that are prefetched ahead

int64_t distance(int64_t stride) { return stride < 0 ? -stride : stride; }
int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

// A loop over a part, with its steps there, in the result and in the positions.
struct Loop {
  int64_t size, part, out, index;
};

// The parts of a line that are not left out, in the order of their positions; those of one position
// keep their order.
class Groups {
 public:
  struct Entry {
    int64_t position, place;
  };

  // `most`: parts of a line.
  explicit Groups(int64_t most) : memory_(2 * most), most_(most) {}

  bool has_memory() const { return memory_.data() != nullptr; }

  // `size`: of the axis that positions point into.
  void sort(const int64_t* at, int64_t step, int64_t size) {
    if (at == at_) return;
    constexpr int kBits = 8, kDigits = 1 << kBits;
    Entry *from = memory_.data(), *to = from + most_;
    int64_t next[kDigits];
    bool is_sorted = true;
    int64_t last = 0;
    count_ = 0;
    for (int64_t k = 0; k < most_; ++k) {
      const int64_t position = at[k * step];
      from[count_] = {position, k};
      count_ += position >= 0;
      is_sorted &= position < 0 || position >= last;
      last = position < 0 ? last : position;
    }
    for (int shift = 0; !is_sorted && (size - 1) >> shift > 0; shift += kBits) {
      for (int digit = 0; digit < kDigits; ++digit) next[digit] = 0;
      for (int64_t i = 0; i < count_; ++i) ++next[from[i].position >> shift & (kDigits - 1)];
      for (int64_t digit = 0, sum = 0; digit < kDigits; ++digit) {
        const int64_t first = sum;
        sum += next[digit];
        next[digit] = first;
      }
      for (int64_t i = 0; i < count_; ++i)
        to[next[from[i].position >> shift & (kDigits - 1)]++] = from[i];
      Entry* const sorted = to;
      to = from;
      from = sorted;
    }
    entries_ = from;
    at_ = at;
  }

  int64_t count() const { return count_; }
  const Entry& operator[](int64_t i) const { return entries_[i]; }

 private:
  const HostMemory<Entry> memory_;
  const int64_t most_;
  const Entry* entries_ = nullptr;
  const int64_t* at_ = nullptr;  // the positions that are sorted
  int64_t count_ = 0;
};

class Sums {
 public:
  Sums(const pto_tensor& out, const pto_tensor& part, const pto_tensor& positions, int axis,
       int32_t threads)
      : out_(out), part_(part), positions_(positions), size_(out.sizes[axis]), threads_(threads) {
    int nearest = -1;
    for (int d = part.rank - 1; d >= 0; --d) {
      const Loop loop{part.sizes[d], part.strides[d], out.strides[d],
                      positions.sizes[d] == 1 ? 0 : positions.strides[d]};
      elements_ *= loop.size;
      if (d == axis)
        along_ = loop;
      else if (rank_ > 0 && continues(loop, outer_[rank_ - 1]))
        outer_[rank_ - 1].size *= loop.size;
      else if (loop.size > 1)
        outer_[rank_++] = loop;
    }
    for (int i = 0; i < rank_; ++i)
      if (nearest < 0 || distance(outer_[i].part) < distance(outer_[nearest].part)) nearest = i;
    if (nearest >= 0) {
      beside_ = outer_[nearest];
      outer_[nearest] = outer_[--rank_];
    }
    for (int i = 0; i < rank_; ++i) lines_ *= outer_[i].size;
  }

  int32_t run() {
    if (elements_ == 0 || size_ == 0) return 0;
    with_type(out_, [&](auto* to) { cut(to); });
    const int64_t items = lines_ * pieces_;
    if (threads_ > 1) blocks_ = pto_blocks_of(items, elements_ * 16);
    return pto_parallel(
        blocks_,
        [](void* self, int32_t block) { return static_cast<Sums*>(self)->run_block(block); }, this);
  }

 private:
  static bool continues(const Loop& outer, const Loop& inner) {
    return outer.part == inner.part * inner.size && outer.out == inner.out * inner.size &&
           outer.index == inner.index * inner.size;
  }

  // Chooses the way of the sums, and the width of pieces.
  template <class T>
  void cut(const T*) {
    const bool are_near = beside_.size > 1 && distance(beside_.part) < distance(along_.part),
               are_rows = are_near && beside_.index == 0;
    // Than totals of short rows in the last cache do.
    const int64_t reach = are_rows && beside_.size <= kShort ? kReach << 3 : kReach;
    const int64_t fitting = reach / int64_t(sizeof(Total<T>)) / size_;
    if (size_ > kFew * along_.size || (are_rows && beside_.size > larger(fitting, kLeastWidth)))
      way_ = kByGroups;
    if (kSame<T, Total<T>> && (way_ == kByGroups || !are_near || are_rows)) way_ = kInPlace;
    if (!are_near || (way_ == kByGroups && !are_rows))
      width_ = 1;
    else if (are_rows)
      width_ = way_ == kByGroups ? kTotals : beside_.size;
    else
      width_ = larger(fitting, kLeastWidth);
    if (are_near && lines_ < threads_)
      width_ = smaller(width_, larger(kLeastWidth, (beside_.size + threads_ - 1) / threads_));
    width_ = smaller(width_, beside_.size);
    pieces_ = (beside_.size + width_ - 1) / width_;
  }

  int32_t run_block(int32_t block) const {
    const int64_t items = lines_ * pieces_;
    const int64_t first = items * block / blocks_, last = items * (block + 1) / blocks_;
    int32_t code = 0;
    with_type(out_, [&](auto* to) { code = add_pieces(to, first, last); });
    return code;
  }

  template <class T>
  int32_t add_pieces(T* to, int64_t first, int64_t last) const {
    Groups groups(way_ == kByGroups ? along_.size : 0);
    const HostMemory<Total<T>> totals(way_ == kByTotals ? size_ * width_ : 0);
    if (!groups.has_memory() || !totals.data()) return 1;
    for (int64_t item = first; item < last; ++item) {
      const int64_t start = item % pieces_ * width_, width = smaller(width_, beside_.size - start);
      int64_t part = start * beside_.part, out = start * beside_.out, index = start * beside_.index;
      int64_t line = item / pieces_;
      for (int d = 0; d < rank_; line /= outer_[d++].size) {
        const int64_t i = line % outer_[d].size;
        part += i * outer_[d].part;
        out += i * outer_[d].out;
        index += i * outer_[d].index;
      }
      const int64_t* const at = static_cast<const int64_t*>(positions_.data) + index;
      const T* const from = static_cast<const T*>(part_.data) + part;
      if (way_ == kInPlace) {
        if constexpr (kSame<T, Total<T>>) add(to + out, along_.out, beside_.out, from, at, width);
      } else if (way_ == kByGroups) {
        groups.sort(at, along_.index, size_);
        if constexpr (!kSame<T, Total<T>>) add_groups(to + out, from, groups, width);
      } else {
        add_to_totals(to + out, from, at, width, totals.data());
      }
    }
    return 0;
  }

  // Adds each part to the row that its position names: `row` and `step` are the strides there.
  template <class To, class From>
  void add(To* to, int64_t row, int64_t step, const From* from, const int64_t* at,
           int64_t width) const {
    const int64_t count = along_.size, next = along_.index, by = along_.part;
    if (width == 1 && next == 1 && by == 1 && row == 1) {
      for (int64_t k = 0; k < count; ++k)
        if (at[k] >= 0) to[at[k]] = sum_of(to[at[k]], total_of(from[k]));
    } else if (width == 1) {
      for (int64_t k = 0; k < count; ++k)
        if (const int64_t i = at[k * next]; i >= 0)
          to[i * row] = sum_of(to[i * row], total_of(from[k * by]));
    } else if (beside_.index == 0) {
      for (int64_t k = 0; k < count; ++k) {
        if (k + kSoon < count) prefetch_row(to + at[(k + kSoon) * next] * row, step, width);
        if (const int64_t i = at[k * next]; i >= 0)
          add_row(to + i * row, step, from + k * by, beside_.part, width);
      }
    } else if (step == 1 && beside_.index == 1 && beside_.part == 1) {
      for (int64_t k = 0; k < count; ++k, from += by, at += next)
        for (int64_t j = 0; j < width; ++j)
          if (at[j] >= 0) to[at[j] * row + j] = sum_of(to[at[j] * row + j], total_of(from[j]));
    } else {
      for (int64_t k = 0; k < count; ++k)
        for (int64_t j = 0; j < width; ++j)
          if (const int64_t i = at[k * next + j * beside_.index]; i >= 0) {
            To& total = to[i * row + j * step];
            total = sum_of(total, total_of(from[k * by + j * beside_.part]));
          }
    }
  }

  template <class To, class From>
  static void add_row(To* __restrict to, int64_t to_step, const From* __restrict from,
                      int64_t from_step, int64_t width) {
    int64_t j = 0;
    if (to_step == 1 && from_step == 1) {
      if constexpr (kSame<From, float>) j = add_floats(to, from, width);
      for (; j < width; ++j) to[j] = sum_of(to[j], total_of(from[j]));
    } else {
      for (; j < width; ++j)
        to[j * to_step] = sum_of(to[j * to_step], total_of(from[j * from_step]));
    }
  }

  // Adds as many elements as whole vectors hold, and returns their number. By itself the compiler
  // widens floats through memory.
  template <int lanes>
  PTO_INLINE static int64_t add_lanes(double* __restrict to, const float* __restrict from,
                                      int64_t width) {
    using Wide = isa::Vec<double, lanes>;
    int64_t j = 0;
#pragma GCC unroll 4
    for (; j + lanes <= width; j += lanes) {
      isa::Vec<float, lanes> x;
      Wide total;
      __builtin_memcpy(&x, from + j, sizeof x);
      __builtin_memcpy(&total, to + j, sizeof total);
      total += __builtin_convertvector(x, Wide);
      __builtin_memcpy(to + j, &total, sizeof total);
    }
    if constexpr (lanes > 2) j += add_lanes<lanes / 2>(to + j, from + j, width - j);
    return j;
  }
#ifdef __x86_64__
  __attribute__((target("avx2"))) static int64_t add_fours(double* to, const float* from,
                                                           int64_t width) {
    return add_lanes<4>(to, from, width);
  }
#endif
  static int64_t add_floats(double* to, const float* from, int64_t width) {
#ifdef __x86_64__
    static const bool has_avx2 = best_engine() >= PTO_MATMUL_AVX2;
    if (has_avx2) return add_fours(to, from, width);
#endif
    return add_lanes<2>(to, from, width);
  }

  template <class T>
  void add_to_totals(T* to, const T* from, const int64_t* at, int64_t width,
                     Total<T>* totals) const {
    const bool is_line = width == 1;
    const int64_t rows = is_line ? 1 : size_, length = is_line ? size_ : width,
                  step = is_line ? along_.out : beside_.out;
    for (int64_t i = 0; i < rows; ++i)
      begin(totals + i * length, to + i * along_.out, step, length);
    add(totals, width, 1, from, at, width);
    for (int64_t i = 0; i < rows; ++i) end(to + i * along_.out, step, totals + i * length, length);
  }

  template <class T>
  static void begin(Total<T>* __restrict totals, const T* __restrict from, int64_t step,
                    int64_t count) {
    if (step == 1)
      for (int64_t j = 0; j < count; ++j) totals[j] = total_of(from[j]);
    else
      for (int64_t j = 0; j < count; ++j) totals[j] = total_of(from[j * step]);
  }

  // Writes the totals back. NaN stays as it is: a conversion to double and back would change a
  // signaling one.
  template <class T>
  static void end(T* __restrict to, int64_t step, const Total<T>* __restrict totals,
                  int64_t count) {
    T sums[kTotals];
    for (int64_t start = 0; start < count; start += kTotals) {
      const int64_t now = smaller(kTotals, count - start);
      T* const at = to + start * step;
      for (int64_t j = 0; j < now; ++j) sums[j] = rounded<T>(totals[start + j]);
      if (step == 1)
        for (int64_t j = 0; j < now; ++j)
          at[j] = total_of(at[j]) == total_of(at[j]) ? sums[j] : at[j];
      else
        for (int64_t j = 0; j < now; ++j)
          at[j * step] = total_of(at[j * step]) == total_of(at[j * step]) ? sums[j] : at[j * step];
    }
  }

  template <class T>
  static void prefetch_row(const T* row, int64_t step, int64_t width) {
    constexpr int64_t kLine = 64 / sizeof(T);
    for (int64_t j = 0; step == 1 && j < width; j += kLine) __builtin_prefetch(row + j);
  }

  template <class T>
  void add_groups(T* to, const T* from, const Groups& groups, int64_t width) const {
    double totals[kTotals];
    for (int64_t i = 0; i < groups.count();) {
      const int64_t position = groups[i].position;
      T* const row = to + position * along_.out;
      begin(totals, row, beside_.out, width);
      for (; i < groups.count() && groups[i].position == position; ++i) {
        const int64_t soon = smaller(i + kSoon, groups.count() - 1);
        prefetch_row(from + groups[soon].place * along_.part, beside_.part, width);
        add_row(totals, 1, from + groups[i].place * along_.part, beside_.part, width);
      }
      end(row, beside_.out, totals, width);
    }
  }

  const pto_tensor &out_, &part_, &positions_;
  const int64_t size_;  // of the axis of out
  const int32_t threads_;
  Loop along_{1, 0, 0, 0}, beside_{1, 0, 0, 0}, outer_[PTO_MAX_RANK];
  int rank_ = 0;  // of outer_
  int64_t elements_ = 1, lines_ = 1, pieces_ = 1, width_ = 1;
  enum { kByTotals, kByGroups, kInPlace } way_ = kByTotals;
  int32_t blocks_ = 1;
};

}  // namespace
}  // namespace pto

int32_t pto_add_at(const pto_tensor* out, const pto_tensor* part, const pto_tensor* positions,
                   int32_t axis, int32_t threads) {
  return pto::Sums(*out, *part, *positions, axis, threads).run();
}
