// SPDX-License-Identifier: Apache-2.0
// Compiles and runs graphs: every stage, on this machine's target and the portable one.
#include "pto/compiler/compile.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <numeric>

#include "pto/base/file.hpp"
#include "pto/compiler/settings.hpp"
#include "pto/compiler/target.hpp"
#include "pto/launch/call.hpp"

namespace pto::compile_test {

namespace fs = std::filesystem;
const Dim s0 = Dim::symbol(0), s1 = Dim::symbol(1);

class Compile : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const fs::path tests = fs::absolute(__FILE__).parent_path();
    set_include_directory(tests.parent_path().parent_path());
    set_cache_directory(folder_.path() + "/cache");
  }
  void TearDown() override { set_cache_directory(""); }

  CompileOptions options() const {
    CompileOptions options;
    options.target = GetParam();
    return options;
  }

  WorkFolder folder_{temporary_directory(), "pto-test-"};
};

Graph softmax() {
  GraphBuilder b("softmax");
  const Value x = b.input("x", DType::F32, {s0, s1});
  const Value e = b.unary(Opcode::exp, b.binary(Opcode::sub, x, b.reduce(Opcode::amax, x, {1})));
  b.output(b.binary(Opcode::div, e, b.reduce(Opcode::sum, e, {1})));
  return b.build();
}

// Runs with one input and one output, both dense.
std::vector<float> run(const Program& program, std::vector<int64_t> sizes,
                       std::vector<float>& input) {
  std::vector<int64_t> strides(sizes.size());
  int64_t stride = 1;
  for (size_t axis = sizes.size(); axis-- > 0; stride *= sizes[axis]) strides[axis] = stride;
  const pto_tensor_ref arguments[] = {{input.data(), sizes.data(), strides.data(),
                                       static_cast<int32_t>(sizes.size()),
                                       static_cast<int32_t>(DType::F32)}};
  Call call(program, arguments, {});
  std::vector<float> output(static_cast<size_t>(call.output_bytes(0)) / 4);
  void* outputs[] = {output.data()};
  call.run(outputs);
  return output;
}

TEST_P(Compile, one_softmax_serves_all_sizes) {
  const auto program = compile(softmax(), options());
  for (const auto& [rows, columns] :
       std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {3, 7}, {5, 64}, {2, 1000}, {0, 4}}) {
    std::vector<float> x(static_cast<size_t>(rows * columns));
    std::iota(x.begin(), x.end(), -3.0f);
    const std::vector<float> y = run(*program, {rows, columns}, x);
    ASSERT_EQ(y.size(), x.size());
    for (int64_t r = 0; r < rows; ++r) {
      const float* row = x.data() + r * columns;
      double total = 0;
      for (int64_t c = 0; c < columns; ++c) total += std::exp(double{row[c]} - row[columns - 1]);
      for (int64_t c = 0; c < columns; ++c) {
        const double expected = std::exp(double{row[c]} - row[columns - 1]) / total;
        EXPECT_NEAR(y[static_cast<size_t>(r * columns + c)], expected, 1e-6 * expected + 1e-37);
      }
    }
  }
}

// y = x[:2], a program without a kernel.
Graph first_two() {
  GraphBuilder b("first_two");
  const Value x = b.input("x", DType::F32, {s0});
  b.set_location({"user.py", 3});
  b.output(b.view(x, {b.constant(int64_t(0), DType::I64)}, {2}));
  return b.build();
}

TEST_P(Compile, makes_a_program_of_steps) {
  const auto program = compile(first_two(), options());
  EXPECT_TRUE(program->spec().launches.at(0).is_program);
  std::vector<float> x{1, 2, 3}, one{1};
  EXPECT_EQ(run(*program, {3}, x), (std::vector<float>{1, 2}));
  EXPECT_THROW(run(*program, {1}, one), Error);
}

TEST_P(Compile, refuses_an_output_whose_size_is_data) {
  GraphBuilder b("g");
  const Value x = b.input("x", DType::F32, {s0}), n = b.input("n", DType::I64, {});
  b.set_location({"user.py", 4});
  b.size(n, s1);
  b.output(b.view(x, {b.constant(int64_t(0), DType::I64)}, {s1}));
  try {
    compile_or_interpret(b.build(), options());
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("user.py:4: g: an output has the shape [s1], and "
                                                 "s1 depends on data"));
  }
}

TEST_P(Compile, refuses_writes_into_what_the_graph_does_not_have) {
  for (const std::vector<int>& writes : {std::vector<int>{0, 0}, {1}, {-2}}) {
    CompileOptions wrong = options();
    wrong.writes = writes;
    EXPECT_THROW(compile(softmax(), wrong), Error);
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, Compile, testing::Values("", "portable"), [](const auto& test) {
  return *test.param == '\0' ? std::string("machine") : test.param;
});

TEST(Explain, shows_every_stage_and_compiles_nothing) {
  std::vector<std::string> stages;
  CompileOptions options;
  options.dump = [&stages](const std::string& stage, const std::string& text) {
    EXPECT_FALSE(text.empty());
    stages.push_back(stage);
  };
  set_compiler("/nonexistent");
  explain(softmax(), options);
  set_compiler("");
  EXPECT_THAT(stages, testing::Contains("fuse_regions"));
  EXPECT_EQ(stages.front(), "graph");
  EXPECT_EQ(stages.back(), "C++");
}

TEST(Explain, refuses_an_unknown_target) {
  CompileOptions options;
  options.target = "z80";
  EXPECT_THROW(explain(softmax(), options), Error);
}

TEST(Target, follows_the_environment_at_each_compilation) {
  const char* const value = std::getenv("PTO_TARGET");
  const std::string before = value == nullptr ? "" : value;
  const Target best = machine().best_target;
  setenv("PTO_TARGET", "portable", 1);
  EXPECT_EQ(named_target(""), Target::Portable);
  EXPECT_EQ(target_of({}), Target::Portable);
  EXPECT_EQ(named_target(std::string(name(best))), best);
  unsetenv("PTO_TARGET");
  EXPECT_EQ(target_of({}), best);
  if (value != nullptr) setenv("PTO_TARGET", before.c_str(), 1);
}

}  // namespace pto::compile_test
