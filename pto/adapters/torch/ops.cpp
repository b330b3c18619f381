// SPDX-License-Identifier: Apache-2.0
// Every operator of the registry as an operator of PyTorch, for the CPU: schema and kernel.
//
// PyTorch's stable C interface gives a kernel no word about which operator it is, so each operator
// gets one of kSlots functions, stamped from a template. Nothing here takes Python's lock; only a
// first call with new dtypes, ranks or attributes compiles.
// Thread safety: kernels may run on any thread; registration belongs to one thread at a time.
#include <array>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

#include "pto/adapters/torch/executor.hpp"
#include "pto/adapters/torch/shim.hpp"
#include "pto/base/dtype.hpp"
#include "pto/base/error.hpp"
#include "pto/isa/host.hpp"
#include "pto/op/operator.h"

namespace pto::torch_adapter {
namespace {

constexpr int kSlots = 1024;
constexpr int kMaxTensors = 16;
constexpr int kMaxAttributes = 24;
constexpr int kMaxOutputs = 16;
constexpr int kMaxRank = 8;
// Outputs from here on come from our recycling pool of huge pages: writing fresh pages costs more
// than the arithmetic.
constexpr int64_t kPooledBytes = 1 << 20;

void check(int32_t code) {
  if (code != 0) throw std::runtime_error(torch_exception_get_what_without_backtrace());
}

// PyTorch's dtype numbers, asked for once, to ours and back.
struct DTypes {
  std::array<int8_t, 64> ours;
  std::array<int32_t, kDTypes> theirs;

  DTypes() {
    theirs = {aoti_torch_dtype_bool(),    aoti_torch_dtype_int8(),     aoti_torch_dtype_int16(),
              aoti_torch_dtype_int32(),   aoti_torch_dtype_int64(),    aoti_torch_dtype_uint8(),
              aoti_torch_dtype_uint16(),  aoti_torch_dtype_uint32(),   aoti_torch_dtype_uint64(),
              aoti_torch_dtype_float16(), aoti_torch_dtype_bfloat16(), aoti_torch_dtype_float32(),
              aoti_torch_dtype_float64()};
    ours.fill(-1);
    for (size_t i = 0; i < theirs.size(); ++i) {
      ours.at(static_cast<size_t>(theirs[i])) = static_cast<int8_t>(i);
    }
  }
};
const DTypes kDTypeTable;
const int32_t kCpu = aoti_torch_device_type_cpu();

std::string device_name(int32_t type) {
  if (type == aoti_torch_device_type_cpu()) return "cpu";
  if (type == aoti_torch_device_type_cuda()) return "cuda";
  if (type == aoti_torch_device_type_meta()) return "meta";
  if (type == aoti_torch_device_type_mps()) return "mps";
  if (type == aoti_torch_device_type_xpu()) return "xpu";
  if (type == aoti_torch_device_type_privateuse1()) return "npu";
  return "device type " + std::to_string(type);
}

// One call: owns what the stack holds until it is released, so that an error leaks nothing.
class Invocation {
 public:
  Invocation(const pto_operator& op, Boxed* stack) : op_(op), stack_(stack) { take(); }
  Invocation(const Invocation&) = delete;
  Invocation& operator=(const Invocation&) = delete;

  ~Invocation() {
    for (int i = 0; i < n_tensors_; ++i) {
      if (objects_[i]) aoti_torch_delete_tensor_object(objects_[i]);
    }
    for (int i = 0; i < n_strings_; ++i) torch_delete_string(strings_[i]);
    for (TensorObject* output : outputs_) {
      if (output) aoti_torch_delete_tensor_object(output);
    }
  }

