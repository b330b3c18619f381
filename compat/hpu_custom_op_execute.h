// SPDX-License-Identifier: Apache-2.0
// Custom operators that describe themselves: what hpu_custom_op.h and hpu_custom_op_pt2.h share.
//
//     pto::custom_op::add({"custom_op::custom_relu", "relu_fwd", shapes, params, inputs});
//     std::vector<at::Tensor> results = pto::custom_op::find("custom_op::custom_relu")->run(stack);
//
// A description names a kernel (pto/op/guid.h); running it makes the outputs and calls the kernel.
// On meta and fake tensors only the outputs are made, so that torch.compile and export work without
// a meta kernel; a symbolic size is then fixed to its value, since the callbacks take numbers.
// TORCH_LIBRARY_IMPL(space, HPU, m) registers for the CPU, npu and meta tensors alike.
//
// Invariants: a description is immutable and never removed. A name that was described twice, or
// wrongly, is an error at every use, not at load, where an exception would end the process.
// Thread safety: every function may be called from any thread.
#pragma once

// PyTorch first: HPU is a macro from here on.
#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <torch/library.h>

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "pto/base/dtype.hpp"
#include "pto/op/guid.h"

namespace pto::custom_op {

// What is wrong with a call, why, and what to do, as RuntimeError.
[[noreturn]] inline void fail(const std::string& what, const char* why, const char* fix) {
  TORCH_CHECK(false, what, "\n  why: ", why, "\n  fix: ", fix);
}

struct Output {
  at::ScalarType dtype;
  std::vector<int64_t> sizes;
  int64_t replaces = -1;  // the input whose elements it replaces: the result is that tensor
  std::vector<int64_t> strides = {};  // empty: row-major
};

// A value of the call that the kernel gets: a tensor, an optional or a list of tensors; or a
// number, which fills a scalar slot.
struct Input {
  size_t index;  // in the call
  bool is_scalar;
};

inline int32_t dtype_of(const std::string& name, at::ScalarType type) {
  switch (type) {
    case at::kBool:
      return static_cast<int32_t>(DType::Bool);
    case at::kChar:
      return static_cast<int32_t>(DType::I8);
    case at::kShort:
      return static_cast<int32_t>(DType::I16);
    case at::kInt:
      return static_cast<int32_t>(DType::I32);
    case at::kLong:
      return static_cast<int32_t>(DType::I64);
    case at::kByte:
      return static_cast<int32_t>(DType::U8);
    case at::kUInt16:
      return static_cast<int32_t>(DType::U16);
    case at::kUInt32:
      return static_cast<int32_t>(DType::U32);
    case at::kUInt64:
      return static_cast<int32_t>(DType::U64);
    case at::kHalf:
      return static_cast<int32_t>(DType::F16);
    case at::kBFloat16:
      return static_cast<int32_t>(DType::BF16);
    case at::kFloat:
      return static_cast<int32_t>(DType::F32);
    case at::kDouble:
      return static_cast<int32_t>(DType::F64);
    default:
      fail(name + ": a tensor has the element type " + c10::toString(type),
           "kernels exist for bool, integers, float16, bfloat16, float32 and float64",
           "convert the tensor first");
  }
}

struct Description {
  std::string name, guid;
  std::function<std::vector<Output>(const at::Stack&)> outputs;
  std::function<std::shared_ptr<void>(const at::Stack&, size_t&)> params = nullptr;
  std::vector<Input> inputs = {};
  bool takes_all_tensors = false;  // instead of `inputs`; without params the numbers too
  std::string error = {};          // why it cannot be used

  std::vector<at::Tensor> run(const std::vector<c10::IValue>& values) const;
};

// The arguments of one call, as the kernel takes them.
class Arguments {
 public:
  Arguments(const Description& about, const std::vector<c10::IValue>& values) : about_(about) {
    for (const c10::IValue& value : values) stack_.push_back(concrete(value));
    if (about.takes_all_tensors) {
      for (const c10::IValue& value : stack_) take(value, about.params != nullptr);
    } else {
      for (const Input& input : about.inputs) take(input);
    }
    check_tensors();
  }

  const at::Stack& stack() const { return stack_; }
  const std::vector<at::Tensor>& tensors() const { return tensors_; }  // undefined where absent
  const std::vector<uint64_t>& scalars() const { return scalars_; }
  c10::Device device() const { return device_; }

