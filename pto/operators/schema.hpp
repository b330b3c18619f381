// SPDX-License-Identifier: Apache-2.0
// Schema: the signature of an operator, in the grammar of ATen's schemas.
//
//     Schema s = parse_schema("gelu(Tensor x, *, str approximate='none') -> Tensor");
//     s.arguments[1].name == "approximate";   // text(s) is the same text
//
// Types: Tensor, Tensor[], Tensor(a!), int, SymInt, float, Scalar, bool, str, int[], int[2]; a `?`
// after one allows None. All but tensors may have a default; int[2] also takes one number for both.
// An operator returns Tensor, Tensor[] or Tensor(a!), or nothing as (); each may have a name, and a
// single unnamed one is called "result". An operator's name may have a namespace: "a::b".
// Invariant: parse_schema(text(s)) equals s, except for names of outputs.
// Thread safety: plain values, pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "pto/abi/operator.h"

namespace pto {

// The value of an attribute; std::monostate is None.
using AttributeValue =
    std::variant<std::monostate, int64_t, double, bool, std::string, std::vector<int64_t>>;

enum class ArgumentKind : int32_t {
  Tensor = PTO_KIND_TENSOR,
  TensorList = PTO_KIND_TENSOR_LIST,
  Int = PTO_KIND_INT,
  SymInt = PTO_KIND_SYMINT,
  Float = PTO_KIND_FLOAT,
  Bool = PTO_KIND_BOOL,
  String = PTO_KIND_STRING,
  IntList = PTO_KIND_INT_LIST
};

struct Argument {
  std::string name;
  ArgumentKind kind = ArgumentKind::Tensor;
  bool is_optional = false;
  bool is_scalar = false;  // written "Scalar"
  bool is_keyword_only = false;
  int list_size = 0;       // of int[2]
  std::string alias = {};  // "a" of Tensor(a!)
  std::optional<AttributeValue> default_value = {};
};
bool is_tensor(const Argument& argument);  // or a list of them

struct Return {
  std::string name;
  bool is_list = false;
  std::string alias = {};  // of the argument that is returned
};

struct Schema {
  std::string name;
  std::vector<Argument> arguments;
  std::vector<Return> returns;
};

// Throws pto::Error with the column and what was expected there.
Schema parse_schema(std::string_view text);

// Reads one argument: "Tensor(a!) out", "int n=1".
Argument parse_argument(std::string_view text);

// Prints the signature in one spelling. Frameworks have no use for names of outputs.
std::string text(const Schema& schema, bool names_outputs = false);

// Returns the names in a list: "x, y".
std::vector<std::string_view> names_in(std::string_view list);

// Makes the schema of NAME_, which replaces the elements of NAME's first argument.
Schema inplace_schema(const Schema& of);

// Makes the schema of NAME_backward, as abi/operator.h describes it: the gradients of the outputs
// with these places, what is saved, the attributes, `needs`. The results are d_NAME.
Schema gradient_schema(const Schema& of, const std::vector<int32_t>& differentiable,
                       const std::vector<int32_t>& saved, const std::vector<int32_t>& wanted);

// Prints "int[2]?", as a schema spells the type of an argument.
std::string type_text(const Argument& argument);

// Prints the value as a schema spells it.
std::string text(const AttributeValue& value);

}  // namespace pto
