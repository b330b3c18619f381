// SPDX-License-Identifier: Apache-2.0
// Typed calls: checks arguments against a signature; implements isa/kernel/launch.hpp.
#include <cmath>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "pto/abi/device_queue.h"
#include "pto/abi/typed_call.h"
#include "pto/base/error.hpp"
#include "pto/base/strided.hpp"
#include "pto/launch/device_blocks.hpp"
#include "pto/launch/launch.hpp"
#include "pto/launch/number.hpp"
#include "pto/launch/typed_launch.hpp"

namespace pto {
namespace {

thread_local pto_pointer_scope* t_pointers = nullptr;

std::string text(const pto_parameter& parameter) {
  const std::string type = type_text(parameter.type_code, parameter.type_bits);
  if (!parameter.is_pointer) return type;
  return (parameter.is_const ? "const " : "") + type + "*";
}

struct TypeOf {
  uint8_t code, bits;
};

std::string text(const pto_argument& argument) {
  const std::string type = type_text(argument.type_code, argument.type_bits);
  if (argument.kind == PTO_ARGUMENT_TENSOR) {
    if (!argument.is_defined) return "undefined tensor";
    return (argument.type_code == PTO_TYPE_ANY ? "" : type + " ") + "tensor";
  }
  if (argument.kind != PTO_ARGUMENT_POINTER) return type;
  return (argument.is_const ? "const " : "") + type + "*";
}

template <class Item>
std::string list(std::span<const Item> items) {
  std::string all = "(";
  for (const Item& item : items) all += (all.size() > 1 ? ", " : "") + text(item);
  return all + ")";
}

std::span<const pto_parameter> parameters_of(const pto_signature& signature) {
  return {signature.parameters, static_cast<size_t>(signature.n_parameters)};
}

// Names an argument, "MyAdd: argument 2", for an error only; arguments count from 1, as people do.
struct Where {
  const pto_signature& signature;
  size_t index;
};

std::string operator+(const Where& where, const std::string& rest) {
  return std::string(where.signature.name) + ": argument " + std::to_string(where.index + 1) + rest;
}

[[noreturn]] void fail_number(const Where& where, const std::string& value,
                              const pto_parameter& type) {
  std::string rule;
  if (is_integer_type(type)) {
    const IntegerRange range = range_of(type);
    rule = "the parameter is a whole number from " + std::to_string(range.least) + " to " +
           std::to_string(range.most);
  } else {
    rule = "the largest " + text(type) + " is " + std::to_string(largest_real(type));
  }
  fail({where + " is " + value + ", which does not fit " + text(type), rule,
        "pass a number of that range, or widen the parameter"});
}

// A number as the caller passed it.
struct Given {
  uint8_t kind;  // PTO_ARGUMENT_...
  int64_t integer;
  double real;
};

std::string text(const Given& number) {
  if (number.kind == PTO_ARGUMENT_FLOAT) {
    char digits[40];
    std::snprintf(digits, sizeof(digits), "%.9g", number.real);
    return digits;
  }
  return number.kind == PTO_ARGUMENT_SIGNED ? std::to_string(number.integer)
                                            : std::to_string(static_cast<uint64_t>(number.integer));
}

uint64_t bits_of(double value) {
  uint64_t bits = 0;
  static_assert(sizeof(bits) == sizeof(value));
  __builtin_memcpy(&bits, &value, sizeof(bits));
  return bits;
}

// Converts the number to the slot of a floating-point parameter; throws where it does not fit.
uint64_t real_slot_of(const Given& number, const pto_parameter& type, const Where& where) {
  if (number.kind == PTO_ARGUMENT_FLOAT) {
    if (std::isfinite(number.real) && std::abs(number.real) > largest_real(type))
      fail_number(where, text(number), type);
    return bits_of(number.real);
  }
  const bool is_unsigned = number.kind == PTO_ARGUMENT_UNSIGNED;
  if (!holds_exactly(type, number.integer, is_unsigned))
    fail({where + " is " + text(number) + ", which no " + text(type) + " is",
          "an integer goes to a floating-point parameter where that holds it exactly",
          "pass a floating-point number if rounding is meant, or widen the parameter"});
  return bits_of(is_unsigned ? static_cast<double>(static_cast<uint64_t>(number.integer))
                             : static_cast<double>(number.integer));
}

// Converts the number to the slot of a parameter of this type; throws where it does not fit.
uint64_t slot_of(const Given& number, const pto_parameter& type, const Where& where) {
  if (!is_integer_type(type)) return real_slot_of(number, type, where);
  Given whole = number;
  if (number.kind == PTO_ARGUMENT_FLOAT) {
    const bool is_negative = number.real < 0;
    const bool is_whole =
        std::trunc(number.real) == number.real && number.real >= -0x1p63 && number.real < 0x1p64;
    if (!is_whole) fail_number(where, text(number), type);
    whole.kind = is_negative ? PTO_ARGUMENT_SIGNED : PTO_ARGUMENT_UNSIGNED;
    whole.integer = is_negative ? static_cast<int64_t>(number.real)
                                : static_cast<int64_t>(static_cast<uint64_t>(number.real));
  }
  const IntegerRange range = range_of(type);
  const bool is_negative = whole.kind == PTO_ARGUMENT_SIGNED && whole.integer < 0;
  const bool fits = is_negative ? whole.integer >= range.least
                                : static_cast<uint64_t>(whole.integer) <= range.most;
  if (!fits) fail_number(where, text(number), type);
  return static_cast<uint64_t>(whole.integer);
}

[[noreturn]] void fail_signature(const pto_signature& signature, const std::string& called,
                                 const std::string& fix) {
  fail({std::string(signature.name) + ": called as " + called + ", declared as " +
            list(parameters_of(signature)),
        "a pointer parameter takes a pointer or a tensor, a scalar parameter a number", fix},
       ErrorKind::Type);
}

void check_type(const Where& where, const std::string& given, TypeOf type,
                const pto_parameter& parameter) {
  if (type.code == PTO_TYPE_ANY || parameter.type_code == PTO_TYPE_ANY) return;
  if (type.code == parameter.type_code && type.bits == parameter.type_bits) return;
  const std::string wanted = type_text(parameter.type_code, parameter.type_bits);
  fail({where + ": the type given is " + given + ", but the parameter is " + text(parameter),
        "a kernel reads memory as its parameter's element type", "convert the tensor to " + wanted},
       ErrorKind::Type);
}

void check_tensor(const pto_argument& argument, const pto_parameter& parameter,
                  const Where& where) {
  if (!argument.is_defined) {
    fail({where + " is an undefined tensor", "a kernel needs the tensor's memory",
          "pass a tensor, or nullptr where the kernel allows it"});
  }
  if (!argument.is_on_cpu && argument.device < 0) {
    fail({where + " is a tensor of another device", "a kernel here reads and writes CPU memory",
          "move it with .cpu()"});
  }
  check_type(where, text(argument), {argument.type_code, argument.type_bits}, parameter);
  if (argument.is_contiguous) return;
  std::string sizes, strides;
  for (int32_t axis = 0; axis < argument.rank; ++axis) {
    sizes += (axis > 0 ? ", " : "") + std::to_string(argument.sizes[axis]);
    strides += (axis > 0 ? ", " : "") + std::to_string(argument.strides[axis]);
  }
  fail({where + " has sizes [" + sizes + "] and strides [" + strides + "]",
        "a pointer parameter needs row-major memory without gaps", "pass tensor.contiguous()"});
}

pto_tensor tensor_of(const pto_argument& argument, const pto_parameter& parameter,
                     const Where& where) {
  TypeOf type{argument.type_code, argument.type_bits};
  const bool is_tensor = argument.kind == PTO_ARGUMENT_TENSOR;
  if (is_tensor) {
    check_tensor(argument, parameter, where);
    type = {parameter.type_code, parameter.type_bits};
  } else {
    check_type(where, text(argument), type, parameter);
    if (argument.is_const && !parameter.is_const && argument.data != nullptr) {
      fail({where + " is " + text(argument) + ", but the parameter is " + text(parameter),
            "a kernel may write through a pointer that is not const",
            "pass memory that may be written, or declare the parameter const"},
           ErrorKind::Type);
    }
  }
  pto_tensor tensor{};
  tensor.data = argument.data;
  tensor.sizes = argument.sizes;
  tensor.strides = argument.strides;
  tensor.rank = argument.rank;
  tensor.type_code = type.code;
  tensor.type_bits = type.bits;
  tensor.type_lanes = 1;
  tensor.flags = PTO_TENSOR_CONTIGUOUS | (parameter.is_const ? PTO_TENSOR_READ_ONLY : 0);
  if (!is_tensor && argument.data == nullptr) tensor.flags |= PTO_TENSOR_ABSENT;
  tensor.extent_bytes = is_tensor || argument.bytes > 0 ? argument.bytes : -1;
  return tensor;
}

// Refuses overlaps that pto_extent() cannot tell apart: a written tensor, and another one that
// reaches beyond its end.
void check_overlaps(const pto_signature& signature, std::span<const pto_tensor> tensors) {
  for (const pto_tensor& written : tensors) {
    if ((written.flags & PTO_TENSOR_READ_ONLY) || written.extent_bytes <= 0) continue;
    const char* begin = static_cast<const char*>(written.data);
    const char* end = begin + written.extent_bytes;
    for (const pto_tensor& other : tensors) {
      const char* start = static_cast<const char*>(other.data);
      if (other.extent_bytes <= 0 || start >= end || start + other.extent_bytes <= end) continue;
      if (start + other.extent_bytes <= begin) continue;
      fail({std::string(signature.name) + ": a tensor of " + std::to_string(written.extent_bytes) +
                " bytes that may be written overlaps one that reaches " +
                std::to_string(start + other.extent_bytes - end) + " bytes further",
            "an access is bounded by the memory that holds its pointer, and here that is both",
            "pass a copy of one of them: tensor.clone()"});
    }
  }
}

// Copies the arguments and adds device and extent to each plain pointer into memory of a device
// with streams or of a known range; empty where there is none.
std::vector<pto_argument> placed(std::span<const pto_argument> arguments) {
  std::vector<pto_argument> all;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].kind != PTO_ARGUMENT_POINTER || arguments[i].data == nullptr) continue;
    DevicePlace place = process_device_blocks().place_of(arguments[i].data);
    for (pto_pointer_scope* one = t_pointers; one != nullptr && place.bytes < 0; one = one->outer) {
      place.bytes = one->bytes_from(one->context, arguments[i].data);
    }
    if (place.bytes < 0) continue;
    if (all.empty()) all.assign(arguments.begin(), arguments.end());
    all[i].device = place.device;
    all[i].bytes = place.bytes;
  }
  return all;
}

