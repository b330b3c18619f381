// SPDX-License-Identifier: Apache-2.0
// Attention of bf16 on tiles: the two products by AMX, the softmax between them on vectors. A block
// of keys and values is packed to tiles once for many rows, as matmul packs b; 32 rows at a time
// have their scores, weights and outputs made. A weight is rounded to bf16, after their sum is
// taken, and lies where the row's scores were. At most 16 rows read keys where they lie: then keys
// are the rows of the first product, whose sums are turned; the bits are the same.
//
//     attention::run_tiles<HardwareTiles, HardwarePairs>(job);   // job.type: bf16
//
// Law: that of the job. A step of tiles takes 32 elements of the width, or 32 keys counted from
// those of a block, so a query's bits depend on no other query.
// Invariant: writes the job's outputs for its rows and its workspace, nothing else; releases tiles.
// Thread safety: the tiles are the thread's.
#pragma once
#include "pto/isa/cpu/attention_products.hpp"
#include "pto/isa/cpu/attention_softmax.hpp"
#include "pto/isa/cpu/tile_product.hpp"

PTO_NAMESPACE_BEGIN
namespace attention {

constexpr int kTileSide = 2 * matmul::kTileCols;  // rows, keys, elements: two tiles
constexpr int kTurnedLines = moves::kLaneCount<4>;

// Sums of outputs are read and written for each block of keys, and keys are packed for each block
// of rows, so both are large; the second cache, 2 MB on all CPUs with AMX, keeps them.
struct TileSizes : Sizes {
  explicit TileSizes(const pto_attention_job& job) : Sizes(job) {
    constexpr int kRowElements = 128 << 10, kKeyElements = 128 << 10, kMostTileRows = 1024;
    depth = rounded_up(job.width, kTileSide), outs = rounded_up(job.value_width, kTileSide);
    const int width = larger(larger(depth, outs), 1);
    keys = block(kKeyElements / width, kMostKeysEver);  // whole runs of dropout
    rows = block(kRowElements / width, kMostTileRows);
    panel = score_rows = kTileSide;
    element_bytes = sizeof(uint16_t), has_weights = false;
  }

 private:
  static constexpr int kUnit = 64;
  static int block(int wanted, int most) {
    return larger(smaller(wanted / kUnit * kUnit, most), kUnit);
  }
};

// Weights of a row, rounded by Pairs, in place of its scores.
template <class Pairs>
class RoundedWeights {
 public:
  static constexpr int kMostRows = kTileSide;

  RoundedWeights(const KeyBlock& b, int first_row, const Sliver& s, int i)
      : to_(at(b, s.row + i - first_row, s.keys.first)) {}

  static char* at(const KeyBlock& b, int row, int key) {
    return reinterpret_cast<char*>(b.scores(row)) + key * sizeof(uint16_t);
  }

  static PTO_INLINE V exp2(V x) { return lanes::exp2_to_one_roughly(x); }
  template <int At>
  PTO_INLINE void put(V x) const {
    const auto narrow = Pairs::rounded(x);
    __builtin_memcpy(to_ + At * sizeof(uint16_t), &narrow, sizeof narrow);
  }
  PTO_INLINE void next() { to_ += kPanel * sizeof(uint16_t); }

 private:
  char* to_;
};

template <class Tiles, class Pairs>
class TileAttention {
  using Way = matmul::PairTiles<Tiles>;
  using Weights = RoundedWeights<Pairs>;
  using Source = matmul::TileSource<uint16_t>;

 public:
  explicit TileAttention(const pto_attention_job& job)
      : job_(job),
        b_(job, TileSizes(job)),
        softmax_(b_, job.scale * lanes::kLog2E),
        keys_(matrix(job.k, job.k.col_stride, job.k.row_stride), false, job.width),
        values_(matrix(job.v, job.v.row_stride, job.v.col_stride), false, job.keys) {
    reads_keys_ =
        job.rows <= matmul::kTileRows && job.k.col_stride == 1 && job.width % kTileSide == 0;
  }

