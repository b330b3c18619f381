// SPDX-License-Identifier: Apache-2.0
#include "pto/launch/staging.hpp"

#include <array>
#include <string>

#include "pto/abi/limits.h"
#include "pto/base/error.hpp"
#include "pto/base/strided.hpp"
#include "pto/launch/strided_copy.hpp"

namespace pto {
namespace {

using Strides = std::array<int64_t, PTO_MAX_RANK>;

Strides dense_strides_of(const pto_tensor_ref& tensor) {
  Strides strides;
  dense_strides(tensor.rank, tensor.sizes, strides.data());
  return strides;
}

}  // namespace

void* Memory::allocated(const char* who, int64_t bytes) {
  if (void* const memory = pto_malloc(static_cast<size_t>(bytes))) return memory;
  fail({std::string(who) + ": no memory for a copy of " + std::to_string(bytes) + " bytes",
        "the host could not allocate it", "use smaller tensors or free memory"},
       ErrorKind::Runtime);
}

void* Staging::copy_of(const pto_tensor_ref& tensor) {
  const Memory& memory = copies_.emplace_back(who_, element_bytes(tensor));
  const Strides dense = dense_strides_of(tensor);
  copy_strided(memory.data(), dense.data(), tensor.data,
               tensor.strides != nullptr ? tensor.strides : dense.data(), tensor.sizes, tensor.rank,
               bytes(dtype_of(tensor)));
  return memory.data();
}

void* Staging::in_place_of(const pto_tensor_ref& tensor) {
  asides_.push_back({tensor, Memory(who_, element_bytes(tensor))});
  return asides_.back().memory.data();
}

void Staging::copy_all() {
  for (const auto& [target, memory] : asides_) {
    const Strides dense = dense_strides_of(target);
    copy_strided(target.data, target.strides != nullptr ? target.strides : dense.data(),
                 memory.data(), dense.data(), target.sizes, target.rank, bytes(dtype_of(target)));
  }
  asides_.clear();
}

}  // namespace pto
