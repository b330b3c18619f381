// SPDX-License-Identifier: Apache-2.0
// Guids: kernels by name, for operators that describe themselves instead of having a schema here
// (compat/hpu_custom_op.h).
//
//     int32_t twice(const pto_args* args);                  // see operators/kernel_arguments.hpp
//     PTO_GUID("twice_f32", twice, PTO_GUID_SPLITS)         // registers when the library loads
//
// A call names a guid. It gets the kernel of that name, else that of guid_DTYPE, where DTYPE is
// "f32" or the like of the first tensor. The call looks the name up, so the kernel may be
// registered after the operator that names it.
//
// Invariant: only POD crosses this header; strings are copied. A kernel stays registered, so its
// code must stay loaded. A name that was registered twice belongs to no kernel.
// Thread safety: every function may be called from any thread.
#pragma once
#include "pto/abi/parameter.h"
#include "pto/abi/operator.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  PTO_GUID_TAKES_STRIDES = 1,  // without it, tensors with gaps are copied
  PTO_GUID_SPLITS = 2,         // block b of n takes its share of the items; else there is one block
  PTO_GUID_IN_PLACE = 4        // may write over an input of the same memory, sizes and strides
};

// Returns 0, or non-zero for a null kernel and for a name that is empty or taken: see
// pto_operator_error().
int32_t pto_guid_register(const char* name, pto_kernel kernel, uint32_t flags);

// A call: inputs, then outputs. A tensor whose `sizes` is null is an absent optional. Scalars: int
// and bool as int64, floating point as the bits of a double.
typedef struct pto_guid_call {
  const char* guid;
  const char* caller;  // the operator that errors name
  const pto_tensor_ref* tensors;
  int32_t n_inputs, n_tensors;
  const uint64_t* scalars;
  int32_t n_scalars;
  const void* params;
  int64_t params_bytes;
  const uint8_t* scalar_kinds;  // PTO_NUMBER_..., checked against the kernel's; null: any
} pto_guid_call;

// Returns 0 when there is a kernel for the call; else non-zero, see pto_operator_error().
int32_t pto_guid_check(const pto_guid_call* call);

// Runs the call to its end. Returns 0, or non-zero: see pto_operator_error().
int32_t pto_guid_run(const pto_guid_call* call);

#ifdef __cplusplus
}
#endif

#define PTO_GUID_JOINED(a, b) a##b
#define PTO_GUID_NAMED(line, name, kernel, flags)                          \
  [[maybe_unused]] static const int32_t PTO_GUID_JOINED(pto_guid_, line) = \
      pto_guid_register(name, kernel, flags);

// Registers when the shared object loads; an error shows at the first use of the name.
#define PTO_GUID(name, kernel, flags) PTO_GUID_NAMED(__COUNTER__, name, kernel, flags)
