// SPDX-License-Identifier: Apache-2.0
// Element types: calls a function with the type of a tensor's elements, for what programs ask of
// libpto.
//
//     with_type(x, [&](auto* elements) { elements[0] = {}; });
//
// Thread safety: pure functions.
#pragma once
#include "pto/abi/host.h"
#include "pto/isa/cpu/matmul_job.hpp"
#include "pto/isa/element/narrow_float.hpp"

namespace pto {

using isa::bfloat16_t;
using isa::half;

enum { kInt = 0, kUnsigned = 1, kFloat = 2, kBfloat = 4 };  // DLPack's

// The type by which libpto's loops read the elements; arithmetic that wraps needs no sign.
inline int matmul_type(const pto_tensor& x) {
  const bool is_signed = x.type_code == kInt;
  if (x.type_code == kBfloat) return PTO_MATMUL_BF16;
  if (x.type_code == kFloat)
    return x.type_bits == 16 ? PTO_MATMUL_F16 : x.type_bits == 32 ? PTO_MATMUL_F32 : PTO_MATMUL_F64;
  switch (x.type_bits) {
    case 8:
      return is_signed ? PTO_MATMUL_I8 : PTO_MATMUL_U8;
    case 16:
      return PTO_MATMUL_I16;
    case 32:
      return PTO_MATMUL_I32;
    default:
      return PTO_MATMUL_I64;
  }
}

// Calls f with a pointer to the elements; bool counts as u8.
template <class F>
void with_type(const pto_tensor& x, const F& f) {
  const bool is_signed = x.type_code == kInt;
  void* const p = x.data;
  if (x.type_code == kBfloat) return f(static_cast<bfloat16_t*>(p));
  if (x.type_code == kFloat && x.type_bits == 16) return f(static_cast<half*>(p));
  if (x.type_code == kFloat && x.type_bits == 32) return f(static_cast<float*>(p));
  if (x.type_code == kFloat) return f(static_cast<double*>(p));
  if (x.type_bits == 8) return is_signed ? f(static_cast<int8_t*>(p)) : f(static_cast<uint8_t*>(p));
  if (x.type_bits == 16)
    return is_signed ? f(static_cast<int16_t*>(p)) : f(static_cast<uint16_t*>(p));
  if (x.type_bits == 32)
    return is_signed ? f(static_cast<int32_t*>(p)) : f(static_cast<uint32_t*>(p));
  return is_signed ? f(static_cast<int64_t*>(p)) : f(static_cast<uint64_t*>(p));
}

}  // namespace pto
