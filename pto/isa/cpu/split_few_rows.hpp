// SPDX-License-Identifier: Apache-2.0
// Split few rows: a product of floats of at most 32 rows by tiles of bf16, whose time is that of
// splitting b once. 64 columns of b pass together, or 32; while tiles multiply one step of their
// depth, vectors split the next.
//
//     SplitFewRows<Way, Terms> few(job, a, b, row_flags);   // splits a, and flags its rows
//     few.run(0, 96, col_flags);                            // columns 0 to 95 of c
//
// Where columns of b lie along the depth, as those of a weight do, they are rows of tiles, and the
// tiles of sums are those of the transposed product: only sums are turned. Where rows of b lie
// dense a piece of the depth passes all columns of a block, so that long runs are read.
//
// Law: that of the job. The order of sums is that of SplitProduct.
// Invariant: writes the sums of c, but for rows and columns that are flagged, and nothing else.
// Thread safety: each thread has its own memory and tiles.
#pragma once
#include "pto/isa/cpu/of_thread.hpp"
#include "pto/isa/cpu/tile_split.hpp"
#include "pto/isa/cpu/tile_sums.hpp"
#include "pto/isa/cpu/transpose.hpp"

PTO_NAMESPACE_BEGIN
namespace matmul {

constexpr int kPassCols = 4 * kTileCols;  // of b that pass together beside one tile of rows of a
constexpr int kPassAhead = 4;             // steps of b that are asked for ahead
constexpr int kPassPiece = 8;             // steps of dense rows that pass together
constexpr int kPassBlock = 12;            // times 64 columns

struct FewRowsMemory {
  char streamed[2][3 * kPassCols * kTileRowBytes];  // parts of a step of b, and of the next
  char apart[2048];           // loads of `seen` would wait for stores at the same place of a page
  SplitSeen seen[kPassCols];  // of each column of b, or of each 16 of a block
  int32_t sums[kPassBlock][kSide * kPassCols], turned[kSide * kPassCols];
};

// Splits a step of b, a row of a tile at a time.
template <int Parts, bool IsTurned, int Streams>
struct SplitStep {
  const float* from;   // null: these elements lie in boxes, or apart
  int64_t line, down;  // elements from one column of b to the next, and from one of its rows
  int64_t ahead;       // elements from those to those asked for
  char* to;
  SplitSeen* seen;
  int row;

  static constexpr bool multiplies(int) { return true; }
  PTO_INLINE void next() {
    const int64_t pair = IsTurned ? kTileCols : down;
    SplitFloats x[2];
    __builtin_memcpy(&x[0], from, sizeof x[0]);
    __builtin_memcpy(&x[1], from + pair, sizeof x[1]);
    __builtin_prefetch(from + ahead);
    __builtin_prefetch(from + ahead + pair);
    constexpr int kPart = Streams * kTileBytes;
    if constexpr (IsTurned) {
      seen->add(SplitSource<Parts>::put_row(x, to, kPart));
      from += line, ++seen;
    } else {
      seen->add(SplitSource<Parts>::put_pair(x, to, kPart));
      from += 2 * down;
      if (++row % kTileRows == 0) from += kTileCols * line - 2 * kTileRows * down, ++seen;
    }
    to += kTileRowBytes;
  }
};

template <class Way, class Terms>
class SplitFewRows {
  static constexpr int kParts = Terms::kParts;
  using Source = SplitSource<kParts>;

 public:
  SplitFewRows(const pto_matmul_job& job, const Source& a, const Source& b, uint8_t* row_flags)
      : job_(job),
        b_(b),
        is_turned_(b.is_along()),
        tiles_(quotient_up(job.rows, kTileRows)),
        steps_(quotient_up(job.depth, Source::kStep)),
        whole_(job.depth / Source::kStep),
        row_flags_(row_flags),
        fixed_(size_t(steps_ + 1) * kParts * size_t(tiles_) * kTileBytes),
        memory_(of_thread<FewRowsMemory>()),
        to_(job.c, job.rows, job.cols),
        from_(job.start, job.rows, job.cols) {
    if (is_turned_)
      a.columns(0, job.rows, tiles_, 0, steps_, fixed_.get(), row_flags);
    else
      a.rows(0, job.rows, tiles_, 0, steps_, fixed_.get(), row_flags);
    configure();
  }

