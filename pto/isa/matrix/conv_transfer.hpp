// SPDX-License-Identifier: Apache-2.0
// Conv transfer: TLOAD, TSTORE, TTRANS and TEXTRACT of convolution tiles (conv_tile.hpp).
//
//     TLOAD(image, view);                 // both NC1HWC0: element by element of five dimensions
//     TTRANS(image, nchw, tmp);           // to NC1HWC0
//     TTRANS(filter, image, tmp);         // to FRACTAL_Z
//     TEXTRACT(right, filter, k, n);      // rows k, columns n of the filter as a matrix
//
// Views count a FRACTAL_Z filter as any five dimensions in the order of memory, and NDC1HWC0 as
// (N, D, C1, H, W) of C0 contiguous elements.
//
// Invariant: elements outside either operand are neither read nor written. Where a layout has more
// channels or filters than its source, TTRANS writes 0.
// Thread safety: a tile belongs to one thread.
#pragma once
#include "pto/isa/matrix/conv_tile.hpp"
#include "pto/isa/memory/move.hpp"

PTO_NAMESPACE_BEGIN
namespace moves {

// Sees a view of memory and a dense tile as rows of elements. `outer` counts the view's first
// dimension, whose step the tile may not share.
struct ConvRows {
  CopyAxis view_row, view_col, tile_row, tile_col;
  int64_t rows, cols, outer, view_step, tile_step;

