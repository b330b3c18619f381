// SPDX-License-Identifier: Apache-2.0
// Other processes evict entries and clear the cache folder at any time: kernels compile again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "pto/base/file.hpp"
#include "pto/compiler/build.hpp"
#include "pto/compiler/cache.hpp"
#include "pto/compiler/load.hpp"
#include "pto/compiler/settings.hpp"
#include "tests/compiler_fixture.hpp"

namespace pto::cleared_cache_test {

namespace fs = std::filesystem;

class ClearedCache : public CompilerFixture {
 protected:
  // Makes a compiler that runs `command` in front of its first compilation, or behind it.
  void use_compiler(const std::string& before, const std::string& behind = "true") {
    set_compiler("");
    const std::string real = find_toolchain(settings()).path;
    set_compiler(script("case \"$*\" in *-shared*) ;; *) exec " + real +
                        " \"$@\";; esac\necho x >> " + counter() + "\nfirst=$(wc -l < " +
                        counter() + ")\n[ $first != 1 ] || " + before + "\n" + real +
                        " \"$@\"\nended=$?\n[ $first != 1 ] || " + behind + "\nexit $ended\n"));
  }
};

Source answer(int value) {
  return {
      "a",
      "extern \"C\" __attribute__((visibility(\"default\"))) int answer(const void*) { return " +
          std::to_string(value) + "; }\n"};
}
int answer_of(int value) { return load(answer(value), {})->function("answer")(nullptr); }

TEST_F(ClearedCache, a_compilation_whose_folder_is_removed_runs_again) {
  for (const std::string& removed : {cache() + "/*", cache() + "/work-*/*.cpp", cache()}) {
    fs::remove(counter());
    use_compiler("rm -rf " + removed);
    EXPECT_EQ(answer_of(3), 3) << removed;
    EXPECT_EQ(compilations(), 2u) << removed;
    fs::remove_all(cache());
  }
  EXPECT_THAT(warnings_, testing::IsEmpty());
}

TEST_F(ClearedCache, an_object_that_is_removed_is_made_again) {
  for (const std::string& removed : {cache() + "/*", cache()}) {
    fs::remove(counter());
    use_compiler("true", "rm -rf " + removed);
    EXPECT_EQ(answer_of(4), 4) << removed;
    EXPECT_TRUE(build_object(answer(4), {}) == read_file(Build(answer(4), settings()).path()));
    EXPECT_EQ(compilations(), 2u) << removed;
    fs::remove_all(cache());
  }
  EXPECT_THAT(warnings_, testing::IsEmpty());
}

TEST_F(ClearedCache, an_entry_that_is_removed_before_it_is_opened_is_made_again) {
  const Build build(answer(5), settings());
  int calls = 0;
  const std::string object = despite_removal([&] {
    const std::string path = build.run({});
    if (++calls == 1) Cache(cache()).sweep(0, /*now=*/true);
    const std::optional<std::string> content = read_file(path);
    if (!content) throw std::system_error(ENOENT, std::generic_category(), path);
    return *content;
  });
  EXPECT_EQ(calls, 2);
  EXPECT_TRUE(object == read_file(build.path()));
}

TEST_F(ClearedCache, a_folder_that_stays_unusable_is_an_error_in_the_end) {
  int calls = 0;
  const auto fails_with = [&calls](int code) {
    return [&calls, code]() -> int {
      ++calls;
      throw std::system_error(code, std::generic_category());
    };
  };
  EXPECT_THROW(despite_removal(fails_with(ENOENT)), std::system_error);
  EXPECT_EQ(calls, 4);
  EXPECT_THROW(despite_removal(fails_with(EACCES)), std::system_error);
  EXPECT_EQ(calls, 5) << "what is no removal is not tried again";
}

// Removes the files in the folder, some times with the folders in it, as `rm -rf` and tools do that
// clean temporary folders. Its pauses are of many lengths, so that it meets each step of a load.
[[noreturn]] void clear_in_a_loop(const std::string& folder) {
  std::error_code ignored;
  for (unsigned round = 0;; ++round) {
    using Files = fs::recursive_directory_iterator;
    for (Files at(folder, ignored), end; at != end; at.increment(ignored))
      if (at->is_regular_file(ignored)) fs::remove(at->path(), ignored);
    if (round % 4 == 0) fs::remove_all(folder, ignored);
    usleep(round * 7919 % 150 * 1000);
  }
}

struct Clearer {
  explicit Clearer(const std::string& folder) : child(fork()) {
    if (child == 0) clear_in_a_loop(folder);
  }
  ~Clearer() {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
  pid_t child;
};

TEST_F(ClearedCache, loads_beside_a_process_that_clears_the_folder_in_a_loop) {
  const Clearer clearer(cache());
  for (int round = 0; round < 12; ++round) {
    EXPECT_EQ(answer_of(round % 4), round % 4);
    EXPECT_FALSE(build_object(answer(round % 4), {}).empty());
  }
}

}  // namespace pto::cleared_cache_test
