// SPDX-License-Identifier: Apache-2.0
// Settings of the compiler: the value of a call, else of the environment, else the default.
//
//     set_compiler("clang++");            // PTO_CXX; default: the first usable of a list
//     set_cache_directory("/scratch/c");  // PTO_CACHE_DIR; default $XDG_CACHE_HOME/openpto
//     settings().cache_bytes;             // PTO_CACHE_BYTES, 1 GB
//
// Thread safety: all functions may be called from any thread; a compilation under way keeps the
// settings that it began with.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace pto {

struct Settings {
  std::string compiler;           // name or path; "": search. PTO_CXX
  std::string include_directory;  // the folder that holds pto/isa. PTO_INCLUDE_DIR
  std::string cache_directory;    // PTO_CACHE_DIR
  int64_t cache_bytes = 0;        // beyond it the least recently used entries go. PTO_CACHE_BYTES
  double compile_seconds = 0;     // after them the compiler is killed. PTO_COMPILE_SECONDS
};

// Throws pto::Error for a variable that is no number, and where no include folder is found.
Settings settings();

// An empty text brings back the environment's value, or the default.
void set_compiler(std::string compiler);
void set_include_directory(std::string directory);
void set_cache_directory(std::string directory);

// Receives warnings ("the cache folder cannot be written"); null: standard error.
void set_warning_handler(std::function<void(const std::string&)> handler);
void warn(const std::string& text);

// Returns the libpto.so that this process has loaded, which kernels link; "" for a static link.
std::string runtime_library();

}  // namespace pto
