// SPDX-License-Identifier: Apache-2.0
// Schema: the signature of an operator, in the grammar of ATen's schemas.
//
//     Schema s = parse_schema("gelu(Tensor x, *, str approximate='none') -> Tensor");
//     s.arguments[1].name == "approximate";   text(s) is the same text
//
// Types: Tensor, Tensor?, int, float, bool, str; all of them but tensors may have a default. One or
// more tensors are returned, each may have a name; an unnamed only result is called "result".
// Thread safety: plain values, pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace pto {

// The value of an attribute.
using AttributeValue = std::variant<int64_t, double, bool, std::string>;

enum class ArgumentKind : int32_t { Tensor, OptionalTensor, Int, Float, Bool, String };

struct Argument {
  std::string name;
  ArgumentKind kind = ArgumentKind::Tensor;
  bool keyword_only = false;
  std::optional<AttributeValue> default_value;  // of an OptionalTensor: a bool, meaning None
};
bool is_tensor(const Argument& argument);

struct Schema {
  std::string name;
  std::vector<Argument> arguments;
  std::vector<std::string> returns;  // names of the outputs
};

// Throws pto::Error with the column and what was expected there.
Schema parse_schema(std::string_view text);

// The signature in one spelling; names of outputs are left out, as frameworks have no use for them.
std::string text(const Schema& schema);

}  // namespace pto
