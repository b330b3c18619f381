// SPDX-License-Identifier: Apache-2.0
// The acl calls that a plain program needs around its kernels: memory, copies, streams.
//
//     void* x = nullptr;
//     if (aclrtMalloc(&x, 400, ACL_MEM_MALLOC_HUGE_FIRST) != ACL_SUCCESS) return 1;
//     aclrtMemcpy(x, 400, host, 400, ACL_MEMCPY_HOST_TO_DEVICE);
//
// On the CPU host and device memory are one, and there is one device. A block knows its length: it
// bounds the one-argument GlobalTensor. Names and values are those of the public interface.
// Errors: a code that is not ACL_SUCCESS; pto_last_error() has the text.
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

// Nothing has to be set up: these check what they get. Every number from 0 on names the one device.
aclError aclInit(const char* configuration);
aclError aclFinalize(void);
aclError aclrtSetDevice(int device);
aclError aclrtResetDevice(int device);

// 64-byte aligned, and zero, since programs for the public simulator count on that; at least one
// byte must be asked for. A block has `bytes` rounded up to a multiple of 32, and 32 more but from
// aclrtMallocAlign32: all of them may be used, and bound a pointer. The policies are one here,
// where blocks from 1 MB on lie on huge pages.
aclError aclrtMalloc(void** pointer, size_t bytes, aclrtMemMallocPolicy policy);
aclError aclrtMallocAlign32(void** pointer, size_t bytes, aclrtMemMallocPolicy policy);
aclError aclrtMallocHost(void** pointer, size_t bytes);

// Null is an error, as is memory that is not of aclrtMalloc or was freed before.
aclError aclrtFree(void* pointer);
aclError aclrtFreeHost(void* pointer);

// Copies `bytes`; more than the destination's `capacity` is an error. Memory may overlap.
aclError aclrtMemcpy(void* destination, size_t capacity, const void* source, size_t bytes,
                     aclrtMemcpyKind kind);

// The first `bytes` become `value`; more than the block's `capacity` is an error.
aclError aclrtMemset(void* block, size_t capacity, int value, size_t bytes);

// A stream is a name: every launch has already run when it returns. One of a device with streams
// (device_queue.hpp) is waited for, and what one of its kernels threw is the error.
aclError aclrtCreateStream(aclrtStream* stream);
aclError aclrtDestroyStream(aclrtStream stream);
aclError aclrtSynchronizeStream(aclrtStream stream);

#ifdef __cplusplus
}
#endif
