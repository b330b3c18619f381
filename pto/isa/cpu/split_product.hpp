// SPDX-License-Identifier: Apache-2.0
// Split product: a product of floats by tiles of bf16. Each operand is split into parts, whose
// products are added with f32 sums. Three parts make six products that count, with the error of a
// product of floats; two parts make three; one part makes the product of operands rounded to bf16.
//
//     run_split<HardwareTiles>(job);   // job.precision says how many parts
//
// Rows of a and columns of b that tile_split.hpp flags are multiplied as floats, all others by
// tiles. b is split once: to `packed`, to a block that stays near, or, for at most 32 rows, step by
// step (split_few_rows.hpp), in the same order of sums.
//
// Law: that of the job. Per 32 of depth the products of parts follow each other in one order, so
// the bits of an element depend on its own row of a and column of b, however the work is cut.
// Invariant: writes the rows x cols of job.c, or packed, and nothing else; reads only operands.
// Thread safety: each thread has its own memory and tiles.
#pragma once
#include "pto/isa/cpu/split_few_rows.hpp"
#include "pto/isa/cpu/split_kernel.hpp"

PTO_NAMESPACE_BEGIN
namespace matmul {

// Sizes for a second cache of 2 MB: rows of a that are split at once take 768 KB, a panel of b
// 192 KB. Each element of a is split again for each block of b. A block takes up to 4.5 MB.
constexpr int kSplitSteps = 32, kSplitRows = 128, kSplitPanels = 24;
constexpr int kSplitFlags = 64 << 10;  // rows of a job
constexpr int kSplitNear = 4;          // panels that are split together beside at most 128 rows
constexpr int kSplitPiece = 2;         // steps of dense rows of b that are split together

static_assert(kSplitPanels * kSide == kPassBlock * kPassCols);

struct SplitPanels {
  static constexpr int kParts = 3, kLeftTiles = kSplitSteps * kSplitRows / kTileRows;
  char left[kLeftTiles * kParts * kTileBytes];
  char right[kSplitPanels * kSplitSteps * kParts * kPair];
  SumCopies sums;  // or a row of a, of kSplitSteps
  uint8_t row_flags[kSplitFlags], col_flags[kSplitPanels * kSide];
};

inline int64_t split_steps(int depth) { return quotient_up(depth, 2 * kTileCols); }
inline int64_t split_parts_bytes(int parts, int depth, int cols) {
  return split_steps(depth) * parts * quotient_up(cols, kTileCols) * kTileBytes;
}
// Parts of b, panel by panel, then the flags of its columns.
inline int64_t split_packed_bytes(int parts, int depth, int cols) {
  return split_parts_bytes(parts, depth, cols) + int64_t{quotient_up(cols, kSide)} * kSide;
}

// Returns the matrix of floats from a row and a column on, each the first of a box.
inline pto_matmul_matrix moved(pto_matmul_matrix m, int row, int col) {
  if (m.data) m.data = static_cast<float*>(m.data) + rows_of(m).at(row) + cols_of(m).at(col);
  return m;
}

template <class Tiles, class Terms>
class SplitProduct {
  using Way = PairTiles<Tiles>;
  using Source = SplitSource<Terms::kParts>;
  static constexpr int kParts = Terms::kParts;

 public:
  explicit SplitProduct(const pto_matmul_job& job)
      : job_(job),
        a_(job.a, true, job.depth),
        b_(job.b, false, job.depth),
        steps_(int(split_steps(job.depth))),
        packed_cols_(job.packed_cols ? job.packed_cols : job.cols),
        reads_packed_(job.packed != nullptr),
        has_few_rows_(!reads_packed_ && job.rows <= kSide),
        panels_(of_thread<SplitPanels>()),
        sums_(job, panels_.sums,
              /*copies_lines=*/job.rows > kTileRows && steps_ * kCopyRows >= kSide) {}

