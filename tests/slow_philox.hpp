// SPDX-License-Identifier: Apache-2.0
// philox_slowly(): one block of Philox4x32 as its authors write it, to test fast ones against.
//
//     philox_slowly(10, key, counter, words);
//
// Thread safety: pure function.
#pragma once
#include <cstdint>
#include <cstring>

namespace pto {

inline void philox_slowly(int rounds, const uint32_t* key, const uint32_t* counter, uint32_t* out) {
  uint32_t k0 = key[0], k1 = key[1], c[4] = {counter[0], counter[1], counter[2], counter[3]};
  for (int i = 0; i < rounds; ++i, k0 += 0x9e3779b9u, k1 += 0xbb67ae85u) {
    const uint64_t p0 = uint64_t(0xd2511f53u) * c[0], p1 = uint64_t(0xcd9e8d57u) * c[2];
    const uint32_t next[4] = {uint32_t(p1 >> 32) ^ c[1] ^ k0, uint32_t(p1),
                              uint32_t(p0 >> 32) ^ c[3] ^ k1, uint32_t(p0)};
    std::memcpy(c, next, sizeof(c));
  }
  std::memcpy(out, c, sizeof(c));
}

}  // namespace pto
