// SPDX-License-Identifier: Apache-2.0
// MGATHER and MSCATTER against a loop over positions, with every mode for those outside.
#include "pto/isa/memory/global_gather.hpp"

#include <gtest/gtest.h>

#include "tests/isa_oracle.hpp"

namespace pto::global_gather_test {
using namespace isa;

constexpr int kRows = 7, kCols = 20, kPitch = 24;
template <class T>
using Block = Tile<TileType::Vec, T, 6, 32, BLayout::RowMajor, DYNAMIC, DYNAMIC>;
using Rows = Shape<1, 1, 1, kRows, kCols>;
using Pitch = Stride<1, 1, 1, kPitch, 1>;
template <class T>
using Memory = GlobalTensor<T, Rows, Pitch>;

// Returns the position that an index means, or -1.
int64_t placed(int64_t index, int64_t n, int mode) {
  const uint64_t i = uint64_t(uint32_t(index));
  if (i < uint64_t(n)) return int64_t(i);
  return mode == 1 ? n - 1 : mode == 2 ? int64_t(i % uint64_t(n)) : -1;
}
int64_t offset_of(int64_t element) { return element / kCols * kPitch + element % kCols; }

template <class T>
std::vector<T> table_of(int first) {
  std::vector<T> table(kRows * kPitch);
  for (size_t i = 0; i < table.size(); ++i) table[i] = T(float((int(i) + first) % 90 + 1));
  return table;
}

template <class I>
I index_at(int i, int n) {
  return i % 5 == 3 ? I(n + i % 3) : i % 7 == 6 ? I(-1) : I(i * 5 % n);
}

template <class T, class I, Coalesce Mode, GatherOOB Oob>
void check_gather(int rows, int cols) {
  constexpr bool kByRow = Mode == Coalesce::Row;
  auto table = table_of<T>(0);
  auto d = shaped<Block<T>>(rows, cols);
  auto index = shaped<Block<I>>(kByRow ? 1 : rows, kByRow ? rows : cols);
  fill(d, 3);
  for (int i = 0; i < index.Numel; ++i)
    index.SetValue(i, index_at<I>(i, kByRow ? kRows : kRows * kCols));
  const auto before = d;
  MGATHER<Mode, Oob>(d, Memory<T>(table.data()), index);
  const int mode = Oob == GatherOOB::Clamp ? 1 : Oob == GatherOOB::Wrap ? 2 : 0;
  EXPECT_EQ(differs(d, before, 0,
                    [&](int r, int c) -> Wide<T> {
                      if (kByRow) {
                        const int64_t from = placed(int64_t(index.GetElement(0, r)), kRows, mode);
                        return from < 0 || c >= kCols ? 0 : wide(table[size_t(from * kPitch + c)]);
                      }
                      const int64_t i =
                          placed(int64_t(index.GetElement(r, c)), kRows * kCols, mode);
                      return i < 0 ? 0 : wide(table[size_t(offset_of(i))]);
                    }),
            "")
      << rows << " x " << cols << ", mode " << int(Mode) << ", " << int(Oob);
}

template <class T, class I>
void check_gathers() {
  check_gather<T, I, Coalesce::Row, GatherOOB::Zero>(6, 20);
  check_gather<T, I, Coalesce::Elem, GatherOOB::Clamp>(3, 31);
}

TEST(GlobalGather, takes_rows_and_elements_and_places_those_outside) {
  check_gathers<float, int32_t>();
  check_gathers<half, uint32_t>();
  check_gathers<bfloat16_t, int32_t>();
  check_gathers<int8_t, int32_t>();
  check_gathers<uint8_t, uint32_t>();
  check_gathers<int16_t, int32_t>();
  check_gathers<uint16_t, uint32_t>();
  check_gathers<int32_t, int32_t>();
  check_gathers<uint32_t, uint32_t>();
  check_gather<float, uint32_t, Coalesce::Row, GatherOOB::Clamp>(5, 24);
  check_gather<float, uint32_t, Coalesce::Row, GatherOOB::Wrap>(5, 1);
  check_gather<float, uint32_t, Coalesce::Row, GatherOOB::Undefined>(5, 0);
  check_gather<float, uint32_t, Coalesce::Elem, GatherOOB::Wrap>(6, 32);
  check_gather<float, uint32_t, Coalesce::Elem, GatherOOB::Zero>(1, 1);
  check_gather<float, uint32_t, Coalesce::Elem, GatherOOB::Undefined>(6, 7);
}

TEST(GlobalGather, without_a_mode_goes_by_the_shape_of_the_indices) {
  auto table = table_of<float>(0);
  auto d = shaped<Block<float>>(3, 4);
  auto index = shaped<Block<int32_t>>(3, 4);
  for (int i = 0; i < index.Numel; ++i) index.SetValue(i, i % 50);
  MGATHER(d, GlobalTensor(table.data(), 100), index);
  EXPECT_EQ(d.GetElement(2, 3), table[size_t(index.GetElement(2, 3))]);
  auto rows = shaped<Block<int32_t>>(1, 3);
  for (int i = 0; i < 3; ++i) rows.SetElement(0, i, 2 * i);
  MGATHER(d, Memory<float>(table.data()), rows);
  EXPECT_EQ(d.GetElement(2, 3), table[4 * kPitch + 3]);
  Tile<TileType::Vec, int32_t, 8, 1, BLayout::ColMajor, DYNAMIC, 1> column(3);
  for (int i = 0; i < 3; ++i) column.SetValue(i, 6 - i);
  MGATHER<Coalesce::Row>(d, Memory<float>(table.data()), column);
  EXPECT_EQ(d.GetElement(2, 3), table[4 * kPitch + 3]);
  MSCATTER(Memory<float>(table.data()), d, index);
  EXPECT_EQ(table[size_t(offset_of(index.GetElement(2, 3)))], d.GetElement(2, 3));
  MSCATTER(Memory<float>(table.data()), d, rows);
  EXPECT_EQ(table[4 * kPitch + 3], d.GetElement(2, 3));
}

TEST(GlobalGather, takes_indices_from_memory_with_a_scratch_view) {
  auto table = table_of<float>(0);
  int32_t indices[] = {3, 0, 6, 9};
  float scratch[1];
  auto d = shaped<Block<float>>(4, 20);
  MGATHER<Coalesce::Row, GatherOOB::Zero>(d, Memory<float>(table.data()), GlobalTensor(indices, 4),
                                          GlobalTensor(scratch, 1));
  EXPECT_EQ(d.GetElement(2, 19), table[6 * kPitch + 19]);
  EXPECT_EQ(d.GetElement(3, 0), 0);
}

template <class T, class I, Coalesce Mode, ScatterAtomicOp Op, ScatterOOB Oob,
          ScatterConflict Conflict>
void check_scatter(int rows, int cols) {
  constexpr bool kByRow = Mode == Coalesce::Row;
  auto table = table_of<T>(40);
  auto s = shaped<Block<T>>(rows, cols);
  auto index = shaped<Block<I>>(kByRow ? 1 : rows, kByRow ? rows : cols);
  for (int i = 0; i < s.Numel; ++i) s.SetValue(i, T(float(i % 31)));
  for (int i = 0; i < index.Numel; ++i)
    index.SetValue(i, index_at<I>(i / 2, kByRow ? kRows : kRows * kCols));
  auto want = table;
  std::vector<char> written(table.size());
  const int mode = Oob == ScatterOOB::Clamp ? 1 : Oob == ScatterOOB::Wrap ? 2 : 0;
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < cols; ++c) {
      const int64_t i = kByRow ? placed(int64_t(index.GetElement(0, r)), kRows, mode)
                               : placed(int64_t(index.GetElement(r, c)), kRows * kCols, mode);
      if (i < 0 || (kByRow && c >= kCols)) continue;
      const size_t at = size_t(kByRow ? i * kPitch + c : offset_of(i));
      const Wide<T> old = wide(want[at]), x = wide(s.GetElement(r, c));
      if (Op == ScatterAtomicOp::None && Conflict == ScatterConflict::First && written[at])
        continue;
      written[at] = 1;
      want[at] = rounded<T>(Op == ScatterAtomicOp::None  ? x
                            : Op == ScatterAtomicOp::Add ? old + x
                            : Op == ScatterAtomicOp::Max ? std::max(old, x)
                                                         : std::min(old, x));
    }
  MSCATTER<Mode, Op, Oob, Conflict>(Memory<T>(table.data()), s, index);
  for (size_t i = 0; i < table.size(); ++i)
    ASSERT_EQ(bits_of(table[i]), bits_of(want[i]))
        << "element " << i << " of " << rows << " x " << cols << ", op " << int(Op);
}

