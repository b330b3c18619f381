// SPDX-License-Identifier: Apache-2.0
#include "pto/compiler/build.hpp"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <thread>
#include <vector>

#include "pto/abi/host.h"
#include "pto/base/file.hpp"
#include "pto/base/of_process.hpp"
#include "pto/base/sha256.hpp"
#include "pto/compiler/cache.hpp"
#include "pto/compiler/parsed_header.hpp"

namespace pto {
namespace {

namespace fs = std::filesystem;

// Returns the digest, by relative path and content, of the headers that compiled text may include:
// those in pto/ itself, and in the rooms that kernels and orchestrations see.
std::string read_headers_digest(const std::string& include_directory) {
  std::vector<fs::path> headers;
  std::error_code error;
  const fs::path root = fs::path(include_directory) / "pto";
  for (const fs::directory_entry& item : fs::directory_iterator(root, error)) {
    const std::string kind = item.path().extension().string();
    if (kind == ".hpp" || kind == ".h") headers.push_back(item.path());
  }
  for (const char* room : {"abi", "base", "isa", "operators", "ops", "tasks"}) {
    for (fs::recursive_directory_iterator at(root / room, error), end; at != end;
         at.increment(error)) {
      const std::string kind = at->path().extension().string();
      if (kind == ".hpp" || kind == ".h" || kind == ".def") headers.push_back(at->path());
    }
  }
  std::sort(headers.begin(), headers.end());
  Sha256 all;
  for (const fs::path& header : headers) {
    all.field(header.lexically_relative(root).string()).field(read_file(header).value_or(""));
  }
  return hex(all.digest());
}

struct KnownDigests {
  std::mutex mutex;
  std::map<std::string, std::string> of;  // folders
};

std::string headers_digest(const std::string& include_directory) {
  auto& [mutex, known] = of_process<KnownDigests>();
  const std::lock_guard lock(mutex);
  std::string& digest = known[include_directory];
  if (digest.empty()) digest = read_headers_digest(include_directory);
  return digest;
}

// Returns "pto/x.hpp" for the line #include "pto/x.hpp"; else "".
std::string included_by(const std::string& line) {
  std::istringstream words(line);
  std::string directive, name;
  words >> directive;
  if (directive == "#") words >> directive;
  const bool is_include = directive == "#include" || directive == "include";
  if (!is_include || !(words >> name) || !name.starts_with("\"pto/")) return "";
  return name.substr(1, name.find('"', 1) - 1);
}

// Adds the files and every header of ours that they include, directly or through others, each once.
void add_files(const std::vector<std::string>& files, const std::string& include_directory,
               Sha256* all) {
  std::vector<std::string> waiting(files.rbegin(), files.rend());
  std::set<std::string> seen(files.begin(), files.end());
  while (!waiting.empty()) {
    const std::string path = waiting.back();
    waiting.pop_back();
    const std::optional<std::string> text = read_file(path);
    const bool is_own = std::find(files.begin(), files.end(), path) != files.end();
    if (!text && is_own) {
      fail({"the source " + path + " cannot be read", "it is compiled for the installed package",
            "install OpenPTO again, or pass the path of a file that exists"},
           ErrorKind::Runtime);
    }
    all->field(text.value_or(""));
    std::istringstream lines(text.value_or(""));
    for (std::string line; std::getline(lines, line);) {
      const std::string name = included_by(line);
      const std::string header = include_directory + "/" + name;
      if (!name.empty() && seen.insert(header).second) waiting.push_back(header);
    }
  }
}

// Keeps the source of a failed compilation, or an extension's output, and adds its place to the
// error.
template <class AnyError>
[[noreturn]] void rethrow_with_evidence(const AnyError& error, const Build& build,
                                        const std::string& work, const std::string& folder) {
  const Source& source = build.source();
  const bool is_extension = source.kind == Source::Extension;
  const size_t left_out = 48;  // of the digest's 64 figures
  const std::string entry = build.entry().substr(0, build.entry().size() - left_out);
  const std::string kept = folder + "/failed-" + entry + (is_extension ? ".log" : ".cpp");
  const std::string text =
      is_extension ? read_file(work + "/output.log").value_or("") : source.text;
  ErrorText told = error.text();
  if (replace_file(kept, text))
    told.fix +=
        (is_extension ? "; the whole output is kept in " : "; the source is kept in ") + kept;
  throw AnyError(told, error.kind());
}

}  // namespace

std::string source_digest(const Source& source, const Toolchain& toolchain,
                          const std::string& include_directory) {
  Sha256 all;
  if (source.kind == Source::Extension) {
    add_files(source.files, include_directory, &all);
    all.field(std::to_string(source.identity.size()));
    for (const std::string& one : source.identity) all.field(one);
    all.field(source.is_apart ? "apart" : "together");
  } else {
    all.field(source.text).field(headers_digest(include_directory));
  }
  for (const std::string& flag : compile_flags(toolchain, source)) all.field(flag);
  all.field(toolchain.identity).field(name(source.target));
  all.field(std::to_string(PTO_ABI_VERSION)).field(source.object);
  return hex(all.digest());
}

Build::Build(Source source, Settings settings, std::string folder)
    : source_(std::move(source)),
      settings_(std::move(settings)),
      folder_(folder.empty() ? settings_.cache_directory : absolute_path(folder)) {
  try {
    take(find_toolchain(settings_));
  } catch (const Error&) {
    for (Toolchain& gone : recorded_toolchains(folder_)) {
      take(std::move(gone));
      if (find()) return;
    }
    throw;
  }
}

void Build::take(Toolchain toolchain) {
  toolchain_ = std::move(toolchain);
  entry_ = file_name_of(source_.name) + "-" +
           source_digest(source_, toolchain_, settings_.include_directory);
}

std::optional<std::string> Build::find() const { return find_entry(folder_, entry_); }

std::string Build::run(const std::function<bool()>& interrupted, bool again) const {
  const Cache cache(folder_);
  const auto is_there = [&] { return again ? std::nullopt : cache.find(entry_); };
  if (const auto path = is_there()) {
    record_toolchain(toolchain_, folder_);  // the folder may be new, or a copy
    return *path;
  }
  const auto lock = cache.lock(entry_, interrupted, compile_seconds(source_, settings_));
  if (const auto path = is_there()) return *path;
  const WorkFolder work(folder_, "work-");
  const std::string path =
      cache.insert(entry_, compile_with_header(work.path(), cache, interrupted));
  record_toolchain(toolchain_, folder_);
  // A kernel is compiled again on its next call, an extension only when somebody asks for it.
  const bool stays = source_.kind == Source::Extension;
  cache.sweep(stays ? std::numeric_limits<int64_t>::max() : settings_.cache_bytes);
  return path;
}

std::string Build::compile_with_header(const std::string& work, const Cache& cache,
                                       const std::function<bool()>& interrupted) const {
  const ParsedHeader header(source_, toolchain_, settings_, cache);
  if (header.find()) {
    try {
      return compile_object(toolchain_, header.used_by(source_), work, settings_, interrupted);
    } catch (const Interrupted&) {
      throw;
    } catch (const Error&) {  // the compiler cannot use the header, or the text has an error
      std::string object = compile(work, folder_, interrupted);
      header.remove();
      return object;
    }
  }
  std::jthread making;
  const auto make_header = [&header](const std::stop_token& stop) {
    header.make([&stop] { return stop.stop_requested(); });
  };
  try {
    if (header.pays()) making = std::jthread(make_header);
  } catch (const std::system_error&) {  // no thread is to be had: a later compilation makes it
  }
  std::string object = compile(work, folder_, interrupted);  // where it throws, making stops
  if (making.joinable()) making.join();
  return object;
}

std::string Build::compile(const std::string& work, const std::string& kept,
                           const std::function<bool()>& interrupted) const {
  try {
    return compile_object(toolchain_, source_, work, settings_, interrupted);
  } catch (const Interrupted&) {
    throw;
  } catch (const RefusedCode& error) {
    rethrow_with_evidence(error, *this, work, kept);
  } catch (const Error& error) {
    rethrow_with_evidence(error, *this, work, kept);
  }
}

}  // namespace pto
