// SPDX-License-Identifier: Apache-2.0
#include "pto/compiler/cache.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "pto/base/clock.hpp"
#include "pto/base/file.hpp"
#include "pto/base/sha256.hpp"
#include "pto/compiler/toolchain.hpp"

namespace pto {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "pto-sealed-1";
constexpr int64_t kHour = 3600;

// Returns the bytes that follow an object of the entry `name`.
std::string trailer(const std::string& name, std::string_view object) {
  return std::string(kMagic) + hex(Sha256().field(name).field(object).digest());
}

bool is_sealed(const std::string& name, std::string_view content) {
  const size_t length = kMagic.size() + 2 * sizeof(Digest);
  if (content.size() < length) return false;
  const std::string_view object = content.substr(0, content.size() - length);
  return content.substr(object.size()) == trailer(name, object);
}

// True for a plain file that only this user or root may write. Marks it as used, for the order of
// eviction.
bool is_own_file(const std::string& path) {
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return false;
  if (info.st_uid != geteuid() && info.st_uid != 0) return false;
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0) return false;
  if (time(nullptr) - info.st_mtim.tv_sec > kHour) {
    utimensat(AT_FDCWD, path.c_str(), nullptr, 0);
  }
  return true;
}

// Frees the lock, and removes its file first, so that a waiter that gets the lock of a removed file
// can tell, and tries again.
struct HeldLock {
  std::string path;
  int file;
  HeldLock(std::string path, int file) : path(std::move(path)), file(file) {}
  HeldLock(const HeldLock&) = delete;
  HeldLock& operator=(const HeldLock&) = delete;
  ~HeldLock() {
    if (file < 0) return;
    unlink(path.c_str());
    close(file);
  }
};

bool is_same_file(int file, const std::string& path) {
  struct stat held {
  }, named{};
  return fstat(file, &held) == 0 && stat(path.c_str(), &named) == 0 &&
         held.st_ino == named.st_ino && held.st_dev == named.st_dev;
}

// Tells this system's processes from those of other machines and containers: the start of the
// system, and the space of its process ids.
std::string system_identity() {
  std::error_code ignored;
  return read_file("/proc/sys/kernel/random/boot_id").value_or("") +
         fs::read_symlink("/proc/self/ns/pid", ignored).string();
}

// Returns the text that the holder of a lock writes into its file.
std::string holder_note() { return std::to_string(getpid()) + " " + system_identity(); }

// Writes as well as it can: without a note others wait for as long as a compilation may take.
void write_note(int file) {
  const std::string note = holder_note();
  if (ftruncate(file, 0) == 0 && pwrite(file, note.data(), note.size(), 0) < 0) errno = 0;
}

// True where the process that wrote this note has gone or is stopped (Ctrl-Z, a debugger).
bool is_halted(const std::string& note) {
  const size_t space = note.find(' ');
  const std::string here = system_identity();
  if (space == note.npos || here.empty() || note.substr(space + 1) != here) return false;
  const auto stat = read_file("/proc/" + note.substr(0, space) + "/stat");
  if (!stat) return true;
  const size_t name_end = stat->rfind(')');  // "12 (name) T ..."
  const char state = name_end + 2 < stat->size() ? (*stat)[name_end + 2] : '?';
  return state == 'T' || state == 't' || state == 'Z';
}

// Returns "process 12", or "another process" for the note of another machine, or of no holder.
std::string holder_of(const std::string& note) {
  const size_t space = note.find(' ');
  const bool is_here = space != note.npos && note.substr(space + 1) == system_identity();
  return is_here ? "process " + note.substr(0, space) : "another process";
}

int64_t age_of(const fs::path& path) {
  struct stat info {};
  return lstat(path.c_str(), &info) == 0 ? time(nullptr) - info.st_mtim.tv_sec : 0;
}

bool begins_with(const std::string& text, std::string_view prefix) {
  return text.compare(0, prefix.size(), prefix) == 0;
}

struct Entry {
  fs::path path;
  int64_t used_s, bytes;
};

// Lists the entries; removes files that processes left behind more than an hour ago.
std::vector<Entry> collect(const std::string& directory) {
  std::vector<Entry> entries;
  std::error_code ignored;
  for (fs::directory_iterator at(directory, ignored), end; at != end; at.increment(ignored)) {
    const fs::path path = at->path();
    const std::string kind = path.extension().string();
    const bool left =
        kind == ".tmp" || kind == ".lock" || begins_with(path.filename().string(), "work-");
    if (left && age_of(path) > kHour) fs::remove_all(path, ignored);
    struct stat info {};
    const bool is_entry = kind == ".so" || kind == ".gch";
    if (!is_entry || lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    entries.push_back({path, info.st_mtim.tv_sec, info.st_size});
  }
  return entries;
}

}  // namespace

