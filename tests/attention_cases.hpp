// SPDX-License-Identifier: Apache-2.0
// Attention cases: random jobs of attention, of floats or of the bits of bf16, whose operands end
// where memory does, and the whole matrix of scores in double.
//
//     Operands<float> all(random_case(seed), seed);
//     if (run(all.job(PTO_MATMUL_AVX2))) all.check(0);   // row 0
//
// Thread safety: none.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <type_traits>
#include <vector>

#include "pto/isa/cpu/attention_job.hpp"
#include "tests/at_the_edge.hpp"
#include "tests/matmul_cases.hpp"
#include "tests/slow_philox.hpp"

namespace pto::attention_test {

constexpr double kLowest = -std::numeric_limits<double>::infinity();

// One call: sizes and options.
struct Case {
  int heads, queries, keys, width, value_width;
  int position = 0, first = -PTO_ATTENTION_UNBOUNDED, last = PTO_ATTENTION_UNBOUNDED;
  float softcap = 0;
  bool has_slopes = false, has_numbers = false, hides = false;
  float dropout = 0;
  uint64_t seed = 0, first_head = 0;
  bool is_turned = false;  // rows of keys and values lie across
};

// Returns the factor of a weight, as attention_dropout.hpp states it.
inline double factor(const Case& c, int row, int key) {
  if (c.dropout == 0) return 1;
  const uint64_t head = c.first_head + uint64_t(row / c.queries);
  const uint32_t keys[] = {uint32_t(c.seed), uint32_t(c.seed >> 32)};
  const uint32_t counter[] = {uint32_t(key / 64 * 16 + key % 16), uint32_t(row % c.queries),
                              uint32_t(head), uint32_t(head >> 32)};
  uint32_t words[4];
  philox_slowly(10, keys, counter, words);
  const bool is_kept = words[key % 64 / 16] >= double(c.dropout) * 4294967296.0;
  return is_kept ? 1 / (1 - double(c.dropout)) : 0;
}

// E: float, or uint16_t for bf16.
template <class E>
class Operands {
  static constexpr bool kIsFloat = std::is_same_v<E, float>;

 public:
  Operands(const Case& c, unsigned seed)
      : case_(c),
        q_(c.heads * c.queries, c.width, c.width + seed % 3, seed),
        k_(c.is_turned, c.keys, c.width, seed % 2, seed + 1),
        v_(c.is_turned, c.keys, c.value_width, seed % 5, seed + 2),
        out_(c.heads * c.queries, c.value_width, c.value_width + 1, seed + 3),
        mask_(c.queries, c.keys, c.keys, seed + 4),
        slopes_(1, c.heads, c.heads, seed + 5),
        log_sums_(size_t(c.heads * c.queries)) {
    hidden_.resize(size_t(c.queries * c.keys));
    for (size_t i = 0; i < hidden_.size(); ++i) hidden_[i] = (i * 7 + seed) % 3 != 0;
  }

  pto_attention_job job(int engine) {
    pto_attention_job job = {};
    job.engine = engine, job.type = kIsFloat ? PTO_MATMUL_F32 : PTO_MATMUL_BF16;
    job.heads = case_.heads, job.queries = case_.queries, job.keys = case_.keys;
    job.width = case_.width, job.value_width = case_.value_width;
    job.rows = case_.heads * case_.queries;
    job.position = case_.position, job.first = case_.first, job.last = case_.last;
    job.scale = 0.02f, job.softcap = case_.softcap;
    job.q = {q_.data(), case_.queries * q_.stride(), q_.stride(), 1};
    job.k = k_.operand();
    job.v = v_.operand();
    job.out = {out_.data(), case_.queries * out_.stride(), out_.stride(), 1};
    if (case_.has_numbers) job.mask = {mask_.data(), 0, case_.keys, 1};
    if (case_.hides) job.mask = {hidden_.data(), 0, case_.keys, 1}, job.mask_hides = 1;
    if (case_.has_slopes) job.slopes = {slopes_.data(), 1, 0, 0};
    job.log_sums = {log_sums_.data(), case_.queries, 1, 0};
    job.dropout = case_.dropout, job.seed = case_.seed, job.first_head = case_.first_head;
    return job;
  }

