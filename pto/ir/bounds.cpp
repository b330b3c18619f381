// SPDX-License-Identifier: Apache-2.0
#include "pto/ir/bounds.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "pto/base/number.hpp"
#include "pto/ir/operations/operation.hpp"

namespace pto {
namespace {

constexpr double kUnbounded = INFINITY;

bool is_half(DType dtype) { return dtype == DType::F16 || dtype == DType::BF16; }

// Returns the type in which compiled code computes.
DType compute_type(DType dtype) { return is_half(dtype) ? DType::F32 : dtype; }

// Returns the difference of two results; NaN equals NaN.
double distance(double a, double b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  const double d = std::abs(a - b);
  return std::isnan(d) ? kUnbounded : d;
}

double value_at(Opcode op, DType from, DType to, double a, double b) {
  const std::array<ElementNumber, 2> x{ElementNumber{a, 0}, ElementNumber{b, 0}};
  const ElementValue value = evaluate_element(op, from, to, x);
  return is_float(to) ? value.exact : static_cast<double>(value.number.integer);
}

// Derives the bound from the operand's interval.
double propagated_unary(Opcode op, DType from, DType to, double x, double b) {
  const ErrorGrowth growth = operation(op).facts.growth;
  if (b == 0) return 0;
  if (growth == ErrorGrowth::Periodic) return std::min(b, 2.0);
  if (growth == ErrorGrowth::Slope1) return b;
  if ((growth == ErrorGrowth::Pole || growth == ErrorGrowth::Steep) && std::abs(x) <= b)
    return kUnbounded;
  const double y = value_at(op, from, to, x, 0);
  return std::max(distance(value_at(op, from, to, x - b, 0), y),
                  distance(value_at(op, from, to, x + b, 0), y));
}

// Derives the bound from the corners of the operands' intervals, between which the operation is
// monotone.
double corners(Opcode op, DType dtype, const double* x, const double* b) {
  const double y = value_at(op, dtype, dtype, x[0], x[1]);
  double bound = 0;
  for (const double i : {-1.0, 0.0, 1.0})
    for (const double j : {-1.0, 0.0, 1.0})
      bound = std::max(bound,
                       distance(value_at(op, dtype, dtype, x[0] + i * b[0], x[1] + j * b[1]), y));
  return bound;
}

double propagated_binary(Opcode op, DType dtype, const double* x, const double* b) {
  // Zeros of either sign are equal to compiled code, but their quotients differ.
  const ErrorGrowth growth = operation(op).facts.growth;
  if (growth == ErrorGrowth::Quotient && std::abs(x[1]) <= b[1]) return kUnbounded;
  if (b[0] == 0 && b[1] == 0) return 0;
  switch (growth) {
    case ErrorGrowth::Largest:
      return std::max(b[0], b[1]);
    case ErrorGrowth::Power:
      return x[0] > b[0] ? corners(op, dtype, x, b) : kUnbounded;
    case ErrorGrowth::Corners:
    case ErrorGrowth::Quotient:
      return corners(op, dtype, x, b);
    default:
      return kUnbounded;
  }
}

// Returns the share of a bound that comes from rounding differently than the interpreter.
double rounding(Opcode op, DType dtype, const double* x, const ElementValue& value,
                bool operands_exact) {
  const DType compute = compute_type(dtype);
  const Facts& facts = operation(op).facts;
  const double ulp = spacing(compute, value.exact);
  double bound = (dtype == DType::F64 ? facts.ulps_f64 : facts.ulps) * ulp;
  if (facts.flushes && compute == DType::F32) bound += 0x1p-126;
  const bool exact =
      value.number.real == value.exact &&
      (dtype != DType::F64 || (op == Opcode::mul && std::fma(x[0], x[1], -value.exact) == 0));
  if (facts.may_stay_unrounded && !exact) bound += ulp;
  if (!operands_exact && !exact) bound += ulp;
  if (!operands_exact && dtype == DType::F64) bound += ulp;
  if (is_half(dtype) && !exact) bound += spacing(dtype, value.exact);
  return bound;
}

double compare_bound(std::span<const ElementNumber> x, std::span<const double> b) {
  const double slack = b[0] + b[1];
  return slack > 0 && !(std::abs(x[0].real - x[1].real) > slack) ? kUnbounded : 0;
}

double convert_bound(DType from, DType to, ElementNumber x, double b, const ElementValue& value) {
  if (is_float(from) && is_float(to)) {
    if (b == 0) return 0;  // a cast always rounds, and once
    const double y = value.number.real;
    return std::max(distance(round_to(to, x.real - b), y), distance(round_to(to, x.real + b), y)) +
           spacing(compute_type(to), value.exact);
  }
  if (is_float(from)) {
    const double limit = static_cast<double>(highest_integer(to));
    if (to == DType::Bool) return b > 0 && std::abs(x.real) <= b ? kUnbounded : 0;
    const bool inside = x.real - b > -limit && x.real + b < limit;
    if (!inside || (!is_signed(to) && x.real - b <= -1) || to == DType::U64) return kUnbounded;
    return std::trunc(x.real - b) == std::trunc(x.real + b) ? 0 : kUnbounded;
  }
  if (b > 0) return kUnbounded;
  const bool exact =
      !is_float(to) || (value.exact == static_cast<double>(x.integer) &&
                        std::abs(value.exact) <= 0x1p53 && value.number.real == value.exact);
  return exact ? 0 : spacing(to, value.exact);
}

// Returns infinity where a value of this size may overflow in compiled code but not here, or the
// reverse.
double with_overflow(DType dtype, double exact, double rounded, double bound) {
  const DType compute = compute_type(dtype);
  if (std::isnan(bound)) return kUnbounded;
  if (std::isfinite(exact) && !std::isfinite(rounded)) return kUnbounded;
  if (std::isfinite(exact) && bound > 0 && std::abs(exact) + bound >= largest(compute))
    return kUnbounded;
  return bound;
}

}  // namespace

double element_bound(Opcode op, DType from, DType to, std::span<const ElementNumber> x,
                     std::span<const double> b, const ElementValue& value) {
  if (info(op).family == Family::Select) {
    if (b[0] > 0) return kUnbounded;
    return x[0].integer != 0 ? b[1] : b[2];
  }
  const bool operands_exact = std::all_of(b.begin(), b.end(), [](double e) { return e == 0; });
  if (std::any_of(b.begin(), b.end(), [](double e) { return !std::isfinite(e); }))
    return kUnbounded;
  if (info(op).family == Family::Convert) {
    const double bound = convert_bound(from, to, x[0], b[0], value);
    return is_float(to) ? with_overflow(to, value.exact, value.number.real, bound) : bound;
  }
  if (!is_float(from)) return operands_exact ? 0 : kUnbounded;
  if (info(op).family == Family::Compare) return compare_bound(x, b);
  const std::array<double, 2> reals{x[0].real, x.size() > 1 ? x[1].real : 0};
  const std::array<double, 2> off{b[0], b.size() > 1 ? b[1] : 0};
  const Facts& facts = operation(op).facts;
  if (facts.growth == ErrorGrowth::Pole && reals[0] == 0) return kUnbounded;
  double bound = x.size() == 1 ? propagated_unary(op, from, to, reals[0], off[0])
                               : propagated_binary(op, from, reals.data(), off.data());
  if (std::isfinite(value.exact) && !facts.gives_whole_numbers)
    bound += rounding(op, to, reals.data(), value, operands_exact);
  return with_overflow(to, value.exact, value.number.real, bound);
}

double steps_of_sum(size_t count) {
  const auto n = static_cast<double>(count);
  return std::min(n, 2 * 128 + 2 * std::log2(n + 1));  // isa/reduce/block_sums.hpp
}

void ReductionBound::add(ElementNumber x, double b) {
  ++count_;
  most_ = std::max(most_, b);
  if (!is_float(dtype_)) return;
  const double size = std::abs(x.real);
  is_finite_ = is_finite_ && std::isfinite(size);
  if (op_ == Opcode::sum) {
    off_ += b;
    if (!std::isfinite(size) || size == 0) return;
    total_ += size;
    int exponent = 0;
    const double significand = std::frexp(size, &exponent);
    const auto bits = static_cast<uint64_t>(std::ldexp(significand, 53));
    lowest_ = std::min(lowest_, exponent - 53 + std::countr_zero(bits));
  } else if (op_ == Opcode::prod) {
    is_integral_ = is_integral_ && size == std::trunc(size);
    if (std::isfinite(size)) (size > 1 ? above_ : below_) *= size != 0 ? size : 1;
    relative_ *= b == 0 ? 1 : 1 + b / size;
  }
}

double ReductionBound::at(double steps, ElementNumber value) const {
  if (!std::isfinite(most_)) return kUnbounded;
  if (!is_float(dtype_)) return most_ > 0 ? kUnbounded : 0;
  if (op_ == Opcode::amax || op_ == Opcode::amin) return most_;
  return op_ == Opcode::sum ? of_sum(steps, value) : of_product(value);
}

double ReductionBound::of_sum(double steps, ElementNumber value) const {
  const DType compute = compute_type(dtype_);
  const double digits = compute == DType::F64 ? 0x1p53 : 0x1p24;
  if (total_ + off_ >= largest(compute) / 2) return kUnbounded;
  if (!is_finite_) return 0;
  if (!std::isfinite(value.real)) return kUnbounded;
  double bound = off_;
  // Sums are exact in any order where all terms are small multiples of one power of two.
  const bool is_exact = total_ == 0 || total_ < std::ldexp(digits, lowest_);
  if (off_ > 0 || !is_exact)
    bound += steps * 2 / digits * (total_ + off_) + spacing(compute, value.real);
  return is_half(dtype_) ? bound + spacing(dtype_, value.real) : bound;
}

double ReductionBound::of_product(ElementNumber value) const {
  const DType compute = compute_type(dtype_);
  const double digits = compute == DType::F64 ? 0x1p53 : 0x1p24;
  const bool is_exact = most_ == 0;
  if (is_exact && is_integral_ && above_ < digits) return 0;
  const double tiny = compute == DType::F64 ? 0x1p-960 : 0x1p-100;
  if (!is_finite_ || above_ >= largest(compute) / 2 || below_ < tiny || !std::isfinite(value.real))
    return is_exact && above_ < largest(compute) / 2 && below_ >= tiny ? 0 : kUnbounded;
  const double relative = relative_ * (1 + 4 * static_cast<double>(count_ + 1) / digits);
  const double bound = std::abs(value.real) * (relative - 1) + spacing(compute, value.real);
  return is_half(dtype_) ? bound + spacing(dtype_, value.real) : bound;
}

double reduction_bound(Opcode op, DType dtype, std::span<const ElementNumber> x,
                       std::span<const double> b, double steps, ElementNumber value) {
  ReductionBound bound(op, dtype);
  for (size_t i = 0; i < x.size(); ++i) bound.add(x[i], b[i]);
  return bound.at(steps, value);
}

double output_bound(DType dtype, ElementNumber value, double bound) {
  if (!is_half(dtype) || bound == 0) return bound;
  return bound + spacing(dtype, std::abs(value.real) + bound);
}

}  // namespace pto
