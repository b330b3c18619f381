// SPDX-License-Identifier: Apache-2.0
// Units of a text, which are compiled side by side; and how few functions a long chain has.
#include "pto/compiler/units.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "pto/base/file.hpp"
#include "pto/codegen/emit.hpp"
#include "pto/compiler/compile_units.hpp"
#include "pto/passes/pipeline.hpp"

namespace pto::units_test {

namespace fs = std::filesystem;

// A text of functions f0, f1 ..., each of so many lines, and one that calls them.
std::string text_of(int functions, int lines, bool has_error = false) {
  std::string text(kProgramInclude), calls;
  for (int i = 0; i < functions; ++i) {
    const std::string name = "f" + std::to_string(i);
    text += "\nstatic int32_t " + name + "(int32_t x) {\n";
    for (int k = 0; k < lines; ++k) text += "  x = x * 3 + " + std::to_string(i + k) + ";\n";
    text += "  return x;\n}\n";
    calls += "  x += " + name + "(x);\n";
  }
  return text + "\nextern \"C\" PTO_EXPORT int32_t all(int32_t x) {\n" + calls +
         (has_error ? "  x += unknown;\n" : "") + "  return x;\n}\n";
}

TEST(Units, have_each_function_once_and_the_largest_come_first) {
  const std::string text = text_of(12, 200);
  const std::vector<Unit> units = units_of(text, 3);
  ASSERT_EQ(units.size(), 3u);
  for (int i = 0; i < 12; ++i) {
    int found = 0;
    for (const Unit& unit : units)
      found +=
          unit.text.find("int32_t f" + std::to_string(i) + "(int32_t x) {") != std::string::npos;
    EXPECT_EQ(found, 1) << i;
  }
  for (const Unit& unit : units) {
    EXPECT_NE(unit.text.find(kProgramInclude), std::string::npos);
    EXPECT_NE(unit.text.find("\nint32_t f11(int32_t x);\n"), std::string::npos);
    EXPECT_GE(units[0].text.size(), unit.text.size());
  }
}

TEST(Units, are_one_where_a_text_is_short_or_has_one_core) {
  const std::string text = text_of(12, 10), more = text_of(12, 200);
  for (const auto& units : {units_of(text, 8), units_of(more, 1), units_of("// nothing\n", 8)})
    EXPECT_EQ(units.size(), 1u);
  EXPECT_EQ(units_of(text, 8)[0].text, text);
}

TEST(Units, a_long_function_of_a_program_is_one_of_its_own_on_any_number_of_cores) {
  std::string text = text_of(2, 10);
  const std::string call = "  x += f0(x);\n", frame = "  const Frame frame{args, arena, true};\n";
  EXPECT_EQ(units_of(text + frame, 1).size(), 1u);
  for (int i = 0; i < 400; ++i) text += call;
  const std::vector<Unit> units = units_of(text + frame, 1);
  ASSERT_EQ(units.size(), 2u);
  EXPECT_TRUE(units[0].is_root);
  EXPECT_FALSE(units[1].is_root);
}

class CompiledUnits : public testing::Test {
 protected:
  bool compile(const std::string& text, int most) {
    const fs::path tests = fs::absolute(__FILE__).parent_path();
    set_include_directory(tests.parent_path().parent_path());
    const Source source{"units", text};
    const std::vector<Unit> units = units_of(text, most);
    return compile_units(units, static_cast<int>(units.size()), find_toolchain(settings()), source,
                         folder_.path(), object(), settings(), [this] { return is_stopped_; });
  }
  std::string object() const { return folder_.path() + "/units.so"; }

  WorkFolder folder_{temporary_directory(), "pto-test-"};
  bool is_stopped_ = false;
};

TEST_F(CompiledUnits, become_one_library) {
  ASSERT_TRUE(compile(text_of(12, 200), 3));
  EXPECT_TRUE(std::filesystem::exists(object()));
}

TEST_F(CompiledUnits, fail_together) {
  EXPECT_FALSE(compile(text_of(12, 200, /*has_error=*/true), 3));
  EXPECT_FALSE(std::filesystem::exists(object()));
}

TEST_F(CompiledUnits, are_interrupted_together) {
  is_stopped_ = true;
  EXPECT_THROW(compile(text_of(12, 200), 3), Interrupted);
}

// Two files of an extension that clash where the compiler takes them as one.
class ExtensionFiles : public testing::Test {
 protected:
  std::string library(const std::string& of_second, bool is_apart) {
    Source source{"files", ""};
    source.kind = Source::Extension;
    source.is_apart = is_apart;
    const std::string first = folder_.path() + "/first.cpp",
                      second = folder_.path() + "/second.cpp";
    write_file(first, "static int part() { return 3; }\nint first() { return part(); }\n");
    write_file(second, "int first();\n" + of_second);
    source.files = {first, second};
    return compile_object(find_toolchain(settings()), source, folder_.path(), settings(), {});
  }

  WorkFolder folder_{temporary_directory(), "pto-test-"};
};

TEST_F(ExtensionFiles, compile_apart_into_one_library) {
  const std::string sum =
      "static int part() { return 4; }\n"
      "extern \"C\" int sum() { return first() + part(); }\n";
  EXPECT_THROW(library(sum, false), Error);
  void* const handle = dlopen(library(sum, true).c_str(), RTLD_NOW);
  ASSERT_NE(handle, nullptr) << dlerror();
  EXPECT_EQ(reinterpret_cast<int (*)()>(dlsym(handle, "sum"))(), 7);
  dlclose(handle);
}

TEST_F(ExtensionFiles, tell_the_compilers_error) {
  try {
    library("int sum() { return lost; }\n", true);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(error.text().what.find("second.cpp:2"), std::string::npos) << error.text().what;
  }
}

int count(const std::string& text, const std::string& word) {
  int found = 0;
  for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) ++found;
  return found;
}

// Rounds of x + tanh(x - mean(x)), or with erf.
std::string text_of_chain(int rounds, Opcode op) {
  GraphBuilder b("chain");
  Value x = b.input("x", DType::F32, {Dim::symbol(0), Dim::symbol(1)});
  for (int i = 0; i < rounds; ++i) {
    const Value sum = b.reduce(Opcode::sum, x, {1});
    x = b.binary(Opcode::add, x, b.unary(op, b.binary(Opcode::sub, x, sum)));
  }
  b.output(x);
  return emit(run_pipeline(b.build(), {}), {}).text;
}

TEST(LongChains, sweeps_of_a_long_chain_are_a_few_functions) {
  const std::string few = text_of_chain(3, Opcode::tanh), many = text_of_chain(40, Opcode::tanh);
  EXPECT_EQ(count(few, "\nstatic "), 0);
  EXPECT_EQ(count(many, "\nstatic "), 5) << many;
  EXPECT_EQ(count(many, "for_each_tile"), 5);
}

TEST(LongChains, sweeps_that_share_tables_stay_in_one_function) {
  EXPECT_EQ(count(text_of_chain(40, Opcode::erf), "\nstatic "), 0);
}

}  // namespace pto::units_test
