// SPDX-License-Identifier: Apache-2.0
// Child process: a program started beside this one, watched by a file descriptor.
//
//     ChildProcess child({"/path/pto_worker", "3"}, {mailbox_fd, heap_fd});   // there: 3 and 4
//     poll(child.end_fd());                   // readable when it has ended
//     child.reap().text;                      // "was killed by signal 9 (SIGKILL)"
//
// It is never a fork of this process's threads, gets no descriptor but those that are given, has a
// process group of its own (Ctrl-C is for the host), and must watch its parent itself: see
// end_with_parent().
// Thread safety: none for one child; any number of children.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace pto {

struct ProcessEnd {
  int signal = 0;  // 0: it ended by itself
  std::string text;
};

class ChildProcess {
 public:
  // `program`: its path and arguments. `fds` become 3, 4 ... there. `environment`: variables that
  // differ. Throws Error where it cannot be started.
  ChildProcess(const std::vector<std::string>& program, std::span<const int> fds,
               const std::vector<std::pair<std::string, std::string>>& environment);
  ~ChildProcess();  // kills and reaps what has not ended
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  int pid() const { return pid_; }
  int end_fd() const { return end_fd_; }  // -1 where the system has none
  bool has_ended();
  void kill();
  ProcessEnd reap();  // waits for its end

 private:
  void note(int status);

  int pid_ = -1, end_fd_ = -1;
  bool is_reaped_ = false, is_killed_ = false;  // by kill()
  ProcessEnd end_;
};

// For a child: from now on it ends, at once, when the process `parent` has ended.
void end_with_parent(int parent);

// For a child: where the machine's memory ends, the system kills this process before others.
void be_first_without_memory();

}  // namespace pto
