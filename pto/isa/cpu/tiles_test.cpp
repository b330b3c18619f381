// SPDX-License-Identifier: Apache-2.0
// Products of tiles by an emulation of the tile operations: the operations against the manual's
// words, and all of the loops' layouts, tails, packing and blocks against a plain loop, bit by bit.
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include "pto/isa/cpu/matmul_types.hpp"
#include "pto/isa/cpu/tile_product.hpp"
#include "tests/deep.hpp"
#include "tests/matmul_cases.hpp"
#include "tests/tile_emulation.hpp"

namespace pto::tiles_test {
using namespace isa;
using isa::matmul::TileConfig;

TileConfig whole() {
  TileConfig config;
  for (int t = 0; t < 8; ++t) config.set(t, 16, 64);
  return config;
}

TEST(EmulatedTiles, RefuseWhatTheConfigurationMayNotHold) {
  EXPECT_EQ(EmulatedTiles::fault_of(whole()), "");
  EXPECT_EQ(EmulatedTiles::fault_of(TileConfig()), "");
  const auto fault = [](auto change) {
    TileConfig config = whole();
    change(config);
    return EmulatedTiles::fault_of(config);
  };
  EXPECT_EQ(fault([](TileConfig& c) { c.palette = 2; }), "palette");
  EXPECT_EQ(fault([](TileConfig& c) { c.palette = 0, c.rows[3] = 99; }), "");
  EXPECT_EQ(fault([](TileConfig& c) { c.reserved[13] = 1; }), "reserved byte");
  EXPECT_EQ(fault([](TileConfig& c) { c.rows[8] = 1; }), "tile beyond the palette's");
  EXPECT_EQ(fault([](TileConfig& c) { c.row_bytes[15] = 1; }), "tile beyond the palette's");
  EXPECT_EQ(fault([](TileConfig& c) { c.rows[7] = 17; }), "rows");
  EXPECT_EQ(fault([](TileConfig& c) { c.row_bytes[0] = 65; }), "bytes of a row");
  EXPECT_EQ(fault([](TileConfig& c) { c.rows[2] = 0; }), "either rows or bytes of a row");
  EXPECT_EQ(fault([](TileConfig& c) { c.row_bytes[2] = 0; }), "either rows or bytes of a row");
}

TEST(EmulatedTiles, RefuseTilesThatDoNotFit) {
  EmulatedTiles::release();
  EXPECT_NONFATAL_FAILURE(EmulatedTiles::zero<1>(), "#UD: tile 1 is not configured");
  const auto fault = [](int tile, int rows, int bytes) {
    TileConfig config = whole();
    config.set(tile, rows, bytes);
    EmulatedTiles::configure(config);
    EmulatedTiles::add_bf16<0, 4, 6>();
  };
  fault(1, 3, 5);
  EXPECT_NONFATAL_FAILURE(fault(6, 16, 62), "bytes of a row");
  EXPECT_NONFATAL_FAILURE(fault(6, 16, 60), "columns");
  EXPECT_NONFATAL_FAILURE(fault(4, 15, 64), "rows");
  EXPECT_NONFATAL_FAILURE(fault(6, 15, 64), "depth");
  EXPECT_NONFATAL_FAILURE(fault(0, 0, 0), "tile 0 is not configured");
  EmulatedTiles::configure(whole());
  EmulatedTiles::interrupt(3);
  EXPECT_NONFATAL_FAILURE((EmulatedTiles::add_bf16<0, 4, 6>()), "start row");
  EmulatedTiles::release();
}

TEST(EmulatedTiles, GoOnAtTheRowWhereTheyWereInterrupted) {
  unsigned char from[16][64], to[16][64];
  for (int i = 0; i < 1024; ++i) from[i / 64][i % 64] = static_cast<unsigned char>(i * 7 + 1);
  std::memset(to, 9, sizeof to);
  TileConfig config = whole();
  config.set(2, 5, 12);
  EmulatedTiles::configure(config);
  EmulatedTiles::interrupt(3);
  EmulatedTiles::load<2>(from, 64);
  EmulatedTiles::store<2>(to, 64);
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 64; ++j)
      EXPECT_EQ(to[i][j], i >= 5 || j >= 12 ? 9 : i < 3 ? 0 : from[i][j]) << i << ", " << j;
  EmulatedTiles::release();
  EXPECT_TRUE(EmulatedTiles::is_released());
}

