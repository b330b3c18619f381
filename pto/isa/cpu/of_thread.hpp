// SPDX-License-Identifier: Apache-2.0
// Thread memory: large memory that a thread takes once, at its first use, and keeps.
//
//     struct Panels { char left[1 << 20]; };
//     Panels& mine = of_thread<Panels>();   // not cleared
//
// Thread safety: each thread has its own.
#pragma once
#include "pto/abi/host.h"
#include "pto/isa/element/numeric.hpp"

PTO_NAMESPACE_BEGIN

template <class T>
class OfThread {
 public:
  ~OfThread() { pto_free(memory_); }
  T& get() {
    if (!memory_) memory_ = static_cast<T*>(pto_malloc(sizeof(T)));
    if (!memory_) __builtin_trap();  // as a tile without memory
    return *memory_;
  }

 private:
  T* memory_ = nullptr;
};

template <class T>
T& of_thread() {
  static thread_local OfThread<T> memory;
  return memory.get();
}

PTO_NAMESPACE_END
