// SPDX-License-Identifier: Apache-2.0
// Staging: memory in the place of a tensor that a kernel cannot take as it lies.
//
//     Staging staging("gelu");
//     inputs[0] = staging.copy_of(x);     // the elements of x, row-major without gaps
//     inputs[1] = staging.moved(z);       // z with its strides, aligned
//     outputs[0] = staging.in_place_of(y);   // the kernel writes there
//     staging.finish();                   // copies what was written to y
//
// A kernel that wants rows without gaps gets copies of tensors with gaps. An output stands aside
// where its own memory has gaps, is misaligned, or holds elements that the kernel still reads.
// Thread safety: belongs to one call.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "pto/abi/host.h"
#include "pto/abi/tensor.h"

namespace pto {

// Owns a block of pto_malloc(), null for 0 bytes. Throws pto::Error where there is none: "who" is
// the function that needs it.
class Memory {
 public:
  Memory(const char* who, int64_t bytes) : data_(bytes == 0 ? nullptr : allocated(who, bytes)) {}
  Memory(Memory&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  Memory& operator=(Memory&&) = delete;
  ~Memory() {
    if (data_ != nullptr) pto_free(data_);
  }
  void* data() const { return data_; }

 private:
  static void* allocated(const char* who, int64_t bytes);
  void* data_;
};

class Staging {
 public:
  explicit Staging(const char* who) : who_(who) {}

  void* copy_of(const pto_tensor_ref& tensor);
  void* moved(const pto_tensor_ref& tensor);
  // The memory is dense, or has the strides of the tensor. The tensor's sizes and strides must stay
  // valid until finish().
  void* in_place_of(const pto_tensor_ref& tensor, bool keeps_strides = false);
  void finish() {
    if (!is_finished()) copy_all();
  }
  bool is_finished() const { return asides_.empty(); }

 private:
  struct Aside {
    pto_tensor_ref target;
    bool keeps_strides;
    Memory memory;
    void* first() const;  // the element at the front
  };
  void copy_all();

  const char* const who_;
  std::vector<Memory> copies_;
  std::vector<Aside> asides_;
};

}  // namespace pto
