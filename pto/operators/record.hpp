// SPDX-License-Identifier: Apache-2.0
// OperatorRecord: owns one operator and everything that its plain-C record points to.
//
//     auto made = std::make_unique<OperatorRecord>("gelu(Tensor x) -> Tensor", "");
//     made->record.name;        // "gelu"
//
// Invariant: a record is complete before the registry shows it, and never moves.
// Thread safety: immutable from then on, except `state`, whose parts state their own rules.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "pto/operators/registry.hpp"

namespace pto {

struct OperatorRecord {
  Schema schema;
  TypeRule types;
  Providers native;
  OperatorState state;
  pto_operator record{};

  // Throws pto::Error for texts that do not parse or do not fit each other, and beyond limits.
  OperatorRecord(std::string_view schema_text, std::string_view types_text);
  OperatorRecord(const OperatorRecord&) = delete;
  OperatorRecord& operator=(const OperatorRecord&) = delete;

  void set_document(std::string text);

  // Marks the named outputs as bounded. Throws pto::Error if one cannot be.
  void set_bounded(std::string_view names);

  // Throws pto::Error unless the gradient operator has the schema that abi/operator.h asks for.
  void set_gradient(OperatorRecord& gradient, std::vector<int32_t> saved,
                    std::vector<int32_t> wanted);

 private:
  void check_limits() const;
  void add_arguments();
  void add_outputs();
  const pto_operator_value* stored(const AttributeValue& value);
  void check_gradient(const Schema& gradient, const std::vector<int32_t>& saved,
                      const std::vector<int32_t>& wanted) const;

  std::string schema_text_, document_;
  std::vector<pto_operator_argument> arguments_;
  std::vector<pto_operator_output> outputs_;
  std::deque<AttributeValue> defaults_;
  std::deque<pto_operator_value> default_values_;
  std::vector<int32_t> saved_, wanted_;
};

// Converts the value to the form of abi/operator.h, which points into `value`.
pto_operator_value plain_value(const AttributeValue& value);

}  // namespace pto
