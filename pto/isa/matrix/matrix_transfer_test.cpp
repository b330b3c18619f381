// SPDX-License-Identifier: Apache-2.0
// TLOAD and TSTORE between every layout of memory and of tiles: each element lands where the
// public formulas say, padding is filled, nothing else is read (exact heap blocks) or written.
#include "pto/isa/matrix/matrix_transfer.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "tests/isa_oracle.hpp"

namespace pto::matrix_transfer_test {
using namespace isa;

constexpr auto kRow = BLayout::RowMajor, kCol = BLayout::ColMajor;

template <class T, BLayout B, SLayout S, int F = 512, int R = 64, int C = 64,
          PadValue P = PadValue::Null>
using Any = Tile<TileType::Mat, T, R, C, B, DYNAMIC, DYNAMIC, S, F, P>;
template <class T, Layout L>
using View = GlobalTensor<T, Shape<>, Stride<>, L>;

struct Dims {
  int64_t n[5], stride[5], elements;
};

// Returns where the public formulas put element (r, c).
int64_t place(Layout layout, const Dims& d, int64_t r, int64_t c) {
  const int64_t* n = d.n;
  int64_t at[5] = {};
  switch (layout) {
    case Layout::DN:
      at[3] = r, at[4] = c % n[4], at[2] = c / n[4] % n[2];
      at[1] = c / n[4] / n[2] % n[1], at[0] = c / n[4] / n[2] / n[1];
      break;
    case Layout::NZ:
      at[3] = r % n[3], at[2] = r / n[3], at[4] = c % n[4];
      at[1] = c / n[4] % n[1], at[0] = c / n[4] / n[1];
      break;
    case Layout::MX_A_ZZ:
      at[3] = r % n[3], at[1] = r / n[3], at[4] = c % 2, at[2] = c / 2;
      break;
    case Layout::MX_A_ND:
      at[2] = r, at[4] = c % 2, at[3] = c / 2;
      break;
    case Layout::MX_A_DN:
      at[3] = r, at[4] = c % 2, at[2] = c / 2;
      break;
    case Layout::MX_B_NN:
      at[3] = c % n[3], at[1] = c / n[3], at[4] = r % 2, at[2] = r / 2;
      break;
    case Layout::MX_B_ND:
      at[3] = c, at[4] = r % 2, at[2] = r / 2;
      break;
    case Layout::MX_B_DN:
      at[2] = c, at[4] = r % 2, at[3] = r / 2;
      break;
    default:
      at[4] = c, at[3] = r % n[3], at[2] = r / n[3] % n[2];
      at[1] = r / n[3] / n[2] % n[1], at[0] = r / n[3] / n[2] / n[1];
  }
  int64_t offset = 0;
  for (int i = 0; i < 5; ++i) offset += at[i] * d.stride[i];
  return offset;
}

// Makes dimensions of a rows x cols matrix, rows and cols even and multiples as the layout
// requires. A gap follows the innermost two dimensions; with `turned` the last two are exchanged in
// memory.
Dims dims_of(Layout layout, int64_t rows, int64_t cols, int64_t c0, int gap, bool turned) {
  Dims d{};
  const auto set = [&](int64_t a, int64_t b, int64_t c, int64_t e, int64_t f) {
    const int64_t n[] = {a, b, c, e, f};
    for (int i = 0; i < 5; ++i) d.n[i] = n[i];
  };
  if (layout == Layout::ND)
    rows % 4 == 0 ? set(2, 1, 2, rows / 4, cols) : set(1, 1, 1, rows, cols);
  else if (layout == Layout::DN)
    cols % 4 == 0 ? set(1, 2, 2, rows, cols / 4) : set(1, 1, 1, rows, cols);
  else if (layout == Layout::NZ)
    set(1, cols / c0, rows / 16, 16, c0);
  else if (layout == Layout::MX_A_ZZ)
    set(1, rows / 16, cols / 2, 16, 2);
  else if (layout == Layout::MX_A_ND)
    set(1, 1, rows, cols / 2, 2);
  else if (layout == Layout::MX_A_DN)
    set(1, 1, cols / 2, rows, 2);
  else if (layout == Layout::MX_B_NN)
    set(1, cols / 16, rows / 2, 16, 2);
  else if (layout == Layout::MX_B_ND)
    set(1, 1, rows / 2, cols, 2);
  else
    set(1, 1, cols, rows / 2, 2);
  const int inner = turned ? 3 : 4, outer = turned ? 4 : 3;
  d.stride[inner] = 1;
  d.stride[outer] = d.n[inner];
  d.stride[2] = d.n[3] * d.n[4] + gap;
  d.stride[1] = d.n[2] * d.stride[2];
  d.stride[0] = d.n[1] * d.stride[1];
  d.elements = d.n[0] * d.stride[0];
  return d;
}

template <class T>
std::vector<T> numbers(int64_t n, unsigned seed) {
  std::vector<T> memory(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) memory[size_t(i)] = T(float((i * 7 + seed) % 120));
  return memory;
}

template <Layout L, class D>
void check(int64_t rows, int64_t cols, const Dims& d) {
  using T = typename D::DType;
  auto memory = numbers<T>(d.elements, 3);
  const Shape<> shape(d.n[0], d.n[1], d.n[2], d.n[3], d.n[4]);
  const Stride<> stride(d.stride[0], d.stride[1], d.stride[2], d.stride[3], d.stride[4]);
  D tile{int(rows), int(cols)};
  for (int i = 0; i < D::kStored; ++i) tile.SetValue(i, T(77.f));
  TLOAD(tile, View<T, L>(memory.data(), shape, stride));
  const double padding = D::PadVal == PadValue::Null ? 0 : double(wide(T(padding_of<D>())));
  for (int r = 0; r < D::Rows; ++r)
    for (int c = 0; c < D::Cols; ++c) {
      const bool valid = r < rows && c < cols;
      const size_t at = valid ? size_t(place(L, d, r, c)) : 0;
      const double want = valid ? double(wide(memory[at])) : padding;
      ASSERT_EQ(double(wide(tile.GetElement(r, c))), want)
          << "layout " << int(L) << " [" << r << "," << c << "] of " << rows << "x" << cols;
    }
  std::vector<T> out(memory.size(), T(121.f)), want = out;
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < cols; ++c) {
      const size_t at = size_t(place(L, d, r, c));
      want[at] = memory[at];
    }
  TSTORE(View<T, L>(out.data(), shape, stride), tile);
  for (size_t i = 0; i < out.size(); ++i) ASSERT_EQ(double(wide(out[i])), double(wide(want[i])));
}

