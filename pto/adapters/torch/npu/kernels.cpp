// SPDX-License-Identifier: Apache-2.0
#include <ATen/EmptyTensor.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/ops/_local_scalar_dense_native.h>
#include <ATen/ops/copy_native.h>
#include <ATen/ops/fill_native.h>
#include <ATen/ops/set_native.h>

#include <array>
#include <optional>

#include "pto/adapters/torch/npu/kernels.hpp"

#include "pto/adapters/torch/npu/alias.hpp"
#include "pto/adapters/torch/npu/launch.hpp"
#include "pto/adapters/torch/npu/memory.hpp"
#include "pto/adapters/torch/npu/placement.hpp"
#include "pto/device/npu/stream.hpp"

namespace pto::torch_npu {
namespace {

using at::IntArrayRef;
using at::Tensor;
using std::optional;

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

bool is_npu(const Tensor& tensor) { return tensor.device().type() == kNpu; }

// Makes `device` current while it lives, without what a DeviceGuard costs.
class Current {
 public:
  explicit Current(optional<c10::Device> device)
      : before_(device && device->has_index() ? exchange_device(existing_device(device->index()))
                                              : current_device()) {}
  ~Current() { set_current_device(before_); }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  const int before_;
};

void check_options(optional<c10::Layout> layout, optional<bool> pin_memory) {
  TORCH_CHECK(
      !pin_memory.value_or(false),
      error_message("npu: pin_memory was asked for", "only tensors of the cpu can be pinned",
                    "leave it out, or pin a tensor of the cpu and copy it"));
  TORCH_CHECK_NOT_IMPLEMENTED(
      layout.value_or(c10::kStrided) == c10::kStrided,
      error_message(c10::str("npu: a tensor of layout ", *layout, " was asked for"),
                    "tensors of npu devices are dense", "make it on the cpu"));
}

void run_copy(const Tensor* t) {
  Tensor to = t[0];
  at::native::copy_(to, t[1], /*non_blocking=*/false);
}

bool is_pinned_dense(const Tensor& tensor) {
  return tensor.device().is_cpu() && tensor.layout() == c10::kStrided && tensor.has_storage() &&
         is_pinned(tensor.storage().data());
}

}  // namespace

Tensor empty(IntArrayRef size, optional<at::ScalarType> dtype, optional<c10::Layout> layout,
             optional<c10::Device> device, optional<bool> pin_memory,
             optional<at::MemoryFormat> format) {
  check_options(layout, pin_memory);
  const Current current(device);
  return at::detail::empty_generic(size, allocator(), kKeys, c10::dtype_or_default(dtype), format);
}

Tensor empty_strided(IntArrayRef size, IntArrayRef stride, optional<at::ScalarType> dtype,
                     optional<c10::Layout> layout, optional<c10::Device> device,
                     optional<bool> pin_memory) {
  check_options(layout, pin_memory);
  const Current current(device);
  return at::detail::empty_strided_generic(size, stride, allocator(), kKeys,
                                           c10::dtype_or_default(dtype));
}

Tensor& copy_(Tensor& self, const Tensor& source, bool non_blocking) {
  if (self.is_same(source)) return self;
  TORCH_CHECK_NOT_IMPLEMENTED(
      (is_npu(self) || self.device().is_cpu()) && (is_npu(source) || source.device().is_cpu()),
      error_message(c10::str("npu: a copy from ", source.device(), " to ", self.device()),
                    "copies go between npu devices and the cpu", "go through the cpu: x.cpu()"));
  const bool is_inside = is_npu(self) && is_npu(source) && self.device() == source.device();
  if (is_inside) at::assert_no_partial_overlap(self, source);
  const int device = is_npu(self) ? self.device().index() : source.device().index();
  const Tensor& host = is_npu(self) ? source : self;
  const std::array<Tensor, 2> tensors = {alias_of(self), alias_of(source)};
  if (is_inside || (non_blocking && is_pinned_dense(host))) {
    launch(device, is_inside ? length_of(self) : Length::Long, tensors, run_copy);
    return self;
  }
  if (is_npu(source)) current_stream(source.device().index()).wait();
  current_stream(device).wait();
  AliasKernel<void (*)(const Tensor*), 2>(tensors, run_copy).run();
  return self;
}

Tensor copy_from(const Tensor& self, const Tensor& to, bool non_blocking) {
  Tensor target = to;
  return copy_(target, self, non_blocking);
}

Tensor copy_from_and_resize(const Tensor& self, const Tensor& to) {
  if (to.sizes() != self.sizes()) to.resize_(self.sizes());
  return copy_from(self, to, false);
}

Tensor& fill_(Tensor& self, const at::Scalar& value) {
  launch(self.device().index(), length_of(self), std::array<Tensor, 1>{alias_of(self)},
         [value](const Tensor* t) {
           Tensor filled = t[0];
           at::native::fill_(filled, value);
         });
  return self;
}

Tensor& zero_(Tensor& self) { return torch_npu::fill_(self, at::Scalar(0)); }

at::Scalar local_scalar_dense(const Tensor& self) {
  current_stream(self.device().index()).wait();
  const Tensor alias = alias_of(self);
  const Access access = access_to(alias);
  return at::native::_local_scalar_dense_cpu(alias);
}

Tensor& set_(Tensor& self) {
  const Current current(self.device());
  return self.set_(c10::Storage(c10::Storage::use_byte_size_t(), 0, allocator(), true), 0, {0}, {});
}

// Does nothing: a stream's kernel owns the memory that it uses.
void record_stream(Tensor&, c10::Stream) {}

}  // namespace pto::torch_npu
