// SPDX-License-Identifier: Apache-2.0
// OperatorRecord: one operator with everything that its plain-C record points to.
//
// Invariant: it is complete when the registry shows it, and stays where it is.
// Thread safety: immutable then, but for `state`, whose parts say so themselves.
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

  // Throws pto::Error: texts that do not parse or fit each other, limits.
  OperatorRecord(std::string_view schema_text, std::string_view types_text);
  OperatorRecord(const OperatorRecord&) = delete;
  OperatorRecord& operator=(const OperatorRecord&) = delete;

  void set_document(std::string text);

  // Marks the outputs that the text names as bounded. Throws pto::Error where they cannot be.
  void set_bounded(std::string_view names);

  // Throws pto::Error where the gradient operator's schema is not the one that abi/operator.h asks
  // for.
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

// The value as it crosses abi/operator.h; what it points to belongs to `value`.
pto_operator_value plain_value(const AttributeValue& value);

}  // namespace pto