template <Layout L, class D>
void check_regions() {
  constexpr int64_t c0 = 32 / int64_t(sizeof(typename D::DType));
  for (auto [rows, cols] : {std::pair<int64_t, int64_t>{64, 64}, {48, 32}, {32, 64}, {64, 32}})
    for (int gap : {0, 5}) check<L, D>(rows, cols, dims_of(L, rows, cols, c0, gap, false));
  if (L != Layout::ND && L != Layout::DN) return;
  for (int64_t rows : {1, 5, 20, 63})
    for (int64_t cols : {1, 3, 18, 61})
      for (bool turned : {false, true})
        check<L, D>(rows, cols, dims_of(L, rows, cols, c0, int(rows % 3), turned));
}

template <class T, Layout L>
void check_layouts() {
  check_regions<L, Any<T, kRow, SLayout::NoneBox>>();
  check_regions<L, Any<T, kCol, SLayout::NoneBox>>();
  check_regions<L, Any<T, kCol, SLayout::RowMajor>>();
  check_regions<L, Any<T, kRow, SLayout::ColMajor>>();
  check_regions<L, Any<T, kRow, SLayout::RowMajor>>();
  check_regions<L, Any<T, kCol, SLayout::ColMajor>>();
}

TEST(MatrixTransfer, row_major_memory_reaches_every_layout) { check_layouts<half, Layout::ND>(); }
TEST(MatrixTransfer, column_major_memory_reaches_every_layout) {
  check_layouts<half, Layout::DN>();
}
TEST(MatrixTransfer, boxed_memory_reaches_every_layout) { check_layouts<half, Layout::NZ>(); }

