// SPDX-License-Identifier: Apache-2.0
// GlobalTensor: a view of memory, which TLOAD reads and TSTORE writes.
//
//     TLOAD(tile, GlobalTensor(x + i));          // row-major, packed by the tile's valid columns,
//                                                // bounded by the memory's registered extent
//     TLOAD(tile, GlobalTensor(x + i, n));       // the same, bounded by n elements
//     GlobalTensor<float, Shape<1, 1, 1, 16, 64>, Stride<1, 1, 1, 256, 1>> g(x);
//     using Nz = TileShape2D<half, 64, 64, Layout::NZ>;
//     GlobalTensor<half, Nz, BaseShape2D<half, 64, 64, Layout::NZ>, Layout::NZ> nz(y);
//
// Invariant: elements at or beyond the bound read as the tile's padding and are never stored. Only
// the one-argument form looks the extent up (pto_extent); an unknown extent is unbounded.
// Thread safety: a view is a value; the memory is the caller's.
#pragma once
#include "pto/abi/host.h"
#include "pto/isa/cpu/access.hpp"

PTO_NAMESPACE_BEGIN

// Five numbers, each a constant or DYNAMIC. Constructors take as many values as there are dynamic
// dimensions, or five.
template <class Role, int64_t... N>
struct FiveDims {
  static_assert(sizeof...(N) == 5,
                "Shape and Stride have five dimensions; write 1 for absent ones");
  static constexpr int64_t kStatic[5] = {N...};
  static constexpr int kDynamicCount = ((N == DYNAMIC) + ... + 0);

  union {  // one array: a Shape's is `shape`, a Stride's `stride`
    int64_t value[5] = {(N == DYNAMIC ? 1 : N)...};
    int64_t shape[5];
    int64_t stride[5];
  };

