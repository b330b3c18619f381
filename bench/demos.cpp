// SPDX-License-Identifier: Apache-2.0
// Small problems on one thread, of the sizes that the public simulator demonstrates: a product of
// tiles, attention of two heads, and attention in a latent space (MLA).
//
//     ./demos        one JSON line a case, as pto/bench/runner.py writes them
//
// A result is checked against sums in double before it is timed; a wrong one ends the program with
// 1.
#include <pto/pto-inst.hpp>

#include <cmath>
#include <random>

#include "samples.hpp"

using namespace pto;

namespace {

using Numbers = std::vector<float>;

template <int R, int C>
using Plain = Tile<TileType::Vec, float, R, C>;
template <int R, int C, class T = const float>
using Dense = GlobalTensor<T, Shape<1, 1, 1, R, C>, Stride<1, 1, 1, C, 1>>;

constexpr int kHeads = 2, kLength = 64, kWidth = 32, kLatent = 16;
constexpr int kHead = kLength * kWidth;

Numbers random_numbers(size_t count, unsigned seed, float scale = 1) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(0, scale);
  Numbers values(count);
  for (float& value : values) value = normal(engine);
  return values;
}

// a[rows x inner] b[inner x cols], or b[cols x inner] transposed.
Numbers multiplied(const float* a, const float* b, int rows, int inner, int cols,
                   bool turned = false) {
  Numbers c(size_t(rows) * size_t(cols));
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < cols; ++j) {
      double sum = 0;
      for (int k = 0; k < inner; ++k)
        sum += double(a[i * inner + k]) * double(turned ? b[j * inner + k] : b[k * cols + j]);
      c[size_t(i * cols + j)] = float(sum);
    }
  return c;
}

Numbers attended(const float* q, const float* k, const float* v, int width) {
  Numbers weights = multiplied(q, k, kLength, width, kLength, true);
  for (int i = 0; i < kLength; ++i) {
    double sum = 0;
    for (int j = 0; j < kLength; ++j)
      sum += std::exp(double(weights[size_t(i * kLength + j)]) / std::sqrt(double(width)));
    for (int j = 0; j < kLength; ++j) {
      float& weight = weights[size_t(i * kLength + j)];
      weight = float(std::exp(double(weight) / std::sqrt(double(width))) / sum);
    }
  }
  return multiplied(weights.data(), v, kLength, kLength, width);
}

bool are_close(const char* name, const Numbers& got, const Numbers& want) {
  for (size_t i = 0; i < want.size(); ++i)
    if (!(std::fabs(got[i] - want[i]) <= 2e-4f * (1 + std::fabs(want[i])))) {
      std::fprintf(stderr, "%s: element %zu is %g, should be %g\n", name, i, double(got[i]),
                   double(want[i]));
      return false;
    }
  return true;
}

// out = softmax(q k' / sqrt(W)) v of one head.
template <int W>
AICORE void attend(TileAcc<float, kLength, W>& out, const TileLeft<float, kLength, W>& q,
                   Plain<kLength, W>& k, const TileRight<float, kLength, W>& v) {
  Plain<W, kLength> turned;
  TileRight<float, W, kLength> keys;
  TileAcc<float, kLength, kLength> product;
  Plain<kLength, kLength> scores;
  Tile<TileType::Vec, float, kLength, 8, BLayout::RowMajor, kLength, 1> most, total;
  TileLeft<float, kLength, kLength> weights;
  TTRANS(turned, k, k);
  TMOV(keys, turned);
  TMATMUL(product, q, keys);
  TMOV(scores, product);
  TMULS(scores, scores, 1 / std::sqrt(float(W)));
  TROWMAX(most, scores, scores);
  TROWEXPANDSUB(scores, scores, most);
  TEXP(scores, scores);
  TROWSUM(total, scores, scores);
  TROWEXPANDDIV(scores, scores, total);
  TMOV(weights, scores);
  TMATMUL(out, weights, v);
}

struct Inputs {
  Numbers q = random_numbers(kHeads * kHead, 1), k = random_numbers(kHeads * kHead, 2),
          v = random_numbers(kHeads * kHead, 3);
};

// From memory through a plain tile to an operand.
template <class To, int R, int C>
AICORE void load(To& to, Plain<R, C>& plain, const float* from) {
  TLOAD(plain, (Dense<R, C>(from)));
  TMOV(to, plain);
}

