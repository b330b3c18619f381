// SPDX-License-Identifier: Apache-2.0
// Makes the streams of the npu devices a device queue for kernels that users launch with
// EXEC_KERNEL_CMD, EXEC_KERNEL_ASYNC and custom operators.
//
// Invariant: a pending job owns the memory of its tensors, not the tensors: destroying those may
// need Python's lock.
// Thread safety: any thread may call every function.
#include "pto/abi/device_queue.h"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include <memory>
#include <stdexcept>

#include "pto/adapters/torch/npu/alias.hpp"
#include "pto/adapters/torch/npu/launch.hpp"
#include "pto/adapters/torch/npu/memory.hpp"
#include "pto/adapters/torch/npu/placement.hpp"
#include "pto/adapters/torch/npu/registration.hpp"
#include "pto/device/npu/stream.hpp"
#include "pto/launch/launch.hpp"
#include "pto/launch/pool.hpp"

namespace pto::torch_npu {
namespace {

class QueuedJob final : public StreamKernel {
 public:
  explicit QueuedJob(const pto_device_job& job) : job_(job) {}
  ~QueuedJob() override { job_.release(job_.context); }

  void keep_memory() {
    for (int32_t i = 0; i < job_.n_tensors; ++i) {
      const auto& tensor = *static_cast<const at::Tensor*>(job_.tensors[i]);
      if (!tensor.has_storage()) continue;
      check_memory(tensor);
      memory_.push_back(share(tensor.storage(), c10::kCPU));
    }
    for (int32_t i = 0; i < job_.n_pointers; ++i) {
      if (c10::DataPtr data = share_at(job_.pointers[i])) memory_.push_back(std::move(data));
    }
    job_.tensors = job_.pointers = nullptr;
  }

  void run() override {
    const HostScope scope(threads_);
    c10::SmallVector<Access, 8> accesses;
    for (const c10::DataPtr& data : memory_) accesses.push_back(Access(block_of(data)));
    if (job_.run(job_.context) != 0) throw std::runtime_error(job_.error());
  }

 private:
  pto_device_job job_;
  c10::SmallVector<c10::DataPtr, 8> memory_;
  const int threads_ = at::get_num_threads();
};

// Returns 0, or 1 with the text of what f threw.
template <class F>
int32_t caught(F f) noexcept {
  try {
    f();
    return 0;
  } catch (const std::exception& error) {
    pto_set_last_error(error.what());
    return 1;
  }
}

int32_t submit(int32_t device, const void* to, const pto_device_job* job) {
  auto kernel = std::make_unique<QueuedJob>(*job);
  return caught([&] {
    const int index = existing_device(static_cast<c10::DeviceIndex>(device));
    Stream& stream = to ? *static_cast<Stream*>(const_cast<void*>(to)) : current_stream(index);
    kernel->keep_memory();
    // It is part of the stream's current kernel, whose blocks also run on threads of the pool.
    if (runs_kernel() || inside_block()) return kernel->run();
    const bool is_short = job->bytes < kLongBytes;
    if (!is_short || !stream.enter_if_idle()) {
      stream.submit(std::move(kernel), is_short ? Length::Short : Length::Long);
      return;
    }
    const Entered entered(stream);
    kernel->run();
  });
}

// A kernel's block does not wait for its stream, which waits for the block.
int32_t wait(const void* stream) {
  if (inside_block()) return 0;
  return caught([&] { static_cast<Stream*>(const_cast<void*>(stream))->wait(); });
}

const void* current(int32_t device) {
  return device >= 0 && device < device_count() ? &current_stream(device) : nullptr;
}

int32_t device_of(const void* address) {
  for (int device = 0; device < device_count(); ++device) {
    for (int number = 0; number < kStreams; ++number) {
      if (&stream(device, number) == address) return device;
    }
  }
  return -1;
}

}  // namespace

void register_queue() {
  if (is_checked()) refuse_unknown_extents();
  static constexpr pto_device_queue kQueue{submit, wait, current, device_of};
  pto_set_device_queue(&kQueue);
}

}  // namespace pto::torch_npu
