// SPDX-License-Identifier: Apache-2.0
// Device queue: how work reaches a device that has streams and whose memory the processor reaches,
// such as PyTorch's npu. Whoever makes the device says so once; kernels are then launched there.
//
//     pto_set_device_queue(&queue);                    // the adapter that makes the device
//     pto_device_submit(0, NULL, &job);                // on the current stream of device 0
//     pto_device_wait(pto_device_current_stream(0));   // 0, or what one of its jobs said
//
// Invariants: only POD crosses this header. Jobs of a stream run in the order of their submission;
// `release` is called once, when the job has run or never will.
// Thread safety: every function may be called from any thread; so may those of a job.
#pragma once
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pto_device_job {
  int32_t (*run)(void* context);  // 0, or non-zero and a text in error()
  const char* (*error)(void);
  void (*release)(void* context);
  void* context;
  // Tensor objects of the framework whose memory is kept until the job has run.
  const void* const* tensors;
  int32_t n_tensors;
  int64_t bytes;  // read and written: a job of few may run at once, on the caller
  // Raw pointers into memory of the device, which is kept likewise.
  const void* const* pointers;
  int32_t n_pointers;
} pto_device_job;

typedef struct pto_device_queue {
  // 0; or non-zero and the error in pto_last_error(). A null stream is the device's current one.
  int32_t (*submit)(int32_t device, const void* stream, const pto_device_job* job);
  int32_t (*wait)(const void* stream);
  const void* (*current_stream)(int32_t device);  // of the calling thread
  int32_t (*device_of)(const void* stream);       // -1 where it is no stream of such a device
} pto_device_queue;

void pto_set_device_queue(const pto_device_queue* queue);  // which must stay

// The same, of the queue that was set; without one an error, null and -1. Where submit fails the
// job has been released.
int32_t pto_device_submit(int32_t device, const void* stream, const pto_device_job* job);
int32_t pto_device_wait(const void* stream);
const void* pto_device_current_stream(int32_t device);
int32_t pto_device_of_stream(const void* stream);

// For queues: the text of the calling thread's pto_last_error().
void pto_set_last_error(const char* text);

#ifdef __cplusplus
}
#endif
