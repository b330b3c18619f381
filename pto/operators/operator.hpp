// SPDX-License-Identifier: Apache-2.0
// Operator: one operator, and everything that its plain-C form points to.
//
//     operator_at(index).schema.name;      // "gelu"
//     operator_at(index).plain.schema;     // its text; pto_operator_at(index) is &plain
//
// Invariant: an operator is complete before the registry shows it, and never moves.
// Thread safety: immutable from then on, except `kernels_owner` (renew_operator() changes it),
// `last_kernel` and `last_plan`, which any thread may use.
#pragma once

#include <atomic>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "pto/operators/registry.hpp"

namespace pto {

struct GradientPlan;

struct Operator {
  Schema schema;
  TypeRule types;
  Providers native;
  pto_operator plain{};

  // The owner of its kernels in the kernel table, and a part of the keys of its kept shapes. A new
  // definition gets another owner.
  std::atomic<uint64_t> kernels_owner = 0;
  LastKernel last_kernel;
  std::atomic<const GradientPlan*> last_plan = nullptr;
  bool is_native = false;
  bool takes_strides = false;  // of a native one: else its inputs are made dense
  bool has_bounded = false;    // outputs

  // Throws pto::Error for texts that do not parse or do not fit each other, and beyond limits.
  Operator(std::string_view schema_text, std::string_view types_text);
  Operator(const Operator&) = delete;
  Operator& operator=(const Operator&) = delete;

  void set_document(std::string text);

  // Marks the named outputs as bounded. Throws pto::Error if one cannot be.
  void set_bounded(std::string_view names);

  // Says which argument holds a weight, which its packed copy, and who makes that. Throws
  // pto::Error unless they fit abi/operator.h.
  void set_packing(const Operator& packer, std::string_view weight, std::string_view packed);

  // Throws pto::Error unless the gradient operator has the schema that abi/operator.h asks for.
  void set_gradient(Operator& gradient, std::vector<int32_t> saved, std::vector<int32_t> wanted);

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

// Returns a defined operator.
Operator& operator_at(int index);

// Converts the value to the form of abi/operator.h, which points into `value`.
pto_operator_value plain_value(const AttributeValue& value);

}  // namespace pto
