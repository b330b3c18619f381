/* SPDX-License-Identifier: Apache-2.0
 * Runs three functions of one package on a matrix and prints their results: a jitted function, an
 * operator that is composed of operations, an operator whose kernel is written in C++. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pto/abi/package.h"

enum { ROWS = 2, COLUMNS = 3, MOST_RESULTS = 2 };

static pto_tensor f32(void* data, const int64_t* sizes, int32_t rank) {
  pto_tensor one;
  memset(&one, 0, sizeof one);
  one.data = data;
  one.sizes = sizes;
  one.rank = rank;
  one.type_code = 2; /* of DLPack: float */
  one.type_bits = 32;
  one.type_lanes = 1;
  return one;
}

static uint64_t number(double value) { /* a scalar of a call has the bits of its value */
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

/* Calls a function of the package with a matrix and these scalars; returns 0 if it ran. */
static int call(const char* path, const char* name, const uint64_t* scalars, int32_t n_scalars) {
  static const int64_t kSizes[] = {ROWS, COLUMNS};
  float x[ROWS * COLUMNS] = {1, 2, 3, 4, 5, 6};
  pto_tensor tensors[1 + MOST_RESULTS] = {f32(x, kSizes, 2)};
  pto_args args;
  memset(&args, 0, sizeof args);
  args.abi_version = PTO_ABI_VERSION;
  args.tensors = tensors;
  args.n_tensors = 1;
  args.scalars = scalars;
  args.n_scalars = n_scalars;

  pto_program* program = pto_program_open_function(path, name);
  if (program == NULL) return 1;
  pto_result results[MOST_RESULTS];
  const int32_t count = pto_program_results(program, &args, results, MOST_RESULTS);
  for (int32_t i = 0; i < count; ++i)
    tensors[args.n_tensors++] = f32(malloc((size_t)results[i].bytes), results[i].sizes,
                                    results[i].rank);
  const int failed = count < 0 || pto_program_run(program, &args) != 0;
  printf("%s", name);
  for (int32_t i = 0; i < count; ++i) {
    const float* values = tensors[1 + i].data;
    for (int64_t k = 0; !failed && k < results[i].bytes / 4; ++k) printf(" %.9g", values[k]);
    free(tensors[1 + i].data);
  }
  printf("\n");
  pto_program_close(program);
  return failed;
}

int main(int argc, char** argv) {
  const uint64_t eps[] = {number(0.5)};
  const uint64_t alpha_negate[] = {number(3), 0}, alpha_more_negate[] = {number(1.5), 0, 0};
  const char* path = argv[argc - 1];
  if (call(path, "normal", eps, 1) || call(path, "library_scaled", alpha_negate, 2) ||
      call(path, "library_shifted", alpha_more_negate, 3)) {
    fprintf(stderr, "%s\n", pto_last_error());
    return 1;
  }
  return 0;
}