// Returns the device of the call, or -1. Throws where the arguments lie on several.
int32_t device_of(const pto_signature& signature, std::span<const pto_argument> arguments,
                  const void* stream) {
  const auto named = [](int32_t device) {
    return device < 0 ? "the CPU" : "device " + std::to_string(device);
  };
  const int32_t of_stream = pto_device_of_stream(stream);
  int32_t first = -2;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const bool is_placed = arguments[i].kind == PTO_ARGUMENT_TENSOR || arguments[i].device >= 0;
    if (!is_placed) continue;
    if (first == -2) first = arguments[i].device;
    if (arguments[i].device == first && (of_stream < 0 || first == of_stream)) continue;
    fail({Where{signature, i} + " is on " + named(arguments[i].device) + ", but " +
              (arguments[i].device == first ? "the stream is of " + named(of_stream)
                                            : "the first tensor is on " + named(first)),
          "the tensors of a launch and its stream belong to one device", "move the tensor first"});
  }
  return first == -2 ? of_stream : first;
}

int32_t call(const pto_signature& signature, pto_kernel kernel, int64_t blocks, const void* stream,
             std::span<const pto_argument> arguments) {
  const auto parameters = parameters_of(signature);
  if (arguments.size() != parameters.size()) {
    fail_signature(signature, list(arguments),
                   "pass " + std::to_string(parameters.size()) + " arguments");
  }
  if (blocks < 0 || blocks > INT32_MAX) {
    fail({std::string(signature.name) + ": a launch over " + std::to_string(blocks) + " blocks",
          "the number of blocks is from 0 to 2147483647", "pass a count of blocks"});
  }
  std::vector<pto_tensor> tensors;
  std::vector<uint64_t> scalars;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const pto_argument& argument = arguments[i];
    const bool is_memory =
        argument.kind == PTO_ARGUMENT_POINTER || argument.kind == PTO_ARGUMENT_TENSOR;
    if (is_memory != (parameters[i].is_pointer != 0)) {
      fail_signature(signature, list(arguments),
                     "argument " + std::to_string(i + 1) + ": pass a " +
                         (is_memory ? "number" : "pointer or a tensor"));
    }
    const Where where{signature, i};
    if (is_memory)
      tensors.push_back(tensor_of(argument, parameters[i], where));
    else
      scalars.push_back(
          slot_of({argument.kind, argument.integer, argument.real}, parameters[i], where));
  }
  check_overlaps(signature, tensors);
  const TypedLaunch launch{kernel, static_cast<int32_t>(blocks), std::move(tensors),
                           std::move(scalars)};
  const int32_t device = device_of(signature, arguments, stream);
  return device < 0 ? launch.run() : launch.run_on(device, stream, arguments);
}

