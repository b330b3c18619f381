// SPDX-License-Identifier: Apache-2.0
#include "pto/adapters/torch/aten/places.hpp"

#include <ATen/EmptyTensor.h>
#include <algorithm>

#include "pto/adapters/torch/aten/values.hpp"
#include "pto/base/meeting.hpp"

namespace pto::torch_adapter {
namespace {

bool is_same(const Place& one, const Place& other) {
  return one.data == other.data && one.tensor->sizes() == other.tensor->sizes() &&
         one.tensor->strides() == other.tensor->strides() &&
         one.tensor->dtype() == other.tensor->dtype();
}

Layout layout_of(const Place& one) {
  const c10::TensorImpl& tensor = *one.tensor;
  return {one.data, static_cast<int64_t>(tensor.itemsize()), tensor.dim(), tensor.sizes().data(),
          tensor.strides().data()};
}

// Whether several elements of a tensor lie at one place.
bool repeats(const at::Tensor& tensor) {
  const at::IntArrayRef sizes = tensor.sizes(), strides = tensor.strides();
  const auto rank = static_cast<int32_t>(tensor.dim());
  if (is_injective(rank, sizes.data(), strides.data())) return false;
  if (tensor.numel() * static_cast<int64_t>(tensor.itemsize()) >
      extent_of(*tensor.unsafeGetTensorImpl()))
    return true;
  std::vector<int64_t> places = {0};
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    const size_t before = places.size();
    for (int64_t i = 1; i < sizes[axis]; ++i)
      for (size_t at = 0; at < before; ++at) places.push_back(places[at] + i * strides[axis]);
  }
  std::sort(places.begin(), places.end());
  return std::adjacent_find(places.begin(), places.end()) != places.end();
}

bool is_output(const pto_aten_operator& op, int32_t argument) {
  return std::count(op.outputs.begin(), op.outputs.end(), static_cast<size_t>(argument)) > 0;
}

std::string name_of(const pto_aten_operator& op, const Place& place) {
  return op.handle.schema().arguments()[static_cast<size_t>(place.argument)].name();
}

}  // namespace

bool is_written(const c10::Argument& argument) {
  return argument.alias_info() && argument.alias_info()->isWrite();
}

int64_t extent_of(const c10::TensorImpl& tensor) {
  return static_cast<int64_t>(at::detail::computeStorageNbytes(
      tensor.sizes(), tensor.strides(), static_cast<size_t>(tensor.itemsize())));
}

void add_place(Places& places, int32_t argument, const at::Tensor& tensor, bool is_written) {
  if (!tensor.defined() || tensor.layout() != at::kStrided || !tensor.device().is_cpu()) return;
  const c10::TensorImpl* const impl = tensor.unsafeGetTensorImpl();
  if (impl->has_symbolic_sizes_strides() || !impl->has_storage()) return;
  places.push_back({argument, impl, static_cast<const char*>(tensor.const_data_ptr()),
                    extent_of(*impl), is_written});
}

bool needs_own_outputs(const pto_aten_operator& op, const Places& places) {
  bool is_shared = false;
  for (size_t i = 0; i < places.size(); ++i) {
    const Place& written = places[i];
    if (!written.is_written) continue;
    for (size_t j = 0; j < places.size(); ++j) {
      const Place& other = places[j];
      if (j == i || written.data >= other.data + other.bytes ||
          other.data >= written.data + written.bytes)
        continue;
      const bool are_outputs = is_output(op, written.argument) && is_output(op, other.argument);
      if (!are_outputs && is_same(written, other)) {
        const bool is_safe = op.is_pointwise || (op.has_place && other.argument == 0);
        is_shared = is_shared || (!is_safe && is_output(op, written.argument));
        continue;
      }
      if (!may_meet(layout_of(written), layout_of(other))) continue;
      throw Refused(
          op.handle.schema().name() + " writes " + name_of(op, written) + ", of which " +
              name_of(op, other) + " shares a part",
          "elements might be overwritten before they are read",
          are_outputs ? "pass memory of its own" : "pass memory of its own, or the same elements");
    }
  }
  return is_shared;
}

void check_outputs(const pto_aten_operator& op, const Stack& stack) {
  for (const size_t i : op.outputs) {
    const auto refuse_repeated = [&](const at::Tensor& one) {
      if (one.layout() == at::kStrided && repeats(one))
        throw Refused(op.handle.schema().arguments()[i].name() + " is " + described(one) +
                          ", of which several elements lie at one place",
                      "an element would get the values of several", "pass memory of its own");
    };
    if (stack[i].isTensor()) refuse_repeated(stack[i].toTensor());
    if (stack[i].isTensorList())
      for (const at::Tensor& one : stack[i].toTensorVector()) refuse_repeated(one);
  }
}

Places places_of(const pto_aten_operator& op, const Stack& stack) {
  Places places;
  for (size_t i = 0; i < stack.size(); ++i) {
    const bool writes = is_written(op.handle.schema().arguments()[i]);
    const auto argument = static_cast<int32_t>(i);
    if (stack[i].isTensor())
      add_place(places, argument, stack[i].toTensor(), writes);
    else if (stack[i].isList())
      for (const c10::IValue& item : stack[i].toListRef())
        if (item.isTensor()) add_place(places, argument, item.toTensor(), writes);
  }
  return places;
}

}  // namespace pto::torch_adapter
