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
#include "pto/isa/cpu/of_thread.hpp"
#include "pto/isa/cpu/tile_pack.hpp"
#include "pto/isa/cpu/tile_sums.hpp"

PTO_NAMESPACE_BEGIN
namespace matmul {

// Sizes for a second cache of 2 MB, which all CPUs with AMX have: b's part is 1 MB. Each product
// moves 2 / columns bytes of a and 8 / depth bytes of sums.
constexpr int kTileBlockSteps = PTO_MATMUL_TILE_BLOCK / kTileCols, kTileBlockPairs = 528;
constexpr int kTileAhead = 4096;  // bytes of packed b, from those read first to those asked for

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

// Two tiles of rows of a, `step` bytes a step, the last step perhaps at `tail`; tiles of b.
struct TileOperands {
  const char* a[2];
  int64_t a_row;
  const char* tail;  // rows of 64 bytes; or null
  const char* b;
  int64_t b_step, ahead;
  int steps;
};

// Asks the caches for the lines that follow one of some products.
template <int Product, int Products, int Lines>
PTO_INLINE void ask_part(const char* from) {
  PTO_UNROLL
  for (int line = Product * Lines / Products; line < (Product + 1) * Lines / Products; ++line)
    __builtin_prefetch(from + line * kTileRowBytes);
}

template <class Way, int Rows, int Cols>
struct TileKernel {
  using Ends = TileEnds<Way, Rows, Cols>;

  // Products are spread among requests for what comes next: queued side by side they would keep
  // the loads of the next step waiting.
  static PTO_INLINE void step(const char* a, const char* below, int64_t a_row, const char* b,
                              const char* next) {
    constexpr int kProducts = Rows * Cols, kLines = Cols * kTileRows;
    Way::template load<4>(a, a_row);
    if constexpr (Rows == 2) Way::template load<5>(below, a_row);
    Way::template load<6>(b, kTileRowBytes);
    if constexpr (Cols == 2) Way::template load<7>(b + kTileBytes, kTileRowBytes);
    Way::template add<0, 4, 6>();
    ask_part<0, kProducts, kLines>(next);
    if constexpr (Cols == 2) {
      Way::template add<1, 4, 7>();
      ask_part<1, kProducts, kLines>(next);
    }
    if constexpr (Rows == 2) {
      Way::template add<2, 5, 6>();
      ask_part<Cols, kProducts, kLines>(next);
    }
    if constexpr (Rows == 2 && Cols == 2) {
      Way::template add<3, 5, 7>();
      ask_part<3, kProducts, kLines>(next);
    }
  }

  static void run(const TileOperands& in, const TilePlace& from, const TilePlace& to) {
    Ends::begin(from);
    const char* b = in.b;
    for (int s = 0; s < in.steps; ++s, b += in.b_step)
      step(in.a[0] + s * kTileRowBytes, in.a[1] + s * kTileRowBytes, in.a_row, b, b + in.ahead);
    if (in.tail) step(in.tail, in.tail + kTileBytes, kTileRowBytes, b, b + in.ahead);
    Ends::end(to);
  }
};

struct TilePanels {
  char right[kTileBlockPairs * kPair];  // steps x panels
  char left[kTileBlockSteps * kPair];
  char tail[kPair];
  SumCopies sums;
};

inline int64_t tile_packed_bytes(int element_bytes, int depth, int cols) {
  const int64_t steps = quotient_up(depth, kTileRowBytes / element_bytes);
  return steps * quotient_up(cols, kTileCols) * kTileBytes;
}

template <class Way>
class TileProduct {
  using Element = typename Way::Element;
  using Source = TileSource<Element>;

 public:
  explicit TileProduct(const pto_matmul_job& job)
      : job_(job),
        a_(job.a, true, job.depth),
        b_(job.b, false, job.depth),
        steps_(quotient_up(job.depth, Source::kStep)),
        panels_(of_thread<TilePanels>()),
        sums_(job, panels_.sums) {
    is_in_place_ = job.a.data && a_.has_tile_rows(job.rows);
  }

  void run() {
    const int panels = quotient_up(job_.cols, kSide);
    if (job_.packs) return pack(0, panels, 0, steps_, packed(0, 0), /*is_whole=*/true);
    const int cuts = steps_ > kTileBlockSteps ? quotient_up(steps_, kTileBlockSteps) : 1;
    const int blocks =
        quotient_up(panels, kTileBlockPairs / (steps_ > 0 ? quotient_up(steps_, cuts) : 1));
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
        } else {
          in.b = panels_.right + int64_t(p - block.begin) * block.steps * kPair;
          in.b_step = step_bytes(p, job_.cols);
        }
        in.ahead = job_.packed && row == 0 ? kTileAhead : in.b_step;
        run_tiles(block, in, row, rows, p * kSide, smaller(job_.cols - p * kSide, kSide));
      }
    }
    sums_.finish();
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

  void run_tiles(const Block& block, const TileOperands& in, int row, int rows, int col, int cols) {
    sums_.make(
        {row, rows, col, cols}, block.first == 0, is_last(block),
        [&](const TilePlace& from, const TilePlace& to) { kernel(rows, cols)(in, from, to); });
  }

  static auto kernel(int rows, int cols) {
    if (rows > kTileRows)
      return cols > kTileCols ? &TileKernel<Way, 2, 2>::run : &TileKernel<Way, 2, 1>::run;
    return cols > kTileCols ? &TileKernel<Way, 1, 2>::run : &TileKernel<Way, 1, 1>::run;
  }

  const pto_matmul_job& job_;
  const Source a_, b_;
  const int steps_;
  TilePanels& panels_;
  TileSums<Way> sums_;
  bool is_in_place_;  // a
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
