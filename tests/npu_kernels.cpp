// SPDX-License-Identifier: Apache-2.0
// Operators that tests of streams need: kernels that wait for each other or for the host, and one
// that fails. Built by tests/test_npu_streams.py.
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "pto/operators/define.hpp"
#include "pto/operators/kernel_arguments.hpp"

namespace {

std::atomic<bool> gate_is_open{false};
std::atomic<int64_t> arrived{0};

template <class Condition>
bool wait_for(Condition condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return true;
}

int32_t copy(const pto_args* args) {
  const pto::KernelArguments in(args);
  const pto_tensor& x = in.tensor(0);
  size_t bytes = sizeof(float);
  for (int32_t axis = 0; axis < x.rank; ++axis) bytes *= static_cast<size_t>(x.sizes[axis]);
  std::memcpy(in.data<float>(1), in.data<const float>(0), bytes);
  return 0;
}

// x, once the host has opened the gate.
int32_t gate(const pto_args* args) {
  if (wait_for([] { return gate_is_open.load(); })) return copy(args);
  return args->services->fail(args->services, "the gate stayed shut");
}

// x, once as many such kernels run as `parties` says.
int32_t meet(const pto_args* args) {
  const int64_t parties = pto::KernelArguments(args).integer(0);
  ++arrived;
  if (wait_for([&] { return arrived >= parties; })) return copy(args);
  return args->services->fail(args->services, "nobody came");
}

int32_t refuse(const pto_args* args) {
  return args->services->fail(args->services, "the kernel says no");
}

void like_x(pto::op::Infer& call) { call.output(call.tensor("x")); }

const pto::op::Defined kGate = pto::op::define({.schema = "test_npu_gate(Tensor x) -> Tensor",
                                                .types = "(T) -> T where T: f32",
                                                .infer = like_x,
                                                .kernels = {{"cpu", pto::op::kAny, gate}}});
const pto::op::Defined kMeet =
    pto::op::define({.schema = "test_npu_meet(Tensor x, int parties) -> Tensor",
                     .types = "(T) -> T where T: f32",
                     .infer = like_x,
                     .kernels = {{"cpu", pto::op::kAny, meet}}});
const pto::op::Defined kRefuse = pto::op::define({.schema = "test_npu_refuse(Tensor x) -> Tensor",
                                                  .types = "(T) -> T where T: f32",
                                                  .infer = like_x,
                                                  .kernels = {{"cpu", pto::op::kAny, refuse}}});

}  // namespace

extern "C" void open_gate() { gate_is_open = true; }
extern "C" void shut_gate() {
  gate_is_open = false;
  arrived = 0;
}
