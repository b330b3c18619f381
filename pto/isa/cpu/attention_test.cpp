// SPDX-License-Identifier: Apache-2.0
// Attention of floats against the whole matrix of scores in double, for each engine of libpto that
// this CPU has.
#include "tests/attention_cases.hpp"
#include "tests/deep.hpp"

namespace pto::attention_test {

// Returns the gradients of all scores, found in parts; sums begin at 1.
std::vector<float> gradients_of_scores(pto_attention_gradients job) {
  constexpr int kRows = PTO_ATTENTION_SCORE_ROWS, kKeys = PTO_ATTENTION_SCORE_KEYS;
  const int rows = job.of.rows, keys = job.of.keys;
  std::vector<float> all(size_t(rows * keys));
  for (int row = 0; row < rows; row += job.of.rows) {
    job.of.row = row, job.of.rows = std::min({rows - row, kRows, 7 + row});
    for (int key = 0; key < keys; key += kKeys) {
      std::vector<float> sums(size_t(kRows * kKeys), 1.0f);
      EXPECT_EQ(pto_attention_add_scores(&job, key, sums.data()), 0);
      for (int i = 0; i < job.of.rows; ++i)
        for (int j = 0; j < std::min(keys - key, kKeys); ++j)
          all[size_t((row + i) * keys + key + j)] = sums[size_t(i * kKeys + j)] - 1;
    }
  }
  return all;
}

void check_gradients(Case c, unsigned seed, int engine) {
  SCOPED_TRACE(testing::Message() << c.queries << " queries, " << c.keys << " keys, widths "
                                  << c.width << " " << c.value_width << ", engine " << engine
                                  << ", seed " << seed);
  c.softcap = 0, c.has_slopes = false;  // tests of the operator have them
  Operands<float> all(c, seed);
  pto_attention_gradients job = {};
  job.of = all.job(engine);
  if (!run(job.of)) return;
  const int rows = c.heads * c.queries;
  const AtTheEdge d(rows, c.value_width, c.value_width + 1, seed + 9);
  std::vector<float> d_q(size_t(rows * c.width)), d_k(size_t(c.keys * c.width)),
      d_v(size_t(c.keys * c.value_width));
  job.d_out = {d.data(), c.queries * d.stride(), d.stride(), 1};
  job.d_q = {d_q.data(), int64_t(c.queries) * c.width, c.width, 1};
  job.d_k = {d_k.data(), 0, c.width, 1};
  job.d_v = {d_v.data(), 0, c.value_width, 1};
  const size_t bytes = (pto_attention_gradients_bytes(&job) + 63) / 64 * 64;
  const std::unique_ptr<void, Freed> memory(std::aligned_alloc(64, bytes));
  std::memset(memory.get(), 0xff, bytes);
  job.of.workspace = memory.get();
  ASSERT_EQ(pto_attention_backward(&job), 0);
  all.check_gradients(d, d_q, d_k, d_v, gradients_of_scores(job));
}

void check(const Case& c, unsigned seed, int engine) { check<float>(c, seed, engine, run); }

TEST(Attention, EqualsTheWholeMatrixOfScores) {
  for (int engine = PTO_MATMUL_PORTABLE; engine <= PTO_MATMUL_AVX512; ++engine)
    for (int seed = 0; seed < rounds_of(60, 3000); ++seed)
      ASSERT_NO_FATAL_FAILURE(check(random_case(unsigned(seed)), unsigned(seed), engine));
}

// Rows and keys beyond a block of the loops, with a width for each size of block.
TEST(Attention, CrossesItsBlocks) {
  for (int engine = PTO_MATMUL_PORTABLE; engine <= PTO_MATMUL_AVX512; ++engine)
    for (const Case& sizes :
         {Case{3, 133, 270, 32, 17}, {3, 100, 140, 130, 7}, {1, 99, 140, 530, 3}}) {
      Case c = sizes;
      ASSERT_NO_FATAL_FAILURE(check(c, 1, engine));
      c.last = 0, c.position = 127, c.first = -100, c.dropout = 0.1f, c.seed = 77;
      ASSERT_NO_FATAL_FAILURE(check(c, 2, engine));
    }
}

TEST(Attention, DifferentiatesByQueriesKeysAndValues) {
  for (int engine = PTO_MATMUL_PORTABLE; engine <= PTO_MATMUL_AVX512; ++engine) {
    for (int seed = 0; seed < rounds_of(40, 1000); ++seed)
      ASSERT_NO_FATAL_FAILURE(check_gradients(random_case(unsigned(seed)), unsigned(seed), engine));
    Case c = {2, 55, 140, 33, 17};  // beyond a block of rows and of keys
    c.last = 0, c.position = 70, c.dropout = 0.1f;
    ASSERT_NO_FATAL_FAILURE(check_gradients(c, 3, engine));
  }
}

// A query's sum counts the weights that are dropped.
TEST(Attention, DropsNothingOrAll) {
  const Case plain = {2, 30, 140, 16, 8};
  for (int engine = PTO_MATMUL_PORTABLE; engine <= PTO_MATMUL_AVX512; ++engine) {
    Case none = plain, all = plain;
    none.seed = 5, all.dropout = 1;
    Operands<float> a(plain, 3), b(none, 3), c(all, 3);
    if (!run(a.job(engine)) || !run(b.job(engine)) || !run(c.job(engine))) continue;
    EXPECT_EQ(a.outs(), b.outs());
    EXPECT_EQ(c.outs(), std::vector<float>(c.outs().size(), 0.0f));
    EXPECT_EQ(a.log_sums(), c.log_sums());
  }
}

TEST(Attention, GivesAQueryTheSameBitsWhateverIsComputedWithIt) {
  for (int engine = PTO_MATMUL_PORTABLE; engine <= PTO_MATMUL_AVX512; ++engine)
    for (unsigned seed = 0; seed < 20; ++seed) {
      const Case c = random_case(seed);
      Operands<float> whole(c, seed), parts(c, seed);
      if (!run(whole.job(engine))) continue;
      Random r{seed};
      for (int row = 0; row < c.heads * c.queries;) {
        pto_attention_job job = parts.job(engine);
        job.row = row;
        job.rows = std::min(c.heads * c.queries - row, 1 + r.below(20));
        job.soon = {job.q.data, job.k.data, job.v.data};  // whatever is asked for
        run(job);
        row += job.rows;
      }
      ASSERT_EQ(whole.outs(), parts.outs()) << "seed " << seed << ", engine " << engine;
    }
}

TEST(Attention, KeepsNaNAndInfinityToTheirRows) {
  const Case c = {1, 20, 40, 16, 8};
  for (int engine = PTO_MATMUL_PORTABLE; engine <= PTO_MATMUL_AVX512; ++engine) {
    Operands<float> all(c, 5), plain(c, 5);
    pto_attention_job job = all.job(engine);
    auto* const q = static_cast<float*>(job.q.data);
    q[3 * job.q.row_stride] = std::numeric_limits<float>::quiet_NaN();
    q[7 * job.q.row_stride + 2] = std::numeric_limits<float>::infinity();
    if (!run(job) || !run(plain.job(engine))) continue;
    expect_nan_in_its_rows(all.outs(), plain.outs(), c.value_width);
  }
}

// Elements are widened, and the results of floats are rounded.
TEST(Attention, RoundsBf16Once) {
  const Case c = {2, 50, 300, 40, 24};
  for (int engine = PTO_MATMUL_PORTABLE; engine <= PTO_MATMUL_AVX512; ++engine) {
    Operands<uint16_t> narrow(c, 3);
    Operands<float> wide(c, 3);
    pto_attention_job job = wide.job(engine);
    const pto_attention_job of = narrow.job(engine);
    const auto widen = [](const pto_attention_operand& from, int64_t count, float* to) {
      for (int64_t i = 0; i < count; ++i)
        to[i] = isa::bit_cast<float>(uint32_t{static_cast<const uint16_t*>(from.data)[i]} << 16);
    };
    const auto widened = [&](pto_attention_operand& to, const pto_attention_operand& from, int rows,
                             int cols) {
      ASSERT_EQ(to.row_stride, from.row_stride);
      widen(from, (rows - 1) * from.row_stride + cols, static_cast<float*>(to.data));
    };
    widened(job.q, of.q, c.heads * c.queries, c.width);
    widened(job.k, of.k, c.keys, c.width);
    widened(job.v, of.v, c.keys, c.value_width);
    if (!run(job) || !run(of)) continue;
    const std::vector<float> got = narrow.outs(), want = wide.outs();
    for (size_t i = 0; i < got.size(); ++i)
      ASSERT_EQ(got[i], float(isa::bfloat16_t(want[i]))) << i << ", engine " << engine;
  }
}

}  // namespace pto::attention_test
