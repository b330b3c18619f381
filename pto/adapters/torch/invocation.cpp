// SPDX-License-Identifier: Apache-2.0
#include "pto/adapters/torch/invocation.hpp"

#include <algorithm>
#include <atomic>
#include <limits>
#include <stdexcept>
#include <utility>

#include "pto/adapters/torch/dtypes.hpp"
#include "pto/adapters/torch/executor.hpp"
#include "pto/base/dtype.hpp"
#include "pto/base/error.hpp"
#include "pto/isa/host.hpp"
#include "pto/runtime/signature.hpp"
#include "pto/runtime/strided_copy.hpp"

namespace pto::torch_adapter {
namespace {

constexpr int kMaxRank = 8;
// Outputs from here on come from our recycling pool of huge pages: writing fresh pages costs more
// than the arithmetic.
constexpr int64_t kPooledBytes = 1 << 20;

const int32_t kCpu = aoti_torch_device_type_cpu();
const int32_t kNpu = aoti_torch_device_type_privateuse1();

std::atomic<DeviceRunner> device_runner{nullptr};

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

// Takes an optional off the stack; false where it is None.
bool take_optional(Boxed& value) {
  auto* boxed = reinterpret_cast<Boxed*>(value);
  if (!boxed) return false;
  value = *boxed;
  torch_delete_stable_ivalue(boxed);
  return true;
}

}  // namespace

void set_device_runner(DeviceRunner runner) { device_runner.store(runner); }

void check(int32_t code) {
  if (code != 0) throw std::runtime_error(torch_exception_get_what_without_backtrace());
}

Invocation::Invocation(const pto_operator& op, Boxed* stack) : op_(op), stack_(stack) { take(); }

Invocation::~Invocation() {
  for (int i = 0; i < n_tensors_; ++i) aoti_torch_delete_tensor_object(objects_[i]);
  for (int i = 0; i < n_strings_; ++i) torch_delete_string(strings_[i]);
  for (TensorObject* output : single_outputs_) {
    if (output) aoti_torch_delete_tensor_object(output);
  }
  for (const auto& list : list_outputs_) {
    for (TensorObject* output : list) aoti_torch_delete_tensor_object(output);
  }
  for (const Replaced& one : replaced_) pto_free(one.memory);
}

void Invocation::run() {
  describe_all();
  const pto_operator_call call = {&op_, tensors_, counts_, attributes_, &Invocation::allocate,
                                  this};
  if (device_.type == kCpu) {
    if (pto_torch_operator_run(&call) != 0) throw std::runtime_error(pto_operator_error());
    finish();
  } else if (run_on_device(call, device_runner.load(std::memory_order_acquire)) != 0) {
    throw std::runtime_error(pto_operator_error());
  }
  give_results();
}

int32_t Invocation::run_on_device(const pto_operator_call& call, DeviceRunner runner) {
  static constexpr auto kSelf = [](void* invocation) -> Invocation& {
    return *static_cast<Invocation*>(invocation);
  };
  return runner(
      {.call = &call,
       .device_index = device_.index,
       .invocation = this,
       .for_tensors = [](void* invocation, void (*take)(void*, TensorObject*),
                         void* context) { kSelf(invocation).for_tensors(take, context); },
       .must_finish = [](void* invocation) { return !kSelf(invocation).replaced_.empty(); },
       .finish = [](void* invocation) { kSelf(invocation).finish(); },
       .run = &pto_torch_operator_run,
       .run_bound = &pto_torch_launch_run});
}

void Invocation::for_tensors(void (*take)(void* context, TensorObject*), void* context) const {
  for (int i = 0; i < n_tensors_; ++i) take(context, objects_[i]);
  for (TensorObject* output : single_outputs_) {
    if (output) take(context, output);
  }
  for (const auto& list : list_outputs_) {
    for (TensorObject* output : list) take(context, output);
  }
}

// Brings the new elements of mutable arguments with gaps to their places.
void Invocation::finish() {
  for (const Replaced& one : replaced_) {
    const pto_operator_tensor& tensor = tensors_[one.tensor];
    int64_t strides[kMaxRank], elements = 1;
    for (int axis = tensor.rank - 1; axis >= 0; --axis) {
      strides[axis] = elements;
      elements *= tensor.sizes[axis];
    }
    copy_strided(tensor.data, tensor.strides, one.memory, strides, tensor.sizes, tensor.rank,
                 bytes(static_cast<DType>(tensor.dtype)));
  }
}

// Takes everything off the stack before anything can fail.
void Invocation::take() {
  for (int i = 0; i < op_.n_arguments; ++i) {
    if (op_.arguments[i].kind <= PTO_KIND_TENSOR_LIST) {
      take_tensors(op_.arguments[i], stack_[i]);
    } else {
      take_attribute(op_.arguments[i], stack_[i]);
    }
  }
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
      if (n_tensors_ == kMaxTensors) {  // reported as too many by describe_all()
        aoti_torch_delete_tensor_object(reinterpret_cast<TensorObject*>(member));
      } else {
        objects_[n_tensors_++] = reinterpret_cast<TensorObject*>(member);
      }
      ++count;
    }
    torch_delete_list(list);
  } else if (!(argument.flags & PTO_ARGUMENT_OPTIONAL) || take_optional(value)) {
    objects_[n_tensors_++] = reinterpret_cast<TensorObject*>(value);
    count = 1;
  }
}

