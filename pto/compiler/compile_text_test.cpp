// SPDX-License-Identifier: Apache-2.0
// compile_text() and load_text(): kernels and orchestrations that users write.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "pto/base/file.hpp"
#include "pto/compiler/compile.hpp"
#include "pto/compiler/load.hpp"
#include "pto/compiler/settings.hpp"
#include "pto/runtime.h"

namespace pto::compile_text_test {

using testing::AllOf;
using testing::HasSubstr;

class Text : public testing::Test {
 protected:
  void SetUp() override {
    const auto tests = std::filesystem::absolute(__FILE__).parent_path();
    set_include_directory(tests.parent_path().parent_path());
    set_cache_directory(folder_.path() + "/cache");
  }
  void TearDown() override { set_cache_directory(""); }

  template <class Action>
  static std::string error_of(Action action) {
    try {
      action();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  WorkFolder folder_{temporary_directory(), "pto-test-"};
};

TEST_F(Text, with_the_standard_library_runs_and_names_what_is_missing) {
  const std::string text =
      "#include <vector>\nint32_t twice(const pto_args* a) {\n"
      "  std::vector<int> v(2, a->n_tensors);\n  return v[0] + v[1];\n}\n";
  const CompiledText compiled = compile_text("my kernel", text, {"twice"});
  pto_args args{};
  args.n_tensors = 21;
  EXPECT_EQ(compiled.functions[0](&args), 42);
  EXPECT_THAT(
      error_of([&] { compile_text("k", "int32_t f(const pto_args*) { return x; }", {"f"}); }),
      AllOf(HasSubstr("k.cpp:1:"), HasSubstr("not declared"), HasSubstr("correct the text")));
  EXPECT_THAT(error_of([&] { compile_text("k", "", {"f"}); }),
              HasSubstr("exports no function \"f\""));
  CompileOptions unknown;
  unknown.target = "mmx";
  EXPECT_THAT(error_of([&] { compile_text("k", "", {}, unknown); }),
              HasSubstr("\"mmx\" is unknown"));
}

TEST_F(Text, may_export_a_kernel_under_its_own_name_and_travel_as_an_object) {
  const std::string text =
      "#include <pto/pto-inst.hpp>\nusing namespace pto;\n"
      "__global__ __aicore__ void put(__gm__ int64_t* out, int64_t value) { *out = value + 1; }\n"
      "// PTO_KERNEL" +
      std::string(300'000, ' ') +
      "(puts, puts)\n"
      "PTO_KERNEL\t(\n  put , put)\n";
  const CompiledText compiled = compile_text("put", text, {"put"});
  const CompiledText loaded = load_text("put again", compiled.library->object(), {"put"});
  for (const CompiledText& one : {compiled, loaded}) {
    int64_t out = 0;
    const int64_t size = 1, stride = 1;
    pto_tensor tensor{&out, &size, &stride, 1, 0, 64, 1, PTO_TENSOR_CONTIGUOUS, 8};
    const uint64_t scalar = 41;
    pto_args args{};
    args.abi_version = PTO_ABI_VERSION;
    args.n_tensors = args.n_scalars = 1;
    args.tensors = &tensor;
    args.scalars = &scalar;
    ASSERT_EQ(pto_launch(one.functions[0], &args, 1), 0) << pto_last_error();
    EXPECT_EQ(out, 42);
  }
  EXPECT_THAT(error_of([&] { load_text("k", "no object", {"put"}); }),
              HasSubstr("cannot be loaded"));
}

TEST_F(Text, of_an_orchestration_submits_tasks) {
  const std::string text =
      "#include <pto/runtime.h>\n"
      "extern \"C\" int32_t go(const pto_runtime_api* rt, const pto_args* a) {\n"
      "  pto::Orchestration o(rt, a);\n  return o.input(0).rank() + int(o.integer(0));\n}\n";
  const CompiledText compiled =
      compile_text("go", text, {"go"}, CompileOptions(), TextForm::Orchestration);
  const auto go = reinterpret_cast<int32_t (*)(const pto_runtime_api*, const pto_args*)>(
      reinterpret_cast<void (*)()>(compiled.functions[0]));
  pto_runtime_api api{};
  api.abi_version = 99;
  EXPECT_ANY_THROW(go(&api, nullptr));
}

TEST_F(Text, in_the_public_form_becomes_a_kernel) {
  const std::string text =
      "#include <pto/pto-inst.hpp>\n__global__ __aicore__ void kernel_entry(__gm__ int64_t* args) "
      "{\n  *reinterpret_cast<int64_t*>(args[0]) = args[1] + 1;\n}\n";
  const CompiledText compiled = compile_text("entry", text, {"kernel_entry"});
  int64_t out = 0;
  pto_tensor tensor{};
  tensor.data = &out;
  const uint64_t scalar = 41;
  pto_args args{};
  args.abi_version = PTO_ABI_VERSION;
  args.n_tensors = args.n_scalars = 1;
  args.tensors = &tensor;
  args.scalars = &scalar;
  EXPECT_EQ(pto_launch(compiled.functions[0], &args, 1), 0) << pto_last_error();
  EXPECT_EQ(out, 42);
}

TEST_F(Text, without_the_public_form_names_it) {
  const std::string other = "int32_t other(const pto_args*) { return 0; }\n";
  EXPECT_THAT(error_of([&] { compile_text("k", other, {"kernel_entry"}); }),
              AllOf(HasSubstr("k: the compiled kernel exports no function \"kernel_entry\""),
                    HasSubstr("public form extern \"C\" void kernel_entry(int64_t*)"),
                    HasSubstr("fix: define kernel_entry in the text")));
  const std::string wrong = "extern \"C\" int32_t kernel_entry(const pto_args*) { return 0; }\n";
  EXPECT_THAT(error_of([&] { compile_text("k", wrong, {"kernel_entry"}); }),
              AllOf(HasSubstr("k.cpp:1:"), HasSubstr("kernel_entry")));
}

}  // namespace pto::compile_text_test
