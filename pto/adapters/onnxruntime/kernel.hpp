// SPDX-License-Identifier: Apache-2.0
// NodeKernel: one operator of the registry as a kernel of ONNX Runtime.
//
//     NodeKernel kernel(*pto_operator_find("add"));
//     kernel.inputs = {{{0}}, {{1}}};  // places in the kernel context
//     kernel.compute(context);         // throws pto::Error
//
// Outputs are ONNX Runtime's own memory; loops run on its thread pool. Shapes and element types
// are checked at every call, since ONNX Runtime ignores what a shape function refuses.
// Invariant: immutable once it is built.
// Thread safety: compute() may run on many threads at once.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "pto/adapters/onnxruntime/api.hpp"
#include "pto/adapters/operator.hpp"
#include "pto/base/dtype.hpp"
#include "pto/launch/staging.hpp"

namespace pto::ort {

// Convert element types between ONNX's numbers and ours; -1 if we have none.
int dtype_of(int element);
int element_of(int dtype);

// The attributes of a call, with the texts and integers that they point to.
class AttributeValues {
 public:
  void add(const pto_operator_value& value, int32_t kind);  // copies what it points to
  const pto_operator_value* data() const { return values_.data(); }
  size_t size() const { return values_.size(); }

 private:
  std::vector<pto_operator_value> values_;
  std::deque<std::string> texts_;
  std::deque<std::vector<int64_t>> integers_;
};

// A tensor made from a constant of the model when the session was made.
class Prepared {
 public:
  // Runs an operator with one tensor argument on the constant and keeps its output. Throws
  // pto::Error.
  Prepared(const pto_operator& op, const pto_tensor_ref& constant,
           const pto_operator_value* attributes);
  const pto_tensor_ref& tensor() const { return tensor_; }

 private:
  std::optional<Memory> memory_;
  std::vector<int64_t> sizes_;
  pto_tensor_ref tensor_;
};

// Where a tensor argument is in the kernel context: at these places, for a list followed by all
// further inputs if `takes_rest`; or `prepared` stands for it.
struct Places {
  std::vector<int32_t> places;
  bool takes_rest = false;
  std::unique_ptr<const Prepared> prepared = {};
};

// Describes a tensor of ONNX Runtime's; its dtype is negative if we have none.
pto_tensor_ref tensor_of(const Value* value);

class NodeKernel {
 public:
  explicit NodeKernel(const pto_operator& op) : op(op), site(pto_operator_site_new()) {}

  const pto_operator& op;
  std::vector<Places> inputs;  // of each tensor argument; what is absent there is None
  AttributeValues attributes;
  bool may_lack_inputs = true;   // optional ones, or a list of any length
  std::vector<int32_t> outputs;  // the place of each output, -1 where not wanted; empty: in order

  // Set once a call has found the model's element types of the outputs to be ours; they never
  // change.
  mutable std::atomic<bool> outputs_agree{false};

  const OwnedSite site;

  void compute(KernelContext* context) const;
};

}  // namespace pto::ort
