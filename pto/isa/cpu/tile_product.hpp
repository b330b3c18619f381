// SPDX-License-Identifier: Apache-2.0
// Tile product: a matrix product by the tile operations of tiles.hpp: bf16 to f32, bytes to i32.
//
//     run_tiles<HardwareTiles>(job);   // b packed, where it is, as tile_packed_bytes() says
//
// Four tiles hold 32 x 32 sums while the depth of a block passes. Rows of a are read where they lie
// where that can be; b is packed to tiles, 32 columns after 32 columns, each with its whole depth,
// the tiles of a step beside each other. Blocks: a panel of b stays in the second cache, as all
// panels of a block do, while 32 rows of a, which come from afar, pass by.
//
// Law: that of the job. A step takes 64 bytes of depth, at places that only the depth fixes, so the
// bits of an element depend on its own row and column. At the lower and right edges tiles have the
// sizes of what is left; the last step's depth ends with zeros.
// Invariant: writes the rows x cols of job.c, or packed, and nothing else; reads only operands.
// Thread safety: each thread has its own memory and tiles.
#pragma once
#include "pto/isa/cpu/matmul_stream.hpp"
#include "pto/isa/cpu/of_thread.hpp"
#include "pto/isa/cpu/tile_pack.hpp"

PTO_NAMESPACE_BEGIN
namespace matmul {

constexpr int kSide = 2 * kTileRows;  // rows and columns of the sums that tiles hold at a time
constexpr int kPair = 2 * kTileBytes;
// Sizes for a second cache of 2 MB, which all CPUs with AMX have: b's part is 1 MB. Each product
// moves 2 / columns bytes of a and 8 / depth bytes of sums.
constexpr int kTileBlockSteps = 44, kTileBlockPanels = 12;
constexpr int kTileAhead = 4096;  // bytes of packed b, from those read to those asked for

// The ways to multiply: elements as raw bits, and the type of sums.
template <class Tiles>
struct PairTiles : Tiles {
  using Element = uint16_t;
  using Sum = float;
  template <int C, int A, int B>
  static PTO_INLINE void add() {
    Tiles::template add_bf16<C, A, B>();
  }
};
template <class Tiles, bool IsLeftSigned, bool IsRightSigned>
struct QuadTiles : Tiles {
  using Element = uint8_t;
  using Sum = uint32_t;  // wraps
  template <int C, int A, int B>
  static PTO_INLINE void add() {
    Tiles::template add_bytes<C, A, B, IsLeftSigned, IsRightSigned>();
  }
};

// Where the tiles of 32 x 32 sums lie: bytes from row to row, and to the tiles below and beside.
struct TilePlace {
  char* at;  // null: zeros
  int64_t row, below, beside;
};
// Two tiles of rows of a, `step` bytes a step, the last step perhaps at `tail`; tiles of b.
struct TileOperands {
  const char* a[2];
  int64_t a_row;
  const char* tail;  // rows of 64 bytes; or null
  const char* b;
  int64_t b_step, ahead;
  int steps;
};

template <class Way, int Rows, int Cols>
struct TileKernel {
  template <int T>
  static PTO_INLINE void begin(const TilePlace& from) {
    if constexpr (T / 2 < Rows && T % 2 < Cols) {
      if (from.at)
        Way::template load<T>(from.at + T / 2 * from.below + T % 2 * from.beside, from.row);
      else
        Way::template zero<T>();
    }
  }
  template <int T>
  static PTO_INLINE void end(const TilePlace& to) {
    if constexpr (T / 2 < Rows && T % 2 < Cols)
      Way::template store<T>(to.at + T / 2 * to.below + T % 2 * to.beside, to.row);
  }

  // Loads and products alternate, so that both units work.
  static PTO_INLINE void step(const char* a, const char* below, int64_t a_row, const char* b) {
    Way::template load<4>(a, a_row);
    Way::template load<6>(b, kTileRowBytes);
    Way::template add<0, 4, 6>();
    if constexpr (Cols == 2) {
      Way::template load<7>(b + kTileBytes, kTileRowBytes);
      Way::template add<1, 4, 7>();
    }
    if constexpr (Rows == 2) {
      Way::template load<5>(below, a_row);
      Way::template add<2, 5, 6>();
      if constexpr (Cols == 2) Way::template add<3, 5, 7>();
    }
  }

