// SPDX-License-Identifier: Apache-2.0
#include "pto/tasks/processes/worker/collectives.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "pto/base/error.hpp"

namespace pto::collectives_test {

using testing::HasSubstr;

using Numbers = std::span<const uint64_t>;

struct Array {  // of floats, rows x columns with a stride of its own
  std::vector<float> values;
  int64_t sizes[2], strides[2];
  pto_tensor tensor() {
    pto_tensor t{};
    t.data = values.data();
    t.sizes = sizes;
    t.strides = strides;
    t.rank = 2;
    t.type_code = 2;
    t.type_bits = 32;
    return t;
  }
  float& at(int64_t i, int64_t j) { return values[size_t(i * strides[0] + j * strides[1])]; }
};

Array array(int64_t rows, int64_t columns, int64_t gap, bool is_transposed, unsigned seed) {
  Array made{{}, {rows, columns}, {columns + gap, 1}};
  if (is_transposed) made.strides[0] = 1, made.strides[1] = rows + gap;
  made.values.resize(size_t((rows + gap) * (columns + gap)) + 1);
  std::mt19937 random(seed);
  for (float& value : made.values) value = float(int(random() % 100) - 50);
  return made;
}

TEST(Collectives, equal_loops_over_the_elements_for_any_strides) {
  for (const char* name : {"copy", "sum", "product", "min", "max"})
    for (int n : {1, 2, 4})
      for (bool is_transposed : {false, true})
        for (int64_t columns : {int64_t(0), int64_t(1), int64_t(7), int64_t(300)}) {
          if (std::string(name) == "copy" && n > 1) continue;
          Array out = array(3, columns, 2, is_transposed, 99);
          std::vector<Array> in;
          for (int k = 0; k < n; ++k) in.push_back(array(3, columns, k, k % 2 == 1, unsigned(k)));
          std::vector<pto_tensor> tensors{out.tensor()};
          for (Array& one : in) tensors.push_back(one.tensor());
          const std::vector<float> before = out.values;
          collective_of(name)(tensors, Numbers());
          size_t changed = 0;
          for (int64_t i = 0; i < 3; ++i)
            for (int64_t j = 0; j < columns; ++j) {
              float expected = in[0].at(i, j);
              for (int k = 1; k < n; ++k) {
                const float b = in[size_t(k)].at(i, j);
                const std::string op = name;
                expected = op == "sum"       ? expected + b
                           : op == "product" ? expected * b
                           : op == "min"     ? std::fmin(expected, b)
                                             : std::fmax(expected, b);
              }
              ASSERT_EQ(out.at(i, j), expected) << name << " " << n << " " << columns;
              out.at(i, j) = before[size_t(&out.at(i, j) - out.values.data())];
              ++changed;
            }
          EXPECT_EQ(out.values, before) << "nothing between the rows is written";
          EXPECT_EQ(changed, size_t(3 * columns));
        }
}

TEST(Collectives, take_sources_as_they_were_where_the_first_tensor_overlaps_them) {
  for (const char* name : {"copy", "sum"})
    for (bool is_transposed : {false, true}) {
      Array all = array(8, 8, 0, false, 5);
      const std::vector<float> before = all.values;
      const int64_t sizes[] = {7, 7}, turned[] = {1, 8}, offset = is_transposed ? 0 : 8;
      pto_tensor to = all.tensor(), from = to;
      to.sizes = from.sizes = sizes;
      to.data = all.values.data() + offset;
      if (is_transposed) to.strides = turned;
      collective_of(name)(std::vector<pto_tensor>{to, from}, Numbers());
      for (int64_t i = 0; i < 7; ++i)
        for (int64_t j = 0; j < 7; ++j)
          ASSERT_EQ(all.values[size_t(offset + i * to.strides[0] + j * to.strides[1])],
                    before[size_t(i * 8 + j)])
              << name << " " << is_transposed << " " << i << " " << j;
    }
}

TEST(Collectives, nan_propagates_through_min_and_max) {
  Array out = array(1, 2, 0, false, 0), a = array(1, 2, 0, false, 1), b = array(1, 2, 0, false, 2);
  a.at(0, 0) = NAN;
  b.at(0, 1) = NAN;
  for (const char* name : {"min", "max"}) {
    const std::vector<pto_tensor> tensors{out.tensor(), a.tensor(), b.tensor()};
    collective_of(name)(tensors, Numbers());
    EXPECT_TRUE(std::isnan(out.at(0, 0)) && std::isnan(out.at(0, 1))) << name;
  }
}

template <class T>
T reduced(const char* name, uint8_t code, T a, T b) {
  T values[] = {T(0), a, b};
  std::vector<pto_tensor> tensors(3);
  for (size_t i = 0; i < 3; ++i) {
    tensors[i].data = values + i;
    tensors[i].type_code = code;
    tensors[i].type_bits = sizeof(T) * 8;
  }
  collective_of(name)(tensors, Numbers());
  return values[0];
}

TEST(Collectives, integers_wrap_around) {
  EXPECT_EQ(reduced<int64_t>("sum", 0, INT64_MAX, 2), INT64_MIN + 1);
  EXPECT_EQ(reduced<int32_t>("sum", 0, INT32_MIN, -1), INT32_MAX);
  EXPECT_EQ(reduced<int8_t>("sum", 0, 127, 2), -127);
  EXPECT_EQ(reduced<int64_t>("product", 0, INT64_MAX, 2), -2);
  EXPECT_EQ(reduced<int32_t>("product", 0, INT32_MIN, -1), INT32_MIN);
  EXPECT_EQ(reduced<uint16_t>("product", 1, 65535, 65535), 1);
}

TEST(Collectives, refuse_what_does_not_fit) {
  Array a = array(2, 3, 0, false, 0), b = array(3, 2, 0, false, 0);
  const std::vector<pto_tensor> different{a.tensor(), b.tensor()};
  const std::vector<pto_tensor> one{a.tensor()};
  const std::vector<uint64_t> number{1};
  const auto text_of = [](const auto& call) -> std::string {
    try {
      call();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(text_of([&] { collective_of("sum")(different, Numbers()); }),
              HasSubstr("f32[2, 3] and f32[3, 2]"));
  EXPECT_THAT(text_of([&] { collective_of("copy")(one, Numbers()); }),
              HasSubstr("too few tensors: 1"));
  EXPECT_THAT(text_of([&] { collective_of("add")(one, number); }), HasSubstr("a signal f32"));
  EXPECT_THAT(text_of([&] { collective_of("mean"); }), HasSubstr("use one of copy sum"));
}

}  // namespace pto::collectives_test
