// SPDX-License-Identifier: Apache-2.0
// Registry: where operators are defined, and how their kernels are found; operator.h is its C face.
//
//     int gelu = define_operator({.schema = "gelu(Tensor x) -> Tensor"});
//     set_kernel_provider(compile_from_trace);      // once, by who can trace and compile
//     pto_operator_run(&call);                      // asks the provider at a miss only
//
// A kernel is found by the tensors' signature and the attributes on which the graph depends: int,
// bool and str, and which optional tensors were given. Float attributes are run-time scalars.
//
// Invariants: operators are only added. The provider runs without any lock of the registry held,
// so it may define operators and wait for locks of its caller.
// Thread safety: every function may be called from any thread.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "pto/op/operator.h"
#include "pto/op/schema.hpp"
#include "pto/runtime/kernel_table.hpp"
#include "pto/runtime/program.hpp"
#include "pto/runtime/signature.hpp"

namespace pto {

struct OperatorDefinition {
  std::string schema = {};
  // The gradient operator's schema, empty where there is none, and what it is given (operator.h).
  std::string gradient_schema = {};
  std::vector<int32_t> saved = {}, wanted = {};
};

// Adds an operator, and its gradient operator, whose index is one higher. Returns the index. Throws
// pto::Error: a schema that does not parse, a name that is taken, no tensor, too many arguments.
int define_operator(const OperatorDefinition& definition);

// The parsed schema of an operator.
const Schema& operator_schema(int index);

// Where an operator's kernels are kept: its owner in the kernel table, and the last one used.
struct OperatorKernels {
  uint64_t owner = 0;
  LastKernel last;
};
OperatorKernels& operator_kernels(const pto_operator& op);

// Makes the program of an operator for tensors of these classes (absent ones left out) and these
// attributes (floats are placeholders). The program's inputs are the given tensors in order, its
// scalars the float attributes in order. Throws on failure.
struct KernelRequest {
  int op;
  const Signature& signature;
  std::span<const AttributeValue> attributes;
  uint32_t given;  // bit i: tensor argument i was given
};
using KernelProvider = std::shared_ptr<const Program> (*)(const KernelRequest& request);
void set_kernel_provider(KernelProvider provider);

}  // namespace pto