constexpr auto kNone = ScatterAtomicOp::None, kAdd = ScatterAtomicOp::Add;
constexpr auto kMax = ScatterAtomicOp::Max, kMin = ScatterAtomicOp::Min;
constexpr auto kFirst = ScatterConflict::First, kLast = ScatterConflict::Last;

template <class T, class I>
void check_scatters() {
  check_scatter<T, I, Coalesce::Row, kNone, ScatterOOB::Skip, kLast>(6, 20);
  check_scatter<T, I, Coalesce::Elem, kAdd, ScatterOOB::Clamp, kLast>(5, 30);
}

TEST(GlobalScatter, puts_rows_and_elements_combines_them_and_places_those_outside) {
  check_scatters<float, int32_t>();
  check_scatters<half, uint32_t>();
  check_scatters<bfloat16_t, int32_t>();
  check_scatters<int8_t, int32_t>();
  check_scatters<uint8_t, uint32_t>();
  check_scatters<int16_t, int32_t>();
  check_scatters<uint16_t, uint32_t>();
  check_scatters<int32_t, int32_t>();
  check_scatters<uint32_t, uint32_t>();
  check_scatter<float, int32_t, Coalesce::Row, kNone, ScatterOOB::Wrap, kFirst>(6, 24);
  check_scatter<float, int32_t, Coalesce::Row, kMax, ScatterOOB::Undefined, kLast>(6, 0);
  check_scatter<half, int32_t, Coalesce::Elem, kNone, ScatterOOB::Wrap, ScatterConflict::Default>(
      6, 32);
  check_scatter<float, int32_t, Coalesce::Elem, kMin, ScatterOOB::Skip, kLast>(6, 32);
  check_scatter<int32_t, int32_t, Coalesce::Elem, kMax, ScatterOOB::Wrap, kLast>(6, 32);
  check_scatter<float, int32_t, Coalesce::Elem, kNone, ScatterOOB::Clamp, kFirst>(6, 32);
}

}  // namespace pto::global_gather_test
