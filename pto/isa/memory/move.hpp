// SPDX-License-Identifier: Apache-2.0
// TMOV, TEXTRACT, TINSERT: move a rectangle of one tile to another, whatever their layouts;
// accumulators change type, scale and sign (relu) on their way.
//
//     TMOV(left, nz);                                     // the valid region
//     TEXTRACT(left, mat, 32, 64);                        // d[i, j] = s[32 + i, 64 + j]
//     TINSERT(mat, acc, 0, 64);                           // d[i, 64 + j] = s[i, j]
//     TMOV<Vec, Acc, ReluPreMode::NormalRelu>(vec, acc);
//     TEXTRACT_FP(mat, acc, fp, 0, 16);                   // entry fp[0, 16 + j] for column j
//
// TMOV takes a number after the tiles as the entry of fixpipe.hpp. The others take row and column
// after it: three numbers are entry, row, column; two are row and column unless the first is an
// uint64_t. AccToVecMode: where the destination holds half of the source's rows (SplitM) or columns
// (SplitN), the second sub-block gets the second half; else every sub-block gets all.
//
// Invariant: elements of the destination outside the rectangle keep their values; elements that
// would lie outside either tile are left out. Tiles may overlap.
// Thread safety: a tile belongs to one thread.
#pragma once
#include "pto/isa/kernel/enter.hpp"
#include "pto/isa/kernel/kernel.hpp"
#include "pto/isa/matrix/fixpipe_copy.hpp"
#include "pto/isa/matrix/matrix_transfer.hpp"

PTO_NAMESPACE_BEGIN

// How a chip cuts the insertion; the result is the same.
enum class TInsertMode : uint8_t { SPLIT2 = 2, SPLIT4 = 3 };
// From rows to boxes; the layouts of the tiles say so too.
enum class TileCopyMode : uint8_t { ND2NZ };

namespace moves {

struct Window {
  int64_t d_row, d_col, s_row, s_col, rows, cols;
};

// Copies a tile's storage where both tiles overlap and differ, else is the storage itself.
template <class D, class S>
struct Source {
  static constexpr size_t kBytes = S::kStored * sizeof(typename S::DType);
  char* owned = nullptr;
  Matrix matrix;

