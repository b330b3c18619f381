// SPDX-License-Identifier: Apache-2.0
// The slow definition for the instruction tests: each row's value on one element, in double or in
// 128-bit integers, and tiles full of awkward numbers to try it on.
//
//     const Wide<T> want = scalar::TADD_value::of(wide(a), wide(b));  EXPECT close<T>(got, want)
//
// Invariant: nothing here uses vectors or instructions. Only tests include this header.
// Thread safety: pure functions.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "pto/isa/instructions.hpp"

namespace pto {

using namespace isa;

using Int = __int128;

namespace scalar {

using std::ceil;
using std::cos;
using std::erf;
using std::exp;
using std::floor;
using std::fmod;
using std::log;
using std::rint;
using std::sin;
using std::sqrt;
using std::tanh;
using std::trunc;

template <class S>
constexpr bool kReal = std::is_floating_point<S>::value;

template <class S>
S abs(S a) {
  return a < 0 || (kReal<S> && std::signbit(double(a))) ? -a : a;
}
inline double rsqrt(double a) { return 1 / std::sqrt(a); }
inline double reciprocal(double a) { return 1 / a; }
inline double sigmoid(double a) { return 1 / (1 + std::exp(-a)); }
template <class S>
S relu(S a) {
  return a < 0 ? S(0) : a;
}
template <class S>
S maximum(S a, S b) {
  return a != a ? a : b != b ? b : a > b ? a : b;
}
template <class S>
S minimum(S a, S b) {
  return a != a ? a : b != b ? b : a < b ? a : b;
}
template <class S>
S if_positive(S a, S then, S otherwise) {
  return a > 0 ? then : otherwise;
}
inline double divide(double a, double b) { return a / b; }
inline Int divide(Int a, Int b) { return b == 0 ? 0 : a / b; }
inline Int fmod(Int a, Int b) { return b == 0 ? 0 : a % b; }
template <class S>
S remainder(S a, S b) {
  const S r = fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
inline double pow(double a, double b) { return std::pow(a, b); }
inline Int pow(Int a, Int b) {
  if (b < 0) return a == 1 ? 1 : a == -1 ? ((b & 1) != 0 ? -1 : 1) : 0;
  uint64_t result = 1, base = uint64_t(a);
  for (uint64_t n = uint64_t(b); n; n >>= 1, base *= base)
    if (n & 1) result *= base;
  return Int(result);
}
inline Int shift_left(Int a, Int b) { return Int(uint64_t(a) << uint64_t(b)); }
inline Int shift_right(Int a, Int b) { return a >> uint64_t(b); }

#define PTO_UNARY(M, op, value, numpy, types) \
  struct M##_value {                          \
    template <class S>                        \
    static S of(S a) {                        \
      return value;                           \
    }                                         \
  };
#define PTO_BINARY_ONLY(M, value, numpy, types) \
  struct M##_value {                            \
    template <class S>                          \
    static S of(S a, S b) {                     \
      return value;                             \
    }                                           \
  };
#define PTO_BINARY(M, op, value, numpy, types) PTO_BINARY_ONLY(M, value, numpy, types)
#define PTO_TERNARY(M, value, numpy, types) \
  struct M##_value {                        \
    template <class S>                      \
    static S of(S a, S b, S c) {            \
      return value;                         \
    }                                       \
  };
#define PTO_ACCUMULATE(M, value, numpy, types) PTO_TERNARY(M, value, numpy, types)
#define PTO_REDUCE(row, col, part, op, value, start, numpy, types) PTO_BINARY_ONLY(row, value, , )
#define PTO_COMPARE(mode, op, value, numpy, types) \
  struct mode##_value {                            \
    template <class S>                             \
    static bool of(S a, S b) {                     \
      return value;                                \
    }                                              \
  };
#define PTO_LOGICAL_UNARY(...)
#define PTO_LOGICAL_BINARY(...)
#include "pto/isa/instructions.def"

}  // namespace scalar

// The type in which one element is computed.
template <class T>
using Wide = typename Choose<kIsFloat<T>, double, Int>::type;

template <class T>
Wide<T> wide(T value) {
  if constexpr (kIsFloat<T>)
    return kSame<T, double> ? double(value) : double(float(value));
  else
    return Int(to_compute(value));
}

