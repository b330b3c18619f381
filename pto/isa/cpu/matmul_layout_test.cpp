// SPDX-License-Identifier: Apache-2.0
// Layouts of packed matrices: which jobs share one, and that none changes without its version.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "pto/isa/cpu/matmul_job.hpp"

namespace pto::matmul_test {
namespace {

constexpr int kDepth = 1100, kCols = 75;  // beyond one block of each engine, and no whole panels

// A job of floats; `codes`: the type of b where it is another.
pto_matmul_job job_of(int engine, int type, int precision, int codes = 0) {
  pto_matmul_job job = {};
  job.engine = engine, job.precision = precision, job.depth = kDepth, job.cols = kCols;
  job.a.type = type, job.c.type = PTO_MATMUL_F32;
  job.b.type = codes ? codes : type;
  return job;
}

// FNV-1a of what a job packs from small whole numbers, which are the same in each type of floats.
uint64_t digest_of(pto_matmul_job job) {
  std::vector<char> b(size_t{kDepth} * kCols * 4);
  for (int i = 0; i < kDepth * kCols; ++i) {
    const auto value = static_cast<float>(i * 7 % 251 - 125);
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    if (job.b.type == PTO_MATMUL_F32)
      std::memcpy(&b[size_t(i) * 4], &bits, 4);
    else if (job.b.type == PTO_MATMUL_BF16)
      bits >>= 16, std::memcpy(&b[size_t(i) * 2], &bits, 2);
    else
      b[size_t(i)] = static_cast<char>(i * 7 % 251);
  }
  job.b = {b.data(), job.b.type, PTO_MATMUL_UNBOXED, PTO_MATMUL_UNBOXED, 0, 0, 1, kDepth};
  std::vector<unsigned char> packed(size_t(pto_matmul_packed_bytes(&job)));
  job.packed = packed.data(), job.packs = 1;
  EXPECT_EQ(pto_matmul(&job), 0);
  uint64_t digest = 14695981039346656037u;
  for (const unsigned char byte : packed) digest = (digest ^ byte) * 1099511628211u;
  return digest;
}

void expect_known(const pto_matmul_job& job) {
  static const std::map<std::string, uint64_t> known = {
      {"floats for any CPU", 4022896137087840163u},
      {"floats for AVX2", 17341050044004587263u},
      {"floats for AVX-512", 15637626986073067079u},
      {"pairs of bf16 for AVX512_BF16", 1404342578929700967u},
      {"words of bytes for any CPU", 11947488592231659429u},
      {"words of 4 bits for any CPU", 10071554153302577960u},
      {"bytes by bytes for any CPU", 15092453944706906913u},
      {"bytes by bytes for AVX2", 8969956449289559753u},
      {"bytes by bytes for AVX-512", 13231486685885729569u},
      {"bytes by bytes for AVX512_VNNI", 13633476424312406139u}};
  const std::string name = pto_matmul_layout_name(pto_matmul_layout(&job));
  const auto at = known.find(name);
  const uint64_t digest = digest_of(job);
  EXPECT_EQ(at == known.end() ? 0 : at->second, digest) << name << " of type " << job.b.type;
}

// Where it fails: raise PTO_MATMUL_LAYOUT_VERSION, since files hold what older versions packed, and
// write the digests of the new one. Tiles of AMX are left out: few machines have them.
TEST(MatmulLayout, a_layout_that_changes_has_another_version) {
  ASSERT_EQ(PTO_MATMUL_LAYOUT_VERSION, 4);
  for (int engine = PTO_MATMUL_PORTABLE; engine < PTO_MATMUL_AMX; ++engine) {
    for (const int type : {PTO_MATMUL_F32, PTO_MATMUL_BF16}) {
      const pto_matmul_job job = job_of(engine, type, PTO_MATMUL_CHAIN);
      if (pto_matmul_layout(&job) != 0) expect_known(job);
    }
  }
  for (const int codes : {PTO_MATMUL_I8, PTO_MATMUL_I4X2})
    expect_known(job_of(PTO_MATMUL_BEST, PTO_MATMUL_F32, PTO_MATMUL_HIGHEST, codes));
}

TEST(MatmulLayout, jobs_of_one_layout_pack_the_same_bytes) {
  std::map<int, uint64_t> seen;
  for (int engine = PTO_MATMUL_BEST; engine <= PTO_MATMUL_AMX; ++engine) {
    for (const int type : {PTO_MATMUL_F32, PTO_MATMUL_BF16}) {
      for (int precision = PTO_MATMUL_CHAIN; precision <= PTO_MATMUL_MEDIUM; ++precision) {
        const pto_matmul_job job = job_of(engine, type, precision);
        const int layout = pto_matmul_layout(&job);
        if (layout == 0) continue;
        ASSERT_LE(layout, 127);
        const uint64_t digest = digest_of(job);
        EXPECT_EQ(seen.emplace(layout, digest).first->second, digest)
            << pto_matmul_layout_name(layout);
      }
    }
  }
  EXPECT_GE(seen.size(), 2u) << "f32 and bf16 of the portable engine";
}

// Bits of random floats of medium size.
uint32_t float_of(int type, std::mt19937& random) {
  const uint32_t bits = random(), exponent = bits >> 8 & 7;
  if (type == PTO_MATMUL_F16) return (bits & 1) << 15 | (11 + exponent) << 10 | bits >> 22;
  const uint32_t wide = (bits & 1) << 31 | (123 + exponent) << 23 | bits >> 9;
  return type == PTO_MATMUL_BF16 ? wide >> 16 : wide;
}
std::vector<char> floats_of(int type, size_t count, std::mt19937& random) {
  const size_t bytes = type == PTO_MATMUL_F32 ? 4 : 2;
  std::vector<char> made(count * bytes);
  for (size_t i = 0; i < count; ++i) {
    const uint32_t bits = float_of(type, random);
    std::memcpy(&made[i * bytes], &bits, bytes);
  }
  return made;
}

// Multiplies by b, and by columns `first` and on of b packed; compares the bits.
void check_packed(pto_matmul_job job, int cols, int first, unsigned seed) {
  std::mt19937 random(seed);
  auto a = floats_of(job.a.type, size_t(job.rows) * size_t(job.depth), random);
  auto b = floats_of(job.b.type, size_t(job.depth) * size_t(cols), random);
  const int64_t bytes = job.b.type == PTO_MATMUL_F32 ? 4 : 2;
  const auto plain = [](void* data, int type, int64_t row, int64_t col) {
    return pto_matmul_matrix{data, type, PTO_MATMUL_UNBOXED, PTO_MATMUL_UNBOXED, 0, 0, row, col};
  };
  job.a = plain(a.data(), job.a.type, job.depth, 1);
  job.b = plain(b.data(), job.b.type, 1, job.depth);
  job.cols = cols;
  std::vector<char> packed(size_t(pto_matmul_packed_bytes(&job)));
  job.packed = packed.data(), job.packs = 1;
  if (pto_matmul(&job) != 0) return;  // the CPU lacks the engine
  job.packs = 0, job.cols = cols - first;
  std::vector<float> wanted(size_t(job.rows) * size_t(job.cols), 7), got = wanted;
  job.c = plain(got.data(), PTO_MATMUL_F32, job.cols, 1);
  job.packed_first = first, job.packed_cols = first ? cols : 0;
  job.b.data = nullptr;
  ASSERT_EQ(pto_matmul(&job), 0);
  job.packed = nullptr, job.packed_first = job.packed_cols = 0;
  job.b.data = b.data() + first * job.depth * bytes;
  job.c.data = wanted.data();
  ASSERT_EQ(pto_matmul(&job), 0);
  EXPECT_EQ(0, std::memcmp(wanted.data(), got.data(), got.size() * sizeof(float)))
      << "engine " << job.engine << ", type " << job.b.type << ": " << job.rows << " x "
      << job.depth << " x " << job.cols << ", precision " << job.precision;
}

void check_packed(int engine, int type, int precision) {
  for (const int rows : {1, 13, 40}) {
    for (const int depth : {1, 37, 1100}) {
      pto_matmul_job job = job_of(engine, type, precision);
      job.rows = rows, job.depth = depth;
      check_packed(job, 5, 0, 1);
      check_packed(job, 131, 96, 2);
    }
  }
}

TEST(MatmulLayout, packed_floats_have_the_bits_of_floats_on_every_engine) {
  for (int engine = PTO_MATMUL_PORTABLE; engine <= PTO_MATMUL_AMX; ++engine) {
    check_packed(engine, PTO_MATMUL_F16, PTO_MATMUL_CHAIN);
    check_packed(engine, PTO_MATMUL_BF16, PTO_MATMUL_CHAIN);
    for (int precision = PTO_MATMUL_CHAIN; precision <= PTO_MATMUL_MEDIUM; ++precision)
      check_packed(engine, PTO_MATMUL_F32, precision);
  }
}

// A part of a packed b is whole panels of 32 columns, but at its end.
TEST(MatmulLayout, columns_that_end_within_a_panel_are_refused) {
  struct Columns {
    int first, cols, code;
  };
  for (int engine = PTO_MATMUL_PORTABLE; engine <= PTO_MATMUL_AMX; ++engine)
    for (const Columns& part : {Columns{0, 131, 0},
                                {32, 64, 0},
                                {96, 35, 0},
                                {128, 3, 0},
                                {0, 16, 2},
                                {32, 98, 2},
                                {96, 36, 2},
                                {16, 32, 2},
                                {-32, 32, 2}}) {
      pto_matmul_job job = job_of(engine, PTO_MATMUL_F32, PTO_MATMUL_CHAIN);
      if (pto_matmul_layout(&job) == 0) continue;  // this CPU lacks the engine
      float a[7] = {}, c[131] = {1};
      job.rows = 1, job.depth = 7, job.cols = 131;
      const std::vector<char> packed(size_t(pto_matmul_packed_bytes(&job)));
      job.packed = const_cast<char*>(packed.data()), job.packed_cols = job.cols;
      job.packed_first = part.first, job.cols = part.cols;
      job.a = {a, PTO_MATMUL_F32, PTO_MATMUL_UNBOXED, PTO_MATMUL_UNBOXED, 0, 0, 7, 1};
      job.c = {c, PTO_MATMUL_F32, PTO_MATMUL_UNBOXED, PTO_MATMUL_UNBOXED, 0, 0, 131, 1};
      EXPECT_EQ(pto_matmul(&job), part.code) << part.first << ", " << part.cols;
      EXPECT_EQ(c[0], part.code == 0 ? 0 : 1);
    }
}

// Bytes b packed at columns `first` and on give the sums of b itself.
void check_packed_bytes(int engine, int rows, int depth, int cols, int first) {
  std::mt19937 random(3);
  std::vector<int8_t> a(size_t(rows) * size_t(depth)), b(size_t(cols) * size_t(depth));
  for (auto* bytes : {&a, &b})
    for (int8_t& byte : *bytes) byte = static_cast<int8_t>(random());
  const auto plain = [](void* data, int type, int64_t row, int64_t col) {
    return pto_matmul_matrix{data, type, PTO_MATMUL_UNBOXED, PTO_MATMUL_UNBOXED, 0, 0, row, col};
  };
  pto_matmul_job job = job_of(engine, PTO_MATMUL_I8, PTO_MATMUL_HIGHEST);
  if (pto_matmul_layout(&job) == 0) return;  // this CPU lacks the engine
  job.rows = rows, job.depth = depth, job.cols = cols;
  job.a = plain(a.data(), PTO_MATMUL_I8, depth, 1),
  job.b = plain(b.data(), PTO_MATMUL_I8, 1, depth);
  std::vector<char> packed(size_t(pto_matmul_packed_bytes(&job)));
  job.packed = packed.data(), job.packs = 1;
  ASSERT_EQ(pto_matmul(&job), 0);
  job.packs = 0, job.packed_cols = cols, job.packed_first = first, job.cols = cols - first;
  job.b.data = b.data() + int64_t(first) * depth;
  std::vector<int32_t> sums[2];
  for (auto& to : sums) {
    to.resize(size_t(rows) * size_t(job.cols));
    job.c = plain(to.data(), PTO_MATMUL_I32, job.cols, 1);
    ASSERT_EQ(pto_matmul(&job), 0);
    job.packed = nullptr, job.packed_cols = job.packed_first = 0;
  }
  EXPECT_EQ(sums[0], sums[1]) << "engine " << engine << ": " << rows << " x " << depth;
}

TEST(MatmulLayout, packed_bytes_have_the_sums_of_bytes_on_every_engine) {
  for (int engine = PTO_MATMUL_PORTABLE; engine <= PTO_MATMUL_AMX; ++engine)
    for (const int rows : {1, 2, 13, 40})
      for (const int depth : {1, 37, 1100}) {
        check_packed_bytes(engine, rows, depth, 5, 0);
        check_packed_bytes(engine, rows, depth, 131, 96);
      }
}

TEST(MatmulLayout, each_engine_has_its_own_layout_of_bytes) {
  std::map<int, int> engines;
  for (int engine = PTO_MATMUL_PORTABLE; engine <= PTO_MATMUL_AVX512_VNNI; ++engine) {
    const pto_matmul_job job = job_of(engine, PTO_MATMUL_I8, PTO_MATMUL_HIGHEST);
    const int layout = pto_matmul_layout(&job);
    ASSERT_LE(layout, 127);
    if (layout != 0) {
      expect_known(job);
      EXPECT_TRUE(engines.emplace(layout, engine).second) << engine;
    }
  }
  EXPECT_GE(engines.size(), 1u);
}

TEST(MatmulLayout, other_types_have_none) {
  for (const int type : {PTO_MATMUL_U8, PTO_MATMUL_I32, PTO_MATMUL_F64, PTO_MATMUL_UNKNOWN}) {
    const pto_matmul_job job = job_of(PTO_MATMUL_BEST, type, PTO_MATMUL_HIGHEST);
    EXPECT_EQ(pto_matmul_layout(&job), 0) << type;
  }
  EXPECT_STREQ(pto_matmul_layout_name(0), "nothing");
  EXPECT_STREQ(pto_matmul_layout_name(-1), "nothing");
  EXPECT_STREQ(pto_matmul_layout_name(127), "nothing");
}

}  // namespace
}  // namespace pto::matmul_test