std::string called_as(const pto_args& args) {
  std::string all = "(";
  for (int32_t i = 0; i < args.n_tensors; ++i) {
    all += type_text(args.tensors[i].type_code, args.tensors[i].type_bits) + " tensor, ";
  }
  return all + std::to_string(args.n_scalars) + " scalars)";
}

void check_given_tensor(const pto_signature& signature, const pto_parameter& parameter,
                        const pto_tensor& tensor, size_t index) {
  if (tensor.flags & PTO_TENSOR_ABSENT) return;
  const std::string type = type_text(tensor.type_code, tensor.type_bits);
  if (parameter.type_code != PTO_TYPE_ANY && tensor.type_code != PTO_TYPE_ANY) {
    if (tensor.type_code != parameter.type_code || tensor.type_bits != parameter.type_bits) {
      check_type(Where{signature, index}, type + " tensor", {tensor.type_code, tensor.type_bits},
                 parameter);
    }
  }
  if ((tensor.flags & PTO_TENSOR_READ_ONLY) && !parameter.is_const) {
    fail({Where{signature, index} + " is read-only, but the parameter is " + text(parameter),
          "a kernel may write through a pointer that is not const",
          "pass memory that may be written, or declare the parameter const"});
  }
  if (has_gaps(tensor)) {
    fail({Where{signature, index} + " has gaps between its elements",
          "a pointer parameter needs row-major memory without gaps", "pass a contiguous copy"});
  }
}

