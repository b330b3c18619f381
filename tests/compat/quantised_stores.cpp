// SPDX-License-Identifier: Apache-2.0
// Vector tiles that are quantised on their way to memory, as sources for the public simulator do.
#include <pto/common/constants.hpp>
#include <pto/pto-inst.hpp>

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

using namespace pto;

namespace {

uint64_t entry(float scale) {
  uint32_t bits;
  std::memcpy(&bits, &scale, sizeof(bits));
  return bits | uint64_t(1) << 46;  // signed
}

// Several images one behind the other: `Lines` elements of a line are side by side in memory.
template <BLayout Order, Layout Name>
void check_entries_along_lines() {
  constexpr bool kRows = Order == BLayout::RowMajor;
  constexpr int kImages = 3, kLines = 4, kLength = 8, kCount = kImages * kLines * kLength;
  using Extents = Shape<kImages, 1, 1, kRows ? kLines : kLength, kRows ? kLength : kLines>;
  using Steps = pto::Stride<kLines * kLength, kLines * kLength, kLines * kLength,
                            kRows ? kLength : 1, kRows ? 1 : kLength>;
  constexpr int kOuter = kImages * kLines;
  using Source = Tile<TileType::Vec, int32_t, kRows ? kOuter : kLength, kRows ? kLength : kOuter,
                      Order, -1, -1>;
  using Entries = Tile<TileType::Vec, uint64_t, 1, kLength, BLayout::RowMajor, 1, kLength>;
  std::vector<int32_t> in(kCount);
  std::vector<int8_t> out(kCount);
  for (int i = 0; i < kCount; ++i) in[size_t(i)] = i % 11 - 5;
  GlobalTensor<int32_t, Extents, Steps, Name> from(in.data());
  GlobalTensor<int8_t, Extents, Steps, Name> to(out.data());
  Source tile(Source::Rows, Source::Cols);
  Entries entries;
  for (int i = 0; i < kLength; ++i) entries.data()[i] = entry(float(i + 1));
  TLOAD(tile, from);
  TSTORE_FP<Source, decltype(to), Entries, AtomicType::AtomicNone, ReluPreMode::NoRelu>(to, tile,
                                                                                        entries);
  for (int i = 0; i < kCount; ++i)
    ASSERT_EQ(int(out[size_t(i)]), in[size_t(i)] * (i % kLength + 1)) << i;
}

TEST(QuantisedStores, take_an_entry_for_each_element_of_a_line) {
  check_entries_along_lines<BLayout::RowMajor, Layout::ND>();
  check_entries_along_lines<BLayout::ColMajor, Layout::DN>();
}

TEST(QuantisedStores, go_by_the_order_of_the_tile_where_the_view_has_no_name) {
  check_entries_along_lines<BLayout::ColMajor, Layout::ND>();
}

}  // namespace
