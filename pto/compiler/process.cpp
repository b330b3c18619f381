// SPDX-License-Identifier: Apache-2.0
#include "pto/compiler/process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

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

// This process's environment, with English messages and another TMPDIR.
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

// Starts the child in a group of its own, output into `pipe`; an errno, or 0.
int spawn(std::vector<std::string> arguments, const std::string& temporary_directory, int pipe,
          pid_t* child) {
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, pipe, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, pipe, STDERR_FILENO);

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
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);

  std::vector<std::string> environment = child_environment(temporary_directory);
  const int error = posix_spawn(child, arguments[0].c_str(), &files, &attributes,
                                pointers(arguments).data(), pointers(environment).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  return error;
}

// Reads what is there, without waiting; false at the end of the output.
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
void follow(pid_t child, int pipe, const ProcessOptions& options, ProcessResult* result) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point deadline =
      Clock::now() +
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options.seconds));
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
    if (!interrupted && Clock::now() < deadline) continue;
    kill(-child, SIGKILL);
    ended(child, true, &status);
    result->end = interrupted ? ProcessResult::Interrupted : ProcessResult::TimedOut;
    return;
  }
  if (open) drain(pipe, &result->output);
  set_end(status, result);
  if (result->end == ProcessResult::Signalled) kill(-child, SIGKILL);
}

}  // namespace

ProcessResult run_process(const std::vector<std::string>& arguments,
                          const ProcessOptions& options) {
  ProcessResult result;
  int pipe[2];
  if (pipe2(pipe, O_CLOEXEC) != 0) return {ProcessResult::NotStarted, errno, ""};
  fcntl(pipe[0], F_SETFL, O_NONBLOCK);
  pid_t child = 0;
  const int error = spawn(arguments, options.temporary_directory, pipe[1], &child);
  close(pipe[1]);
  if (error != 0) {
    result = {ProcessResult::NotStarted, error, ""};
  } else {
    follow(child, pipe[0], options, &result);
  }
  close(pipe[0]);
  return result;
}

}  // namespace pto