  void run() {
    for (int i = 0, t = 0; i < op_.n_arguments; ++i) {
      if (op_.arguments[i].kind <= PTO_ARGUMENT_OPTIONAL_TENSOR) {
        describe(op_.arguments[i].name, objects_[t], tensors_[t]);
        ++t;
      }
    }
    const pto_operator_call call = {&op_, tensors_, attributes_, &Invocation::allocate, this};
    if (pto_torch_operator_run(&call) != 0) throw std::runtime_error(pto_operator_error());
    for (int i = 0; i < op_.n_outputs; ++i) {
      stack_[i] = reinterpret_cast<Boxed>(std::exchange(outputs_[i], nullptr));
    }
  }

 private:
  // Takes everything off the stack before anything can fail.
  void take() {
    int attributes = 0;
    for (int i = 0; i < op_.n_arguments; ++i) {
      const Boxed value = stack_[i];
      switch (op_.arguments[i].kind) {
        case PTO_ARGUMENT_TENSOR:
          objects_[n_tensors_++] = reinterpret_cast<TensorObject*>(value);
          break;
        case PTO_ARGUMENT_OPTIONAL_TENSOR:
          objects_[n_tensors_++] = take_optional(value);
          break;
        case PTO_ARGUMENT_STRING:
          take_string(reinterpret_cast<StringObject*>(value), attributes_[attributes++]);
          break;
        case PTO_ARGUMENT_BOOL:
          attributes_[attributes++].integer = static_cast<uint8_t>(value) != 0;
          break;
        default:  // a number: an int64, or the bits of a double
          attributes_[attributes++].integer = static_cast<int64_t>(value);
      }
    }
  }

  static TensorObject* take_optional(Boxed value) {
    auto* boxed = reinterpret_cast<Boxed*>(value);
    if (!boxed) return nullptr;
    auto* object = reinterpret_cast<TensorObject*>(*boxed);
    torch_delete_stable_ivalue(boxed);
    return object;
  }

  void take_string(StringObject* string, pto_operator_value& value) {
    strings_[n_strings_++] = string;
    size_t bytes = 0;
    torch_string_length(string, &bytes);
    torch_string_c_str(string, &value.text);
    value.text_bytes = static_cast<int64_t>(bytes);
  }

  void describe(const char* name, TensorObject* object, pto_operator_tensor& tensor) {
    tensor.rank = -1;
    if (!object) return;
    int32_t device = 0, dtype = 0;
    int64_t rank = 0;
    int64_t *sizes = nullptr, *strides = nullptr;
    const void* data = nullptr;
    aoti_torch_get_device_type(object, &device);
    if (device != kCpu) refuse_device(name, device);
    aoti_torch_get_dtype(object, &dtype);
    const int8_t ours =
        dtype >= 0 && dtype < 64 ? kDTypeTable.ours[static_cast<size_t>(dtype)] : -1;
    if (ours < 0) refuse_dtype(name);
    check(aoti_torch_get_dim(object, &rank));
    check(aoti_torch_get_sizes(object, &sizes));
    check(aoti_torch_get_strides(object, &strides));
    check(torch_get_const_data_ptr(object, &data));
    tensor = {const_cast<void*>(data), sizes, strides, static_cast<int32_t>(rank), ours};
  }

  [[noreturn]] void refuse_device(const char* name, int32_t device) const {
    fail({std::string(op_.name) + ": tensor " + name + " is on " + device_name(device) +
              " but this kernel runs on cpu",
          "all tensors of a call must lie on one device",
          std::string("move it first: ") + name + ".cpu()"});
  }

  [[noreturn]] void refuse_dtype(const char* name) const {
    fail({std::string(op_.name) + ": tensor " + name + " has a dtype without kernels",
          "kernels exist for bool, integers, float16, bfloat16, float32 and float64",
          std::string("convert it first: ") + name + ".float()"},
         ErrorKind::Type);
  }

