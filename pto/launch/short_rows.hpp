// SPDX-License-Identifier: Apache-2.0
// Short rows: copies of many rows of a few bytes, for which a call of memcpy each takes longer.
//
//     with_copy_of(bytes, [&](const auto& copy) {
//       for (...) copy(to, from, bytes);
//     });
//
// Thread safety: pure functions on memory of the caller.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace pto {

// Copies a row of kCount to 2 * kCount blocks as its first and its last ones.
template <class Block, size_t kCount = 1>
struct CopyBlocks {
  void operator()(char* to, const char* from, int64_t bytes) const {
    const int64_t last = bytes - int64_t(kCount * sizeof(Block));
    Block blocks[2 * kCount];
#pragma GCC unroll 4
    for (size_t i = 0; i < 2 * kCount; ++i)
      std::memcpy(&blocks[i], from + place(i, last), sizeof(Block));
#pragma GCC unroll 4
    for (size_t i = 0; i < 2 * kCount; ++i)
      std::memcpy(to + place(i, last), &blocks[i], sizeof(Block));
  }
  static int64_t place(size_t i, int64_t last) {
    return int64_t(i % kCount * sizeof(Block)) + (i < kCount ? 0 : last);
  }
};

// Calls f with a function that copies rows of so many bytes.
template <class F>
void with_copy_of(int64_t bytes, const F& f) {
  using Vector [[gnu::vector_size(16)]] = int64_t;
  if (bytes >= 4 && bytes <= 8) return f(CopyBlocks<uint32_t>());
  if (bytes > 8 && bytes <= 16) return f(CopyBlocks<uint64_t>());
  if (bytes > 16 && bytes <= 32) return f(CopyBlocks<Vector>());
  if (bytes > 32 && bytes <= 64) return f(CopyBlocks<Vector, 2>());
  f([](char* to, const char* from, int64_t size) { std::memcpy(to, from, size_t(size)); });
}

}  // namespace pto
