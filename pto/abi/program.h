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
#include "pto/abi/packed_right.h"
#include "pto/abi/runs.h"

#ifdef __cplusplus
extern "C" {
#endif

// Raised when a function here changes, so that a saved program never calls another one.
enum { PTO_PROGRAM_VERSION = 8 };

// Runs a kernel over `items` items, whose number and quantum (1) stand in its scalars. `bytes` is
// the traffic of all items, `written_bytes` that of results nobody reads soon.
int32_t pto_launch_items(pto_kernel kernel, const pto_args* args, int64_t items, int64_t bytes,
                         int64_t written_bytes);

// Does the same in this many blocks, where somebody asked for them.
int32_t pto_launch_blocks(pto_kernel kernel, const pto_args* args, int32_t blocks,
                          int64_t written_bytes);

// Says into how many blocks independent pieces of work with so much traffic are cut.
int32_t pto_blocks_of(int64_t items, int64_t bytes);

// Copies the elements of `from` to `to`, of the same type and sizes, which must not overlap.
void pto_copy_tensor(const pto_tensor* to, const pto_tensor* from);

// Writes c = a b for matrices along the last two axes; the axes in front are batches, along which a
// or b may have the size 1. Types as in isa/cpu/matmul_job.hpp; c is of the type of a and b or of
// that of their sums. `precision`: of f32, as in abi/precision.h; 0: that of the process, now.
// `packed`: the tensor of which b is a part, or null; its packed copy is read where it fits.
// `pages`: where b, a part of their copy, really lies, or null. `soon`: memory that the next
// product of this thread reads as b, or null; this one may ask for it meanwhile. `threads`: 1 runs
// on the calling thread. `where` is the user's line.
int32_t pto_multiply(pto_services* services, const char* where, const pto_tensor* c,
                     const pto_tensor* a, const pto_tensor* b, int32_t precision,
                     const pto_packed_right* packed, pto_pages* pages, const pto_runs* soon,
                     int32_t threads);

// Bytes of the largest cache of most CPUs: rows of what is larger are asked for ahead.
enum { PTO_LARGEST_CACHE = 32 << 20 };

// pto_gather writes into out the elements of x at the positions along the axis. pto_scatter writes
// the part at these positions of out, or adds it there. The index has as many axes as the tensor
// that it points into; where it has the size 1, other than along the axis, one position serves all
// of that axis. Positions count over `joined` axes of the tensor, from that axis on, which are one
// axis in the others. pto_scatter leaves out a write to -1, keeps the last of several to one place
// in row-major order, and folds sums of floats in double. `where` is the user's line.
int32_t pto_gather(pto_services* services, const char* where, const pto_tensor* out,
                   const pto_tensor* x, const pto_tensor* index, int32_t axis, int32_t joined,
                   int32_t threads);
int32_t pto_scatter(pto_services* services, const char* where, const pto_tensor* out,
                    const pto_tensor* index, const pto_tensor* part, int32_t axis, int32_t joined,
                    int32_t adds, int32_t threads);

// Says where the pages that pto_gather reads along the first axis lie, dense and one a position;
// data null: they lie in another way.
pto_runs pto_runs_of_pages(const pto_tensor* out, const pto_tensor* x, const pto_tensor* index,
                           int32_t joined);
// Checks the positions and describes the pages where they lie. Where they lie otherwise, or several
// threads may copy, it gathers instead and the count of runs is 0.
int32_t pto_find_pages(pto_services* services, const char* where, const pto_tensor* out,
                       const pto_tensor* x, const pto_tensor* index, int32_t joined,
                       int32_t threads, pto_pages* pages);

// Adds the part at these positions along the axis, in row-major order: floats in double, rounded
// once. The positions, i64, exist or are -1, which adds nothing. Returns non-zero without memory.
int32_t pto_add_at(const pto_tensor* out, const pto_tensor* part, const pto_tensor* positions,
                   int32_t axis, int32_t threads);

// Sorts along the last axis, and writes the first `most` elements of each row, or all; values or
// positions, an i64, may be null. Equal elements keep their order, zeros of either sign are equal,
// and NaN is the largest.
int32_t pto_sort(pto_services* services, const char* where, const pto_tensor* values,
                 const pto_tensor* positions, const pto_tensor* x, int64_t most, int32_t descending,
                 int32_t threads);

// Writes at each place the fold of the elements along the axis up to it, its own included: floats
// in double, rounded once.
enum { PTO_SCAN_SUM, PTO_SCAN_PRODUCT, PTO_SCAN_LARGEST, PTO_SCAN_SMALLEST };
int32_t pto_scan(const pto_tensor* out, const pto_tensor* x, int32_t axis, int32_t fold,
                 int32_t threads);

// Say, in the recorded form of a program, that a statement begins, in iteration `trip` of the loop
// around it (-1: none), and that the last one that began has ended; launch/recording.hpp keeps it.
void pto_record_begin(int32_t statement, int64_t trip);
void pto_record_end(void);
// Says that a size from data has this value from now on.
void pto_record_size(int32_t symbol, int64_t value);

// A loop looks at pto_alarm now and then; where it is not 0, pto_answer_alarm says by another code
// than 0 that the program ends, since its host was interrupted. The loops of a program lie between
// begin and end, which its thread calls; launch/interruption.hpp raises the alarm.
extern int32_t pto_alarm;
int32_t pto_answer_alarm(pto_services* services);
void pto_watch_begin(void);
void pto_watch_end(void);

// Report why a program cannot go on; `where` is the user's line, or "". They return non-zero.
int32_t pto_fail_part(pto_services* services, const char* where, const char* operation,
                      int32_t axis, int64_t offset, int64_t size, int64_t whole);
int32_t pto_fail_size(pto_services* services, const char* where, int64_t size);
int32_t pto_fail_sizes(pto_services* services, const char* where, const char* because, int64_t a,
                       int64_t b, int32_t kind);  // PTO_GUARD_*
int32_t pto_fail_quotient(pto_services* services, const char* where, const char* size,
                          int64_t dividend);
// `count` elements are not true; sides[2 i] and sides[2 i + 1] are those of the i-th of
// `comparisons`, "ge lt", which show the first one.
int32_t pto_fail_check(pto_services* services, const char* where, const char* because,
                       int64_t count, const char* comparisons, const pto_tensor* sides);
enum { PTO_FAILED_POSITION = 1000 };  // what pto_fail_position returns
int32_t pto_fail_position(pto_services* services, const char* where, const char* operation,
                          int32_t axis, int64_t position, int64_t size, int32_t may_skip);
int32_t pto_fail_step(pto_services* services, const char* where);
int32_t pto_fail_rounds(pto_services* services, const char* where, int64_t rounds);
int32_t pto_fail_memory(pto_services* services, const char* where, int64_t bytes);
int32_t pto_fail_product(pto_services* services, const char* where, int64_t rows, int64_t depth,
                         int64_t cols);

#ifdef __cplusplus
}
#endif
