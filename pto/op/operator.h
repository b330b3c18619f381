// SPDX-License-Identifier: Apache-2.0
// Operators as plain C: what an adapter of a framework enumerates, and how it calls one.
//
//     for (int32_t i = 0; i < pto_operator_count(); ++i) declare(pto_operator_at(i)->schema);
//     pto_operator_call call = {op, tensors, attributes, allocate, user};
//     if (pto_operator_run(&call) != 0) raise(pto_operator_error());
//
// Invariants: only POD crosses this header. An operator is never removed; its index, its pointer
// and everything that it points to stay valid for the life of the process.
// Thread safety: every function may be called from any thread.
#pragma once
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { PTO_OPERATOR_ABI_VERSION = 1 };

// Kinds of arguments.
enum {
  PTO_ARGUMENT_TENSOR = 0,
  PTO_ARGUMENT_OPTIONAL_TENSOR = 1,
  PTO_ARGUMENT_INT = 2,
  PTO_ARGUMENT_FLOAT = 3,
  PTO_ARGUMENT_BOOL = 4,
  PTO_ARGUMENT_STRING = 5
};

typedef struct pto_argument {
  const char* name;
  int32_t kind;
  int32_t keyword_only;
} pto_argument;

// Source of an input of the gradient operator: >= 0 the argument with this index; < 0 the output
// with index -1 - source.
typedef struct pto_operator {
  uint32_t abi_version;
  int32_t index;        // its place in the registry
  const char* name;     // "gelu"
  const char* schema;   // "gelu(Tensor x, *, str approximate='none') -> Tensor"
  int32_t n_arguments;  // tensors and attributes, in schema order
  int32_t n_tensors;    // how many of them are tensors, given or not
  int32_t n_outputs;
  int32_t gradient;  // index of the gradient operator, or -1: not differentiable
  const pto_argument* arguments;
  // The gradient operator takes one gradient per output, then the saved tensors, then this
  // operator's attributes, then the int `needs`: bit i asks for its output i, which is the gradient
  // of argument wanted[i]; an output not asked for comes back as an empty tensor.
  int32_t n_saved;
  int32_t n_wanted;
  const int32_t* saved;
  const int32_t* wanted;
} pto_operator;

int32_t pto_operator_count(void);
const pto_operator* pto_operator_at(int32_t index);       // null beyond the count
const pto_operator* pto_operator_find(const char* name);  // null where unknown

// A tensor argument; sizes and strides (in elements) stay valid during the call. An optional tensor
// that was not given has rank -1.
typedef struct pto_operator_tensor {
  void* data;
  const int64_t* sizes;
  const int64_t* strides;
  int32_t rank;
  int32_t dtype;  // pto::DType
} pto_operator_tensor;

// An attribute: int and bool in `integer`; a string is not terminated.
typedef struct pto_operator_value {
  union {
    int64_t integer;
    double real;
    const char* text;
  };
  int64_t text_bytes;
} pto_operator_value;

typedef struct pto_operator_call {
  const pto_operator* op;
  const pto_operator_tensor* tensors;    // one per tensor argument
  const pto_operator_value* attributes;  // one per other argument
  // Makes output `output`, row-major and dense, and returns its memory; null makes the call fail.
  // Empty outputs are asked for too; their memory may be anything but null.
  void* (*allocate)(void* user, int32_t output, const int64_t* sizes, int32_t rank, int32_t dtype);
  void* user;
} pto_operator_call;

// Checks the arguments, asks for the outputs, runs. 0, or non-zero and a text. A first call with
// new dtypes, ranks or attributes compiles.
int32_t pto_operator_run(const pto_operator_call* call);

// Why the calling thread's last pto_operator_run failed: what, why and fix.
const char* pto_operator_error(void);

#ifdef __cplusplus
}
#endif
