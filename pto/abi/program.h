// SPDX-License-Identifier: Apache-2.0
// Program services: what a compiled program, which runs its kernels itself, needs of libpto.
//
//     pto_launch_items(kernel, &args, items, bytes, written_bytes);   // as many blocks as pay
//
// Sizes and strides count elements. Functions that return int32_t return 0, or a non-zero code;
// then pto_last_error(), or the launch of `services`, has the text.
//
// Thread safety: any thread.
#pragma once
#include "pto/abi/host.h"

#ifdef __cplusplus
extern "C" {
#endif

// Runs a kernel over `items` items, whose number and quantum (1) stand in its scalars. `bytes` is
// the traffic of all items, `written_bytes` that of results nobody reads soon.
int32_t pto_launch_items(pto_kernel kernel, const pto_args* args, int64_t items, int64_t bytes,
                         int64_t written_bytes);

// Says into how many blocks independent pieces of work with so much traffic are cut.
int32_t pto_blocks_of(int64_t items, int64_t bytes);

// Copies the elements of `from` to `to`, of the same type and sizes, which must not overlap.
void pto_copy_tensor(const pto_tensor* to, const pto_tensor* from);

// Writes c = a b for matrices along the last two axes; the axes in front are batches, along which a
// or b may have the size 1. Types as in isa/cpu/matmul_job.hpp; c is of the type of a and b or of
// that of their sums. `threads`: 1 runs on the calling thread.
int32_t pto_multiply(const pto_tensor* c, const pto_tensor* a, const pto_tensor* b,
                     int32_t threads);

// Report why a program cannot go on; `where` is the user's line, or "". They return non-zero.
int32_t pto_fail_part(pto_services* services, const char* where, const char* operation,
                      int32_t axis, int64_t offset, int64_t size, int64_t whole);
int32_t pto_fail_size(pto_services* services, const char* where, int64_t size);
int32_t pto_fail_sizes(pto_services* services, const char* where, const char* because, int64_t a,
                       int64_t b, int32_t is_empty);
int32_t pto_fail_step(pto_services* services, const char* where);
int32_t pto_fail_rounds(pto_services* services, const char* where, int64_t rounds);
int32_t pto_fail_memory(pto_services* services, int64_t bytes);

#ifdef __cplusplus
}
#endif
