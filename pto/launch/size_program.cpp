// SPDX-License-Identifier: Apache-2.0
#include "pto/launch/size_program.hpp"

#include "pto/base/error.hpp"

namespace pto {
SizeProgram::SizeProgram(const Dim& dim) : dim_(dim) {
  if (dim.is_constant()) {
    value_ = dim.value();
  } else if (dim.is_symbol()) {
    symbol_ = static_cast<int>(dim.value());
  } else {
    append(dim, 1);
  }
}

void SizeProgram::append(const Dim& dim, int depth) {
  if (depth > kMaxDepth) {
    fail({"the size " + text(dim_) + " is nested too deeply",
          "a size expression is at most " + std::to_string(kMaxDepth) + " levels deep",
          "compute sizes in fewer steps"});
  }
  if (dim.is_constant() || dim.is_symbol()) {
    steps_.push_back({dim.op(), dim.value()});
    return;
  }
  append(dim.left(), depth);
  append(dim.right(), depth + 1);  // the left value waits on the stack
  steps_.push_back({dim.op(), 0});
}

int64_t SizeProgram::apply(DimOp op, int64_t a, int64_t b) const {
  int64_t result = 0;
  switch (calculate(op, a, b, &result)) {
    case SizeFault::None:
      return result;
    case SizeFault::ZeroDivision:
      fail({"the size " + text(dim_) + " divides by zero", "a divisor must not be 0",
            "pass tensors without empty dimensions"});
    case SizeFault::Mismatch:
      fail({"sizes " + std::to_string(a) + " and " + std::to_string(b) + " do not broadcast",
            "sizes are equal or one of them is 1", "pass tensors whose shapes broadcast"});
    default:
      fail({"the size " + text(dim_) + " exceeds 64 bits: an operand is " + std::to_string(a) +
                ", the other " + std::to_string(b),
            "sizes and element counts are 64-bit numbers", "pass smaller tensors"});
  }
}

int64_t SizeProgram::evaluate_steps(const int64_t* symbols) const {
  int64_t stack[kMaxDepth + 1];
  int top = 0;
  for (const Step& step : steps_) {
    if (step.op == DimOp::Constant) {
      stack[top++] = step.value;
    } else if (step.op == DimOp::Symbol) {
      stack[top++] = symbols[step.value];
    } else {
      --top;
      int64_t& left = stack[top - 1];
      int64_t result;  // the two operations of most expressions, without a call
      if ((step.op == DimOp::Mul && !__builtin_mul_overflow(left, stack[top], &result)) ||
          (step.op == DimOp::Add && !__builtin_add_overflow(left, stack[top], &result))) {
        left = result;
      } else {
        left = apply(step.op, left, stack[top]);
      }
    }
  }
  return stack[0];
}

}  // namespace pto
