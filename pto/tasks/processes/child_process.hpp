// SPDX-License-Identifier: Apache-2.0
// ChildProcess: a program started beside this one, watched by a file descriptor.
//
//     const int fds[] = {mailbox_fd, heap_fd};              // there: 3 and 4
//     ChildProcess child({"/path/pto_worker", "3"}, fds, {{"LANG", "C"}});
//     pollfd ended{child.end_fd(), POLLIN, 0};
//     poll(&ended, 1, -1);                                  // returns when it has ended
//     child.reap().text;                                    // "was killed by signal 9 (SIGKILL)"
//
// Invariant: the child is no fork of this process's threads, gets only the given descriptors, and
// has a process group of its own (Ctrl-C reaches the host alone). It must watch its parent itself:
// see end_with_parent().
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
  // Starts `program`, its path and arguments. `fds` become 3, 4 ... there; `environment` overrides
  // variables. Throws Error if the program cannot be started.
  ChildProcess(const std::vector<std::string>& program, std::span<const int> fds,
               const std::vector<std::pair<std::string, std::string>>& environment);
  ~ChildProcess();  // kills it if it still runs, and reaps it
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  int pid() const { return pid_; }
  int end_fd() const { return end_fd_; }  // -1 if the system has none
  bool has_ended();
  void kill();
  ProcessEnd reap();  // waits for its end

 private:
  void note(int status);

  int pid_ = -1, end_fd_ = -1;
  bool is_reaped_ = false, is_killed_ = false;  // by kill()
  ProcessEnd end_;
};

// Called in a child: it ends at once when the process `parent` has ended.
void end_with_parent(int parent);

// Called in a child: without free memory the system kills this process before others.
void be_first_without_memory();

}  // namespace pto
