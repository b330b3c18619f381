// SPDX-License-Identifier: Apache-2.0
#include "pto/compiler/process.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cerrno>
#include <chrono>

namespace pto {
namespace {

ProcessResult shell(const std::string& script, ProcessOptions options = {}) {
  return run_process({"/bin/sh", "-c", script}, options);
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
  const pid_t grandchild = std::stoi(result.output);
  for (int i = 0; i < 500 && kill(grandchild, 0) == 0; ++i) {
    const ProcessResult state =
        shell("grep -c 'State:.Z' /proc/" + std::to_string(grandchild) + "/status || sleep 0.01");
    if (state.output.rfind("1", 0) == 0) return;  // dead; whoever adopted it has not looked yet
  }
  EXPECT_NE(kill(grandchild, 0), 0);
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

}  // namespace
}  // namespace pto