TEST(MatrixTransfer, scales_of_every_order_reach_boxes_of_32_bytes) {
  using Left = Any<uint8_t, kRow, SLayout::RowMajor, 32>;
  using Right = Any<uint8_t, kCol, SLayout::ColMajor, 32>;
  check_regions<Layout::MX_A_ZZ, Left>();
  check_regions<Layout::MX_A_ND, Left>();
  check_regions<Layout::MX_A_DN, Left>();
  check_regions<Layout::MX_B_NN, Right>();
  check_regions<Layout::MX_B_ND, Right>();
  check_regions<Layout::MX_B_DN, Right>();
}

template <class T>
void check_type() {
  constexpr bool kIsWide = sizeof(T) >= 4;
  check_regions<Layout::ND,
                Any<T, kIsWide ? kCol : kRow, kIsWide ? SLayout::RowMajor : SLayout::ColMajor, 512,
                    64, 64, kIsFloat<T> ? PadValue::Min : PadValue::Max>>();
}
TEST(MatrixTransfer, every_type_moves_and_pads) {
  check_type<int8_t>();
  check_type<uint8_t>();
  check_type<int16_t>();
  check_type<uint16_t>();
  check_type<int32_t>();
  check_type<uint32_t>();
  check_type<int64_t>();
  check_type<uint64_t>();
  check_type<bfloat16_t>();
  check_type<float>();
}

TEST(MatrixTransfer, a_padding_value_of_ones_own_fills_plain_and_boxed_tiles) {
  Tile<TileType::Vec, half, 16, 32, kRow, 3, 5, SLayout::RowMajor, 512, PadValueCustom(-1.5f)> t;
  Tile<TileType::Vec, int32_t, 16, 32, kRow, 3, 5, SLayout::NoneBox, 512, PadValueCustom(-7)> i;
  const auto memory = numbers<half>(15, 0);
  const auto integers = numbers<int32_t>(15, 0);
  TLOAD(t, GlobalTensor(memory.data(), 15));
  TLOAD(i, GlobalTensor(integers.data(), 15));
  EXPECT_EQ(float(t.GetElement(2, 4)), float(memory[14]));
  EXPECT_EQ(float(t.GetElement(2, 5)), -1.5f);
  EXPECT_EQ(i.GetElement(15, 31), -7);
}

TEST(MatrixTransfer, a_packed_view_of_a_boxed_tile_ends_at_its_count) {
  for (int n : {0, 1, 5, 14, 15, 40}) {
    Any<float, kRow, SLayout::ColMajor, 512, 16, 32, PadValue::Min> t(3, 5);
    const auto memory = numbers<float>(n, 1);
    TLOAD(t, GlobalTensor(memory.data(), n));
    for (int r = 0; r < 16; ++r)
      for (int c = 0; c < 32; ++c) {
        const int at = r * 5 + c;
        const bool held = r < 3 && c < 5 && at < n;
        ASSERT_EQ(t.GetElement(r, c), held ? memory[size_t(at)] : -INFINITY) << r << "," << c;
      }
    std::vector<float> out(size_t(n), -1);
    TSTORE(GlobalTensor(out.data(), n), t);
    for (int i = 0; i < n; ++i) EXPECT_EQ(out[size_t(i)], i < 15 ? memory[size_t(i)] : -1) << i;
  }
}

template <class To, int R, int C>
using Nd = GlobalTensor<To, Shape<1, 1, 1, R, C>, Stride<1, 1, 1, C, 1>>;

template <class D>
D accumulator(int rows, int cols) {
  D acc(rows, cols);
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < cols; ++c)
      acc.SetElement(r, c, typename D::DType(float((r * 37 + c * 11) % 401 - 200)));
  return acc;
}
template <class T>
using Acc = TileAcc<T, 48, 160, DYNAMIC, DYNAMIC>;

