// SPDX-License-Identifier: Apache-2.0
// The part that all kernel examples share: numbers to compute on, and the report of error and
// speed. This builds one:
//
//     flags=$(python -m pto config --cxxflags) libraries=$(python -m pto config --ldflags)
//     g++ -O2 $flags 1_softmax.cpp -o softmax $libraries
#pragma once
#include <pto/pto-inst.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

namespace example {

// Normal numbers, the same on every run.
inline std::vector<float> random_floats(size_t count, float scale = 1, unsigned seed = 1) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> values(count);
  for (float& value : values) value = normal(engine);
  return values;
}

// The median of several runs, in seconds.
template <class F>
double seconds(F run, int samples = 11) {
  std::vector<double> taken;
  run();
  for (int i = 0; i < samples; ++i) {
    const auto start = std::chrono::steady_clock::now();
    run();
    taken.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::sort(taken.begin(), taken.end());
  return taken[taken.size() / 2];
}

// The largest |got - want| / (1 + |want|).
template <class T>
double error(const std::vector<T>& got, const std::vector<double>& want) {
  double worst = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double off = std::fabs(double(got[i]) - want[i]) / (1 + std::fabs(want[i]));
    worst = off <= worst ? worst : off;  // NaN is worse than anything
  }
  return worst;
}

// Prints one line and gives main()'s result: 0 where the error is within its bound.
inline int report(const char* name, double worst, double bound, double work, const char* unit,
                  double taken) {
  std::printf("%s: error %.2g (at most %.2g), %.3g ms, %.4g %s\n", name, worst, bound, taken * 1e3,
              work / taken * 1e-9, unit);
  return worst <= bound ? 0 : 1;
}

}  // namespace example
