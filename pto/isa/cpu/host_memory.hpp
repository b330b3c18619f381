// SPDX-License-Identifier: Apache-2.0
// Host memory: elements that the host gives until the end of a scope. Where there are none, the
// caller says so.
//
//     const HostMemory<float> sums(rows * cols);
//     if (!sums.data()) pto_fail_memory(services, where, sums.bytes());
//
// Thread safety: an object belongs to one thread.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "pto/abi/host.h"

namespace pto {

// Not initialised; null without memory.
template <class T>
class HostMemory {
 public:
  explicit HostMemory(int64_t count)
      : bytes_(count > 0 ? count * int64_t(sizeof(T)) : 1),
        data_(static_cast<T*>(pto_malloc(static_cast<size_t>(bytes_)))) {}
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;
  ~HostMemory() { pto_free(data_); }
  T* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  const int64_t bytes_;
  T* const data_;
};

}  // namespace pto
