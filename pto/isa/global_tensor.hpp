// SPDX-License-Identifier: Apache-2.0
// GlobalTensor: a view of memory, what TLOAD reads and TSTORE writes.
//
//     TLOAD(tile, GlobalTensor(x + i));          // row-major, packed by the tile's valid columns,
//                                                // bounded by the memory's registered extent
//     TLOAD(tile, GlobalTensor(x + i, n));       // the same, bounded by n elements
//     GlobalTensor<float, Shape<1, 1, 1, 16, 64>, Stride<1, 1, 1, 256, 1>> g(x);   // five
//     dimensions
//
// Invariant: elements at or beyond the bound read as the tile's padding and are never stored. Only
// the one-argument form looks the extent up (pto_extent); an unknown extent is unbounded.
// Thread safety: a view is a value; what it views is the caller's.
#pragma once
#include "pto/isa/host.hpp"
#include "pto/isa/numeric.hpp"

PTO_NAMESPACE_BEGIN

// Five numbers, each a constant or DYNAMIC. Constructors take as many values as there are dynamic
// dimensions, or five.
template <class Role, int64_t... N>
struct FiveDims {
  static_assert(sizeof...(N) == 5,
                "Shape and Stride have five dimensions; write 1 for absent ones");
  static constexpr int64_t kStatic[5] = {N...};
  static constexpr int kDynamicCount = ((N == DYNAMIC) + ... + 0);

  int64_t value[5] = {(N == DYNAMIC ? 1 : N)...};

  FiveDims() = default;
  template <class... I>
  explicit PTO_INLINE FiveDims(I... given) {
    static_assert(sizeof...(I) == 5 || sizeof...(I) == kDynamicCount,
                  "Shape and Stride take five values or one for each DYNAMIC dimension");
    const int64_t values[] = {int64_t(given)...};
    int next = 0;
    for (int i = 0; i < 5; ++i) {
      if (sizeof...(I) == 5)
        value[i] = values[i];
      else if (kStatic[i] == DYNAMIC)
        value[i] = values[next++];
    }
  }
  PTO_INLINE int64_t operator[](int dim) const {
    return kStatic[dim] == DYNAMIC ? value[dim] : kStatic[dim];
  }
};

struct ShapeRole {};
struct StrideRole {};
template <int64_t A = DYNAMIC, int64_t B = DYNAMIC, int64_t C = DYNAMIC, int64_t D = DYNAMIC,
          int64_t E = DYNAMIC>
struct Shape : FiveDims<ShapeRole, A, B, C, D, E> {
  using FiveDims<ShapeRole, A, B, C, D, E>::FiveDims;
};
template <int64_t A = DYNAMIC, int64_t B = DYNAMIC, int64_t C = DYNAMIC, int64_t D = DYNAMIC,
          int64_t E = DYNAMIC>
struct Stride : FiveDims<StrideRole, A, B, C, D, E> {
  using FiveDims<StrideRole, A, B, C, D, E>::FiveDims;
};

template <class T>
struct Unqualified {
  using type = T;
};
template <class T>
struct Unqualified<const T> {
  using type = T;
};

// In place of a shape: `count` elements in the order of the tile.
struct Packed {};

template <class T, class ShapeT = Packed, class StrideT = Packed, Layout Order = Layout::ND>
struct GlobalTensor {
  using DType = T;
  using Element = typename Unqualified<T>::type;
  static constexpr Layout layout = Order;
  static constexpr bool kIsPacked = false;

  PTO_INLINE GlobalTensor(T* pointer, const ShapeT& shape = {}, const StrideT& stride = {})
      : data_(pointer), shape_(shape), stride_(stride) {}

  PTO_INLINE T* data() const { return data_; }
  PTO_INLINE int64_t GetShape(int dim) const { return shape_[dim]; }
  PTO_INLINE int64_t GetStride(int dim) const { return stride_[dim]; }
  template <int Dim>
  PTO_INLINE int64_t GetShape() const {
    return shape_[Dim];
  }
  template <int Dim>
  PTO_INLINE int64_t GetStride() const {
    return stride_[Dim];
  }
  PTO_INLINE void SetAddress(T* pointer) { data_ = pointer; }

 private:
  T* data_;
  ShapeT shape_;
  StrideT stride_;
};

template <class T, Layout Order>
struct GlobalTensor<T, Packed, Packed, Order> {
  using DType = T;
  using Element = typename Unqualified<T>::type;
  static constexpr Layout layout = Order;
  static constexpr bool kIsPacked = true;

  explicit PTO_INLINE GlobalTensor(T* pointer) : data_(pointer), count_(INT64_MAX) {
    const int64_t bytes = pto_extent(pointer);
    if (bytes >= 0) count_ = bytes / int64_t(sizeof(T));
  }
  PTO_INLINE GlobalTensor(T* pointer, int64_t count) : data_(pointer), count_(count) {}

  PTO_INLINE T* data() const { return data_; }
  PTO_INLINE int64_t count() const { return count_; }
  PTO_INLINE void SetAddress(T* pointer) { data_ = pointer; }

 private:
  T* data_;
  int64_t count_;  // negative counts as 0
};

// `Count` elements, known when the kernel is compiled: GlobalTensor(x, kCountOf<64>).
template <int64_t Count>
struct Counted {};
template <int64_t Count>
inline constexpr Counted<Count> kCountOf;

template <class T, int64_t Count, Layout Order>
struct GlobalTensor<T, Counted<Count>, Packed, Order> {
  using DType = T;
  using Element = typename Unqualified<T>::type;
  static constexpr Layout layout = Order;
  static constexpr bool kIsPacked = true;

  PTO_INLINE GlobalTensor(T* pointer, Counted<Count>) : data_(pointer) {}

  PTO_INLINE T* data() const { return data_; }
  static constexpr PTO_INLINE int64_t count() { return Count; }
  PTO_INLINE void SetAddress(T* pointer) { data_ = pointer; }

 private:
  T* data_;
};

// Elements that a view is known to have when the kernel is compiled.
template <class G>
constexpr int64_t kKnownCount = 0;
template <class T, int64_t Count, Layout Order>
constexpr int64_t kKnownCount<GlobalTensor<T, Counted<Count>, Packed, Order>> = Count;

template <class T>
GlobalTensor(T*) -> GlobalTensor<T, Packed, Packed, Layout::ND>;
template <class T, class I, typename Enable<!__is_class(I)>::type = 0>
GlobalTensor(T*, I) -> GlobalTensor<T, Packed, Packed, Layout::ND>;
template <class T, int64_t Count>
GlobalTensor(T*, Counted<Count>) -> GlobalTensor<T, Counted<Count>, Packed, Layout::ND>;

PTO_NAMESPACE_END
