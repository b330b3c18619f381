// SPDX-License-Identifier: Apache-2.0
#include "pto/launch/program.hpp"

#include <algorithm>
#include <utility>

#include "pto/abi/limits.h"

namespace pto {
namespace {

void check_limits(const ProgramSpec& spec) {
  const size_t tensors = spec.inputs.size() + spec.outputs.size() + spec.temporaries.size();
  if (tensors > PTO_MAX_BUFFERS) {
    fail({spec.name + ": " + std::to_string(tensors) + " tensors are read, written or kept",
          "a program holds at most " + std::to_string(PTO_MAX_BUFFERS) +
              " inputs, outputs and temporaries",
          "split the function into several kernels"});
  }
  if (spec.scalars.size() > Program::kMaxScalars) {
    fail({spec.name + ": " + std::to_string(spec.scalars.size()) + " scalar arguments",
          "a program takes at most " + std::to_string(Program::kMaxScalars),
          "pass them in a tensor"});
  }
  for (const auto* tensors_of : {&spec.inputs, &spec.outputs, &spec.temporaries}) {
    for (const TensorSpec& tensor : *tensors_of) {
      if (tensor.shape.size() <= PTO_MAX_RANK) continue;
      fail({spec.name + ": tensor " + tensor.name + " has " + std::to_string(tensor.shape.size()) +
                " dimensions",
            "a program's tensors have at most " + std::to_string(PTO_MAX_RANK),
            "reshape it to fewer dimensions"});
    }
  }
}

}  // namespace

Program::Program(ProgramSpec spec, std::vector<pto_kernel> functions, std::shared_ptr<void> library)
    : spec_(std::move(spec)),
      library_(std::move(library)),
      n_inputs_(spec_.inputs.size()),
      n_outputs_(spec_.outputs.size()),
      n_scalars_(spec_.scalars.size()) {
  check_limits(spec_);
  bind_inputs();
  for (const TensorSpec& tensor : spec_.inputs) bind_tensor(tensor, true);
  for (const TensorSpec& tensor : spec_.outputs) bind_tensor(tensor, false);
  for (const TensorSpec& tensor : spec_.temporaries) bind_tensor(tensor, false);
  for (const ProgramSpec::Guard& guard : spec_.guards) {
    require_bound(guard.a, "a guard");
    require_bound(guard.b, "a guard");
    guards_.emplace_back(guard.a, guard.b);
  }
  bind_launches(functions);
}

void Program::bind_inputs() {
  const auto is_bound = [this](int64_t symbol) {
    return symbol < static_cast<int64_t>(bindings_.size()) &&
           bindings_[static_cast<size_t>(symbol)].input >= 0;
  };
  for (size_t i = 0; i < spec_.inputs.size(); ++i) {
    const Dims& shape = spec_.inputs[i].shape;
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      const Dim& size = shape[axis];
      const Binding here{static_cast<int>(i), static_cast<int>(axis)};
      if (!size.is_symbol() || is_bound(size.value())) {
        checks_.push_back({here.input, here.axis, SizeProgram(size)});
        continue;
      }
      if (size.value() >= kMaxSymbols) {
        fail({spec_.name + ": more than " + std::to_string(kMaxSymbols) + " different sizes",
              "a program tells that many sizes of its inputs apart",
              "make some sizes constant or split the function into several kernels"});
      }
      const auto symbol = static_cast<size_t>(size.value());
      if (bindings_.size() <= symbol) bindings_.resize(symbol + 1, Binding{-1, 0});
      bindings_[symbol] = here;
    }
  }
  for (const Check& check : checks_) require_bound(check.expected.dim(), "an input");
}

void Program::require_bound(const Dim& dim, const std::string& where) const {
  each_symbol(dim, [&](int64_t value) {
    const auto symbol = static_cast<size_t>(value);
    if (symbol < bindings_.size() && bindings_[symbol].input >= 0) return;
    fail({spec_.name + ": size s" + std::to_string(value) + " of " + where +
              " is the size of no input",
          "each symbol gets its value from an axis of an input",
          "use the sizes of the function's tensor arguments"});
  });
}

void Program::bind_tensor(const TensorSpec& tensor, bool is_input) {
  const size_t rank = tensor.shape.size();
  BoundTensor& bound =
      tensors_.emplace_back(BoundTensor{dlpack_type(tensor.dtype),
                                        bytes(tensor.dtype),
                                        static_cast<int32_t>(rank),
                                        std::exchange(n_numbers_, n_numbers_ + 2 * rank),
                                        {}});
  if (is_input) return;
  for (const Dim& size : tensor.shape) {
    require_bound(size, tensor.name);
    bound.sizes.emplace_back(size);
  }
}

void Program::bind_launches(const std::vector<pto_kernel>& functions) {
  PTO_ASSERT(functions.size() == spec_.launches.size());
  const size_t all = tensors_.size();
  for (size_t i = 0; i < functions.size(); ++i) {
    const LaunchSpec& spec = spec_.launches[i];
    require_bound(spec.items, spec.function);
    require_bound(spec.bytes, spec.function);
    PTO_ASSERT(functions[i] != nullptr && spec.quantum > 0 &&
               spec.tensors.size() <= PTO_MAX_BUFFERS);
    bool takes_all = spec.tensors.size() == all;
    for (size_t t = 0; t < spec.tensors.size(); ++t) {
      PTO_ASSERT(spec.tensors[t] >= kAbsentTensor && spec.tensors[t] < static_cast<int>(all));
      takes_all = takes_all && spec.tensors[t] == static_cast<int>(t);
    }
    launches_.push_back(
        {functions[i], SizeProgram(spec.items), SizeProgram(spec.bytes), takes_all});
  }
}

}  // namespace pto
