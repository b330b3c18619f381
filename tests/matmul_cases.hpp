// SPDX-License-Identifier: Apache-2.0
// Matmul cases: random jobs of a matrix product: layouts with boxes and strides of any sign, at any
// address, values with NaN, infinities, subnormals and -0.
//
//     Matmul<uint16_t, float> p({33, 70, 5}, seed);    // elements as raw bits, sums
//     const pto_matmul_job job = p.job();
//     run(job);
//     EXPECT_EQ(p.wrong(chain), "");                   // chain(p, row, col): what is wanted
//
// Thread safety: none.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <ostream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "pto/isa/cpu/matmul_job.hpp"
#include "pto/isa/element/numeric.hpp"
#include "tests/at_the_edge.hpp"

namespace pto {

struct Sizes {
  int m, k, n;
  friend std::ostream& operator<<(std::ostream& out, const Sizes& s) {
    return out << s.m << " x " << s.k << " x " << s.n;
  }
};

struct Random {
  unsigned state;
  int below(int limit) {
    state = state * 1664525u + 1013904223u;
    return int((state >> 8) % unsigned(limit));
  }
};

inline uint16_t bf16(float x) { return uint16_t(isa::bit_cast<uint32_t>(x) >> 16); }

enum class Values { kAny, kFinite };

// A matrix of raw elements in a random layout; no byte beyond its last element can be read.
template <class T>
class Scattered {
 public:
  Scattered(int rows, int cols, Random& r, bool is_dense = false) : rows_(rows), cols_(cols) {
    m_.box_rows = m_.box_cols = PTO_MATMUL_UNBOXED;
    const int pad = r.below(4), kind = is_dense ? 0 : r.below(8);
    m_.col_stride = kind == 2 ? 2 + pad : 1;
    m_.row_stride = m_.col_stride * cols + pad;
    if (kind == 3) m_.row_stride = -m_.row_stride;
    if (kind == 4) m_.col_stride = -1;
    if (kind == 1) m_.col_stride = rows + pad, m_.row_stride = 1;
    if (kind >= 6) box(r, kind == 7);
    int64_t first = 0, last = -1;
    for (int i = 0; i < rows; ++i)
      for (int j = 0; j < cols; ++j) {
        first = std::min(first, place(i, j));
        last = std::max(last, place(i, j));
      }
    count_ = size_t(last - first + 1);
    const size_t floats = (count_ * sizeof(T) + 3) / 4;
    edge_ = std::make_unique<AtTheEdge>(1, int(floats), int64_t(floats), unsigned(r.below(1000)));
    begin_ =
        reinterpret_cast<T*>(reinterpret_cast<char*>(edge_->data() + floats) - count_ * sizeof(T));
    m_.data = begin_ - first;
  }

  pto_matmul_matrix matrix(int type) const {
    pto_matmul_matrix m = m_;
    m.type = type;
    return m;
  }
  int64_t place(int i, int j) const {
    return i / m_.box_rows * m_.box_row_stride + i % m_.box_rows * m_.row_stride +
           j / m_.box_cols * m_.box_col_stride + j % m_.box_cols * m_.col_stride;
  }
  T at(int i, int j) const { return static_cast<const T*>(m_.data)[place(i, j)]; }
  void set(int i, int j, T value) { static_cast<T*>(m_.data)[place(i, j)] = value; }
  std::vector<T> memory() const { return {begin_, begin_ + count_}; }
  size_t index(int i, int j) const {
    return size_t(static_cast<const T*>(m_.data) + place(i, j) - begin_);
  }

  template <class F>
  void fill(F f) {
    for (int i = 0; i < rows_; ++i)
      for (int j = 0; j < cols_; ++j) set(i, j, f());
  }

 private:
  void box(Random& r, bool is_turned) {
    m_.box_rows = 8 << r.below(3), m_.box_cols = 8 << r.below(3);
    m_.row_stride = is_turned ? 1 : m_.box_cols;
    m_.col_stride = is_turned ? m_.box_rows : 1;
    const int64_t size = int64_t(m_.box_rows) * m_.box_cols;
    m_.box_row_stride = size;
    m_.box_col_stride = size * ((rows_ + m_.box_rows - 1) / m_.box_rows);
  }

  int rows_, cols_;
  size_t count_;
  pto_matmul_matrix m_ = {};
  T* begin_;
  std::unique_ptr<AtTheEdge> edge_;
};

// T: float, uint16_t, bits of bf16, or uint8_t; S: float or uint32_t.
template <class T, class S>
struct Matmul {
  Matmul(const Sizes& s, unsigned seed, Values values = Values::kAny)
      : sizes(s),
        random{seed * 2654435761u + 12345u},
        a(s.m, s.k, random, seed % 2 == 0),
        b(s.k, s.n, random),
        c(s.m, s.n, random, seed % 2 == 1),
        start(s.m, s.n, random),
        bias(1, s.n, random) {
    has_start = random.below(2) == 0, has_bias = random.below(3) == 0;
    has_awkward = values == Values::kAny && random.below(2) == 0;
    is_a_signed = random.below(2) == 0, is_b_signed = random.below(2) == 0;
    spread = random.below(3) == 0 ? 70 : 6;
    a.fill([this] { return element(); });
    b.fill([this] { return element(); });
    start.fill([this] { return sum(); });
    bias.fill([this] { return sum(); });
    c.fill([this] { return sum(); });
  }

