// SPDX-License-Identifier: Apache-2.0
// Matrix transfer: TLOAD and TSTORE between every layout of memory and of tiles, and the forms of
// TSTORE that change elements on their way out.
//
//     TLOAD(nz, GlobalTensor<half, Shape<1, 1, 1, 64, 64>, Stride<1, 1, 1, 64, 1>>(x));
//     TSTORE<AccTile, View, AtomicType::AtomicAdd>(view, acc);          // adds to memory
//     TSTORE(view, acc, preQuantScalar);                                // scales, see fixpipe.hpp
//     TSTORE_FP(view, acc, fp);                                         // an entry for each column
//
// transfer.hpp has the entry points, and sends here every transfer that is not a line of registers.
//
// Invariant: memory outside the view and outside the valid region is never touched. TLOAD fills
// the tile's padding with its padding value (0 unless it names one).
// Thread safety: blocks may load the same memory, or add to it atomically; any other store must be
// alone there.
#pragma once
#include "pto/isa/matrix/fixpipe_copy.hpp"
#include "pto/isa/memory/transfer.hpp"
#include "pto/isa/tile/tile_layouts.hpp"

PTO_NAMESPACE_BEGIN
namespace moves {

// The dimensions of a view that make the row and the column of an element, the innermost first; -1
// ends them. Scales (MX) come in pairs along K, the last dimension.
struct LayoutDims {
  signed char row[5], col[5];
};
constexpr LayoutDims layout_dims(Layout layout) {
  switch (layout) {
    case Layout::DN:
      return {{3, -1}, {4, 2, 1, 0, -1}};
    case Layout::NZ:
      return {{3, 2, -1}, {4, 1, 0, -1}};
    case Layout::NC1HWC0:  // pixels by channels
      return {{3, 2, 0, -1}, {4, 1, -1}};
    case Layout::MX_A_ZZ:
    case Layout::HIF4_A_ZZ:
    case Layout::MX_A_DN:
      return {{3, 1, 0, -1}, {4, 2, -1}};
    case Layout::MX_A_ND:
      return {{2, 1, 0, -1}, {4, 3, -1}};
    case Layout::MX_B_NN:
    case Layout::HIF4_B_NN:
    case Layout::MX_B_ND:
      return {{4, 2, -1}, {3, 1, 0, -1}};
    case Layout::MX_B_DN:
      return {{4, 3, -1}, {2, 1, 0, -1}};
    default:
      return {{3, 2, 1, 0, -1}, {4, -1}};
  }
}
template <Layout Order>
inline constexpr LayoutDims kLayoutDims = layout_dims(Order);

template <class G>
PTO_INLINE CopyAxis axis_of(const G& g, const signed char* dims) {
  CopyAxis axis;
  for (; *dims >= 0; ++dims)
    axis.add(g.GetShape(*dims), g.GetStride(*dims) * int64_t(sizeof(typename G::Element)));
  return axis;
}

// Returns the dimensions of a view that make the rows and columns of a tile. The public simulator
// goes by the order of a plain tile: where several outer dimensions fit a column-major tile only as
// columns (of a view that is called ND), or any tile only as rows (DN), they are.
template <class G, class D>
PTO_INLINE const LayoutDims& dims_for(const G& g, const D& d) {
  constexpr bool kIsNd = G::layout == Layout::ND, kIsDn = G::layout == Layout::DN;
  constexpr Layout kOther = kIsNd ? Layout::DN : Layout::ND;
  if constexpr (Rules::kFitsViewsToTiles && (kIsDn || (kIsNd && !D::isRowMajor)) &&
                !D::isBoxedLayout) {
    const int64_t outer = g.GetShape(0) * g.GetShape(1) * g.GetShape(2);
    const int64_t rows = g.GetShape(3) * (kIsNd ? 1 : outer);
    const int64_t cols = g.GetShape(4) * (kIsNd ? outer : 1);
    if (outer > 1 && d.GetValidRow() == rows && d.GetValidCol() == cols) return kLayoutDims<kOther>;
  }
  return kLayoutDims<G::layout>;
}

// A view as the matrix that a tile of `cols` valid columns sees, and its share of the tile: `rows`
// whole rows, and `rest` elements of one more.
struct View {
  CopyAxis row, col;
  char* base;
  int64_t rows, cols, rest = 0;