  void run() {
    if (job_.packs) return pack();
    __builtin_memset(panels_.row_flags, 0, size_t(job_.rows));
    if (has_few_rows_) {
      const SplitFewRows<Way, Terms> few(job_, a_, b_, panels_.row_flags);
      for_blocks([&](int begin, int end) {
        choose_flags(begin);
        few.run(begin * kSide, smaller(end * kSide, job_.cols) - begin * kSide,
                flags_ + begin * kSide);
        redo(begin, end);
      });
    } else {
      cuts_ = steps_ > 0 ? quotient_up(steps_, kSplitSteps) : 1;
      looks_first_ = cuts_ > 1 && job_.start.data;
      if (looks_first_) look_at_rows();
      for_blocks([&](int begin, int end) { run_block(begin, end); });
    }
    Way::release();
  }

 private:
  // Some panels of 32 columns, and steps of the depth.
  struct Block {
    int begin, end, first, steps;
  };
  int cols_of_panel(int p) const { return smaller(job_.cols - p * kSide, kSide); }

  // Packed panels lie one after another; all but the last have two tiles.
  int packed_tiles(int p) const {
    return (p + job_.packed_first / kSide) * kSide + kTileCols < packed_cols_ ? 2 : 1;
  }
  char* packed(int p, int step) const {
    const int64_t panel = int64_t(p + job_.packed_first / kSide) * steps_ * kParts * kPair;
    return static_cast<char*>(job_.packed) + panel +
           int64_t(step) * kParts * packed_tiles(p) * kTileBytes;
  }
  uint8_t* packed_flags(int p) const {
    return static_cast<uint8_t*>(job_.packed) +
           split_parts_bytes(kParts, job_.depth, packed_cols_) + job_.packed_first + p * kSide;
  }

  void pack() const {
    for (int p = 0; p * kSide < job_.cols; ++p) {
      uint8_t* const flags = packed_flags(p);
      const int cols = cols_of_panel(p);
      __builtin_memset(flags, 0, kSide);
      b_.columns(p * kSide, cols, packed_tiles(p), 0, steps_, packed(p, 0), flags);
      b_.keep(p * kSide, cols, packed_tiles(p), 0, steps_, packed(p, 0), flags);
    }
  }

  // Where the depth is cut sums lie in c before all of a row was seen. Flagged ones are made again,
  // unless they begin with what lay there: then flags are found first.
  void look_at_rows() const {
    for (int row = 0; row < job_.rows; row += kSide)
      a_.flag_rows(row, smaller(job_.rows - row, kSide), 0, steps_, panels_.row_flags + row);
  }

  // Calls use(begin, end) for panels that share the memory of a block.
  template <class Use>
  void for_blocks(Use use) const {
    const int panels = quotient_up(job_.cols, kSide), blocks = quotient_up(panels, kSplitPanels);
    for (int block = 0; block < blocks; ++block)
      use(share(panels, block, blocks), share(panels, block + 1, blocks));
  }
  void choose_flags(int begin) {
    uint8_t* const flags = reads_packed_ ? packed_flags(begin) : panels_.col_flags;
    if (!reads_packed_) __builtin_memset(flags, 0, sizeof panels_.col_flags);
    flags_ = flags - begin * kSide;
  }

  void run_block(int begin, int end) {
    choose_flags(begin);
    for (int p = begin; looks_first_ && !reads_packed_ && p < end; ++p)
      b_.flag_columns(p * kSide, cols_of_panel(p), 0, steps_, flags_ + p * kSide);
    sums_.flags = {panels_.row_flags, flags_};
    for (int cut = 0; cut < cuts_; ++cut) {
      const int first = share(steps_, cut, cuts_);
      run_cut({begin, end, first, share(steps_, cut + 1, cuts_) - first});
    }
    redo(begin, end);
  }