  template <class G, class C>
  PTO_INLINE ConvRows(const G& g, const C& tile) {
    constexpr int64_t B = sizeof(typename C::DType);
    // A tile with four dimensions of NC1HWC0 leaves C0 to the view.
    constexpr bool kLacksC0 = C::layout == Layout::NC1HWC0 && C::totalDimCount == 4;
    const int64_t last = kLacksC0 ? g.GetShape(4) : tile.GetShape(C::totalDimCount - 1);
    const int64_t all = tile.count(0, C::totalDimCount) * (kLacksC0 ? last : 1);
    // True for (N, D, C1, H, W) with C0 inside.
    const bool has_inner = g.GetStride(4) == last && (g.GetShape(4) != last || last > 1);
    const int dims = has_inner ? 5 : 4;  // before C0
    int64_t dense = last;
    view_col.add(has_inner ? last : g.GetShape(4), B);
    cols = least(view_col.extent(), last);
    // Walks the dimensions one by one, where the tile has the same; else in the order of memory.
    if (C::totalDimCount == dims + 1 || kLacksC0) {
      rows = 1;
      for (int i = dims - 1; i >= 1; --i) {
        const int64_t n = least(g.GetShape(i), tile.GetShape(i));
        view_row.add(n, g.GetStride(i) * B);
        tile_row.add(n, dense * B);
        dense *= tile.GetShape(i);
        rows *= n;
      }
      outer = least(g.GetShape(0), tile.GetShape(0));
    } else {
      for (int i = dims - 1; i >= 1; --i) view_row.add(g.GetShape(i), g.GetStride(i) * B);
      rows = view_row.extent();
      tile_row.add(kEndless, last * B);
      dense = rows * last;
      const int64_t held = dense > 0 ? all / dense : 0;  // of the first dimension
      outer = least(g.GetShape(0), held > 0 || dense == 0 ? held : 1);
      if (held == 0 && dense > 0) rows = all / last;
    }
    tile_col.add(last, B);
    view_step = g.GetStride(0) * B;
    tile_step = dense * B;
  }
};

template <bool ToTile, class G, class C>
PTO_INLINE void transfer_conv(const G& g, const C& tile) {
  constexpr int B = sizeof(typename C::DType);
  static_assert(sizeof(typename G::Element) == B,
                "TLOAD, TSTORE: memory and convolution tile must have elements of the same size; "
                "give both one element type");
  static_assert(!G::kIsPacked,
                "TLOAD, TSTORE: a convolution tile needs a view of five dimensions; give the "
                "GlobalTensor a Shape and a Stride");
  const ConvRows r(g, tile);
  for (int64_t i = 0; i < r.outer; ++i) {
    const Matrix view{bytes_of(g.data()) + i * r.view_step, &r.view_row, &r.view_col};
    const Matrix dense{bytes_of(tile.data()) + i * r.tile_step, &r.tile_row, &r.tile_col};
    if constexpr (ToTile)
      copy_matrix<B>(dense, view, r.rows, r.cols);
    else
      copy_matrix<B>(view, dense, r.rows, r.cols);
  }
}

// An image as (groups, filters, depth, channels, pixels), each with its step in elements; channels
// have two digits where they are split. FRACTAL_Z counts groups and depth as more rows of filters.
struct Image {
  int64_t groups, filters, depth, channels, pixels;
  int64_t group_step, filter_step, depth_step, pixel_step;
  int64_t c0, c0_step, c1_step;
};

template <class C>
PTO_INLINE Image image_of(const C& t) {
  constexpr Layout L = C::layout;
  constexpr bool kSplit = L == Layout::NC1HWC0 || L == Layout::GNC1HWC0 || L == Layout::NDC1HWC0;
  constexpr int G = L == Layout::GNC1HWC0 || L == Layout::GNCHW;  // dimensions before N
  Image m{};
  m.groups = G ? t.GetShape(0) : 1;
  m.filters = t.GetShape(G);
  m.group_step = t.count(G, C::totalDimCount);
  m.filter_step = t.count(G + 1, C::totalDimCount);
  if constexpr (kSplit) {
    constexpr int D = L == Layout::NDC1HWC0;
    constexpr int c1 = G + 1 + D;
    m.depth = D ? t.GetShape(G + 1) : 1;
    m.depth_step = t.count(c1, C::totalDimCount);
    m.c0 = t.GetShape(c1 + 3);
    m.pixels = t.GetShape(c1 + 1) * t.GetShape(c1 + 2);
    m.channels = t.GetShape(c1) * m.c0;
    m.pixel_step = m.c0;
    m.c0_step = 1;
    m.c1_step = m.pixels * m.c0;
  } else {
    constexpr int D = L == Layout::NCDHW;
    m.channels = t.GetShape(G + 1);
    m.depth = D ? t.GetShape(G + 2) : 1;
    m.pixels = t.count(G + 2 + D, C::totalDimCount);
    m.c0 = m.channels;
    m.depth_step = m.pixels;
    m.pixel_step = 1;
    m.c0_step = m.depth * m.pixels;
  }
  return m;
}
// Describes FRACTAL_Z of a filter whose pixels, depth and groups are known from its source.
template <class C>
PTO_INLINE Image fractal_of(const C& t, const Image& source) {
  Image m = source;
  const int64_t n = t.GetShape(1) * t.GetShape(2);
  m.filters = n;
  m.c0 = t.GetShape(3);
  m.pixel_step = n * m.c0;
  m.c0_step = 1;
  m.c1_step = m.pixels * m.pixel_step;
  const int64_t c1 = m.c0 > 0 ? (source.channels + m.c0 - 1) / m.c0 : 0;
  m.channels = c1 * m.c0;
  m.depth_step = c1 * m.c1_step;
  m.group_step = m.depth * m.depth_step;
  m.filter_step = m.c0;
  return m;
}

template <class C>
constexpr bool kIsFractal = C::layout == Layout::FRACTAL_Z || C::layout == Layout::FRACTAL_Z_3D ||
                            C::layout == Layout::FRACTAL_Z_S16S8;

template <int B>
PTO_INLINE void copy_images(char* d, const Image& to, const char* s, const Image& from) {
  const auto channels_of = [](const Image& m) {
    CopyAxis axis;
    axis.add(m.c0, m.c0_step * B);
    if (m.channels > m.c0) axis.add(m.channels / m.c0, m.c1_step * B);
    return axis;
  };
  CopyAxis d_row, s_row;
  d_row.add(kEndless, to.pixel_step * B);
  s_row.add(kEndless, from.pixel_step * B);
  const CopyAxis d_col = channels_of(to), s_col = channels_of(from);
  const int64_t channels = least(to.channels, from.channels),
                pixels = least(to.pixels, from.pixels);
  for (int64_t g = 0; g < least(to.groups, from.groups); ++g)
    for (int64_t n = 0; n < least(to.filters, from.filters); ++n)
      for (int64_t i = 0; i < least(to.depth, from.depth); ++i) {
        char* p = d + (g * to.group_step + n * to.filter_step + i * to.depth_step) * B;
        const char* q = s + (g * from.group_step + n * from.filter_step + i * from.depth_step) * B;
        copy_matrix<B>({p, &d_row, &d_col}, {const_cast<char*>(q), &s_row, &s_col}, pixels,
                       channels);
      }
}

}  // namespace moves

