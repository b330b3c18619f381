// SPDX-License-Identifier: Apache-2.0
// Law: a copy between two layouts moves each element, and writes nothing between them.
#include "pto/launch/strided_copy.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

namespace pto::strided_copy_test {

struct Layout {
  std::vector<int64_t> strides;
  int64_t first = 0, length = 0;  // elements: of the first one, and of all memory
};

// Gives each axis a stride: in any order, of either sign, with gaps.
Layout random_layout(std::mt19937& random, const std::vector<int64_t>& sizes) {
  Layout made;
  made.strides.resize(sizes.size());
  std::vector<size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::shuffle(order.begin(), order.end(), random);
  int64_t next = random() % 4 == 0 ? 2 : 1;
  made.length = 1;
  for (const size_t axis : order) {
    const int64_t stride = random() % 4 == 0 ? -next : next;
    made.strides[axis] = stride;
    const int64_t last = (sizes[axis] - 1) * next;
    if (stride < 0) made.first += last;
    made.length += last;
    next = next * sizes[axis] + (random() % 4 == 0 ? int64_t(random() % 3) : 0);
  }
  return made;
}

template <class T>
void copies_between(std::mt19937& random, const std::vector<int64_t>& sizes, const Layout& to,
                    const Layout& from) {
  const int64_t count =
      std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<int64_t>());
  std::vector<T> source(size_t(std::max<int64_t>(from.length, 1))),
      found(size_t(std::max<int64_t>(to.length, 1)), T(7));
  for (T& x : source) x = T(random());
  std::vector<T> wanted = found;
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i, a = to.first, b = from.first;
    for (size_t axis = sizes.size(); axis-- > 0; rest /= sizes[axis]) {
      a += rest % sizes[axis] * to.strides[axis];
      b += rest % sizes[axis] * from.strides[axis];
    }
    wanted[size_t(a)] = source[size_t(b)];
  }
  copy_strided(found.data() + to.first, to.strides.data(), source.data() + from.first,
               from.strides.data(), sizes.data(), int(sizes.size()), sizeof(T));
  ASSERT_EQ(found, wanted) << "sizes " << testing::PrintToString(sizes) << " to "
                           << testing::PrintToString(to.strides) << " from "
                           << testing::PrintToString(from.strides);
}

template <class T>
void copies(std::mt19937& random) {
  std::vector<int64_t> sizes(random() % 6);
  for (int64_t& size : sizes) size = 1 + int64_t(random() % (sizes.size() < 3 ? 300 : 20));
  if (!sizes.empty() && random() % 8 == 0) sizes[random() % sizes.size()] = int64_t(random() % 2);
  if (!sizes.empty() && random() % 2 == 0)
    sizes[random() % sizes.size()] = 2 + int64_t(random() % 3);
  const Layout to = random_layout(random, sizes), from = random_layout(random, sizes);
  copies_between<T>(random, sizes, to, from);
}

TEST(StridedCopy, moves_every_element_between_any_layouts) {
  std::mt19937 random(1);
  for (int i = 0; i < 300; ++i) {
    copies<uint8_t>(random);
    copies<uint16_t>(random);
    copies<uint32_t>(random);
    copies<uint64_t>(random);
  }
}

// As patches of a picture become rows of pixels: short rows stand one behind another.
template <class T>
void joins_rows(std::mt19937& random) {
  for (const int64_t row : {2, 3, 15, 16, 17})
    for (const int64_t lines : {1, 3, 4, 70, 300}) {
      const std::vector<int64_t> sizes = {lines, 90, row};
      const Layout to{{90 * row, row, 1}, 0, lines * 90 * row};
      const Layout apart{{1, lines, 90 * lines}, 0, 90 * row * lines};
      const Layout gaps{{1, lines * row + 1, lines}, 0, 90 * (lines * row + 1)};
      copies_between<T>(random, sizes, to, apart);
      copies_between<T>(random, sizes, to, gaps);
    }
}

TEST(StridedCopy, short_rows_that_follow_each_other_are_transposed_together) {
  std::mt19937 random(1);
  joins_rows<uint8_t>(random);
  joins_rows<uint16_t>(random);
  joins_rows<uint32_t>(random);
  joins_rows<uint64_t>(random);
}

}  // namespace pto::strided_copy_test
