// SPDX-License-Identifier: Apache-2.0
// Prefetching gives a tile its elements and leaves memory alone.
#include "pto/isa/memory/prefetch.hpp"

#include <gtest/gtest.h>

#include "tests/isa_oracle.hpp"

namespace pto::prefetch_test {
using namespace isa;

template <class T>
void check_prefetch() {
  T memory[96];
  for (int i = 0; i < 96; ++i) memory[i] = T(float(i));
  Tile<TileType::Vec, T, 3, 32> d;
  TPREFETCH(d, GlobalTensor(memory, 96));
  PrefetchAsyncContext context;
  const auto event = TPREFETCH_ASYNC(GlobalTensor(memory, 96), context);
  EXPECT_TRUE(event.Wait(context.session));
  for (int i = 0; i < 96; ++i) ASSERT_EQ(float(d.GetValue(i)), float(i));
}

template <class T>
void check_prefetch_of_tile() {
  Tile<TileType::Vec, T, 3, 32> s;
  Tile<TileType::Vec, T, 3, 32, BLayout::RowMajor, DYNAMIC, DYNAMIC> d(2, 21);
  for (int i = 0; i < 96; ++i) s.SetValue(i, T(float(i))), d.SetValue(i, T(7.f));
  TPREFETCH(d, s);
  for (int i = 0; i < 96; ++i) {
    const bool is_valid = i / 32 < 2 && i % 32 < 21;
    ASSERT_EQ(float(d.GetValue(i)), is_valid ? float(i) : 7.f) << i;
  }
}

TEST(Prefetch, brings_the_elements_of_another_tile) {
  check_prefetch_of_tile<float>(), check_prefetch_of_tile<half>();
  check_prefetch_of_tile<int32_t>(), check_prefetch_of_tile<int16_t>();
}

TEST(Prefetch, brings_elements_and_asks_for_memory) {
  check_prefetch<float>();
  check_prefetch<half>();
  check_prefetch<bfloat16_t>();
  check_prefetch<int8_t>();
  check_prefetch<uint8_t>();
  check_prefetch<int16_t>();
  check_prefetch<uint16_t>();
  check_prefetch<int32_t>();
  check_prefetch<uint32_t>();
  float few[8] = {};
  PrefetchAsyncContext context(nullptr);
  using View = GlobalTensor<float, Shape<1, 1, 2, 2, 2>, Stride<8, 8, 4, 2, 1>>;
  EXPECT_TRUE(TPREFETCH_ASYNC(View(few), context).Test(context.session));
}

}  // namespace pto::prefetch_test
