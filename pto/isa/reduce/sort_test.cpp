// SPDX-License-Identifier: Apache-2.0
// Sorting and merging against a stable sort of pairs, over lengths, ties, NaN and infinities.
#include "pto/isa/reduce/sort.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "tests/isa_oracle.hpp"

namespace pto::sort_test {
using namespace isa;

// A record as the test sees it.
struct Pair {
  float value;
  uint32_t index;
};
// Ranks NaN before everything, the negative ones first; +0 before -0; ties by index.
int rank_of(float v) {
  if (std::isnan(v)) return std::signbit(v) ? 0 : 1;
  return v != 0 ? 2 : std::signbit(v) ? 4 : 3;
}
bool comes_before(const Pair& a, const Pair& b) {
  const int rank_a = rank_of(a.value), rank_b = rank_of(b.value);
  if (rank_a < 2 || rank_b < 2) return rank_a != rank_b ? rank_a < rank_b : a.index < b.index;
  if (a.value != b.value) return a.value > b.value;
  return rank_a != rank_b ? rank_a < rank_b : a.index < b.index;
}
bool same(const Pair& a, const Pair& b) {
  const bool values =
      std::isnan(a.value) ? std::isnan(b.value) : bits_of(a.value) == bits_of(b.value);
  return values && a.index == b.index;
}

template <class T>
constexpr int kElements = 8 / int(sizeof(T));

template <class T>
void put(T* tile, int at, Pair p) {
  T record[kElements<T>] = {T(p.value), T(0.f)};
  std::memcpy(record + kElements<T> / 2, &p.index, 4);
  std::memcpy(static_cast<void*>(tile + at * kElements<T>), record, 8);
}
template <class T>
Pair take(const T* tile, int at) {
  Pair p = {float(tile[at * kElements<T>]), 0};
  std::memcpy(&p.index, tile + at * kElements<T> + kElements<T> / 2, 4);
  return p;
}

// Takes few different values, so that most are ties, and the specials.
template <class T>
T value(unsigned i) {
  i = i * 2654435761u >> 7;
  const float special[] = {NAN, INFINITY, -INFINITY, 0.f, -0.f, -NAN};
  return i % 37 < 6 ? T(special[i % 37]) : T(float(int(i / 37 % 41) - 20) / 4);
}

template <class T, int N>
using Line = Tile<TileType::Vec, T, 1, N, BLayout::RowMajor, 1, DYNAMIC>;

template <class T>
void check_sort32(int rows, int cols) {
  constexpr int E = kElements<T>, kCols = 320;
  using Values = Tile<TileType::Vec, T, 5, kCols, BLayout::RowMajor, DYNAMIC, DYNAMIC>;
  using Index = Tile<TileType::Vec, uint32_t, 5, kCols, BLayout::RowMajor, DYNAMIC, DYNAMIC>;
  using Records = Tile<TileType::Vec, T, 5, kCols * E>;
  auto s = shaped<Values>(rows, cols);
  auto index = shaped<Index>(rows, cols);
  auto d = std::make_unique<Records>();
  for (int i = 0; i < Values::Numel; ++i) {
    s.SetValue(i, value<T>(unsigned(i + cols)));
    index.SetValue(i, uint32_t(i * 7919 % 1000003));
  }
  for (int i = 0; i < Records::Numel; ++i) d->SetValue(i, T(77.f));
  TSORT32(*d, s, index);
  for (int r = 0; r < 5; ++r)
    for (int block = 0; block < kCols; block += 32) {
      std::vector<Pair> want;
      for (int c = block; c < block + 32; ++c) {
        if (r < rows && c < cols)
          want.push_back({float(s.GetElement(r, c)), index.GetElement(r, c)});
        else
          ASSERT_EQ(float(d->GetElement(r, c * E)), 77.f) << "outside at " << r << "," << c;
      }
      std::sort(want.begin(), want.end(), comes_before);
      for (size_t i = 0; i < want.size(); ++i) {
        const Pair got = take(d->data() + Records::Offset(r, block * E), int(i));
        ASSERT_TRUE(same(got, want[i]))
            << rows << " x " << cols << ": record " << i << " of block " << block << " in row " << r
            << " is " << got.value << ", " << got.index << ", should be " << want[i].value << ", "
            << want[i].index;
        if (E == 4) {
          ASSERT_EQ(bits_of(d->GetElement(r, (block + int(i)) * E + 1)), 0u);
        }
      }
    }
}

TEST(Sort32, orders_each_block_of_each_row_descending_with_ties_by_index) {
  for (int cols : {0, 1, 31, 32, 33, 64, 250, 300, 320}) {
    check_sort32<float>(cols % 5 + 1, cols);
    check_sort32<half>(5 - cols % 5, cols);
  }
}

TEST(Sort32, uses_one_row_of_indices_for_every_row) {
  Tile<TileType::Vec, float, 3, 32> s;
  Tile<TileType::Vec, uint32_t, 1, 32> index;
  Tile<TileType::Vec, float, 3, 64> d;
  Tile<TileType::Vec, float, 1, 32> tmp;
  for (int i = 0; i < 96; ++i) s.SetValue(i, float(i * 37 % 96));
  for (int i = 0; i < 32; ++i) index.SetValue(i, uint32_t(i));
  TSORT32(d, s, index, tmp);
  for (int r = 0; r < 3; ++r)
    for (int i = 0; i < 32; ++i) {
      const Pair got = take(d.data() + r * 64, i);
      ASSERT_EQ(got.value, s.GetElement(r, int(got.index))) << r << ", " << i;
    }
}

TEST(Sort32, keeps_the_bits_of_a_half_signalling_nan_included) {
  const uint16_t bits[] = {0x7c01, 0xfd02, 0x7e00, 0xfe00, 0x7c00, 0xfc00, 0x3c00, 0, 0x8000, 1};
  Tile<TileType::Vec, half, 1, 32> s;
  Tile<TileType::Vec, uint32_t, 1, 32> index;
  Tile<TileType::Vec, half, 1, 128> d, merged;
  for (int i = 0; i < 32; ++i) {
    const uint16_t one = i < 10 ? bits[i] : uint16_t(0x4000 + i);
    std::memcpy(static_cast<void*>(s.data() + i), &one, 2);
    index.SetValue(i, uint32_t(i));
  }
  TSORT32(d, s, index);
  TMRGSORT(merged, d, 128);
  for (int i = 0; i < 32; ++i) {
    const int from = int(take(merged.data(), i).index);
    EXPECT_EQ(bits_of(merged.GetValue(4 * i)), bits_of(s.GetValue(from))) << i;
    EXPECT_EQ(from == 1 || from == 3, i < 2) << i;
    EXPECT_EQ(from == 0 || from == 2, i == 2 || i == 3) << i;
  }
}

TEST(Sort32, takes_a_source_of_its_own_type_whose_valid_part_fits) {
  Line<float, 128> s(40), d(80);
  Tile<TileType::Vec, uint32_t, 1, 128> index;
  for (int i = 0; i < 128; ++i) {
    s.SetValue(i, float(i * 29 % 64));
    d.SetValue(i, -1.f);
    index.SetValue(i, uint32_t(i));
  }
  TSORT32(d, s, index);
  for (int i = 0; i < 40; ++i) {
    const Pair got = take(d.data(), i);
    ASSERT_EQ(got.value, s.GetElement(0, int(got.index))) << i;
    if (i % 32 != 0) {
      ASSERT_LE(got.value, take(d.data(), i - 1).value) << i;
    }
  }
  for (int i = 80; i < 128; ++i) ASSERT_EQ(d.GetElement(0, i), -1.f) << i;

  s.SetValidCol(96);  // of three blocks two fit
  TSORT32(d, s, index);
  for (int i = 0; i < 64; ++i) ASSERT_EQ(take(d.data(), i).index / 32, unsigned(i / 32)) << i;
}

// Makes a sorted list of `count` records whose indices start at `first`.
template <class T>
std::vector<Pair> sorted_list(int count, unsigned first) {
  std::vector<Pair> list;
  for (int i = 0; i < count; ++i)
    list.push_back({float(value<T>(unsigned(i) * 3 + first)), first + unsigned(i)});
  std::sort(list.begin(), list.end(), comes_before);
  return list;
}

template <class T>
void check_blocks(int block, int total) {
  constexpr int E = kElements<T>, kRecords = 1024;
  using Records = Line<T, kRecords * E>;
  auto s = std::make_unique<Records>(total * E), d = std::make_unique<Records>(total * E);
  for (int i = 0; i < Records::Numel; ++i) d->SetValue(i, T(77.f));
  std::vector<Pair> all;
  for (int from = 0; from < total; from += block)
    for (const Pair& p : sorted_list<T>(std::min(block, total - from), unsigned(from)))
      all.push_back(p);
  for (int i = 0; i < total; ++i) put(s->data(), i, all[size_t(i)]);
  TMRGSORT(*d, *s, uint32_t(block * E));
  for (int from = 0; from < total; from += 4 * block)
    std::sort(all.begin() + from, all.begin() + std::min(total, from + 4 * block), comes_before);
  for (int i = 0; i < kRecords; ++i) {
    const Pair got = take(d->data(), i);
    if (i < total)
      ASSERT_TRUE(same(got, all[size_t(i)])) << "blocks of " << block << ", record " << i << " of "
                                             << total << " is " << got.value << ", " << got.index;
    else
      ASSERT_EQ(got.value, 77.f) << "outside at " << i;
  }
  TMRGSORT(*s, *s, uint32_t(block * E));
  for (int i = 0; i < total; ++i)
    ASSERT_TRUE(same(take(s->data(), i), all[size_t(i)])) << "in place";
}

TEST(MergeSort, merges_groups_of_four_blocks_and_a_last_smaller_group) {
  for (int block : {16, 32, 128})
    for (int total : {0, 16, 128, 512, 800, 1024}) {
      check_blocks<float>(block, total);
      check_blocks<half>(block, total);
    }
}

TEST(MergeSort, a_block_longer_than_the_row_is_the_row) {
  constexpr int E = kElements<float>, kRecords = 20;
  using Records = Line<float, 64 * E>;
  Records s(kRecords * E), d(kRecords * E);
  const auto list = sorted_list<float>(kRecords, 0);
  for (int i = 0; i < kRecords; ++i) put(s.data(), i, list[size_t(i)]);
  for (uint32_t length : {1u << 20, 1u << 29, 1u << 30, 1u << 31, ~0u}) {
    for (int i = 0; i < Records::Numel; ++i) d.SetValue(i, 77);
    TMRGSORT(d, s, length);
    for (int i = 0; i < kRecords; ++i)
      EXPECT_TRUE(same(take(d.data(), i), list[size_t(i)])) << length << ", " << i;
    EXPECT_EQ(take(d.data(), kRecords).value, 77) << length;
  }
}

// Merges lists one record at a time: lower lists first among equals.
struct Merged {
  std::vector<Pair> all;
  int taken[4] = {0, 0, 0, 0};
};
Merged merge_slowly(const std::vector<std::vector<Pair>>& lists, bool exhausted, int room) {
  Merged m;
  while (int(m.all.size()) < room) {
    int best = -1;
    bool ended = false;
    for (int i = 0; i < int(lists.size()); ++i) {
      if (m.taken[i] == int(lists[size_t(i)].size())) {
        ended = true;
        continue;
      }
      const Pair& p = lists[size_t(i)][size_t(m.taken[i])];
      if (best < 0 || comes_before(p, lists[size_t(best)][size_t(m.taken[best])])) best = i;
    }
    if (best < 0 || (exhausted && ended)) break;
    m.all.push_back(lists[size_t(best)][size_t(m.taken[best]++)]);
  }
  return m;
}

template <class T, int N>
using Records = Line<T, N * kElements<T>>;

// Checks counts of four lists, of which the first n take part; Room is the destination's, in
// records.
template <class T, int Room, bool Exhausted>
void check_lists(int n, const int* count) {
  constexpr int E = kElements<T>;
  using List = Records<T, 160>;
  std::vector<std::vector<Pair>> lists;
  auto s = std::make_unique<List[]>(4);
  for (int i = 0; i < n; ++i) {
    lists.push_back(sorted_list<T>(count[i], unsigned(i % 3 * 1000)));  // list 3 repeats list 0
    s[size_t(i)].SetValidCol(count[i] * E);
    for (int k = 0; k < count[i]; ++k) put(s[size_t(i)].data(), k, lists[size_t(i)][size_t(k)]);
  }
  using D = Records<T, Room>;
  D d(Room * E);
  List tmp(0);
  for (int i = 0; i < D::Numel; ++i) d.SetValue(i, T(77.f));
  MrgSortExecutedNumList executed = {};
  if (n == 2)
    TMRGSORT<D, List, List, List, Exhausted>(d, executed, tmp, s[0], s[1]);
  else if (n == 3)
    TMRGSORT<D, List, List, List, List, Exhausted>(d, executed, tmp, s[0], s[1], s[2]);
  else
    TMRGSORT<D, List, List, List, List, List, Exhausted>(d, executed, tmp, s[0], s[1], s[2], s[3]);
  const Merged want = merge_slowly(lists, Exhausted, Room);
  const std::string where = std::to_string(n) + " lists of " + std::to_string(count[0]) + ", " +
                            std::to_string(count[1]) + ", ... into " + std::to_string(Room);
  for (int i = 0; i < Room; ++i) {
    const Pair got = take(d.data(), i);
    if (i < int(want.all.size()))
      ASSERT_TRUE(same(got, want.all[size_t(i)])) << where << ": record " << i;
    else
      ASSERT_EQ(got.value, 77.f) << where << ": outside at " << i;
  }
  const int got[] = {executed.mrgSortList0, executed.mrgSortList1, executed.mrgSortList2,
                     executed.mrgSortList3};
  for (int i = 0; i < 4; ++i) ASSERT_EQ(got[i], want.taken[i]) << where << ": taken of list " << i;
}

TEST(MergeSort, merges_two_to_four_lists_stops_when_one_ends_and_counts_what_it_took) {
  const int counts[][4] = {{160, 160, 160, 160}, {1, 160, 33, 7}, {0, 5, 0, 2},
                           {64, 64, 64, 64},     {32, 1, 1, 1},   {100, 17, 90, 100}};
  for (const auto& count : counts)
    for (int n = 2; n <= 4; ++n) {
      check_lists<float, 640, false>(n, count);
      check_lists<float, 640, true>(n, count);
      check_lists<float, 48, false>(n, count);
      check_lists<half, 48, true>(n, count);
      check_lists<half, 640, false>(n, count);
    }
}

TEST(MergeSort, says_how_large_a_temporary_the_lists_take) {
  EXPECT_EQ((GETMRGSORTTMPSIZE<Records<float, 32>, Records<float, 64>>()), 192u);
}

}  // namespace pto::sort_test
