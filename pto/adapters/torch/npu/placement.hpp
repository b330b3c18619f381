// SPDX-License-Identifier: Apache-2.0
// Placement: finds the one device on which all tensors of a call lie.
//
//     Placement place("aten::add.Tensor");
//     place.note(x), place.note(y);      // throws with both devices if they differ
//     place.device();                    // 1 for npu:1; the current device if no tensor said so
//
// Invariant: CPU tensors without dimensions, numbers, go with every device.
// Thread safety: a Placement belongs to one thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

#include "pto/adapters/torch/npu/memory.hpp"
#include "pto/base/error_message.hpp"
#include "pto/device/npu/stream.hpp"

namespace pto::torch_npu {

// Returns the number of an existing device; the current one for -1.
inline int existing_device(int index) {
  const int device = index < 0 ? current_device() : index;
  TORCH_CHECK(device < device_count(),
              error_message(c10::str("npu:", device, " does not exist"),
                            c10::str("there are ", device_count(),
                                     " npu devices, npu:0 to npu:", device_count() - 1),
                            "use one of them, or set PTO_NPU_DEVICES before the start"));
  return device;
}

class Placement {
 public:
  explicit Placement(std::string_view call) : call_(call) {}

  void note(const at::Tensor& tensor) {
    if (!tensor.defined()) return;
    const c10::Device device = tensor.device();
    if (device.type() == kNpu) {
      if (device_ < 0) device_ = device.index();
      if (device_ != device.index() || has_host_tensor_) refuse(device);
    } else if (device.is_cpu() && tensor.dim() > 0) {
      has_host_tensor_ = true;
      if (device_ >= 0) refuse(device);
    } else if (!device.is_cpu() && device_ >= 0) {
      refuse(device);
    }
  }
  void note(c10::Device device) {
    if (device.type() == kNpu) device_ = device.has_index() ? device.index() : current_device();
  }

  int device() const { return device_ >= 0 ? device_ : current_device(); }

 private:
  [[noreturn]] void refuse(c10::Device other) const {
    const c10::Device known = has_host_tensor_ && other.type() == kNpu
                                  ? c10::Device(c10::kCPU)
                                  : c10::Device(kNpu, static_cast<c10::DeviceIndex>(device_));
    TORCH_CHECK(
        false,
        error_message(
            c10::str("Expected all tensors to be on the same device, but found at least two ",
                     "devices, ", known, " and ", other, "! (in ", call_, ")"),
            "a kernel runs on one device", c10::str("move one of them: x.to(\"", known, "\")")));
  }

  std::string_view call_;
  int device_ = -1;
  bool has_host_tensor_ = false;
};

}  // namespace pto::torch_npu
