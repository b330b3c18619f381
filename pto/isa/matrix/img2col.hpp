// SPDX-License-Identifier: Apache-2.0
// TIMG2COL: writes the pixels under a filter as rows of a matrix.
//
//     image.SetFmapH(8);
//     image.SetFmapW(8);
//     image.SetFilterH(3);
//     image.SetFilterW(3);
//     image.SetPadList(0, 1);                            // left, right, top, bottom
//     SETFMATRIX(image);
//     TIMG2COL(left, image, posM, posK);
//
// d[i, j] = image[n, c1, ho * StrideH + kh * DilationH - top, wo * StrideW + kw * DilationW - left,
// c0], or PadValue outside the map, where posM + i = (n * Ho + ho) * Wo + wo and
// posK + j = ((c1 * FilterH + kh) * FilterW + kw) * C0 + c0.
// Beyond the last image or channel (ChannelSize, if it is set) elements are PadValue too.
//
// Invariant: the tile holds the parameters. SETFMATRIX, SET_IMG2COL_RPT and SET_IMG2COL_PADDING,
// which write them to a chip's state, do nothing here; repetition serves a chip to fill a large
// tile and changes no result.
// Thread safety: a tile belongs to one thread.
#pragma once
#include "pto/isa/matrix/conv_transfer.hpp"

PTO_NAMESPACE_BEGIN

enum class SetFmatrixMode : uint8_t {
  FMATRIX_A_AUTO,
  FMATRIX_B_AUTO,
  FMATRIX_A_MANUAL,
  FMATRIX_B_MANUAL
};

namespace moves {

// The first output whose input is at or after 0, and the first whose input is at or after `size`:
// input = output * stride + start.
struct Inside {
  int64_t first, last;
  PTO_INLINE Inside(int64_t start, int64_t stride, int64_t size, int64_t outputs) {
    first = start >= 0 ? 0 : (-start + stride - 1) / stride;
    last = start >= size ? 0 : (size - start + stride - 1) / stride;
    if (last > outputs) last = outputs;
    if (first > last) first = last;
  }
};

// Counts the places of a filter along an axis: none where the padded map is smaller, or a parameter
// is not positive.
PTO_INLINE int64_t places_of(int64_t filter, int64_t dilation, int64_t stride, int64_t padded) {
  const int64_t room = padded - (filter - 1) * dilation - 1;
  return filter <= 0 || stride <= 0 || room < 0 ? 0 : room / stride + 1;
}

// Unfolds one output row: `count` pixels from wo on, columns [col, col + width) of d, channels from
// c0 on.
template <class D, class C>
struct Unfold {
  static constexpr int64_t B = sizeof(typename C::DType);
  D& d;
  const C& image;
  int64_t c0, height, width, out_w;
  CopyAxis pixel, channel;