  template <class G, class D>
  PTO_INLINE View(const G& view, const D& d)
      : base(bytes_of(view.data())), rows(d.GetValidRow()), cols(d.GetValidCol()) {
    constexpr int64_t B = sizeof(typename G::Element);
    if constexpr (G::kIsPacked) {
      row.add(kEndless, cols * B);
      col.add(kEndless, B);
      const int64_t count = view.count() < 0 ? 0 : view.count();
      if (cols > 0 && count < rows * cols) {
        rows = count / cols;
        rest = count % cols;
      }
    } else {
      const LayoutDims& dims = dims_for(view, d);
      row = axis_of(view, dims.row);
      col = axis_of(view, dims.col);
      rows = least(rows, row.extent());
      cols = least(cols, col.extent());
    }
  }
  PTO_INLINE Matrix matrix(int64_t from = 0) const { return {base, &row, &col, from, 0}; }
};

template <class G, class D>
PTO_INLINE void load_view(D& d, const G& g) {
  constexpr int B = kCopied<typename D::DType, typename G::Element>;
  const View view(g, d);
  copy_matrix<B>(matrix_of(d), view.matrix(), view.rows, view.cols);
  const typename D::DType padding = typename D::DType(padding_of<D>());
  if (view.rest > 0) {
    copy_matrix<B>(matrix_of(d, view.rows), view.matrix(view.rows), 1, view.rest);
    fill_matrix(d, view.rows, view.rest, 1, view.cols - view.rest, padding);
  }
  fill_outside(d, view.rows + (view.rest > 0), view.cols, padding);
}

template <ReluPreMode Relu, Quant Q, AtomicType A, class G, class D>
void store_changed(const G& g, const D& d, const uint64_t* entries) {
  using To = typename G::Element;
  using From = typename D::DType;
  const View view(g, d);
  // The public simulator's vectors of entries run along the lines of plain tiles.
  if constexpr (Rules::kScalesRunAlongLines && Q == Quant::Columns && !D::isRowMajor &&
                !D::isBoxedLayout && !G::kIsPacked)
    return send_matrix<To, From, Relu, Q, A>(turned(view.matrix()), turned(matrix_of(d)), view.cols,
                                             view.rows, entries);
  send_matrix<To, From, Relu, Q, A>(view.matrix(), matrix_of(d), view.rows, view.cols, entries);
  if (view.rest > 0)
    send_matrix<To, From, Relu, Q, A>(view.matrix(view.rows), matrix_of(d, view.rows), 1, view.rest,
                                      entries);
}

// True where the first trailing operand is a number, a scalar entry.
template <class... X>
constexpr bool kFirstIsNumber = false;
template <class I, class... X>
constexpr bool kFirstIsNumber<I, X...> = !__is_class(I) && !__is_enum(I);
template <class I, class... X>
PTO_INLINE uint64_t first_number(I number, const X&...) {
  return uint64_t(number);
}

template <class G, class D>
constexpr bool check_store_operands() {
  static_assert(kIsGlobal<G> && kIsTile<D>,
                "TSTORE: the first operand is memory, the second a tile; exchange them");
  return true;
}
template <class G, class D, bool Quantised>
constexpr bool check_store() {
  using To = typename G::Element;
  using From = typename D::DType;
  static_assert(D::Loc == TileType::Acc || sizeof(To) == sizeof(From) || Rules::kConvertsAllTiles,
                "TSTORE: only an accumulator changes its type on its way to memory; convert other "
                "tiles with TCVT");
  static_assert(!Quantised || D::Loc == TileType::Acc || Rules::kConvertsAllTiles,
                "TSTORE: only an accumulator can be quantised on its way to memory; use TQUANT");
  static_assert(Quantised || kIsFloat<To> == kIsFloat<From> || D::Loc != TileType::Acc,
                "TSTORE: an accumulator becomes integers (or an integer one becomes floats) only "
                "by quantisation; give a preQuantScalar, or entries with TSTORE_FP");
  return true;
}

template <ReluPreMode Relu, AtomicType A, class G, class D, class... X>
PTO_INLINE RecordEvent store_form(const G& g, const D& d, const X&... x) {
  static_assert(check_store_operands<G, D>());
  static_assert(check_store<G, D, kFirstIsNumber<X...>>());
  if constexpr (kFirstIsNumber<X...> && kIsQuantised<typename G::Element, D>) {
    const uint64_t entry = first_number(x...);
    store_changed<Relu, Quant::Scalar, A>(g, d, &entry);
  } else if constexpr (kFirstIsNumber<X...>) {
    return store_form<Relu, A>(g, d);
  } else if constexpr (Relu == ReluPreMode::NoRelu && A == AtomicType::AtomicNone) {
    return TSTORE<CacheHint::Plain>(g, d, x...);
  } else {
    store_changed<Relu, Quant::None, A>(g, d, nullptr);
  }
  return {};
}

}  // namespace moves

