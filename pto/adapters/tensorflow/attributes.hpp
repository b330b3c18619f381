// SPDX-License-Identifier: Apache-2.0
// Attributes: converts the attributes of a TensorFlow node to those of pto_operator_call.
//
//     Attributes attributes;
//     TF_RETURN_IF_ERROR(attributes.read(op, definition, find));  // find(name): AttrValue or null
//     call.attributes = attributes.values();
//
// Invariant: texts and lists live as long as the object, which does not move.
// Thread safety: one thread reads; afterwards the object is constant.
#pragma once

#include <charconv>
#include <deque>
#include <string>
#include <vector>

#include "pto/adapters/tensorflow/names.hpp"
#include "pto/adapters/tensorflow/refusal.hpp"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/op_def.pb.h"

namespace pto::tensorflow_adapter {

class Attributes {
 public:
  Attributes() = default;
  Attributes(const Attributes&) = delete;
  Attributes& operator=(const Attributes&) = delete;

  // `find` looks an attribute up; one that the node leaves out has the definition's default.
  template <class Find>
  absl::Status read(const pto_operator& op, const tensorflow::OpDef& definition, Find find) {
    const auto default_of = [&](const std::string& name) -> const tensorflow::AttrValue* {
      for (const auto& attribute : definition.attr()) {
        if (attribute.name() == name && attribute.has_default_value()) {
          return &attribute.default_value();
        }
      }
      return nullptr;
    };
    const auto value_of = [&](const std::string& name) {
      const tensorflow::AttrValue* found = find(name);
      return found ? found : default_of(name);
    };
    const std::string &given = value_of(kTensorsName)->s(), &own = default_of(kTensorsName)->s();
    if (given != own) return refuse_node(op, "the node has the tensors " + given + ", not " + own);
    for (int i = 0; i < op.n_arguments; ++i) {
      const pto_operator_argument& argument = op.arguments[i];
      if (is_tensor(argument)) {
        if (absl::Status status = take_count(op, i, value_of); !status.ok()) return status;
        continue;
      }
      const tensorflow::AttrValue* value = value_of(argument_name(op, i));
      if (!value) return missing(op, argument_name(op, i));
      const tensorflow::AttrValue* given = nullptr;
      if (is_optional(argument)) {
        given = value_of(given_name(i));
        if (!given) return missing(op, given_name(i));
      }
      if (given && !given->b()) {
        values_.emplace_back().count = -1;
      } else if (absl::Status status = take(op, argument, *value); !status.ok()) {
        return status;
      }
    }
    for (int i = 0; i < op.n_outputs; ++i) {
      const tensorflow::AttrValue* count =
          op.outputs[i].is_list ? value_of(output_count_name(i)) : nullptr;
      has_output_lists_ = has_output_lists_ || op.outputs[i].is_list;
      if (op.outputs[i].is_list && !count) return missing(op, output_count_name(i));
      first_outputs_.push_back(first_outputs_.back() +
                               (count ? static_cast<int32_t>(count->i()) : 1));
    }
    return absl::OkStatus();
  }

  const pto_operator_value* values() const { return values_.data(); }
  const int32_t* counts() const { return counts_.data(); }

  // The counts for a call; null if each is 1. A kernel that runs once in a large graph finds little
  // of this object in the cache, so unneeded fields are not touched.
  const int32_t* counts_of_call() const { return has_lists_ ? counts_.data() : nullptr; }

  // Returns the place of a tensor among the node's outputs, or -1 if it has none.
  int output_place(int32_t output, int32_t member) const {
    if (!has_output_lists_) return output;
    const int32_t* first = &first_outputs_[static_cast<size_t>(output)];
    return first[0] + member < first[1] ? first[0] + member : -1;
  }

 private:
  template <class ValueOf>
  absl::Status take_count(const pto_operator& op, int i, ValueOf value_of) {
    const pto_operator_argument& argument = op.arguments[i];
    if (!is_list(argument)) {
      counts_.push_back(1);
      return absl::OkStatus();
    }
    has_lists_ = true;
    const tensorflow::AttrValue* count = value_of(count_name(i));
    if (!count) return missing(op, count_name(i));
    if (argument.kind == PTO_KIND_TENSOR && count->i() > 1) {
      return refuse(op, std::to_string(count->i()) + " tensors were given for " + argument.name,
                    "the node holds an optional tensor as a list of at most one",
                    "give one tensor or none");
    }
    counts_.push_back(static_cast<int32_t>(count->i()));
    return absl::OkStatus();
  }

  absl::Status take(const pto_operator& op, const pto_operator_argument& argument,
                    const tensorflow::AttrValue& from) {
    pto_operator_value& value = values_.emplace_back();
    switch (argument.kind) {
      case PTO_KIND_BOOL:
        value.integer = from.b();
        break;
      case PTO_KIND_FLOAT:
        return take_real(op, argument, from.s(), value);
      case PTO_KIND_STRING:
        value.text = texts_.emplace_back(from.s()).c_str();
        value.count = static_cast<int64_t>(from.s().size());
        break;
      case PTO_KIND_INT_LIST: {
        const auto& list = from.list().i();
        value.integers = lists_.emplace_back(list.begin(), list.end()).data();
        value.count = list.size();
        break;
      }
      default:
        value.integer = from.i();
    }
    return absl::OkStatus();
  }

  static absl::Status take_real(const pto_operator& op, const pto_operator_argument& argument,
                                const std::string& text, pto_operator_value& value) {
    const char* end = text.data() + text.size();
    if (std::from_chars(text.data(), end, value.real).ptr == end && !text.empty()) {
      return absl::OkStatus();
    }
    return refuse(op, std::string(argument.name) + " is \"" + text + "\"",
                  "the attribute carries a real number of 64 bits as text",
                  "give a number like \"0.5\"");
  }

  static absl::Status missing(const pto_operator& op, const std::string& name) {
    return refuse_node(op, "the node has no attribute " + name);
  }

  bool has_lists_ = false, has_output_lists_ = false;
  std::vector<pto_operator_value> values_;
  std::vector<int32_t> counts_;
  std::vector<int32_t> first_outputs_ = {0};  // and the number of all
  std::deque<std::string> texts_;
  std::deque<std::vector<int64_t>> lists_;
};

}  // namespace pto::tensorflow_adapter