  static void run(const TileOperands& in, const TilePlace& from, const TilePlace& to) {
    begin<0>(from), begin<1>(from), begin<2>(from), begin<3>(from);
    const char* b = in.b;
    for (int s = 0; s < in.steps; ++s, b += in.b_step) {
      for (int line = 0; in.ahead && line < Cols * kTileBytes; line += kTileRowBytes)
        __builtin_prefetch(b + in.ahead + line);
      step(in.a[0] + s * kTileRowBytes, in.a[1] + s * kTileRowBytes, in.a_row, b);
    }
    if (in.tail) step(in.tail, in.tail + kTileBytes, kTileRowBytes, b);
    end<0>(to), end<1>(to), end<2>(to), end<3>(to);
  }
};

struct TilePanels {
  char right[kTileBlockPanels * kTileBlockSteps * kPair];
  char left[kTileBlockSteps * kPair];
  char tail[kPair];
  int32_t sums[kSide][kSide];
};

inline int64_t tile_packed_bytes(int element_bytes, int depth, int cols) {
  const int64_t steps = quotient_up(depth, kTileRowBytes / element_bytes);
  return steps * quotient_up(cols, kTileCols) * kTileBytes;
}

template <class Way>
class TileProduct {
  using Element = typename Way::Element;
  using Sum = typename Way::Sum;
  using Source = TileSource<Element>;

 public:
  explicit TileProduct(const pto_matmul_job& job)
      : job_(job),
        a_(job.a, true, job.depth),
        b_(job.b, false, job.depth),
        to_(job.c, job.rows, job.cols),
        from_(job.start, job.rows, job.cols),
        steps_(quotient_up(job.depth, Source::kStep)),
        panels_(of_thread<TilePanels>()) {
    is_in_place_ = job.a.data && a_.has_tile_rows(job.rows);
  }

  void run() {
    const int panels = quotient_up(job_.cols, kSide);
    if (job_.packs) return pack(0, panels, 0, steps_, packed(0, 0), /*is_whole=*/true);
    const int cuts = steps_ > kTileBlockSteps ? quotient_up(steps_, kTileBlockSteps) : 1;
    const int blocks = quotient_up(panels, kTileBlockPanels);
    for (int block = 0; block < blocks; ++block) {
      const int begin = share(panels, block, blocks), end = share(panels, block + 1, blocks);
      for (int cut = 0; cut < cuts; ++cut) {
        const int first = share(steps_, cut, cuts);
        run_block({begin, end, first, share(steps_, cut + 1, cuts) - first});
      }
    }
    Way::release();
  }

 private:
  // Panels of 32 columns, and steps of the depth.
  struct Block {
    int begin, end, first, steps;
  };
  bool is_last(const Block& block) const { return block.first + block.steps == steps_; }

  // The bytes of a step of a panel: the last one may have one tile.
  int64_t step_bytes(int panel, int cols) const {
    return panel * kSide + kTileCols < cols ? kPair : kTileBytes;
  }
  // A panel of packed b: those before it have two tiles a step.
  char* packed(int panel, int step) const {
    panel += job_.packed_first / kSide;
    return static_cast<char*>(job_.packed) + int64_t(panel) * steps_ * kPair +
           step * packed_step(panel);
  }
  int64_t packed_step(int panel) const {
    return step_bytes(panel, job_.packed_cols ? job_.packed_cols : job_.cols);
  }

  void pack(int begin, int end, int first, int steps, char* to, bool is_whole) const {
    for (int p = begin; p < end; ++p, to += int64_t(steps) * kPair) {
      const int64_t bytes =
          is_whole ? packed_step(p + job_.packed_first / kSide) : step_bytes(p, job_.cols);
      b_.columns(p * kSide, smaller(job_.cols - p * kSide, kSide), first * Source::kStep, steps, to,
                 bytes);
    }
  }

  void run_block(const Block& block) {
    if (!job_.packed) pack(block.begin, block.end, block.first, block.steps, panels_.right, false);
    for (int row = 0; row < job_.rows; row += kSide) {
      const int rows = smaller(job_.rows - row, kSide);
      TileOperands in = left(block, row, rows);
      for (int p = block.begin; p < block.end; ++p) {
        if (job_.packed) {
          in.b = packed(p, block.first), in.b_step = packed_step(p + job_.packed_first / kSide);
          in.ahead = row == 0 ? kTileAhead : 0;
        } else {
          in.b = panels_.right + int64_t(p - block.begin) * block.steps * kPair;
          in.b_step = step_bytes(p, job_.cols);
        }
        run_tiles(block, in, row, rows, p * kSide, smaller(job_.cols - p * kSide, kSide));
      }
    }
  }

  // The rows of a: where they lie, but for a last step that is not whole; or copied.
  TileOperands left(const Block& block, int row, int rows) const {
    TileOperands in = {};
    const int k = block.first * Source::kStep, below = rows > kTileRows ? kTileRows : 0;
    in.steps = block.steps;
    if (block.steps == 0) return in;
    if (!is_in_place_) {
      in.a_row = int64_t(block.steps) * kTileRowBytes;
      in.a[0] = panels_.left, in.a[1] = panels_.left + below * in.a_row;
      a_.rows(row, rows, k, block.steps, panels_.left);
      return in;
    }
    in.a_row = a_.line_bytes();
    in.a[0] = reinterpret_cast<const char*>(a_.at(row, k));
    in.a[1] = reinterpret_cast<const char*>(a_.at(row + below, k));
    if (is_last(block) && job_.depth % Source::kStep != 0) {
      --in.steps;
      in.tail = panels_.tail;
      a_.rows(row, rows, k + in.steps * Source::kStep, 1, panels_.tail);
    }
    return in;
  }

