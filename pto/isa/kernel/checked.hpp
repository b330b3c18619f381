// SPDX-License-Identifier: Apache-2.0
// PTO_CHECKED: every instruction checks its operands before it runs. Compile a kernel with
// -DPTO_CHECKED; a failure reads
//   block 3: TADD (d, a, b): source 2, a 1 x 64 tile in Vec, was never written
//
//     #define PTO_CHECKED
//     #include <pto/pto-inst.hpp>
//
// The checks: sources have been written; valid regions, indices and TASSIGN's addresses lie within
// their tiles and locations; sources are valid where an instruction runs; what comes of the valid
// regions of sources fits its destination, which is valid nowhere else; a window of TSUBVIEW has
// the layout of its source; views lie within the registered memory of their pointer, which is not
// null, are aligned to their elements (to vectors where TSTORE streams), and have a known extent
// where their bound is looked up; no two blocks of a launch store to the same memory, unless they
// add atomically or one has waited since. A failure is the text of the launch; its block ends by a
// C++ exception, in builds without exceptions too (which then destroy no objects on the way).
// Outside launches the failure throws std::runtime_error. The checks know of writes per tile for a
// tile's own storage, and per 32 bytes for the memory of a location; a tile whose data() was taken
// counts as written. Of the stores they compare TSTORE's.
//
// Invariant: the checks are here and in libpto. The code of checked kernels lives in an inline
// namespace of its own, so that both kinds of objects may meet in one program.
// Thread safety: any thread.
#pragma once
#include "pto/abi/checks.h"
#include "pto/isa/tile/rules.hpp"

