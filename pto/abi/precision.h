// SPDX-License-Identifier: Apache-2.0
// Precision: the switch of matrix products of f32, one of the process: pto.config.matmul_precision.
//
//     pto_set_matmul_precision("medium");                   // 0
//     const int32_t precision = pto_matmul_precision();     // PTO_MATMUL_MEDIUM
//
// The switch permits parts of bf16 and does not force them: floats are multiplied where that is
// faster.
// Thread safety: any thread; a product that runs meanwhile may take either.
#pragma once
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// All but CHAIN permit parts of bf16 where they are faster: all on AMX, MEDIUM on AVX512_BF16.
// docs/products.md bounds their errors.
enum {
  PTO_MATMUL_CHAIN,    // multiply-adds of floats; no setting of the switch
  PTO_MATMUL_HIGHEST,  // three parts, which are the float
  PTO_MATMUL_HIGH,     // two parts
  PTO_MATMUL_MEDIUM    // one part: the bits of operands that are rounded to bf16
};

// Highest, unless the environment's PTO_MATMUL_PRECISION or a later call names another.
int32_t pto_matmul_precision(void);
const char* pto_matmul_precision_name(int32_t precision);  // highest, high or medium
int32_t pto_matmul_precision_of(const char* name);         // 0 where it is none of the three
// The fewest rows for whose product at this precision b is worth a packed copy, which is larger.
int32_t pto_matmul_packed_rows(void);
// Returns 1, and changes nothing, where the name is none of the three.
int32_t pto_set_matmul_precision(const char* name);

#ifdef __cplusplus
}
#endif
