// SPDX-License-Identifier: Apache-2.0
// Timing of C++ benches: contenders that take turns, and a JSON line for each case, as
// pto/bench/runner.py writes them.
//
//     const auto work = [&] { TMATMUL(c, a, b); };
//     report({"TMATMUL", "f32", "64, 64, 64"}, {contender(work), contender(limit)});
//
// Invariant: all contenders of a case run in one process, a sample each in turn; the first is ours,
// the others are limits, of which the largest is the ceiling.
// Thread safety: none.
#pragma once
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

namespace bench {

constexpr int kRounds = 11;
constexpr double kSample = 1e-3;  // seconds

inline double now() {
  using Clock = std::chrono::steady_clock;
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

// A function repeated, so that the call through a pointer does not count.
using Repeated = void (*)(void* context, long times);

struct Contender {
  Repeated run;
  void* context;
  long times = 1;
  std::vector<double> seconds;

  void sample() {
    run(context, 1);
    const double start = now();
    run(context, times);
    seconds.push_back((now() - start) / double(times));
  }
  void calibrate() {
    for (double taken = 0; taken < kSample / 2; times *= 2) {
      const double start = now();
      run(context, times);
      taken = now() - start;
    }
  }
  double quantile(double part) {
    std::sort(seconds.begin(), seconds.end());
    return seconds[size_t(part * double(seconds.size() - 1) + 0.5)];
  }
};

template <class F>
Contender contender(F& f) {
  return {[](void* context, long times) {
            F& function = *static_cast<F*>(context);
            for (long i = 0; i < times; ++i) {
              function();
              asm volatile("" ::: "memory");
            }
          },
          &f,
          1,
          {}};
}

struct Facts {
  const char* name;
  const char* dtype;
  std::string size;        // "32, 64"
  double limit_calls = 1;  // how often a limit is reached in one call of ours
};

inline void report(const Facts& facts, std::vector<Contender> all) {
  for (Contender& c : all) c.calibrate();
  for (int round = 0; round < kRounds; ++round)
    for (Contender& c : all) c.sample();
  double ceiling = 0;
  for (size_t i = 1; i < all.size(); ++i)
    ceiling = std::max(ceiling, all[i].quantile(0.5) * facts.limit_calls);
  Contender& ours = all[0];
  std::printf(
      "{\"case\": \"%s\", \"size\": [%s], \"dtype\": \"%s\", \"contender\": \"pto\", "
      "\"threads\": 1, \"median_s\": %.4g, \"p10_s\": %.4g, \"p90_s\": %.4g, "
      "\"ceiling_s\": %.4g}\n",
      facts.name, facts.size.c_str(), facts.dtype, ours.quantile(0.5), ours.quantile(0.1),
      ours.quantile(0.9), ceiling);
  std::fflush(stdout);
}

}  // namespace bench
