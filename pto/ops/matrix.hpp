// SPDX-License-Identifier: Apache-2.0
// StridedMatrix: a matrix of any layout, as kernels of products hand it to libpto.
//
//     const StridedMatrix<const float> a = {data, row_stride, col_stride};   // in elements
//     job.a = job_matrix(a);                                                 // a pto_matmul_job
//
// Thread safety: values and pure functions.
#pragma once
#include <cstdint>
#include <type_traits>

#include "pto/isa/cpu/matmul_job.hpp"
#include "pto/pto-inst.hpp"

namespace pto {

// The type in which sums of floats run.
template <class T>
using SumOf = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <class T>
constexpr int kMatmulType = std::is_same_v<T, half>         ? PTO_MATMUL_F16
                            : std::is_same_v<T, bfloat16_t> ? PTO_MATMUL_BF16
                            : std::is_same_v<T, double>     ? PTO_MATMUL_F64
                            : std::is_same_v<T, int8_t>     ? PTO_MATMUL_I8
                            : std::is_same_v<T, uint8_t>    ? PTO_MATMUL_U8
                            : !std::is_integral_v<T>        ? PTO_MATMUL_F32
                            : sizeof(T) == 8                ? PTO_MATMUL_I64
                                                            : PTO_MATMUL_I32;

template <class T>
struct StridedMatrix {
  T* data = nullptr;
  int64_t row_stride = 0, col_stride = 0;
  T* at(int64_t row, int64_t col) const { return data + row * row_stride + col * col_stride; }
};

template <class T>
pto_matmul_matrix job_matrix(T* data, int64_t row_stride, int64_t col_stride) {
  return pto_matmul_plain(data, kMatmulType<std::remove_const_t<T>>, row_stride, col_stride);
}
template <class T>
pto_matmul_matrix job_matrix(const StridedMatrix<T>& m) {
  return job_matrix(m.data, m.row_stride, m.col_stride);
}

}  // namespace pto
