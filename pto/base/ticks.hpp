// SPDX-License-Identifier: Apache-2.0
// The clock of traces: counts ticks of its own, so that one reading takes about 10 ns.
//
//     const uint64_t start = read_ticks();
//     const double ns = double(read_ticks() - start) * ns_of_a_tick();
//
// Thread safety: any thread; ticks of all threads of a process have one origin.
#pragma once

#include <cstdint>

#include "pto/base/clock.hpp"

namespace pto {

inline uint64_t read_ticks() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#else
  return uint64_t(now_ns());
#endif
}

// Measured once, in 5 ms, against the system's clock.
double ns_of_a_tick();

}  // namespace pto