  // Computes at most kPassBlock times 64 columns.
  void run(int first, int count, uint8_t* col_flags) const {
    for (int i = 0; i < smaller(count, kPassCols); ++i) memory_.seen[i] = {};
    const int width = kPassCols / tiles_, length = is_turned_ ? steps_ : kPassPiece;
    Piece piece = {0, 0};
    do {
      piece = {piece.end, smaller(piece.end + length, steps_)};
      for (int col = 0; col < count; col += width) {
        const Group group = {first + col, smaller(count - col, width), col,
                             first + col + width < job_.cols};
        if (is_turned_)
          tiles_ == 1 ? pass<true, 1>(group, piece, col_flags + col)
                      : pass<true, 2>(group, piece, col_flags + col);
        else
          tiles_ == 1 ? pass<false, 1>(group, piece, col_flags + col)
                      : pass<false, 2>(group, piece, col_flags + col);
      }
    } while (piece.end < steps_);
  }

 private:
  // Columns that pass together, `at` columns from the first of their block; others follow them.
  struct Group {
    int first, count, at;
    bool has_next;
  };
  int32_t* sums_of(const Group& group) const {
    if (is_turned_) return memory_.sums[0];
    return memory_.sums[group.at / kPassCols] + group.at % kPassCols;
  }
  // Steps of the depth.
  struct Piece {
    int begin, end;
  };

  // Tiles 0 to 3 hold sums, 4 and 5 parts of b, 6 and 7 of a. Those of b are whole: what lies
  // beyond the columns makes sums that nobody reads.
  void configure() const {
    TileConfig config;
    for (int t = 0; t < tiles_; ++t) {
      const int rows = smaller(job_.rows - t * kTileRows, kTileRows), streams = 4 / tiles_;
      for (int s = 0; s < streams; ++s)
        config.set(t * streams + s, is_turned_ ? kTileRows : rows,
                   is_turned_ ? 4 * rows : kTileRowBytes);
      config.set(6 + t, is_turned_ ? kTileRows : rows, is_turned_ ? 4 * rows : kTileRowBytes);
      config.set(4 + t, kTileRows, kTileRowBytes);
    }
    config.set(5, kTileRows, kTileRowBytes);
    Way::configure(config);
  }

  template <bool IsTurned, int Tiles>
  void pass(const Group& group, const Piece& piece, uint8_t* flags) const {
    auto* const sums = reinterpret_cast<char*>(sums_of(group));
    if (piece.begin == 0 && !job_.start.data)
      for_sums<IsTurned, Tiles>([](auto tile, int) { Way::template zero<tile.value>(); });
    if (piece.begin == 0 && job_.start.data) read_start(group);
    if (piece.begin > 0 || job_.start.data)
      for_sums<IsTurned, Tiles>(
          [=](auto tile, int at) { Way::template load<tile.value>(sums + at, kLine<IsTurned>); });
    multiply<IsTurned, Tiles>(group, piece, flags);
    for_sums<IsTurned, Tiles>(
        [=](auto tile, int at) { Way::template store<tile.value>(sums + at, kLine<IsTurned>); });
    if (piece.end < steps_) return;
    look_again<IsTurned, 4 / Tiles>(group, flags);
    write(group, flags);
  }

  // Bytes from row to row of sums, or of the transposed sums.
  template <bool IsTurned>
  static constexpr int kLine = 4 * (IsTurned ? kSide : kPassCols);
  template <int T>
  struct Tile {
    static constexpr int value = T;
  };
  // Calls use(tile, bytes from the first sum) for each tile of sums.
  template <bool IsTurned, int Tiles, class Use>
  static PTO_INLINE void for_sums(Use use) {
    constexpr int kStreams = 4 / Tiles;
    const auto place = [](int tile) {
      const int a = tile / kStreams, b = tile % kStreams;
      return (IsTurned ? b : a) * kTileRows * kLine<IsTurned> + (IsTurned ? a : b) * kTileRowBytes;
    };
    use(Tile<0>(), place(0)), use(Tile<1>(), place(1));
    use(Tile<2>(), place(2)), use(Tile<3>(), place(3));
  }

