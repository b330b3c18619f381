// SPDX-License-Identifier: Apache-2.0
// The clock that waits and deadlines are measured with, and the pause of a loop that spins.
//
//     for (const int64_t end = now_ns() + 50'000; now_ns() < end && !is_ready();) pause_core();
//
// The clock is the system's monotonic one: the same in all processes of a machine.
// Thread safety: any thread.
#pragma once

#include <time.h>

#include <algorithm>
#include <cstdint>

namespace pto {

inline int64_t now_ns() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

// Returns so many seconds in nanoseconds: 0 for a negative number or NaN, 30 years at most.
inline int64_t span_ns(double seconds) {
  return seconds > 0 ? static_cast<int64_t>(std::min(seconds, 1e9) * 1e9) : 0;
}

// Leaves the core's other thread and its memory bus alone for some cycles.
inline void pause_core() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace pto
