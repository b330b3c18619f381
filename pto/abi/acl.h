// SPDX-License-Identifier: Apache-2.0
// acl: the calls that a plain program needs around its kernels: memory, copies, streams.
//
//     void* x = nullptr;
//     if (aclrtMalloc(&x, 400, ACL_MEM_MALLOC_HUGE_FIRST) != ACL_SUCCESS) return 1;
//     aclrtMemcpy(x, 400, host, 400, ACL_MEMCPY_HOST_TO_DEVICE);
//
// On the CPU host and device share one memory, and there is one device. Each block registers its
// length, which bounds the one-argument GlobalTensor. Names and values are the public interface's.
// Errors: a code that is not ACL_SUCCESS; pto_last_error() has the text.
//
// Thread safety: any thread.
#pragma once
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef int aclError;
typedef void* aclrtStream;

enum {
  ACL_SUCCESS = 0,
  ACL_ERROR_INVALID_PARAM = 100000,
  ACL_ERROR_BAD_ALLOC = 200000,
  ACL_ERROR_RT_FAILURE = 500000
};

typedef enum aclrtMemMallocPolicy {
  ACL_MEM_MALLOC_HUGE_FIRST = 0,
  ACL_MEM_MALLOC_HUGE_ONLY = 1,
  ACL_MEM_MALLOC_NORMAL_ONLY = 2
} aclrtMemMallocPolicy;

typedef enum aclrtMemcpyKind {
  ACL_MEMCPY_HOST_TO_HOST = 0,
  ACL_MEMCPY_HOST_TO_DEVICE = 1,
  ACL_MEMCPY_DEVICE_TO_HOST = 2,
  ACL_MEMCPY_DEVICE_TO_DEVICE = 3
} aclrtMemcpyKind;

// A program may skip these calls. Every number from 0 on names the one device; others are errors.
aclError aclInit(const char* configuration);
aclError aclFinalize(void);
aclError aclrtSetDevice(int device);
aclError aclrtResetDevice(int device);

// Returns zeroed memory, 64-byte aligned; programs for the public simulator count on zeros.
// `bytes` must be at least 1. A block has `bytes` rounded up to a multiple of 32, and aclrtMalloc
// adds 32 more: a program may use all of them, and they bound a pointer. The policies do the same
// here, where blocks from 1 MB on lie on huge pages.
aclError aclrtMalloc(void** pointer, size_t bytes, aclrtMemMallocPolicy policy);
aclError aclrtMallocAlign32(void** pointer, size_t bytes, aclrtMemMallocPolicy policy);
aclError aclrtMallocHost(void** pointer, size_t bytes);

// Null is an error, and so is memory that aclrtMalloc did not return or that was freed before.
aclError aclrtFree(void* pointer);
aclError aclrtFreeHost(void* pointer);

// Copies `bytes`; more than the destination's `capacity` is an error. Memory may overlap.
aclError aclrtMemcpy(void* destination, size_t capacity, const void* source, size_t bytes,
                     aclrtMemcpyKind kind);

// Sets the first `bytes` to `value`; more than the block's `capacity` is an error.
aclError aclrtMemset(void* block, size_t capacity, int value, size_t bytes);

// A stream is a name: every launch has already run when it returns. aclrtSynchronizeStream waits
// for a stream of a device with streams (device_queue.h), and returns its kernels' first error.
aclError aclrtCreateStream(aclrtStream* stream);
aclError aclrtDestroyStream(aclrtStream stream);
aclError aclrtSynchronizeStream(aclrtStream stream);

#ifdef __cplusplus
}
#endif
