// SPDX-License-Identifier: Apache-2.0
// The opponent: fused row kernels written by hand with intrinsics, and the copies that bound them.
//
// Compiled by bench/reference.py with -march=native; the widest of AVX-512 and AVX2 is taken.
// Tricks: everything that a row needs stays in registers and in a row buffer in L1; the next row
// (or 4 KB ahead) is prefetched while this one is computed; `stream` stores past the cache.
// Invariants: columns are a multiple of 64 and at most kColumnsMax; arrays are 64-byte aligned
// where `stream` is set. Rows are independent, so the split into blocks does not change results.
// Thread safety: any thread.
#include <immintrin.h>
#include <math.h>
#include <stdint.h>

namespace {

#if defined(__AVX512F__)
using V = __m512;
constexpr int kLanes = 16;
inline V splat(float x) { return _mm512_set1_ps(x); }
inline V load(const float* p) { return _mm512_loadu_ps(p); }
inline void keep(float* p, V v) { _mm512_storeu_ps(p, v); }
inline void stream(float* p, V v) { _mm512_stream_ps(p, v); }
inline V fma(V a, V b, V c) { return _mm512_fmadd_ps(a, b, c); }
inline V larger(V a, V b) { return _mm512_max_ps(a, b); }
inline V magnitude(V a) { return _mm512_abs_ps(a); }
inline float sum(V a) { return _mm512_reduce_add_ps(a); }
inline float largest(V a) { return _mm512_reduce_max_ps(a); }
inline V reciprocal(V x) {
  const V y = _mm512_rcp14_ps(x);
  return y * fma(splat(0) - x, y, splat(2));
}
// exp: 2^n * 2^(k/16) by a table in a register, the rest by a cubic; about 1 ULP.
inline V exponential(V x) {
  const V table =
      _mm512_setr_ps(1.f, 1.04427378f, 1.09050773f, 1.13878863f, 1.18920712f, 1.24185781f,
                     1.29683955f, 1.35425555f, 1.41421356f, 1.47682615f, 1.54221083f, 1.61049033f,
                     1.68179283f, 1.75625216f, 1.83400809f, 1.91520656f);
  const V magic = splat(786432.f);  // 1.5 * 2^19: rounds to sixteenths, low mantissa bits = k
  const V shifted = fma(x, splat(1.44269504f), magic);
  const V n = shifted - magic;
  const V r = fma(n, splat(2.12194440e-4f), fma(n, splat(-0.693359375f), x));
  const V root = _mm512_permutexvar_ps(_mm512_castps_si512(shifted), table);
  const V cubic = fma(fma(splat(0.16666815f), r, splat(0.50001618f)), r * r, r);
  return _mm512_scalef_ps(fma(cubic, root, root), n);  // scalef takes the floor of n
}
#elif defined(__AVX2__)
using V = __m256;
constexpr int kLanes = 8;
inline V splat(float x) { return _mm256_set1_ps(x); }
inline V load(const float* p) { return _mm256_loadu_ps(p); }
inline void keep(float* p, V v) { _mm256_storeu_ps(p, v); }
inline void stream(float* p, V v) { _mm256_stream_ps(p, v); }
inline V fma(V a, V b, V c) { return _mm256_fmadd_ps(a, b, c); }
inline V larger(V a, V b) { return _mm256_max_ps(a, b); }
inline V magnitude(V a) { return _mm256_andnot_ps(splat(-0.f), a); }
inline float sum(V a) {
  __m128 s = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
inline float largest(V a) {
  __m128 m = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  m = _mm_max_ps(m, _mm_movehl_ps(m, m));
  return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
}
inline V reciprocal(V x) { return splat(1) / x; }
// exp: degree 6 after the reduction by ln 2 in two parts; about 1 ULP, clamped to finite results.
inline V exponential(V x) {
  x = _mm256_min_ps(larger(x, splat(-87.3f)), splat(88.37f));
  const V magic = splat(12582912.f);  // 1.5 * 2^23: rounds to integers
  const V shifted = fma(x, splat(1.44269504f), magic);
  const V n = shifted - magic;
  const V r = fma(n, splat(2.12194440e-4f), fma(n, splat(-0.693359375f), x));
  V q = fma(splat(0.00138146110f), r, splat(0.00836871004f));
  q = fma(q, r, splat(0.0416683874f));
  q = fma(q, r, splat(0.166665207f));
  q = fma(q, r, splat(0.499999935f));
  q = fma(q, r * r, r) + splat(1);
  const __m256i exponent = _mm256_slli_epi32(_mm256_castps_si256(shifted), 23);
  return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(q), exponent));
}
#else
#error "the reference needs AVX2 or AVX-512"
#endif

