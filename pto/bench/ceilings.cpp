// SPDX-License-Identifier: Apache-2.0
// Writes each kind of work once, over vectors of each target, and runs the best that the CPU has.
#include "pto/bench/ceilings.h"

#include <algorithm>
#include <cstring>

#include "pto/isa/cpu/engine.hpp"
#include "pto/isa/cpu/tiles.hpp"
#include "pto/launch/pool.hpp"

namespace pto {
namespace {

constexpr int64_t kSteps = 1000;
constexpr int64_t kAhead = 4096;        // bytes that copies fetch ahead
using Run = double (*)(int64_t times);  // returns its multiply-adds

template <class T, int Bytes>
struct WideOf {
  typedef T type __attribute__((vector_size(Bytes)));
  typedef T loose __attribute__((vector_size(Bytes), aligned(1), may_alias));
};
template <class T, int Bytes>
using Wide = typename WideOf<T, Bytes>::type;

#if defined(__aarch64__)
#define PTO_REGISTER "w"
#elif defined(__SSE2__)
#define PTO_REGISTER "x"
#else
#define PTO_REGISTER "m"
#endif

// The compiler's own instructions.
struct Written {
  template <class V>
  static PTO_INLINE void step(V& sum, V& one) {
    sum += one * one;
    asm volatile("" : "+" PTO_REGISTER(sum), "+" PTO_REGISTER(one));
  }
};

// As many sums as hide the latency of one.
template <class Step, class V, int Sums, int EachLane = 1>
PTO_INLINE double multiply_add(int64_t times) {
  V one = {}, sum[Sums] = {};
  for (int64_t i = 0; i < times * kSteps; ++i) {
    PTO_UNROLL
    for (int j = 0; j < Sums; ++j) Step::step(sum[j], one);
  }
  return double(times * kSteps) * Sums * double(sizeof(V) / sizeof(V{}[0])) * EachLane;
}

// Four cache lines a turn; what is left over does not count.
template <int Bytes>
PTO_INLINE void read_part(const char* from, int64_t bytes) {
  using V = Wide<float, Bytes>;
  using Loose = typename WideOf<float, Bytes>::loose;
  constexpr int kAtOnce = 256 / Bytes;
  V sums[kAtOnce] = {};
  for (int64_t i = 0; i + 256 <= bytes; i += 256) {
    PTO_UNROLL
    for (int j = 0; j < kAtOnce; ++j) {
      sums[j] += *reinterpret_cast<const Loose*>(from + i + j * Bytes);
      asm volatile("" : "+" PTO_REGISTER(sums[j]));
    }
  }
}

template <int Bytes>
PTO_INLINE void copy_part(char* to, const char* from, int64_t bytes) {
  using Loose = typename WideOf<float, Bytes>::loose;
  int64_t i = 0;
  for (; i + Bytes <= bytes; i += Bytes) {
    if (i % 64 == 0) __builtin_prefetch(from + i + kAhead);
    *reinterpret_cast<Loose*>(to + i) = *reinterpret_cast<const Loose*>(from + i);
  }
  std::memcpy(to + i, from + i, size_t(bytes - i));
}

double f32_portable(int64_t times) { return multiply_add<Written, Wide<float, 16>, 8>(times); }
double f64_portable(int64_t times) { return multiply_add<Written, Wide<double, 16>, 8>(times); }
double i32_portable(int64_t times) { return multiply_add<Written, Wide<int32_t, 16>, 8>(times); }
double i64_portable(int64_t times) { return multiply_add<Written, Wide<int64_t, 16>, 8>(times); }
void read_portable(const char* from, int64_t bytes) { read_part<16>(from, bytes); }
void copy_portable(char* to, const char* from, int64_t bytes) { copy_part<16>(to, from, bytes); }

#if defined(__x86_64__)
#define PTO_AVX2 __attribute__((target("avx2,fma")))
#define PTO_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")))

// Steps of chosen instructions: %0 is the sum, %1 the factor, %2 a register to use.
#define PTO_STEP(name, constraint, text)                                                       \
  struct name {                                                                                \
    template <class V>                                                                         \
    static PTO_INLINE void step(V& sum, V& one) {                                              \
      V product;                                                                               \
      asm volatile(text : "+" constraint(sum), "+" constraint(one), "=&" constraint(product)); \
    }                                                                                          \
  }
PTO_STEP(FusedF32, "v", "vfmadd231ps %1, %1, %0");
PTO_STEP(FusedF64, "v", "vfmadd231pd %1, %1, %0");
PTO_STEP(PairsOfI16, "v", "vpmaddwd %1, %1, %2\n vpaddd %2, %0, %0");
PTO_STEP(QuadsOfBytes, "v", "vpdpbusd %1, %1, %0");
PTO_STEP(PairsOfBf16, "v", "vdpbf16ps %1, %1, %0");
PTO_STEP(SseBytes, "x", "movaps %1, %2\n pmaddwd %1, %2\n paddd %2, %0");
#undef PTO_STEP

constexpr int kAvx2 = 10, kAvx512 = 24;  // sums; the compiler's integers need room beside them
using V32 = Wide<float, 32>;
using V64 = Wide<float, 64>;
using I32 = Wide<int32_t, 32>;
using I64 = Wide<int32_t, 64>;

double bytes_portable(int64_t times) {
  return multiply_add<SseBytes, Wide<int32_t, 16>, 8, 2>(times);
}

PTO_AVX2 double f32_avx2(int64_t times) { return multiply_add<FusedF32, V32, kAvx2>(times); }
PTO_AVX2 double f64_avx2(int64_t times) {
  return multiply_add<FusedF64, Wide<double, 32>, kAvx2>(times);
}
PTO_AVX2 double i32_avx2(int64_t times) { return multiply_add<Written, I32, kAvx2>(times); }
PTO_AVX2 double i64_avx2(int64_t times) {
  return multiply_add<Written, Wide<int64_t, 32>, 6>(times);
}
PTO_AVX2 double bytes_avx2(int64_t times) { return multiply_add<PairsOfI16, I32, kAvx2, 2>(times); }
PTO_AVX2 void read_avx2(const char* from, int64_t bytes) { read_part<32>(from, bytes); }
PTO_AVX2 void copy_avx2(char* to, const char* from, int64_t bytes) {
  copy_part<32>(to, from, bytes);
}
PTO_AVX2 void stream_avx2(char* to, const char* from, int64_t bytes) {
  int64_t i = std::min<int64_t>(bytes, -reinterpret_cast<intptr_t>(to) & 31);
  std::memcpy(to, from, size_t(i));
  for (; i + 32 <= bytes; i += 32) {
    if (i % 64 < 32) __builtin_prefetch(from + i + kAhead);
    const V32 v = *reinterpret_cast<const WideOf<float, 32>::loose*>(from + i);
    asm volatile("vmovntps %1, %0" : "=m"(*reinterpret_cast<V32*>(to + i)) : "x"(v));
  }
  std::memcpy(to + i, from + i, size_t(bytes - i));
  asm volatile("sfence" : : : "memory");
}

PTO_AVX512 double f32_avx512(int64_t times) { return multiply_add<FusedF32, V64, kAvx512>(times); }
PTO_AVX512 double f64_avx512(int64_t times) {
  return multiply_add<FusedF64, Wide<double, 64>, kAvx512>(times);
}
PTO_AVX512 double i32_avx512(int64_t times) { return multiply_add<Written, I64, kAvx512>(times); }
PTO_AVX512 double i64_avx512(int64_t times) {
  return multiply_add<Written, Wide<int64_t, 64>, kAvx512>(times);
}
PTO_AVX512 double bytes_avx512(int64_t times) {
  return multiply_add<PairsOfI16, I64, kAvx512, 2>(times);
}
PTO_AVX512 double bytes_vnni(int64_t times) {
  return multiply_add<QuadsOfBytes, I64, kAvx512, 4>(times);
}
PTO_AVX512 double pairs_of_bf16(int64_t times) {
  return multiply_add<PairsOfBf16, V64, kAvx512, 2>(times);
}
PTO_AVX512 void read_avx512(const char* from, int64_t bytes) { read_part<64>(from, bytes); }
PTO_AVX512 void copy_avx512(char* to, const char* from, int64_t bytes) {
  copy_part<64>(to, from, bytes);
}

// Tiles of numbers of both signs, whose bits are as mixed as those of real operands. Zeros take
// less power: a CPU multiplies tiles of them faster than it could ever multiply numbers.
template <bool IsBytes>
struct Numbers {
  uint8_t tile[4][1024];
  Numbers() {
    uint32_t seed = 1;
    for (int i = 0; i < 4 * 1024; ++i) {
      seed = seed * 1664525u + 1013904223u;
      const bool is_upper = !IsBytes && i % 2 == 1;  // a bf16 below 2 and above 2^-7
      tile[i / 1024][i % 1024] =
          is_upper ? uint8_t(((seed >> 24) & 0x83) | 0x3c) : uint8_t(seed >> 24);
    }
  }
};

// Four tiles of sums, as products have them.
template <bool IsBytes>
double tiles(int64_t times) {
  using T = isa::matmul::HardwareTiles;
  isa::matmul::TileConfig config;
  for (int i = 0; i < 8; ++i) config.set(i, 16, 64);
  T::configure(config);
  T::zero<0>(), T::zero<1>(), T::zero<2>(), T::zero<3>();
  static const Numbers<IsBytes> numbers;
  T::load<4>(numbers.tile[0], 64), T::load<5>(numbers.tile[1], 64);
  T::load<6>(numbers.tile[2], 64), T::load<7>(numbers.tile[3], 64);
  for (int64_t i = 0; i < times * kSteps; ++i) {
    if constexpr (IsBytes) {
      T::add_bytes<0, 4, 6, true, true>(), T::add_bytes<1, 4, 7, true, true>();
      T::add_bytes<2, 5, 6, true, true>(), T::add_bytes<3, 5, 7, true, true>();
    } else {
      T::add_bf16<0, 4, 6>(), T::add_bf16<1, 4, 7>();
      T::add_bf16<2, 5, 6>(), T::add_bf16<3, 5, 7>();
    }
  }
  T::release();
  return double(times * kSteps) * 4 * 16 * 16 * (IsBytes ? 64 : 32);
}

bool has_tiles_of(int32_t type) {
  pto_matmul_job job = {};
  job.a.type = job.b.type = type;
  return engine_of(job) == PTO_MATMUL_AMX;
}

Run run_of(int32_t kind) {
  const int best = best_engine();
  const int of = best >= PTO_MATMUL_AVX512 ? 2 : best >= PTO_MATMUL_AVX2;
  const bool has_pairs = of == 2 && __builtin_cpu_supports("avx512bf16");
  const Run f32[] = {f32_portable, f32_avx2, f32_avx512};
  const Run f64[] = {f64_portable, f64_avx2, f64_avx512};
  const Run i32[] = {i32_portable, i32_avx2, i32_avx512};
  const Run i64[] = {i64_portable, i64_avx2, i64_avx512};
  const Run pairs[] = {bytes_portable, bytes_avx2, bytes_avx512};
  switch (kind) {
    case PTO_BENCH_F32:
      return f32[of];
    case PTO_BENCH_F64:
      return f64[of];
    case PTO_BENCH_I32:
      return i32[of];
    case PTO_BENCH_I64:
      return i64[of];
    case PTO_BENCH_BYTES:
      return best >= PTO_MATMUL_AVX512_VNNI ? bytes_vnni : pairs[of];
    case PTO_BENCH_BF16_PAIRS:
      return has_pairs ? pairs_of_bf16 : nullptr;
    case PTO_BENCH_BF16_TILES:
      return has_tiles_of(PTO_MATMUL_BF16) ? tiles<false> : nullptr;
    case PTO_BENCH_BYTE_TILES:
      return has_tiles_of(PTO_MATMUL_I8) ? tiles<true> : nullptr;
  }
  return nullptr;
}

using Copy = void (*)(char*, const char*, int64_t);
Copy copy_of(bool streams) {
  const int best = best_engine();
  if (best < PTO_MATMUL_AVX2) return copy_portable;
  return streams ? stream_avx2 : best < PTO_MATMUL_AVX512 ? copy_avx2 : copy_avx512;
}

using Read = void (*)(const char*, int64_t);
Read read_of() {
  const int best = best_engine();
  return best < PTO_MATMUL_AVX2     ? read_portable
         : best < PTO_MATMUL_AVX512 ? read_avx2
                                    : read_avx512;
}
#else
Run run_of(int32_t kind) {
  switch (kind) {
    case PTO_BENCH_F32:
      return f32_portable;
    case PTO_BENCH_F64:
      return f64_portable;
    case PTO_BENCH_I32:
      return i32_portable;
    case PTO_BENCH_I64:
      return i64_portable;
  }
  return nullptr;
}
auto copy_of(bool) { return copy_portable; }
auto read_of() { return read_portable; }
#endif

// Calls function(part, parts) for all parts on that many threads.
template <class F>
void on_threads(int32_t threads, int32_t parts, F function) {
  struct Call {
    F* function;
    int32_t parts;
  } call = {&function, parts};
  const ScopedThreadLimit limit(threads);
  const auto run = [](void* context, int32_t part) -> int32_t {
    const Call& made = *static_cast<Call*>(context);
    (*made.function)(part, made.parts);
    return 0;
  };
  parallel_for(parts, run, &call);
}

// Where a part begins; parts begin at cache lines.
int64_t begin_of(int64_t part, int64_t parts, int64_t bytes) {
  return part == parts ? bytes : bytes / parts * part / 64 * 64;
}

}  // namespace
}  // namespace pto

