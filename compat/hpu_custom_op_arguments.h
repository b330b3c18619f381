// SPDX-License-Identifier: Apache-2.0
// Custom operator arguments: the description of a custom operator, and the arguments of one call.
//
//     const pto::custom_op::Arguments arguments(description, values);   // checked
//     arguments.tensors();                                              // as the kernel gets them
//
// Invariant: a description is immutable. A call holds concrete values: symbolic sizes are fixed.
// Thread safety: threads share descriptions; an Arguments belongs to one.
#pragma once

// PyTorch first: HPU is a macro from here on.
#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "pto/base/dtype.hpp"
#include "pto/abi/parameter.h"

namespace pto::custom_op {

// Throws RuntimeError with what is wrong with a call, why, and what to do.
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
  static constexpr FrameworkTypes kTypes(at::kBool, at::kChar, at::kShort, at::kInt, at::kLong,
                                         at::kByte, at::kUInt16, at::kUInt32, at::kUInt64,
                                         at::kHalf, at::kBFloat16, at::kFloat, at::kDouble);
  if (const int ours = kTypes.ours(static_cast<int32_t>(type)); ours >= 0) return ours;
  fail(name + ": a tensor has the element type " + c10::toString(type),
       "kernels exist for bool, integers, float16, bfloat16, float32 and float64",
       "convert the tensor first");
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
  const std::vector<uint8_t>& scalar_kinds() const { return scalar_kinds_; }
  c10::Device device() const { return device_; }

 private:
  // Converts sizes and numbers to plain numbers, which fixes symbolic ones.
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
    scalar_kinds_.push_back(value.isDouble() ? PTO_NUMBER_REAL : PTO_NUMBER_SIGNED);
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
           "describe an input as TENSOR, and pass a tensor");
    }
    device_ = first->device();
  }

  const Description& about_;
  at::Stack stack_;
  std::vector<at::Tensor> tensors_;
  std::vector<uint64_t> scalars_;
  std::vector<uint8_t> scalar_kinds_;
  c10::Device device_{at::kCPU};
};

}  // namespace pto::custom_op
