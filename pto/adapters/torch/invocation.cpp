// SPDX-License-Identifier: Apache-2.0
#include "pto/adapters/torch/invocation.hpp"

#include <algorithm>
#include <atomic>
#include <limits>
#include <stdexcept>
#include <utility>

#include "pto/abi/host.h"
#include "pto/adapters/torch/dtypes.hpp"
#include "pto/adapters/torch/executor.hpp"
#include "pto/base/dtype.hpp"
#include "pto/base/error.hpp"
#include "pto/base/meeting.hpp"
#include "pto/base/strided.hpp"
#include "pto/launch/write_order.hpp"

namespace pto::torch_adapter {
namespace {

const int32_t kNpu = aoti_torch_device_type_privateuse1();

std::atomic<DeviceRunner> device_runner{nullptr};
std::atomic<WeightOwner> weight_owner{nullptr};

std::string device_name(int32_t type, int32_t index) {
  if (type == kCpu) return "cpu";
  std::string name = "device type " + std::to_string(type);
  if (type == aoti_torch_device_type_cuda()) name = "cuda";
  if (type == aoti_torch_device_type_meta()) return "meta";
  if (type == aoti_torch_device_type_mps()) name = "mps";
  if (type == aoti_torch_device_type_xpu()) name = "xpu";
  if (type == kNpu) name = "npu";
  return index < 0 ? name : name + ":" + std::to_string(index);
}

// Takes an optional off the stack; returns false for None.
bool take_optional(Boxed& value) {
  auto* boxed = reinterpret_cast<Boxed*>(value);
  if (!boxed) return false;
  value = *boxed;
  torch_delete_stable_ivalue(boxed);
  return true;
}

}  // namespace

void set_device_runner(DeviceRunner runner) { device_runner.store(runner); }
void set_weight_owner(WeightOwner function) { weight_owner.store(function); }

void check(int32_t code) {
  if (code != 0) throw std::runtime_error(torch_exception_get_what_without_backtrace());
}

Invocation::Invocation(const pto_operator& op, Boxed* stack, Results results)
    : op_(op), stack_(stack), n_outs_(results == Results::IntoOut ? op.n_outputs : 0) {
  take();
}

Invocation::Invocation(const pto_operator& op, Boxed* stack, Direct direct)
    : op_(op), stack_(stack), direct_(direct) {
  take();
}

Invocation::~Invocation() {
  const auto drop = [](TensorObject* tensor) {
    if (tensor) aoti_torch_delete_tensor_object(tensor);
  };
  for (int i = 0; !direct_ && i < n_tensors_; ++i) drop(objects_[i]);
  for (int i = 0; i < n_outs_; ++i) drop(outs_[i]);
  for (int i = 0; i < n_strings_; ++i) torch_delete_string(strings_[i]);
  for (TensorObject* output : single_outputs()) drop(output);
  for (const auto& list : list_outputs_) {
    for (TensorObject* output : list) aoti_torch_delete_tensor_object(output);
  }
}

void Invocation::run() {
  describe_all();
  if (op_.packed >= 0 && device_.type == kCpu) take_packed_weight();
  const pto_operator_call call = {&op_,      tensors_, counts_, attributes_,
                                  &allocate, this,     &narrow, &in_place};
  if (device_.type == kCpu) {
    const WriteOrder order(written_);
    if (run_on_cpu(call) != 0) throw std::runtime_error(pto_operator_error());
    finish();
  } else if (run_on_device(call, device_runner.load(std::memory_order_acquire)) != 0) {
    throw std::runtime_error(pto_operator_error());
  }
  narrow_results();
  give_results();
}

int32_t Invocation::run_on_cpu(const pto_operator_call& call) const {
  const ScopedWeightOwners owners(
      call,
      [](const void* self, size_t tensor, pto_weight_owner* owner) -> int32_t {
        const WeightOwner owner_of = weight_owner.load(std::memory_order_acquire);
        return owner_of && owner_of(static_cast<const Invocation*>(self)->objects_[tensor], owner);
      },
      this);
  return direct_ ? pto_torch_site_run(direct_->site, &call) : pto_torch_operator_run(&call);
}

int32_t Invocation::run_on_device(const pto_operator_call& call, DeviceRunner runner) {
  static constexpr auto kSelf = [](void* invocation) -> Invocation& {
    return *static_cast<Invocation*>(invocation);
  };
  return runner({.call = &call,
                 .device_index = device_.index,
                 .invocation = this,
                 .for_tensors = [](void* invocation, void (*take)(void*, TensorObject*),
                                   void* context) { kSelf(invocation).for_tensors(take, context); },
                 .must_finish = [](void* invocation) { return kSelf(invocation).must_finish(); },
                 .finish = [](void* invocation) { kSelf(invocation).finish(); },
                 .run = &pto_torch_operator_run,
                 .run_bound = &pto_torch_launch_run});
}

bool Invocation::must_finish() const {
  const auto is_bounded = [](const pto_operator_output& one) { return one.is_bounded != 0; };
  return !staging_.is_finished() ||
         std::any_of(op_.outputs, op_.outputs + op_.n_outputs, is_bounded);
}

void Invocation::for_tensors(void (*take)(void* context, TensorObject*), void* context) const {
  for (int i = 0; i < n_tensors_; ++i) take(context, objects_[i]);
  for (int i = 0; i < n_outs_; ++i) take(context, outs_[i]);
  for (TensorObject* output : single_outputs()) {
    if (output) take(context, output);
  }
  for (const auto& list : list_outputs_) {
    for (TensorObject* output : list) take(context, output);
  }
}

// Takes everything off the stack before anything can fail.
void Invocation::take() {
  for (int i = 0; i < op_.n_arguments; ++i) {
    if (is_tensor(op_.arguments[i])) {
      take_tensors(op_.arguments[i], stack_[i]);
    } else {
      take_attribute(op_.arguments[i], stack_[i]);
    }
  }
  for (int i = 0; i < n_outs_; ++i) {
    outs_[i] = reinterpret_cast<TensorObject*>(stack_[op_.n_arguments + i]);
  }
}

bool Invocation::travels_as_optional(const pto_operator_argument& argument) const {
  if (is_optional(argument)) return true;
  if (n_outs_ == 0) return false;
  const auto is_plain = [](const pto_operator_argument& one) {
    return one.kind == PTO_KIND_TENSOR && !is_optional(one);
  };
  return &argument == std::find_if(op_.arguments, op_.arguments + op_.n_arguments, is_plain);
}

void Invocation::take_tensors(const pto_operator_argument& argument, Boxed value) {
  int32_t& count = counts_[n_counts_++];
  count = 0;
  if (argument.kind == PTO_KIND_TENSOR_LIST) {
    auto* list = reinterpret_cast<ListObject*>(value);
    size_t size = 0;
    torch_list_size(list, &size);
    for (size_t i = 0; i < size; ++i) {
      Boxed member = 0;
      torch_list_get_item(list, i, &member);
      if (n_tensors_ == PTO_MAX_TENSORS) {  // reported as too many by describe_all()
        aoti_torch_delete_tensor_object(reinterpret_cast<TensorObject*>(member));
      } else {
        objects_[n_tensors_++] = reinterpret_cast<TensorObject*>(member);
      }
      ++count;
    }
    torch_delete_list(list);
  } else if (!travels_as_optional(argument) || take_optional(value)) {
    objects_[n_tensors_++] = reinterpret_cast<TensorObject*>(value);
    count = 1;
  }
}

void Invocation::take_attribute(const pto_operator_argument& argument, Boxed value) {
  pto_operator_value& plain = attributes_[n_attributes_++];
  plain.count = 0;
  if (is_optional(argument) && !take_optional(value)) {
    plain.integer = 0;
    plain.count = -1;
    return;
  }
  switch (argument.kind) {
    case PTO_KIND_STRING:
      take_string(reinterpret_cast<StringObject*>(value), plain);
      break;
    case PTO_KIND_INT_LIST:
      take_integers(reinterpret_cast<ListObject*>(value), plain);
      break;
    case PTO_KIND_BOOL:
      plain.integer = static_cast<uint8_t>(value) != 0;
      break;
    default:  // a number: an int64, or the bits of a double
      plain.integer = static_cast<int64_t>(value);
  }
}

void Invocation::take_string(StringObject* string, pto_operator_value& value) {
  strings_[n_strings_++] = string;
  size_t bytes = 0;
  torch_string_length(string, &bytes);
  torch_string_c_str(string, &value.text);
  value.count = static_cast<int64_t>(bytes);
}

void Invocation::take_integers(ListObject* list, pto_operator_value& value) {
  size_t size = 0;
  torch_list_size(list, &size);
  std::vector<int64_t>& numbers = integers_.emplace_back(size);
  for (size_t i = 0; i < size; ++i) {
    Boxed number = 0;
    torch_list_get_item(list, i, &number);
    numbers[i] = static_cast<int64_t>(number);
  }
  torch_delete_list(list);
  value.integers = numbers.data();
  value.count = static_cast<int64_t>(size);
}

void Invocation::describe_all() {
  std::vector<Written> written;  // few: tensors of lists are not compared
  for (int i = 0, place = 0, tensor = 0; i < op_.n_arguments; ++i) {
    const pto_operator_argument& argument = op_.arguments[i];
    if (!is_tensor(argument)) continue;
    if (counts_[place] == 0 && argument.kind == PTO_KIND_TENSOR && !is_optional(argument)) {
      fail({std::string(op_.name) + ": " + argument.name + " is None",
            std::string("the signature is ") + op_.schema, "pass a tensor"});
    }
    for (int32_t n = counts_[place++]; n > 0; --n, ++tensor) {
      if (tensor == n_tensors_) {
        fail({std::string(op_.name) + ": called with more than " + std::to_string(PTO_MAX_TENSORS) +
                  " tensors",
              "a call takes at most that many, those of lists included",
              "join some of them, or call it several times"});
      }
      describe(argument.name, objects_[tensor], tensors_[tensor]);
      if ((argument.flags & PTO_ARGUMENT_MUTABLE) == 0) continue;
      check_writable(argument.name, tensors_[tensor]);
      written_.push_back(address_range(tensors_[tensor]));
      if (argument.kind != PTO_KIND_TENSOR) continue;
      check_apart(written, argument.name, tensors_[tensor]);
      written.emplace_back(argument.name, &tensors_[tensor]);
    }
  }
  if (!has_device_) {
    fail({std::string(op_.name) + ": called without any tensor",
          "an operator runs on the device of its first tensor", "pass a tensor"});
  }
  for (int i = 0; i < n_outs_; ++i) describe("out", outs_[i], out_tensors_[i]);
}

// Adds the packed copy of a weight to the tensors, if there is one and the caller gave none.
void Invocation::take_packed_weight() {
  const WeightOwner owner_of = weight_owner.load(std::memory_order_acquire);
  int32_t& count = counts_[op_.n_tensors - 1];
  if (!owner_of || count != 0 || n_tensors_ == PTO_MAX_TENSORS) return;
  const int weight = first_tensor(op_.weight);
  pto_weight_owner owner;
  if (owner_of(objects_[weight], &owner) == 0) return;
  const pto_tensor_ref& x = tensors_[0];
  int64_t rows = 1;
  for (int axis = 0; axis + 1 < x.rank; ++axis) rows *= x.sizes[axis];
  packed_ = packed_weight(op_, tensors_[weight], owner, rows, &pto_torch_operator_run);
  if (!packed_) return;
  tensors_[n_tensors_] = packed_->tensor();
  count = 1;
}

Invocation::Device Invocation::device_of(const char* name, TensorObject* object) {
  Device device;
  check(aoti_torch_get_device_type(object, &device.type));
  if (device.type == kCpu) return device;
  check(aoti_torch_get_device_index(object, &device.index));
  if (device.type == kNpu && device_runner.load(std::memory_order_acquire)) return device;
  fail({std::string(op_.name) + ": tensor " + name + " is on " +
            device_name(device.type, device.index) + " but this kernel runs on cpu",
        "all tensors of a call must lie on one device",
        std::string("move it first: ") + name + ".cpu()"});
}

void Invocation::describe(const char* name, TensorObject* object, pto_tensor_ref& tensor) {
  const Device device = device_of(name, object);
  if (has_device_ && device != device_) {
    fail({std::string(op_.name) + ": tensor " + name + " is on " +
              device_name(device.type, device.index) + " but " + device_of_ + " is on " +
              device_name(device_.type, device_.index),
          "all tensors of a call must lie on one device",
          std::string("move it first: ") + name + ".to(" + device_of_ + ".device)"});
  }
  if (!has_device_) device_of_ = name;
  has_device_ = true;
  device_ = device;
  int32_t dtype = 0;
  int64_t rank = 0;
  int64_t *sizes = nullptr, *strides = nullptr;
  const void* data = nullptr;
  check(aoti_torch_get_dtype(object, &dtype));
  const int ours = our_dtype(dtype);
  if (ours < 0) {
    fail({std::string(op_.name) + ": tensor " + name + " has a dtype without kernels",
          "kernels exist for bool, integers, float16, bfloat16, float32 and float64",
          std::string("convert it first: ") + name + ".float()"},
         ErrorKind::Type);
  }
  check(aoti_torch_get_dim(object, &rank));
  check(aoti_torch_get_sizes(object, &sizes));
  check(aoti_torch_get_strides(object, &strides));
  check(torch_get_const_data_ptr(object, &data));
  if (!data && std::find(sizes, sizes + rank, 0) == sizes + rank) {
    fail({std::string(op_.name) + ": tensor " + name + " has elements but no memory",
          "its storage was freed or resized to nothing, or it stands for another tensor",
          "pass a tensor that owns its elements"});
  }
  tensor = {const_cast<void*>(data), sizes, strides, static_cast<int32_t>(rank), ours};
}

// Refuses a mutable tensor in which two elements share an address.
void Invocation::check_writable(const char* name, const pto_tensor_ref& tensor) const {
  if (is_injective(tensor.rank, tensor.sizes, tensor.strides)) return;
  fail({std::string(op_.name) + ": elements of " + name + " share memory",
        "the operator replaces each element once, but an expanded tensor has several elements in "
        "one place",
        std::string("pass ") + name + ".clone()"});
}

// Refuses a mutable tensor that shares an element with another one.
void Invocation::check_apart(std::span<const Written> others, const char* name,
                             const pto_tensor_ref& tensor) const {
  for (const auto& [other, its] : others) {
    if (!may_meet(*its, tensor)) continue;
    const auto [here, there] = bytes_of_both(tensor, *its);
    fail({std::string(op_.name) + ": " + other + " and " + name +
              " are both written and share memory: " + other + " has its bytes " + there + ", " +
              name + " " + here,
          "which of the two writes is the last would be left to chance",
          std::string("pass memory of its own for ") + name});
  }
}

}  // namespace pto::torch_adapter

extern "C" void pto_torch_set_device_runner(pto::torch_adapter::DeviceRunner runner) {
  pto::torch_adapter::set_device_runner(runner);
}
extern "C" void pto_torch_set_weight_owner(pto::torch_adapter::WeightOwner function) {
  pto::torch_adapter::set_weight_owner(function);
}
