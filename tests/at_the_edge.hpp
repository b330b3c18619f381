// SPDX-License-Identifier: Apache-2.0
// AtTheEdge: a matrix of random floats, or of the bits of bf16, that ends where the memory of the
// process does.
//
//     const pto::AtTheEdge a(rows, cols, stride, seed);   // |values| below 8; stride in elements
//     EXPECT_EQ(a.data()[stride + 2], a.at(1, 2));        // to read beyond the last is a fault
//     const pto::EdgeMatrix<uint16_t> b(rows, cols, stride, seed);   // b.at(1, 2) is a float too
//
// Thread safety: immutable but for the elements.
#pragma once
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "pto/isa/element/numeric.hpp"

namespace pto {

template <class E>
class EdgeMatrix {
 public:
  EdgeMatrix(int rows, int cols, int64_t stride, unsigned seed) : stride_(stride) {
    const size_t page = 4096;
    const size_t bytes = rows > 0 ? size_t((rows - 1) * stride + cols) * sizeof(E) : 0;
    size_ = (bytes + page - 1) / page * page + page;
    void* const all =
        mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mapped_ = static_cast<char*>(all);
    mprotect(mapped_ + size_ - page, page, PROT_NONE);
    data_ = reinterpret_cast<E*>(mapped_ + size_ - page - bytes);
    for (size_t i = 0; i < bytes / sizeof(E); ++i)
      put(data_[i], float(int(seed = seed * 1664525u + 1013904223u) >> 8) * 0x1p-20f);
  }
  ~EdgeMatrix() { munmap(mapped_, size_); }
  EdgeMatrix(const EdgeMatrix&) = delete;
  EdgeMatrix& operator=(const EdgeMatrix&) = delete;

  E* data() const { return data_; }
  int64_t stride() const { return stride_; }
  float at(int row, int col) const {
    const E element = data_[row * stride_ + col];
    if constexpr (std::is_same_v<E, float>)
      return element;
    else
      return isa::bit_cast<float>(uint32_t(element) << 16);
  }

 private:
  static void put(float& to, float x) { to = x; }
  static void put(uint16_t& to, float x) { to = uint16_t(isa::bit_cast<uint32_t>(x) >> 16); }

  int64_t stride_;
  size_t size_;
  char* mapped_;
  E* data_;
};

using AtTheEdge = EdgeMatrix<float>;

}  // namespace pto
