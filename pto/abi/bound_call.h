// SPDX-License-Identifier: Apache-2.0
// Bound calls: a call of a jitted function whose types, sizes, strides and numbers are fixed, to be
// made again on other memory, without Python. It returns new results, or computes all of them in
// arguments.
//
//     const pto_bound_call* call = found;     // in the capsule of Callable.bound_call()
//     void* out = call->allocate(bytes);      // for tensors[n_inputs]
//     if (call->run(call, inputs, &out) != 0) puts(call->error());
//
// Invariant: it holds its code, and none of the memory of the call that it was made from.
// Thread safety: any thread; one call may run on many threads at once.
#pragma once
#include "pto/abi/host.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PTO_BOUND_CALL_NAME "pto.bound_call"

typedef struct pto_bound_call {
  int32_t n_inputs, n_outputs;
  const pto_tensor* tensors;  // inputs, then outputs; their data is null

  // Writes the outputs, which share no memory with each other and with inputs, but for an input
  // whose elements an output becomes. Returns 0, or a non-zero code; then error() has the text.
  int32_t (*run)(const struct pto_bound_call* call, void* const* inputs, void* const* outputs);

  const char* (*error)(void);
  void* (*allocate)(size_t bytes);  // null when memory is exhausted
  void (*free)(void* memory);
  const struct pto_bound_call* (*retain)(const struct pto_bound_call* call);
  void (*release)(const struct pto_bound_call* call);
} pto_bound_call;

#ifdef __cplusplus
}
#endif