constexpr int kColumnsMax = 8192;
constexpr int kStep = 4 * kLanes;   // four vectors at a time hide the latency of fma
constexpr int kAheadFloats = 1024;  // 4 KB
constexpr int kLineFloats = 16;     // 64 bytes

inline void prefetch(const float* p) {
  for (int i = 0; i < kStep; i += kLineFloats) {
    _mm_prefetch(reinterpret_cast<const char*>(p + i), _MM_HINT_T0);
  }
}

template <bool kStream>
inline void put(float* p, V v) {
  if (kStream)
    stream(p, v);
  else
    keep(p, v);
}

// x * sigmoid(2u) is the tanh form of GELU; 2u = x (a + b x^2).
inline V gelu_tanh(V x) {
  const V u2 = x * fma(x * x, splat(0.0713548163f), splat(1.59576912f));
  return x * reciprocal(splat(1) + exponential(splat(0) - u2));
}

// erf by formula 7.1.26 of Abramowitz and Stegun, absolute error 1.5e-7.
inline V gelu_erf(V x) {
  const V a = magnitude(x) * splat(0.707106781f);
  const V t = reciprocal(fma(a, splat(0.3275911f), splat(1)));
  V p = fma(splat(1.061405429f), t, splat(-1.453152027f));
  p = fma(p, t, splat(1.421413741f));
  p = fma(p, t, splat(-0.284496736f));
  p = fma(p, t, splat(0.254829592f));
  const V half = splat(0.5f) * magnitude(x);
  const V tail = half * (p * t) * exponential(splat(0) - a * a);
  return fma(splat(0.5f), x, half - tail);
}

inline V silu(V x) { return x * reciprocal(splat(1) + exponential(splat(0) - x)); }

struct Rows {
  const float *x, *y, *gain, *bias;
  float* out;
  int64_t rows, columns;
  float eps;
};

template <bool kStream, class F>
inline void map_rows(const Rows& a, F value) {
  for (int64_t r = 0; r < a.rows; ++r) {
    const int64_t at = r * a.columns;
    for (int64_t c = 0; c < a.columns; c += kStep) {
      prefetch(a.x + at + c + kAheadFloats);
      if (a.y) prefetch(a.y + at + c + kAheadFloats);
      V v[4];
      for (int u = 0; u < 4; ++u) v[u] = value(at + c + u * kLanes, c + u * kLanes);
      for (int u = 0; u < 4; ++u) put<kStream>(a.out + at + c + u * kLanes, v[u]);
    }
  }
}

template <bool kStream>
void softmax(const Rows& a) {
  alignas(64) float row[kColumnsMax];
  for (int64_t r = 0; r < a.rows; ++r) {
    const float* x = a.x + r * a.columns;
    float* out = a.out + r * a.columns;
    V m[4] = {splat(-INFINITY), splat(-INFINITY), splat(-INFINITY), splat(-INFINITY)};
    for (int64_t c = 0; c < a.columns; c += kStep) {
      for (int u = 0; u < 4; ++u) m[u] = larger(m[u], load(x + c + u * kLanes));
    }
    const V top = splat(largest(larger(larger(m[0], m[1]), larger(m[2], m[3]))));
    V s[4] = {splat(0), splat(0), splat(0), splat(0)};
    for (int64_t c = 0; c < a.columns; c += kStep) {
      prefetch(x + a.columns + c);
      for (int u = 0; u < 4; ++u) {
        const V e = exponential(load(x + c + u * kLanes) - top);
        s[u] += e;
        keep(row + c + u * kLanes, e);
      }
    }
    const V scale = splat(1.f / sum((s[0] + s[1]) + (s[2] + s[3])));
    for (int64_t c = 0; c < a.columns; c += kLanes) put<kStream>(out + c, load(row + c) * scale);
  }
}