TEST(MatrixTransfer, rows_are_the_pixels_of_an_image_and_columns_its_channels) {
  constexpr int N = 2, C1 = 3, H = 4, W = 5, C0 = 16;  // 40 pixels, 48 channels
  const auto acc = accumulator<Acc<float>>(N * H * W, C1 * C0);
  std::vector<half> image(N * C1 * H * W * C0);
  const GlobalTensor<half, Shape<N, C1, H, W, C0>,
                     Stride<C1 * H * W * C0, H * W * C0, W * C0, C0, 1>, Layout::NC1HWC0>
      view(image.data());
  TSTORE(view, acc);
  Tile<TileType::Vec, half, N * H * W, C1 * C0> d;
  TLOAD(d, view);
  for (int r = 0; r < N * H * W; ++r)
    for (int c = 0; c < C1 * C0; ++c) {
      const int at = ((r / (H * W) * C1 + c / C0) * H * W + r % (H * W)) * C0 + c % C0;
      ASSERT_EQ(float(image[size_t(at)]), acc.GetElement(r, c)) << r << ", " << c;
      ASSERT_EQ(float(d.GetElement(r, c)), acc.GetElement(r, c)) << r << ", " << c;
    }
}

TEST(MatrixTransfer, accumulators_leave_in_every_type_and_layout) {
  const auto acc = accumulator<Acc<float>>(40, 150);
  std::vector<half> nz(48 * 160, half(1.f));
  std::vector<bfloat16_t> dn(40 * 150);
  std::vector<float> nd(40 * 150);
  TSTORE(GlobalTensor<half, TileShape2D<half, 48, 160, Layout::NZ>,
                      BaseShape2D<half, 48, 160, Layout::NZ>, Layout::NZ>(nz.data()),
         acc);
  TSTORE(GlobalTensor<bfloat16_t, TileShape2D<bfloat16_t, 40, 150, Layout::DN>,
                      BaseShape2D<bfloat16_t, 40, 150, Layout::DN>, Layout::DN>(dn.data()),
         acc);
  TSTORE<STPhase::Final, Acc<float>, Nd<float, 40, 150>, AtomicType::AtomicNone,
         ReluPreMode::NormalRelu>(Nd<float, 40, 150>(nd.data()), acc);
  for (int r = 0; r < 40; ++r)
    for (int c = 0; c < 150; ++c) {
      const float x = acc.GetElement(r, c);
      ASSERT_EQ(float(nz[size_t(c / 16 * 48 * 16 + r * 16 + c % 16)]), x);
      ASSERT_EQ(float(dn[size_t(c * 40 + r)]), x);
      ASSERT_EQ(nd[size_t(r * 150 + c)], x < 0 ? 0 : x);
    }
  EXPECT_EQ(float(nz[40 * 16]), 1.f) << "row 40 is not valid";
  TSTORE<STPhase::Partial>(Nd<float, 40, 150>(nd.data()), acc);
  EXPECT_EQ(nd[0], -200);
  TSTORE<STPhase::Final>(Nd<half, 40, 150>(nz.data()), acc);
  EXPECT_EQ(float(nz[0]), -200.f);
}

uint64_t entry(float scale, int offset, bool is_signed) {
  uint32_t bits;
  std::memcpy(&bits, &scale, 4);
  return bits | uint64_t(offset) << 37 | uint64_t(is_signed) << 46;
}

template <class To, class From>
double quantised(From x, float scale, int offset) {
  const double low = kIsSigned<To> ? -128 : 0, high = kIsSigned<To> ? 127 : 255;
  const double value = double(x) * double(scale);
  if (kIsFloat<To>) return double(float(To(float(value))));
  const double whole = std::rint(value + offset);
  return whole < low ? low : whole > high ? high : whole;
}

