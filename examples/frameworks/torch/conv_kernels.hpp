// SPDX-License-Identifier: Apache-2.0
// A 2-d convolution and its gradients, as sums over the filter: short and exact, not the fastest
// (examples/kernels/6_convolution.cpp uses the matrix unit).
//
//     EXEC_KERNEL_CMD(ConvKernel<float>, blocks, out, x, weight, bias, n, c, h, w, o, kh, kw,
//                     stride, padding);
//
// x is [n, c, h, w], weight [o, c, kh, kw], out [n, o, (h + 2 padding - kh) / stride + 1, ...].
// Thread safety: a block writes its own images or filters.
#pragma once
#include "kernels.hpp"

namespace my_ops {

struct Conv {
  int64_t n, c, h, w, o, kh, kw, stride, padding;
  int64_t out_h() const { return (h + 2 * padding - kh) / stride + 1; }
  int64_t out_w() const { return (w + 2 * padding - kw) / stride + 1; }

  // Calls f(row of the image, filter element, image element, output element), offsets each, for one
  // image, one channel and one filter: all pairs that the convolution multiplies.
  template <class F>
  void for_pairs(F f) const {
    for (int64_t i = 0; i < kh; ++i) {
      for (int64_t j = 0; j < kw; ++j) {
        for (int64_t y = 0; y < out_h(); ++y) {
          const int64_t from_y = y * stride + i - padding;
          if (from_y < 0 || from_y >= h) continue;
          for (int64_t x = 0; x < out_w(); ++x) {
            const int64_t from_x = x * stride + j - padding;
            if (from_x < 0 || from_x >= w) continue;
            f(i * kw + j, from_y * w + from_x, y * out_w() + x);
          }
        }
      }
    }
  }
};

// clang-format off
#define MY_CONV_SIZES int64_t n, int64_t c, int64_t h, int64_t w, int64_t o, int64_t kh, \
                      int64_t kw, int64_t stride, int64_t padding
// clang-format on

template <class T>
__global__ void ConvKernel(__gm__ T* out, __gm__ const T* x, __gm__ const T* weight,
                           __gm__ const T* bias, MY_CONV_SIZES) {
  const Conv conv{n, c, h, w, o, kh, kw, stride, padding};
  const int64_t area = conv.out_h() * conv.out_w();
  const Share mine = share_of(n * o);
  for (int64_t at = mine.first; at < mine.last; ++at) {
    const int64_t image = at / o, filter = at % o;
    T* to = out + at * area;
    for (int64_t i = 0; i < area; ++i) to[i] = bias != nullptr ? bias[filter] : T(0);
    for (int64_t channel = 0; channel < c; ++channel) {
      const T* from = x + (image * c + channel) * h * w;
      const T* weights = weight + (filter * c + channel) * kh * kw;
      conv.for_pairs([&](int64_t k, int64_t i, int64_t j) { to[j] += weights[k] * from[i]; });
    }
  }
}

template <class T>
__global__ void ConvInputGradient(__gm__ T* d_x, __gm__ const T* d_out, __gm__ const T* weight,
                                  MY_CONV_SIZES) {
  const Conv conv{n, c, h, w, o, kh, kw, stride, padding};
  const int64_t area = conv.out_h() * conv.out_w();
  const Share mine = share_of(n * c);
  for (int64_t at = mine.first; at < mine.last; ++at) {
    const int64_t image = at / c, channel = at % c;
    T* to = d_x + at * h * w;
    for (int64_t i = 0; i < h * w; ++i) to[i] = T(0);
    for (int64_t filter = 0; filter < o; ++filter) {
      const T* from = d_out + (image * o + filter) * area;
      const T* weights = weight + (filter * c + channel) * kh * kw;
      conv.for_pairs([&](int64_t k, int64_t i, int64_t j) { to[i] += weights[k] * from[j]; });
    }
  }
}

template <class T>
__global__ void ConvWeightGradient(__gm__ T* d_weight, __gm__ const T* d_out, __gm__ const T* x,
                                   MY_CONV_SIZES) {
  const Conv conv{n, c, h, w, o, kh, kw, stride, padding};
  const int64_t area = conv.out_h() * conv.out_w();
  const Share mine = share_of(o * c);
  for (int64_t at = mine.first; at < mine.last; ++at) {
    const int64_t filter = at / c, channel = at % c;
    T* to = d_weight + at * kh * kw;
    for (int64_t k = 0; k < kh * kw; ++k) to[k] = T(0);
    for (int64_t image = 0; image < n; ++image) {
      const T* left = d_out + (image * o + filter) * area;
      const T* right = x + (image * c + channel) * h * w;
      conv.for_pairs([&](int64_t k, int64_t i, int64_t j) { to[k] += left[j] * right[i]; });
    }
  }
}

template <class T>
__global__ void ConvBiasGradient(__gm__ T* d_bias, __gm__ const T* d_out, int64_t n, int64_t o,
                                 int64_t area) {
  const Share mine = share_of(o);
  for (int64_t filter = mine.first; filter < mine.last; ++filter) {
    T sum = T(0);
    for (int64_t image = 0; image < n; ++image) {
      for (int64_t i = 0; i < area; ++i) sum += d_out[(image * o + filter) * area + i];
    }
    d_bias[filter] = sum;
  }
}

}  // namespace my_ops
