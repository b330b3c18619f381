// SPDX-License-Identifier: Apache-2.0
#include "pto/base/counterexample.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

#include "pto/base/dtype.hpp"

namespace pto::counterexample_test {

// A tensor of n rows and m columns of elements that lie in row-major order.
struct Side {
  Side(DType dtype, void* data, int64_t n, int64_t m) : sizes{n, m}, strides{m, 1} {
    const DLPackType type = dlpack_type(dtype);
    tensor = {data, sizes, strides, 2, type.code, type.bits, 1, 0, -1};
  }

  int64_t sizes[2], strides[2];
  pto_tensor tensor;
};

TEST(Counterexample, shows_the_first_elements_of_which_a_comparison_is_false) {
  int32_t rows[] = {0, 2, 1, 3, 0, 0};
  int64_t limit[] = {2, 3};
  const Side a(DType::I32, rows, 3, 2), one(DType::I64, limit, 1, 1),
      column(DType::I64, limit, 1, 2);
  struct Case {
    const char* comparison;
    const Side& b;
    const char* found;
  };
  for (const Case& c :
       {Case{"lt", one, "2 < 2 is false at [0, 1]"}, Case{"lt", column, "3 < 3 is false at [1, 1]"},
        Case{"le", one, "3 <= 2 is false at [1, 1]"}, Case{"gt", one, "0 > 2 is false at [0, 0]"},
        Case{"ge", one, "0 >= 2 is false at [0, 0]"}, Case{"eq", one, "0 == 2 is false at [0, 0]"},
        Case{"ne", one, "2 != 2 is false at [0, 1]"}}) {
    const pto_tensor sides[] = {a.tensor, c.b.tensor};
    EXPECT_EQ(counterexample(c.comparison, sides), c.found) << c.comparison;
  }
}

TEST(Counterexample, goes_on_to_the_next_comparison_where_one_is_true_everywhere) {
  int32_t rows[] = {0, 2};
  int64_t zero = 0, two = 2;
  const Side a(DType::I32, rows, 1, 2);
  const pto_tensor low{&zero, nullptr, nullptr, 0, 0, 64, 1, 0, -1},
      high{&two, nullptr, nullptr, 0, 0, 64, 1, 0, -1};
  const pto_tensor sides[] = {a.tensor, low, a.tensor, high};
  EXPECT_EQ(counterexample("ge lt", sides), "2 < 2 is false at [0, 1]");
  EXPECT_EQ(counterexample("ge le", sides), "");
  const pto_tensor numbers[] = {high, low};
  EXPECT_EQ(counterexample("lt", numbers), "2 < 0 is false") << "numbers have no place";
  EXPECT_EQ(counterexample("", nullptr), "");
}

TEST(Counterexample, shows_elements_of_each_kind_as_they_are) {
  float reals[] = {0.1f, NAN};
  uint64_t large[] = {UINT64_MAX, 1};
  uint16_t halves[] = {0xc000, 0x3c00};  // -2, 1
  bool truths[] = {false, true};
  int64_t one[] = {1};
  const Side number(DType::I64, one, 1, 1);
  struct Case {
    Side a;
    const char *comparison, *found;
  };
  for (const Case& c :
       {Case{{DType::F32, reals, 1, 2}, "gt", "0.1 > 1 is false at [0, 0]"},
        Case{{DType::F32, reals, 1, 2}, "lt", "nan < 1 is false at [0, 1]"},
        Case{{DType::U64, large, 1, 2}, "eq", "18446744073709551615 == 1 is false at [0, 0]"},
        Case{{DType::F16, halves, 1, 2}, "ge", "-2 >= 1 is false at [0, 0]"},
        Case{{DType::Bool, truths, 1, 2}, "eq", "False == 1 is false at [0, 0]"}}) {
    pto_tensor a = c.a.tensor;
    a.sizes = c.a.sizes, a.strides = c.a.strides;
    const pto_tensor sides[] = {a, number.tensor};
    EXPECT_EQ(counterexample(c.comparison, sides), c.found);
  }
}

TEST(Counterexample, reads_nothing_of_sides_that_do_not_broadcast_or_have_no_elements) {
  int64_t rows[] = {1, 1, 1, 1, 1, 1}, zeros[] = {0, 0};
  const Side three(DType::I64, rows, 2, 3), two(DType::I64, zeros, 1, 2),
      none(DType::I64, rows, 0, 1);
  const pto_tensor sides[] = {three.tensor, two.tensor, none.tensor, two.tensor};
  EXPECT_EQ(counterexample("eq eq", sides), "");
}

}  // namespace pto::counterexample_test
