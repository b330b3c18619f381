// SPDX-License-Identifier: Apache-2.0
#include "pto/launch/staging.hpp"

#include <array>
#include <cstring>
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

// Returns where the front element of a tensor is in memory that stands for its range of addresses.
void* at_front(const pto_tensor_ref& tensor, void* memory) {
  const auto before = reinterpret_cast<uintptr_t>(tensor.data) - address_range(tensor).first;
  return static_cast<char*>(memory) + before;
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

void* Staging::moved(const pto_tensor_ref& tensor) {
  const AddressRange range = address_range(tensor);
  if (range.first == range.end) return tensor.data;
  const auto bytes = static_cast<size_t>(range.end - range.first);
  const Memory& memory = copies_.emplace_back(who_, static_cast<int64_t>(bytes));
  std::memcpy(memory.data(), reinterpret_cast<const void*>(range.first), bytes);
  return at_front(tensor, memory.data());
}

void* Staging::Aside::first() const {
  return keeps_strides ? at_front(target, memory.data()) : memory.data();
}

void* Staging::in_place_of(const pto_tensor_ref& tensor, bool keeps_strides) {
  const AddressRange range = address_range(tensor);
  const auto bytes = keeps_strides ? int64_t(range.end - range.first) : element_bytes(tensor);
  asides_.push_back({tensor, keeps_strides, Memory(who_, bytes)});
  return asides_.back().first();
}

void Staging::copy_all() {
  for (const Aside& aside : asides_) {
    const pto_tensor_ref& target = aside.target;
    const Strides dense = dense_strides_of(target);
    const int64_t* const strides = target.strides != nullptr ? target.strides : dense.data();
    copy_strided(target.data, strides, aside.first(), aside.keeps_strides ? strides : dense.data(),
                 target.sizes, target.rank, bytes(dtype_of(target)));
  }
  asides_.clear();
}

}  // namespace pto
