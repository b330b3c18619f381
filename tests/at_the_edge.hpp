// SPDX-License-Identifier: Apache-2.0
// AtTheEdge: a matrix of random floats that ends where the memory of the process does.
//
//     const pto::AtTheEdge a(rows, cols, stride, seed);   // |values| below 8; stride in floats
//     EXPECT_EQ(a.data()[stride + 2], a.at(1, 2));        // to read beyond the last is a fault
//
// Thread safety: immutable but for the floats.
#pragma once
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>

namespace pto {

class AtTheEdge {
 public:
  AtTheEdge(int rows, int cols, int64_t stride, unsigned seed) : stride_(stride) {
    const size_t page = 4096;
    const size_t bytes = rows > 0 ? size_t((rows - 1) * stride + cols) * sizeof(float) : 0;
    size_ = (bytes + page - 1) / page * page + page;
    void* const all =
        mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mapped_ = static_cast<char*>(all);
    mprotect(mapped_ + size_ - page, page, PROT_NONE);
    data_ = reinterpret_cast<float*>(mapped_ + size_ - page - bytes);
    for (size_t i = 0; i < bytes / sizeof(float); ++i)
      data_[i] = float(int(seed = seed * 1664525u + 1013904223u) >> 8) * 0x1p-20f;
  }
  ~AtTheEdge() { munmap(mapped_, size_); }
  AtTheEdge(const AtTheEdge&) = delete;
  AtTheEdge& operator=(const AtTheEdge&) = delete;

  float* data() const { return data_; }
  int64_t stride() const { return stride_; }
  float at(int row, int col) const { return data_[row * stride_ + col]; }

 private:
  int64_t stride_;
  size_t size_;
  char* mapped_;
  float* data_;
};

}  // namespace pto