PTO_NAMESPACE_BEGIN
namespace checked {

PTO_INLINE void require_offset(int offset, int stored) {
  if (offset < 0 || offset >= stored) pto_check_failed_offset(offset, stored);
}
PTO_INLINE void require_element(int row, int col, int rows, int cols) {
  if (row < 0 || row >= rows || col < 0 || col >= cols)
    pto_check_failed_element(row, col, rows, cols);
}
// Requires that rows x cols elements from (row, col) on lie within a tile of all_rows x all_cols.
PTO_INLINE void require_window(int row, int col, int rows, int cols, int all_rows, int all_cols) {
  if (rows <= 0 || cols <= 0) return;
  require_element(row, col, all_rows, all_cols);
  require_element(row + rows - 1, col + cols - 1, all_rows, all_cols);
}
// Requires that a window shares the layout of its source: its corners lie where the source's do.
template <class D, class S>
PTO_INLINE void require_same_steps(int row, int col, int rows, int cols) {
  const int ends[][2] = {{rows - 1, 0}, {0, cols - 1}, {rows - 1, cols - 1}};
  for (const auto& [r, c] : ends) {
    if (rows <= 0 || cols <= 0) return;
    const int in_source = S::Offset(row + r, col + c) - S::Offset(row, col);
    if (D::Offset(r, c) != in_source) pto_check_failed_window(r, c, D::Offset(r, c), in_source);
  }
}
// Requires that sources, of which the first is number `source`, are valid in rows x cols elements.
template <class... S>
PTO_INLINE void require_valid(const char* name, const char* form, int source, int rows, int cols,
                              const S&... s) {
  if (!Rules::kTakesOtherShapes)
    (pto_check_covered(name, form, source++, s.GetValidRow(), s.GetValidCol(), rows, cols), ...);
}
// Requires that the index of each element that the destination takes of a source is valid.
template <class D, class S, class I>
PTO_INLINE void require_index(const char* name, const char* form, int source, const D& d,
                              const S& s, const I& index) {
  const auto least = [](int a, int b) { return a < b ? a : b; };
  require_valid(name, form, source, least(d.GetValidRow(), s.GetValidRow()),
                least(d.GetValidCol(), s.GetValidCol()), index);
}
// Requires that sources are valid where the destination is, in the rows alone or the columns alone
// where the others are expanded.
template <bool Rows = true, bool Cols = true, class D, class... S>
PTO_INLINE void require_covered(const char* name, const char* form, const D& d, const S&... s) {
  int source = 0;
  const int rows = d.GetValidRow(), cols = d.GetValidCol();
  if (!Rules::kTakesOtherShapes)
    (pto_check_covered(name, form, ++source, Rows ? s.GetValidRow() : rows,
                       Cols ? s.GetValidCol() : cols, rows, cols),
     ...);
}
// Requires that a destination has room for all `written` lines (rows, columns, elements) that come
// of the sources, and that no others of it are valid.
__attribute__((noinline)) inline void require_lines(const char* name, const char* form,
                                                    int destination, const char* line, int room,
                                                    int valid, int written) {
  if (written <= room && valid <= written) return;
  const bool fits = written <= room;
  const int has = fits ? valid : room;
  char text[256];
  __builtin_snprintf(
      text, sizeof(text), "%s (%s): destination %d has %d %s%s%s, but the instruction writes %d",
      name, form, destination, has, fits ? "valid " : "", line, has == 1 ? "" : "s", written);
  pto_fail(text, "the instruction writes what comes of the valid regions of its sources",
           fits ? "shrink the destination's valid region, or widen that of the source"
                : "give the destination more room, or shrink the source's valid region",
           nullptr, 0);
}
// The same of its rows, its columns, and both, where they come of those of a source.
template <class D, class S>
PTO_INLINE void require_rows(const char* name, const char* form, int destination, const D& d,
                             const S& s) {
  if (!Rules::kTakesOtherShapes)
    require_lines(name, form, destination, "row", D::Rows,
                  d.GetValidCol() > 0 ? d.GetValidRow() : 0, s.GetValidRow());
}
template <class D, class S>
PTO_INLINE void require_cols(const char* name, const char* form, int destination, const D& d,
                             const S& s) {
  if (!Rules::kTakesOtherShapes)
    require_lines(name, form, destination, "column", D::Cols,
                  d.GetValidRow() > 0 ? d.GetValidCol() : 0, s.GetValidCol());
}
template <class D>
PTO_INLINE void require_filled(const char* name, const char* form, int destination, const D& d,
                               int rows, int cols) {
  struct {
    int rows, cols;
    int GetValidRow() const { return cols > 0 ? rows : 0; }
    int GetValidCol() const { return rows > 0 ? cols : 0; }
  } const written = {rows, cols};
  require_rows(name, form, destination, d, written);
  require_cols(name, form, destination, d, written);
}
// Requires one column, or a block of 32 bytes, of the operand that TROWEXPAND... expands.
PTO_INLINE void require_expanded(int cols, int block) {
  if (cols > 1 && cols != block && !Rules::kTakesOtherShapes)
    pto_check_failed_expanded(cols, block);
}
PTO_INLINE void require_streamable(const volatile void* pointer, size_t vector) {
  const size_t misplaced = reinterpret_cast<uintptr_t>(pointer) % vector;
  if (misplaced != 0) pto_check_failed_stream(misplaced, vector);
}
// Notes that somebody takes a pointer through which the elements may be written.
template <class A>
PTO_INLINE void note_access(const A& tile, pto_tile_state& state, size_t bytes) {
  if (!state.is_written)
    pto_check_raw(&state, const_cast<void*>(static_cast<const void*>(tile.data())), bytes);
}

// A destination of which an instruction writes no more than what it notes by note_part().
template <class A>
struct Part {
  using DType = typename A::DType;
  static constexpr int kStored = 0;
  const A& tile;
  pto_tile_state& checked_state = tile.checked_state;
  const DType* data() const { return tile.data(); }
};
template <class A>
PTO_INLINE Part<A> part_of(const A& tile) {
  return {tile};
}
template <class A>
PTO_INLINE void note_part(const A& tile, int row, int col, int rows, int cols) {
  using T = typename A::DType;
  if (!tile.checked_state.is_placed) return;
  for (int r = row; r < row + rows; ++r)
    for (int c = col; c < col + cols; ++c)
      pto_check_raw(&tile.checked_state, const_cast<T*>(tile.data() + A::Offset(r, c)), sizeof(T));
}
// Ends such an instruction: whoever takes a pointer to the tile may write the rest of it.
template <class A>
PTO_INLINE void end_part(const A& tile) {
  tile.checked_state.is_written = !tile.checked_state.is_placed;
}

// Says whether a type of operands has a member that no other kind has.
#define PTO_KIND(is_kind, member)                          \
  template <class A>                                       \
  constexpr auto is_kind(int)->decltype(A::member, true) { \
    return true;                                           \
  }                                                        \
  template <class A>                                       \
  constexpr bool is_kind(long) {                           \
    return false;                                          \
  }
PTO_KIND(is_view, kIsPacked)
PTO_KIND(is_image, totalDimCount)
PTO_KIND(is_tile, ValidRow)
#undef PTO_KIND

template <class A>
int32_t offset_in(int32_t row, int32_t col) {
  return A::Offset(row, col);
}

template <class A, bool IsOutput>
void describe(const void* object, pto_operand* o) {
  const A& a = *static_cast<const A*>(object);
  *o = pto_operand();
  o->is_output = IsOutput;
  if constexpr (is_view<A>(0)) {
    o->kind = PTO_OPERAND_VIEW;
    o->element_bytes = int32_t(sizeof(typename A::DType));
    o->per_element = A::kPerElement;
    o->data = const_cast<const void*>(static_cast<const volatile void*>(a.data()));
    if constexpr (A::kIsPacked) {
      o->view = PTO_VIEW_PACKED;
      o->count = a.count();
    } else {
      o->view = A::layout == Layout::ND   ? PTO_VIEW_ND
                : A::layout == Layout::DN ? PTO_VIEW_DN
                : A::layout == Layout::NZ ? PTO_VIEW_NZ
                                          : PTO_VIEW_OTHER;
      for (int i = 0; i < 5; ++i) {
        o->shape[i] = a.GetShape(i);
        o->stride[i] = a.GetStride(i);
      }
    }
  } else if constexpr (is_tile<A>(0)) {
    o->kind = PTO_OPERAND_TILE;
    o->element_bytes = int32_t(sizeof(typename A::DType));
    o->data = a.data();
    o->state = &a.checked_state;
    o->location = int32_t(A::Loc);
    o->rows = A::Rows;
    o->cols = A::Cols;
    o->valid_rows = a.GetValidRow();
    o->valid_cols = a.GetValidCol();
    o->stored = A::kStored;
    o->is_row_major = A::isRowMajor;
    o->is_boxed = A::isBoxedLayout;
    o->offset = offset_in<A>;
  } else if constexpr (is_image<A>(0)) {  // as one row
    const int64_t count = a.count(0, A::totalDimCount);
    o->kind = PTO_OPERAND_TILE;
    o->element_bytes = int32_t(sizeof(typename A::DType));
    o->data = a.data();
    o->state = &a.checked_state;
    o->location = int32_t(A::Loc);
    o->rows = o->valid_rows = o->is_row_major = 1;
    o->cols = A::kStored;
    o->valid_cols = count > INT32_MAX ? INT32_MAX : int32_t(count);
    o->stored = A::kStored;
    o->offset = [](int32_t, int32_t col) { return col; };
  } else if constexpr (A::kStored >= 0) {  // a part of a tile
    o->element_bytes = int32_t(sizeof(typename A::DType));
    o->data = a.data();
    o->state = &a.checked_state;
    o->stored = A::kStored;
  }
}

template <int N>
struct Operands {
  pto_operand_of of[N > 0 ? N : 1];
  bool is_atomic;
};

template <class... A>
PTO_INLINE Operands<int(sizeof...(A))> in(const A&... a) {
  return {{{&a, describe<A, false>}...}, false};
}
template <class... A>
PTO_INLINE Operands<int(sizeof...(A))> out(const A&... a) {
  return {{{&a, describe<A, true>}...}, false};
}
// Marks the destination as added to, so that other blocks may add to it too.
PTO_INLINE Operands<0> atomic(bool is_atomic) { return {{}, is_atomic}; }

PTO_INLINE const Operands<0> operands(const char*) { return {}; }
template <int N>
PTO_INLINE const Operands<N>& operands(const Operands<N>& of) {
  return of;
}

template <int... N>
__attribute__((noinline)) void enter_with(const char* name, const char* form,
                                          const Operands<N>&... groups) {
  pto_operand_of all[1 + (N + ... + 0)] = {};
  int count = 0;
  const auto append = [&](const pto_operand_of* of, int n) {
    for (int i = 0; i < n; ++i) all[count++] = of[i];
  };
  (append(groups.of, N), ...);
  pto_check_instruction(name, form, all, count, (groups.is_atomic || ... || false));
}
template <class... G>
PTO_INLINE void enter(const char* name, const char* form, const G&... groups) {
  enter_with(name, form, operands(groups)...);
}

}  // namespace checked
PTO_NAMESPACE_END

#define PTO_IF_CHECKED(...) __VA_ARGS__
#define PTO_PART(d) ::pto::isa::checked::part_of(d)
#ifndef PTO_ENTER
#define PTO_ENTER(mnemonic, form, ...)                        \
  {                                                           \
    using ::pto::isa::checked::atomic;                        \
    using ::pto::isa::checked::in;                            \
    using ::pto::isa::checked::out;                           \
    ::pto::isa::checked::enter(#mnemonic, form, __VA_ARGS__); \
  }
#endif
