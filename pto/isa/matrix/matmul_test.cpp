// SPDX-License-Identifier: Apache-2.0
// Matrix products against a plain loop of fused multiply-adds, bit by bit: types, layouts, valid
// regions, NaN and infinities, each engine of libpto that this CPU has.
#include "pto/isa/matrix/matmul.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "pto/isa/cpu/engine.hpp"
#include "pto/isa/element/hifloat8.hpp"
#include "pto/isa/tile/tile_layouts.hpp"
#include "tests/isa_oracle.hpp"

namespace pto::matmul_test {
using namespace isa;

constexpr BLayout kRow = BLayout::RowMajor, kCol = BLayout::ColMajor;
constexpr SLayout kFlat = SLayout::NoneBox, kInRows = SLayout::RowMajor,
                  kInCols = SLayout::ColMajor;

template <TileType Where, class T, int R, int C, BLayout B, SLayout S, int Box = 512>
using Any = Tile<Where, T, R, C, B, DYNAMIC, DYNAMIC, S, Box>;
template <class T, int R, int C, BLayout B = kCol, SLayout S = kInRows>
using Left = Any<TileType::Left, T, R, C, B, S>;
template <class T, int R, int C, BLayout B = kRow, SLayout S = kInCols>
using Right = Any<TileType::Right, T, R, C, B, S>;
template <class T, int R, int C, BLayout B = kCol, SLayout S = kInRows>
using Acc = Any<TileType::Acc, T, R, C, B, S, 1024>;
template <class T, int C>
using Bias = Tile<TileType::Bias, T, 1, C>;

struct Sizes {
  int m, k, n;
};

// Reads a tile's elements, row by row, for the plain loop. Two numbers may share a byte.
template <class D>
using Value = typename Choose<kIsFloat<typename D::DType> || kIsTwin<typename D::DType>, float,
                              int32_t>::type;
template <class D>
__attribute__((noinline)) std::vector<Value<D>> values_of(const D& tile) {
  std::vector<Value<D>> values;
  for (int i = 0; i < D::Rows; ++i)
    for (int j = 0; j < D::Cols; ++j) {
      const int offset = D::Offset(i, j);
      if constexpr (kIsTwin<typename D::DType>) {
        const auto pair = tile.data()[offset / 2];
        values.push_back(offset % 2 ? pair.second() : pair.first());
      } else {
        values.push_back(Value<D>(tile.data()[offset]));
      }
    }
  return values;
}

// Fills with awkward numbers, also where the tile is not valid; ordinary ones where sums must stay
// finite.
template <class D>
__attribute__((noinline)) void scatter(D& tile, unsigned seed, bool is_finite) {
  using T = typename D::DType;
  for (int i = 0; i < D::kStored; ++i) {
    T value = awkward<T>(unsigned(i) * 7 + seed);
    if constexpr (kIsFloat<T>) {
      if (is_finite && !(std::fabs(float(value)) < 1e3f)) value = T(0.1f * float(i % 9 - 4));
    }
    tile.data()[i] = value;
  }
}

float chain(float sum, float a, float b) { return std::fma(a, b, sum); }
int32_t chain(int32_t sum, int32_t a, int32_t b) {
  return int32_t(uint32_t(sum) + uint32_t(a) * uint32_t(b));
}
float plus(float a, float b) { return a + b; }
int32_t plus(int32_t a, int32_t b) { return int32_t(uint32_t(a) + uint32_t(b)); }

// Runs the plain loop on rows x depth and depth x cols, `sizes` of them valid. Integers wrap.
template <class S>
struct Plain {
  Sizes sizes, full;
  std::vector<S> a, b, start, bias;