AICORE void attention(const Inputs& in, float* out) {
  for (int at = 0; at < kHeads * kHead; at += kHead) {
    Plain<kLength, kWidth> plain, k;
    TileLeft<float, kLength, kWidth> queries;
    TileRight<float, kLength, kWidth> values;
    TileAcc<float, kLength, kWidth> result;
    load(queries, plain, &in.q[size_t(at)]);
    load(values, plain, &in.v[size_t(at)]);
    TLOAD(k, (Dense<kLength, kWidth>(&in.k[size_t(at)])));
    attend(result, queries, k, values);
    TSTORE((Dense<kLength, kWidth, float>(out + at)), result);
  }
}

// Queries, keys and values are brought to kLatent numbers each before they attend, and back.
struct Projections {
  static Numbers matrix(unsigned seed) { return random_numbers(kWidth * kLatent, seed, 0.2f); }
  Numbers q = matrix(4), k = matrix(5), v = matrix(6), back = matrix(7);
};

template <class To>
AICORE void project(To& to, const float* from, const TileRight<float, kWidth, kLatent>& by) {
  Plain<kLength, kWidth> plain;
  TileLeft<float, kLength, kWidth> left;
  TileAcc<float, kLength, kLatent> product;
  load(left, plain, from);
  TMATMUL(product, left, by);
  TMOV(to, product);
}

AICORE void latent_attention(const Inputs& in, const Projections& by, float* out) {
  Plain<kWidth, kLatent> plain;
  Plain<kLatent, kWidth> plain_back;
  TileRight<float, kWidth, kLatent> to_q, to_k, to_v;
  TileRight<float, kLatent, kWidth> back;
  load(to_q, plain, by.q.data());
  load(to_k, plain, by.k.data());
  load(to_v, plain, by.v.data());
  load(back, plain_back, by.back.data());
  for (int at = 0; at < kHeads * kHead; at += kHead) {
    TileLeft<float, kLength, kLatent> queries, context;
    Plain<kLength, kLatent> k;
    TileRight<float, kLength, kLatent> values;
    TileAcc<float, kLength, kLatent> latent;
    TileAcc<float, kLength, kWidth> result;
    project(queries, &in.q[size_t(at)], to_q);
    project(k, &in.k[size_t(at)], to_k);
    project(values, &in.v[size_t(at)], to_v);
    attend(latent, queries, k, values);
    TMOV(context, latent);
    TMATMUL(result, context, back);
    TSTORE((Dense<kLength, kWidth, float>(out + at)), result);
  }
}

bool bench_product() {
  constexpr int M = 32, K = 16, N = 32;
  const Numbers x = random_numbers(M * K, 1), y = random_numbers(K * N, 2);
  TileLeft<float, M, K> a;
  TileRight<float, K, N> b;
  TileAcc<float, M, N> c;
  TLOAD(a, (Dense<M, K>(x.data())));
  TLOAD(b, (Dense<K, N>(y.data())));
  auto work = [&] { TMATMUL(c, a, b); };
  work();
  Numbers got(M * N);
  TSTORE((Dense<M, N, float>(got.data())), c);
  if (!are_close("product", got, multiplied(x.data(), y.data(), M, K, N))) return false;
  bench::report({"demo_product", "f32", "32, 16, 32"}, {bench::contender(work)});
  return true;
}

bool bench_attention() {
  const Inputs in;
  Numbers got(kHeads * kHead), want;
  auto work = [&] { attention(in, got.data()); };
  work();
  for (size_t at = 0; at < kHeads * kHead; at += kHead)
    for (float x : attended(&in.q[at], &in.k[at], &in.v[at], kWidth)) want.push_back(x);
  if (!are_close("attention", got, want)) return false;
  bench::report({"demo_attention", "f32", "2, 64, 32"}, {bench::contender(work)});
  return true;
}

bool bench_latent_attention() {
  const Inputs in;
  const Projections by;
  Numbers got(kHeads * kHead), want;
  auto work = [&] { latent_attention(in, by, got.data()); };
  work();
  for (size_t at = 0; at < kHeads * kHead; at += kHead) {
    const auto projected = [&](const Numbers& from, const Numbers& to) {
      return multiplied(&from[at], to.data(), kLength, kWidth, kLatent);
    };
    const Numbers context = attended(projected(in.q, by.q).data(), projected(in.k, by.k).data(),
                                     projected(in.v, by.v).data(), kLatent);
    for (float x : multiplied(context.data(), by.back.data(), kLength, kLatent, kWidth))
      want.push_back(x);
  }
  if (!are_close("latent attention", got, want)) return false;
  bench::report({"demo_latent_attention", "f32", "2, 64, 32, 16"}, {bench::contender(work)});
  return true;
}

}  // namespace

int main() { return bench_product() && bench_attention() && bench_latent_attention() ? 0 : 1; }