  FiveDims() = default;
  template <class... I, typename Enable<(!__is_class(I) && ...)>::type = 0>
  PTO_INLINE FiveDims(I... given) {
    static_assert(
        sizeof...(I) == 5 || sizeof...(I) == kDynamicCount,
        "Shape and Stride take five values or one for each DYNAMIC dimension; give that many");
    const int64_t values[] = {kept(int64_t(given))...};
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
  // Sets the dynamic dimensions among `Dims`; static ones stay as they are.
  template <int... Dims, class... I>
  PTO_INLINE void set(I... given) {
    static_assert(sizeof...(Dims) == sizeof...(I),
                  "SetShape, SetStride: each dimension that is named needs a value; give as many "
                  "values as dimensions");
    ((value[Dims] = kept(int64_t(given))), ...);
  }

 private:
  // Hides a constant 0 or -1: with AVX-512 g++ 12 copies such numbers behind equal ones as if they
  // were those, so that {1, 1, 1, 0} becomes {1, 1, 1, 1}.
  static PTO_INLINE int64_t kept(int64_t n) {
    if (__builtin_constant_p(n) && (n == 0 || n == -1)) asm("" : "+r"(n));
    return n;
  }
};

struct ShapeRole {};
struct StrideRole {};
template <int64_t A = DYNAMIC, int64_t B = DYNAMIC, int64_t C = DYNAMIC, int64_t D = DYNAMIC,
          int64_t E = DYNAMIC>
struct Shape : FiveDims<ShapeRole, A, B, C, D, E> {
  static constexpr int64_t staticShape[5] = {A, B, C, D, E};
  using FiveDims<ShapeRole, A, B, C, D, E>::FiveDims;
};
template <int64_t A = DYNAMIC, int64_t B = DYNAMIC, int64_t C = DYNAMIC, int64_t D = DYNAMIC,
          int64_t E = DYNAMIC>
struct Stride : FiveDims<StrideRole, A, B, C, D, E> {
  static constexpr int64_t staticStride[5] = {A, B, C, D, E};
  using FiveDims<StrideRole, A, B, C, D, E>::FiveDims;
};

// Shape(1, 1, 1, rows, cols): every dimension is known at run time.
template <class... I>
Shape(I...) -> Shape<>;
template <class... I>
Stride(I...) -> Stride<>;

namespace GlobalTensorDim {
constexpr int DIM_0 = 0, DIM_1 = 1, DIM_2 = 2, DIM_3 = 3, DIM_4 = 4, TOTAL_DIM = 5;
}

// The five dimensions of a rows x cols matrix, and the strides of one that is stored densely.
namespace detail {
struct FiveNumbers {
  int64_t of[5];
};
constexpr FiveNumbers matrix_shape(Layout layout, int64_t rows, int64_t cols, int64_t c0) {
  switch (layout) {
    case Layout::NZ:
      return {{1, cols / c0, rows / 16, 16, c0}};
    case Layout::MX_A_ZZ:
    case Layout::HIF4_A_ZZ:
      return {{1, rows / 16, cols / 2, 16, 2}};
    case Layout::MX_B_NN:
    case Layout::HIF4_B_NN:
      return {{1, cols / 16, rows / 2, 16, 2}};
    case Layout::MX_A_ND:
      return {{1, 1, rows, cols / 2, 2}};
    case Layout::MX_A_DN:
      return {{1, 1, cols / 2, rows, 2}};
    case Layout::MX_B_ND:
      return {{1, 1, rows / 2, cols, 2}};
    case Layout::MX_B_DN:
      return {{1, 1, cols, rows / 2, 2}};
    default:
      return {{1, 1, 1, rows, cols}};
  }
}
constexpr FiveNumbers matrix_stride(Layout layout, int64_t rows, int64_t cols, int64_t c0) {
  const FiveNumbers n = matrix_shape(layout, rows, cols, c0);
  const int64_t all = rows * cols;
  if (layout == Layout::DN) return {{all, all, all, 1, rows}};
  FiveNumbers stride = {{all, all, all, n.of[4], 1}};
  if (n.of[2] != 1 || layout > Layout::NZ) stride.of[2] = n.of[3] * n.of[4];
  if (n.of[1] != 1) stride.of[1] = n.of[2] * stride.of[2];
  return stride;
}
using MatrixDims = FiveNumbers (*)(Layout, int64_t, int64_t, int64_t);
// Returns one of them; DYNAMIC where it depends on a dynamic extent.
constexpr int64_t matrix_dim(MatrixDims f, int dim, Layout layout, int64_t rows, int64_t cols,
                             int64_t c0) {
  const int64_t r = rows == DYNAMIC ? 512 : rows, c = cols == DYNAMIC ? 512 : cols;
  const int64_t value = f(layout, r, c, c0).of[dim];
  if (rows == DYNAMIC && f(layout, 1024, c, c0).of[dim] != value) return DYNAMIC;
  if (cols == DYNAMIC && f(layout, r, 1024, c0).of[dim] != value) return DYNAMIC;
  return value;
}
}  // namespace detail

#define PTO_MATRIX_DIMS(Name, Base, f)                                                       \
  template <class T, int Rows, int Cols, Layout Order>                                       \
  using Base##Of2D = Base<detail::matrix_dim(f, 0, Order, Rows, Cols, 32 / int(sizeof(T))),  \
                          detail::matrix_dim(f, 1, Order, Rows, Cols, 32 / int(sizeof(T))),  \
                          detail::matrix_dim(f, 2, Order, Rows, Cols, 32 / int(sizeof(T))),  \
                          detail::matrix_dim(f, 3, Order, Rows, Cols, 32 / int(sizeof(T))),  \
                          detail::matrix_dim(f, 4, Order, Rows, Cols, 32 / int(sizeof(T)))>; \
  template <class T, int Rows = DYNAMIC, int Cols = DYNAMIC, Layout Order = Layout::ND>      \
  struct Name : Base##Of2D<T, Rows, Cols, Order> {                                           \
    using Base##Of2D<T, Rows, Cols, Order>::Base##Of2D;                                      \
    Name() = default;                                                                        \
    template <class I, class J>                                                              \
    PTO_INLINE Name(I rows, J cols) {                                                        \
      const detail::FiveNumbers n = f(Order, rows, cols, 32 / int(sizeof(T)));               \
      for (int i = 0; i < 5; ++i) this->value[i] = n.of[i];                                  \
    }                                                                                        \
  };
PTO_MATRIX_DIMS(TileShape2D, Shape, detail::matrix_shape)
PTO_MATRIX_DIMS(BaseShape2D, Stride, detail::matrix_stride)
#undef PTO_MATRIX_DIMS

template <class T>
struct Unqualified : TypeIs<T> {};
template <class T>
struct Unqualified<const T> : TypeIs<T> {};

// Takes the place of a shape: `count` elements in the order of the tile.
struct Packed {};

// The pointer of every view; IsPacked: it has no shape.
template <class T, Layout Order, bool IsPacked>
struct ViewOf {
  using DType = T;
  using Element = typename Unqualified<T>::type;
  static constexpr Layout layout = Order;
  static constexpr bool kIsPacked = IsPacked;
  static constexpr int kPerElement = kIsTwin<Element> ? 2 : 1;  // numbers, which views count

  PTO_INLINE T* data() const { return data_; }
  PTO_INLINE void SetAddress(T* pointer) { data_ = pointer; }

