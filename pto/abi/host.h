// SPDX-License-Identifier: Apache-2.0
// Host: the argument block of a kernel and the services that its host gives it, as plain C.
//
//     extern "C" int32_t my_kernel(const pto_args* args);   // 0 = done, else see services->error
//
// The host calls a kernel once per block, from any thread of the pool, blocks in any order.
//
// Invariant: only POD crosses this header, in both directions; libpto implements the functions.
// Thread safety: every function may be called from any thread.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "pto/abi/limits.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { PTO_ABI_VERSION = 1 };

// Bits of pto_tensor::flags.
enum {
  PTO_TENSOR_ABSENT = 1,     // an optional argument that was not given; data is null
  PTO_TENSOR_READ_ONLY = 2,  // the kernel must not write
  PTO_TENSOR_CONTIGUOUS = 4  // row-major without gaps
};

// Bits of pto_args::flags.
enum {
  PTO_LAUNCH_STREAM = 1  // outputs leave the cache: store them non-temporally where aligned
};

// Type codes and bits are DLPack's: code 0 int, 1 unsigned, 2 float, 4 bfloat, 6 bool.
typedef struct pto_tensor {
  void* data;
  const int64_t* sizes;
  const int64_t* strides;  // in elements; may be zero or negative
  int32_t rank;
  uint8_t type_code;
  uint8_t type_bits;
  uint16_t type_lanes;  // 1
  uint32_t flags;
  int64_t extent_bytes;  // bytes readable from data on; -1 where unknown
} pto_tensor;

// Services of one launch. `fail` keeps the first text of a launch and returns a non-zero code, so
// that a kernel can write: return args->services->fail(args->services, "why");
typedef struct pto_services {
  uint32_t abi_version;
  int32_t (*fail)(struct pto_services*, const char* text);
  void* (*scratch)(struct pto_services*, size_t bytes);  // of the calling thread, 64-byte aligned,
                                                         // valid until the block returns; or null
  void* state;                                           // the launch's own
  int32_t threads;                                       // that the launch is meant for, at least 1
} pto_services;

// Tensors in schema order, inputs first, then outputs. Scalars: int and bool as int64, floating
// point as the bits of a double. Strings and structures travel in params.
typedef struct pto_args {
  uint32_t abi_version;
  int32_t n_tensors;
  const pto_tensor* tensors;
  int32_t n_scalars;
  uint32_t flags;
  const uint64_t* scalars;
  const void* params;
  int64_t params_bytes;
  pto_services* services;
  int32_t block;
  int32_t blocks;
} pto_args;

typedef int32_t (*pto_kernel)(const pto_args*);

// Runs `kernel` for blocks 0 .. blocks-1 of a copy of `args` on the resident pool; the caller
// takes part. Returns 0, or the first non-zero code; pto_last_error() then holds its text.
int32_t pto_launch(pto_kernel kernel, const pto_args* args, int32_t blocks);

// A kernel of the public form kernel_entry(int64_t*): one slot per argument, first the addresses of
// the tensors (0 where absent), then the scalars, each in the order and encoding of pto_args.
typedef void (*pto_slot_kernel)(int64_t* slots);

// Runs one block of such a kernel; the body of a pto_kernel. A slot cannot carry a tensor with gaps
// or params: this refuses them with services->fail() and a non-zero code.
int32_t pto_enter_slots(pto_slot_kernel kernel, const pto_args* args);

// Runs fn(context, block) for blocks 0 .. blocks-1 on the resident pool. A call from inside a
// block runs inline. Returns the first non-zero result.
int32_t pto_parallel(int32_t blocks, int32_t (*fn)(void* context, int32_t block), void* context);

// Returns the text of the calling thread's last failed launch, or "".
const char* pto_last_error(void);

// Return the index of the block that the calling thread runs now, and the number of blocks; 0 and 1
// outside a launch.
int32_t pto_block_index(void);
int32_t pto_block_count(void);

// A block may have several cores: vector cores, its lanes, and a cube core. pto_launch gives it one
// core that is both; pto_launch_cores runs fn(context) on each of `lanes` vector cores and, with
// has_cube, on a cube core, for blocks 0 .. blocks-1, and returns as pto_launch does.
enum { PTO_CORE_ANY, PTO_CORE_CUBE, PTO_CORE_VECTOR };
int32_t pto_launch_cores(int32_t blocks, int32_t lanes, int32_t has_cube,
                         int32_t (*fn)(void* context), void* context);
int32_t pto_core(void);
int32_t pto_lane_index(void);
int32_t pto_lane_count(void);

// Sets, outside launches, the core, block and lane that the calling thread plays from now on.
void pto_set_core(int32_t core, int32_t block, int32_t lane, int32_t lanes);
void pto_set_block_count(int32_t blocks);

