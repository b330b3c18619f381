// SPDX-License-Identifier: Apache-2.0
// Packages: functions that pto.package() saved, run from C without Python or a compiler.
//
//     pto_program* program = pto_program_open("f.pto");
//     if (program == NULL) fprintf(stderr, "%s\n", pto_last_error());
//     if (pto_program_run(program, &args) != 0) fprintf(stderr, "%s\n", pto_last_error());
//     pto_program_close(program);
//
// `args` has the function's tensors in the order of its parameters, then memory for each tensor
// that it returns; null strides are row-major without gaps. A tensor that the function writes gets
// its new elements where it lies. Scalars are the values of the parameters that are numbers,
// constants too: int and bool as int64, float as the bits of a double. Each variant fixes the
// parameters that are no numbers (None, texts), which a call leaves out.
// Errors: a function that fails says so and leaves the text in pto_last_error().
//
// Invariant: a file that is truncated, altered, or for another version or CPU is never run.
// Thread safety: a program may run in many threads at once.
#pragma once
#include "pto/abi/host.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pto_program pto_program;

// The type and sizes of a result. Codes and bits are DLPack's, as in pto_tensor.
typedef struct pto_result {
  int64_t sizes[PTO_MAX_RANK];
  int32_t rank;
  uint8_t type_code, type_bits;
  int64_t bytes;
} pto_result;

// Return null where the file cannot be run here. A file of several functions needs the name of one.
pto_program* pto_program_open(const char* path);
pto_program* pto_program_open_function(const char* path, const char* function);
void pto_program_close(pto_program* program);  // null does nothing

// Returns the calls that the package serves, a line each: "attend(q: f32[s0, s1])"; null for null.
const char* pto_program_describe(const pto_program* program);

// Writes what a call with these tensors and scalars returns, at most `room` results, and returns
// how many there are; -1 for a call that fails. Tensors of results may be left out of `args`.
int32_t pto_program_results(const pto_program* program, const pto_args* args, pto_result* results,
                            int32_t room);

// Returns 0, or a non-zero code.
int32_t pto_program_run(const pto_program* program, const pto_args* args);

#ifdef __cplusplus
}
#endif
