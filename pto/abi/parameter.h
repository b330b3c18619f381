// SPDX-License-Identifier: Apache-2.0
// Parameters: kernels describe their parameters, and callers their scalars, as plain C.
//
//     const pto_parameter parameters[] = {{1, 0, 2, 32}, {0, 0, 0, 64}};   // (float*, int64_t)
//     const pto_signature signature = {"scale", parameters, 2};
//     pto_export_kernel(scale, &signature);                                // PTO_KERNEL does
//
// Thread safety: pto_export_kernel may be called from any thread.
#pragma once
#include "pto/abi/host.h"

#ifdef __cplusplus
extern "C" {
#endif

// The meaning of a scalar's 64 bits. Callers keep it beside them until the kernel's parameter is
// known.
enum {
  PTO_NUMBER_ANY,       // the kernel decides; nothing is compared
  PTO_NUMBER_SIGNED,    // an int64
  PTO_NUMBER_UNSIGNED,  // a uint64
  PTO_NUMBER_REAL,      // a double; a kernel that takes bits gets those of a float32
  PTO_NUMBER_FLOAT64,   // a double; a kernel that takes bits gets its own
  PTO_NUMBER_BITS       // an integer, or the bits of a float32 (upper half 0) or a float64
};

// A parameter of a typed kernel (isa/kernel/launch.hpp). Codes and bits are DLPack's.
enum { PTO_TYPE_ANY = 255 };  // a type code: void, or an element type without a code
typedef struct pto_parameter {
  uint8_t is_pointer, is_const, type_code, type_bits;
} pto_parameter;
typedef struct pto_signature {
  const char* name;
  const pto_parameter* parameters;
  int32_t n_parameters;
} pto_signature;

// Registers the parameters of a kernel, so that callers can compare scalars before it runs. A null
// signature removes the kernel, whose code is about to go.
void pto_export_kernel(pto_kernel kernel, const pto_signature* signature);

#ifdef __cplusplus
}
#endif
