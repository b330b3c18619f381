// SPDX-License-Identifier: Apache-2.0
// The add kernel in a plain program:
//
//     g++ -O2 $(python -m pto config --cxxflags) main.cpp -o add $(python -m pto config --ldflags)
//     ./add 1 7 4095 4097 98317        lengths; a few odd ones without arguments
#include "my_add_kernel.hpp"

#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

bool check(int code, const char* what) {
  if (code != ACL_SUCCESS) std::fprintf(stderr, "%s: %s\n", what, pto_last_error());
  return code == ACL_SUCCESS;
}

// A block of the device that frees itself.
struct Array {
  explicit Array(size_t count) : bytes(count * sizeof(float)) {
    if (!check(aclrtMalloc(&data, bytes, ACL_MEM_MALLOC_HUGE_FIRST), "aclrtMalloc")) std::exit(1);
  }
  ~Array() { aclrtFree(data); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  float* floats() const { return static_cast<float*>(data); }

  void* data = nullptr;
  size_t bytes;
};

// Adds two arrays of this length on 24 blocks; true where every sum is right.
bool add(uint32_t length) {
  std::vector<float> host_x(length), host_y(length), host_out(length);
  for (uint32_t i = 0; i < length; ++i) {
    host_x[i] = static_cast<float>(i % 1000);
    host_y[i] = static_cast<float>(i % 777) * 0.5f;
  }
  Array device_x(length), device_y(length), device_out(length);
  aclrtMemcpy(device_x.data, device_x.bytes, host_x.data(), device_x.bytes,
              ACL_MEMCPY_HOST_TO_DEVICE);
  aclrtMemcpy(device_y.data, device_y.bytes, host_y.data(), device_y.bytes,
              ACL_MEMCPY_HOST_TO_DEVICE);
  float *out = device_out.floats(), *x = device_x.floats(), *y = device_y.floats();
  EXEC_KERNEL_CMD(MyAddKernel, 24, out, x, y, length);
  if (!check(aclrtSynchronizeStream(nullptr), "aclrtSynchronizeStream")) return false;
  aclrtMemcpy(host_out.data(), device_out.bytes, device_out.data, device_out.bytes,
              ACL_MEMCPY_DEVICE_TO_HOST);
  for (uint32_t i = 0; i < length; ++i) {
    if (host_out[i] == host_x[i] + host_y[i]) continue;
    std::fprintf(stderr, "length %u: out[%u] is %g, not %g\n", length, i, host_out[i],
                 host_x[i] + host_y[i]);
    return false;
  }
  std::printf("length %u: every sum is right\n", length);
  return true;
}

}  // namespace

int main(int count, char** lengths) {
  if (count == 1) return add(1) && add(7) && add(4095) && add(24 * 4096 + 13) ? 0 : 1;
  for (int i = 1; i < count; ++i) {
    if (!add(static_cast<uint32_t>(std::strtoul(lengths[i], nullptr, 10)))) return 1;
  }
  return 0;
}
