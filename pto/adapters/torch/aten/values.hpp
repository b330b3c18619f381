// SPDX-License-Identifier: Apache-2.0
// Values of abi/aten.h as PyTorch's dispatcher has them, and back.
//
//     c10::IValue x = ivalue(arguments[0], schema.arguments()[0]);
//     int n = write_results(schema, stack, results, room);
//
// Errors: pto::aten::Refused with what, why and fix.
// Thread safety: pure functions.
#pragma once

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>

#include <stdexcept>
#include <string>

#include "pto/abi/aten.h"
#include "pto/base/error_message.hpp"

namespace pto::torch_adapter {

struct Refused : std::runtime_error {
  Refused(const std::string& what, const std::string& why, const std::string& fix)
      : std::runtime_error(error_message(what, why, fix)) {}
};

// Returns the value as an argument of its type. Throws Refused for a value of another kind.
c10::IValue ivalue(const pto_aten_value& value, const c10::Argument& argument);

// Throws Refused for an argument that has elements, but null for their memory.
[[noreturn]] void refuse_null(const c10::Argument& argument);

// Writes results, each a value that release() frees, and returns how many; refuses more than room.
int32_t write_results(const c10::FunctionSchema& schema, torch::jit::Stack& stack,
                      pto_aten_value* results, int32_t room);

// Frees a result and makes it None; a list with its items.
void release(pto_aten_value& result);

// Returns another owner of a tensor or a generator; any other value as it is.
pto_aten_value share(const pto_aten_value& result);

const at::Tensor& tensor_of(const pto_aten_object* object);

// Returns a value that owns the generator until release().
pto_aten_value value_of(at::Generator generator);

// "f32[3, 4]", as an error names a tensor.
std::string described(const at::Tensor& tensor);

}  // namespace pto::torch_adapter
