// SPDX-License-Identifier: Apache-2.0
// find_toolchain(): finds the compiler of this machine, and whether it is new enough.
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <optional>
#include <sstream>
#include <system_error>

#include "pto/base/file.hpp"
#include "pto/base/of_process.hpp"
#include "pto/base/sha256.hpp"
#include "pto/compiler/cache.hpp"
#include "pto/compiler/process.hpp"
#include "pto/compiler/toolchain.hpp"

namespace pto {
namespace {

constexpr int kGccMin = 12, kClangMin = 14;
constexpr const char* kNames[] = {"g++",        "c++",        "clang++",    "g++-15",
                                  "g++-14",     "g++-13",     "g++-12",     "clang++-20",
                                  "clang++-19", "clang++-18", "clang++-17", "clang++-16",
                                  "clang++-15", "clang++-14"};
constexpr const char* kInstall =
    "install g++ 12 or later (apt install g++) or clang 14 or later, or set PTO_CXX to one";

bool is_program(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && access(path.c_str(), X_OK) == 0;
}

// Returns the path of a program on PATH; "" without one. A name with a slash is a path.
std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return is_program(name) ? name : "";
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "/usr/bin:/bin" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string candidate = (folder.empty() ? "." : folder) + "/" + name;
    if (is_program(candidate)) return candidate;
  }
  return "";
}

// Returns the value of a predefined macro in the output of -dM -E.
std::string macro(const std::string& definitions, const std::string& name) {
  const std::string prefix = "#define " + name + " ";
  const size_t at = definitions.find(prefix);
  if (at == std::string::npos) return "";
  const size_t begin = at + prefix.size();
  return definitions.substr(begin, definitions.find('\n', begin) - begin);
}

// Asks the compiler for its version, in one line: "gcc 12 \"12.2.0\""; or why it cannot be used.
std::string ask(const std::string& path, bool* usable) {
  ProcessOptions options;
  options.seconds = 10;  // Ctrl-C is not seen meanwhile
  const ProcessResult result = run_process({path, "-dM", "-E", "-x", "c++", "/dev/null"}, options);
  *usable = false;
  if (result.end == ProcessResult::TimedOut) return "gave no answer within 10 s";
  if (!result.succeeded()) {
    const std::string first = result.output.substr(0, result.output.find('\n'));
    return "fails when asked for its version" + (first.empty() ? "" : ": " + first);
  }
  const bool clang = !macro(result.output, "__clang_major__").empty();
  const std::string major = macro(result.output, clang ? "__clang_major__" : "__GNUC__");
  if (major.empty()) return "is no C++ compiler: it defines neither __GNUC__ nor __clang_major__";
  *usable = true;
  return std::string(clang ? "clang " : "gcc ") + major + " " + macro(result.output, "__VERSION__");
}

// Calls ask() once, and keeps the answer in the cache folder while the program's file stays the
// same.
std::string ask_once(const std::string& path, const std::string& stamp, const Settings& settings,
                     bool* usable) {
  const std::string key = hex(Sha256().field("compiler").field(stamp).digest());
  const std::string memo = settings.cache_directory + "/compiler-" + key.substr(0, 32) + ".txt";
  std::string answer = read_file(memo).value_or("");
  *usable = answer.rfind("gcc ", 0) == 0 || answer.rfind("clang ", 0) == 0;
  if (*usable) return answer;
  answer = ask(path, usable);
  if (!*usable) return answer;
  try {
    const Cache folder(settings.cache_directory);  // makes the folder
    replace_file(memo, answer);
  } catch (const std::system_error&) {  // without the folder the next process asks again, in 10 ms
  }
  return answer;
}

// Returns the toolchain at `path`, or why it cannot be used.
std::optional<Toolchain> examine(const std::string& path, const Settings& settings,
                                 std::string* why_not) {
  const std::string stamp = file_stamp(path);
  bool usable = false;
  const std::string answer = ask_once(path, stamp, settings, &usable);
  if (!usable) {
    *why_not = path + " " + answer;
    return std::nullopt;
  }
  Toolchain toolchain;
  std::istringstream words(answer);
  std::string family;
  words >> family >> toolchain.major;
  std::getline(words >> std::ws, toolchain.version);
  toolchain.family = family == "clang" ? Toolchain::Clang : Toolchain::Gcc;
  toolchain.path = path;
  toolchain.identity = answer + "|" + stamp;
  const int least = toolchain.family == Toolchain::Clang ? kClangMin : kGccMin;
  if (toolchain.major >= least) return toolchain;
  *why_not = path + " is " + family + " " + std::to_string(toolchain.major) + ", at least " +
             std::to_string(least) + " is needed";
  return std::nullopt;
}

Toolchain find_named(const Settings& settings) {
  const std::string path = find_program(settings.compiler);
  if (path.empty()) {
    fail({"the C++ compiler \"" + settings.compiler + "\" was not found or is not executable",
          "PTO_CXX (or the compiler setting) names the program that compiles kernels",
          "set it to a compiler's name or path, or unset it to use the first one on PATH"},
         ErrorKind::Runtime);
  }
  std::string why_not;
  if (auto toolchain = examine(path, settings, &why_not)) return *toolchain;
  fail({"the C++ compiler that PTO_CXX or the compiler setting names cannot be used: " + why_not,
        "kernels are compiled by g++ 12 or later or clang 14 or later", kInstall},
       ErrorKind::Runtime);
}

Toolchain find_first(const Settings& settings) {
  std::string refused;
  for (const char* name : kNames) {
    const std::string path = find_program(name);
    if (path.empty()) continue;
    std::string why_not;
    if (auto toolchain = examine(path, settings, &why_not)) return *toolchain;
    refused += (refused.empty() ? "" : "; ") + why_not;
  }
  fail(
      {"no C++ compiler was found on PATH" +
           (refused.empty() ? "" : " that can be used: " + refused),
       "a kernel is compiled on its first call, by g++ 12 or later or clang 14 or later", kInstall},
      ErrorKind::Runtime);
}

// Stays right while the question and the program's file stay the same.
struct LastAnswer {
  std::mutex mutex;
  std::array<std::string, 2> question;
  std::string stamp;
  Toolchain answer;
};

}  // namespace

Toolchain find_toolchain(const Settings& settings) {
  auto& [mutex, question, stamp, answer] = of_process<LastAnswer>();
  const char* path = std::getenv("PATH");
  const std::array<std::string, 2> asked{settings.compiler, path == nullptr ? "" : path};
  const std::lock_guard lock(mutex);
  if (asked == question && !stamp.empty() && file_stamp(answer.path) == stamp) return answer;
  stamp.clear();
  answer = settings.compiler.empty() ? find_first(settings) : find_named(settings);
  question = asked;
  stamp = file_stamp(answer.path);
  return answer;
}

}  // namespace pto