template <class G, class D>
void detail::load_matrix(D& d, const G& g) {
  moves::load_view(d, g);
}
template <class G, class D>
void detail::store_matrix(const G& g, const D& d) {
  moves::store_changed<ReluPreMode::NoRelu, moves::Quant::None, AtomicType::AtomicNone>(g, d,
                                                                                        nullptr);
}

// The phase says whether more partial results follow; each store is complete here.
template <STPhase Phase, class TileT = void, class ViewT = void,
          AtomicType Atomic = AtomicType::AtomicNone, ReluPreMode Relu = ReluPreMode::NoRelu,
          class G, class D, class... X>
PTO_INLINE RecordEvent TSTORE(const G& g, const D& d, const X&... x) {
  PTO_ENTER(TSTORE,
            ((kSame<TileT, void>)          ? "<STPhase> gm, tile"
             : moves::kFirstIsNumber<X...> ? "<STPhase, tile, gm, AtomicType, ReluPreMode> gm, "
                                             "tile, preQuantScalar"
                                           : "<STPhase, tile, gm, AtomicType, ReluPreMode> gm, "
                                             "tile"),
            out(g), in(d), atomic(Atomic == AtomicType::AtomicAdd));
  return moves::store_form<Relu, Atomic>(g, d, x...);
}
template <class TileT, class ViewT, AtomicType Atomic = AtomicType::AtomicNone,
          ReluPreMode Relu = ReluPreMode::NoRelu, class G, class D, class... X,
          typename Enable<kIsTile<TileT>>::type = 0>
PTO_INLINE RecordEvent TSTORE(const G& g, const D& d, const X&... x) {
  PTO_ENTER(TSTORE,
            !moves::kFirstIsNumber<X...>
                ? "<tile, gm, AtomicType, ReluPreMode> gm, tile"
                : "<tile, gm, AtomicType, ReluPreMode> gm, tile, preQuantScalar",
            out(g), in(d), atomic(Atomic == AtomicType::AtomicAdd));
  return moves::store_form<Relu, Atomic>(g, d, x...);
}
template <class G, class D, class I, class... X,
          typename Enable<moves::kFirstIsNumber<I>>::type = 0>
PTO_INLINE RecordEvent TSTORE(const G& g, const D& d, I preQuantScalar, const X&...) {
  PTO_ENTER(TSTORE, "gm, tile, preQuantScalar", out(g), in(d));
  return moves::store_form<ReluPreMode::NoRelu, AtomicType::AtomicNone>(g, d, preQuantScalar);
}

template <class TileT = void, class ViewT = void, class FpT = void,
          AtomicType Atomic = AtomicType::AtomicNone, ReluPreMode Relu = ReluPreMode::NoRelu,
          class G, class D, class F, class... X>
PTO_INLINE RecordEvent TSTORE_FP(const G& g, const D& d, const F& fp, const X&...) {
  PTO_ENTER(TSTORE_FP, "gm, tile, fp", out(g), in(d), atomic(Atomic == AtomicType::AtomicAdd));
  static_assert(moves::check_store_operands<G, D>());
  if constexpr (moves::kIsQuantised<typename G::Element, D>) {
    static_assert(moves::check_store<G, D, true>());
    static_assert(moves::check_entries<F>());
    moves::store_changed<Relu, moves::Quant::Columns, Atomic>(g, d, moves::entries_of(fp));
  } else {
    moves::store_form<Relu, Atomic>(g, d);
  }
  return {};
}
template <STPhase Phase, class TileT = void, class ViewT = void, class FpT = void,
          AtomicType Atomic = AtomicType::AtomicNone, ReluPreMode Relu = ReluPreMode::NoRelu,
          class G, class D, class F, class... X>
PTO_INLINE RecordEvent TSTORE_FP(const G& g, const D& d, const F& fp, const X&... x) {
  PTO_ENTER(TSTORE_FP, "<STPhase> gm, tile, fp", out(g), in(d),
            atomic(Atomic == AtomicType::AtomicAdd));
  return TSTORE_FP<TileT, ViewT, FpT, Atomic, Relu>(g, d, fp, x...);
}

PTO_NAMESPACE_END
