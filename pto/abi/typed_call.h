// SPDX-License-Identifier: Apache-2.0
// Typed calls as plain C: the arguments as the caller wrote them, and the call.
//
//     pto_call(&signature, kernel, 24, stream, arguments, 4);   // EXEC_KERNEL_CMD ends here
//
// Invariant: only POD crosses this header; nothing is kept after the call but what a stream needs.
// Thread safety: every function may be called from any thread.
#pragma once

#include "pto/abi/parameter.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  PTO_ARGUMENT_POINTER,
  PTO_ARGUMENT_TENSOR,
  PTO_ARGUMENT_SIGNED,
  PTO_ARGUMENT_UNSIGNED,
  PTO_ARGUMENT_FLOAT
};

// An argument as the caller wrote it.
typedef struct pto_argument {
  uint8_t kind;
  uint8_t is_const;                              // a pointer to const
  uint8_t type_code, type_bits;  // the element type, or the number's; PTO_TYPE_ANY: unknown
  uint8_t is_defined, is_contiguous, is_on_cpu;  // for tensors
  void* data;
  int64_t bytes;
  const int64_t *sizes, *strides;
  int32_t rank;
  int32_t device;      // a tensor's device with streams; else -1
  const void* object;  // the tensor
  int64_t integer;     // a number; unsigned ones by their bits
  double real;
} pto_argument;

// Checks the arguments against the signature and launches. `stream` may be null.
int32_t pto_call(const pto_signature* signature, pto_kernel kernel, int64_t blocks,
                 const void* stream, const pto_argument* arguments, int32_t n_arguments);

// Checks a kernel's arguments against its signature; calls services->fail() and returns non-zero.
int32_t pto_check_arguments(const pto_signature* signature, const pto_args* args);

// A host that runs an operator describes the plain pointers its code passes: bytes from the pointer
// to the end of its memory, or -1. Scopes of a thread nest, and end in order.
typedef struct pto_pointer_scope {
  int64_t (*bytes_from)(void* context, const void* pointer);
  void* context;
  struct pto_pointer_scope* outer;  // set by pto_enter_pointers
} pto_pointer_scope;
void pto_enter_pointers(pto_pointer_scope* scope);
void pto_leave_pointers(const pto_pointer_scope* scope);

// Throws std::runtime_error(pto_last_error()), for callers in C++.
__attribute__((noreturn)) void pto_throw_last_error(void);

#ifdef __cplusplus
}
#endif
