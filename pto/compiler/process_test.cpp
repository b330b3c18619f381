// SPDX-License-Identifier: Apache-2.0
#include "pto/compiler/process.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>
#include <thread>

#include "pto/base/file.hpp"

namespace pto::process_test {

ProcessResult shell(const std::string& script, ProcessOptions options = {}) {
  return run_process({"/bin/sh", "-c", script}, options);
}

// Waits, a minute at most, for a file that is not empty, or a process that is gone or a zombie.
bool comes_true(const std::function<bool()>& condition) {
  for (int i = 0; i < 6000; ++i) {
    if (condition()) return true;
    usleep(10000);
  }
  return false;
}

bool is_gone(const std::string& pid) {
  const std::string status = read_file("/proc/" + pid + "/status").value_or("");
  return status.empty() || status.find("State:\tZ") != status.npos;
}

TEST(Process, captures_output_and_status) {
  const ProcessResult result = shell("echo out; echo err >&2; exit 3");
  EXPECT_EQ(result.end, ProcessResult::Exited);
  EXPECT_EQ(result.code, 3);
  EXPECT_EQ(result.output, "out\nerr\n");
}

TEST(Process, keeps_the_first_64_kilobytes_of_a_flood) {
  const ProcessResult result = shell("head -c 1000000 /dev/zero | tr '\\0' x");
  EXPECT_TRUE(result.succeeded());
  EXPECT_EQ(result.output.size(), size_t{64} << 10);
}

TEST(Process, reports_a_signal_and_a_program_that_is_missing) {
  const ProcessResult killed = shell("kill -SEGV $$");
  EXPECT_EQ(killed.end, ProcessResult::Signalled);
  EXPECT_EQ(killed.code, SIGSEGV);
  const ProcessResult missing = run_process({"/nonexistent/program"}, {});
  EXPECT_EQ(missing.end, ProcessResult::NotStarted);
  EXPECT_EQ(missing.code, ENOENT);
}

TEST(Process, kills_the_whole_group_when_time_is_up) {
  ProcessOptions options;
  options.seconds = 0.05;
  const ProcessResult result = shell("sleep 1000 & echo $!; wait", options);
  EXPECT_EQ(result.end, ProcessResult::TimedOut);
  const std::string grandchild = result.output.substr(0, result.output.find('\n'));
  EXPECT_TRUE(comes_true([&] { return is_gone(grandchild); }));
}

// Plays a parent that runs a process which does not end, and has a forked child beside it.
void run_forever(const std::string& note, const std::string& forked) {
  std::thread runs([&] { shell("sleep 1000 & echo $! $$ > " + note + "; wait"); });
  comes_true([&] { return !read_file(note).value_or("").empty(); });
  const pid_t beside = fork();
  if (beside == 0) alarm(100);
  if (beside != 0) write_file(forked, std::to_string(beside));
  for (;;) pause();
}

TEST(Process, ends_with_its_parent_however_that_ends) {
  for (const int signal : {SIGKILL, SIGTERM, SIGHUP}) {
    const WorkFolder folder(temporary_directory(), "pto-test-");
    const std::string note = folder.path() + "/note", forked = folder.path() + "/forked";
    const pid_t parent = fork();
    if (parent == 0) {
      alarm(100);  // what fails must not outlive the test
      run_forever(note, forked);
    }
    ASSERT_TRUE(comes_true([&] { return !read_file(forked).value_or("").empty(); }));
    kill(parent, signal);
    waitpid(parent, nullptr, 0);
    const std::string pids = *read_file(note);
    const size_t space = pids.find(' ');
    for (const std::string& pid :
         {pids.substr(0, space), pids.substr(space + 1, pids.size() - space - 2)})
      EXPECT_TRUE(comes_true([&] { return is_gone(pid); })) << "signal " << signal;
    kill(std::stoi(*read_file(forked)), SIGKILL);
  }
}

TEST(Process, stops_when_interrupted) {
  ProcessOptions options;
  int polls = 0;
  options.interrupted = [&polls] { return ++polls == 3; };
  EXPECT_EQ(shell("sleep 1000", options).end, ProcessResult::Interrupted);
  EXPECT_EQ(polls, 3);
}

TEST(Process, does_not_wait_for_a_process_that_keeps_the_output_open) {
  ProcessOptions options;
  options.seconds = 60;
  const ProcessResult result = shell("setsid sleep 5 & echo done", options);
  EXPECT_TRUE(result.succeeded());
  EXPECT_EQ(result.output, "done\n");
}

TEST(Process, gives_the_child_its_temporary_directory_and_no_input) {
  ProcessOptions options;
  options.temporary_directory = "/some/where";
  EXPECT_EQ(shell("echo $TMPDIR; cat", options).output, "/some/where\n");
}

}  // namespace pto::process_test
