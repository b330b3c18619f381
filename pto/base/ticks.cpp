// SPDX-License-Identifier: Apache-2.0
#include "pto/base/ticks.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

namespace pto {

double ns_of_a_tick() {
  static const double ns = [] {
    const int64_t start_ns = now_ns();
    const uint64_t first = read_ticks();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const uint64_t last = read_ticks();
    return double(now_ns() - start_ns) / double(std::max<uint64_t>(last - first, 1));
  }();
  return ns;
}

}  // namespace pto