 protected:
  ViewOf() = default;
  explicit PTO_INLINE ViewOf(T* pointer) : data_(pointer) {}
  T* data_ = nullptr;
};

template <class T, class ShapeT = Packed, class StrideT = Packed, Layout Order = Layout::ND>
struct GlobalTensor : ViewOf<T, Order, false> {
  using Element = typename Unqualified<T>::type;
  using RawDType = Element;
  using Shape = ShapeT;
  using Stride = StrideT;
  static constexpr const int64_t (&staticShape)[5] = ShapeT::staticShape;
  static constexpr const int64_t (&staticStride)[5] = StrideT::staticStride;

  GlobalTensor() = default;  // views nothing until it is assigned
  PTO_INLINE GlobalTensor(T* pointer, const ShapeT& shape = {}, const StrideT& stride = {})
      : ViewOf<T, Order, false>(pointer), shape_(shape), stride_(stride) {}

  PTO_INLINE int64_t GetShape(int dim) const { return shape_[dim]; }
  PTO_INLINE int64_t GetStride(int dim) const { return stride_[dim]; }
  template <int Dim, typename Enable<ShapeT::staticShape[Dim] == DYNAMIC>::type = 0>
  PTO_INLINE int64_t GetShape() const {
    return shape_[Dim];
  }
  template <int Dim, typename Enable<StrideT::staticStride[Dim] == DYNAMIC>::type = 0>
  PTO_INLINE int64_t GetStride() const {
    return stride_[Dim];
  }
  template <int Dim, typename Enable<ShapeT::staticShape[Dim] != DYNAMIC>::type = 0>
  static constexpr PTO_INLINE int64_t GetShape() {
    return ShapeT::staticShape[Dim];
  }
  template <int Dim, typename Enable<StrideT::staticStride[Dim] != DYNAMIC>::type = 0>
  static constexpr PTO_INLINE int64_t GetStride() {
    return StrideT::staticStride[Dim];
  }
  // Dimensions count from 0: SetShape<3, 4>(rows, cols).
  template <int... Dims, class... I>
  PTO_INLINE void SetShape(I... given) {
    shape_.template set<Dims...>(given...);
  }
  template <int... Dims, class... I>
  PTO_INLINE void SetStride(I... given) {
    stride_.template set<Dims...>(given...);
  }

  // Read or write one element, by its number from data() on or by five indices, unchecked.
  PTO_INLINE Element GetElement(int64_t at) const {
    return lanes::number_at<Element>(this->data_, at);
  }
  PTO_INLINE void SetElement(int64_t at, Element value) const {
    lanes::set_number<Element>(this->data_, at, value);
  }
  PTO_INLINE int64_t Offset(int64_t a, int64_t b, int64_t c, int64_t d, int64_t e) const {
    return a * stride_[0] + b * stride_[1] + c * stride_[2] + d * stride_[3] + e * stride_[4];
  }
  PTO_INLINE Element GetElement(int64_t a, int64_t b, int64_t c, int64_t d, int64_t e) const {
    return GetElement(Offset(a, b, c, d, e));
  }
  PTO_INLINE void SetElement(int64_t a, int64_t b, int64_t c, int64_t d, int64_t e,
                             Element value) const {
    SetElement(Offset(a, b, c, d, e), value);
  }

 private:
  ShapeT shape_;
  StrideT stride_;
};

template <class T, Layout Order>
struct GlobalTensor<T, Packed, Packed, Order> : ViewOf<T, Order, true> {
  explicit PTO_INLINE GlobalTensor(T* pointer) : GlobalTensor(pointer, INT64_MAX) {
    const int64_t bytes = pto_extent(pointer);
    if (bytes >= 0) count_ = bytes / int64_t(sizeof(T)) * GlobalTensor::kPerElement;
  }
  PTO_INLINE GlobalTensor(T* pointer, int64_t count)
      : ViewOf<T, Order, true>(pointer), count_(count) {}

  PTO_INLINE int64_t count() const { return count_; }

 private:
  int64_t count_;  // negative counts as 0
};

// States `Count` elements, known when the kernel is compiled: GlobalTensor(x, kCountOf<64>).
template <int64_t Count>
struct Counted {};
template <int64_t Count>
inline constexpr Counted<Count> kCountOf;

template <class T, int64_t Count, Layout Order>
struct GlobalTensor<T, Counted<Count>, Packed, Order> : ViewOf<T, Order, true> {
  PTO_INLINE GlobalTensor(T* pointer, Counted<Count>) : ViewOf<T, Order, true>(pointer) {}
  static constexpr PTO_INLINE int64_t count() { return Count; }
};

// The number of a view's elements, where it is known when the kernel is compiled.
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
