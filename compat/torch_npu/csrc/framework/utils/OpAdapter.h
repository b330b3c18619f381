// SPDX-License-Identifier: Apache-2.0
// OpAdapter: the header that an extension of PyTorch for the npu includes by this path: the launch
// macros of kernels, and the current stream.
//
//     c10_npu::NPUStream stream = c10_npu::getCurrentNPUStream();
//     EXEC_KERNEL_ASYNC(MyKernel, 24, stream, out, x, length);   // behind what is queued there
//     aclrtSynchronizeStream(stream.stream());
//
// Errors: where the device npu is not loaded, getCurrentNPUStream() throws, with what to do.
//
// Thread safety: every function may be called from any thread; the current stream is the thread's.
#pragma once

#if __has_include(<torch_npu/csrc/core/npu/NPUStream.h>)
#error "torch_npu is installed: its headers are found too, and one process has one device npu. \
Take its include folder away, or build without OpenPTO's compat folder."
#endif

#include <ATen/core/Tensor.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/library.h>

// The instruction set comes after PyTorch, which has other meanings for some of its names.
#include <pto/pto-inst.hpp>

#include "pto/abi/device_queue.h"

namespace c10_npu {

// A stream of PyTorch; acl calls and EXEC_KERNEL_ASYNC take it too.
class NPUStream {
 public:
  explicit NPUStream(c10::Stream stream)
      : stream_(stream),
        handle_(const_cast<void*>(pto_device_current_stream(stream.device_index()))) {}

  aclrtStream stream() const { return handle_; }
  operator aclrtStream() const { return handle_; }
  operator c10::Stream() const { return stream_; }
  c10::Stream unwrap() const { return stream_; }
  c10::StreamId id() const { return stream_.id(); }
  c10::DeviceIndex device_index() const { return stream_.device_index(); }
  void synchronize() const { stream_.synchronize(); }

 private:
  c10::Stream stream_;
  aclrtStream handle_;
};

// Returns the calling thread's stream; without a device, that of its current device.
inline NPUStream getCurrentNPUStream(c10::DeviceIndex device = -1) {
  TORCH_CHECK(c10::impl::hasDeviceGuardImpl(c10::kPrivateUse1),
              "there is no device npu in this process\n"
              "  why: getCurrentNPUStream() asks PyTorch's npu device\n"
              "  fix: import pto.torch.npu before the first call");
  const c10::impl::VirtualGuardImpl guard(c10::kPrivateUse1);
  const auto index = device < 0 ? guard.getDevice().index() : device;
  return NPUStream(guard.getStream(c10::Device(c10::kPrivateUse1, index)));
}

}  // namespace c10_npu
