// SPDX-License-Identifier: Apache-2.0
// Runs of memory at equal distances, such as the rows of a matrix that a later statement reads.
//
//     const pto_runs rows = {data, 2048, 512, 128};   // 128 rows of 512 bytes, 2048 apart
//
// Thread safety: plain data.
#pragma once
#include <stdint.h>

typedef struct pto_runs {
  const void* data;         // null: none
  int64_t distance, bytes;  // from one run to the next, and of a run
  int64_t count;            // of runs
} pto_runs;