  PTO_INLINE Unfold(D& tile, const C& source) : d(tile), image(source) {
    c0 = image.GetShape(4);
    height = image.GetFmapH();
    width = image.GetFmapW();
    out_w = places_of(image.GetFilterW(), image.GetDilationW(), image.GetStrideW(),
                      width + image.GetPadList(0) + image.GetPadList(1));
    pixel.add(kEndless, image.GetStrideW() * c0 * B);
    channel.add(c0, B);
  }
  PTO_INLINE void pad(int64_t row, int64_t col, int64_t rows, int64_t cols) const {
    fill_matrix(d, row, col, rows, cols, typename D::DType(image.GetPadValue()));
  }
  // Writes pixels [wo, wo + count) of output row ho under filter element (kh, kw), channels of c1.
  PTO_INLINE void row(int64_t at_row, int64_t at_col, int64_t n, int64_t ho, int64_t wo,
                      int64_t count, int64_t c1, int64_t kh, int64_t kw, int64_t from,
                      int64_t channels) const {
    const int64_t h = ho * image.GetStrideH() + kh * image.GetDilationH() - image.GetPadList(2);
    const int64_t start = wo * image.GetStrideW() + kw * image.GetDilationW() - image.GetPadList(0);
    Inside in(start, image.GetStrideW(), least(width, image.GetShape(3)), count);
    if (h < 0 || h >= least(height, image.GetShape(2))) in.first = in.last = 0;
    pad(at_row, at_col, in.first, channels);
    const int64_t images = image.GetShape(1), lines = image.GetShape(2), line = image.GetShape(3);
    const int64_t offset =
        (((n * images + c1) * lines + h) * line + start + in.first * image.GetStrideW()) * c0;
    if (in.last > in.first)
      copy_matrix<int(B)>(matrix_of(d, at_row + in.first, at_col),
                          {bytes_of(image.data()) + offset * B, &pixel, &channel, 0, from},
                          in.last - in.first, channels);
    pad(at_row + in.last, at_col, count - in.last, channels);
  }
};

template <class D, class C>
__attribute__((noinline)) void unfold(D& d, const C& image, int64_t pos_m, int64_t pos_k) {
  const Unfold<D, C> u(d, image);
  const int64_t kernel_h = image.GetFilterH(), kernel_w = image.GetFilterW();
  const int64_t out_h = places_of(kernel_h, image.GetDilationH(), image.GetStrideH(),
                                  u.height + image.GetPadList(2) + image.GetPadList(3));
  const int64_t rows = d.GetValidRow(), cols = d.GetValidCol();
  if (out_h == 0 || u.out_w == 0 || u.c0 <= 0) return u.pad(0, 0, rows, cols);
  const int64_t groups = image.GetChannelSize() > 0
                             ? least((image.GetChannelSize() + u.c0 - 1) / u.c0, image.GetShape(1))
                             : image.GetShape(1);
  for (int64_t j = 0, width; j < cols; j += width) {
    const int64_t k = pos_k + j, tap = k / u.c0, from = k % u.c0;
    width = least(cols - j, u.c0 - from);
    const int64_t c1 = tap / (kernel_h * kernel_w), kh = tap / kernel_w % kernel_h;
    if (c1 >= groups) {
      u.pad(0, j, rows, cols - j);
      break;
    }
    int64_t wo = pos_m % u.out_w, ho = pos_m / u.out_w % out_h, n = pos_m / u.out_w / out_h;
    for (int64_t i = 0, count; i < rows; i += count) {
      if (n >= image.GetShape(0)) {
        u.pad(i, j, rows - i, width);
        break;
      }
      count = least(rows - i, u.out_w - wo);
      u.row(i, j, n, ho, wo, count, c1, kh, tap % kernel_w, from, width);
      wo = 0;
      if (++ho == out_h) ho = 0, ++n;
    }
  }
}

template <class C>
constexpr bool check_image() {
  static_assert(is_conv_tile_v<C>,
                "TIMG2COL: the source must be a ConvTile; declare it as conv_tile.hpp shows");
  return true;
}

}  // namespace moves

// In the FMATRIX_B modes the same matrix goes to the right operand: the tile's location says so.
template <class DT = void, class ST = void, SetFmatrixMode Mode = SetFmatrixMode::FMATRIX_A_MANUAL,
          class D, class C, class... X>
PTO_INLINE RecordEvent TIMG2COL(D& d, const C& image, uint16_t posM = 0, uint16_t posK = 0,
                                const X&...) {
  PTO_ENTER(TIMG2COL, "d, conv, posM, posK", out(d), in(image));
  static_assert(moves::check_image<C>());
  static_assert(C::layout == Layout::NC1HWC0 && C::totalDimCount == 5,
                "TIMG2COL: the image must be NC1HWC0 with five dimensions; bring it there with "
                "TTRANS");
  static_assert(sizeof(typename C::DType) == sizeof(typename D::DType),
                "TIMG2COL: image and matrix must have elements of the same size; convert the "
                "matrix afterwards with TCVT");
  moves::unfold(d, image, posM, posK);
  return {};
}

#define PTO_SET_STATE(M)                                                                      \
  template <class CT = void, SetFmatrixMode Mode = SetFmatrixMode::FMATRIX_A_MANUAL, class C, \
            class... X>                                                                       \
  PTO_INLINE RecordEvent M([[maybe_unused]] const C& image, const X&...) {                    \
    PTO_ENTER(M, "conv", in(image));                                                          \
    static_assert(moves::check_image<C>());                                                   \
    return {};                                                                                \
  }
PTO_SET_STATE(SETFMATRIX)
PTO_SET_STATE(SET_IMG2COL_RPT)
PTO_SET_STATE(SET_IMG2COL_PADDING)
#undef PTO_SET_STATE

PTO_NAMESPACE_END