double pto_bench_multiply_adds(int32_t kind, int64_t times, int32_t threads) {
  const pto::Run run = pto::run_of(kind);
  double of_one = 0;
  if (!run) return 0;
  pto::on_threads(threads, threads, [&](int32_t part, int32_t) {
    const double made = run(times);
    if (part == 0) of_one = made;
  });
  return of_one * threads;
}

void pto_bench_read(const void* from, int64_t bytes, int64_t times, int32_t threads) {
  const auto read = pto::read_of();
  pto::on_threads(threads, threads, [=](int32_t part, int32_t parts) {
    const int64_t begin = pto::begin_of(part, parts, bytes);
    const int64_t size = pto::begin_of(part + 1, parts, bytes) - begin;
    for (int64_t k = 0; k < times; ++k) read(static_cast<const char*>(from) + begin, size);
  });
}

void pto_bench_copy(void* to, const void* from, int64_t bytes, int64_t times, int32_t stream,
                    int32_t threads) {
  const auto copy = pto::copy_of(stream != 0);
  const int32_t parts_of_all = threads == 1 || times > 1 ? threads : 4 * threads;
  pto::on_threads(threads, parts_of_all, [=](int32_t part, int32_t parts) {
    const int64_t begin = pto::begin_of(part, parts, bytes);
    const int64_t size = pto::begin_of(part + 1, parts, bytes) - begin;
    for (int64_t k = 0; k < times; ++k)
      copy(static_cast<char*>(to) + begin, static_cast<const char*>(from) + begin, size);
  });
}