  static void* allocate(void* user, int32_t output, const int64_t* sizes, int32_t rank,
                        int32_t dtype) {
    auto& self = *static_cast<Invocation*>(user);
    int64_t strides[kMaxRank];
    int64_t elements = 1;
    for (int d = rank - 1; d >= 0; --d) {
      strides[d] = elements;
      elements *= sizes[d] > 0 ? sizes[d] : 1;
    }
    for (int d = 0; d < rank; ++d) elements *= sizes[d] != 0;
    const auto element = static_cast<DType>(dtype);
    TensorObject*& tensor = self.outputs_[output];
    const int32_t theirs = kDTypeTable.theirs[static_cast<size_t>(element)];
    if (elements > std::numeric_limits<int64_t>::max() / 8) return nullptr;
    if (elements * bytes(element) >= kPooledBytes) {
      return pooled(elements * bytes(element), sizes, strides, rank, theirs, tensor);
    }
    void* data = nullptr;
    if (aoti_torch_empty_strided(rank, sizes, strides, theirs, kCpu, 0, &tensor) != 0 ||
        torch_get_mutable_data_ptr(tensor, &data) != 0) {
      return nullptr;
    }
    return data ? data : user;  // an empty tensor has no memory and is not written
  }

  // A tensor over memory of our pool, which its storage gives back.
  static void* pooled(int64_t bytes, const int64_t* sizes, const int64_t* strides, int32_t rank,
                      int32_t dtype, TensorObject*& tensor) {
    void* data = pto_malloc(static_cast<size_t>(bytes));
    if (!data) return nullptr;
    const auto give_back = [](void* memory, void*) { pto_free(memory); };
    if (torch_from_blob(data, rank, sizes, strides, 0, dtype, kCpu, -1, &tensor,
                        aoti_torch_layout_strided(), nullptr, 0, give_back, nullptr) != 0) {
      pto_free(data);
      return nullptr;
    }
    return data;
  }

  const pto_operator& op_;
  Boxed* stack_;
  int n_tensors_ = 0, n_strings_ = 0;
  TensorObject* objects_[kMaxTensors];
  StringObject* strings_[kMaxAttributes];
  TensorObject* outputs_[kMaxOutputs] = {};
  pto_operator_tensor tensors_[kMaxTensors];
  pto_operator_value attributes_[kMaxAttributes];
};

std::array<const pto_operator*, kSlots> slots;

template <size_t Slot>
void trampoline(Boxed* stack, uint64_t, uint64_t) {
  Invocation(*slots[Slot], stack).run();
}

template <size_t... Slot>
constexpr std::array<BoxedKernel, kSlots> trampolines(std::index_sequence<Slot...>) {
  return {&trampoline<Slot>...};
}
constexpr auto kTrampolines = trampolines(std::make_index_sequence<kSlots>());

void register_operator(int32_t index) {
  static LibraryObject *definitions = nullptr, *kernels = nullptr;
  static size_t used = 0;
  if (!definitions) {
    check(aoti_torch_library_init_fragment("pto", "pto/adapters/torch/ops.cpp", 0, &definitions));
    check(aoti_torch_library_init_impl("pto", "CPU", "pto/adapters/torch/ops.cpp", 0, &kernels));
  }
  const pto_operator* op = pto_operator_at(index);
  if (!op) fail({"there is no operator " + std::to_string(index), "indices count up", "define it"});
  if (used == kSlots || op->n_outputs > kMaxOutputs) {
    fail({std::string(op->name) + ": cannot be registered with PyTorch",
          "there is room for " + std::to_string(kSlots) + " operators of at most " +
              std::to_string(kMaxOutputs) + " outputs",
          "define fewer operators"});
  }
  const int32_t tag = torch_tag_pt2_compliant_tag();
  check(torch_library_def_with_tags(definitions, op->schema, &tag, 1));
  slots[used] = op;
  check(torch_library_impl(kernels, op->name, kTrampolines[used], kShimVersion));
  ++used;
}

thread_local std::string error;

}  // namespace
}  // namespace pto::torch_adapter

// Declares an operator of the registry to PyTorch. Null, or the text of the error.
extern "C" const char* pto_torch_register(int32_t index) {
  using pto::torch_adapter::error;
  try {
    pto::torch_adapter::register_operator(index);
    return nullptr;
  } catch (const std::exception& e) {
    error = e.what();
    return error.c_str();
  }
}
