// SPDX-License-Identifier: Apache-2.0
#include "pto/base/file.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

namespace pto::file_test {

TEST(Files, are_replaced_beside_those_of_processes_with_the_same_number) {
  const WorkFolder folder(temporary_directory(), "file-test-");
  const std::string path = folder.path() + "/a.txt";
  const auto other = [&](int i) {
    return path + "." + std::to_string(getpid()) + "-" + std::to_string(i) + ".tmp";
  };
  for (int i = 0; i < 100; ++i) write_file(other(i), "half a");
  ASSERT_TRUE(replace_file(path, "whole"));
  EXPECT_EQ(*read_file(path), "whole");
  for (int i = 0; i < 100; ++i) EXPECT_EQ(read_file(other(i)).value_or(""), "half a") << i;
}

TEST(Files, are_not_replaced_where_their_folder_is_gone) {
  EXPECT_FALSE(replace_file("/nonexistent/a.txt", "whole"));
}

}  // namespace pto::file_test
