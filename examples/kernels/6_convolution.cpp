// SPDX-License-Identifier: Apache-2.0
// A convolution of 3 x 3 as a matrix product: TIMG2COL lays the pixels under the filter out as
// rows, the filter is a matrix of (channels, filter elements) by output channels.
#include "example.hpp"

using namespace pto;

constexpr int kChannels = 32, kC0 = 8, kSize = 16, kOut = 32, kFilter = 3;
constexpr int kDepth = kChannels * kFilter * kFilter, kPixels = kSize * kSize;

__global__ __aicore__ void Convolve(__gm__ float* out, __gm__ const float* image,
                                    __gm__ const float* filter) {
  // NC1HWC0: groups of eight channels, each pixel's eight side by side.
  using Map = ConvTile<TileType::Mat, float, kChannels * kPixels * 4, Layout::NC1HWC0,
                       ConvTileShape<1, kChannels / kC0, kSize, kSize, kC0>>;
  using MapView = GlobalTensor<const float, Shape<1, kChannels / kC0, kSize, kSize, kC0>,
                               Stride<kChannels * kPixels, kPixels * kC0, kSize * kC0, kC0, 1>,
                               Layout::NC1HWC0>;
  Map map;
  TLOAD(map, MapView(image + int64_t(get_block_idx()) * kChannels * kPixels));
  map.SetFmapH(kSize), map.SetFmapW(kSize);
  map.SetFilterH(kFilter), map.SetFilterW(kFilter);
  map.SetStrideH(1), map.SetStrideW(1), map.SetDilationH(1), map.SetDilationW(1);
  for (int side = 0; side < 4; ++side) map.SetPadList(side, 1);
  map.SetPadValue(0);
  SETFMATRIX(map);

  TileLeft<float, kPixels, kDepth> pixels;
  Tile<TileType::Mat, float, kDepth, kOut, BLayout::ColMajor, kDepth, kOut, SLayout::RowMajor>
      on_chip;
  TileRight<float, kDepth, kOut> weights;
  TileAcc<float, kPixels, kOut> sum;
  TIMG2COL(pixels, map);
  TLOAD(on_chip,
        GlobalTensor<const float, Shape<1, 1, 1, kDepth, kOut>, Stride<1, 1, 1, kOut, 1>>(filter));
  TMOV(weights, on_chip);
  TMATMUL(sum, pixels, weights);
  TSTORE(GlobalTensor<float, Shape<1, 1, 1, kPixels, kOut>, Stride<1, 1, 1, kOut, 1>>(
             out + int64_t(get_block_idx()) * kPixels * kOut),
         sum);
}

int main() {
  const int images = 32;
  const std::vector<float> image = example::random_floats(size_t(images) * kChannels * kPixels);
  // Rows of the filter: ((c1 * 3 + kh) * 3 + kw) * kC0 + c0.
  const std::vector<float> filter = example::random_floats(kDepth * kOut, 0.1f, 2);
  std::vector<float> out(size_t(images) * kPixels * kOut);
  const double taken = example::seconds(
      [&] { EXEC_KERNEL_CMD(Convolve, images, out.data(), image.data(), filter.data()); });

  std::vector<double> want(out.size(), 0);
  for (int n = 0; n < images; ++n)
    for (int c = 0; c < kChannels; ++c)
      for (int kh = 0; kh < kFilter; ++kh)
        for (int kw = 0; kw < kFilter; ++kw)
          for (int h = 0; h < kSize; ++h)
            for (int w = 0; w < kSize; ++w) {
              const int y = h + kh - 1, x = w + kw - 1;
              if (y < 0 || y >= kSize || x < 0 || x >= kSize) continue;
              const int group = n * kChannels / kC0 + c / kC0;
              const double pixel = image[size_t((group * kSize + y) * kSize + x) * kC0 + c % kC0];
              const int row = ((c / kC0 * kFilter + kh) * kFilter + kw) * kC0 + c % kC0;
              double* to = want.data() + size_t((n * kSize + h) * kSize + w) * kOut;
              for (int o = 0; o < kOut; ++o) to[o] += pixel * filter[row * kOut + o];
            }
  const double flops = 2.0 * images * kPixels * kDepth * kOut;
  return example::report("convolution 3x3, 32 images 32x16x16", example::error(out, want), 1e-5,
                         flops, "GFLOP/s", taken);
}
