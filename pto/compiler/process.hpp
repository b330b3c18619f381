// SPDX-License-Identifier: Apache-2.0
// run_process(): runs a child process with its output captured, a time limit, and a way to stop it.
//
//     ProcessResult r = run_process({"/usr/bin/g++", "--version"}, {.seconds = 10});
//     r.end == ProcessResult::Exited && r.code == 0;
//     r.output.starts_with("g++");
//
// Invariant: no process of the child's group is left when it returns or this process ends, however
// that ends, unless a process left the group.
// Thread safety: may be called from any thread.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace pto {

struct ProcessOptions {
  double seconds = 120;               // after which its group is killed
  std::string temporary_directory;    // its TMPDIR; "": this process's
  std::function<bool()> interrupted;  // polled about every 20 ms; true: its group is killed
};

struct ProcessResult {
  enum End { Exited, Signalled, TimedOut, Interrupted, NotStarted } end = Exited;
  int code = 0;        // exit status, signal or errno, by `end`
  std::string output;  // standard output and error, the first 64 KB

  bool succeeded() const { return end == Exited && code == 0; }
};

// arguments[0] is the path of the program.
ProcessResult run_process(const std::vector<std::string>& arguments, const ProcessOptions& options);

}  // namespace pto
