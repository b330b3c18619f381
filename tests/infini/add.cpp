// SPDX-License-Identifier: Apache-2.0
// Adds with and without a handle, by one header of one class.
#include <infini/ops/add.h>

int main() {
  float x[3] = {1, 2, 3}, y[3] = {4, 5, 6}, z[3] = {};
  const infini::ops::Tensor::Shape shape{3};
  const infini::ops::Device device{infini::ops::Device::Type::kCpu};
  const infini::ops::DataType type{infini::ops::DataType::kFloat32};
  infini::ops::Tensor input(x, shape, type, device);
  infini::ops::Tensor other(y, shape, type, device);
  infini::ops::Tensor output(z, shape, type, device, infini::ops::Tensor::Strides{1});

  infini::ops::Handle handle;
  infini::ops::Config config;
  infini::ops::Add::Call(handle, config, input, other, output);
  if (z[0] != 5 || z[1] != 7 || z[2] != 9) return 1;
  infini::ops::Add::Call(handle, config, input, other, 2.0, output);
  if (z[0] != 9 || z[2] != 15) return 2;
  infini::ops::Add::Call(input, other, output);
  if (z[1] != 7) return 3;
  infini::ops::Add::Call(input, 10, output);
  if (z[1] != 12) return 4;
  infini::ops::Add::Call(std::int64_t{7} == 7 ? input : other, other, -1.0f, output);
  if (z[1] != -3) return 5;
  infini::ops::Add::clear_cache();
  infini::ops::Add::Call(input, other, output);
  return z[2] == 9 ? 0 : 6;
}
