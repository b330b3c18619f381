// SPDX-License-Identifier: Apache-2.0
#include "pto/base/file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace pto {

std::optional<std::string> read_file(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return std::nullopt;
  struct stat info {};
  fstat(file, &info);
  std::string content(static_cast<size_t>(info.st_size), '\0');
  size_t total = 0;
  for (;;) {
    if (total == content.size()) content.resize(total + 4096);  // also detects the end
    const ssize_t count = read(file, content.data() + total, content.size() - total);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      close(file);
      return std::nullopt;
    }
    if (count == 0) break;
    total += static_cast<size_t>(count);
  }
  close(file);
  content.resize(total);
  return content;
}

namespace {

// Writes everything and closes the file; false, with errno, where that failed.
bool write_and_close(int file, std::string_view content) {
  bool good = true;
  while (good && !content.empty()) {
    const ssize_t count = write(file, content.data(), content.size());
    if (count < 0 && errno == EINTR) continue;
    good = count > 0;
    if (good) content.remove_prefix(static_cast<size_t>(count));
  }
  const int error = errno;
  const bool closed = close(file) == 0;
  if (!good) errno = error;
  return good && closed;
}

}  // namespace

void write_file(const std::string& path, std::string_view content, bool append) {
  const int mode = append ? O_APPEND : O_TRUNC;
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | mode, 0644);
  if (file < 0 || !write_and_close(file, content))
    throw std::system_error(errno, std::generic_category(), path);
}

bool replace_file(const std::string& path, std::string_view content) {
  static std::atomic<int> counter{0};
  std::string beside;
  int file = -1;
  do {  // a process of another container may have this number too
    beside = path + "." + std::to_string(getpid()) + "-" + std::to_string(counter++) + ".tmp";
    file = open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  } while (file < 0 && errno == EEXIST);
  if (file < 0) return false;
  if (write_and_close(file, content) && rename(beside.c_str(), path.c_str()) == 0) return true;
  unlink(beside.c_str());
  return false;
}

WorkFolder::WorkFolder(const std::string& parent, const std::string& prefix)
    : path_(parent + "/" + prefix + "XXXXXX") {
  if (mkdtemp(path_.data()) == nullptr) {
    throw std::system_error(errno, std::generic_category(), parent);
  }
}

WorkFolder::~WorkFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string file_stamp(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return "";
  std::error_code error;
  const std::string real = std::filesystem::canonical(path, error).string();
  const auto& changed = info.st_ctim;
  return path + "|" + real + "|" + std::to_string(info.st_ino) + "|" +
         std::to_string(info.st_size) + "|" + std::to_string(changed.tv_sec) + "." +
         std::to_string(changed.tv_nsec);
}

std::string temporary_directory() {
  const char* folder = std::getenv("TMPDIR");
  return folder == nullptr || *folder == '\0' ? "/tmp" : absolute_path(folder);
}

std::string absolute_path(const std::string& path) {
  std::error_code error;
  const std::filesystem::path whole = std::filesystem::absolute(path, error);
  return error ? path : whole.string();
}

std::string file_name_of(const std::string& name) {
  constexpr size_t kLengthMax = 40;
  std::string file;
  for (const char c : name.substr(0, kLengthMax)) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (plain) file += c;
    if (!plain && !file.empty() && file.back() != '_') file += '_';
  }
  while (!file.empty() && file.back() == '_') file.pop_back();
  return file.empty() ? "kernel" : file;
}

}  // namespace pto
