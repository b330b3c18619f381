// SPDX-License-Identifier: Apache-2.0
// The choice of an engine, with made-up answers of the CPU and the kernel.
#include "pto/isa/cpu/engine.hpp"

#include <gtest/gtest.h>

namespace pto::engine_test {

// A CPU with AMX, whose answers the tests change.
struct Answers {
  unsigned most = 0x20, leaf1_ecx = 1u << 27, leaf7_edx = 1u << 22 | 1u << 24 | 1u << 25;
  unsigned leaf7_parts = 1, leaf7_1_eax = 1u << 5, palettes = 1;
  unsigned palette[3] = {8192 | 1024 << 16, 64 | 8 << 16, 16}, product_ebx = 16 | 64 << 8;
  uint64_t states = 0x600e7;
  int state_reads = 0;
};
Answers answers;

void cpuid(unsigned leaf, unsigned part, unsigned* r) {
  r[0] = r[1] = r[2] = r[3] = leaf > answers.most ? ~0u : 0;  // beyond: rubbish, as CPUs answer
  if (leaf == 0) r[0] = answers.most;
  if (leaf == 1) r[2] = answers.leaf1_ecx;
  if (leaf == 7 && part == 0) r[0] = answers.leaf7_parts, r[3] = answers.leaf7_edx;
  if (leaf == 7 && part == 1) r[0] = answers.leaf7_1_eax;
  if (leaf == 0x1d && leaf <= answers.most && part == 0) r[0] = answers.palettes;
  if (leaf == 0x1d && leaf <= answers.most && part == 1)
    for (int i = 0; i < 3; ++i) r[i] = answers.palette[i];
  if (leaf == 0x1e && leaf <= answers.most) r[1] = answers.product_ebx;
}
uint64_t states() {
  ++answers.state_reads;
  return answers.states;
}
bool never() {
  ADD_FAILURE() << "asked without need";
  return false;
}

constexpr Computer kComputer = {cpuid, states, never};

template <class F>
bool has_tiles_where(F change) {
  answers = Answers();
  change(answers);
  return has_tiles(kComputer);
}

TEST(Engine, HasTilesOnlyWhereAllThatTheyNeedIsThere) {
  EXPECT_TRUE(has_tiles_where([](Answers&) {}));
  EXPECT_FALSE(has_tiles_where([](Answers& a) { a.most = 0x1d; }));
  EXPECT_FALSE(has_tiles_where([](Answers& a) { a.most = 6; }));
  for (const int bit : {22, 24, 25})
    EXPECT_FALSE(has_tiles_where([bit](Answers& a) { a.leaf7_edx &= ~(1u << bit); })) << bit;
  for (const int bit : {1, 2, 5, 6, 7, 17, 18})
    EXPECT_FALSE(has_tiles_where([bit](Answers& a) { a.states &= ~(1ull << bit); })) << bit;
  EXPECT_FALSE(has_tiles_where([](Answers& a) { a.palettes = 0; }));
  for (int i = 0; i < 3; ++i)
    EXPECT_FALSE(has_tiles_where([i](Answers& a) { a.palette[i] /= 2; })) << i;
  EXPECT_FALSE(has_tiles_where([](Answers& a) { a.product_ebx = 8 | 64 << 8; }));
  EXPECT_FALSE(has_tiles_where([](Answers& a) { a.product_ebx = 16 | 32 << 8; }));
}

// To read XCR0 faults where the operating system has not enabled it.
TEST(Engine, DoesNotReadTheStatesWhereThatWouldFault) {
  EXPECT_FALSE(has_tiles_where([](Answers& a) { a.leaf1_ecx = ~(1u << 27); }));
  EXPECT_EQ(answers.state_reads, 0);
}

TEST(Engine, HasPairsWhereTheirLeafIsThere) {
  answers = Answers();
  EXPECT_TRUE(has_pairs(kComputer));
  answers.leaf7_1_eax = ~(1u << 5);
  EXPECT_FALSE(has_pairs(kComputer));
  answers = Answers(), answers.leaf7_parts = 0;
  EXPECT_FALSE(has_pairs(kComputer));
  answers = Answers(), answers.most = 6;
  EXPECT_FALSE(has_pairs(kComputer));
}

bool yes() { return true; }
bool no() { return false; }

pto_matmul_job job(int engine, int a, int b) {
  pto_matmul_job job = {};
  job.engine = engine;
  job.a.type = a, job.b.type = b;
  return job;
}
pto_matmul_job floats(int engine, int precision) {
  pto_matmul_job floats = job(engine, PTO_MATMUL_F32, PTO_MATMUL_F32);
  floats.precision = precision;
  return floats;
}
pto_matmul_job best(int type) { return job(PTO_MATMUL_BEST, type, type); }

TEST(Engine, AsksForTilesOnlyForJobsThatWantThem) {
  const Abilities most = {PTO_MATMUL_AVX512_VNNI, true, never, never};
  EXPECT_EQ(choose_engine(best(PTO_MATMUL_F32), most), PTO_MATMUL_AVX512_VNNI);
  EXPECT_EQ(choose_engine(best(PTO_MATMUL_F16), most), PTO_MATMUL_AVX512_VNNI);
  EXPECT_EQ(choose_engine(job(PTO_MATMUL_AVX2, PTO_MATMUL_I8, PTO_MATMUL_I8), most),
            PTO_MATMUL_AVX2);
  EXPECT_EQ(choose_engine(job(PTO_MATMUL_BEST, PTO_MATMUL_BF16, PTO_MATMUL_F32), most),
            PTO_MATMUL_AVX512_VNNI);
  pto_matmul_job scaled = best(PTO_MATMUL_BF16);
  scaled.a_scale.data = &scaled;
  EXPECT_EQ(choose_engine(scaled, most), PTO_MATMUL_AVX512_VNNI);
  const Abilities old = {PTO_MATMUL_AVX2, false, never, never};
  EXPECT_EQ(choose_engine(best(PTO_MATMUL_BF16), old), PTO_MATMUL_AVX2);
  EXPECT_EQ(choose_engine(job(PTO_MATMUL_AMX, PTO_MATMUL_BF16, PTO_MATMUL_BF16), old), 0);
}

TEST(Engine, FallsBackWhereTheKernelRefuses) {
  const Abilities granted = {PTO_MATMUL_AVX512_VNNI, true, yes, never};
  EXPECT_EQ(choose_engine(best(PTO_MATMUL_BF16), granted), PTO_MATMUL_AMX);
  EXPECT_EQ(choose_engine(best(PTO_MATMUL_I8), granted), PTO_MATMUL_AMX);
  EXPECT_EQ(choose_engine(job(0, PTO_MATMUL_U8, PTO_MATMUL_I8), granted), PTO_MATMUL_AMX);
  const Abilities fast = {PTO_MATMUL_AVX512_VNNI, true, no, yes};
  EXPECT_EQ(choose_engine(best(PTO_MATMUL_BF16), fast), PTO_MATMUL_AVX512_BF16);
  EXPECT_EQ(choose_engine(best(PTO_MATMUL_I8), fast), PTO_MATMUL_AVX512_VNNI);
  for (const int codes : {PTO_MATMUL_I8, PTO_MATMUL_I4X2}) {
    EXPECT_EQ(choose_engine(job(0, PTO_MATMUL_BF16, codes), fast), PTO_MATMUL_AVX512_BF16);
    EXPECT_EQ(choose_engine(job(0, PTO_MATMUL_F32, codes), fast), PTO_MATMUL_AVX512_VNNI);
  }
  pto_matmul_job turned = job(0, PTO_MATMUL_BF16, PTO_MATMUL_I4X2);
  turned.b.row_stride = 64, turned.b.col_stride = 1;  // groups are of columns
  EXPECT_EQ(choose_engine(turned, fast), PTO_MATMUL_AVX512_VNNI);
  const Abilities slow = {PTO_MATMUL_AVX512_VNNI, true, no, no};
  EXPECT_EQ(choose_engine(best(PTO_MATMUL_BF16), slow), PTO_MATMUL_AVX512_VNNI);
  EXPECT_EQ(choose_engine(job(PTO_MATMUL_AMX, PTO_MATMUL_I8, PTO_MATMUL_I8), slow), 0);
}

TEST(Engine, TakesTheOneThatAJobNames) {
  const Abilities all = {PTO_MATMUL_AVX512_VNNI, true, yes, never};
  const int pairs = PTO_MATMUL_AVX512_BF16, f32 = PTO_MATMUL_F32, bf16 = PTO_MATMUL_BF16;
  EXPECT_EQ(choose_engine(job(pairs, bf16, bf16), all), pairs);
  EXPECT_EQ(choose_engine(job(pairs, f32, f32), all), PTO_MATMUL_AVX512_VNNI);
  EXPECT_EQ(choose_engine(job(PTO_MATMUL_AMX, bf16, bf16), all), PTO_MATMUL_AMX);
  EXPECT_EQ(choose_engine(job(PTO_MATMUL_AMX, f32, f32), all), PTO_MATMUL_AVX512_VNNI);
  const Abilities without = {PTO_MATMUL_AVX512_VNNI, false, yes, never};
  EXPECT_EQ(choose_engine(job(pairs, bf16, bf16), without), 0);
}

TEST(Engine, SplitsFloatsOnlyWhereThePrecisionPermitsIt) {
  const int best = PTO_MATMUL_AVX512_VNNI, pairs = PTO_MATMUL_AVX512_BF16;
  const Abilities tiles = {best, true, yes, never};
  EXPECT_EQ(choose_engine(floats(0, PTO_MATMUL_CHAIN), {best, true, never, never}), best);
  for (const int precision : {PTO_MATMUL_HIGHEST, PTO_MATMUL_HIGH, PTO_MATMUL_MEDIUM})
    EXPECT_EQ(choose_engine(floats(0, precision), tiles), PTO_MATMUL_AMX);
  EXPECT_EQ(choose_engine(floats(PTO_MATMUL_AVX2, PTO_MATMUL_HIGHEST), tiles), PTO_MATMUL_AVX2);
  EXPECT_EQ(choose_engine(floats(PTO_MATMUL_AMX, PTO_MATMUL_CHAIN), tiles), best);
  pto_matmul_job mixed = floats(0, PTO_MATMUL_HIGHEST);
  mixed.b.type = PTO_MATMUL_F16;
  EXPECT_EQ(choose_engine(mixed, tiles), best);
  mixed.b.type = PTO_MATMUL_I8;
  EXPECT_EQ(choose_engine(mixed, tiles), best);
  const Abilities fast = {best, true, no, yes}, slow = {best, true, no, no};
  EXPECT_EQ(choose_engine(floats(0, PTO_MATMUL_HIGH), fast), best);
  EXPECT_EQ(choose_engine(floats(0, PTO_MATMUL_MEDIUM), fast), pairs);
  EXPECT_EQ(choose_engine(floats(0, PTO_MATMUL_MEDIUM), slow), best);
  EXPECT_EQ(choose_engine(floats(pairs, PTO_MATMUL_MEDIUM), slow), pairs);
  EXPECT_EQ(choose_engine(floats(pairs, PTO_MATMUL_HIGHEST), slow), best);
}

TEST(Engine, KnowsThreePrecisionsByName) {
  const int before = pto_matmul_precision();
  for (const char* const name : {"medium", "high", "highest"}) {
    EXPECT_EQ(pto_set_matmul_precision(name), 0);
    EXPECT_STREQ(pto_matmul_precision_name(pto_matmul_precision()), name);
  }
  EXPECT_EQ(pto_set_matmul_precision("higher"), 1);
  EXPECT_EQ(pto_matmul_precision(), PTO_MATMUL_HIGHEST);
  pto_set_matmul_precision(pto_matmul_precision_name(before));
}

TEST(Engine, RunsAttentionOfBf16OnTilesOrPairsWhereWeightsCanBeRounded) {
  const int bf16 = PTO_MATMUL_BF16, f32 = PTO_MATMUL_F32, best = PTO_MATMUL_AVX512_VNNI;
  const Abilities all = {best, true, yes, never}, unasked = {best, true, never, never};
  EXPECT_EQ(choose_engine_of_attention(PTO_MATMUL_BEST, bf16, all), PTO_MATMUL_AMX);
  EXPECT_EQ(choose_engine_of_attention(PTO_MATMUL_AMX, bf16, all), PTO_MATMUL_AMX);
  EXPECT_EQ(choose_engine_of_attention(PTO_MATMUL_AMX, f32, all), best);
  EXPECT_EQ(choose_engine_of_attention(PTO_MATMUL_BEST, f32, unasked), best);
  EXPECT_EQ(choose_engine_of_attention(PTO_MATMUL_BEST, PTO_MATMUL_F16, unasked), best);
  EXPECT_EQ(choose_engine_of_attention(PTO_MATMUL_AVX2, bf16, unasked), PTO_MATMUL_AVX2);
  const Abilities cannot_round = {best, false, yes, never};
  EXPECT_EQ(choose_engine_of_attention(PTO_MATMUL_BEST, bf16, cannot_round), best);
  const Abilities refused = {best, true, no, yes}, slow = {best, true, no, no};
  const int pairs = PTO_MATMUL_AVX512_BF16;
  EXPECT_EQ(choose_engine_of_attention(PTO_MATMUL_BEST, bf16, refused), pairs);
  EXPECT_EQ(choose_engine_of_attention(PTO_MATMUL_BEST, bf16, slow), best);
  EXPECT_EQ(choose_engine_of_attention(pairs, bf16, slow), pairs);
  EXPECT_EQ(choose_engine_of_attention(pairs, f32, refused), best);
  EXPECT_EQ(choose_engine_of_attention(PTO_MATMUL_BEST, f32, refused), best);
  EXPECT_EQ(choose_engine_of_attention(PTO_MATMUL_AMX, bf16, refused), PTO_MATMUL_BEST);
  const Abilities old = {PTO_MATMUL_AVX2, false, never, never};
  EXPECT_EQ(choose_engine_of_attention(PTO_MATMUL_BEST, bf16, old), PTO_MATMUL_AVX2);
  EXPECT_EQ(choose_engine_of_attention(PTO_MATMUL_AVX512, bf16, old), PTO_MATMUL_BEST);
}

}  // namespace pto::engine_test
