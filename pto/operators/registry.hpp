// SPDX-License-Identifier: Apache-2.0
// Registry: defines operators and finds their kernels and shapes; abi/operator.h is its C face.
//
//     int gelu = define_operator({.schema = "gelu(Tensor x) -> Tensor"});
//     set_providers({compile_from_trace, infer_from_trace});   // once; pto/bindings does
//     pto_operator_run(&call);                                 // asks a provider only at a miss
//
// A kernel is found by the tensors' signature and by the attributes on which it may depend: int,
// bool, str, int lists, and which tensors were given. SymInt and float attributes are numbers of
// the call: a float is a scalar, a SymInt the size of one more input (bool, rank 1, no memory)
// after the tensors.
// Invariant: operators are only added. Providers run without any lock of the registry, so they may
// define operators and wait for locks of their caller.
// Thread safety: any thread may call every function.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "pto/abi/operator.h"
#include "pto/base/dims.hpp"
#include "pto/launch/kernel_table.hpp"
#include "pto/launch/program.hpp"
#include "pto/launch/signature.hpp"
#include "pto/operators/schema.hpp"
#include "pto/operators/type_rule.hpp"

namespace pto {

// A request to a provider. Attributes stand in schema order; SymInt and float ones are 0, or None
// if not given.
struct KernelRequest {
  int op;
  const Signature& signature;
  std::span<const AttributeValue> attributes;
  std::span<const int32_t> counts;  // of each tensor argument: how many of its tensors are given
};

struct TensorKind {
  DType dtype;
  int rank;
};
struct ShapeRequest {
  int op;
  std::span<const TensorKind> tensors;  // the given ones
  std::span<const AttributeValue> attributes;
  std::span<const int32_t> counts;
};

// Sizes of outputs over the symbols of pto_shapes.
struct InferredShapes {
  struct Tensor {
    DType dtype;
    Dims sizes;
  };
  std::vector<Tensor> tensors = {};
  std::vector<int32_t> counts = {};  // of each output; empty: one tensor each
  std::vector<SizeGuard> guards = {};
  Dim items = 1, bytes = 0;  // the work of a hand-written kernel
};

// Both throw on failure. The program's inputs are the given tensors and SymInt attributes; its
// scalars are the float attributes.
struct Providers {
  std::function<std::shared_ptr<const Program>(const KernelRequest&)> kernel = {};
  std::function<InferredShapes(const ShapeRequest&)> shapes = {};
};

struct OperatorDefinition {
  std::string schema = {};
  std::string types = {};  // type_rule.hpp
  std::string document = {};
  // The gradient operator: defined with this one, under the next index, and perhaps with a gradient
  // of its own; or the name of a defined one. `saved` is what it gets, `wanted` what it returns, as
  // in abi/operator.h.
  std::shared_ptr<const OperatorDefinition> gradient = {};
  std::string gradient_name = {};
  std::vector<int32_t> saved = {}, wanted = {};
  // Providers of a hand-written operator; empty ones mean those of set_providers(). Its kernels
  // take all attributes as scalars and params (abi/define_operator.h).
  Providers native = {};
  bool takes_strides = false;
  std::string bounded = {};  // "values, indices": outputs of a hand-written operator
  int32_t autocast = PTO_AUTOCAST_WIDEST;
  // The arguments of a weight and of its packed copy, and the operator that makes it; or nothing.
  std::vector<std::string> packing = {};
};

// Adds an operator and the gradient operators defined with it; returns the index. Throws pto::Error
// for texts that do not parse or do not fit each other, a taken name, no tensor, or too many
// arguments.
int define_operator(const OperatorDefinition& definition);

// Forgets the kernels and shapes of an operator whose definition in Python was replaced by one with
// the same schema: the next call asks its providers anew. Calls under way end with what they have.
void renew_operator(int index);

// Lets another operator have the name of this one, which goes on for who holds its index or
// pto_operator. No framework may have been told of it: its plain name is private from then on.
void free_operator_name(int index);

void set_providers(Providers providers);

std::shared_ptr<const Program> make_kernel(const KernelRequest& request);
InferredShapes infer_shapes(const ShapeRequest& request);

}  // namespace pto
