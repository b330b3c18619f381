// SPDX-License-Identifier: Apache-2.0
// Matrix products of f16 and bf16 whose results are of that type: against the sums in floats.
#include <gtest/gtest.h>

#include <vector>

#include "pto/isa/cpu/matmul_job.hpp"
#include "pto/pto-inst.hpp"

namespace pto::matmul_rounded_test {
namespace {

struct Sizes {
  int m, k, n;
};

// Checks a product whose result is of T, as its operands are, against the sums in floats.
template <class T>
void check_rounded(const Sizes& s, int engine, int type, bool is_turned) {
  const int gap = 2 + s.n % 2;
  std::vector<T> a(size_t(s.m) * (s.k + gap)), b(size_t(s.k) * s.n), c(size_t(s.m) * (s.n + gap));
  unsigned n = unsigned(s.k + s.n);
  for (std::vector<T>* x : {&a, &b})
    for (T& value : *x) {
      n = n * 1664525u + 1013904223u;
      value = T(float(int(n >> 8) % 2001 - 1000) / 256);
    }
  a[size_t(s.k) / 2] = T(__builtin_inff()), b[0] = T(-0.0f);
  const auto of = [](void* data, int element, int64_t row, int64_t col) -> pto_matmul_matrix {
    return {data, element, PTO_MATMUL_UNBOXED, PTO_MATMUL_UNBOXED, 0, 0, row, col};
  };
  std::vector<float> sums(size_t(s.m) * s.n), bias(size_t(s.n), 0.5f);
  pto_matmul_job job = {};
  job.engine = engine;
  job.rows = s.m, job.depth = s.k, job.cols = s.n;
  job.a = of(a.data(), type, s.k + gap, 1);
  job.b = is_turned ? of(b.data(), type, 1, s.k) : of(b.data(), type, s.n, 1);
  if (is_turned) job.bias = of(bias.data(), PTO_MATMUL_F32, 0, 1);
  job.c = of(sums.data(), PTO_MATMUL_F32, s.n, 1);
  if (s.k > pto_matmul_narrow_depth(&job)) return;
  if (pto_matmul(&job) != 0) return;
  job.c = of(c.data(), type, s.n + gap, 1);
  ASSERT_EQ(pto_matmul(&job), 0);
  for (int i = 0; i < s.m; ++i)
    for (int j = 0; j < s.n + gap; ++j) {
      const T found = c[size_t(i) * (s.n + gap) + j];
      const T wanted = j < s.n ? T(sums[size_t(i) * s.n + j]) : T(0.0f);
      if (wanted != wanted && found != found) continue;  // a NaN of other bits
      ASSERT_EQ(0, __builtin_memcmp(&wanted, &found, sizeof(T)))
          << s.m << " x " << s.k << " x " << s.n << " engine " << engine << " at " << i << ", "
          << j;
    }
}

TEST(Matmul, RoundsItsSumsOnceToAResultAsNarrowAsItsOperands) {
  for (int engine = PTO_MATMUL_PORTABLE; engine <= PTO_MATMUL_AMX; ++engine)
    for (const Sizes sizes :
         {Sizes{1, 1, 1}, Sizes{13, 40, 37}, Sizes{150, 70, 200}, Sizes{30, 33, 70},
          Sizes{5, 512, 31}, Sizes{14, 1024, 64}, Sizes{9, 2112, 33}}) {
      for (const bool is_turned : {false, true}) {
        ASSERT_NO_FATAL_FAILURE(check_rounded<half>(sizes, engine, PTO_MATMUL_F16, is_turned));
        ASSERT_NO_FATAL_FAILURE(
            check_rounded<bfloat16_t>(sizes, engine, PTO_MATMUL_BF16, is_turned));
      }
    }
}

}  // namespace
}  // namespace pto::matmul_rounded_test
