// SPDX-License-Identifier: Apache-2.0
// Runs the operators of the registry on npu tensors: a call is bound at once, and the stream runs
// it.
//
// Invariant: a pending kernel owns the memory of all its tensors.
// Thread safety: calls may come from any thread.
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include <memory>
#include <stdexcept>

#include "pto/abi/operator.h"
#include "pto/adapters/torch/invocation.hpp"
#include "pto/adapters/torch/npu/alias.hpp"
#include "pto/adapters/torch/npu/launch.hpp"
#include "pto/adapters/torch/npu/memory.hpp"
#include "pto/device/npu/stream.hpp"

namespace pto::torch_npu {
namespace {

using torch_adapter::DeviceCall;
using torch_adapter::TensorObject;

// A tensor of PyTorch's C shims is a tensor of its C++ interface.
const at::Tensor& tensor_of(TensorObject* object) {
  return *reinterpret_cast<const at::Tensor*>(object);
}

// Returns the bytes of the largest tensor; throws if a tensor has lost its memory.
int64_t largest(const DeviceCall& call) {
  int64_t bytes = 0;
  call.for_tensors(
      call.invocation,
      [](void* most, TensorObject* object) {
        auto& bytes = *static_cast<int64_t*>(most);
        if (tensor_of(object).has_storage()) check_memory(tensor_of(object));
        bytes = std::max(bytes, static_cast<int64_t>(tensor_of(object).nbytes()));
      },
      &bytes);
  return bytes;
}

class BoundKernel final : public StreamKernel {
 public:
  BoundKernel(const DeviceCall& call, pto_operator_launch* launch)
      : run_(call.run_bound), launch_(launch) {
    call.for_tensors(
        call.invocation,
        [](void* self, TensorObject* object) {
          const at::Tensor& tensor = tensor_of(object);
          if (!tensor.has_storage()) return;
          static_cast<BoundKernel*>(self)->memory_.push_back(share(tensor.storage(), c10::kCPU));
        },
        this);
  }
  ~BoundKernel() override { pto_operator_launch_free(launch_); }

  void run() override {
    run_and([] {});
  }

  // Runs the call, then `last`, while the memory is still accessible.
  template <class Last>
  void run_and(Last last) {
    const HostScope scope(threads_);
    c10::SmallVector<Access, 8> accesses;
    for (const c10::DataPtr& data : memory_) accesses.push_back(Access(block_of(data)));
    if (run_(launch_) != 0) throw std::runtime_error(pto_operator_error());
    last();
  }

 private:
  int32_t (*run_)(pto_operator_launch*);
  pto_operator_launch* launch_;
  c10::SmallVector<c10::DataPtr, 8> memory_;
  const int threads_ = at::get_num_threads();
};

// Returns the operator's error code instead of throwing.
int32_t run_operator(const DeviceCall& call) {
  Stream& stream = current_stream(call.device_index);
  const bool is_short = largest(call) < kLongBytes;
  if (is_short && !is_checked() && stream.enter_if_idle()) {
    const Entered entered(stream);
    const int32_t code = call.run(call.call);
    if (code == 0) call.finish(call.invocation);
    return code;
  }
  pto_operator_launch* launch = pto_operator_bind(call.call);
  if (launch == nullptr) return 1;
  auto kernel = std::make_unique<BoundKernel>(call, launch);
  if (call.must_finish(call.invocation)) {
    stream.wait();
    kernel->run_and([&] { call.finish(call.invocation); });
  } else {
    stream.submit(std::move(kernel), is_short ? Length::Short : Length::Long);
  }
  return 0;
}

}  // namespace
}  // namespace pto::torch_npu

// Returns the function for pto_torch_set_device_runner().
extern "C" const void* pto_npu_device_runner() {
  return reinterpret_cast<const void*>(&pto::torch_npu::run_operator);
}