// layernorm (kCentre) or rmsnorm of x, or of x + y where y is given.
template <bool kStream, bool kCentre, bool kAdd>
void normalise(const Rows& a) {
  alignas(64) float row[kColumnsMax];
  const float per_column = 1.f / static_cast<float>(a.columns);
  for (int64_t r = 0; r < a.rows; ++r) {
    const float* x = a.x + r * a.columns;
    const float* y = a.y + (kAdd ? r * a.columns : 0);
    float* out = a.out + r * a.columns;
    V s[4] = {splat(0), splat(0), splat(0), splat(0)};
    for (int64_t c = 0; c < a.columns; c += kStep) {
      prefetch(x + a.columns + c);
      if (kAdd) prefetch(y + a.columns + c);
      for (int u = 0; u < 4; ++u) {
        V v = load(x + c + u * kLanes);
        if (kAdd) {
          v += load(y + c + u * kLanes);
          keep(row + c + u * kLanes, v);
        }
        s[u] = kCentre ? s[u] + v : fma(v, v, s[u]);
      }
    }
    const float* z = kAdd ? row : x;
    float total = sum((s[0] + s[1]) + (s[2] + s[3]));
    V mean = splat(0);
    if (kCentre) {
      mean = splat(total * per_column);
      for (V& v : s) v = splat(0);
      for (int64_t c = 0; c < a.columns; c += kStep) {
        for (int u = 0; u < 4; ++u) {
          const V d = load(z + c + u * kLanes) - mean;
          s[u] = fma(d, d, s[u]);
        }
      }
      total = sum((s[0] + s[1]) + (s[2] + s[3]));
    }
    const V scale = splat(1.f / __builtin_sqrtf(total * per_column + a.eps));
    for (int64_t c = 0; c < a.columns; c += kLanes) {
      const V v = (load(z + c) - mean) * scale;
      put<kStream>(out + c,
                   kCentre ? fma(v, load(a.gain + c), load(a.bias + c)) : v * load(a.gain + c));
    }
  }
}

template <bool kStream>
void run_rows(int32_t kernel, const Rows& a) {
  const auto biased = [&](int64_t i, int64_t c) { return load(a.x + i) + load(a.bias + c); };
  switch (kernel) {
    case 0:
      softmax<kStream>(a);
      break;
    case 1:
      normalise<kStream, true, false>(a);
      break;
    case 2:
      normalise<kStream, true, true>(a);
      break;
    case 3:
      normalise<kStream, false, false>(a);
      break;
    case 4:
      map_rows<kStream>(a, [&](int64_t i, int64_t c) { return gelu_erf(biased(i, c)); });
      break;
    case 5:
      map_rows<kStream>(a, [&](int64_t i, int64_t c) { return gelu_tanh(biased(i, c)); });
      break;
    case 6:
      map_rows<kStream>(a, [&](int64_t i, int64_t) { return silu(load(a.x + i)) * load(a.y + i); });
      break;
  }
  if (kStream) _mm_sfence();
}

}  // namespace

extern "C" {

typedef int32_t (*parallel_for)(int32_t blocks, int32_t (*)(void*, int32_t), void* context);

// Arrays of rows x columns floats; gain and bias hold one row.
struct Job {
  parallel_for parallel;
  int32_t kernel, stream, blocks;
  float eps;
  const float *x, *y, *gain, *bias;
  float* out;
  int64_t rows, columns;
};

static int32_t run_block(void* context, int32_t block) {
  const Job& job = *static_cast<const Job*>(context);
  const int64_t begin = job.rows * block / job.blocks;
  const int64_t end = job.rows * (block + 1) / job.blocks;
  const int64_t at = begin * job.columns;
  const Rows rows{job.x + at,   job.y ? job.y + at : nullptr,
                  job.gain,     job.bias,
                  job.out + at, end - begin,
                  job.columns,  job.eps};
  if (job.stream)
    run_rows<true>(job.kernel, rows);
  else
    run_rows<false>(job.kernel, rows);
  return 0;
}

__attribute__((visibility("default"))) int32_t reference_run(Job* job) {
  if (job->columns % 64 != 0 || job->columns > kColumnsMax) return 1;
  if (job->blocks <= 1) return run_block(job, 0);
  return job->parallel(job->blocks, run_block, job);
}

// An operator's `allocate`: the output goes where `user` points.
__attribute__((visibility("default"))) void* reference_place(void* user, int32_t, const int64_t*,
                                                             int32_t, int32_t) {
  return user;
}

}  // extern "C"