void Invocation::take_attribute(const pto_operator_argument& argument, Boxed value) {
  pto_operator_value& plain = attributes_[n_attributes_++];
  plain.count = 0;
  if ((argument.flags & PTO_ARGUMENT_OPTIONAL) && !take_optional(value)) {
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
  for (int i = 0, place = 0, tensor = 0; i < op_.n_arguments; ++i) {
    const pto_operator_argument& argument = op_.arguments[i];
    if (argument.kind > PTO_KIND_TENSOR_LIST) continue;
    for (int32_t n = counts_[place++]; n > 0; --n, ++tensor) {
      if (tensor == n_tensors_) {
        fail({std::string(op_.name) + ": called with more than " + std::to_string(kMaxTensors) +
                  " tensors",
              "a call takes at most that many, those of lists included",
              "join some of them, or call it several times"});
      }
      describe(argument.name, objects_[tensor], tensors_[tensor]);
      if (argument.flags & PTO_ARGUMENT_MUTABLE) check_writable(argument.name, tensors_[tensor]);
    }
  }
  if (!has_device_) {
    fail({std::string(op_.name) + ": called without any tensor",
          "the first tensor says where the operator runs", "pass a tensor"});
  }
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

void Invocation::describe(const char* name, TensorObject* object, pto_operator_tensor& tensor) {
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
  tensor = {const_cast<void*>(data), sizes, strides, static_cast<int32_t>(rank), ours};
}

// Two elements at one address cannot both be replaced.
void Invocation::check_writable(const char* name, const pto_operator_tensor& tensor) const {
  std::array<std::pair<int64_t, int64_t>, 64> axes;  // |stride|, size
  size_t n = 0;
  for (int32_t axis = 0; axis < tensor.rank && n < axes.size(); ++axis) {
    if (tensor.sizes[axis] == 0) return;
    if (tensor.sizes[axis] > 1) axes[n++] = {std::abs(tensor.strides[axis]), tensor.sizes[axis]};
  }
  std::sort(axes.begin(), axes.begin() + static_cast<std::ptrdiff_t>(n));
  int64_t reach = 0;
  for (size_t i = 0; i < n; ++i) {
    if (axes[i].first <= reach) {
      fail({std::string(op_.name) + ": elements of " + name + " share memory",
            "the operator replaces each element once, and an expanded tensor has several at one "
            "place",
            std::string("pass ") + name + ".clone()"});
    }
    reach += axes[i].first * (axes[i].second - 1);
  }
}

void Invocation::give_results() {
  int place = 0;
  for (int i = 0; i < op_.n_returns; ++i) {
    if (op_.outputs[i].replaces >= 0) continue;  // PyTorch's schema does not return it
    if (!op_.outputs[i].is_list) {
      stack_[place++] =
          reinterpret_cast<Boxed>(std::exchange(single_outputs_[static_cast<size_t>(i)], nullptr));
      continue;
    }
    std::vector<TensorObject*> none;
    std::vector<TensorObject*>& members = static_cast<size_t>(i) < list_outputs_.size()
                                              ? list_outputs_[static_cast<size_t>(i)]
                                              : none;
    ListObject* list = nullptr;
    check(torch_new_list_reserve_size(members.size(), &list));
    for (TensorObject* member : members) {
      check(torch_list_push_back(list, reinterpret_cast<Boxed>(member)));
    }
    members.clear();
    stack_[place++] = reinterpret_cast<Boxed>(list);
  }
}

void* Invocation::allocate(void* user, int32_t output, int32_t, const int64_t* sizes, int32_t rank,
                           int32_t dtype) {
  auto& self = *static_cast<Invocation*>(user);
  const pto_operator_output& about = self.op_.outputs[output];
  const auto place = static_cast<size_t>(output);
  if (about.replaces >= 0) return self.replace(about.replaces, sizes, rank, dtype);
  if (!about.is_list) return self.make_tensor(&self.single_outputs_.at(place), sizes, rank, dtype);
  if (self.list_outputs_.size() <= place) self.list_outputs_.resize(place + 1);
  TensorObject* member = nullptr;
  void* memory = self.make_tensor(&member, sizes, rank, dtype);
  if (member) self.list_outputs_[place].push_back(member);
  return memory;
}

int Invocation::first_tensor(int32_t argument) const {
  int tensor = 0, place = 0;
  for (int32_t i = 0; i < argument; ++i) {
    if (op_.arguments[i].kind <= PTO_KIND_TENSOR_LIST) tensor += counts_[place++];
  }
  return tensor;
}

// Where the new elements of a mutable argument go: its own memory where that is dense.
void* Invocation::replace(int32_t argument, const int64_t* sizes, int32_t rank, int32_t dtype) {
  const int index = first_tensor(argument);
  const pto_operator_tensor& tensor = tensors_[index];
  const bool alike = tensor.dtype == dtype &&
                     std::equal(sizes, sizes + rank, tensor.sizes, tensor.sizes + tensor.rank);
  if (!alike) {
    fail({std::string(op_.name) + ": the new elements of " + op_.arguments[argument].name +
              " have another shape or type than it",
          "an operator that works in place keeps both", "broadcast the other arguments to it"});
  }
  if (stride_class(tensor.sizes, tensor.strides, rank) == StrideClass::Contiguous) {
    return tensor.data ? tensor.data : this;
  }
  int64_t size = bytes(static_cast<DType>(dtype));
  for (int32_t axis = 0; axis < rank; ++axis) size *= sizes[axis];
  void* memory = pto_malloc(static_cast<size_t>(size));
  if (memory) replaced_.push_back({index, memory});
  return memory;
}

// A dense tensor on the device of the call.
void* Invocation::make_tensor(TensorObject** tensor, const int64_t* sizes, int32_t rank,
                              int32_t dtype) {
  int64_t strides[kMaxRank];
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

extern "C" void pto_torch_set_device_runner(pto::torch_adapter::DeviceRunner runner) {
  pto::torch_adapter::set_device_runner(runner);
}