template <class To, class From>
void check_quantised() {
  const auto acc = accumulator<Acc<From>>(33, 150);
  std::vector<To> out(33 * 150), each(33 * 150);
  const uint64_t one = entry(0.5f, kIsFloat<To> ? 0 : 3, kIsSigned<To>);
  TSTORE(Nd<To, 33, 150>(out.data()), acc, one);
  Tile<TileType::Scaling, uint64_t, 1, 160> fp;
  for (int c = 0; c < 160; ++c)
    fp.SetValue(c, entry(0.25f * float(c % 7), kIsFloat<To> ? 0 : c % 9, kIsSigned<To>));
  TSTORE_FP<Acc<From>, Nd<To, 33, 150>, decltype(fp), AtomicType::AtomicNone,
            ReluPreMode::NormalRelu>(Nd<To, 33, 150>(each.data()), acc, fp);
  for (int r = 0; r < 33; ++r)
    for (int c = 0; c < 150; ++c) {
      const From x = acc.GetElement(r, c);
      ASSERT_EQ(double(wide(out[size_t(r * 150 + c)])),
                (quantised<To>(x, 0.5f, kIsFloat<To> ? 0 : 3)));
      const double column = quantised<To>(x, 0.25f * float(c % 7), kIsFloat<To> ? 0 : c % 9);
      ASSERT_EQ(double(wide(each[size_t(r * 150 + c)])), column < 0 ? 0 : column) << r << "," << c;
    }
  TSTORE<Acc<From>, Nd<To, 33, 150>, AtomicType::AtomicNone, ReluPreMode::NormalRelu>(
      Nd<To, 33, 150>(each.data()), acc, one);
  for (size_t i = 0; i < out.size(); ++i)
    ASSERT_EQ(double(wide(each[i])), std::max(0., double(wide(out[i]))));
  if constexpr (kIsFloat<To>) {
    TSTORE<STPhase::Partial, Acc<From>, Nd<To, 33, 150>>(Nd<To, 33, 150>(each.data()), acc, one);
    for (size_t i = 0; i < out.size(); ++i) ASSERT_EQ(float(each[i]), float(out[i]));
    TSTORE_FP<STPhase::Final>(Nd<To, 33, 150>(each.data()), acc, fp);
    EXPECT_EQ(float(each[2]), quantised<To>(acc.GetElement(0, 2), 0.5f, 0));
  }
}

TEST(MatrixTransfer, accumulators_are_quantised_by_a_scalar_and_by_column) {
  check_quantised<int8_t, float>();
  check_quantised<uint8_t, float>();
  check_quantised<int8_t, int32_t>();
  check_quantised<uint8_t, int32_t>();
  check_quantised<half, int32_t>();
}

template <class T, class D>
void check_atomic() {
  std::vector<T> sums(20 * 30, T(1.f));
  const auto add = [&sums] {
    D tile(20, 30);
    for (int r = 0; r < 20; ++r)
      for (int c = 0; c < 30; ++c) tile.SetElement(r, c, typename D::DType(float(r % 3)));
    for (int i = 0; i < 40; ++i)
      TSTORE<D, Nd<T, 20, 30>, AtomicType::AtomicAdd>(Nd<T, 20, 30>(sums.data()), tile);
  };
  std::thread other(add);
  add();
  other.join();
  for (int i = 0; i < 600; ++i)
    ASSERT_EQ(double(wide(sums[size_t(i)])), double(wide(T(float(1 + 80 * (i / 30 % 3)))))) << i;
}

TEST(MatrixTransfer, atomic_addition_loses_nothing_between_threads) {
  check_atomic<float, Any<float, kRow, SLayout::NoneBox>>();
  check_atomic<half, Any<half, kRow, SLayout::NoneBox>>();
  check_atomic<bfloat16_t, Any<bfloat16_t, kRow, SLayout::NoneBox>>();
  check_atomic<int8_t, Any<int8_t, kRow, SLayout::NoneBox>>();
  check_atomic<int16_t, Any<int16_t, kRow, SLayout::NoneBox>>();
  check_atomic<int32_t, TileAcc<int32_t, 32, 32, DYNAMIC, DYNAMIC>>();
  check_atomic<half, TileAcc<float, 32, 32, DYNAMIC, DYNAMIC>>();
}

}  // namespace pto::matrix_transfer_test
