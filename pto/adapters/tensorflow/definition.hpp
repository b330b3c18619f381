// SPDX-License-Identifier: Apache-2.0
// Definition: describes an operator of the registry as TensorFlow does, by an OpDef.
//
//     tensorflow::OpDef definition = definition_of(*pto_operator_at(index));
//
// A real attribute is text ("1e-05"): TensorFlow's own float attributes have 32 bits, and an f64
// kernel needs 64. An optional attribute has a companion that says whether it is given.
// Invariant: attributes stand in this order: types, counts, those of the schema, tensors.
// Thread safety: pure functions.
#pragma once

#include <array>
#include <charconv>
#include <string>

#include "pto/adapters/tensorflow/dtypes.hpp"
#include "pto/adapters/tensorflow/names.hpp"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/op_def.pb.h"

namespace pto::tensorflow_adapter {

// Prints a real as text that reads back as the same bits.
inline std::string real_text(double value) {
  std::array<char, 32> text;
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

class Definition {
 public:
  explicit Definition(const pto_operator& op) : op_(op) {
    definition_.set_name(operator_name(op));
    definition_.set_summary(op.document ? op.document : "");
    add_types();
    add_counts();
    for (int i = 0; i < op.n_arguments; ++i) {
      if (is_tensor(op.arguments[i])) {
        add_input(i);
      } else {
        add_attribute(i);
      }
    }
    for (int i = 0; i < op.n_outputs; ++i) add_output(i);
    std::string tensors;  // "x y[] -> result0"
    const auto add = [&](const auto& args) {
      for (const auto& arg : args)
        tensors += arg.name() + (arg.number_attr().empty() ? " " : "[] ");
    };
    add(definition_.input_arg()), tensors += "-> ", add(definition_.output_arg());
    attribute(kTensorsName, "string").mutable_default_value()->set_s(tensors);
  }

  const tensorflow::OpDef& get() const { return definition_; }

 private:
  using Attribute = tensorflow::OpDef::AttrDef;

  Attribute& attribute(const std::string& name, const char* type) {
    Attribute& added = *definition_.add_attr();
    added.set_name(name);
    added.set_type(type);
    return added;
  }

  void add_types() {
    for (int variable = 0; variable < op_.n_types; ++variable) {
      Attribute& type = attribute(type_name(variable), "type");
      for (int dtype = 0; dtype < kDTypes; ++dtype) {
        if (op_.types[variable] >> dtype & 1) {
          type.mutable_allowed_values()->mutable_list()->add_type(theirs(dtype));
        }
      }
    }
  }

  void add_counts() {
    const auto add = [this](const std::string& name) {
      Attribute& count = attribute(name, "int");
      count.set_has_minimum(true);
      count.set_minimum(0);
    };
    for (int i = 0; i < op_.n_arguments; ++i) {
      if (is_list(op_.arguments[i])) add(count_name(i));
    }
    for (int i = 0; i < op_.n_outputs; ++i) {
      if (op_.outputs[i].is_list) add(output_count_name(i));
    }
  }

  void add_input(int i) {
    tensorflow::OpDef::ArgDef& input = *definition_.add_input_arg();
    input.set_name(argument_name(op_, i));
    input.set_type_attr(type_name(op_.arguments[i].type));
    if (is_list(op_.arguments[i])) input.set_number_attr(count_name(i));
  }

  void add_output(int i) {
    const pto_operator_output& from = op_.outputs[i];
    tensorflow::OpDef::ArgDef& output = *definition_.add_output_arg();
    output.set_name("result" + std::to_string(i));
    if (from.type >= 0) {
      output.set_type_attr(type_name(from.type));
    } else {
      output.set_type(theirs(-1 - from.type));
    }
    if (from.is_list) output.set_number_attr(output_count_name(i));
  }

  void add_attribute(int i) {
    const pto_operator_argument& argument = op_.arguments[i];
    const pto_operator_value* value = argument.default_value;
    Attribute& added = attribute(argument_name(op_, i), type_of(argument.kind));
    if (is_optional(argument) || value) {
      set(*added.mutable_default_value(), argument.kind,
          value && value->count != -1 ? value : nullptr);
    }
    if (!is_optional(argument)) return;
    Attribute& given = attribute(given_name(i), "bool");
    given.mutable_default_value()->set_b(value != nullptr && value->count != -1);
  }

  static const char* type_of(int32_t kind) {
    switch (kind) {
      case PTO_KIND_BOOL:
        return "bool";
      case PTO_KIND_FLOAT:
      case PTO_KIND_STRING:
        return "string";
      case PTO_KIND_INT_LIST:
        return "list(int)";
      default:
        return "int";
    }
  }

  // Null: any value; nobody reads it.
  static void set(tensorflow::AttrValue& target, int32_t kind, const pto_operator_value* value) {
    switch (kind) {
      case PTO_KIND_BOOL:
        target.set_b(value && value->integer != 0);
        break;
      case PTO_KIND_FLOAT:
        target.set_s(real_text(value ? value->real : 0));
        break;
      case PTO_KIND_STRING:
        target.set_s(value ? std::string(value->text, static_cast<size_t>(value->count)) : "");
        break;
      case PTO_KIND_INT_LIST:
        target.mutable_list();
        for (int64_t i = 0; value && i < value->count; ++i) {
          target.mutable_list()->add_i(value->integers[i]);
        }
        break;
      default:
        target.set_i(value ? value->integer : 0);
    }
  }

  const pto_operator& op_;
  tensorflow::OpDef definition_;
};

inline tensorflow::OpDef definition_of(const pto_operator& op) { return Definition(op).get(); }

}  // namespace pto::tensorflow_adapter
