// SPDX-License-Identifier: Apache-2.0
// TLOAD and TSTORE: every element lands where the view says, padding is filled, nothing outside the
// view is read or written (guard bytes here, heap bounds under the sanitizer).
#include "pto/isa/memory/transfer.hpp"

#include <gtest/gtest.h>

#include <memory>

#include "pto/pto-inst.hpp"
#include "tests/isa_oracle.hpp"

namespace pto::transfer_test {
using namespace isa;

// Makes exactly n elements on the heap, so that the address sanitizer sees one too many.
template <class T>
std::unique_ptr<T[]> numbers(int64_t n) {
  std::unique_ptr<T[]> memory(new T[size_t(n)]);
  for (int64_t i = 0; i < n; ++i) memory[size_t(i)] = T(float(i % 113 + 1));
  return memory;
}

template <class T>
void check_tail(int n) {
  MicroTile<T, 2 * kLanes<T>> whole;
  const auto memory = numbers<T>(n);
  TLOAD(whole, GlobalTensor(memory.get(), n));
  for (int i = 0; i < whole.Numel; ++i)
    EXPECT_EQ(wide(whole.GetValue(i)), i < n ? wide(memory[size_t(i)]) : 0) << i << " of " << n;
  const auto out = numbers<T>(n + 1);
  TADD(whole, whole, whole);
  TSTORE(GlobalTensor(out.get(), n), whole);
  for (int i = 0; i < n; ++i) EXPECT_EQ(wide(out[size_t(i)]), 2 * wide(memory[size_t(i)])) << i;
  EXPECT_EQ(wide(out[size_t(n)]), wide(T(float(n % 113 + 1)))) << "written beyond " << n;

  Tile<TileType::Vec, T, 1, 2 * kLanes<T>, BLayout::RowMajor, 1, DYNAMIC> part(n);
  TLOAD(part, GlobalTensor(memory.get(), n));
  const auto again = numbers<T>(n);
  TSTORE(GlobalTensor(again.get(), n), part);
  for (int i = 0; i < n; ++i) EXPECT_EQ(wide(again[size_t(i)]), wide(memory[size_t(i)])) << i;
}

TEST(Transfer, a_tail_reads_and_writes_its_elements_only) {
  for (int n = 0; n <= 2 * kLanes<float>; ++n) {
    check_tail<float>(n);
    check_tail<half>(n);
    check_tail<uint8_t>(n);
  }
  for (int n = 0; n <= 2 * kLanes<double>; ++n) check_tail<double>(n);
}

TEST(Transfer, a_packed_view_ends_at_its_count_and_fills_with_the_padding_value) {
  using Padded = Tile<TileType::Vec, float, 4, 8, BLayout::RowMajor, DYNAMIC, DYNAMIC,
                      SLayout::NoneBox, 512, PadValue::Min>;
  for (int n : {0, 1, 5, 14, 15, 40}) {
    Padded t(3, 5);
    const auto memory = numbers<float>(n);
    TLOAD(t, GlobalTensor(memory.get(), n));
    for (int r = 0; r < 4; ++r)
      for (int c = 0; c < 8; ++c) {
        const int at = r * 5 + c;
        const bool held = r < 3 && c < 5 && at < n;
        EXPECT_EQ(t.GetElement(r, c), held ? memory[size_t(at)] : -INFINITY) << r << "," << c;
      }
    const int stored = std::min(n, 15);
    const auto out = numbers<float>(n);
    for (int i = 0; i < n; ++i) out[size_t(i)] = -1;
    TSTORE(GlobalTensor(out.get(), n), t);
    for (int i = 0; i < n; ++i) EXPECT_EQ(out[size_t(i)], i < stored ? memory[size_t(i)] : -1) << i;
  }
}

TEST(Transfer, a_column_major_tile_takes_packed_rows) {
  Tile<TileType::Vec, float, 8, 3, BLayout::ColMajor, DYNAMIC, 3> t(5);
  const auto memory = numbers<float>(14);
  TLOAD(t, GlobalTensor(memory.get(), 14));
  for (int r = 0; r < 5; ++r)
    for (int c = 0; c < 3; ++c)
      EXPECT_EQ(t.GetElement(r, c), r * 3 + c < 14 ? memory[size_t(r * 3 + c)] : 0);
  const auto out = numbers<float>(14);
  TSTORE(GlobalTensor(out.get(), 14), t);
  for (int i = 0; i < 14; ++i) EXPECT_EQ(out[size_t(i)], memory[size_t(i)]);
  Tile<TileType::Vec, float, 8, 3, BLayout::ColMajor, DYNAMIC, DYNAMIC> empty(5, 0);
  TLOAD(empty, GlobalTensor(memory.get(), 14));
  TSTORE(GlobalTensor(out.get(), 14), empty);
  EXPECT_EQ(empty.GetElement(4, 2), 0);
}

// Returns where element (r, c) of a view lies: ND flattens dimensions 0 to 3, DN 0, 1, 2, 4.
template <class ShapeT, class StrideT>
int64_t offset_of(const ShapeT& n, const StrideT& s, bool is_nd, int64_t r, int64_t c) {
  int64_t flat = is_nd ? r : c;
  const int last = is_nd ? 3 : 4;
  int64_t at = (is_nd ? c : r) * s[is_nd ? 4 : 3];
  for (int dim : {last, 2, 1, 0}) {
    at += flat % n[dim] * s[dim];
    flat /= n[dim];
  }
  return at;
}

template <Layout Order, BLayout TileOrder>
void check_five_dimensions() {
  using ShapeT = Shape<2, 1, DYNAMIC, 2, 3>;
  using StrideT = Stride<DYNAMIC, 90, 28, DYNAMIC, DYNAMIC>;
  constexpr bool kNd = Order == Layout::ND;
  constexpr int kRows = kNd ? 12 : 2, kCols = kNd ? 3 : 18;
  const ShapeT shape(3);
  const StrideT stride(180, 9, 2);
  const auto memory = numbers<float>(400);
  const GlobalTensor<float, ShapeT, StrideT, Order> view(memory.get(), shape, stride);
  using D = Tile<TileType::Vec, float, 16, 24, TileOrder, kRows, kCols>;
  D t;
  TLOAD(t, view);
  const auto out = numbers<float>(400);
  for (int i = 0; i < 400; ++i) out[size_t(i)] = -1;
  const GlobalTensor<float, ShapeT, StrideT, Order> target(out.get(), shape, stride);
  TSTORE(target, t);
  int stored = 0;
  for (int r = 0; r < 16; ++r)
    for (int c = 0; c < 24; ++c) {
      const bool valid = r < kRows && c < kCols;
      const size_t at = valid ? size_t(offset_of(shape, stride, kNd, r, c)) : 0;
      EXPECT_EQ(t.GetElement(r, c), valid ? memory[at] : 0) << r << "," << c;
      if (valid) {
        EXPECT_EQ(out[at], memory[at]) << r << "," << c;
      }
    }
  for (int i = 0; i < 400; ++i) stored += out[size_t(i)] != -1;
  EXPECT_EQ(stored, kRows * kCols);
}

TEST(Transfer, five_dimensions_map_to_rows_and_columns_in_both_orders) {
  check_five_dimensions<Layout::ND, BLayout::RowMajor>();
  check_five_dimensions<Layout::ND, BLayout::ColMajor>();
  check_five_dimensions<Layout::DN, BLayout::RowMajor>();
  check_five_dimensions<Layout::DN, BLayout::ColMajor>();
}

TEST(Transfer, an_empty_view_fills_a_line_of_registers_and_takes_nothing) {
  using ShapeT = Shape<DYNAMIC, DYNAMIC, DYNAMIC, DYNAMIC, DYNAMIC>;
  using StrideT = Stride<8, 8, 8, 8, 1>;
  float memory[8] = {5, 5, 5, 5, 5, 5, 5, 5};
  for (int empty = 0; empty < 5; ++empty) {
    const auto size = [empty](int axis) { return axis == empty ? 0 : axis == 4 ? 8 : 1; };
    const ShapeT shape(size(0), size(1), size(2), size(3), size(4));
    const GlobalTensor<float, ShapeT, StrideT> view(memory, shape, StrideT());
    MicroTile<float, 2 * kLanes<float>> line;
    for (int i = 0; i < line.Numel; ++i) line.SetValue(i, 3);
    TSTORE(view, line);
    for (const float value : memory) EXPECT_EQ(value, 5) << empty;
    TLOAD(line, view);
    for (int i = 0; i < line.Numel; ++i) EXPECT_EQ(line.GetValue(i), 0) << empty;
  }
}

TEST(Transfer, a_strided_row_is_gathered_and_scattered) {
  using One = Shape<1, 1, 1, 1, DYNAMIC>;
  using Step = Stride<1, 1, 1, 1, DYNAMIC>;
  constexpr int N = kLanes<float>;
  const auto memory = numbers<float>(7 * N);
  for (int stride : {1, 2, 7}) {
    for (int n : {0, 1, N - 1, N}) {
      MicroTile<float, N> t;
      TLOAD(t, GlobalTensor<float, One, Step>(memory.get(), One(n), Step(stride)));
      for (int i = 0; i < N; ++i)
        EXPECT_EQ(t.GetValue(i), i < n ? memory[size_t(i * stride)] : 0) << stride << " " << i;
    }
  }
  MicroTile<float, N> t;
  const auto out = numbers<float>(7 * N);
  TLOAD(t, GlobalTensor<float, One, Step>(memory.get() + 7 * (N - 1), One(N), Step(-7)));
  TSTORE(GlobalTensor<float, One, Step>(out.get(), One(N), Step(7)), t);
  for (int i = 0; i < N; ++i) EXPECT_EQ(out[size_t(7 * i)], memory[size_t(7 * (N - 1 - i))]) << i;
  EXPECT_EQ(out[1], memory[1]);
}

TEST(Transfer, streaming_stores_write_what_plain_ones_do) {
  alignas(64) float in[kMicro<float>], out[kMicro<float>];
  for (int i = 0; i < kMicro<float>; ++i) in[i] = float(i), out[i] = -1;
  MicroTile<float, kMicro<float>> t;
  TLOAD(t, GlobalTensor(in, kMicro<float>));
  prefetch_lines<512>(in);
  TSTORE<CacheHint::Stream>(GlobalTensor(out, kMicro<float>), t);
  stream_fence();
  for (int i = 0; i < kMicro<float>; ++i) EXPECT_EQ(out[i], i);
}

TEST(Transfer, prefetch_of_any_address_is_harmless) {
  prefetch_lines<4096>(nullptr);
  prefetch_lines<64>(reinterpret_cast<const void*>(~uintptr_t(0) - 4096));
}

TEST(Transfer, one_argument_views_end_where_their_memory_does) {
  Tile<TileType::Vec, float, 16, 256> t;
  const auto memory = numbers<float>(100);
  pto_register_range(memory.get(), 100 * sizeof(float));
  TLOAD(t, GlobalTensor(memory.get() + 10));
  EXPECT_EQ(t.GetValue(89), memory[99]);
  EXPECT_EQ(t.GetValue(90), 0);
  TADD(t, t, t);
  const float last = memory[99];
  TSTORE(GlobalTensor(memory.get() + 10), t);
  pto_unregister_range(memory.get());
  EXPECT_EQ(memory[99], 2 * last);
}

TEST(Tiles, larger_than_16_kb_own_memory_and_copy_values) {
  using Large = Tile<TileType::Vec, float, 64, 256>;
  Large a;
  TEXPANDS(a, 3.0f);
  Large b = a;
  TEXPANDS(a, 4.0f);
  EXPECT_EQ(b.GetElement(63, 255), 3);
  b = a;
  EXPECT_EQ(b.GetElement(0, 0), 4);
}

TEST(Tiles, assigned_tiles_overlap_where_their_bytes_do_and_copies_share_them) {
  Tile<TileType::Vec, float, 8, 64> a, b;
  Tile<TileType::Vec, int32_t, 8, 64> bits;
  TASSIGN(a, 0x400);
  TASSIGN<0x400>(bits);
  TASSIGN(b, 0x500);
  TEXPANDS(a, 1.0f);
  EXPECT_EQ(bits.GetValue(5), 0x3f800000);
  auto copy = a;
  TEXPANDS(b, 2.0f);
  EXPECT_EQ(a.GetElement(1, 0), 2);
  EXPECT_EQ(copy.GetElement(1, 0), 2);
}

TEST(Tiles, an_address_that_does_not_fit_leaves_the_tile_automatic) {
  Tile<TileType::Vec, float, 8, 64> a;
  TASSIGN(a, uint64_t(1) << 40);
  TEXPANDS(a, 1.0f);
  EXPECT_EQ(a.GetValue(511), 1);
}

TEST(Tiles, a_view_moves_to_another_address) {
  const float memory[2][16] = {{1}, {2}};
  GlobalTensor<const float, Shape<1, 1, 1, 1, 16>, Stride<1, 1, 1, 16, 1>> view(memory[0]);
  Tile<TileType::Vec, float, 1, 16> tile;
  TASSIGN(view, memory[1]);
  TLOAD(tile, view);
  EXPECT_EQ(tile.GetValue(0), 2);
}

TEST(Tiles, valid_regions_beyond_the_tile_are_refused) {
  using Part = Tile<TileType::Vec, float, 8, 64, BLayout::RowMajor, DYNAMIC, DYNAMIC>;
  EXPECT_ANY_THROW(Part(9, 64));
  EXPECT_ANY_THROW(Part(8, -3));
  Part whole(8, 64);
  EXPECT_EQ(whole.GetValidRow(), 8);
  EXPECT_EQ(whole.GetValidCol(), 64);
}

TEST(Numbers, min_and_max_compare_mixed_integers_by_value) {
  EXPECT_EQ(min(-1, 5u), uint32_t(-1));
  EXPECT_EQ(max(-1, 5u), 5u);
  EXPECT_EQ(min(int64_t(-1), 5u), -1);
  EXPECT_EQ(min(7, 5), 5);
}

}  // namespace pto::transfer_test
