// SPDX-License-Identifier: Apache-2.0
#include "pto/tasks/book/trace_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cinttypes>
#include <cstdlib>
#include <cstring>

#include "pto/base/error.hpp"

namespace pto {
namespace {

// Follows links, so that what a link names is replaced and not the link.
std::string place_of(const std::string& path) {
  char* const real = ::realpath(path.c_str(), nullptr);
  const std::string place = real == nullptr ? path : real;
  std::free(real);
  return place;
}

bool is_other_than_plain(const std::string& path) {
  struct stat about;
  return ::stat(path.c_str(), &about) == 0 && !S_ISREG(about.st_mode);
}

}  // namespace

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (c == '\n') result += "\\n";
    if (static_cast<unsigned char>(c) >= 32) result += c;
  }
  return result + "\"";
}

TraceFile::TraceFile(const std::string& path, const std::string& process)
    : path_(path), place_(place_of(path)), written_(place_) {
  if (is_other_than_plain(place_)) {
    file_ = std::fopen(place_.c_str(), "w");
  } else {
    static std::atomic<int> made{0};
    written_ += "." + std::to_string(::getpid()) + "-" + std::to_string(made++) + ".part";
    const int file = ::open(written_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file >= 0) file_ = ::fdopen(file, "w");
  }
  if (file_ == nullptr) refuse();
  std::fprintf(file_,
               "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n"
               "{\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",\"args\":{\"name\":%s}}",
               quoted(process).c_str());
}

TraceFile::~TraceFile() {
  if (file_ == nullptr) return;
  std::fclose(file_);
  if (written_ != place_) ::unlink(written_.c_str());
}

void TraceFile::name_lane(int lane, const std::string& name) {
  std::fprintf(file_,
               ",\n{\"ph\":\"M\",\"pid\":1,\"tid\":%d,\"name\":\"thread_name\","
               "\"args\":{\"name\":%s}}",
               lane, quoted(name).c_str());
}

void TraceFile::slice(int lane, uint64_t start_ns, uint64_t duration_ns, const std::string& name,
                      const std::string& arguments, bool has_failed) {
  std::fprintf(file_,
               ",\n{\"ph\":\"X\",\"pid\":1,\"tid\":%d,\"ts\":%" PRIu64 ".%03d,\"dur\":%" PRIu64
               ".%03d,\"name\":%s,%s\"args\":{%s}}",
               lane, start_ns / 1000, int(start_ns % 1000), duration_ns / 1000,
               int(duration_ns % 1000), quoted(name).c_str(),
               has_failed ? "\"cname\":\"terrible\"," : "", arguments.c_str());
  if (std::ferror(file_)) refuse();
}

void TraceFile::arrow(int from_lane, uint64_t from_ns, int to_lane, uint64_t to_ns) {
  ++arrows_;
  std::fprintf(file_,
               ",\n{\"ph\":\"s\",\"pid\":1,\"tid\":%d,\"ts\":%.3f,\"id\":%zu,\"name\":\"follows\","
               "\"cat\":\"edge\"},\n{\"ph\":\"f\",\"bp\":\"e\",\"pid\":1,\"tid\":%d,\"ts\":%.3f,"
               "\"id\":%zu,\"name\":\"follows\",\"cat\":\"edge\"}",
               from_lane, double(from_ns) / 1e3, arrows_, to_lane, double(to_ns) / 1e3, arrows_);
}

void TraceFile::memory(char phase, uint64_t number, uint64_t at_ns, const std::string& arguments) {
  std::fprintf(file_,
               ",\n{\"ph\":\"%c\",\"pid\":1,\"tid\":0,\"ts\":%" PRIu64 ".%03d,\"id\":%" PRIu64
               ",\"name\":\"memory\",\"args\":{%s}}",
               phase, at_ns / 1000, int(at_ns % 1000), number, arguments.c_str());
  if (std::ferror(file_)) refuse();
}

void TraceFile::allocated(uint64_t number, uint64_t at_ns, const std::string& arguments) {
  memory('N', number, at_ns, arguments);
}

void TraceFile::freed(uint64_t number, uint64_t at_ns) { memory('D', number, at_ns, ""); }

void TraceFile::finish(const std::string& other) {
  std::fprintf(file_, "\n],\"otherData\":{%s}}\n", other.c_str());
  if (std::fflush(file_) != 0 || std::ferror(file_)) refuse();
  std::FILE* const file = file_;
  file_ = nullptr;
  const bool is_written = std::fclose(file) == 0;
  const bool is_placed =
      is_written && (written_ == place_ || std::rename(written_.c_str(), place_.c_str()) == 0);
  if (is_placed) return;
  const int error = errno;
  if (written_ != place_) ::unlink(written_.c_str());
  errno = error;
  refuse();
}

void TraceFile::refuse() {
  const std::string why = std::strerror(errno);
  if (file_ != nullptr) {
    std::fclose(file_);
    if (written_ != place_) ::unlink(written_.c_str());
    file_ = nullptr;
  }
  fail({"the trace cannot be written to " + path_ + ": " + why,
        "its folder must exist, take new files and have room",
        "pass another path, or make room there"},
       ErrorKind::Runtime);
}

}  // namespace pto
