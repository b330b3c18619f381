// SPDX-License-Identifier: Apache-2.0
// MGATHER and MSCATTER move rows or elements of memory at the positions that a tile names.
//
//     MGATHER<Coalesce::Row, GatherOOB::Zero>(d, table, index);     // d[r, :] = table[index[r], :]
//     MSCATTER<Coalesce::Elem, ScatterAtomicOp::Add>(table, s, index);
//
// A table has GetShape(3) rows of GetStride(3) elements; its elements count row by row over all
// five dimensions. A table given as pointer and count has rows of the tile's valid columns.
//
// Invariant: memory outside the table is never touched; positions that Undefined leaves open read
// as 0 and are not written. Positions are taken in order, so that of equal ones the last wins
// (ScatterConflict::First: the first; Default: as Last).
// Thread safety: blocks may gather from the same memory; a block that scatters must be alone there.
#pragma once
#include "pto/isa/elementwise/elementwise.hpp"
#include "pto/isa/tile/global_tensor.hpp"

PTO_NAMESPACE_BEGIN

enum class Coalesce : uint8_t { Row, Elem };
enum class GatherOOB : uint8_t { Undefined, Clamp, Wrap, Zero };
enum class ScatterAtomicOp : uint8_t { None, Add, Max, Min };
enum class ScatterOOB : uint8_t { Undefined, Skip, Clamp, Wrap };
enum class ScatterConflict : uint8_t { Last, Default, First };

namespace detail {

enum class Outside { Drop, Clamp, Wrap };
constexpr Outside outside_of(GatherOOB mode) {
  return mode == GatherOOB::Clamp  ? Outside::Clamp
         : mode == GatherOOB::Wrap ? Outside::Wrap
                                   : Outside::Drop;
}
constexpr Outside outside_of(ScatterOOB mode) {
  return mode == ScatterOOB::Clamp  ? Outside::Clamp
         : mode == ScatterOOB::Wrap ? Outside::Wrap
                                    : Outside::Drop;
}

// Returns a position in 0 to capacity - 1, or -1. An index counts as unsigned, as wide as it is: -1
// is far behind the end.
template <Outside Mode, class I>
PTO_INLINE int64_t position_of(I index, int64_t capacity) {
  using U = UnsignedOf<I>;
  const uint64_t i = U(index), n = uint64_t(capacity);
  if (i < n) return int64_t(i);
  if (n == 0 || Mode == Outside::Drop) return -1;
  return int64_t(Mode == Outside::Clamp ? n - 1 : i % n);
}

// A table in memory: rows of `cols` elements, or elements one by one.
template <class G>
class Table {
 public:
  using T = typename G::DType;
  PTO_INLINE Table(const G& view, int cols) : g_(view) {
    if constexpr (G::kIsPacked) {
      elements_ = view.count() < 0 ? 0 : view.count();
      cols_ = row_pitch_ = cols;
      rows_ = cols > 0 ? elements_ / cols : 0;
      is_dense_ = true;
    } else {
      static_assert(G::layout == Layout::ND,
                    "MGATHER, MSCATTER: the table must have layout ND; view it as ND");
      rows_ = view.GetShape(3);
      cols_ = view.GetShape(4);
      row_pitch_ = view.GetStride(3);
      int64_t dense = 1;
      is_dense_ = true;
      for (int dim = 4; dim >= 0; --dim) {
        is_dense_ = is_dense_ && (view.GetShape(dim) == 1 || view.GetStride(dim) == dense);
        dense *= view.GetShape(dim);
      }
      elements_ = dense;
    }
  }
  PTO_INLINE int64_t rows() const { return rows_; }
  PTO_INLINE int64_t cols() const { return cols_; }
  PTO_INLINE int64_t elements() const { return elements_; }
  PTO_INLINE T* row(int64_t r) const { return g_.data() + r * row_pitch_; }
  PTO_INLINE int64_t col_pitch() const {
    if constexpr (G::kIsPacked)
      return 1;
    else
      return g_.GetStride(4);
  }
  PTO_INLINE T* element(int64_t i) const {
    if constexpr (G::kIsPacked) {
      return g_.data() + i;
    } else {
      if (is_dense_) return g_.data() + i;
      int64_t offset = 0;
      for (int dim = 4; dim >= 0; --dim) {
        offset += i % g_.GetShape(dim) * g_.GetStride(dim);
        i /= g_.GetShape(dim);
      }
      return g_.data() + offset;
    }
  }

