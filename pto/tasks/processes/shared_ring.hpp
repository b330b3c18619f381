// SPDX-License-Identifier: Apache-2.0
// SharedRing: sends records of bytes from one process to another, through memory that both map.
//
//     SharedRing ring(memory, 1 << 16);                     // in both; zero at first
//     if (char* record = ring.begin_write(bytes)) ring.end_write();
//     std::span<const char> first = ring.front();           // in the other process
//     if (first.data() != nullptr) ring.pop();
//
// Invariant: records are read whole, in the order of writing, at multiples of 8 bytes. The reader
// does not trust the writer: front() throws Error for bytes that are no record.
// Thread safety: one thread writes, one reads.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>

#include "pto/base/error.hpp"

namespace pto {

class SharedRing {
 public:
  static constexpr int64_t kWordBytes = 128;
  static constexpr int64_t bytes_for(uint32_t capacity) { return kWordBytes + capacity; }

  // `capacity` bytes of records, a power of two; a record has at most most_bytes().
  SharedRing(char* memory, uint32_t capacity)
      : written_(*reinterpret_cast<std::atomic<uint64_t>*>(memory)),
        read_(*reinterpret_cast<std::atomic<uint64_t>*>(memory + 64)),
        records_(memory + kWordBytes),
        capacity_(capacity) {}

  uint32_t most_bytes() const { return capacity_ / 2 - kHeader; }

  // Returns memory for a record, or null while there is no room.
  char* begin_write(uint32_t bytes) {
    const uint32_t whole = rounded(bytes + kHeader);
    const uint64_t at = written_.load(std::memory_order_relaxed);
    const uint32_t to_end = capacity_ - place_of(at);
    const uint64_t begin = whole <= to_end ? at : at + to_end;
    next_ = begin + whole;
    if (next_ - read_.load(std::memory_order_acquire) > capacity_) return nullptr;
    if (begin != at) size_at(at) = kSkip;
    size_at(begin) = bytes;
    return records_ + place_of(begin) + kHeader;
  }
  void end_write() { written_.store(next_, std::memory_order_release); }

  bool is_empty() const {
    return read_.load(std::memory_order_relaxed) == written_.load(std::memory_order_acquire);
  }
  // Returns the first record; null data if there is none.
  std::span<const char> front() {
    for (;;) {
      const uint64_t at = read_.load(std::memory_order_relaxed);
      const uint64_t left = written_.load(std::memory_order_acquire) - at;
      if (left == 0) return {};
      if (left > capacity_) refuse(left, capacity_);
      const uint32_t bytes = size_at(at), to_end = capacity_ - place_of(at);
      if (bytes != kSkip) {
        if (bytes > to_end - kHeader || rounded(bytes + kHeader) > left) refuse(bytes, left);
        return {records_ + place_of(at) + kHeader, bytes};
      }
      if (to_end > left) refuse(to_end, left);
      read_.store(at + to_end, std::memory_order_release);
    }
  }
  void pop() {
    const uint64_t at = read_.load(std::memory_order_relaxed);
    read_.store(at + rounded(size_at(at) + kHeader), std::memory_order_release);
  }

 private:
  static constexpr uint32_t kHeader = 8, kSkip = ~0u;
  static uint32_t rounded(uint32_t bytes) { return (bytes + 7) & ~7u; }
  uint32_t place_of(uint64_t at) const { return uint32_t(at) & (capacity_ - 1); }
  uint32_t& size_at(uint64_t at) { return *reinterpret_cast<uint32_t*>(records_ + place_of(at)); }

  [[noreturn]] static void refuse(uint64_t bytes, uint64_t left) {
    fail({"a record of " + std::to_string(bytes) + " bytes where " + std::to_string(left) +
              " were written",
          "the other process has written over the memory that both share",
          "look for a kernel that writes through a wild pointer: compile it with -DPTO_CHECKED"},
         ErrorKind::Runtime);
  }

  std::atomic<uint64_t>&written_, &read_;
  char* const records_;
  const uint32_t capacity_;
  uint64_t next_ = 0;
};

}  // namespace pto
