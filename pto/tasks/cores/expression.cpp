// SPDX-License-Identifier: Apache-2.0
#include "pto/tasks/cores/expression.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "pto/base/error.hpp"

namespace pto {
namespace {

constexpr size_t kStepsMax = 4096, kDepthMax = 64;

int64_t divide(int32_t operation, int64_t a, int64_t b) {
  const bool is_quotient = operation == PTO_STEP_DIVIDE;
  if (b == 0)
    fail(
        {"a derived scalar divides by zero: " + std::to_string(a) + (is_quotient ? " / 0" : " % 0"),
         "an integer divided by 0 has no value", "pass other scalars to the run"});
  if (b == -1) return is_quotient ? int64_t(0 - uint64_t(a)) : 0;  // the lowest number wraps
  return is_quotient ? a / b : a % b;
}

int64_t of_integers(int32_t operation, int64_t a, int64_t b) {
  switch (operation) {
    case PTO_STEP_ADD:
      return int64_t(uint64_t(a) + uint64_t(b));
    case PTO_STEP_SUBTRACT:
      return int64_t(uint64_t(a) - uint64_t(b));
    case PTO_STEP_MULTIPLY:
      return int64_t(uint64_t(a) * uint64_t(b));
    case PTO_STEP_MIN:
      return a < b ? a : b;
    case PTO_STEP_MAX:
      return a > b ? a : b;
    default:
      return divide(operation, a, b);
  }
}

double of_reals(int32_t operation, double a, double b) {
  switch (operation) {
    case PTO_STEP_ADD:
      return a + b;
    case PTO_STEP_SUBTRACT:
      return a - b;
    case PTO_STEP_MULTIPLY:
      return a * b;
    case PTO_STEP_DIVIDE:
      return a / b;
    case PTO_STEP_REMAINDER:
      return std::fmod(a, b);
    case PTO_STEP_MIN:
      return std::isnan(a) || std::isnan(b) ? NAN : a < b ? a : b;
    default:
      return std::isnan(a) || std::isnan(b) ? NAN : a > b ? a : b;
  }
}

uint64_t read(const pto_step& step, const Numbers& scalars) {
  return read_as(step.is_real ? PTO_NUMBER_REAL : PTO_NUMBER_SIGNED, scalars[step.value],
                 step.value, step.is_real ? "symbol<double>()" : "symbol<int64_t>()");
}

void check_scalar(const pto_step& step, const Numbers& scalars) {
  if (step.value >= scalars.size())
    fail({"a derived scalar reads scalar " + std::to_string(step.value) + ", but the run has " +
              std::to_string(scalars.size()),
          "scalars are counted from 0, apart from tensors", "pass it to run()"});
  read(step, scalars);
}

}  // namespace

uint8_t check_steps(std::span<const pto_step> steps, const Numbers& scalars) {
  bool is_real[kDepthMax] = {};  // of the open operands
  size_t depth = 0, deepest = 0;
  bool is_right = true;
  for (const pto_step& step : steps) {
    const bool is_operand =
        step.operation == PTO_STEP_CONSTANT || step.operation == PTO_STEP_SCALAR;
    const bool is_conversion = step.operation == PTO_STEP_TO_REAL;
    const size_t taken = is_operand ? 0 : is_conversion ? 1 : 2;
    is_right = step.operation >= 0 && step.operation <= PTO_STEP_MAX && taken <= depth;
    if (!is_right) break;
    for (size_t i = depth - taken; i < depth && depth <= kDepthMax; ++i)
      is_right = is_right && is_real[i] == (step.is_real != 0 && !is_conversion);
    if (step.operation == PTO_STEP_SCALAR) check_scalar(step, scalars);
    depth = depth - taken + 1;
    deepest = std::max(deepest, depth);
    if (depth <= kDepthMax) is_real[depth - 1] = step.is_real != 0 || is_conversion;
  }
  if (!is_right || depth != 1)
    fail({"the steps of a derived scalar are no expression",
          "operands come before operations on their type, and one value is left",
          "build it with pto::Symbol"});
  if (deepest > kDepthMax || steps.size() > kStepsMax)
    fail({"a derived scalar has too many steps or open operands: " + std::to_string(steps.size()) +
              " and " + std::to_string(deepest),
          "an expression has at most " + std::to_string(kStepsMax) + " steps and " +
              std::to_string(kDepthMax) + " open operands",
          "compute it in a task, or read the scalar as a number"});
  return is_real[0] ? PTO_NUMBER_REAL : PTO_NUMBER_SIGNED;
}

uint64_t evaluate(std::span<const pto_step> steps, const Numbers& scalars) {
  uint64_t stack[kDepthMax];
  uint64_t* top = stack;  // behind the last value
  for (const pto_step& step : steps) {
    if (step.operation == PTO_STEP_CONSTANT) {
      *top++ = step.value;
    } else if (step.operation == PTO_STEP_SCALAR) {
      *top++ = read(step, scalars);
    } else if (step.operation == PTO_STEP_TO_REAL) {
      top[-1] = std::bit_cast<uint64_t>(double(int64_t(top[-1])));
    } else {
      const uint64_t a = top[-2], b = top[-1];
      --top;
      top[-1] = step.is_real
                    ? std::bit_cast<uint64_t>(of_reals(step.operation, std::bit_cast<double>(a),
                                                       std::bit_cast<double>(b)))
                    : uint64_t(of_integers(step.operation, int64_t(a), int64_t(b)));
    }
  }
  return stack[0];
}

}  // namespace pto
