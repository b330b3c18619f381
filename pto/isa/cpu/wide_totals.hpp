// SPDX-License-Identifier: Apache-2.0
// Wide totals: the type in which elements join one after another. Floats join in double and are
// rounded once; integers wrap.
//
//     Total<half> total = total_of(x[0]);
//     total = sum_of(total, total_of(x[1]));
//     y = rounded<half>(total);
//
// Thread safety: pure functions.
#pragma once
#include "pto/isa/cpu/element_types.hpp"
#include "pto/isa/elementwise/convert.hpp"

namespace pto {

using isa::kSame;

template <class T>
constexpr bool kIsShort = kSame<T, half> || kSame<T, bfloat16_t>;
template <class T>
constexpr bool kIsReal = kIsShort<T> || kSame<T, float> || kSame<T, double>;
template <class T>
using Total = typename isa::Choose<kIsReal<T>, double, T>::type;

template <class T>
Total<T> total_of(T x) {
  if constexpr (kIsShort<T>)
    return double(float(x));
  else
    return Total<T>(x);
}
template <class T>
T rounded(Total<T> x) {
  if constexpr (kIsShort<T>)
    return T(isa::lanes::sticky_float(isa::Vec<double, 2>{x, x})[0]);
  else
    return T(x);
}
template <class T>
T sum_of(T a, T b) {
  if constexpr (kSame<T, double>)
    return a + b;
  else
    return T(uint64_t(a) + uint64_t(b));
}

}  // namespace pto
