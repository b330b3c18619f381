// SPDX-License-Identifier: Apache-2.0
// The parsed header of kernels: it changes no byte of them, and nothing hinders where it is bad.
#include "pto/compiler/parsed_header.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "pto/base/file.hpp"
#include "pto/codegen/emit.hpp"
#include "pto/compiler/load.hpp"
#include "pto/ir/random_graph.hpp"
#include "pto/passes/pipeline.hpp"
#include "tests/deep.hpp"

namespace pto::parsed_header_test {

namespace fs = std::filesystem;

// A source whose function returns the value.
Source answer(int value, std::string_view include = kKernelInclude) {
  return {"answer", std::string(include) +
                        "extern \"C\" PTO_EXPORT int32_t answer(const pto_args*) { return " +
                        std::to_string(value) + "; }\n"};
}

// A text by hand whose function returns the value, with these lines in front of all instructions.
Source by_hand(const std::string& value, const std::string& front = "#include <algorithm>\n") {
  const std::string text = front + "#include \"pto/pto-inst.hpp\"\n" +
                           "extern \"C\" __attribute__((visibility(\"default\"))) int32_t "
                           "answer(const pto_args*) { return " +
                           value + "; }\n";
  return {"answer", text, Target::Portable, Source::Hosted};
}

// All tests share one folder, where the first four kernels found no header.
class Header : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const fs::path tests = fs::absolute(__FILE__).parent_path();
    set_include_directory(tests.parent_path().parent_path());
    folder_ = new WorkFolder(temporary_directory(), "pto-test-");
    for (int value = 0; value < 4; ++value) object_in("a", answer(value));
    was_early_ = !header().empty();
    object_in("a", answer(4));
  }
  static void TearDownTestSuite() { delete folder_; }
  void SetUp() override {
    if (find_toolchain(settings()).family != Toolchain::Gcc) GTEST_SKIP() << "of g++ alone";
  }

  // Returns the object that the source becomes in the folder.
  static std::string object_in(const std::string& folder, const Source& source) {
    return load(source, {}, folder_->path() + "/" + folder)->object();
  }

  // Returns the paths of the headers in a folder.
  static std::vector<std::string> headers(const std::string& folder) {
    std::vector<std::string> paths;
    for (const auto& item : fs::directory_iterator(folder_->path() + "/" + folder))
      if (item.path().extension() == ".gch") paths.push_back(item.path());
    return paths;
  }

  // Returns the path of the header in the folder "a", or "".
  static std::string header() {
    const std::vector<std::string> paths = headers("a");
    return paths.empty() ? "" : paths[0];
  }

  static inline WorkFolder* folder_ = nullptr;
  static inline bool was_early_ = false;
};

TEST_F(Header, is_made_beside_the_fifth_kernel) {
  EXPECT_FALSE(was_early_);
  EXPECT_NE(header(), "");
}

TEST_F(Header, changes_no_byte_of_a_kernel) {
  for (uint64_t seed = 0; seed < (is_deep() ? 100 : 3); ++seed) {
    const Emitted emitted = emit(run_pipeline(random_graph(seed), {}), {});
    const Source source{"random", emitted.text};
    const std::string plain = "without" + std::to_string(seed);
    EXPECT_TRUE(object_in("a", source) == object_in(plain, source)) << emitted.text;
  }
}

TEST_F(Header, of_programs_is_another_one) {
  for (int value = 0; value < 4; ++value) object_in("p", answer(value));
  object_in("p", answer(4, kProgramInclude));
  ASSERT_EQ(headers("p").size(), 1);
  EXPECT_GT(fs::file_size(headers("p")[0]), fs::file_size(header()));

  const Source program = answer(5, kProgramInclude);
  EXPECT_TRUE(object_in("p", program) == object_in("q", program));
  EXPECT_EQ(headers("p").size(), 1) << "the compiler could use it";
  object_in("p", answer(6));
  EXPECT_EQ(headers("p").size(), 2) << "kernels use their own";
}

TEST_F(Header, of_texts_by_hand_is_not_made_since_many_kernels_were_generated) {
  for (int value = 0; value < 5; ++value) object_in("many", answer(value));
  const size_t before = headers("many").size();
  object_in("many", by_hand("1"));
  EXPECT_EQ(headers("many").size(), before);
}

TEST_F(Header, of_texts_by_hand_is_another_one_for_those_that_change_no_instruction) {
  for (const char* value : {"0", "1", "2", "3"}) object_in("h", by_hand(value));
  ASSERT_EQ(headers("h").size(), 0) << "of four kernels";
  object_in("h", by_hand("std::max(1, 4)"));
  ASSERT_EQ(headers("h").size(), 1);
  const Source text = by_hand("std::max(1, 5)");
  EXPECT_TRUE(object_in("h", text) == object_in("i", text));
  EXPECT_THROW(object_in("h", by_hand("unknown")), Error);
  ASSERT_EQ(headers("h").size(), 1) << "the text had an error";

  const std::string path = headers("h")[0], garbage = folder_->path() + "/garbage";
  write_file(garbage, std::string(100000, 'x'));
  Cache(folder_->path() + "/h").insert(fs::path(path).stem(), garbage, ".gch");
  for (const std::string front :
       {"#define PTO_CHECKED\n", "/* */\n", "#define PTO_TYPE_0 \\\n  float\n"})
    object_in("h", by_hand("6", front));
  EXPECT_TRUE(fs::exists(path)) << "no compiler was given it";
  object_in("h", by_hand("7", "// Seven.\n#line 1 \"seven.cpp\"\n#define PTO_TYPE_0 float\n"));
  EXPECT_FALSE(fs::exists(path)) << "its compiler was, and could not use it";
}

TEST_F(Header, is_not_used_where_it_is_damaged_or_others_can_write_it) {
  const std::string path = header(), whole = *read_file(path);
  int value = 100;
  const auto compiles = [&] {
    const Source source = answer(++value);
    EXPECT_TRUE(object_in("a", source) == object_in("b" + std::to_string(value), source));
  };
  std::string changed = whole;
  changed[whole.size() / 2] ^= 1;
  for (const std::string& damaged : {whole.substr(0, whole.size() / 2), changed, std::string()}) {
    ASSERT_TRUE(replace_file(path, damaged));
    compiles();
    EXPECT_EQ(read_file(path), damaged) << "the compiler was not asked, so nothing was removed";
  }
  ASSERT_TRUE(replace_file(path, whole));
  chmod(path.c_str(), 0666);
  compiles();
  ASSERT_TRUE(replace_file(path, whole));
}

TEST_F(Header, is_removed_where_the_compiler_cannot_use_it) {
  const std::string path = header(), whole = *read_file(path), garbage = folder_->path() + "/g";
  write_file(garbage, std::string(100000, 'x'));
  Cache(folder_->path() + "/a").insert(fs::path(path).stem(), garbage, ".gch");
  object_in("a", answer(200));
  EXPECT_FALSE(fs::exists(path));
  ASSERT_TRUE(replace_file(path, whole));
}

}  // namespace pto::parsed_header_test
