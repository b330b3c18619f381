// SPDX-License-Identifier: Apache-2.0
// How the arguments of a front's call are read into its key, and boxed for Python.
#include <cstring>
#include <string>

#include "pto/adapters/torch/aten/fronts.hpp"
#include "pto/adapters/torch/plain_keys.hpp"

namespace pto::torch_adapter {

void FrontCall::check(const at::Tensor& tensor) {
  takes_ = takes_ && tensor.defined();
  if (!takes_) return;
  const c10::TensorImpl& one = *tensor.unsafeGetTensorImpl();
  if (!has_plain_keys(tensor) || one.has_symbolic_sizes_strides()) {
    has_key_ = false;
    takes_ = tensor.layout() == at::kStrided && tensor.device().is_cpu() && !tensor.is_conj() &&
             !tensor.is_neg();
  }
  takes_ = takes_ && tensor.is_contiguous();
  if (!takes_) return;
  const auto first = reinterpret_cast<uintptr_t>(tensor.const_data_ptr());
  takes_ = (first & (one.itemsize() - 1)) == 0;  // a power of two
  if (state_.written) {
    const auto bytes = static_cast<uintptr_t>(one.numel()) * one.itemsize();
    has_key_ = has_key_ && ranges_ < kMostRanges;
    if (has_key_) memory_[ranges_++] = {first, first + bytes, (state_.written >> place_ & 1) != 0};
  }
  const bool is_other = state_.others >> place_ & 1;
  if (!takes_ || is_other) return;
  const at::ScalarType type = tensor.scalar_type();
  takes_ = tensors_++ == 0 || type == type_;
  type_ = type;
  takes_ = takes_ && !leaves(state_, wish_, type_);
}

void FrontCall::push_shared_memory() {
  for (size_t i = 0; i < ranges_; ++i)
    for (size_t j = 0; j < i; ++j) {
      const Memory &one = memory_[i], &other = memory_[j];
      if ((one.is_written || other.is_written) && one.first < other.end && other.first < one.end)
        push('m', i, j, one.first == other.first && one.end == other.end);
    }
}

void FrontCall::read(const at::Tensor& tensor) {
  arguments_[place_].tensor = &tensor;
  check(tensor);
  if (!takes_ || !has_key_) return;
  const c10::TensorImpl& one = *tensor.unsafeGetTensorImpl();
  push(one.requires_grad() ? 'g' : 't', static_cast<int>(tensor.scalar_type()), one.dim());
  for (const int64_t size : one.sizes()) push(size);
  for (const int64_t stride : one.strides()) push(stride);
}

void FrontCall::read(const at::ITensorListRef& tensors) {
  push('l', tensors.size());
  for (const at::Tensor& one : tensors) read(one);
  arguments_[place_].tensor = nullptr;
}

void FrontCall::read(const at::Scalar& number) {
  if (number.isBoolean())
    read(number.toBool());
  else if (number.isIntegral(false))
    read(number.toLong());
  else if (number.isFloatingPoint())
    read(number.toDouble());
  else
    has_key_ = false;
}

void FrontCall::read(const c10::SymInt& number) {
  takes_ = takes_ && !number.is_symbolic();
  if (takes_) read(number.as_int_unchecked());
}

void FrontCall::read(at::IntArrayRef numbers) {
  push('l', numbers.size());
  for (const int64_t one : numbers) push(one);
}

void FrontCall::read(c10::SymIntArrayRef numbers) {
  const auto plain = c10::asIntArrayRefSlowOpt(numbers);
  takes_ = takes_ && plain;
  if (takes_) read(*plain);
}

void FrontCall::read(at::OptionalIntArrayRef numbers) {
  if (numbers)
    read(*numbers);
  else
    push('n');
}

void FrontCall::read(std::string_view text) {
  push('s', text.size());
  for (size_t from = 0; from < text.size(); from += sizeof(int64_t)) {
    int64_t word = 0;
    std::memcpy(&word, text.data() + from, std::min(sizeof word, text.size() - from));
    push(word);
  }
}

void FrontCall::read(at::ScalarType type) { push('T', static_cast<int>(type)); }

void FrontCall::read(const std::optional<at::ScalarType>& type) {
  takes_ = takes_ && !type;
  push('n');
}

void FrontCall::read(at::MemoryFormat format) {  // these two keep rows as they are
  takes_ =
      takes_ && (format == at::MemoryFormat::Contiguous || format == at::MemoryFormat::Preserve);
  push('n');
}

void FrontCall::read_list(const c10::IValue& list) {
  const auto items = list.toListRef();
  push('l', items.size());
  for (const c10::IValue& one : items) read_value(one);
}

void FrontCall::read_value(const c10::IValue& value) {
  if (value.isNone())
    push('n');
  else if (value.isBool())
    read(value.toBool());
  else if (value.isInt())
    read(value.toInt());
  else if (value.isDouble())
    read(value.toDouble());
  else if (value.isString())
    read(std::string_view(value.toStringRef()));
  else if (value.isTensor())
    read(value.toTensor());
  else if (value.isList())
    read_list(value);
  else
    has_key_ = false;
}

namespace {

// The kind of an argument, without "or none".
c10::TypeKind kind_of(const c10::Argument& argument) {
  const auto& type = argument.real_type();
  return (type->kind() == c10::TypeKind::OptionalType ? type->containedType(0) : type)->kind();
}

bool is_optional(const c10::Argument& argument) {
  return argument.real_type()->kind() == c10::TypeKind::OptionalType;
}

}  // namespace

void FrontCall::read(const FrontBoxed& boxed) {
  const c10::IValue& value = *boxed.value;
  if (value.isTensor()) return read(value.toTensor());
  if (value.isTensorList()) {
    read_list(value);
    arguments_[place_].tensor = nullptr;
    return;
  }
  takes_ = takes_ && !value.isSymInt() && !value.isSymIntList();
  const c10::TypeKind kind = kind_of(*boxed.argument);
  if (value.isNone() ||
      (kind != c10::TypeKind::MemoryFormatType && kind != c10::TypeKind::ScalarTypeType))
    return read_value(value);
  if (kind == c10::TypeKind::MemoryFormatType) return read(value.toMemoryFormat());
  if (is_optional(*boxed.argument)) return read(std::optional(value.toScalarType()));
  read(value.toScalarType());
}

c10::IValue front_box(const at::Tensor& tensor) { return tensor; }
c10::IValue front_box(const at::ITensorListRef& tensors) {
  return std::vector<at::Tensor>(tensors.begin(), tensors.end());
}
c10::IValue front_box(at::TensorList tensors) { return tensors.vec(); }
c10::IValue front_box(const at::Scalar& number) { return number; }
c10::IValue front_box(bool yes) { return yes; }
c10::IValue front_box(int64_t number) { return number; }
c10::IValue front_box(double number) { return number; }
c10::IValue front_box(const c10::SymInt& number) { return number.as_int_unchecked(); }
c10::IValue front_box(at::IntArrayRef numbers) { return numbers; }
c10::IValue front_box(c10::SymIntArrayRef numbers) { return c10::asIntArrayRefUnchecked(numbers); }
c10::IValue front_box(at::OptionalIntArrayRef numbers) { return numbers; }
c10::IValue front_box(std::string_view text) { return std::string(text); }
c10::IValue front_box(at::ScalarType type) { return std::string(c10::getDtypeNames(type).first); }
c10::IValue front_box(at::MemoryFormat) { return {}; }
c10::IValue front_box(const std::array<bool, 2>& each) { return each; }
c10::IValue front_box(const std::array<bool, 3>& each) { return each; }

c10::IValue front_box(const FrontBoxed& boxed) {
  if (boxed.value->isNone()) return {};
  switch (kind_of(*boxed.argument)) {
    case c10::TypeKind::MemoryFormatType:
      return {};
    case c10::TypeKind::ScalarTypeType:
      return front_box(boxed.value->toScalarType());
    default:
      return *boxed.value;
  }
}

}  // namespace pto::torch_adapter