  PTO_INLINE Source(const D& d, const S& s, const Window& w, bool is_turned)
      : matrix(matrix_of(s, w.s_row, w.s_col)) {
    const char* from = matrix.base;
    const char* to = bytes_of(d.data());
    const bool is_same =
        kSameLayout<D, S> && !is_turned && from == to && w.s_row == w.d_row && w.s_col == w.d_col;
    if (from >= to + D::kStored * sizeof(typename D::DType) || to >= from + kBytes || is_same)
      return;
    owned = static_cast<char*>(needed_memory(kBytes));
    __builtin_memcpy(owned, from, kBytes);
    matrix.base = owned;
  }
  Source(const Source&) = delete;
  PTO_INLINE ~Source() {
    if (owned) pto_free(owned);
  }
};

template <ReluPreMode Relu, Quant Q, class D, class S>
PTO_INLINE void move_window(D& d, const S& s, const Window& w, const uint64_t* entries) {
  const Source<D, S> from(d, s, w, false);
  using To = typename D::DType;
  using From = typename S::DType;
  const Matrix to = matrix_of(d, w.d_row, w.d_col);
  if constexpr (Rules::kConvertsAllTiles && S::Loc != TileType::Acc && !kSame<To, From>)
    send_changed<To, From, Relu, Q, AtomicType::AtomicNone>(to, from.matrix, w.rows, w.cols,
                                                            entries);
  else
    send_matrix<To, From, Relu, Q>(to, from.matrix, w.rows, w.cols, entries);
}

// The rectangle that each instruction means by (row, col).
struct Move {
  static constexpr bool kTakesPosition = false;
  template <class D, class S>
  static PTO_INLINE Window window(const D& d, const S& s, int64_t, int64_t) {
    const int64_t rows = least(d.GetValidRow(), s.GetValidRow());
    return {0, 0, 0, 0, rows, least(d.GetValidCol(), s.GetValidCol())};
  }
};
struct Extract {
  static constexpr bool kTakesPosition = true;
  template <class D, class S>
  static PTO_INLINE Window window(const D& d, const S&, int64_t row, int64_t col) {
    return {0, 0, row, col, d.GetValidRow(), d.GetValidCol()};
  }
};
struct Insert {
  static constexpr bool kTakesPosition = true;
  template <class D, class S>
  static PTO_INLINE Window window(const D&, const S& s, int64_t row, int64_t col) {
    return {row, col, 0, 0, s.GetValidRow(), s.GetValidCol()};
  }
};

template <AccToVecMode Mode, class D, class S>
PTO_INLINE void take_half(Window& w, const D& d, const S& s) {
  if (Mode == AccToVecMode::DualModeSplitM && s.GetValidRow() - w.s_row >= 2 * d.GetValidRow())
    w.s_row += get_subblockid() * d.GetValidRow();
  if (Mode == AccToVecMode::DualModeSplitN && s.GetValidCol() - w.s_col >= 2 * d.GetValidCol())
    w.s_col += get_subblockid() * d.GetValidCol();
}

// Returns the operand as a number, or 0; count_numbers() counts those before other operands.
template <class T>
PTO_INLINE uint64_t number_of(const T& x) {
  if constexpr (kFirstIsNumber<T>)
    return uint64_t(x);
  else
    return 0;
}
template <class... X>
constexpr int count_numbers() {
  bool goes_on = true;
  int n = 0;
  ((goes_on = goes_on && kFirstIsNumber<X>, n += goes_on), ...);
  return n;
}
// True where the first of the operands after the tiles is an entry, in front of row and column.
template <class... X>
constexpr bool is_entry() {
  return count_numbers<X...>() == 3;
}

template <class D, class S>
constexpr bool check_tiles() {
  static_assert(kIsTile<D> && kIsTile<S>,
                "TMOV, TEXTRACT, TINSERT: the first two operands are tiles; for memory use TLOAD "
                "and TSTORE");
  return true;
}
template <class D, class S, bool Quantised>
constexpr bool check_move() {
  using To = typename D::DType;
  using From = typename S::DType;
  // TQUANT writes the codes of narrow floats as bytes.
  constexpr bool kAreCodes =
      sizeof(To) == 1 && sizeof(From) == 1 && kSame<To, Raw<To>> != kSame<From, Raw<From>>;
  static_assert(kSame<To, From> || kAreCodes || S::Loc == TileType::Acc ||
                    D::Loc == TileType::Bias || Rules::kConvertsAllTiles,
                "TMOV, TEXTRACT, TINSERT: only accumulators and biases change their type; convert "
                "other tiles with TCVT");
  static_assert(Quantised || S::Loc != TileType::Acc || kIsFloat<To> == kIsFloat<From>,
                "TMOV, TEXTRACT, TINSERT: an accumulator becomes integers (or an integer one "
                "becomes floats) only by quantisation; give a preQuantScalar or entries");
  static_assert(!Quantised || S::Loc == TileType::Acc || Rules::kConvertsAllTiles,
                "TMOV, TEXTRACT, TINSERT: only an accumulator is quantised; use TQUANT");
  return true;
}

// Leaves out of `count` lines those that would lie before the first one of either tile.
PTO_INLINE void cut_front(int64_t& d, int64_t& s, int64_t& count) {
  const int64_t before = least(0, least(d, s));
  d -= before, s -= before, count += before;
}

template <class Op, ReluPreMode Relu, AccToVecMode Mode, Quant Q, class D, class S, class... X>
PTO_INLINE void move_by(D& d, const S& s, const uint64_t* entries, const X&... x) {
  static_assert(check_move<D, S, Q != Quant::None>());
  const uint64_t n[] = {number_of(x)..., 0, 0};
  Window w = Op::window(d, s, int64_t(n[0]), int64_t(n[1]));
  take_half<Mode>(w, d, s);
  cut_front(w.d_row, w.s_row, w.rows);
  cut_front(w.d_col, w.s_col, w.cols);
  w.rows = least(w.rows, least(D::Rows - w.d_row, S::Rows - w.s_row));
  w.cols = least(w.cols, least(D::Cols - w.d_col, S::Cols - w.s_col));
  if constexpr (Q == Quant::Columns) entries += w.s_col;
  move_window<Relu, Q>(d, s, w, entries);
  PTO_IF_CHECKED(if constexpr (kSame<Op, Insert>) {
    checked::note_part(d, int(w.d_row), int(w.d_col), int(w.rows), int(w.cols));
    checked::end_part(d);
  })
}

template <class D, class S>
constexpr bool kIsPlainMove = kSame<typename D::DType, typename S::DType>&& kSameLayout<D, S>&&
                                  kIsMicro<D>&& kIsFull<D>&& kIsFull<S> &&
                              !kIsTwin<typename D::DType>;

// Dispatches on the form, which the first of the trailing operands tells.
template <class Op, ReluPreMode Relu, AccToVecMode Mode, class D, class S>
PTO_INLINE void move_form(D& d, const S& s) {
  static_assert(check_tiles<D, S>());
  if constexpr (kIsPlainMove<D, S> && Relu == ReluPreMode::NoRelu && kSame<Op, Move>)
    detail::copy_unrolled<kTileLanes<D>, D::Numel / kTileLanes<D>>(d.data(), s.data());
  else
    move_by<Op, Relu, Mode, Quant::None>(d, s, nullptr);
}
template <class Op, ReluPreMode Relu, AccToVecMode Mode, class D, class S, class First, class... X>
PTO_INLINE void move_form(D& d, const S& s, const First& first, const X&... x) {
  static_assert(check_tiles<D, S>());
  if constexpr (kIsTile<First>) {
    if constexpr ((First::Loc == TileType::Scaling ||
                   (Rules::kTakesScalesAnywhere && sizeof(typename First::DType) == 8)) &&
                  kIsQuantised<typename D::DType, S>)
      move_by<Op, Relu, Mode, Quant::Columns>(d, s, entries_of(first), x...);
    else
      move_form<Op, Relu, Mode>(d, s, x...);
  } else if constexpr (is_entry<First, X...>() || (!Op::kTakesPosition && kFirstIsNumber<First>)) {
    const uint64_t entry = uint64_t(first);
    constexpr Quant kQuant = kIsQuantised<typename D::DType, S> ? Quant::Scalar : Quant::None;
    move_by<Op, Relu, Mode, kQuant>(d, s, &entry, x...);
  } else {
    move_by<Op, Relu, Mode, Quant::None>(d, s, nullptr, first, x...);
  }
}

// Returns the operands of a form, as forms.def writes them.
template <bool TakesPosition>
constexpr const char* operands_of() {
  return TakesPosition ? "d, s, r, c" : "d, s";
}
template <bool TakesPosition, class First, class... X>
constexpr const char* operands_of() {
  if constexpr (kIsTile<First>) {
    if (First::Loc != TileType::Scaling) return "d, s, tmp";
    return TakesPosition ? "d, s, fp, r, c" : "d, s, fp";
  }
  if (TakesPosition) return is_entry<First, X...>() ? "d, s, preQuantScalar, r, c" : "d, s, r, c";
  return kFirstIsNumber<First> ? "d, s, preQuantScalar" : "d, s";
}

}  // namespace moves

