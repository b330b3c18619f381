// SPDX-License-Identifier: Apache-2.0
// Sha256: the digest of FIPS 180-4, which names cache entries.
//
//     hex(Sha256().update("abc").digest());   // "ba7816bf8f01cfea414140de5dae2223..."
//
// Thread safety: an object belongs to one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace pto {

using Digest = std::array<uint8_t, 32>;

class Sha256 {
 public:
  Sha256& update(std::string_view bytes);

  // Adds the length in front, so that two sequences of fields never run together into one.
  Sha256& field(std::string_view bytes);

  Digest digest();  // ends the object's use

 private:
  void block(const uint8_t* bytes);

  std::array<uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, 64> pending_{};
  uint64_t total_ = 0;  // bytes
};

std::string hex(const Digest& digest);

}  // namespace pto
