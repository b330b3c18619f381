// SPDX-License-Identifier: Apache-2.0
// TLOAD and TSTORE: move memory to a tile and back.
//
//     TLOAD(t, GlobalTensor(x, n));
//     TSTORE(GlobalTensor(out, n), t);
//     TSTORE<CacheHint::Stream>(GlobalTensor(out, W), t);
//     stream_fence();
//
// Invariant: memory outside the view and outside the valid region is never touched. TLOAD fills
// the tile's padding with its padding value (0 unless it names one).
// Thread safety: blocks may load the same memory; a block that stores must be alone there.
#pragma once
#include "pto/isa/cpu/steps.hpp"
#include "pto/isa/elementwise/elementwise.hpp"
#include "pto/isa/kernel/enter.hpp"
#include "pto/isa/tile/global_tensor.hpp"

PTO_NAMESPACE_BEGIN
namespace detail {

constexpr PTO_INLINE int clamp_count(int64_t n, int most) {
  return n <= 0 ? 0 : n >= most ? most : int(n);
}

// Copies between a tile and memory whose size is checked at run time only. g++ sees the size of the
// caller's array and would warn of the copy that the bound rules out, so the pointer to memory
// comes without its history.
template <class T>
PTO_INLINE void copy_from_memory(T* d, const T* memory, size_t count) {
  __builtin_memcpy(static_cast<void*>(d), lanes::without_history(memory), count * sizeof(T));
}
template <class T>
PTO_INLINE void copy_to_memory(T* memory, const T* s, size_t count) {
  __builtin_memcpy(static_cast<void*>(lanes::without_history(memory)), s, count * sizeof(T));
}

template <int N, int Steps, class T>
PTO_INLINE void copy_unrolled(T* d, const T* s) {
  PTO_UNROLL
  for (int i = 0; i < Steps; ++i) {
    using Loose = typename VecOf<Raw<T>, N>::loose;
    reinterpret_cast<Loose*>(d)[i] = reinterpret_cast<const Loose*>(s)[i];
  }
}

template <CacheHint Hint, int N, int Steps, class T>
PTO_INLINE void store_unrolled(T* d, const T* s) {
  if constexpr (Hint == CacheHint::Plain) return copy_unrolled<N, Steps>(d, s);
  PTO_UNROLL
  for (int i = 0; i < Steps; ++i) lanes::store_stream<N>(d + i * N, lanes::load<N>(s + i * N));
}

// Loads one line of a tile: `count` elements at `stride`, then padding up to `length`.
template <class T>
PTO_INLINE void load_line(T* d, const T* s, int count, int64_t stride, int length, T padding) {
  if (stride == 1)
    copy_from_memory(d, s, size_t(count));
  else
    lanes::gather_steps(d, s, stride, count, length);
  for (int i = count; i < length; ++i) d[i] = padding;
}

template <class T>
PTO_INLINE void store_line(T* d, const T* s, int count, int64_t stride) {
  if (stride == 1)
    copy_to_memory(d, s, size_t(count));
  else
    for (int i = 0; i < count; ++i) d[i * stride] = s[i];
}

// Loads a micro-tile: whole registers, the last one partly. Dense says that the stride is 1.
template <bool Dense, class D>
PTO_INLINE void load_micro(D& d, const typename D::DType* s, int count, int64_t stride) {
  constexpr int N = kLanes<typename D::DType>;
  using V = Vec<Compute<typename D::DType>, N>;
  const V padding = lanes::splat<V>(padding_of<D>());
  if constexpr (!Dense) {
    if (stride != 1) {
      alignas(64) typename D::DType beside[D::Numel];
      lanes::gather_steps(beside, s, stride, clamp_count(count, D::Numel), D::Numel);
      return load_micro<true>(d, beside, count, 1);
    }
  }
  PTO_UNROLL
  for (int i = 0; i < D::Numel / N; ++i) {
    const int n = clamp_count(count - i * N, N);
    V v = lanes::load_part<N>(s + i * N, n);
    if constexpr (D::PadVal != PadValue::Null && D::PadVal != PadValue::Zero)
      v = lanes::select(lanes::first<V>(n), v, padding);
    lanes::store<N>(d.data() + i * N, v);
  }
}

template <CacheHint Hint, bool Dense, class D>
PTO_INLINE void store_micro(typename D::DType* p, const D& d, int count, int64_t stride) {
  constexpr int N = kLanes<typename D::DType>;
  PTO_UNROLL
  for (int i = 0; i < D::Numel / N; ++i) {
    const int n = clamp_count(count - i * N, N);
    const auto v = lanes::load<N>(d.data() + i * N);
    if (!Dense && stride != 1)
      lanes::scatter<N>(p + i * N * stride, stride, v, n);
    else if (n == N && Hint == CacheHint::Stream)
      lanes::store_stream<N>(p + i * N, v);
    else if (n == N)
      lanes::store<N>(p + i * N, v);
    else
      lanes::store_part<N>(p + i * N, v, n);
  }
}

// The place of one line of a tile in memory.
template <class T>
struct MemoryLine {
  T* pointer;
  int count;  // elements that the view has for it
  int64_t stride;
};

// Returns the address of the view's element (row, col): ND flattens dimensions 0 to 3 to the row,
// DN dimensions 0, 1, 2, 4 to the column. Null outside the view.
template <class G>
PTO_INLINE typename G::DType* element_of(const G& g, int64_t row, int64_t col) {
  constexpr bool kRowsOutside = G::layout == Layout::ND;
  const int64_t inner = kRowsOutside ? row : col;
  const int last = kRowsOutside ? 3 : 4, line = kRowsOutside ? 4 : 3;
  if (g.GetShape(last) <= 0 || g.GetShape(2) <= 0 || g.GetShape(1) <= 0) return nullptr;
  const int64_t i = inner % g.GetShape(last), rest = inner / g.GetShape(last);
  const int64_t c = rest % g.GetShape(2), b = rest / g.GetShape(2);
  const int64_t along = kRowsOutside ? col : row;
  if (along >= g.GetShape(line) || b >= g.GetShape(0) * g.GetShape(1)) return nullptr;
  return g.data() + (b / g.GetShape(1)) * g.GetStride(0) + (b % g.GetShape(1)) * g.GetStride(1) +
         c * g.GetStride(2) + i * g.GetStride(last) + along * g.GetStride(line);
}

// True where lines of the tile are lines of the view.
template <class G, class D>
constexpr bool kLinesMatch = G::kIsPacked || (G::layout == Layout::ND) == D::isRowMajor;

template <class G, class D>
PTO_INLINE MemoryLine<typename G::DType> line_of(const G& g, const D& d, int line) {
  const int length = valid_length(d);
  if constexpr (!G::kIsPacked) {
    constexpr int along = D::isRowMajor ? 4 : 3;
    typename G::DType* p = D::isRowMajor ? element_of(g, line, 0) : element_of(g, 0, line);
    return {p, p ? clamp_count(g.GetShape(along), length) : 0, g.GetStride(along)};
  } else if constexpr (D::isRowMajor) {
    const int64_t start = int64_t(line) * length;
    return {g.data() + start, clamp_count(g.count() - start, length), 1};
  } else {
    const int cols = d.GetValidCol();
    const int64_t left = g.count() - line + cols - 1;  // rows whose element is inside: left / cols
    const int64_t rows = left < 0 || cols == 0 ? 0 : left / cols;
    return {g.data() + line, clamp_count(rows, length), cols};
  }
}

// The copy engine takes all but lines of registers and packed views of plain tiles; kernels include
// it with pto-inst.hpp (matrix_transfer.hpp).
// In the public simulator a column-major tile may view memory whose outer dimensions go elsewhere.
template <class G, class D, bool = Rules::kFitsViewsToTiles && !D::isRowMajor && !G::kIsPacked>
constexpr bool kHasOuter = false;
template <class G, class D>
constexpr bool kHasOuter<G, D, true> =
    G::staticShape[0] != 1 || G::staticShape[1] != 1 || G::staticShape[2] != 1;
template <class G, class D>
constexpr bool kIsMatrixTransfer =
    kHasOuter<G, D> || D::isBoxedLayout || !kSame<typename G::Element, typename D::DType> ||
    kIsTwin<typename D::DType> || (G::layout != Layout::ND && G::layout != Layout::DN) ||
    (!G::kIsPacked && !kIsMicro<D>);
template <class G, class D>
void load_matrix(D& d, const G& g);
template <class G, class D>
void store_matrix(const G& g, const D& d);

template <class G, class D>
constexpr bool check_elements() {
  static_assert(sizeof(typename G::Element) == sizeof(typename D::DType) || D::Loc == TileType::Acc,
                "TLOAD, TSTORE: memory and tile must have the same element type; "
                "convert the tile with TCVT");
  return true;
}
template <class G, class D>
constexpr bool check_transfer() {
  constexpr bool kIsPointer = !__is_class(G), kFit = !kIsPointer && !kIsTile<G> && kIsTile<D>;
  static_assert(!kIsPointer,
                "TLOAD, TSTORE: memory is a GlobalTensor; write GlobalTensor(pointer, count)");
  static_assert(kFit || kIsPointer,
                "TLOAD, TSTORE: one operand is memory and one a tile; write TLOAD(tile, memory) or "
                "TSTORE(memory, tile)");
  if constexpr (kFit) return check_elements<G, D>();
  return kFit;
}
template <class G, class D>
constexpr bool check_store() {
  constexpr bool kFits = check_transfer<G, D>();
  if constexpr (kFits)
    static_assert(kSame<typename G::DType, typename G::Element>,
                  "TSTORE: the memory is const; view memory that may be written");
  return kFits;
}

template <class G, class D>
PTO_INLINE void load_lines(D& d, const G& g) {
  using T = typename D::DType;
  const T padding = T(padding_of<D>());
  constexpr int L = kLineLength<D>;
  T* p = d.data();
  for (int i = 0; i < kLines<D>; ++i) {
    if constexpr (kLinesMatch<G, D>) {
      const auto line = line_of(g, d, i);
      load_line(p + i * L, line.pointer, i < valid_lines(d) ? line.count : 0, line.stride, L,
                padding);
    } else {
      for (int j = 0; j < L; ++j) {
        const bool valid = i < valid_lines(d) && j < valid_length(d);
        const auto* s = !valid          ? nullptr
                        : D::isRowMajor ? element_of(g, i, j)
                                        : element_of(g, j, i);
        p[i * L + j] = s ? *s : padding;
      }
    }
  }
}

template <class G, class D>
PTO_INLINE void store_lines(const G& g, const D& d) {
  constexpr int L = kLineLength<D>;
  const typename D::DType* p = d.data();
  for (int i = 0; i < valid_lines(d); ++i) {
    if constexpr (kLinesMatch<G, D>) {
      const auto line = line_of(g, d, i);
      store_line(line.pointer, p + i * L, line.count, line.stride);
    } else {
      for (int j = 0; j < valid_length(d); ++j) {
        auto* to = D::isRowMajor ? element_of(g, i, j) : element_of(g, j, i);
        if (to) *to = p[i * L + j];
      }
    }
  }
}

// True for a full tile over memory that holds it all. A tile of one register needs no such case:
// its part may be the whole.
template <class D, class G>
PTO_INLINE bool is_whole(const G& g) {
  if constexpr (!G::kIsPacked || !kIsFull<D> || !(D::isRowMajor || D::Cols == 1))
    return false;
  else if constexpr (D::Numel == kLanes<typename D::DType> && kKnownCount<G> == 0)
    return false;
  else
    return g.count() >= D::Numel;
}
template <class D, class G>
constexpr bool kKnownWhole = kIsFull<D>&& kIsMicro<D>&& kKnownCount<G> >= D::Numel;

}  // namespace detail

