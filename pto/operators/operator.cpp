// SPDX-License-Identifier: Apache-2.0
#include "pto/operators/operator.hpp"

#include <algorithm>
#include <atomic>
#include <utility>

#include "pto/abi/limits.h"
#include "pto/base/error.hpp"
#include "pto/base/text.hpp"

namespace pto {
namespace {

uint32_t flags_of(const Argument& argument) {
  uint32_t flags = 0;
  if (argument.is_keyword_only) flags |= PTO_ARGUMENT_KEYWORD_ONLY;
  if (argument.is_optional) flags |= PTO_ARGUMENT_OPTIONAL;
  if (!argument.alias.empty()) flags |= PTO_ARGUMENT_MUTABLE;
  if (argument.is_scalar) flags |= PTO_ARGUMENT_SCALAR;
  return flags;
}

bool has_floats(const TypeRule& types, int type) {
  if (type < 0) return is_float(static_cast<DType>(-1 - type));
  for (int d = 0; d < kDTypes; ++d) {
    const bool allowed = types.sets[static_cast<size_t>(type)] >> d & 1;
    if (allowed && is_float(static_cast<DType>(d))) return true;
  }
  return false;
}

std::string types_of(const Schema& schema) {
  return "takes (" +
         joined(schema.arguments, ", ", [](const Argument& a) { return type_text(a); }) +
         ") and returns (" +
         joined(
             schema.returns, ", ",
             [](const Return& one) { return std::string(one.is_list ? "Tensor[]" : "Tensor"); }) +
         ")";
}

}  // namespace

pto_operator_value plain_value(const AttributeValue& value) {
  pto_operator_value plain{};
  if (const auto* i = std::get_if<int64_t>(&value)) plain.integer = *i;
  if (const auto* d = std::get_if<double>(&value)) plain.real = *d;
  if (const auto* b = std::get_if<bool>(&value)) plain.integer = *b;
  if (const auto* s = std::get_if<std::string>(&value)) {
    plain.text = s->data();
    plain.count = static_cast<int64_t>(s->size());
  }
  if (const auto* list = std::get_if<std::vector<int64_t>>(&value)) {
    plain.integers = list->data();
    plain.count = static_cast<int64_t>(list->size());
  }
  if (std::holds_alternative<std::monostate>(value)) plain.count = -1;
  return plain;
}

Operator::Operator(std::string_view schema_text, std::string_view types_text)
    : schema(parse_schema(schema_text)),
      types(parse_types(types_text, schema)),
      schema_text_(text(schema)) {
  check_limits();
  add_arguments();
  add_outputs();
  plain.abi_version = PTO_OPERATOR_ABI_VERSION;
  plain.name = schema.name.c_str();
  plain.schema = schema_text_.c_str();
  plain.document = document_.c_str();
  plain.n_arguments = static_cast<int32_t>(arguments_.size());
  plain.n_outputs = static_cast<int32_t>(outputs_.size());
  plain.n_returns = static_cast<int32_t>(schema.returns.size());
  plain.arguments = arguments_.data();
  plain.outputs = outputs_.data();
  plain.types = types.sets.data();
  plain.n_types = static_cast<int32_t>(types.sets.size());
  plain.gradient = plain.gradient_of = -1;
  plain.weight = plain.packed = plain.packer = -1;
}

void Operator::set_document(std::string text) {
  document_ = std::move(text);
  plain.document = document_.c_str();
}

void Operator::check_limits() const {
  const auto arguments = static_cast<int>(schema.arguments.size());
  const auto tensors = static_cast<int>(types.arguments.size());
  const bool mutates = std::any_of(schema.arguments.begin(), schema.arguments.end(),
                                   [](const Argument& a) { return !a.alias.empty(); });
  if (tensors == 0 || tensors > PTO_MAX_TENSORS || arguments > PTO_MAX_ARGUMENTS) {
    fail({"operator " + schema.name + ": takes " + std::to_string(tensors) + " tensors and " +
              std::to_string(arguments - tensors) + " attributes",
          "an operator takes 1 to " + std::to_string(PTO_MAX_TENSORS) + " tensors and at most " +
              std::to_string(PTO_MAX_ARGUMENTS) + " arguments in all",
          "split the operator or merge its attributes"});
  }
  if (schema.returns.empty() && !mutates) {
    fail({"operator " + schema.name + ": returns nothing and changes no argument",
          "such an operator has no effect", "return a Tensor, or take a Tensor(a!)"});
  }
}

void Operator::add_arguments() {
  size_t tensor = 0;
  for (const Argument& argument : schema.arguments) {
    pto_operator_argument made{argument.name.c_str(),
                               static_cast<int32_t>(argument.kind),
                               flags_of(argument),
                               argument.list_size,
                               -1,
                               nullptr};
    if (is_tensor(argument)) made.type = types.arguments[tensor++];
    if (argument.default_value) made.default_value = stored(*argument.default_value);
    arguments_.push_back(made);
  }
  plain.n_tensors = static_cast<int32_t>(tensor);
}

const pto_operator_value* Operator::stored(const AttributeValue& value) {
  defaults_.push_back(value);
  default_values_.push_back(plain_value(defaults_.back()));
  return &default_values_.back();
}

void Operator::add_outputs() {
  std::vector<bool> returned(schema.arguments.size());
  for (size_t i = 0; i < schema.returns.size(); ++i) {
    const Return& one = schema.returns[i];
    pto_operator_output made{one.name.c_str(), one.is_list, types.outputs[i], -1, 0, 0};
    for (size_t a = 0; a < schema.arguments.size() && !one.alias.empty(); ++a) {
      if (schema.arguments[a].alias != one.alias) continue;
      made.replaces = static_cast<int32_t>(a);
      made.type = arguments_[a].type;
      returned[a] = true;
    }
    made.is_differentiable = made.replaces < 0 && has_floats(types, made.type);
    outputs_.push_back(made);
  }
  for (size_t a = 0; a < schema.arguments.size(); ++a) {
    if (schema.arguments[a].alias.empty() || returned[a]) continue;
    outputs_.push_back({arguments_[a].name, 0, arguments_[a].type, static_cast<int32_t>(a), 0, 0});
  }
}

void Operator::set_bounded(std::string_view names) {
  for (const std::string_view name : names_in(names)) {
    const auto output = std::find_if(outputs_.begin(), outputs_.end(),
                                     [&](const auto& one) { return one.name == name; });
    const bool may_be = is_native && output != outputs_.end() && output->replaces < 0 &&
                        std::none_of(outputs_.begin(), outputs_.end(),
                                     [](const auto& one) { return one.is_list != 0; });
    if (!may_be) {
      fail({"operator " + schema.name + ": " + std::string(name) + " cannot be bounded in " +
                text(schema),
            "what is bounded is an output of an operator with a hand-written kernel and without "
            "lists of results, and replaces no argument",
            "name an output, result where it has no name"});
    }
    output->is_bounded = 1;
    has_bounded = true;
  }
}

void Operator::set_packing(const Operator& packer, std::string_view weight,
                           std::string_view packed) {
  for (int32_t i = 0, tensors = 0; i < plain.n_arguments; ++i) {
    const pto_operator_argument& one = arguments_[static_cast<size_t>(i)];
    if (one.kind != PTO_KIND_TENSOR) continue;
    ++tensors;
    if (one.name == weight) plain.weight = i;
    const bool may_be = (one.flags & PTO_ARGUMENT_OPTIONAL) && tensors == plain.n_tensors;
    if (one.name == packed && may_be) plain.packed = i;
  }
  plain.packer = packer.plain.index;
  if (plain.weight >= 0 && plain.packed >= 0 && packer.plain.n_arguments == 1) return;
  fail({"operator " + schema.name + ": " + std::string(weight) + " cannot be packed as " +
            std::string(packed) + " in " + text(schema),
        "a weight is a Tensor, its packed copy the last tensor argument, a Tensor?, and the "
        "operator that packs takes the weight alone",
        "name two such arguments and such an operator"});
}

void Operator::set_gradient(Operator& gradient, std::vector<int32_t> saved,
                            std::vector<int32_t> wanted) {
  check_gradient(gradient.schema, saved, wanted);
  saved_ = std::move(saved);
  wanted_ = std::move(wanted);
  plain.saved = saved_.data();
  plain.n_saved = static_cast<int32_t>(saved_.size());
  plain.wanted = wanted_.data();
  plain.n_wanted = static_cast<int32_t>(wanted_.size());
  plain.gradient = gradient.plain.index;
  std::atomic_ref(gradient.plain.gradient_of).store(plain.index);  // others may read it already
}

void Operator::check_gradient(const Schema& gradient, const std::vector<int32_t>& saved,
                              const std::vector<int32_t>& wanted) const {
  std::vector<int32_t> differentiable;
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (outputs_[i].is_differentiable) differentiable.push_back(static_cast<int32_t>(i));
  }
  const std::string types = types_of(gradient_schema(schema, differentiable, saved, wanted));
  if (types_of(gradient) == types) return;
  fail({"operator " + schema.name + ": its gradient operator is " + text(gradient) + ", but " +
            types,
        "a gradient operator takes one gradient for each floating-point output, what is saved, the "
        "attributes of " +
            text(schema) + " and the int needs",
        "correct its schema, or what is saved and wanted"});
}

}  // namespace pto
