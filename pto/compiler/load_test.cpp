// SPDX-License-Identifier: Apache-2.0
// Toolchain, cache and loading, on real files and with compilers that misbehave.
#include "pto/compiler/load.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <set>
#include <thread>

#include "pto/base/file.hpp"
#include "pto/base/machine.hpp"
#include "pto/compiler/build.hpp"
#include "pto/compiler/cache.hpp"
#include "pto/compiler/compile.hpp"
#include "pto/compiler/settings.hpp"
#include "tests/compiler_fixture.hpp"

namespace pto::load_test {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class Compiler : public CompilerFixture {
 protected:
  // Makes a compiler that writes a line for each object that it makes.
  std::string counting_compiler() {
    const std::string real = find_toolchain(settings()).path;
    return script("case \"$*\" in *-shared*) echo x >> " + counter() + ";; esac\nexec " + real +
                  " \"$@\"\n");
  }

  // Makes a compiler that answers for its version and then does `body`.
  std::string failing_compiler(const std::string& body) {
    return script("case \" $* \" in *' -dM '*) echo '#define __GNUC__ 13'; exit 0;; esac\n" + body +
                  "\n");
  }

  std::vector<std::string> files(const std::string& folder) const {
    std::vector<std::string> names;
    std::error_code none;
    for (const auto& item : fs::directory_iterator(folder, none)) {
      const std::string name = item.path().filename();
      const bool note = name.rfind("compiler-", 0) == 0 || name.rfind("toolchain-", 0) == 0 ||
                        name == "swept.txt";
      if (!note) names.push_back(name);
    }
    return names;
  }
};

std::string answer(int value) {
  return "extern \"C\" __attribute__((visibility(\"default\"))) int answer(const void*) { return " +
         std::to_string(value) + "; }\n";
}

int answer_of(const Source& source) { return load(source, {})->function("answer")(nullptr); }

template <class Action>
std::string error_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::string load_error(int value) {
  return error_of([value] { load({"bad", answer(value)}, {}); });
}

TEST_F(Compiler, compiles_once_and_then_loads_from_the_cache) {
  set_compiler(counting_compiler());
  EXPECT_EQ(answer_of({"a", answer(42)}), 42);
  EXPECT_EQ(answer_of({"a", answer(42)}), 42);
  EXPECT_EQ(compilations(), 1u);
  EXPECT_EQ(answer_of({"a", answer(43)}), 43);
  EXPECT_EQ(compilations(), 2u);
  EXPECT_EQ(files(cache()).size(), 2u);
}

TEST_F(Compiler, equal_sources_share_one_library_while_it_lives) {
  const auto first = load({"a", answer(1)}, {});
  EXPECT_EQ(load({"a", answer(1)}, {}), first);
}

TEST_F(Compiler, numbers_that_end_in_zeros_keep_them) {
  const std::string text =
      "extern \"C\" __attribute__((visibility(\"default\"))) int copy(long* to) {\n"
      "  const long sizes[5] = {8, 8, 0, 0, 5};\n"
      "  __builtin_memcpy(to, sizes, sizeof(sizes));\n"
      "  return 0;\n}\n";
  std::array<long, 5> sizes = {};
  const auto library = load({"sizes", text, machine().best_target}, {});
  library->function("copy")(reinterpret_cast<const pto_args*>(sizes.data()));
  EXPECT_THAT(sizes, testing::ElementsAre(8, 8, 0, 0, 5));
}

TEST_F(Compiler, the_key_covers_text_target_flags_headers_and_compiler) {
  Toolchain toolchain = find_toolchain(settings());
  const std::string include = settings().include_directory;
  const Source source{"a", "text"};
  std::set<std::string> keys{source_digest(source, toolchain, include)};
  keys.insert(source_digest({"a", "other"}, toolchain, include));
  keys.insert(source_digest({"a", "text", Target::Avx2}, toolchain, include));
  keys.insert(source_digest({"a", "text", Target::Portable, Source::Hosted}, toolchain, include));
  size_t headers = 0;
  for (const char* header : {"runtime.h", "abi/host.h", "base/dtype.hpp", "isa/tile/tile.hpp",
                             "operators/define.hpp", "tasks/orchestration/view.h"}) {
    for (const char* text : {"1", "2"}) {
      const std::string root = folder_.path() + "/" + std::to_string(++headers);
      const fs::path file = root + "/pto/" + header;
      fs::create_directories(file.parent_path());
      write_file(file.string(), text);
      keys.insert(source_digest(source, toolchain, root));
    }
  }
  toolchain.identity += "'";
  keys.insert(source_digest(source, toolchain, include));
  EXPECT_EQ(keys.size(), 5u + headers);
  EXPECT_EQ(source_digest(source, find_toolchain(settings()), include).size(), 64u);
}

TEST_F(Compiler, rebuilds_an_entry_that_is_truncated_changed_or_of_another_name) {
  set_compiler(counting_compiler());
  EXPECT_EQ(answer_of({"a", answer(7)}), 7);
  const std::string path = cache() + "/" + files(cache()).at(0);
  const std::string whole = *read_file(path);
  size_t expected = 1;
  std::string changed = whole;
  changed[whole.size() / 2] ^= 1;
  for (const std::string& damaged : {whole.substr(0, whole.size() / 2), changed, std::string()}) {
    ASSERT_TRUE(replace_file(path, damaged));
    EXPECT_EQ(answer_of({"a", answer(7)}), 7);
    EXPECT_EQ(compilations(), ++expected);
    EXPECT_EQ(*read_file(path), whole);
  }
  EXPECT_EQ(answer_of({"a", answer(8)}), 8);
  ++expected;
  for (const std::string& name : files(cache())) {
    if (cache() + "/" + name != path)
      fs::copy_file(cache() + "/" + name, path, fs::copy_options::overwrite_existing);
  }
  EXPECT_EQ(answer_of({"a", answer(7)}), 7);  // the other's code never runs under this name
  EXPECT_EQ(compilations(), ++expected);
}

TEST_F(Compiler, rebuilds_an_entry_that_others_can_write) {
  set_compiler(counting_compiler());
  answer_of({"a", answer(7)});
  const std::string path = cache() + "/" + files(cache()).at(0);
  chmod(path.c_str(), 0666);
  EXPECT_EQ(answer_of({"a", answer(7)}), 7);
  EXPECT_EQ(compilations(), 2u);
}

TEST_F(Compiler, works_without_a_cache_folder_and_warns_once) {
  write_file(folder_.path() + "/file", "");
  set_cache_directory(folder_.path() + "/file/cache");  // below a plain file: nobody may write
  EXPECT_EQ(answer_of({"a", answer(5)}), 5);
  EXPECT_EQ(answer_of({"a", answer(6)}), 6);
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_THAT(warnings_[0], AllOf(HasSubstr("file/cache cannot be used (Not a directory)"),
                                  HasSubstr("PTO_CACHE_DIR")));
}

TEST_F(Compiler, works_where_the_cache_folder_is_full) {
  const std::string full = failing_compiler(
      "case \"$*\" in */cache/*) echo 'x.o: No space left on device'; exit 1;; esac\n"
      "exec g++ \"$@\"");
  set_compiler(full);
  EXPECT_EQ(answer_of({"a", answer(5)}), 5);
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_THAT(warnings_[0], HasSubstr("No space left"));
  EXPECT_THAT(files(cache()), testing::IsEmpty());
}

TEST_F(Compiler, names_both_folders_where_none_can_be_written) {
  write_file(folder_.path() + "/file", "");
  set_cache_directory(folder_.path() + "/file/cache");
  const char* before = std::getenv("TMPDIR");
  const std::string kept = before == nullptr ? "/tmp" : before;
  setenv("TMPDIR", (folder_.path() + "/file").c_str(), 1);
  EXPECT_THAT(load_error(1), AllOf(HasSubstr("file/cache"), HasSubstr("TMPDIR")));
  setenv("TMPDIR", kept.c_str(), 1);
}

TEST_F(Compiler, says_so_where_no_compiler_is_found) {
  const std::string path = std::getenv("PATH");
  setenv("PATH", "/nonexistent", 1);
  EXPECT_THAT(load_error(1),
              AllOf(HasSubstr("no C++ compiler was found"), HasSubstr("install g++")));
  setenv("PATH", path.c_str(), 1);
  set_compiler("no-such-compiler");
  EXPECT_THAT(load_error(1), HasSubstr("\"no-such-compiler\" was not found"));
}

TEST_F(Compiler, refuses_a_program_that_is_no_compiler_or_too_old) {
  set_compiler("/bin/false");
  EXPECT_THAT(load_error(1), HasSubstr("/bin/false fails when asked for its version"));
  set_compiler("/bin/true");
  EXPECT_THAT(load_error(1), HasSubstr("is no C++ compiler"));
  set_compiler(script("echo '#define __GNUC__ 11'\n"));
  EXPECT_THAT(load_error(1), HasSubstr("is gcc 11, at least 12 is needed"));
  set_compiler(script("echo '#define __GNUC__ 4'; echo '#define __clang_major__ 13'\n"));
  EXPECT_THAT(load_error(1), HasSubstr("is clang 13, at least 14 is needed"));
}

TEST_F(Compiler, skips_a_compiler_on_the_path_that_is_too_old) {
  const std::string bin = folder_.path() + "/bin";
  fs::create_directory(bin);
  fs::rename(script("echo '#define __GNUC__ 11'\n"), bin + "/g++");
  const std::string path = std::getenv("PATH");
  setenv("PATH", bin.c_str(), 1);
  EXPECT_THAT(load_error(1), HasSubstr("that can be used: " + bin + "/g++ is gcc 11"));
  setenv("PATH", (bin + ":" + path).c_str(), 1);
  EXPECT_NE(find_toolchain(settings()).path, bin + "/g++");
  setenv("PATH", path.c_str(), 1);
}

TEST_F(Compiler, shows_what_a_failing_compiler_printed_and_keeps_the_source) {
  set_compiler(failing_compiler("echo 'kernel.cpp:3: internal trouble' >&2; exit 4"));
  const std::string error = load_error(1);
  EXPECT_THAT(error, AllOf(HasSubstr("failed with exit status 4"),
                           HasSubstr("kernel.cpp:3: internal trouble"),
                           HasSubstr("the source is kept in " + cache() + "/failed-bad-")));
  const std::vector<std::string> left = files(cache());
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(*read_file(cache() + "/" + left[0]), answer(1));
}

TEST_F(Compiler, errors_in_generated_text_are_ours_and_a_broken_compiler_is_the_users) {
  set_compiler(failing_compiler("echo 'kernel.cpp:3:1: error: no such thing' >&2; exit 1"));
  EXPECT_THROW(load({"bad", answer(1)}, {}), RefusedCode);
  EXPECT_THAT(load_error(1), AllOf(HasSubstr("no such thing"), HasSubstr("a defect of OpenPTO"),
                                   HasSubstr("the source is kept in")));
  EXPECT_THAT(error_of([] { compile_text("mine", "x", {}); }), HasSubstr("correct the text"));
  set_compiler(failing_compiler("echo 'g++: fatal error: cannot execute cc1plus' >&2; exit 1"));
  EXPECT_THAT(load_error(1), AllOf(HasSubstr("failed with exit status 1"),
                                   HasSubstr("set PTO_CXX to another compiler")));
  set_compiler(
      failing_compiler("echo 'a.s: Fatal error: cannot write: File too large' >&2; exit 1"));
  EXPECT_THAT(load_error(1),
              AllOf(HasSubstr("File too large"), testing::Not(HasSubstr("a defect"))));
}

// The system ends a process that reads what is missing of a mapped file.
TEST_F(Compiler, takes_no_part_of_an_object) {
  const std::string real = find_toolchain(settings()).path;
  for (const char* bytes : {"0", "20", "100", "3000"}) {
    set_compiler(
        script(real + " \"$@\" || exit 1\ncase \"$*\" in *-shared*) ;; *) exit 0;; esac\n" +
               "while [ \"$1\" != -o ]; do shift; done\ntruncate -s " + bytes + " \"$2\"\n"));
    EXPECT_THAT(load_error(1), HasSubstr("wrote no whole object")) << bytes;
  }
  for (const std::string& name : files(cache())) EXPECT_FALSE(name.ends_with(".so")) << name;
}

TEST_F(Compiler, takes_a_limit_of_files_for_no_defect) {
  set_compiler(
      failing_compiler("echo 'ld: final link failed: File too large' >&2\n"
                       "echo 'collect2: error: ld returned 1 exit status' >&2; exit 1"));
  EXPECT_THAT(load_error(1), AllOf(HasSubstr("can be written (File too large)"),
                                   testing::Not(HasSubstr("a defect"))));
}

TEST_F(Compiler, shows_only_the_first_lines_of_a_flood) {
  set_compiler(failing_compiler("seq 1 1000; exit 1"));
  EXPECT_THAT(load_error(1),
              AllOf(HasSubstr("\n    12\n    ..."), testing::Not(HasSubstr("    13"))));
}

TEST_F(Compiler, reports_a_compiler_that_is_killed_hangs_or_writes_nothing) {
  set_compiler(failing_compiler("kill -KILL $$"));
  EXPECT_THAT(load_error(1), AllOf(HasSubstr("was killed by a signal: Killed"),
                                   HasSubstr("close files and programs")));
  set_compiler(failing_compiler("exit 0"));
  EXPECT_THAT(load_error(1), HasSubstr("wrote no whole object"));
  set_compiler(failing_compiler("sleep 1000"));
  setenv("PTO_COMPILE_SECONDS", "0.1", 1);
  EXPECT_THAT(load_error(1),
              AllOf(HasSubstr("did not end within 0.1 s"), HasSubstr("PTO_COMPILE_SECONDS")));
  setenv("PTO_COMPILE_SECONDS", "soon", 1);
  EXPECT_THAT(load_error(1), HasSubstr("PTO_COMPILE_SECONDS is \"soon\""));
  unsetenv("PTO_COMPILE_SECONDS");
}

TEST_F(Compiler, an_interruption_stops_the_compiler_and_leaves_nothing) {
  set_compiler(failing_compiler("touch " + counter() + "; sleep 1000"));
  const auto interrupted = [this] { return fs::exists(counter()); };
  EXPECT_THROW(load({"a", answer(1)}, interrupted), Interrupted);
  EXPECT_THAT(files(cache()), testing::IsEmpty());
}

TEST_F(Compiler, threads_that_load_at_once_share_one_compilation) {
  set_compiler(counting_compiler());
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([] { EXPECT_EQ(answer_of({"a", answer(9)}), 9); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(compilations(), 1u);
}

TEST_F(Compiler, a_waiting_thread_takes_over_after_an_interruption) {
  const std::string hold = folder_.path() + "/hold";
  write_file(hold, "");
  set_compiler(failing_compiler("echo x >> " + counter() + "\nwhile [ -e " + hold +
                                " ]; do sleep 0.01; done\nexec g++ \"$@\""));
  std::atomic<bool> stop{false};
  std::thread first([&stop] {
    EXPECT_THROW(load({"a", answer(9)}, [&stop] { return stop.load(); }), Interrupted);
  });
  while (compilations() == 0) usleep(1000);
  std::thread second([] { EXPECT_EQ(answer_of({"a", answer(9)}), 9); });
  usleep(30000);  // so that it waits for the first; the result is the same where it does not yet
  stop = true;
  first.join();
  fs::remove(hold);
  second.join();
  EXPECT_EQ(compilations(), 2u);
}

TEST_F(Compiler, processes_that_load_at_once_share_one_compilation) {
  set_compiler(counting_compiler());
  std::vector<pid_t> children;
  for (int i = 0; i < 3; ++i) {
    const pid_t child = fork();
    if (child == 0) _exit(answer_of({"a", answer(9)}));
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(WEXITSTATUS(status), 9);
  }
  EXPECT_EQ(compilations(), 1u);
}

TEST_F(Compiler, a_killed_process_frees_its_lock) {
  const Cache here(cache());
  const pid_t child = fork();
  if (child == 0) {
    const auto held = here.lock("entry", {}, 60);
    write_file(counter(), "x");
    for (;;) pause();
  }
  while (!fs::exists(counter())) usleep(1000);
  EXPECT_THROW(here.lock(
                   "entry", [] { return true; }, 60),
               Interrupted);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_NE(here.lock(
                "entry", [] { return false; }, 60),
            nullptr);
}

TEST_F(Compiler, nobody_waits_for_a_stopped_process_nor_longer_than_a_compilation_takes_or_unsaid) {
  const Cache here(cache());
  const pid_t child = fork();
  if (child == 0) {
    const auto held = here.lock("entry", {}, 60);
    write_file(counter(), "x");
    for (;;) pause();
  }
  while (!fs::exists(counter())) usleep(1000);
  EXPECT_NE(here.lock("entry", {}, /*seconds=*/0.01), nullptr);
  EXPECT_TRUE(fs::exists(cache() + "/entry.lock")) << "the holder still has its lock";
  EXPECT_THAT(warnings_, testing::IsEmpty());
  EXPECT_NE(here.lock("entry", {}, /*seconds=*/3.2), nullptr);
  EXPECT_THAT(warnings_, testing::ElementsAre(HasSubstr(
                             "waiting for process " + std::to_string(child) + ", which compiles " +
                             cache() + "/entry.so; it is compiled here")));
  kill(child, SIGSTOP);
  EXPECT_NE(here.lock("entry", {}, 1e9), nullptr);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

TEST_F(Compiler, folders_may_have_relative_names_that_look_like_options) {
  const fs::path before = fs::current_path();
  fs::current_path(folder_.path());
  set_cache_directory("-cache");
  EXPECT_EQ(answer_of({"a", answer(12)}), 12);
  set_cache_directory("-file/cache");  // cannot be made: compiles in the temporary folder
  write_file("-file", "");
  fs::create_directory("-tmp");
  const char* tmp = std::getenv("TMPDIR");
  const std::string kept = tmp == nullptr ? "/tmp" : tmp;
  setenv("TMPDIR", "-tmp", 1);
  EXPECT_EQ(answer_of({"a", answer(13)}), 13);
  setenv("TMPDIR", kept.c_str(), 1);
  fs::current_path(before);
  EXPECT_EQ(files(folder_.path() + "/-cache").size(), 1u);
}

TEST_F(Compiler, the_current_folder_may_be_gone) {
  const fs::path before = fs::current_path(), gone = folder_.path() + "/gone";
  fs::create_directory(gone);
  fs::current_path(gone);
  fs::remove(gone);
  EXPECT_EQ(answer_of({"a", answer(14)}), 14);
  set_cache_directory("relative");
  EXPECT_EQ(answer_of({"a", answer(15)}), 15);
  EXPECT_EQ(warnings_.size(), 1u);
  fs::current_path(before);
}

TEST_F(Compiler, evicts_the_least_recently_used_entries_and_what_killed_processes_left) {
  const Cache here(cache());
  const auto age = [](const std::string& path, int hours) {
    timespec times[2] = {{time(nullptr) - hours * 3600, 0}, {time(nullptr) - hours * 3600, 0}};
    utimensat(AT_FDCWD, path.c_str(), times, 0);
  };
  for (int i = 0; i < 10; ++i) {
    const std::string object = folder_.path() + "/object";
    write_file(object, std::string(1000, 'x'));
    age(here.insert("e" + std::to_string(i), object), 20 - i);
  }
  fs::create_directories(cache() + "/work-old");
  age(cache() + "/work-old", 2);
  fs::create_directories(cache() + "/work-new");
  here.find("e0");  // used now
  here.sweep(5000, /*now=*/true);
  EXPECT_FALSE(fs::exists(cache() + "/work-old"));
  EXPECT_TRUE(fs::exists(cache() + "/work-new"));
  EXPECT_TRUE(here.find("e0").has_value());
  EXPECT_FALSE(here.find("e1").has_value());
  EXPECT_TRUE(here.find("e9").has_value());
  write_file(cache() + "/e7.so", "too large", true);
  here.sweep(1);  // swept within the hour
  EXPECT_TRUE(here.find("e9").has_value());
}

TEST_F(Compiler, an_object_that_cannot_be_loaded_is_compiled_once_more) {
  const std::string real = find_toolchain(settings()).path;
  set_compiler(script("case \"$*\" in *-shared*) [ -e " + counter() +
                      " ] || broken=-DBROKEN; echo x >> " + counter() + ";; esac\nexec " + real +
                      " $broken \"$@\"\n"));
  const std::string text =
      "#ifdef BROKEN\nextern \"C\" void nobody(); auto* p = &nobody;\n#endif\n" + answer(3);
  EXPECT_EQ(answer_of({"a", text, machine().target}), 3);
  EXPECT_EQ(compilations(), 2u);
  EXPECT_EQ(answer_of({"a", text, machine().target}), 3);
  EXPECT_EQ(compilations(), 2u);
}

TEST_F(Compiler, clang_compiles_too) {
  for (const char* name : {"clang++", "clang++-14", "clang++-15", "clang++-16"}) {
    set_compiler(name);
    try {
      find_toolchain(settings());
    } catch (const Error&) {
      continue;
    }
    EXPECT_EQ(answer_of({"a", answer(3), machine().target}), 3);
    return;
  }
  GTEST_SKIP() << "no clang here";
}

TEST_F(Compiler, kernels_may_call_the_runtime_and_the_mathematics_library) {
  const Source source{"a",
                      "#include \"pto/abi/host.h\"\nextern \"C\" double erf(double);\n"
                      "extern \"C\" __attribute__((visibility(\"default\"))) int answer(const "
                      "void* p) { pto_free(pto_malloc(8)); return erf(p == 0 ? 30.0 : 0.0) == "
                      "1.0 && pto_block_count() == 1; }\n"};
  EXPECT_EQ(answer_of(source), 1);
  EXPECT_THAT(error_of([] {
                load({"b",
                      "extern \"C\" void nobody(); void f() { nobody(); } "
                      "__attribute__((used)) auto* p = &nobody;"},
                     {});
              }),
              HasSubstr("the compiled kernel cannot be loaded"));
}

}  // namespace pto::load_test
