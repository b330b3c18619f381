// SPDX-License-Identifier: Apache-2.0
// Convolution tiles: transfers, changes of layout, and TIMG2COL, against loops over the indices of
// the public formulas.
#include <gtest/gtest.h>

#include <vector>

#include "pto/isa/matrix/img2col.hpp"
#include "pto/isa/matrix/matrix_transfer.hpp"
#include "tests/isa_oracle.hpp"

namespace pto::conv_test {
using namespace isa;

template <class T>
std::vector<T> numbers(int64_t n) {
  std::vector<T> memory(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) memory[size_t(i)] = T(float((i * 7 + 3) % 120));
  return memory;
}
template <class C>
void count_up(C& tile, int from = 1) {
  for (int i = 0; i < C::kStored; ++i)
    tile.data()[i] = typename C::DType(float((i * 5 + from) % 113));
}
template <class T>
double number(T value) {
  return double(wide(value));
}

template <class T, Layout L, int64_t... N>
using Conv =
    ConvTile<TileType::Mat, T, int((N * ... * 1) * int(sizeof(T))), L, ConvTileShape<N...>>;

template <class T>
void check_image_transfer() {
  constexpr int64_t c0 = 32 / int64_t(sizeof(T));
  ConvTile<TileType::Mat, T, 2 * 3 * 5 * 7 * 32, Layout::NC1HWC0,
           ConvTileShape<2, 3, DYNAMIC, DYNAMIC, c0>>
      tile(4, 6);
  count_up(tile);
  using ShapeT = Shape<2, 3, DYNAMIC, DYNAMIC, c0>;
  using View = GlobalTensor<T, ShapeT, Stride<>, Layout::NC1HWC0>;
  const Stride<> stride(3 * 5 * 7 * c0 + 9, 5 * 7 * c0, 7 * c0, c0, 1);
  const auto memory = numbers<T>(2 * (3 * 5 * 7 * c0 + 9));
  auto out = std::vector<T>(memory.size(), T(121.f)), want = out;
  TLOAD(tile, View(const_cast<T*>(memory.data()), ShapeT(4, 6), stride));
  int64_t at = 0;
  for (int n = 0; n < 2; ++n)
    for (int c = 0; c < 3; ++c)
      for (int h = 0; h < 4; ++h)
        for (int w = 0; w < 6; ++w)
          for (int i = 0; i < c0; ++i, ++at) {
            const int64_t from = n * stride[0] + c * stride[1] + h * stride[2] + w * stride[3] + i;
            ASSERT_EQ(number(tile.data()[at]), number(memory[size_t(from)]));
            want[size_t(from)] = memory[size_t(from)];
          }
  TSTORE(View(out.data(), ShapeT(4, 6), stride), tile);
  for (size_t i = 0; i < out.size(); ++i) ASSERT_EQ(number(out[i]), number(want[i])) << i;
}

TEST(ConvTile, images_move_in_five_dimensions) {
  check_image_transfer<half>();
  check_image_transfer<bfloat16_t>();
  check_image_transfer<float>();
  check_image_transfer<int8_t>();
}

TEST(ConvTile, filters_and_volumes_move_in_the_order_of_memory) {
  const auto memory = numbers<half>(2 * 3 * 3 * 32 * 16);
  Conv<half, Layout::FRACTAL_Z, 2 * 3 * 3, 2, 16, 16> filter;
  GlobalTensor<const half, Shape<2, 3, 3, 32, 16>, Stride<3 * 3 * 512, 3 * 512, 512, 16, 1>,
               Layout::FRACTAL_Z>
      view(memory.data());
  TLOAD(filter, view);
  for (size_t i = 0; i < memory.size(); ++i)
    ASSERT_EQ(number(filter.GetShape(0) ? filter.data()[i] : half(0.f)), number(memory[i]));
  Conv<half, Layout::NDC1HWC0, 2, 3, 1, 4, 5, 16> volume;
  using Volume =
      GlobalTensor<half, Shape<2, 3, 1, 4, 5>, Stride<960, 320, 320, 80, 16>, Layout::NDC1HWC0>;
  TLOAD(volume, Volume(const_cast<half*>(memory.data())));
  std::vector<half> out(2 * 960 + 1, half(-1.f));
  TSTORE(Volume(out.data()), volume);
  for (size_t i = 0; i < 2 * 960; ++i) ASSERT_EQ(number(out[i]), number(memory[i]));
  EXPECT_EQ(number(out.back()), -1);
}

TEST(ConvTile, volumes_as_wide_as_c0_move_by_dimensions) {
  constexpr int64_t kRest = 2 * 3 * 8 * 8;  // C1, H, W, C0
  const auto memory = numbers<float>(4 * 3 * kRest);
  using Volume = GlobalTensor<float, Shape<4, 3, 2, 3, 8>,
                              Stride<3 * kRest, kRest, kRest / 2, 64, 8>, Layout::NDC1HWC0>;
  ConvTile<TileType::Mat, float, int(4 * 3 * kRest * 4), Layout::NDC1HWC0,
           ConvTileShape<DYNAMIC, DYNAMIC, 2, 3, 8, 8>>
      part(3, 2);
  static_assert(part.totalDimCount == 6 && part.dynamicDimCount == 2);
  TLOAD(part, Volume(const_cast<float*>(memory.data())));
  std::vector<float> out(memory.size(), -1);
  TSTORE(Volume(out.data()), part);
  for (int64_t n = 0; n < 4; ++n)
    for (int64_t d = 0; d < 3; ++d)
      for (int64_t i = 0; i < kRest; ++i) {
        const size_t at = size_t((n * 3 + d) * kRest + i);
        ASSERT_EQ(out[at], n < 3 && d < 2 ? memory[at] : -1);
      }
}

TEST(ConvTile, empty_views_and_tiles_move_nothing) {
  Conv<half, Layout::FRACTAL_Z, 9, 2, 16, 16> filter, before;
  count_up(filter), count_up(before);
  using ShapeT = Shape<DYNAMIC, DYNAMIC, 3, 32, 16>;
  using View = GlobalTensor<half, ShapeT, Stride<4608, 1536, 512, 16, 1>, Layout::FRACTAL_Z>;
  half memory[1] = {half(7.f)};
  for (const ShapeT& shape : {ShapeT(0, 3), ShapeT(1, 0)}) {
    TLOAD(filter, View(memory, shape, {}));
    TSTORE(View(memory, shape, {}), filter);
  }
  for (int i = 0; i < filter.kStored; ++i)
    ASSERT_EQ(number(filter.data()[i]), number(before.data()[i]));
  ConvTile<TileType::Mat, half, 32, Layout::FRACTAL_Z, ConvTileShape<9, 2, 16, DYNAMIC>> empty(0);
  TLOAD(empty, View(memory, ShapeT(1, 1), {}));
  Conv<half, Layout::NCHW, 2, 16, 3, 3> source;
  TTRANS(empty, source);
  EXPECT_EQ(number(memory[0]), 7);
}

TEST(ConvTile, filters_before_the_first_are_left_out) {
  Conv<half, Layout::FRACTAL_Z, 2, 1, 16, 16> filter;
  count_up(filter);
  TileRight<half, 32, 16> right;
  count_up(right, 9);
  TEXTRACT(right, filter, -3, -5);
  for (int r = 0; r < 32; ++r)
    for (int c = 0; c < 16; ++c) {
      const int k = r - 3, n = c - 5;
      if (k >= 0 && n >= 0) {
        ASSERT_EQ(number(right.GetElement(r, c)),
                  number(filter.data()[(k / 16 * 16 + n) * 16 + k % 16]));
      }
    }
}

TEST(ConvTile, lies_at_an_address_like_any_tile) {
  Conv<float, Layout::NCHW, 1, 2, 2, 8> a, b;
  TASSIGN(a, 0x100);
  TASSIGN<0x120>(b);
  count_up(a);
  EXPECT_EQ(b.data()[0], a.data()[8]);
  auto copy = a;
  EXPECT_EQ(copy.data(), a.data());
}

template <class T>
void check_layouts() {
  constexpr int C0 = 32 / int(sizeof(T)), C = C0 + 3, H = 3, W = 5;
  Conv<T, Layout::NCHW, 20, C, H, W> nchw, back;
  Conv<T, Layout::NC1HWC0, 20, 2, H, W, C0> image;
  Conv<T, Layout::FRACTAL_Z, 2 * H * W, 2, 16, C0> filter;
  count_up(nchw);
  count_up(image, 9);
  count_up(filter, 17);
  TTRANS(image, nchw, nchw);
  TTRANS(filter, image, image);
  TTRANS(back, image, image);
  const auto from = [&](int n, int c, int h, int w) {
    return n < 20 && c < C ? number(nchw.data()[((n * C + c) * H + h) * W + w]) : 0;
  };
  for (int n = 0; n < 32; ++n)
    for (int c = 0; c < 2 * C0; ++c)
      for (int h = 0; h < H; ++h)
        for (int w = 0; w < W; ++w) {
          const int c1 = c / C0, i = c % C0;
          if (n < 20) {
            ASSERT_EQ(number(image.data()[(((n * 2 + c1) * H + h) * W + w) * C0 + i]),
                      from(n, c, h, w));
          }
          ASSERT_EQ(number(filter.data()[((c1 * H + h) * W + w) * 32 * C0 + n * C0 + i]),
                    from(n, c, h, w));
        }
  for (int i = 0; i < 20 * C * H * W; ++i)
    ASSERT_EQ(number(back.data()[i]), number(nchw.data()[i]));

  TileRight<T, 64, 32> right;
  TEXTRACT(right, filter, 7, 3);
  for (int k = 0; k < 64; ++k)
    for (int n = 0; n < 29; ++n)
      ASSERT_EQ(number(right.GetElement(k, n)),
                number(filter.data()[(k + 7) / C0 * 32 * C0 + (n + 3) * C0 + (k + 7) % C0]));
}
TEST(ConvTile, images_and_filters_change_their_layout) {
  check_layouts<half>();
  check_layouts<bfloat16_t>();
  check_layouts<float>();
  check_layouts<int8_t>();
}

TEST(ConvTile, groups_and_volumes_change_their_layout) {
  constexpr int G = 2, N = 3, C = 16, H = 2, W = 3;
  Conv<half, Layout::GNCHW, G, N, C, H, W> source;
  Conv<half, Layout::GNC1HWC0, G, N, 1, H, W, 16> image;
  Conv<half, Layout::FRACTAL_Z, G * H * W, 1, 16, 16> filter;
  count_up(source);
  TTRANS(image, source, source);
  TTRANS(filter, image, image);
  Conv<half, Layout::NCDHW, N, C, 4, H, W> volume;
  Conv<half, Layout::FRACTAL_Z_3D, 4 * H * W, 1, 16, 16> deep;
  count_up(volume, 2);
  TTRANS(deep, volume, volume);
  for (int n = 0; n < 16; ++n)
    for (int c = 0; c < C; ++c)
      for (int x = 0; x < H * W; ++x) {
        for (int g = 0; g < G; ++g)
          ASSERT_EQ(number(filter.data()[((g * H * W + x) * 16 + n) * 16 + c]),
                    n < N ? number(source.data()[((g * N + n) * C + c) * H * W + x]) : 0);
        for (int d = 0; d < 4; ++d)
          ASSERT_EQ(number(deep.data()[((d * H * W + x) * 16 + n) * 16 + c]),
                    n < N ? number(volume.data()[((n * C + c) * 4 + d) * H * W + x]) : 0);
      }
}

template <class D, class C>
void expect_unfolded(const D& d, const C& image, int pos_m, int pos_k) {
  const int c0 = int(image.GetShape(4)), kh_n = image.GetFilterH(), kw_n = image.GetFilterW();
  const int h_n = image.GetFmapH(), w_n = image.GetFmapW();
  const int ho_n =
      (h_n + image.GetPadList(2) + image.GetPadList(3) - (image.GetDilationH() * (kh_n - 1) + 1)) /
          image.GetStrideH() +
      1;
  const int wo_n =
      (w_n + image.GetPadList(0) + image.GetPadList(1) - (image.GetDilationW() * (kw_n - 1) + 1)) /
          image.GetStrideW() +
      1;
  for (int i = 0; i < d.GetValidRow(); ++i)
    for (int j = 0; j < d.GetValidCol(); ++j) {
      const int m = pos_m + i, k = pos_k + j;
      const int n = m / (ho_n * wo_n), ho = m / wo_n % ho_n, wo = m % wo_n;
      const int c1 = k / (c0 * kw_n * kh_n), kh = k / (c0 * kw_n) % kh_n, kw = k / c0 % kw_n;
      const int h = ho * image.GetStrideH() + kh * image.GetDilationH() - image.GetPadList(2);
      const int w = wo * image.GetStrideW() + kw * image.GetDilationW() - image.GetPadList(0);
      const bool inside =
          n < image.GetShape(0) && c1 < image.GetShape(1) && h >= 0 && h < h_n && w >= 0 && w < w_n;
      const int64_t at =
          (((n * image.GetShape(1) + c1) * image.GetShape(2) + h) * image.GetShape(3) + w) * c0 +
          k % c0;
      ASSERT_EQ(number(d.GetElement(i, j)),
                inside ? number(image.data()[at]) : number(image.GetPadValue()))
          << "[" << i << "," << j << "] from " << pos_m << "," << pos_k;
    }
}

template <class T>
void check_unfold() {
  constexpr int C0 = 32 / int(sizeof(T));
  Conv<T, Layout::NC1HWC0, 2, 2, 9, 11, C0> image;
  TileLeft<T, 96, 4 * C0, DYNAMIC, DYNAMIC> left(90, 4 * C0 - 3);
  TileRight<T, 96, 64, DYNAMIC, DYNAMIC> right(90, 50);
  count_up(image);
  image.SetFmapH(9);
  image.SetFmapW(11);
  image.SetPadValue(T(-1.f));
  struct Case {
    int kernel_h, kernel_w, stride_h, stride_w, dilation, pad[4], m, k;
  };
  const Case cases[] = {{1, 1, 1, 1, 1, {0, 0, 0, 0}, 0, 0},
                        {3, 3, 1, 1, 1, {1, 1, 1, 1}, 5, 0},
                        {3, 2, 2, 3, 2, {2, 0, 1, 3}, 30, C0},
                        {2, 5, 1, 2, 1, {4, 4, 0, 0}, 7, 9},
                        {3, 3, 2, 2, 1, {0, 1, 0, 1}, 17, 5 * C0 + 2}};
  for (const Case& c : cases) {
    image.SetFilterH(c.kernel_h);
    image.SetFilterW(c.kernel_w);
    image.SetStrideH(c.stride_h);
    image.SetStrideW(c.stride_w);
    image.SetDilationH(c.dilation);
    image.SetDilationW(c.dilation);
    image.SetPadList(c.pad);
    SETFMATRIX(image);
    SET_IMG2COL_RPT<decltype(image)>(image);
    SET_IMG2COL_PADDING<decltype(image), SetFmatrixMode::FMATRIX_A_MANUAL>(image);
    TIMG2COL(left, image, uint16_t(c.m), uint16_t(c.k));
    expect_unfolded(left, image, c.m, c.k);
    TIMG2COL<decltype(right), decltype(image), SetFmatrixMode::FMATRIX_B_MANUAL>(right, image);
    expect_unfolded(right, image, 0, 0);
  }
}
TEST(Img2Col, every_element_is_the_pixel_under_its_filter_element_or_padding) {
  check_unfold<half>();
  check_unfold<bfloat16_t>();
  check_unfold<float>();
  check_unfold<int8_t>();
}

TEST(Img2Col, a_filter_that_has_no_place_gives_padding) {
  Conv<float, Layout::NC1HWC0, 1, 1, 4, 4, 8> image;
  count_up(image);
  image.SetFmapH(4);
  image.SetFmapW(4);
  image.SetPadValue(-1);
  struct Case {
    int filter, stride, dilation;
  };
  for (const Case& c : {Case{6, 4, 1}, {3, 9, 3}, {2, 0, 1}, {2, -1, 1}, {0, 1, 1}, {5, 1, 1}}) {
    image.SetFilterH(c.filter), image.SetFilterW(c.filter);
    image.SetStrideH(c.stride), image.SetStrideW(c.stride);
    image.SetDilationH(c.dilation), image.SetDilationW(c.dilation);
    TileLeft<float, 16, 16> left;
    TIMG2COL(left, image);
    for (int i = 0; i < 16; ++i)
      for (int j = 0; j < 16; ++j) ASSERT_EQ(left.GetElement(i, j), -1) << c.filter << c.stride;
  }
}

}  // namespace pto::conv_test
