// SPDX-License-Identifier: Apache-2.0
// Schema: the signature of an operator, in the grammar of ATen's schemas.
//
//     Schema s = parse_schema("gelu(Tensor x, *, str approximate='none') -> Tensor");
//     s.arguments[1].name == "approximate";   text(s) is the same text
//
// Types: Tensor, Tensor[], Tensor(a!), int, SymInt, float, Scalar, bool, str, int[], int[2], and
// `?` behind each for one that may be None. All but tensors may have a default; of int[2] also one
// number, which stands for two. Tensor, Tensor[] or Tensor(a!) are returned, none as (), each may
// have a name; an unnamed only result is called "result". The name may stand in a space: "a::b".
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
  std::string alias = {};  // that of the argument which is returned
};

struct Schema {
  std::string name;
  std::vector<Argument> arguments;
  std::vector<Return> returns;
};

// Throws pto::Error with the column and what was expected there.
Schema parse_schema(std::string_view text);

// The signature in one spelling; names of outputs are left out, as frameworks have no use for them.
std::string text(const Schema& schema);

// "int[2]?", as a schema spells the type of an argument.
std::string type_text(const Argument& argument);

// The value as a schema spells it.
std::string text(const AttributeValue& value);

}  // namespace pto
