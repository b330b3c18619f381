// SPDX-License-Identifier: Apache-2.0
// Memory owns memory of one call.
//
//     Memory copy("gelu", bytes);     // pto_malloc, freed with its owner
//
// Thread safety: a value.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "pto/abi/host.h"
#include "pto/base/error.hpp"

namespace pto {

// Owns a block of pto_malloc(); throws Error if there is none.
class Memory {
 public:
  Memory(const char* op, int64_t bytes) : data_(pto_malloc(static_cast<size_t>(bytes))) {
    if (data_) return;
    fail({std::string(op) + ": no memory for a copy of " + std::to_string(bytes) + " bytes",
          "the host could not allocate it", "use smaller tensors or free memory"},
         ErrorKind::Runtime);
  }
  Memory(Memory&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  ~Memory() { pto_free(data_); }
  void* data() const { return data_; }

 private:
  void* data_;
};

}  // namespace pto
