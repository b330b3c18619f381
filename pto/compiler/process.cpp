// SPDX-License-Identifier: Apache-2.0
#include "pto/compiler/process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "pto/base/clock.hpp"

extern char** environ;

namespace pto {
namespace {

constexpr size_t kOutputBytesMax = 64 << 10;
constexpr int kPollMs = 20;

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> all;
  for (std::string& string : strings) all.push_back(string.data());
  all.push_back(nullptr);
  return all;
}

// Copies this process's environment, with English messages and another TMPDIR.
std::vector<std::string> child_environment(const std::string& temporary_directory) {
  std::vector<std::string> all;
  for (char** at = environ; *at != nullptr; ++at) {
    const bool replaced = std::strncmp(*at, "LC_ALL=", 7) == 0 ||
                          (!temporary_directory.empty() && std::strncmp(*at, "TMPDIR=", 7) == 0);
    if (!replaced) all.emplace_back(*at);
  }
  all.emplace_back("LC_ALL=C");
  if (!temporary_directory.empty()) all.push_back("TMPDIR=" + temporary_directory);
  return all;
}

struct Spawn {
  std::vector<std::string> arguments;
  std::string temporary_directory;
  int input, output;  // standard streams; -1: /dev/null
  pid_t group;        // 0: a new one
};

// Starts a child; returns an errno, or 0.
int spawn(Spawn spawn, pid_t* child) {
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  const auto connect = [&files](int from, int to, int flags) {
    if (from < 0)
      posix_spawn_file_actions_addopen(&files, to, "/dev/null", flags, 0);
    else
      posix_spawn_file_actions_adddup2(&files, from, to);
  };
  connect(spawn.input, STDIN_FILENO, O_RDONLY);
  connect(spawn.output, STDOUT_FILENO, O_WRONLY);
  connect(spawn.output, STDERR_FILENO, O_WRONLY);

  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, defaults;
  sigemptyset(&none);
  sigemptyset(&defaults);
  for (const int signal : {SIGINT, SIGQUIT, SIGTERM, SIGPIPE, SIGCHLD}) {
    sigaddset(&defaults, signal);
  }
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setpgroup(&attributes, spawn.group);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);

  std::vector<std::string> environment = child_environment(spawn.temporary_directory);
  const int error = posix_spawn(child, spawn.arguments[0].c_str(), &files, &attributes,
                                pointers(spawn.arguments).data(), pointers(environment).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  return error;
}

// Holds this process's ends of the leaders' pipes. A forked child must not hold them too, since the
// leaders would not see this process end.
class HeldEnds {
 public:
  static HeldEnds& get() {
    static HeldEnds* const ends = [] {
      pthread_atfork(nullptr, nullptr, [] { get().close_all(); });
      return new HeldEnds;
    }();
    return *ends;
  }
  void add(int file) {
    for (std::atomic<int>& end : ends_)
      if (int none = 0; end.compare_exchange_strong(none, file)) return;
  }
  void close_one(int file) {
    for (std::atomic<int>& end : ends_)
      if (int found = file; end.compare_exchange_strong(found, 0)) break;
    close(file);
  }

 private:
  void close_all() {
    for (std::atomic<int>& end : ends_)
      if (const int file = end.exchange(0)) close(file);
  }
  std::array<std::atomic<int>, 64> ends_{};
};

// Leads the group of a child: a shell that reads from a pipe which nobody writes, and kills the
// group when the pipe's other end closes. So the group ends with this process however that ends,
// by SIGKILL too. Without a shell there is no leader, and the child leads its group.
class GroupLeader {
 public:
  GroupLeader() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return;
    const std::vector<std::string> shell{"/bin/sh", "-c", "read nothing; kill -KILL 0"};
    if (spawn({shell, "", ends[0], -1, 0}, &pid_) != 0) pid_ = 0;
    close(ends[0]);
    held_ = ends[1];
    HeldEnds::get().add(held_);
  }
  // Leaves nothing of the group.
  ~GroupLeader() {
    if (pid_ != 0) kill(-pid_, SIGKILL);
    if (held_ >= 0) HeldEnds::get().close_one(held_);
    while (pid_ != 0 && waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) continue;
  }
  GroupLeader(const GroupLeader&) = delete;
  GroupLeader& operator=(const GroupLeader&) = delete;

  pid_t group() const { return pid_; }

 private:
  pid_t pid_ = 0;
  int held_ = -1;
};

// Reads the output that is there, without waiting; false at its end.
bool drain(int pipe, std::string* output) {
  char buffer[4096];
  for (;;) {
    const ssize_t count = read(pipe, buffer, sizeof(buffer));
    if (count == 0) return false;
    if (count < 0) return errno == EAGAIN || errno == EINTR;
    const size_t room = kOutputBytesMax - std::min(kOutputBytesMax, output->size());
    output->append(buffer, std::min(room, static_cast<size_t>(count)));
  }
}

// True when the child has ended; a SIGCHLD that the host ignores leaves no status to read.
bool ended(pid_t child, bool wait, int* status) {
  for (;;) {
    const pid_t found = waitpid(child, status, wait ? 0 : WNOHANG);
    if (found == child) return true;
    if (found == 0) return false;
    if (errno == EINTR) continue;
    *status = 0;
    return true;
  }
}

void set_end(int status, ProcessResult* result) {
  const bool signalled = WIFSIGNALED(status);
  result->end = signalled ? ProcessResult::Signalled : ProcessResult::Exited;
  result->code = signalled ? WTERMSIG(status) : WEXITSTATUS(status);
}

// Follows the child until it ends or has to be stopped.
void follow(pid_t child, pid_t group, int pipe, const ProcessOptions& options,
            ProcessResult* result) {
  const int64_t deadline_ns = now_ns() + int64_t(std::min(options.seconds, 1e9) * 1e9);
  int status = 0;
  bool open = true;
  for (;;) {
    pollfd watched{pipe, POLLIN, 0};
    const bool event = open && poll(&watched, 1, kPollMs) > 0;
    if (event) open = drain(pipe, &result->output);
    if (!open || !event) {  // at the end of the output the child ends within microseconds
      if (ended(child, false, &status)) break;
      if (!open) poll(nullptr, 0, 1);
    }
    const bool interrupted = options.interrupted && options.interrupted();
    if (!interrupted && now_ns() < deadline_ns) continue;
    kill(-group, SIGKILL);
    ended(child, true, &status);
    result->end = interrupted ? ProcessResult::Interrupted : ProcessResult::TimedOut;
    return;
  }
  if (open) drain(pipe, &result->output);
  set_end(status, result);
  if (result->end == ProcessResult::Signalled) kill(-group, SIGKILL);
}

}  // namespace

ProcessResult run_process(const std::vector<std::string>& arguments,
                          const ProcessOptions& options) {
  ProcessResult result;
  int pipe[2];
  if (pipe2(pipe, O_CLOEXEC) != 0) return {ProcessResult::NotStarted, errno, ""};
  fcntl(pipe[0], F_SETFL, O_NONBLOCK);
  const GroupLeader leader;
  pid_t child = 0;
  const int error =
      spawn({arguments, options.temporary_directory, -1, pipe[1], leader.group()}, &child);
  close(pipe[1]);
  if (error != 0) {
    result = {ProcessResult::NotStarted, error, ""};
  } else {
    follow(child, leader.group() != 0 ? leader.group() : child, pipe[0], options, &result);
  }
  close(pipe[0]);
  return result;
}

}  // namespace pto