template <TileType L, class T, int N, Layout O, class S, class G, class... X>
PTO_INLINE RecordEvent TLOAD(ConvTile<L, T, N, O, S>& tile, const G& g, const X&...) {
  PTO_ENTER(TLOAD, "conv, gm", out(tile), in(g));
  moves::transfer_conv<true>(g, tile);
  return {};
}
template <class G, TileType L, class T, int N, Layout O, class S, class... X>
PTO_INLINE RecordEvent TSTORE(const G& g, const ConvTile<L, T, N, O, S>& tile, const X&...) {
  PTO_ENTER(TSTORE, "gm, conv", out(g), in(tile));
  moves::transfer_conv<false>(g, tile);
  return {};
}

template <TileType L, class T, int N, Layout O, class Z, TileType K, class U, int M, Layout P,
          class Y, class... X>
PTO_INLINE RecordEvent TTRANS(ConvTile<L, T, N, O, Z>& d, const ConvTile<K, U, M, P, Y>& s,
                              const X&...) {
  PTO_ENTER(TTRANS, "conv, conv, [tmp]", out(d), in(s));
  using D = ConvTile<L, T, N, O, Z>;
  using S = ConvTile<K, U, M, P, Y>;
  static_assert(sizeof(T) == sizeof(U),
                "TTRANS: elements of both convolution tiles must have the same size; give both one "
                "element type");
  static_assert(!moves::kIsFractal<S>,
                "TTRANS: a FRACTAL_Z tile has no pixels of its own; transpose the image instead");
  const moves::Image from = moves::image_of(s);
  moves::Image to;
  if constexpr (moves::kIsFractal<D>)
    to = moves::fractal_of(d, from);
  else
    to = moves::image_of(d);
  if (to.channels > from.channels || to.filters > from.filters)
    __builtin_memset(static_cast<void*>(d.data()), 0,
                     size_t(d.count(0, D::totalDimCount)) * sizeof(T));
  moves::copy_images<int(sizeof(T))>(moves::bytes_of(d.data()), to, moves::bytes_of(s.data()),
                                     from);
  return {};
}

// Computes d[i, j] = filter j + c, element i + r of its C1 * H * W * C0.
template <class D, TileType L, class T, int N, Layout O, class S, class... X>
PTO_INLINE RecordEvent TEXTRACT(D& d, const ConvTile<L, T, N, O, S>& filter, int r = 0, int c = 0,
                                const X&...) {
  PTO_ENTER(TEXTRACT, "d, conv, r, c", out(d), in(filter));
  using namespace moves;
  constexpr int64_t B = sizeof(T);
  static_assert(kIsFractal<ConvTile<L, T, N, O, S>> && sizeof(typename D::DType) == sizeof(T),
                "TEXTRACT: the filter must be FRACTAL_Z and have elements of the tile's size; "
                "bring it there with TTRANS");
  const int64_t c0 = filter.GetShape(3), n = filter.GetShape(1) * filter.GetShape(2);
  CopyAxis row, col;
  row.add(c0, B).add(filter.GetShape(0), n * c0 * B);
  col.add(n, c0 * B);
  Window w{0, 0, r, c, d.GetValidRow(), d.GetValidCol()};
  cut_front(w.d_row, w.s_row, w.rows);
  cut_front(w.d_col, w.s_col, w.cols);
  copy_matrix<int(B)>(matrix_of(d, w.d_row, w.d_col),
                      {bytes_of(filter.data()), &row, &col, w.s_row, w.s_col},
                      least(w.rows, c0 * filter.GetShape(0) - w.s_row), least(w.cols, n - w.s_col));
  return {};
}

PTO_NAMESPACE_END