  void run() {
    const int end = job_.row + job_.rows;
    for (int row = job_.row; row < end; row += b_.sizes.rows) {
      b_.move(row, smaller(end - row, b_.sizes.rows));
      pack_queries();
      clear_outputs(b_);
      for (b_.key = 0; b_.key < job_.keys; b_.key += b_.sizes.keys) {
        b_.keys = smaller(job_.keys - b_.key, b_.sizes.keys);
        add_keys();
      }
      write_outputs<bfloat16_t>(b_);
    }
    Way::release();
  }

 private:
  static pto_matmul_matrix matrix(const pto_attention_operand& x, int64_t row_stride,
                                  int64_t col_stride) {
    return pto_matmul_plain(x.data, PTO_MATMUL_BF16, row_stride, col_stride);
  }
  int steps() const { return b_.sizes.depth / kTileSide; }  // of the width
  int64_t query_bytes() const { return int64_t(steps()) * matmul::kTileRowBytes; }
  int value_width() const { return job_.out.data ? job_.value_width : 0; }

  // Rows of bf16, with zeros behind the width.
  char* queries(int i) const { return reinterpret_cast<char*>(b_.queries(0)) + i * query_bytes(); }
  void pack_queries() const {
    for (int i = 0; i < b_.rows; ++i) {
      pto_attention_operand row = job_.q;
      row.data = static_cast<uint16_t*>(row.data) + b_.head(i) * row.head_stride +
                 b_.query(i) * row.row_stride;
      Source(matrix(row, 0, row.col_stride), true, job_.width).rows(0, 1, 0, steps(), queries(i));
    }
  }

  // The queries as columns of a right operand, and at most 32 keys: in place of 64 packed keys.
  char* query_columns() const { return key_panel(0); }
  char* last_keys() const { return query_columns() + steps() * matmul::kTileBytes; }
  void turn_queries() const {
    const pto_attention_operand packed = {queries(0), 0, b_.sizes.depth, 1};
    Source(matrix(packed, 1, b_.sizes.depth), false, b_.sizes.depth)
        .columns(0, b_.rows, 0, steps(), query_columns(), matmul::kTileBytes);
  }

  // Panels of 32 keys, each with the whole width; panels of 32 elements of values, each with the
  // keys of the block.
  char* key_panel(int at) const {
    return reinterpret_cast<char*>(b_.key_panel(0)) +
           int64_t(at / kTileSide) * steps() * matmul::kPair;
  }
  char* value_panel(int at, int col) const {
    const int steps = b_.sizes.keys / kTileSide;
    return reinterpret_cast<char*>(b_.value_panel(0, 0)) +
           (int64_t(col / kTileSide) * steps + at / kTileSide) * matmul::kPair;
  }
  void pack_keys() const {
    for (int at = 0; at < b_.keys; at += kTileSide)
      keys_.columns(b_.key + at, smaller(b_.keys - at, kTileSide), 0, steps(), key_panel(at),
                    matmul::kPair);
  }
  // Rows of values are read whole, 32 at a time.
  void pack_values(Seen keys) const {
    for (int at = keys.first; at < keys.last; at += kTileSide)
      for (int col = 0; col < value_width(); col += kTileSide)
        values_.columns(col, smaller(value_width() - col, kTileSide), b_.key + at, 1,
                        value_panel(at, col), matmul::kPair);
  }

  // Adds a block of keys to the outputs of all rows.
  void add_keys() {
    bool is_packed = false;
    for (int row = 0; row < b_.rows; row += kTileSide) {
      const Sliver s = b_.look({row, smaller(b_.rows - row, kTileSide), {0, 0}});
      if (!s.keys.any()) continue;
      if (reads_keys_) {
        multiply_read_keys(s);
        pack_values(s.keys);
      } else {
        if (!is_packed) pack_keys(), pack_values({0, b_.keys});
        is_packed = true;
        multiply_keys(s);
      }
      softmax_.weigh(s.row, s);
      multiply_values(s);
    }
  }
  void configure(int rows) {
    if (rows != configured_rows_) matmul::configure_tiles<Way>(rows, kTileSide);
    configured_rows_ = rows;
  }