void check_given(const pto_signature& signature, const pto_args& args) {
  const auto parameters = parameters_of(signature);
  int32_t tensors = 0;
  for (const pto_parameter& parameter : parameters) tensors += parameter.is_pointer;
  const auto scalars = static_cast<int32_t>(parameters.size()) - tensors;
  if (args.n_tensors != tensors || args.n_scalars != scalars) {
    fail_signature(
        signature, called_as(args),
        "pass " + std::to_string(tensors) + " tensors and " + std::to_string(scalars) + " scalars");
  }
  check_overlaps(signature, {args.tensors, static_cast<size_t>(tensors)});
  int32_t tensor = 0, scalar = 0;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const pto_parameter& parameter = parameters[i];
    if (parameter.is_pointer) {
      check_given_tensor(signature, parameter, args.tensors[tensor++], i);
      continue;
    }
    const uint64_t slot = args.scalars[scalar++];
    if (is_integer_type(parameter)) {
      if (parameter.type_bits == 64) continue;  // every slot has 64 bits
      slot_of({PTO_ARGUMENT_SIGNED, static_cast<int64_t>(slot), 0}, parameter, Where{signature, i});
      continue;
    }
    double value = 0;
    __builtin_memcpy(&value, &slot, sizeof(value));
    slot_of({PTO_ARGUMENT_FLOAT, 0, value}, parameter, Where{signature, i});
  }
}

}  // namespace
}  // namespace pto

int32_t pto_call(const pto_signature* signature, pto_kernel kernel, int64_t blocks,
                 const void* stream, const pto_argument* arguments, int32_t n_arguments) {
  try {
    const std::span<const pto_argument> given(arguments, static_cast<size_t>(n_arguments));
    const std::vector<pto_argument> placed = pto::placed(given);
    return pto::call(*signature, kernel, blocks, stream, placed.empty() ? given : placed);
  } catch (const std::exception& error) {
    pto::set_last_error(error.what());
    return -1;
  }
}

int32_t pto_check_arguments(const pto_signature* signature, const pto_args* args) {
  try {
    pto::check_given(*signature, *args);
    return 0;
  } catch (const std::exception& error) {
    return args->services->fail(args->services, error.what());
  }
}

void pto_enter_pointers(pto_pointer_scope* scope) {
  scope->outer = pto::t_pointers;
  pto::t_pointers = scope;
}

void pto_leave_pointers(const pto_pointer_scope* scope) { pto::t_pointers = scope->outer; }

void pto_throw_last_error(void) { throw std::runtime_error(pto_last_error()); }
