// SPDX-License-Identifier: Apache-2.0
// Compares boxes with the sets of their bytes.
#include "pto/tasks/book/box.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/deep.hpp"

namespace pto::box_test {

struct View {
  int64_t offset;
  std::vector<int64_t> sizes, strides;
  int64_t item;

  Box box() const { return make_box(offset, sizes, strides, item); }
  std::set<int64_t> bytes() const {
    std::set<int64_t> starts = {offset}, all;
    for (size_t k = 0; k < sizes.size(); ++k) {
      std::set<int64_t> next;
      for (int64_t start : starts)
        for (int64_t i = 0; i < sizes[k]; ++i) next.insert(start + i * strides[k] * item);
      starts = next;
    }
    for (int64_t start : starts)
      for (int64_t i = 0; i < item; ++i) all.insert(start + i);
    return all;
  }
};

std::set<int64_t> bytes_of(const Box& box) {
  View view{box.offset, {box.size, box.size + box.rank}, {box.stride, box.stride + box.rank}, 1};
  std::set<int64_t> all;
  if (box.is_empty()) return all;
  for (int64_t start : view.bytes())
    for (int64_t i = 0; i < box.item; ++i) all.insert(start + i);
  return all;
}

std::string text(const Box& box) {
  std::string text = std::to_string(box.item) + " bytes at " + std::to_string(box.offset);
  for (int k = 0; k < box.rank; ++k)
    text += ", " + std::to_string(box.size[k]) + " times every " + std::to_string(box.stride[k]);
  return text;
}

// Draws a view of a small matrix: slices, steps, transposes, reversals, broadcasts, odd strides.
View random_view(std::mt19937& random) {
  const auto below = [&](int64_t n) { return int64_t(random() % uint64_t(n)); };
  View view{0, {}, {}, int64_t(1) << below(3)};
  const int rank = int(below(4));
  int64_t pitch = 1 + below(3);
  for (int k = 0; k < rank; ++k) {
    const int64_t size = below(9) == 0 ? below(2) : 1 + below(5);
    int64_t stride = below(6) == 0 ? below(7) : pitch * (1 + below(3));
    pitch *= 1 + below(6);
    if (below(5) == 0) {
      stride = -stride;
      view.offset -= stride * (size > 0 ? size - 1 : 0) * view.item;
    }
    view.sizes.insert(below(2) ? view.sizes.begin() : view.sizes.end(), size);
    view.strides.insert(view.strides.begin() + (view.sizes.front() == size ? 0 : k), stride);
    view.strides.resize(view.sizes.size());
  }
  view.offset += 1000 + below(40);  // a view begins in its allocation
  return view;
}

TEST(Box, holds_the_bytes_of_the_view_that_it_was_made_of) {
  std::mt19937 random(1);
  for (int i = 0; i < 3000; ++i) {
    const View view = random_view(random);
    ASSERT_EQ(bytes_of(view.box()), view.bytes()) << i;
  }
}

TEST(Box, overlaps_exactly_where_bytes_are_shared) {
  std::mt19937 random(2);
  const int rounds = rounds_of(20000, 1000000);
  for (int i = 0; i < rounds; ++i) {
    const View a = random_view(random), b = random_view(random);
    const auto left = a.bytes(), right = b.bytes();
    bool shared = false, whole = true;
    for (int64_t byte : right) (left.count(byte) ? shared : whole) = left.count(byte) > 0;
    const Overlap found = overlap(a.box(), b.box());
    ASSERT_EQ(found, shared ? Overlap::Some : Overlap::None)
        << "round " << i << ": " << text(a.box()) << " and " << text(b.box());
    ASSERT_EQ(found, overlap(b.box(), a.box())) << "round " << i;
    ASSERT_TRUE(whole || !covers(a.box(), b.box())) << "round " << i;
  }
}

TEST(Box, tiles_of_a_matrix_share_nothing_and_are_covered_by_it) {
  const Box all = View{0, {256, 256}, {256, 1}, 4}.box();
  EXPECT_EQ(all.rank, 0);
  std::vector<Box> tiles;
  for (int64_t r = 0; r < 256; r += 64)
    for (int64_t c = 0; c < 256; c += 64)
      tiles.push_back(View{(r * 256 + c) * 4, {64, 64}, {256, 1}, 4}.box());
  for (const Box& a : tiles) {
    EXPECT_TRUE(covers(all, a));
    for (const Box& b : tiles) EXPECT_EQ(overlap(a, b) == Overlap::Some, a == b);
  }
  const Box transposed = View{0, {64, 64}, {1, 256}, 4}.box();
  EXPECT_EQ(transposed, tiles[0]);
}

TEST(Box, leaves_open_what_would_cost_too_much) {
  const Box a = View{0, {3000, 3000}, {7001, 2}, 4}.box(),
            b = View{0, {3000, 3000}, {7003, 2}, 4}.box();
  EXPECT_EQ(overlap(a, b), Overlap::Unknown);
}

TEST(Box, even_and_odd_columns_share_nothing) {
  const Box even = View{0, {1000, 500}, {1000, 2}, 4}.box();
  const Box odd = View{4, {1000, 500}, {1000, 2}, 4}.box();
  EXPECT_EQ(overlap(even, odd), Overlap::None);
  EXPECT_EQ(overlap(even, View{4, {1}, {1}, 4}.box()), Overlap::None);
  EXPECT_EQ(overlap(even, View{8, {1}, {1}, 4}.box()), Overlap::Some);
}

}  // namespace pto::box_test
