// SPDX-License-Identifier: Apache-2.0
// Pair reduce: sums of neighbours, and the column sum that names its order.
//
//     TPAIRREDUCESUM(d, s);            // d[i, j] = s[i, 2 j] + s[i, 2 j + 1]
//     TCOLSUM(d, s, tmp, true);        // as TCOLSUM(d, s): the order is the same here
//
// Invariant: TPAIRREDUCESUM writes the whole destination tile, 0 where no pair ends; the last
// element of an odd row stands alone. The destination may be the source.
// Thread safety: a tile belongs to one thread.
#pragma once
#include "pto/isa/cpu/shuffle.hpp"
#include "pto/isa/reduce/reduce.hpp"

PTO_NAMESPACE_BEGIN
namespace detail {

template <class T>
PTO_INLINE void add_pairs(T* d, const T* s, int count) {
  constexpr int N = kLanes<T>;
  for (int i = 0; i < count; i += 2 * N) {
    const int left = count - i;
    const auto low = lanes::load_part<N>(s + i, left < N ? left : N);
    const auto high = lanes::load_part<N>(s + i + N * (left > N), left < N       ? 0
                                                                  : left < 2 * N ? left - N
                                                                                 : N);
    const auto sums = lanes::unzip_even(low, high) + lanes::unzip_odd(low, high);
    const int pairs = (left + 1) / 2;
    lanes::store_part<N>(d + i / 2, sums, pairs < N ? pairs : N);
  }
}

}  // namespace detail

template <class D, class S, class... X>
PTO_INLINE RecordEvent TPAIRREDUCESUM(D& d, const S& s, const X&...) {
  using T = typename D::DType;
  static_assert(kSame<T, typename S::DType>,
                "TPAIRREDUCESUM: both tiles must have the same element type; use TCVT");
  static_assert(kIsRows<D, S> && D::Rows >= S::Rows && 2 * D::Cols >= S::Cols,
                "TPAIRREDUCESUM: tiles must be row-major and unboxed, the destination with every "
                "row and at least half the columns; lay them out with TMOV");
  PTO_INSTRUCTION(TPAIRREDUCESUM, "d, s", out(d), in(s));
  using U = UnsignedOf<T>;  // integers wrap
  const int cols = s.GetValidCol(), pairs = (cols + 1) / 2;
  for (int r = 0; r < D::Rows; ++r) {
    const bool valid = r < s.GetValidRow();
    if (valid)
      detail::add_pairs(reinterpret_cast<U*>(d.data() + D::Offset(r, 0)),
                        reinterpret_cast<const U*>(s.data() + S::Offset(r, 0)), cols);
    for (int c = valid ? pairs : 0; c < D::Cols; ++c) d.SetElement(r, c, T(0));
  }
  return {};
}

// With isBinary hardware sums in a tree; here every order is the one of reduce.hpp.
template <class D, class S, class Tmp, class... X>
PTO_INLINE RecordEvent TCOLSUM(D& d, const S& s, const Tmp&, bool, const X&... events) {
  static_assert(check_trailing<Tmp, X...>());
  PTO_ENTER(TCOLSUM, "d, s, tmp, isBinary", out(d), in(s));
  return TCOLSUM(d, s, events...);
}

PTO_NAMESPACE_END