// Rounded to T: integers wrap.
template <class T>
T rounded(Wide<T> value) {
  if constexpr (kSame<T, double>)
    return value;
  else if constexpr (kIsFloat<T>)
    return T(float(value));
  else
    return T(value);
}

// A value whose every product and sum is rounded, where T has 16 bits.
template <class T>
struct Steps {
  double value;
  explicit Steps(double exact) : value(sizeof(T) == 2 ? double(wide(rounded<T>(exact))) : exact) {}
  friend Steps operator*(Steps a, Steps b) { return Steps(a.value * b.value); }
  friend Steps operator+(Steps a, Steps b) { return Steps(a.value + b.value); }
  friend bool operator<(Steps a, int b) { return a.value < b; }
  explicit operator double() const { return value; }
};

// The distance between T's neighbours at `value`.
template <class T>
double spacing(double value) {
  const int bits = kSame<T, half> ? 11 : kSame<T, bfloat16_t> ? 8 : kSame<T, float> ? 24 : 53;
  const int least = kSame<T, half>         ? -24
                    : kSame<T, bfloat16_t> ? -133
                    : kSame<T, float>      ? -149
                                           : -1074;
  int exponent = 0;
  std::frexp(value, &exponent);
  return std::ldexp(1.0, exponent - bits > least ? exponent - bits : least);
}

template <class T>
double largest() {
  return kSame<T, half>         ? 65504.0
         : kSame<T, bfloat16_t> ? 3.3895313892515355e38
         : kSame<T, float>      ? 3.4028234663852886e38
                                : 1.7976931348623157e308;
}

// Integers are equal; floats are within `ulps`, NaN with NaN, infinity with infinity.
template <class T>
bool close(T got, Wide<T> want, double ulps) {
  if constexpr (!kIsFloat<T>) {
    return got == rounded<T>(want);
  } else {
    const double value = double(wide(got));
    if (std::isnan(want)) return std::isnan(value);
    if (std::isinf(value) || std::isinf(want) || std::fabs(want) > largest<T>())
      return value == want || (std::fabs(want) >= largest<T>() * 0.999 &&
                               std::fabs(value) >= largest<T>() * 0.99 && value * want > 0);
    return std::fabs(value - want) <= ulps * spacing<T>(want);
  }
}

// Eighths within +-8 are exact in every type, and so are their sums and products in float.
template <class T>
T awkward(unsigned i) {
  i = i * 2654435761u;
  const unsigned kind = (i >> 8) % 24;
  const int eighths = int((i >> 16) % 129) - 64;
  if constexpr (kIsFloat<T>) {
    const float special[] = {0.f, -0.f, INFINITY, -INFINITY, NAN, 3e4f, -0x1p-14f, 1.f};
    return kind < 8 ? T(special[kind]) : T(float(eighths) / 8);
  } else {
    using C = Compute<T>;
    const C special[] = {C(0), C(1), C(-1), lowest<C>(), highest<C>(), C(lowest<C>() + 1)};
    return kind < 6 ? T(special[kind]) : T(C(eighths));
  }
}

// The bits of an element, so that NaN and -0 compare.
template <class T>
uint64_t bits_of(T value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  return bits;
}

template <class D>
void fill(D& tile, unsigned seed) {
  for (int i = 0; i < D::Numel; ++i)
    tile.SetValue(i, awkward<typename D::DType>(unsigned(i) * 7 + seed));
}

// Every element of `d` against `want(r, c)` where valid, against `before` elsewhere; "" or what
// differs.
template <class D, class Want>
std::string differs(const D& d, const D& before, double ulps, Want want) {
  for (int r = 0; r < D::Rows; ++r)
    for (int c = 0; c < D::Cols; ++c) {
      const auto got = d.GetElement(r, c);
      const std::string where = "[" + std::to_string(r) + "," + std::to_string(c) + "]";
      if (r >= d.GetValidRow() || c >= d.GetValidCol()) {
        if (bits_of(got) != bits_of(before.GetElement(r, c))) return "padding changed at " + where;
      } else if (!close(got, want(r, c), ulps)) {
        return where + " is " + std::to_string(double(wide(got))) + ", should be " +
               std::to_string(double(want(r, c)));
      }
    }
  return "";
}

// A tile whose valid region is rows x cols, or the whole tile where it is static.
template <class D>
D shaped(int rows, int cols) {
  D tile;
  tile.SetValidShape(rows, cols);
  return tile;
}

}  // namespace pto
