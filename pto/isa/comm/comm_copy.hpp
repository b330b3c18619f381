// SPDX-License-Identifier: Apache-2.0
// comm_copy: the copies, sums and reductions from view to view behind pto::comm.
//
//     comm::detail::copy(dst, src, tile, false);                    // dst = src
//     comm::detail::reduce(dst, src, tile, comm::ReduceOp::Max);    // dst = max(dst, src)
//
// The source gives the shape, of which the part is copied that the destination has too. A view
// without a shape has the tile's valid elements, at most its count.
//
// Invariant: elements outside either shape keep their values. A maximum or minimum with NaN is NaN.
// Thread safety: plain writes of elements, atomic additions.
#pragma once
#include "pto/isa/matrix/fixpipe.hpp"
#include "pto/isa/tile/tile_layouts.hpp"

PTO_NAMESPACE_BEGIN
namespace comm {

enum class ReduceOp : uint8_t { Sum, Max, Min };

namespace detail {

// Calls visit(offset, count, step, row) for every row of a view, its last dimension; `row` counts.
template <class G, class Visit>
PTO_INLINE void for_each_row(const G& g, const Visit& visit) {
  int64_t row = 0;
  for (int64_t a = 0; a < g.GetShape(0); ++a)
    for (int64_t b = 0; b < g.GetShape(1); ++b)
      for (int64_t c = 0; c < g.GetShape(2); ++c)
        for (int64_t d = 0; d < g.GetShape(3); ++d, ++row)
          visit(a * g.GetStride(0) + b * g.GetStride(1) + c * g.GetStride(2) + d * g.GetStride(3),
                g.GetShape(4), g.GetStride(4), row);
}

template <class D, class S>
constexpr bool check_views() {
  static_assert(kSame<typename D::Element, typename S::Element>,
                "pto::comm: both views must have the same element type; convert a tile with TCVT");
  static_assert(D::kIsPacked == S::kIsPacked,
                "pto::comm: both views must have a shape, or neither; give the other one its Shape "
                "and Stride");
  return true;
}

template <class G, class D>
constexpr bool check_stacked() {
  check_views<G, D>();
  static_assert(!D::kIsPacked,
                "TGATHER, TSCATTER: the views need a shape, whose dimension 3 is cut; give the "
                "GlobalTensor a Shape and a Stride");
  return true;
}

// Calls visit(dst, dst_step, src, src_step, count) for every row of the shape of `shape` that both
// views have. Rows of dst and src start at `to` and `from` of dimension 3.
template <class D, class S, class G, class Visit>
PTO_INLINE void for_both(const D& dst, int64_t to, const S& src, int64_t from, const G& shape,
                         const Visit& visit) {
  const auto start = dst.data() + to * dst.GetStride(3);
  const auto source = src.data() + from * src.GetStride(3);
  int64_t n[5];
  for (int axis = 0; axis < 5; ++axis) {
    const int64_t in_dst = dst.GetShape(axis) - (axis == 3 ? to : 0);
    const int64_t in_src = src.GetShape(axis) - (axis == 3 ? from : 0);
    const int64_t in_both = in_dst < in_src ? in_dst : in_src;
    n[axis] = shape.GetShape(axis) < in_both ? shape.GetShape(axis) : in_both;
  }
  for (int64_t a = 0; a < n[0]; ++a)
    for (int64_t b = 0; b < n[1]; ++b)
      for (int64_t c = 0; c < n[2]; ++c)
        for (int64_t d = 0; d < n[3]; ++d) {
          const int64_t i[4] = {a, b, c, d};
          int64_t at_dst = 0, at_src = 0;
          for (int axis = 0; axis < 4; ++axis) {
            at_dst += i[axis] * dst.GetStride(axis);
            at_src += i[axis] * src.GetStride(axis);
          }
          visit(start + at_dst, dst.GetStride(4), source + at_src, src.GetStride(4), n[4]);
        }
}

// Visits views without a shape, as elements in a row.
template <class D, class S, class T, class Visit>
PTO_INLINE void for_all(const D& dst, const S& src, [[maybe_unused]] const T& tile,
                        const Visit& visit) {
  if constexpr (S::kIsPacked) {
    int64_t count = src.count() < dst.count() ? src.count() : dst.count();
    if constexpr (kIsTile<T>) {
      const int64_t valid = int64_t(tile.GetValidRow()) * tile.GetValidCol();
      count = count < valid ? count : valid;
    }
    visit(dst.data(), int64_t(1), src.data(), int64_t(1), count);
  } else {
    for_both(dst, 0, src, 0, src, visit);
  }
}

struct Copy {
  template <class A, class B>
  PTO_INLINE void operator()(A* dst, int64_t dst_step, B* src, int64_t src_step,
                             int64_t count) const {
    if (dst_step == 1 && src_step == 1) {
      if (count > 0) __builtin_memmove(static_cast<void*>(dst), src, size_t(count) * sizeof(A));
      return;
    }
    for (int64_t i = 0; i < count; ++i) dst[i * dst_step] = src[i * src_step];
  }
};

template <class D, class S, class G>
PTO_INLINE void copy_rows(const D& dst, int64_t to, const S& src, int64_t from, const G& shape) {
  for_both(dst, to, src, from, shape, Copy{});
}

template <class D, class S, class T>
void copy(const D& dst, const S& src, const T& tile, bool adds) {
  static_assert(check_views<D, S>());
  if (!adds) return for_all(dst, src, tile, Copy{});
  for_all(dst, src, tile,
          [](auto* to, int64_t to_step, const auto* from, int64_t from_step, int64_t count) {
            for (int64_t i = 0; i < count; ++i)
              lanes::add_atomic(to + i * to_step, from[i * from_step]);
          });
}

template <class T>
PTO_INLINE T reduced(T a, T b, ReduceOp op) {
  if constexpr (!kIsFloat<T>)
    if (op == ReduceOp::Sum) return T(UnsignedOf<T>(a) + UnsignedOf<T>(b));
  if (op == ReduceOp::Sum) return T(a + b);
  if (a != a || b != b) return a != a ? a : b;
  return op == ReduceOp::Max ? (a < b ? b : a) : (b < a ? b : a);
}

template <class D, class S, class T>
void reduce(const D& dst, const S& src, const T& tile, ReduceOp op) {
  static_assert(check_views<D, S>());
  for_all(dst, src, tile,
          [op](auto* to, int64_t to_step, const auto* from, int64_t from_step, int64_t count) {
            using E = typename D::Element;
            for (int64_t i = 0; i < count; ++i)
              to[i * to_step] = reduced<E>(to[i * to_step], from[i * from_step], op);
          });
}

// Calls use(view) with a view of the size of another one, or of what a tile bounds of it, over
// memory that ends with the call.
template <class G, class A, class Use>
void with_own_view(const G& like, [[maybe_unused]] const A& tile, const Use& use) {
  using T = typename G::Element;
  if constexpr (G::kIsPacked) {
    const int64_t valid = int64_t(tile.GetValidRow()) * tile.GetValidCol();
    const int64_t bounded = like.count() < valid ? like.count() : valid;
    const int64_t count = bounded > 0 ? bounded : 0;
    const Room<T> room{size_t(count)};
    use(GlobalTensor<T, Packed, Packed>(room.get(), count));
  } else {
    const Shape<> n(like.GetShape(0), like.GetShape(1), like.GetShape(2), like.GetShape(3),
                    like.GetShape(4));
    const Stride<> step(n[1] * n[2] * n[3] * n[4], n[2] * n[3] * n[4], n[3] * n[4], n[4], 1);
    const Room<T> room(size_t(n[0] * step[0]));
    use(GlobalTensor<T, Shape<>, Stride<>>(room.get(), n, step));
  }
}

// Finds the run-time operation among trailing operands.
PTO_INLINE bool asks_to_add() { return false; }
template <class A, class... X>
PTO_INLINE bool asks_to_add(const A& a, const X&... rest) {
  if constexpr (kSame<A, AtomicType>)
    return a == AtomicType::AtomicAdd;
  else
    return asks_to_add(rest...);
}
template <class A, class... X>
PTO_INLINE ReduceOp operation_of(const A& a, const X&... rest) {
  if constexpr (kSame<A, ReduceOp>) {
    return a;
  } else {
    static_assert(sizeof...(X) > 0,
                  "TREDUCE: the operation is missing; name it after the tiles, as ReduceOp::Sum");
    return operation_of(rest...);
  }
}

}  // namespace detail
}  // namespace comm
PTO_NAMESPACE_END
