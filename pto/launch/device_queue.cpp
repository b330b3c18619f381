// SPDX-License-Identifier: Apache-2.0
#include "pto/abi/device_queue.h"

#include <atomic>

#include "pto/base/error.hpp"
#include "pto/launch/launch.hpp"

namespace {

std::atomic<const pto_device_queue*> the_queue{nullptr};

const pto_device_queue* queue() { return the_queue.load(std::memory_order_acquire); }

int32_t no_queue() {
  pto::set_last_error(pto::Error({"there is no device with streams in this process",
                                  "the npu device of PyTorch has them, and is not loaded",
                                  "import pto.torch.npu first"})
                          .what());
  return 1;
}

}  // namespace

void pto_set_device_queue(const pto_device_queue* queue) { the_queue.store(queue); }

int32_t pto_device_submit(int32_t device, const void* stream, const pto_device_job* job) {
  if (queue()) return queue()->submit(device, stream, job);
  job->release(job->context);
  return no_queue();
}

int32_t pto_device_wait(const void* stream) { return queue() ? queue()->wait(stream) : no_queue(); }

const void* pto_device_current_stream(int32_t device) {
  return queue() ? queue()->current_stream(device) : nullptr;
}

int32_t pto_device_of_stream(const void* stream) {
  return queue() && stream ? queue()->device_of(stream) : -1;
}

void pto_set_last_error(const char* text) { pto::set_last_error(text); }
