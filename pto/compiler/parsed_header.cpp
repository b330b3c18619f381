// SPDX-License-Identifier: Apache-2.0
#include "pto/compiler/parsed_header.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <sstream>
#include <string_view>
#include <system_error>

#include "pto/base/file.hpp"
#include "pto/codegen/emit.hpp"
#include "pto/compiler/build.hpp"
#include "pto/compiler/noted.hpp"

namespace pto {
namespace {

namespace fs = std::filesystem;

constexpr int kKernelsBefore = 4;  // making it takes the time that four kernels save
constexpr std::string_view kSuffix = ".gch";

Noted verified, tried;
Noted lacked;  // headers of texts by hand, once for each compilation without

constexpr std::string_view kHostedInclude = "#include \"pto/pto-inst.hpp\"\n";
constexpr std::string_view kLibraryInclude = "#include \"pto/ops/";  // of the library's kernels

// True for a line that leaves the instruction set as it is: comments, inclusions of ours and of the
// standard library, numbers of lines, element types, declarations.
bool changes_nothing(std::string_view line) {
  constexpr std::string_view kHarmless[] = {"//", "#include \"pto/", "#line ", "#define PTO_TYPE_",
                                            "extern \"C\" __attribute__"};
  const auto begins = [&](std::string_view head) { return line.starts_with(head); };
  if (line.ends_with('\\')) return false;
  const bool is_standard = begins("#include <") && line.find_first_of("./") == line.npos;
  return line.empty() || is_standard ||
         std::any_of(std::begin(kHarmless), std::end(kHarmless), begins);
}

// Returns the inclusion of all instructions where a text written by hand has it with nothing in
// front that could change them; else "".
std::string_view hosted_include_of(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line + "\n" == kHostedInclude || line.starts_with(kLibraryInclude)) return kHostedInclude;
    if (!changes_nothing(line)) return "";
  }
  return "";
}

// Returns the line by which a text includes the instruction set, or "".
std::string_view include_of(const Source& source) {
  if (source.kind == Source::Hosted) return hosted_include_of(source.text);
  if (source.kind == Source::Generated)
    for (const std::string_view include : {kKernelInclude, kProgramInclude})
      if (source.text.find(include) != std::string::npos) return include;
  return "";
}

}  // namespace

ParsedHeader::ParsedHeader(const Source& source, Toolchain toolchain, Settings settings,
                           Cache cache)
    : toolchain_(std::move(toolchain)), settings_(std::move(settings)), cache_(std::move(cache)) {
  header_.name = "header";
  header_.text = std::string(include_of(source));
  header_.target = source.target;
  header_.kind = source.kind;
  header_.standard = source.standard;
  if (!header_.text.empty() && toolchain_.family == Toolchain::Gcc)
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
  // A folder is full of generated kernels, which say nothing of more texts by hand.
  if (header_.kind == Source::Hosted) return lacked.add(path()) > kKernelsBefore;
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
  if (tried.add(path()) > 1) return;
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
