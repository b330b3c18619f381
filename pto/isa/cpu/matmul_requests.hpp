// SPDX-License-Identifier: Apache-2.0
// Matmul requests: products ask for memory that they read later, line by line, in turns between
// other work: for runs that come later into the second cache, since the first one has room for
// fewer requests at a time, and for rows that pass next into the first one.
//
//     Lines lines(&runs, 0, 128);   // in 128 turns
//     lines.take_turn();
//
//     NearRows rows(at, 2048, 512, 32);   // 32 rows of 512 bytes, 2048 apart
//     rows.ask<4>();                      // four lines
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
  Lines(const pto_runs* runs, int64_t ahead, int64_t turns) {
    if (!runs || !runs->data || runs->count <= 0) return;
    runs_ = *runs, left_ = runs->count;
    if (!runs_.places && runs_.distance == runs_.bytes) {  // one run
      runs_.distance = runs_.bytes *= left_;
      runs_.count = left_ = 1;
    }
    start(runs->begin);
    const int64_t lines = (runs_.bytes + kLineBytes - 1) / kLineBytes + 1;
    ask(ahead * ((runs->bytes + kLineBytes - 1) / kLineBytes + 1));
    are_short_ = !runs_.places && lines <= kShortLines;
    if (are_short_) at_ = pto_run_at(&runs_, at_run_);
    const int64_t all = are_short_ ? left_ : left_ * lines - runs_.begin / kLineBytes;
    turn_ = turns > 0 ? (all + turns - 1) / turns : 0;
  }
  PTO_INLINE void take_turn() {
    if (are_short_) return ask_runs(turn_);
    if (lines_ <= turn_) return ask(turn_);
    if (at_ >= found_) find();
    for (int64_t i = 0; i < turn_; ++i, at_ += kLineBytes) __builtin_prefetch(at_, 0, 2);
    lines_ -= turn_;
  }
  // The runs that nobody has asked for.
  pto_runs rest() const {
    pto_runs rest = runs_;
    rest.count = left_, rest.begin = 0;
    if (left_ <= 0) return rest;
    if (rest.places)
      rest.places = static_cast<const char*>(rest.places) + at_run_ * rest.place_bytes;
    else
      rest.data = static_cast<const char*>(rest.data) + at_run_ * rest.distance;
    const int64_t asked = at_ - pto_run_at(&runs_, at_run_);
    rest.begin = asked > 0 ? asked : 0;
    return rest;
  }

 private:
  PTO_INLINE void ask(int64_t count) {
    while (count > 0 && left_ > 0) {
      if (at_ >= found_) find();
      const int64_t now = count < lines_ ? count : lines_;
      for (int64_t i = 0; i < now; ++i) __builtin_prefetch(at_ + i * kLineBytes, 0, 2);
      at_ += now * kLineBytes, lines_ -= now, count -= now;
      if (lines_ > 0) return;
      ++at_run_;
      if (--left_ > 0) start(0);
    }
  }
  // The same for short runs, each of them whole.
  PTO_INLINE void ask_runs(int64_t count) {
    count = count < left_ ? count : left_;
    at_run_ += count, left_ -= count;
    for (; count > 0; --count, at_ += runs_.distance) {
      for (int64_t i = 0; i < runs_.bytes; i += kLineBytes) __builtin_prefetch(at_ + i, 0, 2);
      __builtin_prefetch(at_ + runs_.bytes - 1, 0, 2);
    }
  }
  PTO_INLINE void start(int64_t begin) {
    const char* const run = pto_run_at(&runs_, at_run_);
    at_ = run + begin - reinterpret_cast<uintptr_t>(run + begin) % kLineBytes;
    lines_ = (run + runs_.bytes - at_ + kLineBytes - 1) / kLineBytes;
    found_ = at_;
  }
  // Lets the CPU find the next pages of memory side by side: one after the other takes as long as
  // reading them.
  PTO_INLINE void find() {
    const char* const end = at_ + lines_ * kLineBytes;
    found_ = at_ + kFound;
    for (const char* page = at_; page < found_ && page < end; page += kPage)
      __builtin_prefetch(page, 0, 2);
  }

  static constexpr int64_t kPage = 4096, kFound = 8 * kPage, kShortLines = 9;

  pto_runs runs_ = {};
  const char *at_ = nullptr, *found_ = nullptr;
  int64_t at_run_ = 0, lines_ = 0, left_ = 0;  // lines_ of the run
  int64_t turn_ = 0;                           // lines, or runs if these are short
  bool are_short_ = false;
};

// Asks for rows that pass soon, into the first cache and in the order of memory, in which CPUs read
// ahead by themselves. A CPU that waits for many lines forgets requests for others: so each is
// repeated, when half of as many rows have passed. Behind its rows it goes on.
class NearRows {
 public:
  NearRows() = default;  // none
  NearRows(const void* at, int64_t row, int64_t bytes, int count)
      : at_(static_cast<const char*>(at)), again_(-row * (count / 2)) {
    if (row == bytes) row = bytes *= count;
    lines_ = left_ = bytes > kLineBytes ? bytes / kLineBytes : 1;
    jump_ = row - lines_ * kLineBytes;
  }
  template <int Count>
  PTO_INLINE void ask() {
    if (left_ < Count) return ask_apart(Count);
    for (int i = 0; i < Count; ++i) ask_line(at_ + i * kLineBytes);
    pass(Count);
  }

 private:
  PTO_INLINE void ask_line(const char* line) const {
    __builtin_prefetch(line);
    __builtin_prefetch(line + again_);
  }
  PTO_INLINE void pass(int lines) {
    at_ += lines * kLineBytes, left_ -= lines;
    if (left_ == 0) at_ += jump_, left_ = lines_;
  }
  __attribute__((noinline)) void ask_apart(int lines) {
    for (; lines > 0; --lines) {
      ask_line(at_);
      pass(1);
    }
  }

  const char* at_ = nullptr;
  int64_t again_ = 0, jump_ = 0;  // bytes
  int64_t lines_ = 1, left_ = 1;  // of a row, and those that it still has
};

// Counts the products that share what comes next, from this one on.
inline int64_t parts_of(const pto_matmul_job& job) {
  return job.soon_parts > 1 ? job.soon_parts : 1;
}

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
