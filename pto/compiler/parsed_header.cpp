// SPDX-License-Identifier: Apache-2.0
#include "pto/compiler/parsed_header.hpp"

#include <sys/stat.h>

#include <filesystem>
#include <mutex>
#include <set>
#include <system_error>

#include "pto/base/file.hpp"
#include "pto/codegen/emit.hpp"
#include "pto/compiler/build.hpp"

namespace pto {
namespace {

namespace fs = std::filesystem;

constexpr int kKernelsBefore = 4;  // making it takes the time that four kernels save
constexpr std::string_view kSuffix = ".gch";

// A set of texts that many threads use.
class Noted {
 public:
  // False where it was noted before.
  bool add(const std::string& text) {
    const std::lock_guard lock(mutex_);
    return texts_.insert(text).second;
  }
  bool has(const std::string& text) {
    const std::lock_guard lock(mutex_);
    return texts_.count(text) != 0;
  }

 private:
  std::mutex mutex_;
  std::set<std::string> texts_;
};

Noted verified, tried;

// Returns the line by which a generated text includes the instruction set, or "".
std::string_view include_of(const std::string& text) {
  for (const std::string_view include : {kKernelInclude, kProgramInclude})
    if (text.find(include) != std::string::npos) return include;
  return "";
}

}  // namespace

ParsedHeader::ParsedHeader(const Source& source, Toolchain toolchain, Settings settings,
                           Cache cache)
    : toolchain_(std::move(toolchain)), settings_(std::move(settings)), cache_(std::move(cache)) {
  header_.name = "header";
  header_.text = std::string(include_of(source.text));
  header_.target = source.target;
  const bool is_generated = source.kind == Source::Generated;
  if (is_generated && !header_.text.empty() && toolchain_.family == Toolchain::Gcc)
    entry_ = "header-" + source_digest(header_, toolchain_, settings_.include_directory);
}

bool ParsedHeader::find() const {
  if (entry_.empty()) return false;
  const std::string stamp = file_stamp(path());
  if (stamp.empty()) return false;
  if (!verified.has(stamp) && !cache_.find(entry_, kSuffix)) return false;
  verified.add(file_stamp(path()));  // to find an entry may have marked it as used
  return true;
}

bool ParsedHeader::pays() const {
  if (entry_.empty() || tried.has(path())) return false;
  int kernels = 0;
  std::error_code error;
  for (fs::directory_iterator at(cache_.directory(), error), end; at != end; at.increment(error))
    if (at->path().extension() == ".so" && ++kernels == kKernelsBefore) return true;
  return false;
}

Source ParsedHeader::used_by(Source source) const {
  source.folders.insert(source.folders.end(), {"-include", cache_.directory() + "/" + entry_});
  return source;
}

void ParsedHeader::make(const std::function<bool()>& interrupted) const {
  if (!tried.add(path())) return;
  try {
    const WorkFolder work(cache_.directory(), "work-");
    const std::string made = parse_header(toolchain_, header_, work.path(), settings_, interrupted);
    if (!made.empty()) cache_.insert(entry_, made, kSuffix);
  } catch (const std::system_error&) {  // no room: kernels compile without it
  }
}

void ParsedHeader::remove() const {
  tried.add(path());
  std::error_code ignored;
  fs::remove(path(), ignored);
}

}  // namespace pto