TEST(EmulatedTiles, FlushWhatIsTinyAfterRounding) {
  const float least = 0x1p-126f, below = 0x1p-127f;
  EXPECT_EQ(flushed_multiply_add(below, 0x1p100f, 1), 1);
  EXPECT_EQ(flushed_multiply_add(1, 1, -below), 1);
  EXPECT_TRUE(std::signbit(flushed_multiply_add(-least, 0.5f, 0)));
  EXPECT_EQ(flushed_multiply_add(-least, 0.5f, 0), 0);
  EXPECT_EQ(flushed_multiply_add(least, 1, 0), least);
  // 2^-126 - 2^-150 is a number with an exponent below the least; 2^-126 - 2^-151 rounds to 2^-126.
  EXPECT_EQ(flushed_multiply_add(-0x1p-75f, 0x1p-75f, least), 0);
  EXPECT_EQ(flushed_multiply_add(-0x1p-76f, 0x1p-75f, least), least);
  EXPECT_EQ(flushed_multiply_add(-0x1.01p-76f, 0x1p-75f, least), 0);
  EXPECT_EQ(flushed_multiply_add(0x1.01p-76f, 0x1p-75f, -least), 0);
  EXPECT_EQ(flushed_multiply_add(-0x1p-77f, 0x1p-75f, least), least);
}

// 1 + 2^-24 + 2^-24 is 1 in one chain, and 1 + 2^-23 where the small ones meet first.
TEST(EmulatedTiles, AddTwoChainsBeforeTheSum) {
  const auto sum = [](std::initializer_list<float> terms, float start) {
    uint16_t a[32] = {}, b[16][32] = {};
    int k = 0;
    for (const float term : terms) a[k] = bf16(term), b[k / 2][k % 2] = bf16(1), ++k;
    TileConfig config = whole();
    config.set(0, 1, 4), config.set(4, 1, 64), config.set(6, 16, 4);
    EmulatedTiles::configure(config);
    EmulatedTiles::load<0>(&start, 4);
    EmulatedTiles::load<4>(a, 64);
    EmulatedTiles::load<6>(b, 64);
    EmulatedTiles::add_bf16<0, 4, 6>();
    EmulatedTiles::store<0>(&start, 4);
    EmulatedTiles::release();
    return start;
  };
  const float t = 0x1p-24f, more = 1 + 0x1p-23f;
  EXPECT_EQ(sum({t, t}, 1), more);
  EXPECT_EQ(sum({1, t, 0, t}, 0), more);
  EXPECT_EQ(sum({1, 0, t, 0, t}, 0), 1);
  EXPECT_EQ(sum({t, 0, t, 0, 1}, 0), more);
  EXPECT_EQ(sum({1, t}, 0), 1);
  EXPECT_EQ(added_pair(1, bf16(t) | uint32_t(bf16(t)) << 16, 0x3f803f80), 1);
  EXPECT_EQ(added_pair(0, bf16(1) | uint32_t(bf16(t)) << 16, 0x3f803f80), 1);
  EXPECT_EQ(added_pair(t, bf16(1) | uint32_t(bf16(t)) << 16, 0x3f803f80), more);
}