template <class D, class G, class... X>
PTO_INLINE RecordEvent TLOAD(D& d, const G& g, const X&...) {
  PTO_INSTRUCTION(TLOAD, "tile, gm", out(d), in(g));
  static_assert(detail::check_transfer<G, D>());
  constexpr int N = kLanes<typename D::DType>;
  if constexpr (detail::kIsMatrixTransfer<G, D>) {
    detail::load_matrix(d, g);
  } else if constexpr (detail::kKnownWhole<D, G>) {
    detail::copy_unrolled<N, D::Numel / N>(d.data(), g.data());
  } else if (detail::is_whole<D>(g)) {
    if constexpr (kIsMicro<D>)
      detail::copy_unrolled<N, D::Numel / N>(d.data(), g.data());
    else
      detail::copy_from_memory(d.data(), g.data(), D::Numel);
  } else if constexpr (kIsMicro<D> && detail::kLinesMatch<G, D>) {
    const auto line = detail::line_of(g, d, 0);
    detail::load_micro<G::kIsPacked>(d, line.pointer, valid_lines(d) > 0 ? line.count : 0,
                                     line.stride);
  } else {
    detail::load_lines(d, g);
  }
  return {};
}

// Stream: the pointer is aligned to the vector; whole vectors bypass the cache, a rest does not.
template <CacheHint Hint, class G, class D, class... X>
PTO_INLINE RecordEvent TSTORE(const G& g, const D& d, const X&...) {
  PTO_INSTRUCTION(TSTORE, "gm, tile", out(g), in(d));
  PTO_IF_CHECKED(if (Hint == CacheHint::Stream)
                     checked::require_streamable(g.data(), kVectorBytes);)
  static_assert(detail::check_store<G, D>());
  constexpr int N = kLanes<typename D::DType>;
  if constexpr (detail::kIsMatrixTransfer<G, D>) {
    detail::store_matrix(g, d);
  } else if constexpr (detail::kKnownWhole<D, G>) {
    detail::store_unrolled<Hint, N, D::Numel / N>(g.data(), d.data());
  } else if (detail::is_whole<D>(g) && (Hint == CacheHint::Plain || !kIsMicro<D>)) {
    if constexpr (kIsMicro<D>)
      detail::copy_unrolled<N, D::Numel / N>(g.data(), d.data());
    else
      detail::copy_to_memory(g.data(), d.data(), D::Numel);
  } else if constexpr (kIsMicro<D> && detail::kLinesMatch<G, D>) {
    const auto line = detail::line_of(g, d, 0);
    detail::store_micro<Hint, G::kIsPacked>(line.pointer, d, valid_lines(d) > 0 ? line.count : 0,
                                            line.stride);
  } else {
    detail::store_lines(g, d);
  }
  return {};
}
template <class G, class D, class... X>
PTO_INLINE RecordEvent TSTORE(const G& g, const D& d, const X&... rest) {
  return TSTORE<CacheHint::Plain>(g, d, rest...);
}

// Orders streaming stores before the stores that follow; once, before the memory is handed on.
PTO_INLINE void stream_fence() {
#if defined(__x86_64__)
  asm volatile("sfence" ::: "memory");
#else
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

// Prefetches the cache lines of `bytes` bytes. A hint never faults, so they may lie beyond the
// memory of `p`: hence integers.
template <int Bytes>
PTO_INLINE void prefetch_lines(const void* p) {
  PTO_UNROLL
  for (int i = 0; i < Bytes; i += 64)
    __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(p) + i), 0, 3);
}

PTO_NAMESPACE_END