Cache::Cache(std::string directory) : directory_(std::move(directory)) {
  std::error_code error;
  if (!fs::is_directory(directory_, error)) {
    fs::create_directories(fs::path(directory_).parent_path(), error);
    if (mkdir(directory_.c_str(), 0700) != 0 && errno != EEXIST) {
      throw std::system_error(errno, std::generic_category(), directory_);
    }
  }
  if (!fs::is_directory(directory_, error)) {
    const bool is_gone = file_stamp(directory_).empty();  // another process has removed it just now
    throw std::system_error(is_gone ? ENOENT : ENOTDIR, std::generic_category(), directory_);
  }
}

std::optional<std::string> find_entry(const std::string& directory, const std::string& name,
                                      std::string_view suffix) {
  const std::string path = directory + "/" + name + std::string(suffix);
  if (!is_own_file(path)) return std::nullopt;
  const std::optional<std::string> content = read_file(path);
  if (!content || !is_sealed(name, *content)) return std::nullopt;
  return path;
}

std::string Cache::insert(const std::string& name, const std::string& object,
                          std::string_view suffix) const {
  const std::optional<std::string> content = read_file(object);
  if (!content) throw std::system_error(errno, std::generic_category(), object);
  write_file(object, *content + trailer(name, *content));  // whole, also where it was removed now
  const std::string path = directory_ + "/" + name + std::string(suffix);
  if (chmod(object.c_str(), 0644) != 0 || rename(object.c_str(), path.c_str()) != 0) {
    throw std::system_error(errno, std::generic_category(), path);
  }
  return path;
}

std::shared_ptr<void> Cache::lock(const std::string& name, const std::function<bool()>& interrupted,
                                  double seconds) const {
  constexpr int kPollMs = 5, kLookMs = 100;
  constexpr double kTellSeconds = 3;
  bool told = false;
  const int64_t start_ns = now_ns();
  const std::string path = directory_ + "/" + name + ".lock";
  for (;;) {
    const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0) throw std::system_error(errno, std::generic_category(), path);
    auto held = std::make_shared<HeldLock>(path, file);
    int polls = 0;
    while (flock(file, LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK && errno != EINTR) return held;  // no locks on this file system
      if (interrupted && interrupted()) {
        close(file);
        held->file = -1;
        throw Interrupted({name + ": the compilation was interrupted",
                           "it was asked to stop while another process compiles this kernel",
                           "call again to compile"},
                          ErrorKind::Runtime);
      }
      poll(nullptr, 0, kPollMs);
      if (++polls % (kLookMs / kPollMs) != 0) continue;
      if (!is_same_file(file, path)) break;  // its holder has ended; a child of it has the file on
      const double waited = double(now_ns() - start_ns) * 1e-9;
      const std::string note = read_file(path).value_or("");
      if (waited > kTellSeconds && !std::exchange(told, true)) {
        warn("waiting for " + holder_of(note) + ", which compiles " + directory_ + "/" + name +
             ".so; it is compiled here as well after " + std::to_string(std::llround(seconds)) +
             " s, or when that process is stopped");
      }
      if (waited < seconds && !is_halted(note)) continue;
      close(file);
      held->file = -1;
      return held;
    }
    if (is_same_file(file, path)) {
      write_note(file);
      return held;
    }
    close(file);
    held->file = -1;
  }
}

void Cache::sweep(int64_t bytes_max, bool now) const {
  const std::string stamp = directory_ + "/swept.txt";
  if (!now && !file_stamp(stamp).empty() && age_of(stamp) < kHour) return;
  if (!replace_file(stamp, "")) return;
  std::vector<Entry> entries = collect(directory_);
  int64_t total = 0;
  for (const Entry& entry : entries) total += entry.bytes;
  if (total <= bytes_max) return;
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.used_s < b.used_s; });
  const int64_t kept = bytes_max / 10 * 8;  // room, so that the next sweeps find nothing to do
  for (const Entry& entry : entries) {
    if (total <= kept) return;
    std::error_code ignored;
    fs::remove(entry.path, ignored);
    total -= entry.bytes;
  }
}

}  // namespace pto