 private:
  // Sizes and numbers as numbers, which fixes symbolic ones.
  static c10::IValue concrete(const c10::IValue& value) {
    if (value.isSymInt()) return value.toSymInt().guard_int(__FILE__, __LINE__);
    if (value.isSymFloat()) return value.toSymFloat().guard_float(__FILE__, __LINE__);
    if (value.isSymBool()) return value.toSymBool().guard_bool(__FILE__, __LINE__);
    if (value.isTensor()) return concrete(value.toTensor());
    if (!value.isTensorList()) return value;
    c10::List<at::Tensor> list;
    for (const at::Tensor& one : value.toTensorVector()) list.push_back(concrete(one));
    return list;
  }
  static at::Tensor concrete(const at::Tensor& tensor) {
    if (!tensor.defined()) return tensor;
    if (!tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides()) {
      return tensor.is_neg() ? tensor.resolve_neg() : tensor;
    }
    std::vector<int64_t> sizes;
    for (const c10::SymInt& size : tensor.sym_sizes()) {
      sizes.push_back(size.guard_int(__FILE__, __LINE__));
    }
    return at::empty(sizes, tensor.options().device(at::kMeta));
  }

  void take(const Input& input) {
    if (input.index >= stack_.size()) {
      fail(about_.name + ": it describes input " + std::to_string(input.index) +
               ", but was called with " + std::to_string(stack_.size()) + " values",
           "an InputDesc names a value of the call by its index", "correct the index or the call");
    }
    const c10::IValue& value = stack_[input.index];
    if (input.is_scalar) {
      if (take_number(value)) return;
      fail(about_.name + ": value " + std::to_string(input.index) + " is " + value.tagKind(),
           "an input that is described as SCALAR is an int, a float or a bool",
           "pass a number, or describe it as TENSOR or USER_PARAMS");
    }
    const size_t before = tensors_.size();
    take(value, true);
    if (tensors_.size() != before || value.isList()) return;
    fail(about_.name + ": value " + std::to_string(input.index) + " is " + value.tagKind(),
         "an input that is described as TENSOR is a tensor, None or a list of tensors",
         "pass a tensor, or describe it as SCALAR or USER_PARAMS");
  }

  void take(const c10::IValue& value, bool only_tensors) {
    if (value.isTensor()) {
      tensors_.push_back(value.toTensor());
    } else if (value.isNone()) {
      tensors_.emplace_back();
    } else if (value.isTensorList() || value.isOptionalTensorList()) {
      for (const c10::IValue& one : value.toListRef()) {
        tensors_.push_back(one.isTensor() ? one.toTensor() : at::Tensor());
      }
    } else if (!only_tensors) {
      take_number(value);
    }
  }

  bool take_number(const c10::IValue& value) {
    uint64_t slot = 0;
    if (value.isDouble()) {
      const double real = value.toDouble();
      std::memcpy(&slot, &real, sizeof slot);
    } else if (value.isInt() || value.isBool()) {
      slot = static_cast<uint64_t>(value.isInt() ? value.toInt() : value.toBool());
    } else {
      return false;
    }
    scalars_.push_back(slot);
    return true;
  }

  void check_tensors() {
    const at::Tensor* first = nullptr;
    for (const at::Tensor& tensor : tensors_) {
      if (!tensor.defined()) continue;
      if (!first) first = &tensor;
      if (tensor.device() != first->device()) {
        fail(about_.name + ": one tensor is on " + first->device().str() + ", another on " +
                 tensor.device().str(),
             "all tensors of a call lie on one device", "move one of them");
      }
      if (tensor.layout() != at::kStrided) {
        fail(about_.name + ": a tensor has the layout " + c10::str(tensor.layout()),
             "kernels take strided tensors", "pass tensor.to_dense()");
      }
      if (tensor.requires_grad() && c10::GradMode::is_enabled()) {
        fail(about_.name + ": a tensor requires grad, but this kernel has no gradient",
             "its result would silently cut the graph of gradients",
             "register a kernel for AutogradHPU or use torch.library.register_autograd, or call "
             "it under torch.no_grad()");
      }
    }
    if (!first) {
      fail(about_.name + ": it got no tensor", "a kernel computes on tensors",
           "describe an input as TENSOR, and pass one");
    }
    device_ = first->device();
  }