// Explicit template types name deduced ones, as in the public library.
#define PTO_MOVE(M, Op, written)                                                                  \
  template <class DT = void, class ST = void, ReluPreMode Relu = ReluPreMode::NoRelu, class D,    \
            class S, class... X, typename Enable<kIsTile<S>>::type = 0>                           \
  PTO_INLINE RecordEvent M(D& d, const S& s, const X&... x) {                                     \
    PTO_ENTER(M, (moves::operands_of<Op::kTakesPosition, X...>()), out(written), in(s));          \
    if constexpr (!kSame<DT, void>) {                                                             \
      PTO_ENTER(M, "<d, s, ReluPreMode> ...", out(written), in(s));                               \
    }                                                                                             \
    moves::move_form<Op, Relu, AccToVecMode::SingleModeVec0>(d, s, x...);                         \
    return {};                                                                                    \
  }                                                                                               \
  template <class DT, class ST, AccToVecMode Mode, ReluPreMode Relu = ReluPreMode::NoRelu,        \
            class D, class S, class... X>                                                         \
  PTO_INLINE RecordEvent M(D& d, const S& s, const X&... x) {                                     \
    PTO_ENTER(M, "<d, s, AccToVecMode, ReluPreMode> ...", out(written), in(s));                   \
    moves::move_form<Op, Relu, Mode>(d, s, x...);                                                 \
    return {};                                                                                    \
  }                                                                                               \
  template <TileCopyMode Mode, class D, class S, class... X>                                      \
  PTO_INLINE RecordEvent M(D& d, const S& s, const X&... x) {                                     \
    PTO_ENTER(M, Op::kTakesPosition ? "<TileCopyMode> d, s, r, c" : "<TileCopyMode> d, s",        \
              out(written), in(s));                                                               \
    return M(d, s, x...);                                                                         \
  }                                                                                               \
  template <class DT, class ST, class FpT, ReluPreMode Relu = ReluPreMode::NoRelu, class D,       \
            class S, class F, class... X, typename Enable<kIsTile<FpT>>::type = 0>                \
  PTO_INLINE RecordEvent M(D& d, const S& s, const F& fp, const X&... x) {                        \
    PTO_ENTER(M, "<d, s, fp, ReluPreMode> ...", out(written), in(s));                             \
    moves::move_form<Op, Relu, AccToVecMode::SingleModeVec0>(d, s, fp, x...);                     \
    return {};                                                                                    \
  }                                                                                               \
  template <class DT, class ST, class FpT, AccToVecMode Mode,                                     \
            ReluPreMode Relu = ReluPreMode::NoRelu, class D, class S, class F, class... X>        \
  PTO_INLINE RecordEvent M(D& d, const S& s, const F& fp, const X&... x) {                        \
    PTO_ENTER(M, "<d, s, fp, AccToVecMode, ReluPreMode> ...", out(written), in(s));               \
    moves::move_form<Op, Relu, Mode>(d, s, fp, x...);                                             \
    return {};                                                                                    \
  }                                                                                               \
  template <class DT = void, class ST = void, class FpT = void,                                   \
            ReluPreMode Relu = ReluPreMode::NoRelu, class D, class S, class F, class... X>        \
  PTO_INLINE RecordEvent M##_FP(D& d, const S& s, const F& fp, const X&... x) {                   \
    PTO_ENTER(M##_FP, Op::kTakesPosition ? "d, s, fp, r, c" : "d, s, fp", out(written), in(s));   \
    static_assert(moves::check_entries<F, moves::kIsQuantised<typename D::DType, S>>());          \
    moves::move_form<Op, Relu, AccToVecMode::SingleModeVec0>(d, s, fp, x...);                     \
    return {};                                                                                    \
  }                                                                                               \
  template <STPhase Phase, class DT, class ST, class FpT, ReluPreMode Relu = ReluPreMode::NoRelu, \
            class D, class S, class F, class... X>                                                \
  PTO_INLINE RecordEvent M##_FP(D& d, const S& s, const F& fp, const X&... x) {                   \
    return M##_FP<DT, ST, FpT, Relu>(d, s, fp, x...);                                             \
  }