  void configure(int rows, int cols) {
    if (rows == rows_ && cols == cols_) return;
    rows_ = rows, cols_ = cols;
    const int down[] = {smaller(rows, kTileRows), rows - smaller(rows, kTileRows)};
    const int across[] = {4 * smaller(cols, kTileCols), 4 * (cols - smaller(cols, kTileCols))};
    TileConfig config;
    for (int i = 0; i < 2; ++i) {
      for (int j = 0; j < 2; ++j) config.set(2 * i + j, down[i], across[j]);
      config.set(4 + i, down[i], kTileRowBytes);
      config.set(6 + i, kTileRows, across[i]);
    }
    Way::configure(config);
  }

  bool has_tiles(const Place& place) const {
    return place.cols.stride == 1 &&
           (place.cols.box >= job_.cols || place.cols.box % kTileCols == 0) &&
           (place.rows.box >= job_.rows || place.rows.box % kTileRows == 0);
  }
  static TilePlace place_of(const Place& place, int row, int rows, int col, int cols) {
    int32_t* const at = place.at(row, col);
    return {reinterpret_cast<char*>(at), place.rows.stride * 4,
            rows > kTileRows ? 4 * (place.at(row + kTileRows, col) - at) : 0,
            cols > kTileCols ? 4 * (place.at(row, col + kTileCols) - at) : 0};
  }

  void run_tiles(const Block& block, const TileOperands& in, int row, int rows, int col, int cols) {
    configure(rows, cols);
    const Place* const source = block.first > 0 ? &to_ : job_.start.data ? &from_ : nullptr;
    const TilePlace copy = {reinterpret_cast<char*>(panels_.sums[0]), sizeof panels_.sums[0],
                            kTileRows * sizeof panels_.sums[0], kTileRowBytes};
    const bool goes_direct = has_tiles(to_);
    const TilePlace to = goes_direct ? place_of(to_, row, rows, col, cols) : copy;
    TilePlace from = {};
    if (source && has_tiles(*source)) {
      from = place_of(*source, row, rows, col, cols);
    } else if (source) {
      from = copy;
      for (int i = 0; i < rows; ++i) source->read(panels_.sums[i], row + i, col, cols);
    }
    kernel(rows, cols)(in, from, to);
    if (job_.bias.data && is_last(block)) add_bias(to, rows, col, cols);
    for (int i = 0; !goes_direct && i < rows; ++i) to_.write(panels_.sums[i], row + i, col, cols);
  }

  static auto kernel(int rows, int cols) {
    if (rows > kTileRows)
      return cols > kTileCols ? &TileKernel<Way, 2, 2>::run : &TileKernel<Way, 2, 1>::run;
    return cols > kTileCols ? &TileKernel<Way, 1, 2>::run : &TileKernel<Way, 1, 1>::run;
  }

  void add_bias(const TilePlace& to, int rows, int col, int cols) const {
    const Axis across = cols_of(job_.bias);
    const auto* const bias = static_cast<const Sum*>(job_.bias.data);
    Sum added[kSide];
    for (int j = 0; j < cols; ++j) added[j] = bias[across.at(col + j)];
    for (int i = 0; i < rows; ++i)
      for (int j = 0; j < cols; j += kTileCols) {
        char* const at =
            to.at + i / kTileRows * to.below + i % kTileRows * to.row + (j > 0 ? to.beside : 0);
        add_row(at, added + j, smaller(cols - j, kTileCols));
      }
  }
  static PTO_INLINE void add_row(char* at, const Sum* added, int count) {
    for (int j = 0; j < count; ++j) {
      Sum sum;
      __builtin_memcpy(&sum, at + j * 4, 4);
      sum += added[j];
      __builtin_memcpy(at + j * 4, &sum, 4);
    }
  }

  const pto_matmul_job& job_;
  const Source a_, b_;
  const Place to_, from_;
  const int steps_;
  TilePanels& panels_;
  bool is_in_place_;         // a
  int rows_ = 0, cols_ = 0;  // that the tiles are configured for
};

// For bf16 or bytes, both.
template <class Tiles>
void run_tiles(const pto_matmul_job& job) {
  const bool is_right_signed = job.b.type == PTO_MATMUL_I8;
  if (job.a.type == PTO_MATMUL_BF16)
    TileProduct<PairTiles<Tiles>>(job).run();
  else if (job.a.type == PTO_MATMUL_I8 && is_right_signed)
    TileProduct<QuadTiles<Tiles, true, true>>(job).run();
  else if (job.a.type == PTO_MATMUL_I8)
    TileProduct<QuadTiles<Tiles, true, false>>(job).run();
  else if (is_right_signed)
    TileProduct<QuadTiles<Tiles, false, true>>(job).run();
  else
    TileProduct<QuadTiles<Tiles, false, false>>(job).run();
}

}  // namespace matmul
PTO_NAMESPACE_END
