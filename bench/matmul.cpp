// SPDX-License-Identifier: Apache-2.0
// TMATMUL of square tiles on one thread, beside the time that its multiply-adds take in registers
// alone, by the fastest instructions for their type: the peak of the same run.
//
//     ./matmul [TYPE...]        f32 f16 bf16 i8; one JSON line a case, as in pto/bench/runner.py
//
// A result is checked against plain sums before it is timed; a wrong one ends the program with 1.
#include <pto/bench/ceilings.h>

#include <cmath>
#include <memory>
#include <pto/pto-inst.hpp>
#include <vector>

#include "samples.hpp"

using namespace bench;
using namespace pto::isa;

namespace {

template <class A, class B, class C>
bool is_right(const A& a, const B& b, const C& c) {
  for (int i = 0; i < C::Rows; i += C::Rows / 8 + 3)
    for (int j = 0; j < C::Cols; j += C::Cols / 8 + 5) {
      double sum = 0;
      for (int k = 0; k < A::Cols; ++k)
        sum += double(a.GetElement(i, k)) * double(b.GetElement(k, j));
      if (std::fabs(double(c.GetElement(i, j)) - sum) > 1e-4 * A::Cols) return false;
    }
  return true;
}

// The kind of multiply-adds that is fastest here among those by which a type may be multiplied.
template <class T>
int fastest() {
  std::vector<int> kinds = {PTO_BENCH_F32};
  if (kSame<T, bfloat16_t>) kinds = {PTO_BENCH_F32, PTO_BENCH_BF16_PAIRS, PTO_BENCH_BF16_TILES};
  if (kSame<T, int8_t>) kinds = {PTO_BENCH_BYTES, PTO_BENCH_BYTE_TILES};
  double most = 0;
  int best = kinds[0];
  for (const int kind : kinds) {
    pto_bench_multiply_adds(kind, 1, 1);
    const double start = now(), done = pto_bench_multiply_adds(kind, 50, 1);
    const double rate = done / (now() - start);
    if (rate > most) most = rate, best = kind;
  }
  return best;
}

template <class T, class S, int N>
bool product(const char* dtype) {
  TileLeft<T, N, N> a;
  TileRight<T, N, N> b;
  TileAcc<S, N, N> c;
  for (int i = 0; i < N * N; ++i) {
    a.SetValue(i, T(float(i * 7 % 17 - 8) / (kSame<T, int8_t> ? 1 : 8)));
    b.SetValue(i, T(float(i * 5 % 19 - 9) / (kSame<T, int8_t> ? 1 : 8)));
  }
  TMATMUL(c, a, b);
  if (!is_right(a, b, c)) {
    std::fprintf(stderr, "TMATMUL of %d x %d %s: wrong\n", N, N, dtype);
    return false;
  }
  auto work = [&] { TMATMUL(c, a, b); };
  const int kind = fastest<T>();
  const double at_once = pto_bench_multiply_adds(kind, 1, 1);
  auto limit = [&] { pto_bench_multiply_adds(kind, 1, 1); };
  const std::string size = std::to_string(N);
  report({"TMATMUL", dtype, size + ", " + size + ", " + size, double(N) * N * N / at_once},
         {contender(work), contender(limit)});
  return true;
}

template <class T, class S>
bool products(const char* dtype, int count, char** chosen) {
  bool is_wanted = count == 1;
  for (int i = 1; i < count; ++i) is_wanted |= std::string(chosen[i]) == dtype;
  return !is_wanted ||
         (product<T, S, 64>(dtype) && product<T, S, 128>(dtype) && product<T, S, 256>(dtype) &&
          product<T, S, 512>(dtype) && product<T, S, 1024>(dtype));
}

}  // namespace

int main(int count, char** chosen) {
  return products<float, float>("f32", count, chosen) &&
                 products<half, float>("f16", count, chosen) &&
                 products<bfloat16_t, float>("bf16", count, chosen) &&
                 products<int8_t, int32_t>("i8", count, chosen)
             ? 0
             : 1;
}
