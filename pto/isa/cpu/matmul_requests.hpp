// SPDX-License-Identifier: Apache-2.0
// Matmul requests: products ask for runs of memory that they read later, line by line, in turns
// between other work, and into the second cache: the first one has room for fewer requests at a
// time.
//
//     Lines lines(&runs, 0, 128);   // in 128 turns
//     lines.take_turn();
//
// Thread safety: an object belongs to one thread.
#pragma once
#include "pto/abi/runs.h"
#include "pto/isa/cpu/matmul_kernel.hpp"

PTO_NAMESPACE_BEGIN
namespace matmul {

class Lines {
 public:
  // Asks at once for the first `ahead` runs, and for the others in so many turns. Null: none.
  Lines(const pto_runs* runs, int ahead, int64_t turns) {
    if (!runs || runs->count <= 0) return;
    run_ = static_cast<const char*>(runs->data);
    distance_ = runs->distance, bytes_ = runs->bytes, left_ = runs->count;
    start();
    const int64_t lines = lines_;  // of a run
    ask(ahead * lines);
    turn_ = turns > 0 ? (left_ * lines + turns - 1) / turns : 0;
  }
  PTO_INLINE void take_turn() {
    if (lines_ <= turn_) return ask(turn_);
    for (int64_t i = 0; i < turn_; ++i, at_ += kLineBytes) __builtin_prefetch(at_, 0, 2);
    lines_ -= turn_;
  }
  int64_t left() const { return left_; }

 private:
  PTO_INLINE void ask(int64_t count) {
    while (count > 0 && left_ > 0) {
      const int64_t now = count < lines_ ? count : lines_;
      for (int64_t i = 0; i < now; ++i) __builtin_prefetch(at_ + i * kLineBytes, 0, 2);
      at_ += now * kLineBytes, lines_ -= now, count -= now;
      if (lines_ > 0) return;
      --left_;
      run_ += distance_;
      start();
    }
  }
  PTO_INLINE void start() {
    at_ = run_ - reinterpret_cast<uintptr_t>(run_) % kLineBytes;
    lines_ = (run_ + bytes_ - at_ + kLineBytes - 1) / kLineBytes;
  }

  const char *run_ = nullptr, *at_ = nullptr;
  int64_t distance_ = 0, bytes_ = 0, lines_ = 0, left_ = 0, turn_ = 0;  // lines_ of the run
};

// Asks for the rest of b, unless somebody did, and for what comes next.
struct Requests {
  Lines own, next;
  PTO_INLINE void take_turn() {
    own.take_turn();
    next.take_turn();
  }
};

}  // namespace matmul
PTO_NAMESPACE_END