  void read_start(const Group& group) const {
    int32_t* const sums = sums_of(group);
    int32_t* const rows = is_turned_ ? memory_.turned : sums;
    for (int i = 0; i < job_.rows; ++i)
      from_.read(rows + i * kPassCols, i, group.first, group.count);
    if (is_turned_) turn(sums, kSide, rows, kPassCols, group.count, job_.rows);
  }
  void write(const Group& group, const uint8_t* flags) const {
    int32_t* const sums = sums_of(group);
    int32_t* const rows = is_turned_ ? memory_.turned : sums;
    if (is_turned_) turn(rows, kPassCols, sums, kSide, job_.rows, group.count);
    float bias[kPassCols];
    if (job_.bias.data) read_bias(job_.bias, group.first, group.count, bias);
    for (int i = 0; i < job_.rows; ++i) {
      int32_t* const row = rows + i * kPassCols;
      if (row_flags_[i]) continue;
      if (job_.bias.data) add_row(row, bias, group.count);
      write_unflagged(to_, row, i, group.first, group.count, flags);
    }
  }
  static void turn(int32_t* to, int to_row, const int32_t* from, int from_row, int lines,
                   int length) {
    moves::transpose_lines<4>(reinterpret_cast<char*>(to), to_row * 4,
                              reinterpret_cast<const char*>(from), from_row * 4, lines, length);
  }

  // Multiplies a step while the next one is split.
  template <bool IsTurned, int Tiles>
  void multiply(const Group& group, const Piece& piece, uint8_t* flags) const {
    constexpr int kStreams = 4 / Tiles, kFixedStep = kParts * Tiles * kTileBytes;
    const bool is_whole = group.count == kStreams * kTileCols;
    for (int step = piece.begin - 1; step < piece.end; ++step) {
      SplitStep<kParts, IsTurned, kStreams> next = {};
      if (is_whole && step + 1 < smaller(whole_, piece.end))
        next = split_of<IsTurned, kStreams>(group, piece, step + 1);
      if (next.from && step < piece.begin)
        for (int row = 0; row < kStreams * kTileRows; ++row) next.next();
      if (!next.from && step + 1 < piece.end) split<kStreams>(group, step + 1, flags);
      if (step < piece.begin) continue;
      const char* const fixed = fixed_.get() + int64_t{step} * kFixedStep;
      const char* const streamed = memory_.streamed[step % 2];
      NoSplit none = {quotient_up(group.count, kTileCols)};
      if (next.from)
        multiply_step<IsTurned, Tiles>(fixed, streamed, next);
      else
        multiply_step<IsTurned, Tiles>(fixed, streamed, none);
    }
  }

  // Splits a step of any layout and flags columns.
  template <int Streams>
  void split(const Group& group, int step, uint8_t* flags) const {
    char* const to = memory_.streamed[step % 2];
    const int k = step * Source::kStep;
    if (is_turned_) {
      b_.rows(group.first, group.count, Streams, k, 1, to, flags);
    } else {
      for (int j = 0; j < group.count; j += kTileCols)
        b_.columns(group.first + j, smaller(group.count - j, kTileCols), Streams, k, 1,
                   to + j / kTileCols * kTileBytes, flags + j);
    }
  }

  // Splits nothing; only some tiles of b hold columns.
  struct NoSplit {
    int tiles;
    bool multiplies(int stream) const { return stream < tiles; }
    void next() {}
  };
  template <bool IsTurned, int Streams>
  SplitStep<kParts, IsTurned, Streams> split_of(const Group& group, const Piece& piece,
                                                int step) const {
    const int64_t down = b_.depth_step(), along = Source::kStep * down;
    const bool has_vectors = IsTurned || b_.line_step() == 1;
    const float* const from =
        has_vectors ? b_.plain(group.first, group.count, step * Source::kStep) : nullptr;
    // The first steps of the next columns follow the last ones of these.
    int64_t ahead = kPassAhead * along;
    if (step + kPassAhead >= piece.end)
      ahead += group.count * b_.line_step() - (piece.end - piece.begin) * along;
    return {from,
            b_.line_step(),
            down,
            group.has_next || step + kPassAhead < piece.end ? ahead : 0,
            memory_.streamed[step % 2],
            memory_.seen + (IsTurned ? 0 : group.at / kTileCols),
            0};
  }