// The plain loop: c = start, two chains for each 32 of depth, bias.
float chain(const Matmul<uint16_t, float>& p, int row, int col) {
  float sum = p.has_start ? p.start.at(row, col) : 0;
  for (int k = 0; k < p.sizes.k; k += 32) {
    float chains[2] = {};
    for (int i = k; i < k + 32 && i < p.sizes.k; ++i)
      chains[i % 2] = flushed_multiply_add(float_of_bf16(p.a.at(row, i)),
                                           float_of_bf16(p.b.at(i, col)), chains[i % 2]);
    sum = flushed_add(sum, flushed_add(chains[0], chains[1]));
  }
  return p.has_bias ? sum + p.bias.at(0, col) : sum;
}
uint32_t chain(const Matmul<uint8_t, uint32_t>& p, int row, int col) {
  uint32_t sum = p.has_start ? p.start.at(row, col) : 0;
  const auto value = [](uint8_t byte, bool is_signed) {
    return is_signed ? int{static_cast<int8_t>(byte)} : int{byte};
  };
  for (int k = 0; k < p.sizes.k; ++k)
    sum += uint32_t(value(p.a.at(row, k), p.is_a_signed) * value(p.b.at(k, col), p.is_b_signed));
  return p.has_bias ? sum + p.bias.at(0, col) : sum;
}

// The plain loop of pairs: both products of a pair after another, an odd depth ends with a zero.
float pair_chain(const Matmul<uint16_t, float>& p, int row, int col) {
  float sum = p.has_start ? p.start.at(row, col) : 0;
  for (int k = 0; k < p.sizes.k; k += 2) {
    uint32_t a = p.a.at(row, k), b = p.b.at(k, col);
    if (k + 1 < p.sizes.k) {
      a |= uint32_t(p.a.at(row, k + 1)) << 16;
      b |= uint32_t(p.b.at(k + 1, col)) << 16;
    }
    sum = added_pair(sum, a, b);
  }
  return p.has_bias ? sum + p.bias.at(0, col) : sum;
}

struct ByTiles {
  template <class T>
  static int64_t bytes(const pto_matmul_job& job) {
    return matmul::tile_packed_bytes(sizeof(T), job.depth, job.cols);
  }
  static void run(const pto_matmul_job& job) { matmul::run_tiles<EmulatedTiles>(job); }
  template <class P>
  static auto wanted(const P& p, int row, int col) {
    return chain(p, row, col);
  }
};
struct ByPairs {
  template <class T>
  static int64_t bytes(const pto_matmul_job& job) {
    const int units = (job.depth + 1) / 2;
    return 4 * (int64_t((units + 7) / 8 * 8) * ((job.cols + 15) / 16 * 16) + 8);
  }
  static void run(const pto_matmul_job& job) { matmul::run_pairs<EmulatedPairs>(job); }
  template <class P>
  static auto wanted(const P& p, int row, int col) {
    return pair_chain(p, row, col);
  }
};

// Packs b by parts, as threads do; the job then reads columns of it.
template <class T, class Way>
std::vector<char> pack(pto_matmul_job& job, unsigned seed) {
  std::vector<char> packed(size_t(Way::template bytes<T>(job)) + 1, 77);
  pto_matmul_job part = job;
  part.packs = 1, part.packed = packed.data(), part.packed_cols = job.cols;
  const int width = seed % 2 ? 32 : 96;
  for (int col = 0; col < job.cols; col += width) {
    part.packed_first = col;
    part.cols = std::min(width, job.cols - col);
    part.b.data = static_cast<T*>(job.b.data) + matmul::cols_of(job.b).at(col);
    Way::run(part);
  }
  EXPECT_EQ(packed.back(), 77) << "beyond what was promised";
  job.packed = packed.data();
  job.b.data = nullptr;
  return packed;
}

template <class T, class S, class Way = ByTiles>
void check(const Sizes& sizes, unsigned seed) {
  Matmul<T, S> p(sizes, seed);
  pto_matmul_job job = p.job();
  std::vector<char> packed;
  if (seed % 3 == 0 && sizes.n <= PTO_MATMUL_PACKED_COLS) packed = pack<T, Way>(job, seed);
  Way::run(job);
  EXPECT_TRUE(EmulatedTiles::is_released());
  ASSERT_EQ(p.wrong([](const auto& all, int i, int j) { return Way::wanted(all, i, j); }), "")
      << sizes << ", seed " << seed;
}

