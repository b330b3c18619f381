// SPDX-License-Identifier: Apache-2.0
#include "pto/adapters/torch/aten/values.hpp"

#include <ATen/TensorUtils.h>
#include <ATen/core/Generator.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/scalar_tensor.h>
#include <c10/core/Layout.h>
#include <c10/core/MemoryFormat.h>

#include <map>
#include <sstream>

#include "pto/adapters/torch/aten/places.hpp"
#include "pto/adapters/torch/dlpack_types.hpp"

namespace pto::torch_adapter {
namespace {

using c10::IValue;
using c10::TypeKind;

constexpr const char* kKinds[] = {"nothing",     "None",   "a tensor", "a tensor",
                                  "a generator", "an int", "a float",  "a bool",
                                  "a complex",   "a text", "a type",   "a list"};

const std::map<std::string, at::Layout> kLayouts = {
    {"strided", at::kStrided}, {"sparse_coo", at::kSparse}, {"sparse_csr", at::kSparseCsr}};
const std::map<std::string, at::MemoryFormat> kFormats = {
    {"contiguous_format", at::MemoryFormat::Contiguous},
    {"preserve_format", at::MemoryFormat::Preserve},
    {"channels_last", at::MemoryFormat::ChannelsLast},
    {"channels_last_3d", at::MemoryFormat::ChannelsLast3d}};

[[noreturn]] void refuse(const pto_aten_value& value, const c10::Argument& argument) {
  const bool is_known = value.kind >= 0 && value.kind <= PTO_ATEN_LIST;
  throw Refused(argument.name() + " is " + (is_known ? kKinds[value.kind] : "of an unknown kind"),
                "the schema has " + argument.real_type()->str() + " there",
                "pass a value of that type");
}

std::string text_of(const pto_aten_value& value) {
  return {value.text, static_cast<size_t>(value.count)};
}

at::ScalarType element_type(uint8_t code, uint8_t bits) {
  return at::toScalarType(DLDataType{code, bits, 1});
}

// Refuses what is no place of a tensor. PyTorch ends the process where strides overflow.
void check(const pto_aten_memory& memory, const c10::Argument& argument) {
  if (memory.rank < 0)
    throw Refused(argument.name() + " has the rank " + std::to_string(memory.rank),
                  "a tensor has no axes or some", "pass as many sizes");
  if (memory.is_read_only && is_written(argument))
    throw Refused(argument.name() + " lies in read-only memory", "the call writes it",
                  "pass memory that is not const");
  int64_t elements = 1, bytes = (memory.type_bits + 7) / 8;
  bool is_held = true;
  for (int32_t i = memory.rank - 1; i >= 0; --i) {
    const int64_t size = memory.sizes[i], stride = memory.strides ? memory.strides[i] : elements;
    if (size < 0 || stride < 0)
      throw Refused(argument.name() + " has size " + std::to_string(size) + " and stride " +
                        std::to_string(stride) + " on axis " + std::to_string(i),
                    "PyTorch has neither negative sizes nor negative strides",
                    "pass the elements in their order, or copy them");
    int64_t step = 0;
    is_held = is_held && !__builtin_mul_overflow(stride, (memory.type_bits + 7) / 8, &step) &&
              !__builtin_mul_overflow(step, size > 1 ? size - 1 : 0, &step) &&
              !__builtin_add_overflow(bytes, step, &bytes) &&
              !__builtin_mul_overflow(elements, size, &elements);
  }
  if (!is_held)
    throw Refused(argument.name() + " has more bytes than 63 bits count",
                  "its sizes and strides say so", "pass the sizes and strides that it has");
  if (!memory.data && elements > 0) refuse_null(argument);
}

at::Tensor tensor_over(const pto_aten_memory& memory, const c10::Argument& argument) {
  check(memory, argument);
  const at::IntArrayRef sizes(memory.sizes, memory.rank);
  const auto options = at::TensorOptions().dtype(element_type(memory.type_code, memory.type_bits));
  auto maker = at::for_blob(memory.data, sizes);
  if (memory.strides) maker.strides(at::IntArrayRef(memory.strides, memory.rank));
  return maker.options(options).target_device(at::Device(at::kCPU)).make_tensor();
}

at::Scalar scalar(const pto_aten_value& value, const c10::Argument& argument) {
  switch (value.kind) {
    case PTO_ATEN_INT:
      return value.integer;
    case PTO_ATEN_DOUBLE:
      return value.real;
    case PTO_ATEN_BOOL:
      return value.integer != 0;
    case PTO_ATEN_COMPLEX:
      return c10::complex<double>(value.parts[0], value.parts[1]);
    default:
      refuse(value, argument);
  }
}

at::Tensor tensor(const pto_aten_value& value, const c10::Argument& argument) {
  if (value.kind == PTO_ATEN_TENSOR) return tensor_of(value.object);
  if (value.kind == PTO_ATEN_MEMORY) return tensor_over(value.memory, argument);
  if (is_written(argument)) refuse(value, argument);
  const at::Scalar number = scalar(value, argument);
  at::Tensor made = at::scalar_tensor(number, at::TensorOptions().dtype(number.type()));
  made.unsafeGetTensorImpl()->set_wrapped_number(true);
  return made;
}

template <class T>
IValue named(const std::map<std::string, T>& known, const pto_aten_value& value,
             const c10::Argument& argument) {
  if (value.kind != PTO_ATEN_STRING) refuse(value, argument);
  const auto found = known.find(text_of(value));
  if (found != known.end()) return static_cast<int64_t>(found->second);
  std::string names;
  for (const auto& [name, unused] : known) names += (names.empty() ? "" : ", ") + name;
  throw Refused(argument.name() + " is \"" + text_of(value) + "\"", "the names are " + names,
                "pass one of these");
}

IValue integer(const pto_aten_value& value, const c10::Argument& argument, TypeKind real) {
  if (real == TypeKind::ScalarTypeType) {
    if (value.kind != PTO_ATEN_TYPE) refuse(value, argument);
    return static_cast<int64_t>(element_type(value.type.code, value.type.bits));
  }
  if (real == TypeKind::LayoutType) return named(kLayouts, value, argument);
  if (real == TypeKind::MemoryFormatType) return named(kFormats, value, argument);
  if (value.kind != PTO_ATEN_INT) refuse(value, argument);
  return value.integer;
}

IValue of_type(const pto_aten_value& value, const c10::Argument& argument, const c10::Type& type,
               const c10::Type& real);

IValue list(const pto_aten_value& value, const c10::Argument& argument, const c10::Type& type) {
  const c10::TypePtr element = type.containedType(0);
  c10::impl::GenericList made(element);
  if (value.kind == PTO_ATEN_LIST) {
    for (int64_t i = 0; i < value.count; ++i)
      made.push_back(of_type(value.items[i], argument, *element, *element));
  } else {  // one number for all of int[2]
    if (!argument.N() || element->kind() == TypeKind::TensorType) refuse(value, argument);
    for (int32_t i = 0; i < *argument.N(); ++i)
      made.push_back(of_type(value, argument, *element, *element));
  }
  return made;
}

IValue of_type(const pto_aten_value& value, const c10::Argument& argument, const c10::Type& type,
               const c10::Type& real) {
  switch (type.kind()) {
    case TypeKind::OptionalType: {
      if (value.kind == PTO_ATEN_NONE) return {};
      const bool both = real.kind() == TypeKind::OptionalType;
      return of_type(value, argument, *type.containedType(0), both ? *real.containedType(0) : real);
    }
    case TypeKind::TensorType:
      return tensor(value, argument);
    case TypeKind::IntType:
    case TypeKind::SymIntType:
      return integer(value, argument, real.kind());
    case TypeKind::FloatType:
      return scalar(value, argument).toDouble();
    case TypeKind::ComplexType:
      return scalar(value, argument).toComplexDouble();
    case TypeKind::NumberType:
      return scalar(value, argument);
    case TypeKind::BoolType:
      if (value.kind != PTO_ATEN_BOOL) refuse(value, argument);
      return value.integer != 0;
    case TypeKind::StringType:
      if (value.kind != PTO_ATEN_STRING) refuse(value, argument);
      return text_of(value);
    case TypeKind::DeviceObjType:
      if (value.kind != PTO_ATEN_STRING) refuse(value, argument);
      return at::Device(text_of(value));
    case TypeKind::GeneratorType:
      if (value.kind != PTO_ATEN_GENERATOR) refuse(value, argument);
      return *reinterpret_cast<const at::Generator*>(value.object);
    case TypeKind::ListType:
      return list(value, argument, type);
    default:
      refuse(value, argument);
  }
}

pto_aten_value empty_value(int32_t kind) {
  pto_aten_value made = {};
  made.kind = kind;
  return made;
}

pto_aten_value number(const at::Scalar& value) {
  pto_aten_value made = empty_value(PTO_ATEN_INT);
  if (value.isComplex()) {
    made.kind = PTO_ATEN_COMPLEX;
    const auto parts = value.toComplexDouble();
    made.parts[0] = parts.real(), made.parts[1] = parts.imag();
  } else if (value.isFloatingPoint()) {
    made.kind = PTO_ATEN_DOUBLE, made.real = value.toDouble();
  } else {
    made.kind = value.isBoolean() ? PTO_ATEN_BOOL : PTO_ATEN_INT;
    made.integer = value.isBoolean() ? value.toBool() : value.toLong();
  }
  return made;
}

pto_aten_value result(const IValue& value) {
  if (value.isNone()) return empty_value(PTO_ATEN_NONE);
  if (value.isTensor()) {
    pto_aten_value made = empty_value(PTO_ATEN_TENSOR);
    made.object = reinterpret_cast<pto_aten_object*>(
        new at::Tensor(value.toTensor().resolve_conj().resolve_neg()));
    return made;
  }
  if (value.isScalar()) return number(value.toScalar());
  if (value.isList()) {
    const auto items = value.toListRef();
    auto* made = new pto_aten_value[items.size() + 1]();
    for (size_t i = 0; i < items.size(); ++i) made[i] = result(items[i]);
    pto_aten_value all = empty_value(PTO_ATEN_LIST);
    all.items = made, all.count = static_cast<int64_t>(items.size());
    return all;
  }
  throw Refused("a result of type " + value.type()->str(), "plain C has no such value",
                "call the operator from Python");
}

}  // namespace

IValue ivalue(const pto_aten_value& value, const c10::Argument& argument) {
  return of_type(value, argument, *argument.type(), *argument.real_type());
}

void refuse_null(const c10::Argument& argument) {
  throw Refused(argument.name() + " has elements, but its memory is null",
                "a kernel would read or write there", "pass the address of its first element");
}

int32_t write_results(const c10::FunctionSchema& schema, torch::jit::Stack& stack,
                      pto_aten_value* results, int32_t room) {
  if (static_cast<int64_t>(stack.size()) > room)
    throw Refused(schema.name() + " has " + std::to_string(stack.size()) + " results",
                  "there is room for " + std::to_string(room), "pass more room");
  int32_t n = 0;
  for (const IValue& value : stack) results[n++] = result(value);
  return n;
}

void release(pto_aten_value& value) {
  if (value.kind == PTO_ATEN_TENSOR) delete reinterpret_cast<at::Tensor*>(value.object);
  if (value.kind == PTO_ATEN_GENERATOR) delete reinterpret_cast<at::Generator*>(value.object);
  if (value.kind == PTO_ATEN_LIST) {
    auto* items = const_cast<pto_aten_value*>(value.items);
    for (int64_t i = 0; i < value.count; ++i) release(items[i]);
    delete[] items;
  }
  value = empty_value(PTO_ATEN_NONE);
}

pto_aten_value share(const pto_aten_value& value) {
  if (value.kind == PTO_ATEN_TENSOR) return result(tensor_of(value.object));
  if (value.kind == PTO_ATEN_GENERATOR)
    return value_of(*reinterpret_cast<const at::Generator*>(value.object));
  return value;
}

const at::Tensor& tensor_of(const pto_aten_object* object) {
  return *reinterpret_cast<const at::Tensor*>(object);
}

pto_aten_value value_of(at::Generator generator) {
  pto_aten_value made = empty_value(PTO_ATEN_GENERATOR);
  made.object = reinterpret_cast<pto_aten_object*>(new at::Generator(std::move(generator)));
  return made;
}

std::string described(const at::Tensor& tensor) {
  std::ostringstream text;
  text << tensor.scalar_type() << tensor.sizes();
  return text.str();
}

}  // namespace pto::torch_adapter
