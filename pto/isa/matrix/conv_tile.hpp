// SPDX-License-Identifier: Apache-2.0
// ConvTile: images and filters on chip, in one to six dimensions, with the parameters of a
// convolution (conv_transfer.hpp moves them, img2col.hpp unfolds them).
//
//     using Dims = ConvTileShape<1, 2, 8, DYNAMIC, 16>;
//     ConvTile<TileType::Mat, half, 2 * 8 * 8 * 16 * 2, Layout::NC1HWC0, Dims> image(8);
//     TLOAD(image, view);
//     image.SetPadList(0, 1);
//     TIMG2COL(left, image, posM, posK);
//
// Dimensions, the last one contiguous: NC1HWC0 (N, C1, H, W, C0), NDC1HWC0 (N, D, C1, H, W, C0),
// GNC1HWC0 (G, N, C1, H, W, C0), FRACTAL_Z (C1 * H * W, N / 16, 16, C0), FRACTAL_Z_3D
// (D * C1 * H * W, N / 16, 16, C0), NCHW, GNCHW, NCDHW and NHWC as named. Channel c is c1 * C0 +
// c0.
//
// Invariant: a tile is dense; it stores and copies as Tile does.
// Thread safety: a tile belongs to one thread.
#pragma once
#include "pto/isa/tile/tile.hpp"

PTO_NAMESPACE_BEGIN

template <int64_t... N>
struct ConvTileShape {
  static constexpr int kDims = int(sizeof...(N));
  static_assert(kDims >= 1 && kDims <= 6,
                "ConvTileShape: an image has one to six dimensions; merge or drop some");
  static constexpr int kDynamic = ((N == DYNAMIC) + ... + 0);
  static constexpr int64_t staticShape[] = {N...};
};

template <TileType Location, class T, int BufferBytes, Layout Order, class ShapeT>
struct ConvTile {
  // Counts the buffer's elements, or more where the dimensions are known to need more.
  static constexpr int stored_elements() {
    int64_t elements = ShapeT::kDynamic > 0 ? 0 : 1;
    for (const int64_t n : ShapeT::staticShape) elements *= n;
    const int64_t buffer = (BufferBytes + int64_t(sizeof(T)) - 1) / int64_t(sizeof(T));
    return int(elements > buffer ? elements : buffer);
  }

  using DType = T;
  using Shape = ShapeT;
  static constexpr TileType Loc = Location;
  static constexpr Layout layout = Order;
  static constexpr int bufferSize = BufferBytes, totalDimCount = ShapeT::kDims;
  static constexpr int dynamicDimCount = ShapeT::kDynamic;
  static constexpr const auto& staticShape = ShapeT::staticShape;
  using TileDType = T*;
  static constexpr int kStored = stored_elements();

  // Takes as many sizes as there are DYNAMIC dimensions, or none.
  template <class... I, typename Enable<(!__is_class(I) && ...)>::type = 0>
  explicit PTO_INLINE ConvTile(I... sizes) {
    static_assert(sizeof...(I) == 0 || int(sizeof...(I)) == ShapeT::kDynamic,
                  "ConvTile: each DYNAMIC dimension needs a size; give as many numbers as the "
                  "shape has DYNAMIC ones, or none");
    const int64_t given[] = {int64_t(sizes)..., 0};
    for (int i = 0, next = 0; i < totalDimCount; ++i) {
      shape_[i] = staticShape[i];
      if (shape_[i] == DYNAMIC) shape_[i] = sizeof...(I) ? given[next++] : 1;
    }
  }

  PTO_INLINE int64_t GetShape(int dim) const { return dim < totalDimCount ? shape_[dim] : 1; }
  template <int Dim>
  PTO_INLINE int64_t GetShape() const {
    return GetShape(Dim);
  }
  // Returns the product of the dimensions from `first` to before `last`.
  PTO_INLINE int64_t count(int first, int last) const {
    int64_t n = 1;
    for (int i = first; i < last; ++i) n *= GetShape(i);
    return n;
  }

  // Returns the pointer itself: image.data() = memory binds the tile to the caller's memory.
  PTO_INLINE T*& data() {
    PTO_IF_CHECKED(checked_state.is_written = 1;)
    return storage_.get();
  }
  PTO_INLINE const T* data() const { return storage_.get(); }
  PTO_INLINE void bind(T* memory) {
    PTO_IF_CHECKED(checked_state.is_written = 1;)
    storage_.bound = memory;
  }
  PTO_IF_CHECKED(mutable pto_tile_state checked_state = {};)

#define PTO_FIELD(type, Name, start)                 \
  PTO_INLINE void Set##Name(type v) { Name##_ = v; } \
  PTO_INLINE type Get##Name() const { return Name##_; }
#define PTO_FIELDS(F)     \
  F(int, FmapH, 1)        \
  F(int, FmapW, 1)        \
  F(int, FilterH, 1)      \
  F(int, FilterW, 1)      \
  F(int, StrideH, 1)      \
  F(int, StrideW, 1)      \
  F(int, DilationH, 1)    \
  F(int, DilationW, 1)    \
  F(int, ChannelSize, 0)  \
  F(int, RepeatStride, 0) \
  F(int, RepeatTime, 1)   \
  F(int, RepeatMode, 0) F(int, DstStride, 1) F(bool, Transpose, false) F(T, PadValue, T(0.f))
  PTO_FIELDS(PTO_FIELD)
#undef PTO_FIELD
  // Sides: left, right, top, bottom.
  PTO_INLINE void SetPadList(int side, int elements) { pad_[side & 3] = elements; }
  template <class I>
  PTO_INLINE void SetPadListArray(const I* elements) {
    for (int i = 0; i < 4; ++i) pad_[i] = int(elements[i]);
  }
  template <class I>
  PTO_INLINE void SetPadList(const I* elements) {
    SetPadListArray(elements);
  }
  PTO_INLINE int GetPadList(int side) const { return pad_[side & 3]; }

 private:
  using Own = OwnStorage<T, kStored, kStored * sizeof(T) <= 16384>;

  int64_t shape_[6] = {};
  int pad_[4] = {};
#define PTO_FIELD(type, Name, start) type Name##_ = start;
  PTO_FIELDS(PTO_FIELD)
#undef PTO_FIELD
#undef PTO_FIELDS
  PointedStorage<T, Own> storage_;
};

template <class A>
constexpr bool is_conv_tile_v = false;
template <TileType L, class T, int B, Layout O, class S>
constexpr bool is_conv_tile_v<ConvTile<L, T, B, O, S>> = true;

PTO_NAMESPACE_END