  // The score of a query, row `row` of heads x queries, for a key.
  double score(int row, int key) const {
    const int query = row % case_.queries, place = query + case_.position;
    if (key < place + case_.first || key > place + case_.last) return kLowest;
    if (case_.hides && !hidden_[size_t(query * case_.keys + key)]) return kLowest;
    double sum = 0;
    for (int c = 0; c < case_.width; ++c) sum += double(q_.at(row, c)) * double(k_.at(key, c));
    sum *= double(0.02f);
    if (case_.softcap != 0) sum = case_.softcap * std::tanh(sum / case_.softcap);
    if (case_.has_slopes) sum -= slopes_.at(0, row / case_.queries) * std::abs(place - key);
    return case_.has_numbers ? sum + double(mask_.at(query, key)) : sum;
  }

  // Compares a row of the outputs. Values are below 8; scores have an error of some units of the
  // largest one's last place, and of their sums, which in bf16 are of rougher exponentials.
  void check(int row) const {
    std::vector<double> scores;
    double size = 0;
    for (int key = 0; key < case_.keys; ++key) {
      scores.push_back(score(row, key));
      if (scores.back() > kLowest) size = std::max(size, std::fabs(scores.back()));
    }
    const double error = (kIsFloat ? 2e-6 : 6e-6) + 5e-7 * size + 1e-7 * case_.width;
    const double most = scores.empty() ? kLowest : *std::max_element(scores.begin(), scores.end());
    double total = 0;
    for (double& s : scores) total += s = most == kLowest ? 0 : std::exp(s - most);
    const double sum = most == kLowest ? kLowest : most + std::log(total);
    const float got = log_sums_[size_t(row)];
    if (most == kLowest)
      ASSERT_EQ(double(got), kLowest) << "row " << row;
    else
      ASSERT_NEAR(double(got), sum, error) << "row " << row;
    for (int col = 0; col < case_.value_width; ++col) {
      double want = 0;
      for (int key = 0; key < case_.keys; ++key)
        want += scores[size_t(key)] / std::max(total, 1e-300) * factor(case_, row, key) *
                double(v_.at(key, col));
      // In bf16 the weights are rounded, and the results.
      const double rounded = kIsFloat ? 0 : 8 * 0x1p-7;
      ASSERT_NEAR(double(out_.at(row, col)), want, (16 * error + rounded) / (1 - case_.dropout))
          << "row " << row << " column " << col;
    }
  }

  // Compares gradients of the sum of all outputs times d, whose elements are at(row, col). Weights
  // are those of check().
  void check_gradients(const AtTheEdge& d, const std::vector<float>& d_q,
                       const std::vector<float>& d_k, const std::vector<float>& d_v,
                       const std::vector<float>& d_scores) const {
    const int width = case_.width, outs = case_.value_width;
    std::vector<double> q(d_q.size()), k(d_k.size()), v(d_v.size()), s(d_scores.size());
    std::vector<double> q_terms = q, k_terms = k, s_terms = s;  // sizes of what may cancel
    for (int row = 0; row < case_.heads * case_.queries; ++row) {
      std::vector<double> weights(size_t(case_.keys)), changes(size_t(case_.keys));
      double most = kLowest, total = 0, dot = 0;
      for (int j = 0; j < case_.keys; ++j)
        most = std::max(most, weights[size_t(j)] = score(row, j));
      if (most == kLowest) continue;
      for (double& w : weights) total += w = std::exp(w - most);
      for (int j = 0; j < case_.keys; ++j) {
        double& w = weights[size_t(j)];
        w /= total;
        for (int c = 0; c < outs; ++c) changes[size_t(j)] += double(d.at(row, c)) * v_.at(j, c);
        changes[size_t(j)] *= factor(case_, row, j);
        dot += w * changes[size_t(j)];
      }
      for (int j = 0; j < case_.keys; ++j) {
        const double w = weights[size_t(j)];
        s[size_t(row * case_.keys + j)] = w * (changes[size_t(j)] - dot);
        const double change = s[size_t(row * case_.keys + j)] * 0.02f;
        const double term = w * (std::fabs(changes[size_t(j)]) + std::fabs(dot));
        s_terms[size_t(row * case_.keys + j)] = term;
        for (int c = 0; c < outs; ++c)
          v[size_t(j * outs + c)] += w * factor(case_, row, j) * d.at(row, c);
        for (int c = 0; c < width; ++c) {
          q[size_t(row * width + c)] += change * k_.at(j, c);
          k[size_t(j * width + c)] += change * q_.at(row, c);
          q_terms[size_t(row * width + c)] += term * 0.02f * std::fabs(k_.at(j, c));
          k_terms[size_t(j * width + c)] += term * 0.02f * std::fabs(q_.at(row, c));
        }
      }
    }
    expect_near(d_q, q, q_terms, "d_q"), expect_near(d_k, k, k_terms, "d_k");
    expect_near(d_v, v, v, "d_v"), expect_near(d_scores, s, s_terms, "d_scores");
  }
  static void expect_near(const std::vector<float>& got, const std::vector<double>& want,
                          const std::vector<double>& terms, const char* name) {
    double largest = 1e-3;
    for (const double x : terms) largest = std::max(largest, std::fabs(x));
    for (size_t i = 0; i < got.size(); ++i)
      ASSERT_NEAR(double(got[i]), want[i], 1e-5 * largest) << name << " element " << i;
  }