  pto_matmul_job job() {
    pto_matmul_job job = {};
    constexpr int kTo = sizeof(T) > 1 ? PTO_MATMUL_F32 : PTO_MATMUL_I32;
    job.rows = sizes.m, job.depth = sizes.k, job.cols = sizes.n;
    job.a = a.matrix(type_of(is_a_signed)), job.b = b.matrix(type_of(is_b_signed));
    job.c = c.matrix(kTo);
    if (has_start) job.start = start.matrix(kTo);
    if (has_bias) job.bias = bias.matrix(kTo);
    before_ = c.memory();
    return job;
  }

  // Returns the first sum with other bits than chain() says, or a byte beside them that changed.
  template <class F>
  std::string wrong(F chain) const {
    std::vector<S> want = before_;
    const std::vector<S> got = c.memory();
    for (int i = 0; i < sizes.m; ++i)
      for (int j = 0; j < sizes.n; ++j) want[c.index(i, j)] = chain(*this, i, j);
    for (size_t i = 0; i < want.size(); ++i) {
      if (std::memcmp(&want[i], &got[i], sizeof(S)) == 0) continue;
      if (want[i] != want[i] && got[i] != got[i]) continue;  // any NaN
      std::ostringstream text;
      text << std::hexfloat << "place " << i << " of " << want.size() << ": " << got[i]
           << " is not " << want[i];
      return text.str();
    }
    return "";
  }

  // Returns the sum and that of the absolute values, of bf16 whose subnormals are zeros.
  std::pair<double, double> exact(int row, int col) const {
    double all = has_start ? double(start.at(row, col)) : 0, absolute = std::fabs(all);
    for (int k = 0; k < sizes.k; ++k) {
      const double product = double(isa::bit_cast<float>(uint32_t(a.at(row, k)) << 16)) *
                             double(isa::bit_cast<float>(uint32_t(b.at(k, col)) << 16));
      all += product, absolute += std::fabs(product);
    }
    return {all, absolute};
  }

  T element() {
    if constexpr (sizeof(T) == 4) return number();
    const int raw = random.below(1 << 16);
    if constexpr (sizeof(T) == 1) return T(raw >> 3);
    if (has_awkward && random.below(40) == 0) {
      static constexpr uint16_t kAwkward[] = {0x7f80, 0xff80, 0x7fc0, 0x7fa0, 0x8000, 0,
                                              0x0001, 0x807f, 0x0080, 0x7f7f, 0xff7f};
      return T(kAwkward[random.below(11)]);
    }
    const int exponent = 127 + random.below(spread) - spread / 2;
    return T((raw & 0x807f) | exponent << 7);
  }
  // Any float of 24 bits; few awkward ones, since each makes a whole line awkward.
  float number() {
    static constexpr float kAwkward[] = {INFINITY, -INFINITY, NAN,       0x1p-149f, -0x1p-126f,
                                         0x1p-51f, 0x1p-50f,  0x1p47f,   3e38f,     -0x1.fffffep46f,
                                         -0.0f,    0,         0x1p-103f, 0x1p-70f};
    if (has_awkward && random.below(300) == 0) return kAwkward[random.below(14)];
    const float part = float(random.below(1 << 12)) * 0x1p-23f;
    const float size = 1 + float(random.below(1 << 11)) * 0x1p-11f + part;
    return std::ldexp(random.below(2) ? size : -size, random.below(spread) - spread / 2);
  }
  S sum() {
    if constexpr (sizeof(T) == 1) return S(random.below(1 << 24)) * 2654435761u;
    if (has_awkward && random.below(40) == 0) {
      static constexpr float kAwkward[] = {0x1p-130f, -0.0f, -0x1p-149f, 3e38f};
      return S(kAwkward[random.below(4)]);
    }
    return S(float(random.below(1 << 20) - (1 << 19)) * 0x1p-16f);
  }

  const Sizes sizes;
  Random random;
  Scattered<T> a, b;
  Scattered<S> c, start, bias;
  bool has_start, has_bias, has_awkward;
  bool is_a_signed, is_b_signed;  // bytes
  int spread;

 private:
  static constexpr int type_of(bool is_signed) {
    return sizeof(T) == 4   ? PTO_MATMUL_F32
           : sizeof(T) == 2 ? PTO_MATMUL_BF16
           : is_signed      ? PTO_MATMUL_I8
                            : PTO_MATMUL_U8;
  }

  std::vector<S> before_;
};

}  // namespace pto