  // Compares the whole tile: elements beyond the valid region must keep their values. "" or the
  // difference.
  std::string wrong(const std::vector<S>& got, bool has_start, bool has_bias) const {
    for (int i = 0; i < full.m; ++i)
      for (int j = 0; j < full.n; ++j) {
        const size_t at = size_t(i * full.n + j);
        S want = start[at];
        if (i < sizes.m && j < sizes.n) {
          if (!has_start) want = 0;
          for (int k = 0; k < sizes.k; ++k)
            want = chain(want, a[size_t(i * full.k + k)], b[size_t(k * full.n + j)]);
          if (has_bias) want = plus(want, bias[size_t(j)]);
        }
        if (has_own_order && i < sizes.m && j < sizes.n && is_near(got[at], want, i, j)) continue;
        if (bits_of(got[at]) != bits_of(want) && (got[at] == got[at] || want == want))
          return "[" + std::to_string(i) + "," + std::to_string(j) + "] is " +
                 std::to_string(got[at]) + ", should be " + std::to_string(want);
      }
    return "";
  }

  // Tells whether a product that counts subnormals as zeros may differ so: twice the bound of
  // matmul_job.hpp, since the chain differs from the sum too. Sums may overflow in one order.
  bool is_near(S got, S want, int row, int col) const {
    if (!std::isfinite(double(got)) || !std::isfinite(double(want))) return true;
    double absolute = 0, lost = 0x1p-125;
    for (const S x : {start[size_t(row * full.n + col)], bias[size_t(col)]})
      absolute += std::isfinite(double(x)) ? std::fabs(double(x)) : 0;  // NaN: it is not added
    for (int k = 0; k < sizes.k; ++k) {
      const double x = double(a[size_t(row * full.k + k)]), y = double(b[size_t(k * full.n + col)]);
      const bool is_flushed = std::fabs(x) < 0x1p-126 || std::fabs(y) < 0x1p-126;
      (is_flushed ? lost : absolute) += std::fabs(x * y);
    }
    const double bound = (sizes.k + 3) * 0x1p-22 * absolute + (sizes.k + 1) * 0x1p-124 + lost;
    return std::fabs(double(got) - double(want)) <= bound;
  }
  bool has_own_order = false;  // of bf16, on the engines that have one
};

template <class A, class B, class C>
struct Product {
  using S = typename C::DType;

  Product(Sizes sizes, unsigned seed)
      : a(sizes.m, sizes.k), b(sizes.k, sizes.n), c(sizes.m, sizes.n), sizes(sizes) {
    const bool is_finite = seed % 2 == 0;
    scatter(a, seed, is_finite), scatter(b, seed + 1, is_finite);
    scatter(c, seed + 2, is_finite), scatter(bias, seed + 3, is_finite);
    start = c;
    read();
  }
  void read() {
    plain = {
        sizes,          {C::Rows, A::Cols, C::Cols}, values_of(a), values_of(b), values_of(start),
        values_of(bias)};
    pto_matmul_job job = {};
    job.a.type = job.b.type = PTO_MATMUL_BF16;
    plain.has_own_order =
        kSame<typename A::DType, bfloat16_t> && engine_of(job) > PTO_MATMUL_AVX512_VNNI;
  }
  // Compares the destination after a product, and restores it.
  std::string wrong(bool has_start, bool has_bias) {
    const std::string found = plain.wrong(values_of(c), has_start, has_bias);
    __builtin_memcpy(c.data(), start.data(), C::kStored * sizeof(S));
    return found;
  }

