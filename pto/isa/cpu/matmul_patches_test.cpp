// SPDX-License-Identifier: Apache-2.0
// Products with the patches of images, through each engine of the CPU: any stride, padding and
// dilation, from any place on, against chains of multiply-adds over the pixels one by one.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "pto/isa/cpu/matmul_job.hpp"
#include "pto/isa/element/numeric.hpp"
#include "tests/deep.hpp"

namespace pto::matmul_patches_test {
namespace {

using Random = std::mt19937;
int below(Random& random, int limit) { return static_cast<int>(random() % unsigned(limit)); }

template <class T>
struct Types {
  using Sum = float;
};
template <>
struct Types<double> {
  using Sum = double;
};

// Images whose rows of pixels lie between NaN, so that a pixel beyond them shows.
template <class T>
struct Images {
  Images(Random& random, int images, int channels, pto_matmul_patches* p) {
    const int64_t gap = 1 + below(random, 40);
    p->channel_stride = p->height * p->width + gap;
    p->image_stride = channels * p->channel_stride + gap;
    pixels.assign(size_t(images * p->image_stride + 2 * gap),
                  T(std::numeric_limits<float>::quiet_NaN()));
    first = pixels.data() + gap;
    for (int64_t n = 0; n < images; ++n)
      for (int64_t c = 0; c < channels; ++c)
        for (int64_t i = 0; i < p->height * p->width; ++i)
          first[n * p->image_stride + c * p->channel_stride + i] =
              random() % 7 ? T(float(below(random, 401) - 200) / 64) : T(-0.0f);
  }
  std::vector<T> pixels;
  T* first;
};

template <class T>
typename Types<T>::Sum pixel(const pto_matmul_patches& p, const T* images, int64_t k,
                             int64_t place) {
  const int64_t taps = p.filter_h * p.filter_w, tap = k % taps, row = place / p.out_w;
  const int64_t y = row % p.out_h * p.stride_h - p.padding_h + tap / p.filter_w * p.dilation_h;
  const int64_t x = place % p.out_w * p.stride_w - p.padding_w + tap % p.filter_w * p.dilation_w;
  if (y < 0 || y >= p.height || x < 0 || x >= p.width) return 0;
  return typename Types<T>::Sum(
      images[row / p.out_h * p.image_stride + k / taps * p.channel_stride + y * p.width + x]);
}

int64_t places(int64_t size, int64_t filter, int64_t stride, int64_t padding, int64_t dilation) {
  return (size + 2 * padding - dilation * (filter - 1) - 1) / stride + 1;
}

// A random geometry, of which at least one place is left.
pto_matmul_patches geometry(Random& random) {
  pto_matmul_patches p = {};
  do {
    p.height = 1 + below(random, 12), p.width = 1 + below(random, 70) / (1 + below(random, 10));
    p.filter_h = 1 + below(random, 3), p.filter_w = 1 + below(random, 4);
    p.stride_h = 1 + below(random, 3), p.stride_w = 1 + below(random, 4);
    p.padding_h = below(random, 4), p.padding_w = below(random, 4) * below(random, 7);
    p.dilation_h = 1 + below(random, 2), p.dilation_w = 1 + below(random, 3);
    p.out_h = places(p.height, p.filter_h, p.stride_h, p.padding_h, p.dilation_h);
    p.out_w = places(p.width, p.filter_w, p.stride_w, p.padding_w, p.dilation_w);
  } while (p.height + 2 * p.padding_h <= p.dilation_h * (p.filter_h - 1) ||
           p.width + 2 * p.padding_w <= p.dilation_w * (p.filter_w - 1));
  return p;
}

template <class M>
pto_matmul_matrix rows_of(M* data, int type, int64_t row_stride) {
  return {data, type, PTO_MATMUL_UNBOXED, PTO_MATMUL_UNBOXED, 0, 0, row_stride, 1};
}

template <class T>
void check(Random& random, int type, int channels, int rows) {
  using Sum = typename Types<T>::Sum;
  const int sum_type = type == PTO_MATMUL_F64 ? PTO_MATMUL_F64 : PTO_MATMUL_F32;
  pto_matmul_patches p = geometry(random);
  const int images = 1 + below(random, 3);
  const Images<T> x(random, images, channels, &p);
  const int64_t depth = channels * p.filter_h * p.filter_w, all = images * p.out_h * p.out_w;
  p.first = below(random, int(all));
  const int64_t cols = 1 + below(random, int(all - p.first));
  std::vector<T> filters(size_t(rows * depth) + 1);
  for (T& one : filters) one = T(float(below(random, 401) - 200) / 64);
  const bool has_start = random() % 2, packs = random() % 4 == 0;
  std::vector<Sum> before(size_t(rows * cols)), sums;
  for (Sum& one : before) one = Sum(below(random, 100));
  for (int engine = PTO_MATMUL_PORTABLE; engine <= PTO_MATMUL_AMX; ++engine) {
    sums = before;
    pto_matmul_job job = {};
    job.engine = engine, job.rows = rows, job.depth = int(depth), job.cols = int(cols);
    job.a = rows_of(filters.data(), type, depth);
    job.b = {x.first, type, 0, 0, 0, 0, 0, 0};
    job.c = rows_of(sums.data(), sum_type, cols);
    if (has_start) job.start = job.c;
    job.b_patches = &p;
    std::vector<char> packed;
    if (packs) {
      packed.assign(size_t(pto_matmul_packed_bytes(&job)) + 1, 77);
      job.packed = packed.data(), job.packs = 1;
      if (pto_matmul(&job) != 0) continue;
      ASSERT_EQ(packed.back(), 77) << "beyond what was promised";
      job.packs = 0;
    }
    if (pto_matmul(&job) != 0) continue;
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < cols; ++j) {
        Sum sum = has_start ? before[size_t(i * cols + j)] : Sum(0);
        for (int64_t k = 0; k < depth; ++k)
          sum =
              std::fma(Sum(filters[size_t(i * depth + k)]), pixel(p, x.first, k, p.first + j), sum);
        ASSERT_EQ(sums[size_t(i * cols + j)], sum)
            << "engine " << engine << ", type " << type << ", row " << i << ", place "
            << p.first + j << " of " << images << " x " << p.out_h << " x " << p.out_w;
      }
  }
}

TEST(MatmulOfPatches, ColumnsAreThePixelsUnderTheFilterAtTheirPlaces) {
  Random random(1);
  for (int i = 0; i < rounds_of(60, 3000); ++i) {
    const int channels = 1 + below(random, i % 8 ? 6 : 120), rows = 1 + below(random, 30);
    ASSERT_NO_FATAL_FAILURE(check<float>(random, PTO_MATMUL_F32, channels, rows));
    ASSERT_NO_FATAL_FAILURE(check<isa::half>(random, PTO_MATMUL_F16, channels, rows));
    ASSERT_NO_FATAL_FAILURE(check<isa::bfloat16_t>(random, PTO_MATMUL_BF16, channels, rows));
    ASSERT_NO_FATAL_FAILURE(check<double>(random, PTO_MATMUL_F64, channels, rows));
  }
}

}  // namespace
}  // namespace pto::matmul_patches_test
