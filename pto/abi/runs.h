// SPDX-License-Identifier: Apache-2.0
// Runs of memory, such as the rows of a matrix that a later statement reads, or the pages of a
// tensor that a table names.
//
//     const pto_runs rows = {data, 2048, 512, 128, 0, 0, 0};   // 128 rows of 512 bytes, 2048 apart
//     pto_run_at(&rows, 3);                                    // the fourth of them
//
// Thread safety: plain data.
#pragma once
#include <stdint.h>

typedef struct pto_runs {
  const void* data;         // null: none
  int64_t distance, bytes;  // from one run to the next, and of a run
  int64_t count;            // of runs
  // The i-th run lies places[i] distances behind `data`; null: i distances.
  const void* places;
  int64_t place_bytes;  // of a number: 4 or 8
  int64_t begin;        // bytes of the first run that do not count
} pto_runs;

static inline const char* pto_run_at(const pto_runs* runs, int64_t i) {
  if (runs->places)
    i = runs->place_bytes == 4 ? ((const int32_t*)runs->places)[i]
                               : ((const int64_t*)runs->places)[i];
  return (const char*)runs->data + i * runs->distance;
}

// A tensor in pages that lie apart: the i-th run belongs at copy + i * bytes, where nothing lies
// yet. Whoever copies them there sets the count to 0.
typedef struct pto_pages {
  void* copy;
  pto_runs runs;
} pto_pages;
