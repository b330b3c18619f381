// SPDX-License-Identifier: Apache-2.0
#include "pto/launch/repeated_call.hpp"

#include <algorithm>

#include "pto/abi/limits.h"
#include "pto/launch/start_launch.hpp"

namespace pto {

RepeatedCall::RepeatedCall(const Program& program, std::span<const pto_tensor_ref> inputs,
                           std::span<const uint64_t> scalars, std::span<const std::byte> params)
    : program_(program),
      n_inputs_(inputs.size()),
      n_outputs_(program.outputs_.size()),
      params_(params.begin(), params.end()) {
  const Call call(program, inputs, scalars);
  Call::Tensors tensors;
  scratch_bytes_ = call.describe(tensors);
  const size_t count = n_inputs_ + n_outputs_ + program.temporaries_.size();
  tensors_.assign(tensors.all, tensors.all + count);
  size_t numbers = 0;
  for (const pto_tensor& one : tensors_) numbers += 2 * static_cast<size_t>(one.rank);
  numbers_.reserve(numbers);  // never moves: the tensors point into it
  const auto kept = [this](const int64_t* from, int32_t rank) {
    numbers_.insert(numbers_.end(), from, from + rank);
    return numbers_.data() + numbers_.size() - rank;
  };
  for (pto_tensor& one : tensors_) {
    one.data = nullptr;
    one.sizes = kept(one.sizes, one.rank);
    one.strides = kept(one.strides, one.rank);
  }
  for (size_t i = 0; i < program.launches_.size(); ++i) launches_.push_back(call.measure(i));
  scalars_.assign(tensors.scalars, tensors.scalars + scalars.size() + 2 + program.bindings_.size());
}

RepeatedCall::~RepeatedCall() = default;

void RepeatedCall::run(std::span<void* const> inputs, std::span<void* const> outputs) const {
  PTO_ASSERT(inputs.size() == n_inputs_ && outputs.size() == n_outputs_);
  pto_tensor tensors[PTO_MAX_BUFFERS];
  uint64_t scalars[Program::kMaxScalars + 2 + Program::kMaxSymbols];
  std::copy(tensors_.begin(), tensors_.end(), tensors);
  std::copy(scalars_.begin(), scalars_.end(), scalars);
  for (size_t i = 0; i < n_inputs_; ++i) tensors[i].data = inputs[i];
  for (size_t i = 0; i < n_outputs_; ++i) tensors[n_inputs_ + i].data = outputs[i];
  const Scratch scratch(scratch_bytes_);
  const size_t before = n_inputs_ + n_outputs_;
  scratch.give({tensors + before, tensors_.size() - before});
  for (const MeasuredLaunch& launch : launches_) {
    start_launch(program_.spec_, launch, tensors, scalars, params_);
  }
}

}  // namespace pto