 private:
  const G& g_;
  int64_t rows_, cols_, row_pitch_, elements_;
  bool is_dense_;
};

// Returns the index of row r, read along the tile's valid region; a view of memory counts from its
// start.
template <class I>
PTO_INLINE auto row_index(const I& index, int r) {
  if constexpr (kIsTile<I>) {
    const int cols = index.GetValidCol();
    return cols == 1   ? index.GetElement(r, 0)
           : cols > r  ? index.GetElement(0, r)
           : cols == 0 ? typename I::DType(0)
                       : index.GetElement(r / cols, r % cols);
  } else {
    return index.data()[r];
  }
}
template <class I>
PTO_INLINE auto element_index(const I& index, int r, int c, int cols) {
  if constexpr (kIsTile<I>)
    return index.GetElement(r, c);
  else
    return index.data()[int64_t(r) * cols + c];
}

#ifdef PTO_CHECKED
// Requires an index for each element of a tile, or for each of its rows.
template <class D, class I>
PTO_INLINE void require_indices(const char* name, const char* form, bool by_element, const D& d,
                                const I& index) {
  if constexpr (kIsTile<I>) {
    const int rows = d.GetValidRow(), cols = index.GetValidCol();
    if (by_element || cols <= 0)
      checked::require_valid(name, form, 2, rows, by_element ? d.GetValidCol() : 1, index);
    else
      checked::require_valid(name, form, 2, (rows + cols - 1) / cols, 1, index);
  }
}
#endif

// Decides when neither mode is given: element by element where the indices have the tile's shape,
// as in the public simulator, else row by row.
template <class D, class I>
PTO_INLINE bool is_by_element(const D& d, const I& index) {
  if constexpr (kIsTile<I>)
    return index.GetValidRow() == d.GetValidRow() && index.GetValidCol() == d.GetValidCol();
  else
    return false;
}

template <class D, class G, class I>
constexpr bool check_table() {
  using Index = typename Unqualified<typename I::DType>::type;
  static_assert(kSame<typename D::DType, typename G::Element>,
                "MGATHER, MSCATTER: tile and table must have the same element type; convert the "
                "tile with TCVT");
  static_assert(!kIsFloat<Index> && kSame<Index, Raw<Index>>,
                "MGATHER, MSCATTER: indices must be integers; convert with TCVT");
  return true;
}

template <Outside Mode, class D, class G, class I>
PTO_INLINE void gather_table_rows(D& d, const G& g, const I& index) {
  using T = typename D::DType;
  const int cols = d.GetValidCol();
  const Table<const G> table(g, cols);
  const int inside = table.cols() < cols ? int(table.cols()) : cols;
  constexpr bool kContiguous = kIsRows<D>;
  for (int r = 0; r < d.GetValidRow(); ++r) {
    const int64_t from = position_of<Mode>(row_index(index, r), table.rows());
    const auto* row = from < 0 ? nullptr : table.row(from);
    if (kContiguous && row && inside == cols && table.col_pitch() == 1)
      __builtin_memcpy(static_cast<void*>(d.data() + D::Offset(r, 0)), row,
                       size_t(cols) * sizeof(T));
    else
      for (int c = 0; c < cols; ++c)
        d.SetElement(r, c, row && c < inside ? row[c * table.col_pitch()] : T(0));
  }
}

template <Outside Mode, class D, class G, class I>
PTO_INLINE void gather_table_elements(D& d, const G& g, const I& index) {
  using T = typename D::DType;
  const int cols = d.GetValidCol();
  const Table<const G> table(g, cols);
  for (int r = 0; r < d.GetValidRow(); ++r)
    for (int c = 0; c < cols; ++c) {
      const int64_t i = position_of<Mode>(element_index(index, r, c, cols), table.elements());
      d.SetElement(r, c, i < 0 ? T(0) : *table.element(i));
    }
}

template <ScatterAtomicOp Op, class T>
PTO_INLINE void put_element(T* to, T value) {
  using V = Vec<Compute<T>, 2>;
  if constexpr (Op == ScatterAtomicOp::None) {
    lanes::store_element(to, value);
  } else {
    const V old = lanes::splat<V>(to_compute(*to)), x = lanes::splat<V>(to_compute(value));
    V result;
    if constexpr (Op == ScatterAtomicOp::Add)
      result = evaluate<lanes::TADD_value>(old, x);
    else if constexpr (Op == ScatterAtomicOp::Max)
      result = evaluate<lanes::TMAX_value>(old, x);
    else
      result = evaluate<lanes::TMIN_value>(old, x);
    lanes::store_scalar(to, Compute<T>(result[0]));
  }
}

// Returns the i-th element to take. The last one taken wins, so the first of equal positions wins
// where the loop takes them from the last one on.
template <ScatterConflict Conflict>
PTO_INLINE int in_order(int i, int n) {
  return Conflict == ScatterConflict::First ? n - 1 - i : i;
}

template <Outside Mode, ScatterAtomicOp Op, ScatterConflict Conflict, class G, class S, class I>
PTO_INLINE void scatter_table_rows(const G& g, const S& s, const I& index) {
  using T = typename S::DType;
  const int cols = s.GetValidCol(), rows = s.GetValidRow();
  const Table<const G> table(g, cols);
  const int inside = table.cols() < cols ? int(table.cols()) : cols;
  constexpr bool kContiguous = kIsRows<S>;
  for (int k = 0; k < rows; ++k) {
    const int r = in_order<Conflict>(k, rows);
    const int64_t to = position_of<Mode>(row_index(index, r), table.rows());
    if (to < 0) continue;
    auto* row = table.row(to);
    if (Op == ScatterAtomicOp::None && kContiguous && table.col_pitch() == 1)
      __builtin_memcpy(static_cast<void*>(row), s.data() + S::Offset(r, 0),
                       size_t(inside) * sizeof(T));
    else
      for (int c = 0; c < inside; ++c)
        put_element<Op>(row + c * table.col_pitch(), s.GetElement(r, c));
  }
}

template <Outside Mode, ScatterAtomicOp Op, ScatterConflict Conflict, class G, class S, class I>
PTO_INLINE void scatter_table_elements(const G& g, const S& s, const I& index) {
  const int cols = s.GetValidCol(), rows = s.GetValidRow();
  const Table<const G> table(g, cols);
  for (int k = 0; k < rows; ++k)
    for (int l = 0; l < cols; ++l) {
      const int r = in_order<Conflict>(k, rows), c = in_order<Conflict>(l, cols);
      const int64_t i = position_of<Mode>(element_index(index, r, c, cols), table.elements());
      if (i >= 0) put_element<Op>(table.element(i), s.GetElement(r, c));
    }
}

}  // namespace detail