  void multiply_keys(const Sliver& s) {
    configure(s.rows);
    for (int at = s.keys.first; at < s.keys.last; at += kTileSide)
      multiply(s.rows, operands(queries(s.row), query_bytes(), key_panel(at), steps()),
               {nullptr, 0, 0, 0}, place(b_.scores(0) + at, b_.sizes.score_stride()));
  }
  // The same for at most 16 rows, with keys where they lie.
  void multiply_read_keys(const Sliver& s) {
    alignas(64) float turned[kTileSide][matmul::kTileCols];
    const auto to = place(turned[0], matmul::kTileCols);
    configure(kTileSide);
    turn_queries();
    for (int at = s.keys.first; at < s.keys.last; at += kTileSide) {
      const int count = smaller(b_.keys - at, kTileSide), key = b_.key + at;
      const char* from = reinterpret_cast<const char*>(keys_.at(key, 0));
      int64_t row_bytes = keys_.line_bytes();
      if (count < kTileSide) {
        Source(matrix(job_.k, job_.k.row_stride, 1), true, job_.width)
            .rows(key, count, 0, steps(), last_keys());
        from = last_keys(), row_bytes = query_bytes();
      }
      matmul::TileOperands in = operands(from, row_bytes, query_columns(), steps());
      in.b_step = in.ahead = matmul::kTileBytes;
      matmul::TileKernel<Way, 2, 1>::run(in, {nullptr, 0, 0, 0}, to);
      for (int i = 0; i < kTileSide; i += kLane)
        moves::transpose_strip<4, kLane>(reinterpret_cast<char*>(b_.scores(0) + at + i),
                                         b_.sizes.score_stride() * int64_t(sizeof(float)),
                                         reinterpret_cast<const char*>(turned[i]), sizeof turned[i],
                                         rounded_up(s.rows, kTurnedLines));
    }
  }
  void multiply_values(const Sliver& s) {
    configure(s.rows);
    const char* const weights = Weights::at(b_, 0, s.keys.first);
    const int64_t row_bytes = b_.sizes.score_stride() * int64_t(sizeof(float));
    const int steps = quotient_up(s.keys.last - s.keys.first, kTileSide);
    for (int col = 0; col < value_width(); col += kTileSide) {
      const matmul::TilePlace out = place(b_.outs(s.row) + col, b_.sizes.outs);
      multiply(s.rows, operands(weights, row_bytes, value_panel(s.keys.first, col), steps), out,
               out);
    }
  }

  static matmul::TileOperands operands(const char* a, int64_t row_bytes, const char* b, int steps) {
    const char* const below = a + matmul::kTileRows * row_bytes;
    return {{a, below}, row_bytes, nullptr, b, matmul::kPair, matmul::kPair, steps};
  }
  static matmul::TilePlace place(float* at, int64_t stride) {
    const int64_t row_bytes = stride * int64_t(sizeof(float));
    return {reinterpret_cast<char*>(at), row_bytes, matmul::kTileRows * row_bytes,
            matmul::kTileRowBytes};
  }
  static void multiply(int rows, const matmul::TileOperands& in, const matmul::TilePlace& from,
                       const matmul::TilePlace& to) {
    if (rows > matmul::kTileRows)
      matmul::TileKernel<Way, 2, 2>::run(in, from, to);
    else
      matmul::TileKernel<Way, 1, 2>::run(in, from, to);
  }

  const pto_attention_job& job_;
  KeyBlock b_;
  const Softmax<bfloat16_t, Weights> softmax_;
  const Source keys_, values_;  // as right operands
  bool reads_keys_;
  int configured_rows_ = 0;
};

template <class Tiles, class Pairs>
void run_tiles(const pto_attention_job& job) {
  TileAttention<Tiles, Pairs>(job).run();
}
inline size_t tile_bytes(const pto_attention_job& job) {
  return size_t(Areas(TileSizes(job)).end) * sizeof(float);
}
inline int tile_rows(const pto_attention_job& job) { return TileSizes(job).rows; }

}  // namespace attention
PTO_NAMESPACE_END
