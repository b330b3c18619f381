// SPDX-License-Identifier: Apache-2.0
// Device queue: carries work to a device that has streams and whose memory the processor reaches,
// such as PyTorch's npu. The maker of the device sets it once; kernels are then launched there.
//
//     pto_set_device_queue(&queue);                    // the adapter that makes the device
//     pto_device_submit(0, NULL, &job);                // on the current stream of device 0
//     pto_device_wait(pto_device_current_stream(0));   // 0, or the first error of its jobs
//
// Invariant: only POD crosses this header. Jobs of a stream run in the order of their submission;
// the queue calls `release` once, when the job has run or never will.
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
  // The framework's tensor objects: the queue keeps their memory until the job has run.
  const void* const* tensors;
  int32_t n_tensors;
  int64_t bytes;  // read and written: the caller may run a small job at once
  // Raw pointers into the device's memory, which the queue keeps likewise.
  const void* const* pointers;
  int32_t n_pointers;
} pto_device_job;

typedef struct pto_device_queue {
  // submit and wait return 0, or non-zero with the error in pto_last_error(). A null stream is the
  // current one.
  int32_t (*submit)(int32_t device, const void* stream, const pto_device_job* job);
  int32_t (*wait)(const void* stream);
  const void* (*current_stream)(int32_t device);  // the calling thread's
  int32_t (*device_of)(const void* stream);       // -1: not a stream of such a device
} pto_device_queue;

void pto_set_device_queue(const pto_device_queue* queue);  // `queue` must stay

// These call the queue that was set; without one they return an error, null or -1. When submit
// fails it has already released the job.
int32_t pto_device_submit(int32_t device, const void* stream, const pto_device_job* job);
int32_t pto_device_wait(const void* stream);
const void* pto_device_current_stream(int32_t device);
int32_t pto_device_of_stream(const void* stream);

// Queues set the text of the calling thread's pto_last_error() with this.
void pto_set_last_error(const char* text);

#ifdef __cplusplus
}
#endif
