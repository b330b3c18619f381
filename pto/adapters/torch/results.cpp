// SPDX-License-Identifier: Apache-2.0
// Invocation's results: new tensors, tensors given for them, and replaced arguments.
#include <algorithm>
#include <atomic>
#include <limits>
#include <span>
#include <utility>

#include "pto/abi/host.h"
#include "pto/adapters/torch/dtypes.hpp"
#include "pto/adapters/torch/invocation.hpp"
#include "pto/base/dtype.hpp"
#include "pto/base/error.hpp"
#include "pto/base/strided.hpp"
#include "pto/base/text.hpp"

namespace pto::torch_adapter {
namespace {

// Outputs from here on come from our recycling pool of huge pages: writing fresh pages costs more
// than the arithmetic.
constexpr int64_t kPooledBytes = 1 << 20;

std::atomic<Resizer> resizer{nullptr};

}  // namespace

void set_resizer(Resizer function) { resizer.store(function); }

bool returns_self(const pto_operator& op) {
  return op.n_outputs == 1 && op.n_returns == 1 && op.outputs[0].replaces == 0 &&
         (op.arguments[0].flags & PTO_ARGUMENT_KEYWORD_ONLY) == 0;
}

void Invocation::give_results() {
  for (int i = 0; i < n_outs_; ++i) {
    stack_[i] = reinterpret_cast<Boxed>(std::exchange(outs_[i], nullptr));
  }
  if (n_outs_) return;
  if (returns_self(op_)) {
    stack_[0] = reinterpret_cast<Boxed>(std::exchange(objects_[0], nullptr));
    return;
  }
  int place = 0;
  for (int i = 0; i < op_.n_returns; ++i) {
    if (op_.outputs[i].replaces >= 0) continue;  // PyTorch's schema does not return it
    if (!op_.outputs[i].is_list) {
      stack_[place++] =
          reinterpret_cast<Boxed>(std::exchange(single_outputs_[static_cast<size_t>(i)], nullptr));
      continue;
    }
    std::vector<TensorObject*> none;
    const bool is_made = static_cast<size_t>(i) < list_outputs_.size();
    stack_[place++] = give_list(is_made ? list_outputs_[static_cast<size_t>(i)] : none);
  }
}

Boxed Invocation::give_list(std::vector<TensorObject*>& members) {
  ListObject* list = nullptr;
  check(torch_new_list_reserve_size(members.size(), &list));
  for (TensorObject* member : members) {
    check(torch_list_push_back(list, reinterpret_cast<Boxed>(member)));
  }
  members.clear();
  return reinterpret_cast<Boxed>(list);
}

void* Invocation::allocate(void* user, int32_t output, int32_t, const int64_t* sizes, int32_t rank,
                           int32_t dtype) {
  auto& self = *static_cast<Invocation*>(user);
  const pto_operator_output& about = self.op_.outputs[output];
  const auto place = static_cast<size_t>(output);
  if (self.n_outs_) return self.write_out(output, sizes, rank, dtype);
  if (about.replaces >= 0) return self.replace(about.replaces, sizes, rank, dtype);
  if (!about.is_list) return self.make_tensor(&self.single_outputs_.at(place), sizes, rank, dtype);
  if (self.list_outputs_.size() <= place) self.list_outputs_.resize(place + 1);
  TensorObject* member = nullptr;
  void* memory = self.make_tensor(&member, sizes, rank, dtype);
  if (member) self.list_outputs_[place].push_back(member);
  return memory;
}

void Invocation::narrow(void* user, int32_t output, int64_t rows) {
  static_cast<Invocation*>(user)->rows_[static_cast<size_t>(output)] = rows;
}

void Invocation::narrow_results() {
  for (int32_t i = 0; i < op_.n_outputs; ++i) {
    TensorObject*& tensor = single_outputs_[static_cast<size_t>(i)];
    if (op_.outputs[i].is_bounded) tensor = narrowed(tensor, rows_[static_cast<size_t>(i)]);
  }
}

// Returns the tensor with its first rows only. The memory stays if they use more than half of it;
// else the rows move, so that a few do not hold room for all.
TensorObject* Invocation::narrowed(TensorObject* tensor, int64_t rows) const {
  int64_t rank = 0, *sizes = nullptr, narrow[PTO_MAX_RANK];
  check(aoti_torch_get_dim(tensor, &rank));
  check(aoti_torch_get_sizes(tensor, &sizes));
  std::copy_n(sizes, rank, narrow);
  const int64_t room = std::exchange(narrow[0], rows);
  resize(tensor, narrow, static_cast<int32_t>(rank));
  if (rows > room / 2 || room == 0) return tensor;
  TensorObject* self = nullptr;
  check(aoti_torch_new_tensor_handle(tensor, &self));
  Boxed stack[] = {reinterpret_cast<Boxed>(self), 0};
  check(torch_call_dispatcher("aten::clone", "", stack, kShimVersion));
  aoti_torch_delete_tensor_object(tensor);
  return reinterpret_cast<TensorObject*>(stack[0]);
}

int Invocation::first_tensor(int32_t argument) const {
  int tensor = 0, place = 0;
  for (int32_t i = 0; i < argument; ++i) {
    if (is_tensor(op_.arguments[i])) tensor += counts_[place++];
  }
  return tensor;
}

// Returns where new elements of a mutable argument go: its own memory if that is dense.
void* Invocation::replace(int32_t argument, const int64_t* sizes, int32_t rank, int32_t dtype) {
  const int index = first_tensor(argument);
  const pto_tensor_ref& tensor = tensors_[index];
  const bool alike = tensor.dtype == dtype &&
                     std::equal(sizes, sizes + rank, tensor.sizes, tensor.sizes + tensor.rank);
  if (!alike) {
    fail({std::string(op_.name) + ": the new elements of " + op_.arguments[argument].name +
              " have another shape or type than its old ones",
          "an operator that works in place keeps the shape and the type",
          "broadcast the other arguments to that shape, or call the operator that returns a new "
          "tensor"});
  }
  return memory_of(tensor);
}

// Returns where the elements of an output go whose tensor was given.
void* Invocation::write_out(int32_t output, const int64_t* sizes, int32_t rank, int32_t dtype) {
  pto_tensor_ref& tensor = out_tensors_[output];
  if (tensor.dtype != dtype) {
    fail(
        {std::string(op_.name) + ": out is " + std::string(name(static_cast<DType>(tensor.dtype))) +
             " but the result is " + std::string(name(static_cast<DType>(dtype))),
         "results are written without conversion", "pass an out of the result's dtype"},
        ErrorKind::Type);
  }
  if (!std::equal(sizes, sizes + rank, tensor.sizes, tensor.sizes + tensor.rank)) {
    const bool is_empty =
        std::find(tensor.sizes, tensor.sizes + tensor.rank, 0) != tensor.sizes + tensor.rank;
    if (!is_empty) {
      fail({std::string(op_.name) + ": out has the shape " +
                text(std::span(tensor.sizes, static_cast<size_t>(tensor.rank))) +
                " but the result " + text(std::span(sizes, static_cast<size_t>(rank))),
            "only an empty out gets another shape",
            "pass an out of the result's shape, or torch.empty(0)"});
    }
    resize(outs_[output], sizes, rank);
    describe("out", outs_[output], tensor);
  }
  check_writable("out", tensor);
  return memory_of(tensor);
}

void Invocation::resize(TensorObject* tensor, const int64_t* sizes, int32_t rank) const {
  ListObject* list = nullptr;
  check(torch_new_list_reserve_size(static_cast<size_t>(rank), &list));
  for (int32_t axis = 0; axis < rank; ++axis) {
    check(torch_list_push_back(list, static_cast<Boxed>(sizes[axis])));
  }
  TensorObject* self = nullptr;
  check(aoti_torch_new_tensor_handle(tensor, &self));
  Boxed stack[] = {reinterpret_cast<Boxed>(self), reinterpret_cast<Boxed>(list), 0};
  check(torch_call_dispatcher("aten::resize_", "", stack, kShimVersion));
  aoti_torch_delete_tensor_object(reinterpret_cast<TensorObject*>(stack[0]));
}

void* Invocation::in_place(void* user, int32_t output) {
  auto& self = *static_cast<Invocation*>(user);
  return self.tensors_[self.first_tensor(self.op_.outputs[output].replaces)].data;
}

// Returns where new elements of a tensor go: its own memory if that has no gaps.
void* Invocation::memory_of(const pto_tensor_ref& tensor) {
  if (!is_contiguous(tensor.rank, tensor.sizes, tensor.strides))
    return staging_.in_place_of(tensor);
  return tensor.data ? tensor.data : this;
}

// Copies new elements to their places in tensors with gaps.
void Invocation::finish() { staging_.finish(); }

// Makes a dense tensor on the device of the call.
void* Invocation::make_tensor(TensorObject** tensor, const int64_t* sizes, int32_t rank,
                              int32_t dtype) {
  int64_t strides[PTO_MAX_RANK];
  int64_t elements = 1;
  for (int d = rank - 1; d >= 0; --d) {
    strides[d] = elements;
    elements *= sizes[d] > 0 ? sizes[d] : 1;
  }
  for (int d = 0; d < rank; ++d) elements *= sizes[d] != 0;
  const auto element = static_cast<DType>(dtype);
  const int32_t theirs = their_dtype(element);
  if (elements > std::numeric_limits<int64_t>::max() / 8) return nullptr;
  const int64_t size = elements * bytes(element);
  void* data = nullptr;
  if (size >= kPooledBytes && device_.type == kCpu) {
    data = pto_malloc(static_cast<size_t>(size));
    if (!data) return nullptr;
    const auto give_back = [](void* memory, void*) { pto_free(memory); };
    if (torch_from_blob(data, rank, sizes, strides, 0, theirs, kCpu, -1, tensor,
                        aoti_torch_layout_strided(), nullptr, 0, give_back, nullptr) == 0) {
      if (const Resizer let = resizer.load(std::memory_order_acquire)) let(*tensor);
      return data;
    }
    pto_free(data);
    return nullptr;
  }
  if (aoti_torch_empty_strided(rank, sizes, strides, theirs, device_.type, device_.index, tensor) !=
          0 ||
      torch_get_mutable_data_ptr(*tensor, &data) != 0) {
    return nullptr;
  }
  return data ? data : this;  // an empty tensor has no memory and is not written
}

}  // namespace pto::torch_adapter

extern "C" void pto_torch_set_resizer(pto::torch_adapter::Resizer function) {
  pto::torch_adapter::set_resizer(function);
}
