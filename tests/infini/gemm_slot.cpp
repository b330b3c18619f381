// SPDX-License-Identifier: Apache-2.0
// A product of matrices in the slot of ATen's kernels, with factors, transposed and in batches.
#include "owning_tensor.hpp"

int main() {
  using namespace infini::ops;
  float a[6] = {1, 2, 3, 4, 5, 6}, b[6] = {7, 8, 9, 10, 11, 12}, c[4] = {1, 1, 1, 1}, y[4] = {};
  const Tensor left(a, {2, 3}), right(b, {3, 2}), added(c, {2, 2}), out(y, {2, 2});
  const Tensor wide(b, {2, 3});
  Handle handle;
  Config config;
  config.set_implementation_index(8);

  Gemm::Call(handle, config, left, right, out);
  check(y[0] == 58 && y[1] == 64 && y[2] == 139 && y[3] == 154, "a product");
  Gemm::Call(left, wide, std::nullopt, std::nullopt, std::nullopt, false, true, out);
  check(y[0] == 50 && y[3] == 167, "the second one transposed");
  Gemm::Call(handle, config, left, right, std::nullopt, 2.0f, 1.0f, 0, 0, out);
  check(y[0] == 116, "a factor without c");
  Gemm::Call(handle, config, left, right, std::optional<Tensor>(added), 1.0f, 3.0f, 0, 0, out);
  check(y[0] == 61 && y[3] == 157, "c with its factor");
  const Tensor stack(a, {1, 2, 3}), others(b, {1, 3, 2}), outs(y, {1, 2, 2});
  Gemm::Call(stack, others, std::nullopt, 0.5f, std::nullopt, std::nullopt, std::nullopt, outs);
  check(y[0] == 29, "a batch with a factor");
  auto gemm = Gemm::Make(config, left, right, out);
  (*gemm)(handle, left, right, out);
  check(y[0] == 58, "Make and operator()");
  check(Gemm::active_implementation_indices(Device::Type::kCpu) == std::vector<std::size_t>{8},
        "its slots");
  const Tensor row(a, {6});
  refused([&] { Gemm::Call(row, row, std::nullopt, 1.0f, 1.0f, 1, 0, out); }, "of rank 1");
  return failures;
}
