// SPDX-License-Identifier: Apache-2.0
#include "pto/tasks/cores/task.hpp"

#include <gtest/gtest.h>

#include <bit>

#include "pto/base/error.hpp"
#include "pto/isa/element/numeric.hpp"

namespace pto::task_test {

TEST(TaskKernel, takes_numbers_as_its_exported_parameters_say) {
  const pto_kernel kernel = [](const pto_args*) { return 0; };
  const pto_parameter parameters[] = {{1, 0, 2, 32}, {0, 0, 2, 32}, {0, 0, 0, 64}};
  const pto_signature signature{"k", parameters, 3};
  pto_export_kernel(kernel, &signature);
  const TaskKernel known = exported_kernel(kernel, "k");
  pto_export_kernel(kernel, nullptr);
  ASSERT_EQ(known.numbers.size(), 2u);
  const ScalarNumber one{1, PTO_NUMBER_SIGNED}, four{std::bit_cast<uint64_t>(4.0), PTO_NUMBER_REAL};
  EXPECT_EQ(std::bit_cast<double>(known.slot(0, one)), 1.0);
  EXPECT_THROW(known.slot(1, four), Error);
  EXPECT_EQ(known.slot(2, four), four.bits);  // too many, which the kernel refuses
}

using isa::bfloat16_t, isa::half;

template <class T>
void expect_one(uint8_t code, uint8_t bits) {
  const T one(1);
  const auto is_true = [&](Compare compare, double value) {
    return holds({&one, code, bits, compare, value});
  };
  EXPECT_TRUE(is_true(Compare::Equal, 1) && is_true(Compare::Greater, 0.5)) << int(bits);
  EXPECT_TRUE(is_true(Compare::LessEqual, 1) && !is_true(Compare::GreaterEqual, 1.5)) << int(bits);
  EXPECT_FALSE(is_true(Compare::NotEqual, 1) || is_true(Compare::Less, 1)) << int(bits);
}

TEST(Predicate, compares_the_number_that_an_element_of_any_type_is) {
#define PTO_DTYPE(id, constant, name, code, bits, type, ...) expect_one<type>(code, bits);
#include "pto/abi/dtypes.def"
}

TEST(Predicate, compares_integers_that_no_double_holds) {
  const int64_t near = (int64_t{1} << 53) + 1, least = INT64_MIN + 1;
  const uint64_t most = UINT64_MAX;
  const auto holds_i64 = [](const int64_t& one, Compare compare, double value) {
    return holds({&one, 0, 64, compare, value});
  };
  EXPECT_FALSE(holds_i64(near, Compare::Equal, 0x1p53));
  EXPECT_TRUE(holds_i64(near, Compare::Greater, 0x1p53));
  EXPECT_TRUE(holds_i64(least, Compare::NotEqual, -0x1p63));
  EXPECT_TRUE(holds({&most, 1, 64, Compare::Less, 0x1p64}));
}

}  // namespace pto::task_test