  // Flags columns of which something doubtful passed.
  template <bool IsTurned, int Streams>
  void look_again(const Group& group, uint8_t* flags) const {
    constexpr int kWidth = IsTurned ? 1 : kTileCols;
    for (int at = 0; at < group.count; at += kWidth) {
      SplitSeen& seen = memory_.seen[IsTurned ? at : (group.at + at) / kWidth];
      if (!seen.is_doubtful()) continue;
      if (IsTurned)
        b_.flag_rows(group.first + at, 1, 0, whole_, flags + at);
      else
        b_.flag_columns(group.first + at, smaller(group.count - at, kWidth), 0, whole_, flags + at);
      seen = {};
    }
  }

  // Multiplies a step while `split` splits the next.
  template <bool IsTurned, int Tiles, class Split>
  static PTO_INLINE void multiply_step(const char* fixed, const char* streamed, Split& split) {
    terms<IsTurned, Tiles>(typename IndicesTo<Terms::kTerms>::type(), fixed, streamed, split);
  }
  template <bool IsTurned, int Tiles, class Split, int... I>
  static PTO_INLINE void terms(Indices<I...>, const char* fixed, const char* streamed,
                               Split& split) {
    (term<IsTurned, Tiles, I>(fixed, streamed, split), ...);
  }
  template <bool IsTurned, int Tiles, int I, class Split>
  static PTO_INLINE void term(const char* fixed, const char* streamed, Split& split) {
    constexpr bool kIsNew = I == 0 || Terms::a[I] != Terms::a[I > 0 ? I - 1 : 0];
    fixed += Terms::a[I] * Tiles * kTileBytes, streamed += Terms::b[I] * (4 / Tiles) * kTileBytes;
    if constexpr (kIsNew) Way::template load<6>(fixed, kTileRowBytes);
    if constexpr (kIsNew && Tiles == 2) Way::template load<7>(fixed + kTileBytes, kTileRowBytes);
    products<IsTurned, Tiles, I, 0>(streamed, split);
    products<IsTurned, Tiles, I, 1>(streamed, split);
    if constexpr (Tiles == 1) {
      products<IsTurned, Tiles, I, 2>(streamed, split);
      products<IsTurned, Tiles, I, 3>(streamed, split);
    }
  }
  // The products of one tile of b.
  template <bool IsTurned, int Tiles, int I, int Stream, class Split>
  static PTO_INLINE void products(const char* streamed, Split& split) {
    constexpr int kRight = 4 + Stream % 2, kFirst = I * 4 + Stream * Tiles;
    if (!split.multiplies(Stream)) return;
    Way::template load<kRight>(streamed + Stream * kTileBytes, kTileRowBytes);
    add<IsTurned, Stream, 6, kRight>();
    split_part<kFirst, Tiles>(split);
    if constexpr (Tiles == 2) {
      add<IsTurned, 2 + Stream, 7, kRight>();
      split_part<kFirst + 1, Tiles>(split);
    }
  }
  template <bool IsTurned, int Sum, int Left, int Right>
  static PTO_INLINE void add() {
    if constexpr (IsTurned)
      Way::template add<Sum, Right, Left>();
    else
      Way::template add<Sum, Left, Right>();
  }
  template <int Product, int Tiles, class Split>
  static PTO_INLINE void split_part(Split& split) {
    constexpr int kProducts = Terms::kTerms * 4, kUnits = 4 / Tiles * kTileRows;
#pragma GCC unroll 1
    for (int i = Product * kUnits / kProducts; i < (Product + 1) * kUnits / kProducts; ++i)
      split.next();
  }

  const pto_matmul_job& job_;
  const Source& b_;
  const bool is_turned_;
  const int tiles_, steps_, whole_;  // tiles of rows of a; steps of the depth, and whole ones
  const uint8_t* const row_flags_;
  const Room<char> fixed_;  // parts of a
  FewRowsMemory& memory_;
  const Place to_, from_;
};

}  // namespace matmul
PTO_NAMESPACE_END
