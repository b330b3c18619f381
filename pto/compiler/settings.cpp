// SPDX-License-Identifier: Apache-2.0
#include "pto/compiler/settings.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>

#include "pto/abi/host.h"
#include "pto/base/error.hpp"
#include "pto/base/file.hpp"

namespace pto {
namespace {

namespace fs = std::filesystem;

std::mutex mutex;
Settings given;  // values that calls have set
std::function<void(const std::string&)> warning_handler;

std::string environment(const char* variable) {
  const char* value = std::getenv(variable);
  return value == nullptr ? "" : value;
}

double positive_number(const char* variable, double otherwise) {
  const std::string value = environment(variable);
  if (value.empty()) return otherwise;
  double number = 0;
  const auto [stop, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error == std::errc() && stop == value.data() + value.size() && number > 0) return number;
  fail({std::string(variable) + " is \"" + value + "\"", "it must be a number above 0",
        std::string("unset ") + variable + " or set such a number"});
}

// Returns the file that holds the code at `address`.
std::string file_of(const void* address) {
  Dl_info info{};
  if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) return "";
  return info.dli_fname;
}

// Returns the nearest folder above `file` that holds the headers.
std::string headers_above(const std::string& file) {
  std::error_code error;
  for (fs::path at = fs::absolute(file, error).parent_path(); !at.empty(); at = at.parent_path()) {
    if (fs::exists(at / "pto/abi/host.h", error)) return at;
    if (at == at.parent_path()) break;
  }
  return "";
}

std::string find_headers() {
  static const std::string found = [] {
    const std::string near = headers_above(file_of(reinterpret_cast<void*>(&find_headers)));
    return near.empty() ? headers_above(runtime_library()) : near;
  }();
  if (!found.empty()) return found;
  fail({"the headers of the instruction set (pto/isa) were not found",
        "compiled kernels include them; they lie beside the installed package or in the checkout",
        "set PTO_INCLUDE_DIR to the folder that contains pto/isa"},
       ErrorKind::Runtime);
}

std::string default_cache_directory() {
  const std::string cache = environment("XDG_CACHE_HOME");
  if (!cache.empty()) return cache + "/openpto";
  const std::string home = environment("HOME");
  return (home.empty() ? std::string("/tmp") : home) + "/.cache/openpto";
}

std::string first_of(const std::string& a, const std::string& b) { return a.empty() ? b : a; }

}  // namespace

Settings settings() {
  Settings now;
  {
    const std::lock_guard lock(mutex);
    now = given;
  }
  now.compiler = first_of(now.compiler, environment("PTO_CXX"));
  now.include_directory = first_of(now.include_directory, environment("PTO_INCLUDE_DIR"));
  if (now.include_directory.empty()) now.include_directory = find_headers();
  now.cache_directory = first_of(now.cache_directory, environment("PTO_CACHE_DIR"));
  if (now.cache_directory.empty()) now.cache_directory = default_cache_directory();
  now.include_directory = absolute_path(now.include_directory);
  now.cache_directory = absolute_path(now.cache_directory);
  now.cache_bytes =
      static_cast<int64_t>(std::min(positive_number("PTO_CACHE_BYTES", 1 << 30), 0x1p62));
  now.compile_seconds = positive_number("PTO_COMPILE_SECONDS", 120);
  return now;
}

void set_compiler(std::string compiler) {
  const std::lock_guard lock(mutex);
  given.compiler = std::move(compiler);
}

void set_include_directory(std::string directory) {
  const std::lock_guard lock(mutex);
  given.include_directory = std::move(directory);
}

void set_cache_directory(std::string directory) {
  const std::lock_guard lock(mutex);
  given.cache_directory = std::move(directory);
}

void set_warning_handler(std::function<void(const std::string&)> handler) {
  const std::lock_guard lock(mutex);
  warning_handler = std::move(handler);
}

void warn(const std::string& text) {
  std::function<void(const std::string&)> handler;
  {
    const std::lock_guard lock(mutex);
    handler = warning_handler;
  }
  if (handler) return handler(text);
  std::fprintf(stderr, "pto: warning: %s\n", text.c_str());
}

std::string runtime_library() {
  const std::string file = file_of(reinterpret_cast<void*>(&pto_malloc));
  return fs::path(file).filename().string().rfind("libpto.so", 0) == 0 ? file : "";
}

}  // namespace pto