  const std::vector<float>& log_sums() const { return log_sums_; }
  std::vector<float> outs() const {
    std::vector<float> all;
    for (int row = 0; row < case_.heads * case_.queries; ++row)
      for (int col = 0; col < case_.value_width; ++col) all.push_back(out_.at(row, col));
    return all;
  }

 private:
  // Rows that lie along or across.
  struct Rows {
    Rows(bool across, int rows, int cols, int pad, unsigned seed)
        : is_across(across),
          memory(across ? cols : rows, across ? rows : cols, (across ? rows : cols) + pad, seed) {}
    float at(int row, int col) const {
      return is_across ? memory.at(col, row) : memory.at(row, col);
    }
    pto_attention_operand operand() const {
      return {memory.data(), 0, is_across ? 1 : memory.stride(), is_across ? memory.stride() : 1};
    }
    const bool is_across;
    const EdgeMatrix<E> memory;
  };

  const Case case_;
  const EdgeMatrix<E> q_;
  const Rows k_, v_;
  const EdgeMatrix<E> out_, mask_;
  const AtTheEdge slopes_;
  std::vector<float> log_sums_;
  std::vector<uint8_t> hidden_;
};

struct Freed {
  void operator()(void* p) const { std::free(p); }
};

// Returns false where the CPU lacks the engine.
inline bool run(pto_attention_job job) {
  const size_t bytes = (pto_attention_bytes(&job) + 63) / 64 * 64;
  if (bytes == 0) return false;
  const std::unique_ptr<void, Freed> memory(std::aligned_alloc(64, bytes));
  std::memset(memory.get(), 0xff, bytes);  // NaN
  job.workspace = memory.get();
  return pto_attention(&job) == 0;
}

// Compares some rows of a case, which run(job) computes; it returns false where it cannot.
template <class E, class Run>
void check(const Case& c, unsigned seed, int engine, const Run& run) {
  SCOPED_TRACE(testing::Message() << c.heads << " heads, " << c.queries << " queries, " << c.keys
                                  << " keys, widths " << c.width << " " << c.value_width
                                  << ", engine " << engine << ", seed " << seed);
  Operands<E> all(c, seed);
  if (!run(all.job(engine))) return;
  const int rows = c.heads * c.queries, step = std::max(1, rows / 40);
  for (int row = int(seed) % step; row < rows; row += step) ASSERT_NO_FATAL_FAILURE(all.check(row));
}

// Expects NaN in rows 3 and 7, of `width` numbers, and the same numbers in all others.
inline void expect_nan_in_its_rows(const std::vector<float>& got, const std::vector<float>& want,
                                   int width) {
  for (size_t i = 0; i < got.size(); ++i) {
    const size_t row = i / size_t(width);
    if (row == 3 || row == 7)
      EXPECT_TRUE(std::isnan(got[i])) << "row " << row;
    else
      EXPECT_EQ(got[i], want[i]) << "row " << row;
  }
}

inline Case random_case(unsigned seed) {
  Random r{seed};
  Case c = {1 + r.below(3), 1 + r.below(seed % 4 ? 30 : 140), r.below(seed % 3 ? 60 : 600),
            1 + r.below(40), 1 + r.below(40)};
  if (seed % 2) c.width = 8 << r.below(5);
  c.position = r.below(30) - 10;
  if (r.below(2)) c.last = r.below(3) * r.below(20);
  if (r.below(3) == 0) c.first = -r.below(40);
  if (r.below(4) == 0) c.softcap = 3;
  c.has_slopes = r.below(4) == 0, c.has_numbers = r.below(4) == 0;
  c.hides = !c.has_numbers && r.below(3) == 0;
  if (r.below(3) == 0)
    c.dropout = 0.25f * float(1 + r.below(3)), c.seed = ~uint64_t(seed) << 7,
    c.first_head = 0xffffffffu - uint64_t(r.below(3));
  return c;
}

}  // namespace pto::attention_test
