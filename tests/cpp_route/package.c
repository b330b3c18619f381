/* SPDX-License-Identifier: Apache-2.0
 * Runs the package of `program` of tests/package_cases.py: sizes of the results, then the call, on
 * two threads at once; prints what comes out as hexadecimal numbers. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pto/abi/package.h"

enum { ROWS = 3, COLUMNS = 4 };

static const int64_t kMatrix[] = {ROWS, COLUMNS}, kVector[] = {ROWS};

static pto_tensor tensor(void* data, const int64_t* sizes, int32_t rank, uint8_t code,
                         uint8_t bits) {
  pto_tensor one;
  memset(&one, 0, sizeof one);
  one.data = data;
  one.sizes = sizes;
  one.rank = rank;
  one.type_code = code;
  one.type_bits = bits;
  one.type_lanes = 1;
  return one;
}

static void* run(void* opened) {
  const pto_program* program = opened;
  float x[ROWS * COLUMNS], out[ROWS] = {1, 2, 3};
  int64_t lengths[ROWS] = {4, 1, 3};
  for (int i = 0; i < ROWS * COLUMNS; ++i) x[i] = (float)i / 7;

  pto_tensor tensors[5] = {tensor(x, kMatrix, 2, 2, 32), tensor(lengths, kVector, 1, 0, 64),
                           tensor(out, kVector, 1, 2, 32)};
  const double factor = 0.25;
  uint64_t scalars[1];
  memcpy(scalars, &factor, sizeof factor);
  pto_args args;
  memset(&args, 0, sizeof args);
  args.abi_version = PTO_ABI_VERSION;
  args.tensors = tensors;
  args.n_tensors = 3;
  args.scalars = scalars;
  args.n_scalars = 1;

  pto_result results[2];
  char* text = calloc(1, 4096);
  if (pto_program_results(program, &args, results, 2) != 2) return text;
  for (int i = 0; i < 2; ++i)
    tensors[3 + i] = tensor(malloc((size_t)results[i].bytes), results[i].sizes, results[i].rank,
                            results[i].type_code, results[i].type_bits);
  args.n_tensors = 5;
  if (pto_program_run(program, &args) != 0) return text;
  int length = 0;
  for (int t = 2; t < 5; ++t) {
    int64_t count = 1;
    for (int axis = 0; axis < tensors[t].rank; ++axis) count *= tensors[t].sizes[axis];
    for (int64_t i = 0; i < count; ++i)
      length += sprintf(text + length, "%a ", (double)((float*)tensors[t].data)[i]);
  }
  free(tensors[3].data);
  free(tensors[4].data);
  return text;
}

int main(int argc, char** argv) {
  pto_program* program = pto_program_open(argc > 1 ? argv[1] : "");
  if (program == NULL) {
    fprintf(stderr, "%s\n", pto_last_error());
    return 1;
  }
  pthread_t threads[2];
  void* texts[2];
  for (int i = 0; i < 2; ++i) pthread_create(&threads[i], NULL, run, program);
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], &texts[i]);
  for (int i = 0; i < 2; ++i) {
    printf("%s\n", (char*)texts[i]);
    free(texts[i]);
  }
  printf("%s\n", pto_program_describe(program));

  pto_args nothing;
  memset(&nothing, 0, sizeof nothing);
  nothing.abi_version = PTO_ABI_VERSION;
  if (pto_program_run(program, &nothing) != 0) fprintf(stderr, "%s\n", pto_last_error());
  pto_program_close(program);
  return 0;
}
