// SPDX-License-Identifier: Apache-2.0
// define_operator: defines an operator in C or C++, from any shared object that links libpto;
// operators/define.hpp is its C++ face.
//
//     pto_operator_definition relu = {PTO_OPERATOR_ABI_VERSION, "relu(Tensor x) -> Tensor"};
//     relu.infer = infer_relu, relu.kernels = &relu_cpu, relu.n_kernels = 1;
//     if (pto_operator_define(&relu) < 0) std::puts(pto_operator_error());
//
// Invariant: only POD crosses this header; strings are copied.
// Thread safety: every function may be called from any thread; a pto_infer belongs to one call.
#pragma once
#include "pto/abi/host.h"
#include "pto/abi/operator.h"

#ifdef __cplusplus
extern "C" {
#endif

// One call of an operator's `infer`: ranks, dtypes and attributes are known, sizes are symbols. A
// size is a number >= 0 that stands for an expression; -1 stands for an error, and stays -1.
typedef struct pto_infer pto_infer;

int32_t pto_infer_argument(pto_infer*, const char* name);  // its place in the schema
int32_t pto_infer_tensors(pto_infer*);                     // given tensors, also those in lists
int32_t pto_infer_count(pto_infer*, int32_t argument);     // of a tensor argument: see counts
int32_t pto_infer_first(pto_infer*, int32_t argument);     // its first tensor among the given ones
int32_t pto_infer_rank(pto_infer*, int32_t tensor);
int32_t pto_infer_dtype(pto_infer*, int32_t tensor);
int32_t pto_infer_size(pto_infer*, int32_t tensor, int32_t axis);
const pto_operator_value* pto_infer_attribute(pto_infer*, int32_t argument);
int32_t pto_infer_symint(pto_infer*, int32_t argument);  // a SymInt attribute as a size

int32_t pto_infer_constant(pto_infer*, int64_t value);
int32_t pto_infer_dim(pto_infer*, int32_t op, int32_t left, int32_t right);  // PTO_DIM_*
void pto_infer_require_equal(pto_infer*, int32_t left, int32_t right, const char* because);

// Adds the next output tensor.
void pto_infer_output(pto_infer*, int32_t dtype, int32_t rank, const int32_t* sizes);

// Closes a Tensor[] output: the tensors since the last output are its members.
void pto_infer_end_list(pto_infer*);

// States the work: independent items (rows, elements), and bytes read and written. Without it the
// kernel runs as one block.
void pto_infer_work(pto_infer*, int32_t items, int32_t bytes);

// Refuses the arguments with what, why and fix.
void pto_infer_fail(pto_infer*, const char* what, const char* why, const char* fix);

// A kernel gets the tensors of the call in schema order (an absent optional with
// PTO_TENSOR_ABSENT), then the outputs, then an int64 tensor of one element for each bounded
// output. The kernel stores the number of rows there, and writes those rows from the first on.
// Its scalars are the other arguments in schema order (more may follow). A Tensor[] is its length;
// int, SymInt and bool are the number, float the bits of a double. A str, an int[] and any argument
// that may be None are an offset in bytes into params, which holds an int64 count there (-1: None),
// then the characters, int64 numbers or the bits of a double.
// Block b of n computes the items from items * b / n to items * (b + 1) / n.
typedef struct pto_operator_kernel {
  const char* platform;  // "cpu"
  int32_t dtype;         // the first type variable's; -1: any
  pto_kernel function;
} pto_operator_kernel;

enum { PTO_OPERATOR_TAKES_STRIDES = 1 };  // without it the caller makes inputs dense

typedef struct pto_operator_definition {
  uint32_t abi_version;  // PTO_OPERATOR_ABI_VERSION
  const char* schema;
  const char* types;  // see type_rule.hpp; null: all tensors of one floating-point type
  const char* document;
  void (*infer)(pto_infer*, void* user);
  void* user;
  const pto_operator_kernel* kernels;
  int32_t n_kernels;
  uint32_t flags;        // PTO_OPERATOR_*
  const char* gradient;  // the gradient operator's name, already defined, or null
  const char* saved;     // "x, result": the values that the gradient operator gets
  const char* wanted;    // "x, weight": the arguments whose gradients it returns
  const char* bounded;   // "indices": outputs whose first size in `infer` is an upper bound
} pto_operator_definition;

// Adds an operator. Returns its index, or -1: see pto_operator_error().
int32_t pto_operator_define(const pto_operator_definition* definition);

#ifdef __cplusplus
}
#endif
