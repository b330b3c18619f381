// SPDX-License-Identifier: Apache-2.0
// The add kernel on arrays that end where the process may not read or write: a step over the end
// ends the process. Lengths are the arguments.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "my_add_kernel.hpp"

namespace {

// `count` floats whose last byte lies before a page without access.
struct GuardedArray {
  explicit GuardedArray(size_t count) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t bytes = count * sizeof(float);
    const size_t usable = (bytes + page - 1) / page * page;
    auto* pages = static_cast<char*>(
        mmap(nullptr, usable + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (pages == MAP_FAILED || mprotect(pages + usable, page, PROT_NONE) != 0) std::abort();
    floats = reinterpret_cast<float*>(pages + usable - bytes);
    pto_register_range(floats, bytes);
  }

  float* floats = nullptr;
};

bool add(uint32_t length) {
  const GuardedArray x(length), y(length), out(length);
  for (uint32_t i = 0; i < length; ++i) {
    x.floats[i] = static_cast<float>(i);
    y.floats[i] = 0.25f;
  }
  EXEC_KERNEL_CMD(MyAddKernel, 24, out.floats, x.floats, y.floats, length);
  for (uint32_t i = 0; i < length; ++i) {
    if (out.floats[i] != x.floats[i] + 0.25f) return false;
  }
  std::printf("length %u: every sum is right\n", length);
  return true;
}

}  // namespace

int main(int count, char** lengths) {
  for (int i = 1; i < count; ++i) {
    if (!add(static_cast<uint32_t>(std::strtoul(lengths[i], nullptr, 10)))) return 1;
  }
  return 0;
}