  A a;
  B b;
  C c, start;
  Bias<S, C::Cols> bias;
  Sizes sizes;
  Plain<S> plain;
};

template <class A, class B, class C>
void check_forms(Sizes sizes, unsigned seed) {
  const std::string where = std::to_string(sizes.m) + " x " + std::to_string(sizes.k) + " x " +
                            std::to_string(sizes.n) + ", seed " + std::to_string(seed);
  Product<A, B, C> p(sizes, seed);
  TMATMUL(p.c, p.a, p.b);
  ASSERT_EQ(p.wrong(false, false), "") << "TMATMUL " << where;
  TMATMUL_ACC(p.c, p.a, p.b);
  ASSERT_EQ(p.wrong(true, false), "") << "TMATMUL_ACC in place " << where;
  TMATMUL_BIAS<AccPhase::Final>(p.c, p.a, p.b, p.bias);
  ASSERT_EQ(p.wrong(false, true), "") << "TMATMUL_BIAS " << where;
}

template <class A, class B, class C>
void check_regions(int seeds = 60) {
  const int edges[] = {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64, 95, 96};
  const auto below = [&](unsigned n, int limit) {
    int size = edges[n % (sizeof(edges) / sizeof(int))];
    return size <= limit ? size : limit;
  };
  for (int seed = 0; seed < seeds; ++seed) {
    const unsigned n = unsigned(seed) * 2654435761u;
    const Sizes sizes = {below(n >> 8, C::Rows), below(n >> 14, A::Cols), below(n >> 20, C::Cols)};
    ASSERT_NO_FATAL_FAILURE((check_forms<A, B, C>(sizes, unsigned(seed))));
  }
  check_forms<A, B, C>({3, 0, 5}, 1);  // no terms: zeros, the accumulator, the bias
  check_forms<A, B, C>({0, 8, 5}, 1);  // no outputs
  check_forms<A, B, C>({3, 8, 0}, 1);
  check_forms<A, B, C>({C::Rows, A::Cols, C::Cols}, 2);
}

template <class T, class S>
void check_type() {
  check_regions<Left<T, 48, 96>, Right<T, 96, 64>, Acc<S, 48, 64>>();
}

TEST(Matmul, IsAChainOfFusedMultiplyAddsInFloat) { check_type<float, float>(); }
TEST(Matmul, WidensHalfExactly) { check_type<half, float>(); }
TEST(Matmul, WidensBfloat16Exactly) { check_type<bfloat16_t, float>(); }
TEST(Matmul, WrapsInIntegers) { check_type<int8_t, int32_t>(); }

template <class A, class B>
void check_narrow() {
  check_regions<Left<A, 32, 64>, Right<B, 64, 32>, Acc<float, 32, 32>>(12);
}
TEST(Matmul, WidensNarrowFloatsExactly) {
  check_narrow<float8_e4m3_t, float8_e4m3_t>();
  check_narrow<float8_e4m3_t, float8_e5m2_t>();
  check_narrow<float8_e5m2_t, float8_e4m3_t>();
  check_narrow<float8_e5m2_t, float8_e5m2_t>();
  check_narrow<hifloat8_t, hifloat8_t>();
}

TEST(Matmul, TakesOperandsInAnyLayout) {
  using C = Acc<float, 32, 48>;
  using Zn = Right<float, 64, 48>;
  check_regions<Left<float, 32, 64, kRow, kInRows>, Zn, C>(20);
  check_regions<Left<float, 32, 64, kRow, kInCols>, Zn, C>(20);
  check_regions<Left<float, 32, 64, kRow, kFlat>, Right<float, 64, 48, kRow, kFlat>, C>(20);
  check_regions<Left<float, 32, 64, kCol, kFlat>, Right<float, 64, 48, kCol, kFlat>, C>(20);
  using I = Acc<int32_t, 32, 64>;
  using Nz8 = Left<int8_t, 32, 64>;
  check_regions<Nz8, Right<int8_t, 64, 64, kCol, kInRows>, I>(20);
  check_regions<Left<int8_t, 32, 64, kCol, kFlat>, Right<int8_t, 64, 64, kCol, kInCols>, I>(20);
  using Nz = Left<half, 32, 64>;
  check_regions<Nz, Right<half, 64, 48, kCol, kInRows>, Acc<float, 32, 48, kRow, kFlat>>(20);
  check_regions<Nz, Right<half, 64, 48, kCol, kInCols>, Acc<float, 32, 48, kRow, kInCols>>(20);
}

TEST(Matmul, CrossesTheBlocksOfItsLoops) {
  using A = Left<float, 16, 528>;
  using B = Right<float, 528, 416>;
  check_forms<A, B, Acc<float, 16, 416>>({13, 521, 411}, 4);
  check_forms<A, B, Acc<float, 16, 416>>({16, 528, 416}, 6);
  check_forms<Left<int8_t, 16, 1088>, Right<int8_t, 1088, 64>, Acc<int32_t, 16, 64>>({9, 1063, 63},
                                                                                     8);
}

TEST(Matmul, AccumulatesFromAnotherTileInAnotherLayout) {
  using A = Left<float, 16, 32>;
  using B = Right<float, 32, 48>;
  Product<A, B, Acc<float, 16, 48>> p({11, 30, 41}, 2);
  Acc<float, 16, 48, kRow, kFlat> flat(11, 41);
  for (int i = 0; i < 11; ++i)
    for (int j = 0; j < 41; ++j) flat.SetElement(i, j, p.start.GetElement(i, j));
  RecordEvent event = TMATMUL_ACC<AccPhase::Partial>(p.c, flat, p.a, p.b);
  EXPECT_EQ(p.wrong(true, false), "");
  TMATMUL_ACC(p.c, p.start, p.a, p.b, event);
  EXPECT_EQ(p.wrong(true, false), "");
}

template <class T, class S, class U = T>
void check_vector() {
  Product<Left<T, 1, 96>, Right<U, 96, 64>, Acc<S, 1, 64>> p({1, 77, 59}, 3);
  TGEMV(p.c, p.a, p.b);
  EXPECT_EQ(p.wrong(false, false), "");
  TGEMV_ACC(p.c, p.a, p.b);
  EXPECT_EQ(p.wrong(true, false), "");
  TGEMV_ACC<AccPhase::Final>(p.c, p.start, p.a, p.b);
  EXPECT_EQ(p.wrong(true, false), "");
  TMATMUL_ACC(p.c, p.start, p.a, p.b);
  EXPECT_EQ(p.wrong(true, false), "");
  TGEMV_BIAS(p.c, p.a, p.b, p.bias);
  EXPECT_EQ(p.wrong(false, true), "");
}

TEST(Gemv, IsTheProductOfOneRow) {
  check_vector<float, float>();
  check_vector<half, float>();
  check_vector<bfloat16_t, float>();
  check_vector<int8_t, int32_t>();
  check_vector<float8_e4m3_t, float>();
  check_vector<hifloat8_t, float>();
  check_vector<float8_e5m2_t, float>();
  check_vector<float8_e4m3_t, float, float8_e5m2_t>();
  check_vector<float8_e5m2_t, float, float8_e4m3_t>();
}

// Scales, and operands that are multiplied by them for the plain loop.
template <class A, class B, int Rows, int K, int Cols>
struct Scaled : Product<Left<A, Rows, K>, Right<B, K, Cols>, Acc<float, Rows, Cols>> {
  using Element = float8_e8m0_t;
  Scaled(Sizes sizes, bool has_nan)
      : Product<Left<A, Rows, K>, Right<B, K, Cols>, Acc<float, Rows, Cols>>(sizes, 2) {
    codes(this->a, 1), codes(this->b, 2);
    exponents(a_scale, 5, has_nan), exponents(b_scale, 6, has_nan);
    this->read();
    const auto rows = values_of(a_scale), cols = values_of(b_scale);
    for (int k = 0; k < K; ++k) {
      for (int i = 0; i < Rows; ++i)
        this->plain.a[size_t(i * K + k)] *= rows[size_t(i * (K / 32) + k / 32)];
      for (int j = 0; j < Cols; ++j)
        this->plain.b[size_t(k * Cols + j)] *= cols[size_t(k / 32 * Cols + j)];
    }
  }
  template <class D>
  static void codes(D& tile, unsigned seed) {  // all of them, those of NaN included
    for (int i = 0; i < D::kStored; ++i)
      tile.data()[i].raw = uint8_t((unsigned(i) + seed) * 2654435761u >> 13);
  }
  template <class D>
  static void exponents(D& tile, unsigned seed, bool has_nan) {
    for (int i = 0; i < D::kStored; ++i)
      tile.data()[i].raw = uint8_t(120 + (unsigned(i) * 7 + seed) % 13);
    if (has_nan) tile.data()[1].raw = 255, tile.data()[0].raw = 0;
  }