  const Description& about_;
  at::Stack stack_;
  std::vector<at::Tensor> tensors_;
  std::vector<uint64_t> scalars_;
  c10::Device device_{at::kCPU};
};

inline at::Tensor make_output(const Description& about, const Arguments& arguments,
                              const Output& output) {
  if (output.replaces < 0) {
    for (const int64_t size : output.sizes) {
      if (size >= 0) continue;
      fail(about.name + ": an output has the sizes " + c10::str(output.sizes),
           "sizes are at least 0", "correct the shape callback or the arguments");
    }
    const auto options = at::TensorOptions().dtype(output.dtype).device(arguments.device());
    return output.strides.empty() ? at::empty(output.sizes, options)
                                  : at::empty_strided(output.sizes, output.strides, options);
  }
  const auto index = static_cast<size_t>(output.replaces);
  if (index >= arguments.stack().size() || !arguments.stack()[index].isTensor()) {
    fail(about.name + ": an output replaces value " + std::to_string(index),
         "what is replaced is a tensor of the call", "name the index of a tensor");
  }
  at::Tensor tensor = arguments.stack()[index].toTensor();
  if (tensor.scalar_type() != output.dtype || tensor.sizes() != at::IntArrayRef(output.sizes)) {
    fail(about.name + ": an output of type " + c10::toString(output.dtype) + " and sizes " +
             c10::str(output.sizes) + " replaces a tensor of type " +
             c10::toString(tensor.scalar_type()) + " and sizes " + c10::str(tensor.sizes()),
         "the new elements take the places of the old ones", "describe the output as that tensor");
  }
  for (int64_t axis = 0; axis < tensor.dim(); ++axis) {
    if (tensor.stride(axis) != 0 || tensor.size(axis) < 2) continue;
    fail(about.name + ": it writes to a tensor whose elements share memory",
         "an expanded tensor has one place for several elements", "pass tensor.clone()");
  }
  return tensor;
}

// A call with everything that it points to.
class BoundCall {
 public:
  BoundCall(const Description& about, const Arguments& arguments,
            const std::vector<at::Tensor>& outputs)
      : guid_(about.guid), name_(about.name), scalars_(arguments.scalars()) {
    if (about.params) params_ = about.params(arguments.stack(), params_bytes_);
    tensors_ = arguments.tensors();
    tensors_.insert(tensors_.end(), outputs.begin(), outputs.end());
    n_outputs_ = outputs.size();
  }

  void run() const {
    std::vector<pto_operator_tensor> plain;
    for (const at::Tensor& tensor : tensors_) plain.push_back(described(tensor));
    const pto_guid_call call = {guid_.c_str(),
                                name_.c_str(),
                                plain.data(),
                                static_cast<int32_t>(plain.size() - n_outputs_),
                                static_cast<int32_t>(plain.size()),
                                scalars_.data(),
                                static_cast<int32_t>(scalars_.size()),
                                params_.get(),
                                static_cast<int64_t>(params_bytes_)};
    TORCH_CHECK(pto_guid_run(&call) == 0, pto_operator_error());
  }

 private:
  pto_operator_tensor described(const at::Tensor& tensor) const {
    if (!tensor.defined()) return {};
    return {tensor.data_ptr(), tensor.sizes().data(), tensor.strides().data(),
            static_cast<int32_t>(tensor.dim()), dtype_of(name_, tensor.scalar_type())};
  }

  std::string guid_, name_;
  std::vector<uint64_t> scalars_;
  std::vector<at::Tensor> tensors_;
  size_t n_outputs_ = 0;
  std::shared_ptr<void> params_;
  size_t params_bytes_ = 0;
};

inline std::vector<at::Tensor> Description::run(const std::vector<c10::IValue>& values) const {
  TORCH_CHECK(error.empty(), error);
  const Arguments arguments(*this, values);
  std::vector<at::Tensor> results;
  for (const Output& output : outputs(arguments.stack())) {
    results.push_back(make_output(*this, arguments, output));
  }
  if (!arguments.device().is_meta()) BoundCall(*this, arguments, results).run();
  return results;
}

// The descriptions of the process, by name.
struct Descriptions {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<Description>> by_name;
};
inline Descriptions& descriptions() {
  static Descriptions* const it = new Descriptions;  // outlives every thread
  return *it;
}

inline void add(const std::shared_ptr<Description>& made) {
  Descriptions& all = descriptions();
  const std::lock_guard lock(all.mutex);
  auto& known = all.by_name[made->name];
  if (known) {
    auto broken = std::make_shared<Description>(*made);
    broken->error = made->name + ": is registered twice, with the kernels " + known->guid +
                    " and " + made->guid +
                    "\n  why: a name belongs to one description for the life of the process\n"
                    "  fix: register it once, or choose another name";
    known = broken;
  } else {
    known = made;
  }
}

// Throws where no operator, or more than one, was described under this name.
inline std::shared_ptr<const Description> find(const std::string& name) {
  Descriptions& all = descriptions();
  const std::lock_guard lock(all.mutex);
  const auto found = all.by_name.find(name);
  if (found == all.by_name.end()) {
    std::string names;
    for (const auto& [one, about] : all.by_name) names += (names.empty() ? "" : ", ") + one;
    fail(name + ": no custom operator has this name",
         ("registered are: " + (names.empty() ? "none" : names)).c_str(),
         "register it before its first use, or correct the name");
  }
  TORCH_CHECK(found->second->error.empty(), found->second->error);
  return found->second;
}

}  // namespace pto::custom_op

// Inside a callback that fills params: sets `size`, declares `params`.
#define HPU_PARAMS_STUB(Params) \
  size = sizeof(Params);        \
  auto params = std::make_shared<Params>()

// One registration serves CPU, npu and meta tensors; gradients have their own key for all.
#define HPU CompositeExplicitAutograd
#define AutogradHPU Autograd