  // Where all rows of a are split at once, some panels of b are split before they are multiplied,
  // and stay near; else all panels of the block are split first.
  void run_cut(const Block& block) {
    const int near = near_panels(block);
    for (int row = 0; row < job_.rows; row += kSplitRows) {
      const int end = smaller(job_.rows, row + kSplitRows);
      for (int i = row; i < end; i += kSide)
        a_.rows(i, smaller(end - i, kSide), end - i > kTileRows ? 2 : 1,
                block.first * Source::kStep, block.steps, left(block, i - row),
                panels_.row_flags + i);
      for (int p = block.begin; p < block.end; ++p) {
        if (row == 0 && (p - block.begin) % near == 0)
          split_panels(block, p, smaller(block.end, p + near));
        for (int i = row; i < end; i += kSide)
          multiply(block, p, {i, smaller(end - i, kSide), p * kSide, cols_of_panel(p)}, i - row);
      }
    }
    sums_.finish();
  }
  int near_panels(const Block& block) const {
    return job_.rows <= kSplitRows ? kSplitNear : block.end - block.begin;
  }
  // Where rows of b lie dense a piece of the depth of all panels is split after another, so that
  // longer runs are read.
  void split_panels(const Block& block, int begin, int end) {
    const int piece = b_.is_along() ? block.steps : kSplitPiece;
    for (int step = 0; !reads_packed_ && step < block.steps; step += piece)
      for (int p = begin; p < end; ++p)
        b_.columns(p * kSide, cols_of_panel(p), block_tiles(p),
                   (block.first + step) * Source::kStep, smaller(piece, block.steps - step),
                   block_panel(block, p) + int64_t(step) * kParts * block_tiles(p) * kTileBytes,
                   flags_ + p * kSide);
  }
  char* left(const Block& block, int row) const {
    return panels_.left + int64_t(row / kSide) * block.steps * kParts * kPair;
  }
  int block_tiles(int p) const { return cols_of_panel(p) > kTileCols ? 2 : 1; }
  char* block_panel(const Block& block, int p) const {
    const int place = (p - block.begin) % near_panels(block);
    return panels_.right + int64_t(place) * block.steps * kParts * kPair;
  }

  void multiply(const Block& block, int p, const Square& s, int row) {
    const bool is_first = block.first == 0, is_last = block.first + block.steps == steps_;
    const auto kernel = kernel_of(s);
    SplitOperands in = {};
    in.a = left(block, row), in.a_part = (s.rows > kTileRows ? 2 : 1) * kTileBytes;
    in.steps = block.steps;
    if (reads_packed_) {
      in.b = packed(p, block.first), in.b_part = packed_tiles(p) * kTileBytes;
      in.ahead = row == 0 ? 2 * kParts * in.b_part : 0;
    } else {
      in.b = block_panel(block, p), in.b_part = block_tiles(p) * kTileBytes;
    }
    sums_.make(s, is_first, is_last,
               [&](const TilePlace& from, const TilePlace& to) { kernel(in, from, to, sums_); });
  }

  static auto kernel_of(const Square& s) {
    if (s.rows > kTileRows)
      return s.cols > kTileCols ? &SplitKernel<Way, Terms, 2, 2>::run
                                : &SplitKernel<Way, Terms, 2, 1>::run;
    return s.cols > kTileCols ? &SplitKernel<Way, Terms, 1, 2>::run
                              : &SplitKernel<Way, Terms, 1, 1>::run;
  }

