// SPDX-License-Identifier: Apache-2.0
// launch(): runs a CPU kernel on aliases, in the order of the current stream.
//
//     launch(out.device().index(), length_of(out), std::array{out_alias, x_alias},
//            [=](const at::Tensor* t) { at::native::copy_(t[0], t[1], false); });
//
// Invariant: the kernel owns what it touches until it has run. It sees neither autograd nor the
// launching thread's modes.
// Thread safety: any thread may call every function.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>

#include <utility>

#include "pto/adapters/torch/npu/alias.hpp"
#include "pto/device/npu/stream.hpp"

namespace pto::torch_npu {

// A larger kernel is worth another thread: copying 2 MiB takes about a tenth of a millisecond.
constexpr int64_t kLongBytes = 1 << 21;
constexpr int64_t kLongOperations = 1 << 22;  // of a matrix product

inline Length length_of(const at::Tensor& tensor) {
  return static_cast<int64_t>(tensor.nbytes()) < kLongBytes ? Length::Short : Length::Long;
}

inline Access access_to(const at::Tensor& alias) {
  if (!is_checked() || !alias.defined() || !alias.has_storage()) return Access(nullptr);
  return Access(block_of(alias.storage().data_ptr()));
}

// Sets a thread up for a CPU kernel: below autograd, with the launching thread's number of threads.
class HostScope {
 public:
  explicit HostScope(int threads) {
    if (at::get_num_threads() != threads && !at::in_parallel_region()) {
      at::set_num_threads(threads);
    }
  }

 private:
  at::AutoDispatchBelowADInplaceOrView below_;
};

// Leaves at the end of its scope a stream that enter_if_idle() has entered.
class Entered {
 public:
  explicit Entered(Stream& stream) : stream_(stream) {}
  ~Entered() { stream_.leave(); }
  Entered(const Entered&) = delete;
  Entered& operator=(const Entered&) = delete;

 private:
  Stream& stream_;
};

template <class Run, size_t N>
class AliasKernel final : public StreamKernel {
 public:
  AliasKernel(std::array<at::Tensor, N> tensors, Run run)
      : tensors_(std::move(tensors)), run_(std::move(run)) {}
  void run() override {
    const HostScope scope(threads_);
    c10::SmallVector<Access, N> accesses;
    if (is_checked()) {
      for (const at::Tensor& tensor : tensors_) accesses.push_back(access_to(tensor));
    }
    run_(tensors_.data());
  }

 private:
  std::array<at::Tensor, N> tensors_;
  Run run_;
  int threads_ = at::get_num_threads();
};

template <size_t N, class Run>
void launch(int device, Length length, std::array<at::Tensor, N> tensors, Run run) {
  current_stream(device).submit(
      std::make_unique<AliasKernel<Run, N>>(std::move(tensors), std::move(run)), length);
}

}  // namespace pto::torch_npu
