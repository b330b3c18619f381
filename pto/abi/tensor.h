// SPDX-License-Identifier: Apache-2.0
// Tensor reference: where a tensor lies, as adapters, operators and launches pass it on as plain C.
//
//     pto_tensor_ref x = {data, sizes, NULL, 2, 11};   // row-major, f32
//
// Invariant: it owns nothing; sizes and strides stay valid during the call that takes it.
// Thread safety: plain values.
#pragma once
#include <stdint.h>

typedef struct pto_tensor_ref {
  void* data;
  const int64_t* sizes;
  const int64_t* strides;  // in elements; null: row-major without gaps
  int32_t rank;
  int32_t dtype;  // pto::DType
} pto_tensor_ref;