  TileLeftScale<Element, Rows, K / 32> a_scale;
  TileRightScale<Element, K / 32, Cols> b_scale;
};

template <class A, class B>
void check_scaled() {
  for (const int n : {33, 64, 1}) {
    Scaled<A, B, 32, 128, 64> p({32 - n % 3, 128 - n % 5, n}, n == 1);
    TMATMUL_MX(p.c, p.a, p.a_scale, p.b, p.b_scale);
    EXPECT_EQ(p.wrong(false, false), "");
    TMATMUL_MX<AccPhase::Partial>(p.c, p.start, p.a, p.a_scale, p.b, p.b_scale);
    EXPECT_EQ(p.wrong(true, false), "");
    TMATMUL_MX(p.c, p.a, p.a_scale, p.b, p.b_scale, p.bias, RecordEvent());
    EXPECT_EQ(p.wrong(false, true), "");
  }
  Scaled<A, B, 1, 128, 64> v({1, 101, 61}, false);
  TGEMV_MX(v.c, v.a, v.a_scale, v.b, v.b_scale, RecordEvent());
  EXPECT_EQ(v.wrong(false, false), "");
  TGEMV_MX(v.c, v.start, v.a, v.a_scale, v.b, v.b_scale);
  EXPECT_EQ(v.wrong(true, false), "");
  TGEMV_MX<AccPhase::Final>(v.c, v.a, v.a_scale, v.b, v.b_scale, v.bias);
  EXPECT_EQ(v.wrong(false, true), "");
}

TEST(ScaledMatmul, MultipliesEachGroupOf32ByItsPowersOfTwo) {
  check_scaled<float8_e4m3_t, float8_e4m3_t>();
  check_scaled<float8_e4m3_t, float8_e5m2_t>();
  check_scaled<float8_e5m2_t, float8_e4m3_t>();
  check_scaled<float8_e5m2_t, float8_e5m2_t>();
}

TEST(ScaledMatmul, ReadsTwoNumbersFromAByte) {
  check_scaled<float4_e2m1x2_t, float4_e2m1x2_t>();
  check_scaled<float4_e2m1x2_t, float4_e1m2x2_t>();
  check_scaled<float4_e1m2x2_t, float4_e2m1x2_t>();
  check_scaled<float4_e1m2x2_t, float4_e1m2x2_t>();
}

// Runs each engine of the CPU over the same operands.
template <class A, class B, class C>
void check_engines(Sizes sizes, unsigned seed) {
  Product<A, B, C> p(sizes, seed);
  for (int engine = PTO_MATMUL_PORTABLE; engine <= PTO_MATMUL_AMX; ++engine) {
    const detail::NoTile none;
    pto_matmul_job job = detail::matmul_job(p.c, p.a, p.b, p.start, p.bias, none, none);
    job.engine = engine;
    if (pto_matmul(&job) != 0) continue;
    EXPECT_EQ(p.wrong(true, true), "") << "engine " << engine;
  }
}

TEST(Matmul, ReadsAPackedOperandAsTheOneThatItWasPackedFrom) {
  using A = Left<float, 16, 528, kRow, kFlat>;
  using B = Right<float, 528, 416, kRow, kFlat>;
  for (int engine : {PTO_MATMUL_PORTABLE, PTO_MATMUL_AVX2, PTO_MATMUL_AVX512}) {
    for (Sizes sizes : {Sizes{13, 521, 411}, Sizes{16, 528, 416}, Sizes{1, 1, 1}, Sizes{3, 9, 17},
                        Sizes{1, 521, 411}, Sizes{2, 528, 416}}) {
      Product<A, B, Acc<float, 16, 416>> p(sizes, 5);
      const detail::NoTile none;
      pto_matmul_job job = detail::matmul_job(p.c, p.a, p.b, p.start, p.bias, none, none);
      job.engine = engine;
      const size_t floats = size_t(pto_matmul_packed_bytes(&job)) / sizeof(float);
      std::vector<float> packed(floats + 1, -7.0f);
      job.packed = packed.data();
      job.packs = 1;
      if (pto_matmul(&job) != 0) continue;
      EXPECT_EQ(packed.back(), -7.0f) << "beyond what was promised";
      EXPECT_EQ(0, __builtin_memcmp(p.c.data(), p.start.data(), sizeof(float) * p.c.kStored));
      job.packs = 0;
      job.b.data = nullptr;
      ASSERT_EQ(pto_matmul(&job), 0);
      EXPECT_EQ(p.wrong(true, true), "") << "engine " << engine << ", depth " << sizes.k;
    }
  }
}

TEST(Matmul, EveryEngineGivesTheSameBits) {
  for (unsigned seed = 0; seed < 6; ++seed) {
    check_engines<Left<float, 32, 96>, Right<float, 96, 64>, Acc<float, 32, 64>>(
        {int(29 - seed), 91, int(63 - seed)}, seed);
    check_engines<Left<int8_t, 32, 96>, Right<int8_t, 96, 64>, Acc<int32_t, 32, 64>>(
        {int(29 - seed), int(95 - seed), 61}, seed);
    check_engines<Left<half, 32, 96>, Right<half, 96, 64, kCol, kInRows>, Acc<float, 32, 64>>(
        {31, int(96 - seed), int(64 - seed)}, seed);
  }
}

// Sums that a product rounded by itself, or a sum rounded twice, would miss by a bit.
TEST(Matmul, RoundsOnceEvenWithoutTheInstruction) {
  using A = Left<float, 16, 16>;
  Product<A, Right<float, 16, 16>, Acc<float, 16, 16>> p({16, 1, 16}, 2);
  uint64_t state = 88172645463325252u;
  const auto number = [&] {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    const int exponent = int(state >> 32) % 60 - 30;
    return std::ldexp(1.0f + float(state >> 41) * 0x1p-23f, exponent) * (state & 1 ? 1.0f : -1.0f);
  };
  for (int round = 0; round < 200; ++round) {
    for (int i = 0; i < 16; ++i) {
      p.a.SetElement(i, 0, number());
      p.b.SetElement(0, i, round % 3 == 0 ? std::ldexp(number(), -140) : number());
      for (int j = 0; j < 16; ++j) p.start.SetElement(i, j, number());
    }
    for (int i = 0; i < 16; ++i) {  // ties and near cancellations
      const float a = p.a.GetElement(i, 0), b = p.b.GetElement(0, i);
      p.start.SetElement(i, i, -a * b);
      p.start.SetElement(i, 15 - i, std::ldexp(a * b, 24));
    }
    // A sum just below a tie, by less than a double can tell: 1 + 2^-23 + 2^-24 - 2^-70.
    p.a.SetElement(0, 0, round % 2 ? 0x1.000002p-12f : -0x1.000002p-12f);
    p.b.SetElement(0, 0, 0x1.fffffcp-13f);
    p.start.SetElement(0, 0, round % 2 ? 0x1.000002p0f : -0x1.000002p0f);
    p.read();
    for (int engine = PTO_MATMUL_PORTABLE; engine <= PTO_MATMUL_AVX512; ++engine) {
      const detail::NoTile none;
      pto_matmul_job job = detail::matmul_job(p.c, p.a, p.b, p.start, none, none, none);
      job.engine = engine;
      if (pto_matmul(&job) != 0) continue;
      ASSERT_EQ(p.wrong(true, false), "") << "engine " << engine << ", round " << round;
    }
  }
}

}  // namespace pto::matmul_test