  // Multiplies flagged rows and columns as floats, by what the parts of the others stand for:
  // packed or not, transposed or not, that is the same.
  void redo(int begin, int end) {
    const bool has_rows = has_flag(panels_.row_flags, job_.rows);
    for (int p = begin; p < end; ++p)
      if (has_rows || has_flag(flags_ + p * kSide, cols_of_panel(p))) redo_panel(p);
  }
  void redo_panel(int p) {
    auto* const floats = reinterpret_cast<float*>(panels_.left);
    for (int step = 0; step < steps_; step += kSplitSteps) {
      const int steps = smaller(steps_ - step, kSplitSteps), k = step * Source::kStep;
      int tiles = 2;
      const char* parts = panels_.right;
      if (reads_packed_) {
        parts = packed(p, step), tiles = packed_tiles(p);
      } else {
        uint8_t* const flags = flags_ + p * kSide;
        b_.columns(p * kSide, cols_of_panel(p), tiles, k, steps, panels_.right, flags);
        b_.keep(p * kSide, cols_of_panel(p), tiles, k, steps, panels_.right, flags);
      }
      Source::join(parts, tiles, steps, flags_ + p * kSide, floats);
      redo_piece(p, k, smaller(job_.depth - k, steps * Source::kStep), floats);
    }
  }
  // `b` has 32 columns beside each other.
  void redo_piece(int p, int k, int depth, float* b) {
    constexpr bool kRounds = kParts == 2;  // three parts are the float
    const bool is_flat = is_one_box(job_.a) && is_one_box(job_.c) && is_one_box(job_.start);
    for (int row = 0, end = 0; row < job_.rows; row = end) {
      const uint8_t flag = panels_.row_flags[row];
      for (end = row + 1; is_flat && end < job_.rows && panels_.row_flags[end] == flag;) ++end;
      if (flag) {
        const Square s = {row, end - row, p * kSide, cols_of_panel(p)};
        redo_part(s, k, depth, moved(job_.a, row, k), b);
        continue;
      }
      pto_matmul_matrix a = moved(job_.a, row, k);
      if (kRounds) {
        auto* const rounded = reinterpret_cast<float*>(panels_.sums);
        a_.round(row, k, quotient_up(depth, Source::kStep), rounded);
        a = matrix_of(rounded), end = row + 1;
      }
      for (int j = 0; j < cols_of_panel(p); ++j)
        if (flags_[p * kSide + j])
          redo_part({row, end - row, p * kSide + j, 1}, k, depth, a, b + j);
    }
  }
  static pto_matmul_matrix matrix_of(float* rows) {
    return {rows, PTO_MATMUL_F32, PTO_MATMUL_UNBOXED, PTO_MATMUL_UNBOXED, 0, 0, kSide, 1};
  }
  bool is_one_box(const pto_matmul_matrix& m) const { return !m.data || m.box_rows >= job_.rows; }

  void redo_part(const Square& s, int k, int depth, const pto_matmul_matrix& a, float* b) const {
    pto_matmul_job part = {};
    part.rows = s.rows, part.depth = depth, part.cols = s.cols;
    part.a = a, part.b = matrix_of(b);
    part.c = moved(job_.c, s.row, s.col);
    part.start = k == 0 ? moved(job_.start, s.row, s.col) : part.c;
    if (k + depth == job_.depth) part.bias = moved(job_.bias, 0, s.col);
    pto_matmul(&part);  // PTO_MATMUL_CHAIN
  }

  const pto_matmul_job& job_;
  const Source a_, b_;
  const int steps_, packed_cols_;
  const bool reads_packed_, has_few_rows_;
  SplitPanels& panels_;
  TileSums<Way> sums_;
  uint8_t* flags_ = nullptr;  // of all columns; those of a block are there
  int cuts_ = 1;              // of the depth
  bool looks_first_ = false;  // at flags
};

template <class Tiles, class Terms>
void run_split_terms(const pto_matmul_job& job) {
  for (int64_t row = 0; row == 0 || row < job.rows; row += kSplitFlags) {
    pto_matmul_job part = job;
    part.rows = smaller(int(job.rows - row), kSplitFlags);
    part.a = moved(job.a, int(row), 0), part.c = moved(job.c, int(row), 0);
    part.start = moved(job.start, int(row), 0);
    SplitProduct<Tiles, Terms>(part).run();
  }
}
template <class Tiles, class Terms>
void run_split_terms_of(const pto_matmul_job& job) {
  if (job.is_turned)
    run_split_terms<Tiles, TurnedTerms<Terms>>(job);
  else
    run_split_terms<Tiles, Terms>(job);
}

// The parts of bf16 that stand for a float.
inline int split_parts(int precision) {
  return precision == PTO_MATMUL_MEDIUM ? 1 : precision == PTO_MATMUL_HIGH ? 2 : 3;
}

// For f32, both.
template <class Tiles>
void run_split(const pto_matmul_job& job) {
  const int parts = split_parts(job.precision);
  if (parts == 1)
    run_split_terms<Tiles, OnePart>(job);
  else if (parts == 2)
    run_split_terms_of<Tiles, TwoParts>(job);
  else
    run_split_terms_of<Tiles, ThreeParts>(job);
}

}  // namespace matmul
PTO_NAMESPACE_END