template <class T, class S, class Way = ByTiles>
void check_random(unsigned seed) {
  Random r{seed};
  check<T, S, Way>({r.below(71), r.below(71), 1 + r.below(70)}, seed);
}

TEST(TileProduct, AddsPairsOfBf16InTheHardwaresOrder) {
  for (int seed = 0; seed < rounds_of(120, 3000); ++seed)
    ASSERT_NO_FATAL_FAILURE((check_random<uint16_t, float>(unsigned(seed))));
}
TEST(TileProduct, IsExactInBytes) {
  for (int seed = 0; seed < rounds_of(120, 3000); ++seed)
    ASSERT_NO_FATAL_FAILURE((check_random<uint8_t, uint32_t>(unsigned(seed))));
}

TEST(PairProduct, AddsPairsOfBf16InTheHardwaresOrder) {
  for (int seed = 0; seed < rounds_of(120, 3000); ++seed)
    ASSERT_NO_FATAL_FAILURE((check_random<uint16_t, float, ByPairs>(unsigned(seed))));
  for (unsigned seed = 0; seed < 3; ++seed) {
    ASSERT_NO_FATAL_FAILURE((check<uint16_t, float, ByPairs>({9, 2100, 17}, seed)));
    ASSERT_NO_FATAL_FAILURE((check<uint16_t, float, ByPairs>({101, 7, 33}, seed)));
    ASSERT_NO_FATAL_FAILURE((check<uint16_t, float, ByPairs>({3, 9, 1021}, seed)));
  }
}

TEST(TileProduct, CrossesItsBlocks) {
  for (unsigned seed = 0; seed < 4; ++seed) {
    ASSERT_NO_FATAL_FAILURE((check<uint16_t, float>({33, 2150, 17}, seed)));
    ASSERT_NO_FATAL_FAILURE((check<uint16_t, float>({3, 700, 801}, seed)));
    ASSERT_NO_FATAL_FAILURE((check<uint8_t, uint32_t>({17, 4300, 33}, seed)));
    ASSERT_NO_FATAL_FAILURE((check<uint8_t, uint32_t>({9, 1400, 801}, seed)));
  }
}

TEST(TileProduct, RoundsItsSumsOnceToBf16) {
  for (const Sizes& sizes : {Sizes{1, 1, 1}, Sizes{35, 70, 50}, Sizes{9, 2112, 33}}) {
    Random r{unsigned(sizes.k)};
    std::vector<bfloat16_t> a(size_t(sizes.m * sizes.k)), b(size_t(sizes.k * sizes.n)),
        c(size_t(sizes.m * (sizes.n + 3)), bfloat16_t(7.0f));
    for (auto* all : {&a, &b})
      for (bfloat16_t& x : *all) x = bfloat16_t(float(r.below(2001) - 1000) / 256);
    std::vector<float> sums(size_t(sizes.m * sizes.n)), bias(size_t(sizes.n), 0.5f);
    const auto of = [](auto& data, int type, int row) -> pto_matmul_matrix {
      return {data.data(), type, PTO_MATMUL_UNBOXED, PTO_MATMUL_UNBOXED, 0, 0, row, 1};
    };
    pto_matmul_job job = {};
    job.rows = sizes.m, job.depth = sizes.k, job.cols = sizes.n;
    job.a = of(a, PTO_MATMUL_BF16, sizes.k), job.b = of(b, PTO_MATMUL_BF16, sizes.n);
    job.bias = of(bias, PTO_MATMUL_F32, 0);
    job.c = of(sums, PTO_MATMUL_F32, sizes.n);
    ByTiles::run(job);
    job.c = of(c, PTO_MATMUL_BF16, sizes.n + 3);
    ByTiles::run(job);
    for (int i = 0; i < sizes.m; ++i)
      for (int j = 0; j < sizes.n + 3; ++j) {
        const float wanted = j < sizes.n ? sums[size_t(i * sizes.n + j)] : 7.0f;
        ASSERT_EQ(float(c[size_t(i * (sizes.n + 3) + j)]), float(bfloat16_t(wanted)))
            << sizes << " at " << i << ", " << j;
      }
  }
}

