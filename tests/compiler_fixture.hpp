// SPDX-License-Identifier: Apache-2.0
// Compiler fixture: gives each test a fresh cache folder and default settings, and collects the
// warnings.
//
//     TEST_F(CompilerFixture, warns) { EXPECT_THAT(warnings_, testing::IsEmpty()); }
//
// Thread safety: the settings are the process's, so one test runs at a time.
#pragma once
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <vector>

#include "pto/base/file.hpp"
#include "pto/compiler/compile.hpp"
#include "pto/compiler/settings.hpp"

namespace pto {

class CompilerFixture : public testing::Test {
 protected:
  void SetUp() override {
    const auto tests = std::filesystem::absolute(__FILE__).parent_path();
    set_include_directory(tests.parent_path());
    set_cache_directory(cache());
    set_compiler("");
    set_warning_handler([this](const std::string& text) { warnings_.push_back(text); });
  }
  void TearDown() override {
    set_warning_handler(nullptr);
    set_cache_directory("");
    set_compiler("");
  }

  std::string cache() const { return folder_.path() + "/cache"; }
  std::string counter() const { return folder_.path() + "/count"; }
  // Returns the lines of two bytes in counter(), which compilers of tests write.
  size_t compilations() const { return read_file(counter()).value_or("").size() / 2; }

  // Writes an executable script.
  std::string script(const std::string& body) {
    const std::string path = folder_.path() + "/cxx" + std::to_string(scripts_++);
    write_file(path, "#!/bin/sh\n" + body);
    chmod(path.c_str(), 0755);
    return path;
  }

  std::vector<std::string> warnings_;
  WorkFolder folder_{temporary_directory(), "pto-test-"};

 private:
  int scripts_ = 0;
};

}  // namespace pto