PTO_MOVE(TMOV, moves::Move, d)
PTO_MOVE(TEXTRACT, moves::Extract, d)
PTO_MOVE(TINSERT, moves::Insert, PTO_PART(d))
#undef PTO_MOVE

// The phase says whether more partial results follow; each move is complete here.
template <STPhase Phase, class DT = void, class ST = void, ReluPreMode Relu = ReluPreMode::NoRelu,
          class D, class S, class... X>
PTO_INLINE RecordEvent TMOV(D& d, const S& s, const X&... x) {
  PTO_ENTER(TMOV, "<STPhase> ...", out(d), in(s));
  return TMOV<DT, ST, Relu>(d, s, x...);
}
template <STPhase Phase, class DT, class ST, AccToVecMode Mode,
          ReluPreMode Relu = ReluPreMode::NoRelu, class D, class S, class... X>
PTO_INLINE RecordEvent TMOV(D& d, const S& s, const X&... x) {
  PTO_ENTER(TMOV, "<STPhase> ...", out(d), in(s));
  return TMOV<DT, ST, Mode, Relu>(d, s, x...);
}
// Moves scales of groups along an axis; the layouts of the two tiles say how they are stored.
template <int GroupAxis, class D, class S, class Tmp, class... X>
PTO_INLINE RecordEvent TMOV(D& d, const S& s, const Tmp&, const X&... x) {
  PTO_ENTER(TMOV, "<grp_axis> d, s, tmp", out(d), in(s));
  return TMOV(d, s, x...);
}

// Extracts two rectangles of one tile.
template <class D0, class D1, class S, class... X, typename Enable<kIsTile<S>>::type = 0>
PTO_INLINE RecordEvent TEXTRACT(D0& d0, D1& d1, const S& s, int r0, int c0, int r1, int c1,
                                const X&...) {
  PTO_ENTER(TEXTRACT, "d0, d1, s, r0, c0, r1, c1", out(d0, d1), in(s));
  moves::move_form<moves::Extract, ReluPreMode::NoRelu, AccToVecMode::SingleModeVec0>(d0, s, r0,
                                                                                      c0);
  moves::move_form<moves::Extract, ReluPreMode::NoRelu, AccToVecMode::SingleModeVec0>(d1, s, r1,
                                                                                      c1);
  return {};
}

template <TInsertMode Mode, class D, class S, class... X>
PTO_INLINE RecordEvent TINSERT(D& d, const S& s, const X&... x) {
  PTO_ENTER(TINSERT, "<TInsertMode> d, s, r, c", out(PTO_PART(d)), in(s));
  return TINSERT(d, s, x...);
}

PTO_NAMESPACE_END
