// SPDX-License-Identifier: Apache-2.0
#include "pto/tasks/processes/child_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "pto/base/blocked_signals.hpp"
#include "pto/base/error.hpp"

extern char** environ;

namespace pto {
namespace {

constexpr int kFirstFd = 3;

int pidfd_of(int pid) { return int(syscall(SYS_pidfd_open, pid, 0)); }

// The attributes of posix_spawn(), freed together.
struct SpawnSetup {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  std::vector<int> copies;

  SpawnSetup() {
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
  }
  ~SpawnSetup() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    for (int fd : copies) close(fd);
  }
  SpawnSetup(const SpawnSetup&) = delete;
  SpawnSetup& operator=(const SpawnSetup&) = delete;

  // Copies every descriptor above all targets first, so that no target overwrites a later source.
  bool give(std::span<const int> fds) {
    const int free = kFirstFd + int(fds.size());
    for (int fd : fds) {
      copies.push_back(fcntl(fd, F_DUPFD_CLOEXEC, free));
      if (copies.back() < 0) {
        copies.pop_back();
        return false;
      }
    }
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    for (size_t i = 0; i < copies.size(); ++i)
      posix_spawn_file_actions_adddup2(&actions, copies[i], kFirstFd + int(i));
    posix_spawn_file_actions_addclosefrom_np(&actions, free);
    return true;
  }
  void separate() {
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(
        &attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  }
};

std::vector<std::string> environment_with(
    const std::vector<std::pair<std::string, std::string>>& changes) {
  std::vector<std::string> all;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const bool is_changed = std::any_of(changes.begin(), changes.end(), [&](const auto& change) {
      return text.rfind(change.first + "=", 0) == 0;
    });
    if (!is_changed) all.push_back(text);
  }
  for (const auto& [name, value] : changes) all.push_back(name + "=" + value);
  return all;
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (const std::string& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

}  // namespace

ChildProcess::ChildProcess(const std::vector<std::string>& program, std::span<const int> fds,
                           const std::vector<std::pair<std::string, std::string>>& environment) {
  SpawnSetup setup;
  int code = setup.give(fds) ? 0 : errno;
  setup.separate();
  const std::vector<std::string> variables = environment_with(environment);
  if (code == 0)
    code = posix_spawn(&pid_, program[0].c_str(), &setup.actions, &setup.attributes,
                       pointers(program).data(), pointers(variables).data());
  if (code != 0)
    fail(
        {"a worker process cannot be started: " + program[0] + ": " + std::strerror(code),
         "each device of level host is a process of its own",
         "build the project again (./dev build), or raise the limits of processes and descriptors"},
        ErrorKind::Runtime);
  end_fd_ = pidfd_of(pid_);
}

ChildProcess::~ChildProcess() {
  kill();
  reap();
  if (end_fd_ >= 0) close(end_fd_);
}

bool ChildProcess::has_ended() {
  if (is_reaped_) return true;
  int status = 0;
  const int found = waitpid(pid_, &status, WNOHANG);
  if (found == 0) return false;
  note(found == pid_ ? status : -1);
  return true;
}

void ChildProcess::kill() {
  if (is_reaped_) return;
  is_killed_ = true;
  ::kill(pid_, SIGKILL);
}

ProcessEnd ChildProcess::reap() {
  while (!is_reaped_) {
    int status = 0;
    const int found = waitpid(pid_, &status, 0);
    if (found < 0 && errno == EINTR) continue;
    note(found == pid_ ? status : -1);
  }
  return end_;
}

// -1: another part of this process has reaped the child.
void ChildProcess::note(int status) {
  is_reaped_ = true;
  if (status == -1) {
    end_.text = "ended, and another part of this program took its exit status";
  } else if (WIFSIGNALED(status)) {
    end_.signal = WTERMSIG(status);
    const char* const name = sigabbrev_np(end_.signal);
    end_.text = "was killed by signal " + std::to_string(end_.signal) +
                (name != nullptr ? std::string(" (SIG") + name + ")" : "");
    if (end_.signal == SIGKILL && !is_killed_)
      end_.text += ", probably out of memory: this program did not send it";
  } else {
    end_.text = "ended by itself with code " + std::to_string(WEXITSTATUS(status));
  }
}

void be_first_without_memory() {
  const int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;  // another system, with its own choice
  [[maybe_unused]] const ssize_t n = write(fd, "1000", 4);
  close(fd);
}

void end_with_parent(int parent) {
  constexpr int kPause_ms = 20;
  const int fd = pidfd_of(parent);
  if (getppid() != parent) _exit(1);  // the parent has ended already
  const BlockedSignals blocked;
  std::thread([fd, parent] {
    pollfd end{fd, POLLIN, 0};
    while (getppid() == parent && (fd < 0 || poll(&end, 1, -1) <= 0))
      if (fd < 0) poll(nullptr, 0, kPause_ms);
    _exit(1);
  }).detach();
}

}  // namespace pto
