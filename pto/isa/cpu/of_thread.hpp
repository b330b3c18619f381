// SPDX-License-Identifier: Apache-2.0
// Memory of instructions: what a thread takes once and keeps, and what a scope takes.
//
//     struct Panels { char left[1 << 20]; };
//     Panels& mine = of_thread<Panels>();   // not cleared
//     const Room<float> row(64);            // row.get() until the end of the scope
//
// Errors: where the host has no memory, the running block fails with the bytes that it asked for.
//
// Thread safety: each thread has its own.
#pragma once
#include "pto/abi/host.h"
#include "pto/isa/element/numeric.hpp"

PTO_NAMESPACE_BEGIN

[[noreturn]] __attribute__((noinline, cold)) inline void fail_without_memory(size_t bytes) {
  char text[48] = "no memory of ", digits[24];
  char* to = text + 13;
  int n = 0;
  do digits[n++] = char('0' + bytes % 10);
  while ((bytes /= 10) > 0);
  while (n > 0) *to++ = digits[--n];
  __builtin_memcpy(to, " bytes", 7);
  pto_fail(text, "large tiles and what instructions keep aside live in memory of the host",
           "use smaller tiles, run fewer blocks at a time, or free memory", nullptr, 0);
  __builtin_trap();  // pto_fail throws
}

// Returns memory for pto_free(). Large tiles take theirs here, too.
PTO_INLINE void* needed_memory(size_t bytes) {
  void* const memory = pto_malloc(bytes);
  if (__builtin_expect(!memory, 0)) fail_without_memory(bytes);
  return memory;
}

// Returns the running core's memory of a location.
PTO_INLINE void* needed_block_memory(int location, size_t bytes) {
  void* const memory = pto_block_memory(location, bytes);
  if (__builtin_expect(!memory, 0)) fail_without_memory(bytes);
  return memory;
}

// Memory of `count` elements until the end of its scope, also where the block fails in between.
template <class T>
class Room {
 public:
  explicit PTO_INLINE Room(size_t count)
      : elements_(static_cast<T*>(needed_memory(count * sizeof(T)))) {}
  PTO_INLINE ~Room() { pto_free(elements_); }
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;
  PTO_INLINE T* get() const { return elements_; }

 private:
  T* elements_;
};

template <class T>
class OfThread {
 public:
  ~OfThread() { pto_free(memory_); }
  T& get() {
    if (!memory_) memory_ = static_cast<T*>(needed_memory(sizeof(T)));
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