// Elements that no position reaches, and those beyond the table's columns, become 0.
template <Coalesce Mode, GatherOOB Oob = GatherOOB::Undefined, class D, class G, class I,
          class... X>
PTO_INLINE RecordEvent MGATHER(D& d, const G& g, const I& index, const X&...) {
  static_assert(detail::check_table<D, G, I>());
  PTO_ENTER(MGATHER, "d, g, index, <mode, oob>", out(d), in(g, index));
  PTO_IF_CHECKED(detail::require_indices("MGATHER", "d, g, index, <mode, oob>",
                                         Mode == Coalesce::Elem, d, index);)
  if constexpr (Mode == Coalesce::Row)
    detail::gather_table_rows<detail::outside_of(Oob)>(d, g, index);
  else
    detail::gather_table_elements<detail::outside_of(Oob)>(d, g, index);
  return {};
}
template <class D, class G, class I, class... X>
PTO_INLINE RecordEvent MGATHER(D& d, const G& g, const I& index, const X&...) {
  static_assert(detail::check_table<D, G, I>());
  PTO_ENTER(MGATHER, "d, g, index", out(d), in(g, index));
  PTO_IF_CHECKED(
      detail::require_indices("MGATHER", "d, g, index", detail::is_by_element(d, index), d, index);)
  if (detail::is_by_element(d, index))
    detail::gather_table_elements<detail::Outside::Drop>(d, g, index);
  else
    detail::gather_table_rows<detail::Outside::Drop>(d, g, index);
  return {};
}

template <Coalesce Mode, ScatterAtomicOp Op = ScatterAtomicOp::None,
          ScatterOOB Oob = ScatterOOB::Undefined, ScatterConflict Conflict = ScatterConflict::Last,
          class G, class S, class I, class... X>
PTO_INLINE RecordEvent MSCATTER(const G& g, const S& s, const I& index, const X&...) {
  static_assert(detail::check_table<S, G, I>());
  PTO_ENTER(MSCATTER, "g, s, index, <mode, op, oob, conflict>", out(g), in(s, index));
  PTO_IF_CHECKED(detail::require_indices("MSCATTER", "g, s, index, <mode, op, oob, conflict>",
                                         Mode == Coalesce::Elem, s, index);)
  if constexpr (Mode == Coalesce::Row)
    detail::scatter_table_rows<detail::outside_of(Oob), Op, Conflict>(g, s, index);
  else
    detail::scatter_table_elements<detail::outside_of(Oob), Op, Conflict>(g, s, index);
  return {};
}
template <class G, class S, class I, class... X>
PTO_INLINE RecordEvent MSCATTER(const G& g, const S& s, const I& index, const X&...) {
  static_assert(detail::check_table<S, G, I>());
  PTO_ENTER(MSCATTER, "g, s, index", out(g), in(s, index));
  PTO_IF_CHECKED(detail::require_indices("MSCATTER", "g, s, index", detail::is_by_element(s, index),
                                         s, index);)
  constexpr auto kNone = ScatterAtomicOp::None;
  constexpr auto kLast = ScatterConflict::Last;
  if (detail::is_by_element(s, index))
    detail::scatter_table_elements<detail::Outside::Drop, kNone, kLast>(g, s, index);
  else
    detail::scatter_table_rows<detail::Outside::Drop, kNone, kLast>(g, s, index);
  return {};
}

PTO_NAMESPACE_END
