// SPDX-License-Identifier: Apache-2.0
// Quotients and rests of vectors against those of single integers in 64 bits.
#include "pto/isa/cpu/integer_division.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "pto/isa/cpu/remainder.hpp"
#include "tests/deep.hpp"

namespace pto::integer_division_test {
using namespace isa;

template <class E>
E quotient(E a, E b) {
  using W = std::conditional_t<std::is_signed_v<E>, __int128, unsigned __int128>;
  return b == 0 ? E(0) : E(W(a) / W(b));
}

// Integers near the limits of E and of doubles, of any number of bits, and near a multiple of b.
template <class E>
class Operands {
 public:
  E any() {
    constexpr E kEdges[] = {0,
                            1,
                            2,
                            3,
                            E(-1),
                            E(-2),
                            7,
                            std::numeric_limits<E>::min(),
                            E(1) << 6,
                            std::numeric_limits<E>::max(),
                            E(std::numeric_limits<E>::max() / 2 + 1)};
    if (next_() % 4 == 0) return kEdges[next_() % std::size(kEdges)];
    if (sizeof(E) == 8 && next_() % 4 == 0) return near((uint64_t(1) << 53));
    return E(int64_t(next_()) >> next_() % 64);
  }
  E dividend(E b) { return next_() % 2 ? any() : near(uint64_t(b) * uint64_t(any())); }

 private:
  E near(uint64_t n) { return E(n + next_() % 5 - 2); }
  std::mt19937_64 next_{1};
};

template <class V>
void check(const V& a, const V& b) {
  using E = LaneOf<V>;
  const V found = lanes::divide(a, b), rest = lanes::fmod(a, b), above = lanes::remainder(a, b);
  for (int i = 0; i < kCount<V>; ++i) {
    const E x = a[i], y = b[i], q = quotient<E>(x, y);
    const E r = y == 0 ? E(0) : E(uint64_t(x) - uint64_t(q) * uint64_t(y));
    ASSERT_EQ(found[i], q) << +x << " / " << +y;
    ASSERT_EQ(rest[i], r) << +x << " % " << +y;
    ASSERT_EQ(above[i], r != 0 && (r < 0) != (y < 0) ? E(r + y) : r) << +x << " mod " << +y;
  }
}

template <class E>
struct IntegerDivision : testing::Test {};
using Types =
    testing::Types<int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t, int64_t, uint64_t>;
TYPED_TEST_SUITE(IntegerDivision, Types);

template <class E, int N>
void check_vectors(int count) {
  Operands<E> operands;
  for (int k = 0; k < count; ++k) {
    Vec<E, N> a, b;
    for (int i = 0; i < N; ++i) b[i] = operands.any(), a[i] = operands.dividend(b[i]);
    check(a, b);
    // Alike: no lane keeps the others from being divided as floats.
    for (int i = 0; i < N; ++i) check(a - a + a[i], b - b + b[i]);
  }
}

TYPED_TEST(IntegerDivision, IsThatOfSingleIntegers) {
  const int count = is_deep() ? 200'000 : 400;
  check_vectors<TypeParam, kLanes<TypeParam>>(count);
  check_vectors<TypeParam, kLanes<float>>(count);
  check_vectors<TypeParam, 2>(count);
}

TEST(IntegerDivision, OfEveryByteByEveryByte) {
  for (int y = -128; y < 128; ++y)
    for (int x = -128; x < 128; x += kLanes<int8_t>) {
      Vec<int8_t, kLanes<int8_t>> a, b = {};
      for (int i = 0; i < kLanes<int8_t>; ++i) a[i] = int8_t(x + i);
      check(a, b + int8_t(y));
    }
}

}  // namespace pto::integer_division_test
