// SPDX-License-Identifier: Apache-2.0
#include "pto/ir/element.hpp"

#include <cmath>
#include <concepts>
#include <cstdlib>

#include "pto/base/number.hpp"

namespace pto {
namespace {

// Functions that the table's values call, for double, int64_t and uint64_t.
using std::abs, std::ceil, std::cos, std::erf, std::exp, std::floor, std::fmod, std::log, std::pow,
    std::rint, std::sin, std::sqrt, std::tanh, std::trunc;

double rsqrt(double a) { return 1 / std::sqrt(a); }
double reciprocal(double a) { return 1 / a; }
double sigmoid(double a) {
  const double e = std::exp(-std::abs(a));
  return (a < 0 ? e : 1) / (1 + e);
}
double divide(double a, double b) { return a / b; }

double remainder(double a, double b) {
  const double r = std::fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

template <class T>
T relu(T a) {
  return a < 0 ? T(0) : a;
}
template <class T>
T maximum(T a, T b) {
  return a != a || a > b ? a : b;
}
template <class T>
T minimum(T a, T b) {
  return a != a || a < b ? a : b;
}

int64_t absolute(int64_t a) { return a < 0 ? static_cast<int64_t>(-static_cast<uint64_t>(a)) : a; }
uint64_t absolute(uint64_t a) { return a; }

template <std::integral T>
T divide(T a, T b) {
  if (b == 0) return 0;
  if (b == T(-1) && T(-1) < 0) return static_cast<T>(-static_cast<uint64_t>(a));
  return a / b;
}
template <std::integral T>
T fmod(T a, T b) {
  return b == 0 || (b == T(-1) && T(-1) < 0) ? 0 : a % b;
}
template <std::integral T>
T remainder(T a, T b) {
  const T r = fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
template <std::integral T>
T pow(T a, T b) {
  if (b < 0) return a == 1 ? 1 : a == T(-1) ? (b & 1 ? T(-1) : T(1)) : T(0);
  uint64_t result = 1, base = static_cast<uint64_t>(a);
  for (auto n = static_cast<uint64_t>(b); n != 0; n >>= 1, base *= base)
    if (n & 1) result *= base;
  return static_cast<T>(result);
}

enum ElementSet { kFloat, kInteger, kArithmetic, kOrdered, kBool };

// The type in which an integer operation computes: unsigned, which wraps, unless the sign matters.
template <ElementSet set, class T>
using ComputeIn = std::conditional_t<std::integral<T> && set != kOrdered, uint64_t, T>;

// Evaluates the row's value for T where it has one (~a has none for double).
template <class T>
T value_of(Opcode op, T x, T y) {
  switch (op) {
#define PTO_BINARY(mnemonic, op, value, numpy, set)                    \
  case Opcode::op:                                                     \
    return [](auto a, auto b) -> T {                                   \
      if constexpr (requires { value; }) return static_cast<T>(value); \
      return T(b);                                                     \
    }(static_cast<ComputeIn<set, T>>(x), static_cast<ComputeIn<set, T>>(y));
#define PTO_UNARY(mnemonic, op, value, numpy, set) PTO_BINARY(mnemonic, op, value, numpy, set)
#define PTO_REDUCE(row, col, part, op, value, zero, numpy, set) \
  PTO_BINARY(row, op, value, numpy, set)
#include "pto/isa/instructions.def"
    default:
      break;
  }
  PTO_ASSERT(!"an operation without a value");
  return x;
}

template <class T>
bool compare(Opcode op, T a, T b) {
  switch (op) {
#define PTO_COMPARE(mode, op, value, ...) \
  case Opcode::op:                        \
    return value;
#include "pto/isa/instructions.def"
    default:
      break;
  }
  PTO_ASSERT(!"no comparison");
  return false;
}

template <class F>
auto with_integers(DType dtype, F f) {
  return dtype == DType::U64 ? f(uint64_t(0)) : f(int64_t(0));
}

int64_t integer_value(Opcode op, DType dtype, int64_t a, int64_t b) {
  return wrap_to(
      dtype, with_integers(dtype, [&]<class T>(T) {
        if (op == Opcode::abs) return static_cast<int64_t>(absolute(static_cast<T>(a)));
        return static_cast<int64_t>(value_of<T>(op, static_cast<T>(a), static_cast<T>(b)));
      }));
}

// Converts a 64-bit integer to a double that rounds to any narrower type as the integer does: the
// last of its 53 bits says whether any lost bit was not 0.
double sticky_double(uint64_t size) {
  int lost = 0;
  while (size >> lost >= uint64_t(1) << 53) ++lost;
  const uint64_t kept = size >> lost;
  const bool is_exact = kept << lost == size;
  return std::ldexp(static_cast<double>(is_exact ? kept : kept | 1), lost);
}

ElementValue convert(DType from, DType to, ElementNumber x) {
  if (is_float(from) && is_float(to)) return {{round_to(to, x.real), 0}, x.real};
  if (is_float(from)) return {{0, to == DType::Bool ? x.real != 0 : truncate_to(to, x.real)}};
  if (!is_float(to)) return {{0, wrap_to(to, x.integer)}};
  const auto u = static_cast<uint64_t>(x.integer);
  const bool is_unsigned = from == DType::U64;
  if (to == DType::F32) {
    const float value = is_unsigned ? static_cast<float>(u) : static_cast<float>(x.integer);
    return {{value, 0}, value};
  }
  if (to == DType::F64) {
    const double value = is_unsigned ? static_cast<double>(u) : static_cast<double>(x.integer);
    return {{value, 0}, value};
  }
  const bool is_negative = !is_unsigned && x.integer < 0;
  const double value = sticky_double(is_negative ? 0 - u : u);
  return {{round_to(to, is_negative ? -value : value), 0}, is_negative ? -value : value};
}

}  // namespace

ElementValue evaluate_element(Opcode op, DType from, DType to, std::span<const ElementNumber> x) {
  const Family family = info(op).family;
  if (family == Family::Select) return {x[0].integer != 0 ? x[1] : x[2]};
  if (family == Family::Convert) return convert(from, to, x[0]);
  const ElementNumber a = x[0], b = x.size() > 1 ? x[1] : ElementNumber{};
  if (family == Family::Compare && is_float(from)) return {{0, compare(op, a.real, b.real)}};
  if (family == Family::Compare)
    return {{0, with_integers(from, [&]<class T>(T) {
               return compare(op, static_cast<T>(a.integer), static_cast<T>(b.integer));
             })}};
  if (!is_float(from)) return {{0, integer_value(op, from, a.integer, b.integer)}};
  const double exact = value_of<double>(op, a.real, b.real);
  return {{round_to(to, exact), 0}, exact};
}

ElementNumber identity(Opcode op, DType dtype) {
  enum Identity { kZero, kOne, kLowest, kHighest };
  Identity which = kZero;
  switch (op) {
#define PTO_REDUCE(row, col, part, op, value, zero, ...) \
  case Opcode::op:                                       \
    which = zero;                                        \
    break;
#include "pto/isa/instructions.def"
    default:
      PTO_ASSERT(!"no reduction");
  }
  if (which == kLowest) return {-INFINITY, lowest_integer(dtype)};
  if (which == kHighest) return {INFINITY, highest_integer(dtype)};
  return {which == kOne ? 1.0 : 0.0, which == kOne};
}

ElementNumber fold(Opcode op, DType dtype, ElementNumber total, ElementNumber x) {
  if (is_float(dtype)) return {value_of<double>(op, total.real, x.real), 0};
  return {0, integer_value(op, dtype, total.integer, x.integer)};
}

}  // namespace pto
