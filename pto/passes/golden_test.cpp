// SPDX-License-Identifier: Apache-2.0
// Goldens: tests/ir/*.ir hold a graph, "=== passes", and the result of the passes. With PTO_BLESS=1
// the test writes the result instead of comparing it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "pto/ir/parse.hpp"
#include "pto/ir/print.hpp"
#include "pto/passes/pipeline.hpp"

namespace pto::golden_test {

namespace fs = std::filesystem;

std::vector<fs::path> goldens() {
  const fs::path root = fs::absolute(__FILE__).parent_path().parent_path().parent_path();
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(root / "tests" / "ir"))
    if (entry.path().extension() == ".ir") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

std::string contents(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

Graph run_passes(Graph graph, const std::string& names) {
  std::istringstream list(names);
  for (std::string name; list >> name;) {
    const auto pass = std::find_if(kPipeline.begin(), kPipeline.end(),
                                   [&](const Pass& p) { return p.name == name; });
    if (pass == kPipeline.end()) throw std::invalid_argument("no pass " + name);
    graph = pass->run(graph, nullptr);
  }
  return graph;
}

class Golden : public ::testing::TestWithParam<fs::path> {};

TEST_P(Golden, is_what_the_passes_make) {
  const std::string text = contents(GetParam());
  const size_t mark = text.find("=== "), end = text.find('\n', mark);
  ASSERT_EQ(text.rfind("# ", 0), 0u) << "the first line is an English sentence";
  ASSERT_NE(end, text.npos) << "a line '=== passes' divides before and after";
  const std::string made =
      print(run_passes(parse(text.substr(0, mark)), text.substr(mark + 4, end - mark - 4)));
  const char* bless = std::getenv("PTO_BLESS");
  if (bless != nullptr && std::string(bless) == "1")
    std::ofstream(GetParam()) << text.substr(0, end + 1) << made;
  else
    EXPECT_EQ(text.substr(end + 1), made);
}

INSTANTIATE_TEST_SUITE_P(Passes, Golden, ::testing::ValuesIn(goldens()),
                         [](const auto& test) { return test.param.stem().string(); });

}  // namespace pto::golden_test