// Returns the running core's memory of a tile location (a number below 16), made on the first call;
// null when memory is exhausted. A thread's memory begins as zeros, a fiber's with earlier values.
void* pto_block_memory(int32_t location, size_t bytes);

// Blocks wait for each other with the functions below. While one waits, its thread runs others. A
// wait that nobody can end fails the launch: the text names who waits, for what and where (file,
// line), and the block ends by a C++ exception. Outside launches flags and barriers do nothing;
// rings and pto_wait_memory block the thread, 10 s at most, and then throw.
//
// A flag connects two pipes of one core. A wait without a set fails at once, and so does a block
// that ends with a flag set.
enum { PTO_FLAG_OF_EVENT = 31 };  // an Event's flag, which nobody sets; for errors
void pto_set_flag(int32_t source, int32_t destination, int32_t id, const char* file, int32_t line);
void pto_wait_flag(int32_t source, int32_t destination, int32_t id, const char* file, int32_t line);

// A flag between cores. It counts as set when all cores of its group have set it, once for each
// receiver. PTO_SYNC_ALL: all cores of the caller's kind receive it. PTO_SYNC_LANES: the vector
// cores of the block. PTO_SYNC_BLOCK: the lanes from the cube core, or back. PTO_SYNC_PAIR: one
// core, from a lane to flag + 16 * lane of the cube core, or back.
enum { PTO_SYNC_ALL, PTO_SYNC_LANES, PTO_SYNC_BLOCK, PTO_SYNC_PAIR };
void pto_cross_set(int32_t mode, int32_t flag, const char* file, int32_t line);
void pto_cross_wait(int32_t mode, int32_t flag, const char* file, int32_t line);

// Waits until `expected` cores have come; 0: all of this kind. `counter` only tells barriers apart;
// nothing is read there.
void pto_barrier(int32_t core, const void* counter, int32_t expected, const char* file,
                 int32_t line);

// Fails the running block by an exception with what happened, the rule, and the fix. `file` is null
// where no place is known.
void pto_fail(const char* what, const char* why, const char* fix, const char* file, int32_t line);

// Fails the running block for a valid region that is larger than its tile: `valid` rows (axis 0) or
// columns (1) of `full`.
__attribute__((noreturn, cold)) void pto_check_failed_valid(int32_t valid, int32_t full,
                                                            int32_t axis);

// Waits until holds(condition), which may look at memory that anybody changes. `text` completes
// "waits": "for a signal to be >= 3".
void pto_wait_memory(int32_t (*holds)(const void* condition), const void* condition,
                     const char* text, const char* file, int32_t line);

// A ring of slots from producers to consumers, each with one or two lanes; all cores of a block
// that name the same key share it. push returns the slot of the caller's next turn once it is free,
// pop once it is full; done and release end the turn.
typedef struct pto_ring {
  const void* key;
  const char* name;     // the instruction, for errors
  int32_t lane, lanes;  // the caller's side
  int32_t slots;
  int64_t slot_bytes;
} pto_ring;
typedef struct pto_slot {
  void* data;        // slot_bytes
  int64_t turn;      // slots * round + index
  int64_t facts[2];  // the caller's notes, kept with the slot
} pto_slot;
pto_slot* pto_ring_push(const pto_ring* ring, const char* file, int32_t line);
void pto_ring_done(const pto_ring* ring);
pto_slot* pto_ring_pop(const pto_ring* ring, const char* file, int32_t line);
pto_slot* pto_ring_peek(const pto_ring* ring);  // the slot of the next pop, full or not
void pto_ring_release(const pto_ring* ring);    // the oldest popped turn; without one: nothing
void pto_ring_reset(const void* key);           // forgets the ring
// Counts the turns of the caller's block so far: pushed, popped and released by either lane, then
// pushed by all producers and released by all consumers. All are 0 for an unused ring.
void pto_ring_progress(const void* key, int64_t turns[8]);

// Reads a positive decimal number of the environment, or returns `otherwise`.
uint32_t pto_environment_number(const char* name, uint32_t otherwise);

// Memory ranges with a known extent (aclrtMalloc, tensor arguments of a launch). pto_extent returns
// the bytes from `pointer` to the end of the smallest registered range that holds it, or -1.
void pto_register_range(const void* base, size_t bytes);
void pto_unregister_range(const void* base);
int64_t pto_extent(const void* pointer);

// Recycling allocator: 64-byte aligned, large blocks on huge pages, kept for the next allocation.
// Null when memory is exhausted. pto_free(null) does nothing.
void* pto_malloc(size_t bytes);
void pto_free(void* pointer);

#ifdef __cplusplus
}
#endif