TEST(TileProduct, TakesEveryPairOfExtents) {
  const int step = is_deep() ? 1 : 29;
  for (int i = 0; i <= 70; i += step)
    for (int j = 1; j <= 70; j += step) {
      const unsigned seed = unsigned(i * 71 + j);
      const int other = Random{seed}.below(71);
      ASSERT_NO_FATAL_FAILURE((check<uint16_t, float>({i, other, j}, seed)));
      ASSERT_NO_FATAL_FAILURE((check<uint16_t, float>({other, i, j}, seed)));
      ASSERT_NO_FATAL_FAILURE((check<uint8_t, uint32_t>({i, j, other + 1}, seed)));
    }
}

// The bound of matmul_job.hpp, where subnormals count as zeros.
template <class Way>
void check_bound(unsigned seed) {
  Random r{seed};
  Matmul<uint16_t, float> p({1 + r.below(20), r.below(r.below(3) ? 70 : 1500), 1 + r.below(20)},
                            seed, Values::kFinite);
  pto_matmul_job job = p.job();
  job.bias.data = nullptr;
  Way::run(job);
  for (int i = 0; i < p.sizes.m; ++i)
    for (int j = 0; j < p.sizes.n; ++j) {
      const auto [sum, absolute] = p.exact(i, j);
      const double bound = (p.sizes.k + 2) * 0x1p-23 * absolute + p.sizes.k * 0x1p-125;
      ASSERT_LE(std::fabs(double(p.c.at(i, j)) - sum), bound) << p.sizes << ", seed " << seed;
    }
}
TEST(TileProduct, DiffersFromTheSumByTheStatedBound) {
  for (int seed = 0; seed < rounds_of(30, 1000); ++seed) {
    ASSERT_NO_FATAL_FAILURE(check_bound<ByTiles>(unsigned(seed)));
    ASSERT_NO_FATAL_FAILURE(check_bound<ByPairs>(unsigned(seed)));
  }
}

// Runs the same jobs by libpto where the CPU has the instructions.
TEST(TileProduct, HasTheBitsOfTheHardware) {
  int runs = 0;
  for (int seed = 0; seed < rounds_of(40, 1000); ++seed) {
    Random r{unsigned(seed)};
    const Sizes sizes = {1 + r.below(70), r.below(100), 1 + r.below(70)};
    for (const int engine : {PTO_MATMUL_AVX512_BF16, PTO_MATMUL_AMX}) {
      Matmul<uint16_t, float> p(sizes, unsigned(seed));
      pto_matmul_job job = p.job();
      job.engine = engine;
      if (pto_matmul(&job) != 0) continue;
      ++runs;
      const auto wanted = [engine](const auto& all, int i, int j) {
        return engine == PTO_MATMUL_AMX ? chain(all, i, j) : pair_chain(all, i, j);
      };
      ASSERT_EQ(p.wrong(wanted), "") << sizes << ", seed " << seed << ", engine " << engine;
    }
    Matmul<uint8_t, uint32_t> p(sizes, unsigned(seed));
    pto_matmul_job job = p.job();
    job.engine = PTO_MATMUL_AMX;
    if (pto_matmul(&job) != 0) continue;
    ASSERT_EQ(p.wrong([](const auto& all, int i, int j) { return chain(all, i, j); }), "");
  }
  if (runs == 0) GTEST_SKIP() << "neither AMX nor AVX512_BF16 on this machine";
}

}  // namespace pto::tiles_test
