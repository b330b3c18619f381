// SPDX-License-Identifier: Apache-2.0
// Packed strips: a wide b is packed as strips of its columns, one behind the other, each as the
// loops of libpto read it.
//
//     const int64_t bytes = pto::strips_bytes(job, cols, 1024);   // of strips of 1024 columns
//     pto::set_strip(&job, memory, cols, 1024, 1536);   // the job's columns begin at 1536
//
// The columns of a job that packs or reads lie in one strip, from a multiple of 32 on, to another
// one or to the end of the strip.
// Thread safety: pure functions.
#pragma once
#include "pto/isa/cpu/matmul_job.hpp"

namespace pto {

// Returns the bytes of a strip for the engine, depth and types of a job.
inline int64_t strip_bytes(pto_matmul_job job, int64_t cols) {
  job.cols = static_cast<int32_t>(cols);
  return pto_matmul_packed_bytes(&job);
}

inline int64_t strips_bytes(const pto_matmul_job& job, int64_t cols, int64_t strip) {
  return cols / strip * strip_bytes(job, strip) + strip_bytes(job, cols % strip);
}

// Points a job at the packed columns from `col` on.
inline void set_strip(pto_matmul_job* job, void* packed, int64_t cols, int64_t strip, int64_t col) {
  const int64_t first = col / strip * strip;
  job->packed = static_cast<char*>(packed) + col / strip * strip_bytes(*job, strip);
  job->packed_cols = static_cast<int32_t>(cols - first < strip ? cols - first : strip);
  job->packed_first = static_cast<int32_t>(col - first);
}

}  // namespace pto
