// SPDX-License-Identifier: Apache-2.0
// Attention of bf16 on emulations of tiles and of pairs against the whole matrix of scores in
// double; where the CPU has the instructions, the emulation's bits are theirs.
#include "pto/isa/cpu/attention_loops.hpp"
#include "pto/isa/cpu/attention_tiles.hpp"
#include "tests/attention_cases.hpp"
#include "tests/deep.hpp"
#include "tests/tile_emulation.hpp"

namespace pto::attention_test {

using Bf16 = Operands<uint16_t>;

using Pairs = isa::attention::PairsOf<EmulatedPairs>;

// A way to multiply bf16: an engine of libpto, and the same loops on an emulation.
struct Emulation {
  const char* name;
  int engine;
  size_t (*bytes)(const pto_attention_job&);
  void (*run)(const pto_attention_job&);

  bool operator()(pto_attention_job job) const {
    const size_t all = (bytes(job) + 63) / 64 * 64;
    const std::unique_ptr<void, Freed> memory(std::aligned_alloc(64, all));
    std::memset(memory.get(), 0xff, all);  // NaN
    job.workspace = memory.get();
    run(job);
    EXPECT_TRUE(EmulatedTiles::is_released());
    return true;
  }
};
constexpr Emulation kEmulations[] = {
    {"tiles", PTO_MATMUL_AMX, isa::attention::tile_bytes,
     isa::attention::run_tiles<EmulatedTiles, EmulatedPairs>},
    {"pairs", PTO_MATMUL_AVX512_BF16, isa::attention::bytes<Pairs>,
     [](const pto_attention_job& job) { isa::attention::Attention<Pairs>(job).run(); }}};

Case turned_case(unsigned seed) {
  Case c = random_case(seed);
  c.is_turned = seed % 3 == 0;
  return c;
}

void check(const Case& c, unsigned seed) {
  for (const Emulation& emulate : kEmulations) {
    SCOPED_TRACE(emulate.name);
    check<uint16_t>(c, seed, emulate.engine, emulate);
  }
}

TEST(Bf16Attention, EqualsTheWholeMatrixOfScores) {
  for (int seed = 0; seed < rounds_of(20, 1000); ++seed)
    ASSERT_NO_FATAL_FAILURE(check(turned_case(unsigned(seed)), unsigned(seed)));
}

// Keys beyond a block, rows beyond one, and widths that make both small.
TEST(Bf16Attention, CrossesItsBlocks) {
  for (const Case& sizes : {Case{1, 20, 1030, 32, 7},
                            {1, 1030, 20, 8, 3},
                            {1, 5, 1030, 64, 33},
                            {1, 35, 130, 1100, 3}}) {
    Case c = sizes;
    ASSERT_NO_FATAL_FAILURE(check(c, 1));
    c.last = 0, c.position = 127, c.first = -100, c.dropout = 0.1f, c.seed = 77;
    ASSERT_NO_FATAL_FAILURE(check(c, 2));
  }
}

// Weights and values begin at the first tile of keys that a row sees; also where keys are read.
TEST(Bf16Attention, SkipsKeysThatNoRowSees) {
  for (const int queries : {5, 140}) {
    Case c = {1, queries, 300, 32, 8};
    c.position = 100, c.first = -40, c.last = 10;
    ASSERT_NO_FATAL_FAILURE(check(c, 1));
    c.hides = true, c.dropout = 0.25f, c.seed = 7;
    ASSERT_NO_FATAL_FAILURE(check(c, 2));
  }
}

TEST(Bf16Attention, TakesScalesOfAnySign) {
  for (const Emulation& emulate : kEmulations) {
    const Case c = {1, 20, 70, 32, 8};
    Bf16 all(c, 3), turned(c, 3);
    pto_attention_job job = all.job(PTO_MATMUL_BEST), other = turned.job(PTO_MATMUL_BEST);
    auto* const q = static_cast<uint16_t*>(other.q.data);
    for (int i = 0; i < c.queries; ++i)
      for (int col = 0; col < c.width; ++col) q[i * other.q.row_stride + col] ^= 0x8000;
    other.scale = -job.scale;
    emulate(job), emulate(other);
    for (size_t i = 0; i < all.outs().size(); ++i)
      ASSERT_NEAR(all.outs()[i], turned.outs()[i], 0x1p-6) << i;
    other.scale = 0;  // the mean of all values
    emulate(other);
    EXPECT_EQ(turned.outs()[0], turned.outs()[size_t(c.value_width)]);
  }
}

// A few rows read keys, or keys and values, where they lie.
TEST(Bf16Attention, GivesAQueryTheSameBitsWhateverIsComputedWithIt) {
  for (const Emulation& emulate : kEmulations) {
    for (unsigned seed = 0; seed < 20; ++seed) {
      Case c = turned_case(seed);
      if (seed % 2) c.width = 32 << seed % 3, c.value_width = 16;
      Bf16 whole(c, seed), parts(c, seed);
      emulate(whole.job(PTO_MATMUL_BEST));
      Random r{seed};
      for (int row = 0; row < c.heads * c.queries;) {
        pto_attention_job job = parts.job(PTO_MATMUL_BEST);
        job.row = row;
        job.rows = std::min(c.heads * c.queries - row, 1 + r.below(r.below(2) ? 5 : 40));
        emulate(job);
        row += job.rows;
      }
      ASSERT_EQ(whole.outs(), parts.outs()) << emulate.name << ", seed " << seed;
      ASSERT_EQ(whole.log_sums(), parts.log_sums()) << emulate.name << ", seed " << seed;
    }
  }
}

TEST(Bf16Attention, KeepsNaNAndInfinityToTheirRows) {
  for (const Emulation& emulate : kEmulations) {
    for (const int queries : {12, 40}) {
      const Case c = {1, queries, 40, 32, 8};
      Bf16 all(c, 5), plain(c, 5);
      const pto_attention_job job = all.job(PTO_MATMUL_BEST);
      auto* const q = static_cast<uint16_t*>(job.q.data);
      q[3 * job.q.row_stride] = 0x7fc0;
      q[7 * job.q.row_stride + 2] = 0x7f80;
      emulate(job), emulate(plain.job(PTO_MATMUL_BEST));
      expect_nan_in_its_rows(all.outs(), plain.outs(), c.value_width);
    }
  }
}

// A score that is -infinity hides its key.
TEST(Bf16Attention, GivesKeysOfMinusInfinityNoWeight) {
  for (const Emulation& emulate : kEmulations) {
    const Case c = {1, 20, 40, 32, 8};
    Bf16 all(c, 5), hidden(c, 5);
    pto_attention_job job = all.job(PTO_MATMUL_BEST), other = hidden.job(PTO_MATMUL_BEST);
    for (const pto_attention_job& each : {job, other}) {
      auto* const q = static_cast<uint16_t*>(each.q.data);
      for (int i = 0; i < c.queries; ++i) q[i * each.q.row_stride] = 0x3f80;
    }
    static_cast<uint16_t*>(job.k.data)[39 * job.k.row_stride] = 0xff80;
    other.keys = 39;
    emulate(job), emulate(other);
    EXPECT_EQ(all.outs(), hidden.outs());
  }
}

TEST(Bf16Attention, HasTheBitsOfTheHardware) {
  int runs = 0;
  for (const Emulation& emulate : kEmulations)
    for (int seed = 0; seed < rounds_of(20, 300); ++seed) {
      Case c = turned_case(unsigned(seed));
      c.softcap = 0, c.has_slopes = false;  // compilers may join their products and sums
      Bf16 emulated(c, unsigned(seed)), real(c, unsigned(seed));
      if (isa::attention::kLane != 16 || !run(real.job(emulate.engine))) continue;
      emulate(emulated.job(PTO_MATMUL_BEST));
      ++runs;
      ASSERT_EQ(emulated.outs(), real.outs()) << emulate.name << ", seed " << seed;
    }
  if (runs == 0)
    GTEST_SKIP() << "neither AMX nor AVX512_BF16 on this machine, or no vectors of AVX-512 here";
}

}  // namespace pto::attention_test
