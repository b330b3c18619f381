// SPDX-License-Identifier: Apache-2.0
// What cannot run says why, and leaves its output as it was: slots, devices, kernels, memory.
#include <cstdint>

#include "owning_tensor.hpp"

int main() {
  using namespace infini::ops;
  float x[3] = {1, 2, 3}, y[3] = {7, 7, 7}, small[2] = {7, 7};
  const Tensor input(x, {3}), out(y, {3}), other(small, {2});
  Config config;
  config.set_implementation_index(3);
  refused([&] { Add::Call(Handle(), config, input, input, out); }, "no implementation 3 on cpu");
  refused([&] { Add::Make(config, input, input, out); }, "its slots are 8 aten");
  config.set_implementation_index(SIZE_MAX);
  refused([&] { Add::Call(Handle(), config, input, input, out); }, "no implementation 1844");
  config.set_implementation_index(0);
  refused([&] { Gemm::Call(Handle(), config, input, input, out); }, "no implementation 0");

  const Device device(Device::Type::kNvidia, 1);
  const Tensor far(x, {3}, DataType::kFloat32, device);
  refused([&] { Add::Call(far, far, out); }, "a tensor of the device nvidia:1");
  check(Add::active_implementation_indices(Device::Type::kNvidia).empty(), "slots elsewhere");
  refused([&] { Hspmm::Call(input, input, out); }, "no active implementation on cpu");
  check(Hspmm::active_implementation_indices(Device::Type::kCpu).empty(), "no slots");

  refused([&] { Add::Call(input, input, other); }, "out is Float[2], the result is Float[3]");
  refused([&] { Add::Call(input, Tensor(nullptr, {3}), out); }, "3 elements at null");
  refused([&] { Where::Call(Tensor(x, {3}, DataType::kUInt8), 1, 2, other); }, "the result is");
  refused([&] { Tensor(x, {3}, DataType::kFloat32, Device(), {1, 1}); }, "2 strides");
  refused([&] { input.size(1); }, "axis 1 of a tensor");
  refused([&] { input[3]; }, "index 3 of a tensor");
  refused([&] { Device::TypeFromString("cup"); }, "unknown device 'cup'");
  refused([&] { kStringToDataType.at("float"); }, "no row has");
  const Tensor behind(y + 1, {2}), repeated(y, {3}, DataType::kFloat32, Device(), {0});
  refused([&] { Neg::Call(Tensor(y, {2}), behind); }, "of which self shares a part");
  refused([&] { Neg::Call(input, repeated); }, "several elements lie at one place");
  refused([&] { Neg::Call(Tensor(x, {3}, DataType::kFloat32, Device(), {PTRDIFF_MAX}), out); },
          "more bytes than 63 bits count");
  check(y[0] == 7 && y[2] == 7 && small[1] == 7, "what was refused has written nothing");
  return failures;
}
