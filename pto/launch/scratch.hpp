// SPDX-License-Identifier: Apache-2.0
// ScratchStack: a thread's working memory, given out in blocks and taken back all at once.
//
//     ScratchStack stack;
//     const auto mark = stack.mark();
//     void* rows = stack.take(4096);   // 64-byte aligned, or null when memory is exhausted
//     stack.release(mark);             // everything since the mark
//
// Invariant: memory given out never moves; after release() the same requests get the same memory,
// so a kernel that runs again allocates nothing.
// Thread safety: none; every thread has its own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "pto/abi/host.h"

namespace pto {

class ScratchStack {
 public:
  struct Mark {
    size_t chunk = 0, used = 0;
  };

  ScratchStack() = default;
  ScratchStack(const ScratchStack&) = delete;
  ScratchStack& operator=(const ScratchStack&) = delete;
  ~ScratchStack() {
    for (const Chunk& chunk : chunks_) pto_free(chunk.data);
  }

  Mark mark() const { return top_; }
  void release(Mark mark) { top_ = mark; }

  void* take(size_t bytes) {
    constexpr size_t kAlignment = 64, kLeast = size_t{64} << 10;
    if (bytes > SIZE_MAX - kAlignment) return nullptr;
    const size_t wanted = std::max((bytes + kAlignment - 1) / kAlignment * kAlignment, kAlignment);
    for (; top_.chunk < chunks_.size(); top_ = {top_.chunk + 1, 0}) {
      const Chunk& chunk = chunks_[top_.chunk];
      if (chunk.bytes - top_.used < wanted) continue;
      void* given = chunk.data + top_.used;
      top_.used += wanted;
      return given;
    }
    const size_t size = std::max(wanted, kLeast);
    chunks_.reserve(chunks_.size() + 1);
    auto* data = static_cast<char*>(pto_malloc(size));
    if (data == nullptr) return nullptr;
    chunks_.push_back({data, size});
    top_.used = wanted;
    return data;
  }

 private:
  struct Chunk {
    char* data;
    size_t bytes;
  };
  std::vector<Chunk> chunks_;
  Mark top_;
};

}  // namespace pto
