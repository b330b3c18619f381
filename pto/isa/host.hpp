// SPDX-License-Identifier: Apache-2.0
// What a kernel needs of its host, as plain C: the argument block and the services.
//
//     extern "C" int32_t my_kernel(const pto_args* args);   // 0 = done, else see services->error
//
// Invariant: only POD crosses this header, in both directions; libpto implements the functions.
// A kernel is called once per block, from any thread of the pool, blocks in any order.
// Thread safety: every function may be called from any thread.
#pragma once
#include <stddef.h>
#include <stdint.h>

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

// Per-launch services. `fail` keeps the first text of a launch and returns a non-zero code, so that
// a kernel can write: return args->services->fail(args->services, "why");
typedef struct pto_services {
  uint32_t abi_version;
  int32_t (*fail)(struct pto_services*, const char* text);
  void* (*scratch)(struct pto_services*, size_t bytes);  // of the calling thread, 64-byte aligned,
                                                         // valid until the block returns; or null
  void* state;                                           // the launch's own
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

// A kernel of the public form kernel_entry(int64_t*): one slot an argument, first the addresses of
// the tensors (0 where absent), then the scalars, each in the order and encoding of pto_args.
typedef void (*pto_slot_kernel)(int64_t* slots);

// Runs one block of such a kernel; the body of a pto_kernel. Refuses, with services->fail() and a
// non-zero code, what a slot cannot carry: a tensor with gaps, and params.
int32_t pto_enter_slots(pto_slot_kernel kernel, const pto_args* args);

// Runs fn(context, block) for blocks 0 .. blocks-1 on the resident pool. A call from inside a
// block runs inline. Returns the first non-zero result.
int32_t pto_parallel(int32_t blocks, int32_t (*fn)(void* context, int32_t block), void* context);

// The text of the calling thread's last failed launch, or "".
const char* pto_last_error(void);

// The block that the calling thread runs now: index and count, 0 and 1 outside a launch.
int32_t pto_block_index(void);
int32_t pto_block_count(void);

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
