// SPDX-License-Identifier: Apache-2.0
#include "pto/compiler/toolchain.hpp"

#include <elf.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <system_error>

#include "pto/base/file.hpp"
#include "pto/base/text.hpp"
#include "pto/compiler/compile_units.hpp"
#include "pto/compiler/process.hpp"
#include "pto/compiler/units.hpp"

namespace pto {
namespace {

void append(std::vector<std::string>* flags, std::string_view words) {
  std::istringstream stream{std::string(words)};
  for (std::string word; stream >> word;) flags->push_back(word);
}

bool has(const std::string& line, const char* text) { return line.find(text) != line.npos; }

// True for the lines that g++ prints before an error in a template: what was instantiated, and the
// lines that asked for it, without those in the instruction set's headers.
bool leads_to_error(const std::string& line) {
  return has(line, "In instantiation of") ||
         (has(line, "required from") && !has(line, "/pto/isa/"));
}
bool is_context(const std::string& line) {
  return leads_to_error(line) || has(line, "required from") || has(line, "In file included") ||
         line.starts_with("                 from ") || has(line, ": In ") || has(line, ": At ");
}

// Returns a compiler's output from its first error on, with the lines that led there; indented.
std::string telling_lines(const std::string& output) {
  constexpr size_t kLinesMax = 12, kColumnsMax = 400;
  std::vector<std::string> lines, told;
  std::istringstream stream(output);
  for (std::string line; std::getline(stream, line);) lines.push_back(std::move(line));
  const auto is_error = [](const std::string& line) {  // collect2 only says that the linker failed
    return has(line, "error: ") && !line.starts_with("collect2: ");
  };
  const auto error = std::find_if(lines.begin(), lines.end(), is_error);
  auto first = error == lines.end() ? lines.begin() : error;
  while (first != lines.begin() && is_context(first[-1])) --first;
  for (auto line = first; line < error && error != lines.end(); ++line)
    if (leads_to_error(*line)) told.push_back(*line);
  told.insert(told.end(), error == lines.end() ? first : error, lines.end());
  std::string all;
  for (size_t i = 0; i < told.size(); ++i) {
    if (i == kLinesMax) return all + "\n    ...";
    all += "\n    " + told[i].substr(0, kColumnsMax);
  }
  return all;
}

// Returns the error of the folder, not of the text, that a compiler's output names; else 0.
int disk_error_in(const std::string& output) {
  for (const int error : {ENOSPC, EDQUOT, EROFS, EFBIG})
    if (output.find(std::strerror(error)) != output.npos) return error;
  return 0;
}

// True for an object that has the table of its sections, which linkers write last. The system ends
// a process that reads behind the end of a mapped file.
bool is_whole(const std::string& object) {
  const std::string content = read_file(object).value_or("");
  Elf64_Ehdr head{};
  if (content.size() < sizeof head || !content.starts_with(ELFMAG)) return false;
  std::memcpy(&head, content.data(), sizeof head);
  return head.e_shoff + uint64_t(head.e_shnum) * head.e_shentsize <= content.size();
}

// True where another process has removed the folder of a compilation, or removes it just now.
bool is_removed(const std::string& text) {
  constexpr int kRemovalMs = 20;
  const auto is_there = [&] { return access(text.c_str(), F_OK) == 0; };
  return !is_there() || (poll(nullptr, 0, kRemovalMs), !is_there());
}

std::string what_happened(const ProcessResult& result, double seconds) {
  switch (result.end) {
    case ProcessResult::NotStarted:
      return std::string("could not be started: ") + std::strerror(result.code);
    case ProcessResult::TimedOut: {
      std::ostringstream text;
      text << "did not end within " << seconds << " s and was stopped";
      return text.str();
    }
    case ProcessResult::Signalled:
      return std::string("was killed by a signal: ") + strsignal(result.code);
    default:
      return result.code == 0 ? "wrote no whole object"
                              : "failed with exit status " + std::to_string(result.code);
  }
}

// True where the compiler read the text and found errors in it. For other failures, such as a
// missing program or too little memory, it reports a fatal error, or no error at all.
bool names_errors(const ProcessResult& result) {
  if (result.end != ProcessResult::Exited || result.code == 0) return false;
  const std::string& output = result.output;
  for (size_t at = output.find("error: "); at != output.npos; at = output.find("error: ", at + 1))
    if (at < 5 || output.compare(at - 5, 5, "atal ") != 0) return true;  // the assembler: Fatal
  return false;
}

// Returns "C++20" for "c++20" and "gnu++20".
std::string level_of(const Source& source) {
  return "C" + source.standard.substr(source.standard.find('+'));
}

[[noreturn]] void fail_compiler(const Toolchain& toolchain, const Source& source,
                                const ProcessResult& result, double seconds) {
  if (source.kind == Source::Generated && names_errors(result)) {
    throw RefusedCode({source.name + ": the C++ compiler " + toolchain.path +
                           " refused the code that OpenPTO generated for this function" +
                           telling_lines(result.output),
                       "every graph must compile: this is a defect of OpenPTO, not of the function",
                       "report it, or set PTO_CXX to another compiler"},
                      ErrorKind::Runtime);
  }
  const bool slow = result.end == ProcessResult::TimedOut;
  const bool ended = result.end == ProcessResult::Exited;
  const bool refused = ended && result.code != 0;
  const bool hosted = source.kind == Source::Hosted;
  const std::string why =
      refused && hosted ? "the text must be valid " + level_of(source) + " for this compiler"
      : source.kind == Source::Extension
          ? "it is built on this machine, against the headers of the installed package"
          : "a kernel is compiled on its first call";
  fail({source.name + ": the C++ compiler " + toolchain.path + " " +
            what_happened(result, seconds) + telling_lines(result.output),
        why,
        slow     ? "set PTO_COMPILE_SECONDS higher, or PTO_CXX to another compiler"
        : !ended ? "close files and programs, or set PTO_CXX to another compiler"
        : hosted ? "correct the text"
                 : "set PTO_CXX to another compiler"},
       ErrorKind::Runtime);
}

constexpr int kUnitsMost = 8;       // compilers of a text at one time
constexpr int kExtensionsMost = 2;  // those of an extension, which take half a gigabyte each
constexpr size_t kElfTypeAt = 16;
constexpr char kElfRelocatable = 1;

// A linked object must be whole: a missing function would show at the first launch only.
void add_precompiled(std::vector<std::string>* arguments, const Source& source,
                     const std::string& folder) {
  if (source.object.size() <= kElfTypeAt) return;
  const bool is_linked = source.object[kElfTypeAt] == kElfRelocatable;
  const std::string path = folder + (is_linked ? "/precompiled.o" : "/precompiled.so");
  write_file(path, source.object);
  if (is_linked) arguments->insert(arguments->end(), {path, "-Wl,--no-undefined"});
  if (!is_linked) arguments->insert(arguments->end(), {"-Xassembler", "-I" + folder});
}

std::string text_including(const std::string& file) {
  return "#include \"" + absolute_path(file) + "\"\n";
}

// Returns what compilers take side by side, and sets how many of them may run at one time; one unit
// or none where the source compiles as a whole.
std::vector<Unit> side_by_side(const Source& source, int* most) {
  if (source.kind == Source::Generated && source.object.empty()) {
    const std::vector<Unit> units = units_of(source.text, std::min(machine().cores, kUnitsMost));
    *most = static_cast<int>(units.size());
    return units;
  }
  std::vector<Unit> units;
  *most = std::min(machine().cores, kExtensionsMost);
  if (source.is_apart)
    for (const std::string& file : source.files) units.push_back({text_including(file)});
  return units;
}

}  // namespace

double compile_seconds(const Source& source, const Settings& settings) {
  constexpr double kExtension = 10;  // a framework's headers take a minute where a kernel takes 1 s
  return settings.compile_seconds * (source.kind == Source::Extension ? kExtension : 1);
}

// In wider moves g++ 12 copies numbers that end in zeros behind equal ones as those: {8, 8, 0, 0}
// becomes {8, 8, 8, 8}.
std::string_view move_flags(const Toolchain& toolchain, Target target) {
  const bool moves_wide = toolchain.family == Toolchain::Gcc && target != Target::Portable;
  return moves_wide ? "-mmove-max=128 -mstore-max=128" : "";
}

std::vector<std::string> compile_flags(const Toolchain& toolchain, const Source& source) {
  std::vector<std::string> flags;
  if (source.kind == Source::Extension) {
    append(&flags, "-O2 -fPIC -shared -pipe");
    flags.insert(flags.end(), source.options.begin(), source.options.end());
    return flags;
  }
  append(&flags, "-std=" + source.standard +
                     " -O2 -fPIC -shared -fvisibility=hidden -fno-math-errno -fno-trapping-math "
                     "-ffp-contract=off -pipe");
  append(&flags, target_flags(source.target));
  if (source.kind == Source::Generated && machine().is_zen4) append(&flags, "-DPTO_ZEN4");
  if (toolchain.family == Toolchain::Gcc) append(&flags, "-fno-gnu-unique -fno-use-linker-plugin");
  append(&flags, move_flags(toolchain, source.target));
  if (source.kind == Source::Generated) {
    append(&flags,
           "-w -fno-exceptions -fno-rtti -fno-asynchronous-unwind-tables -fno-unwind-tables "
           "-nostdlib");
  }
  return flags;
}

std::vector<std::string> part_command(const Toolchain& toolchain, const Source& source,
                                      const Settings& settings) {
  std::vector<std::string> arguments{toolchain.path};
  for (const std::string& flag : compile_flags(toolchain, source))
    if (flag != "-shared" && flag != "-nostdlib") arguments.push_back(flag);
  arguments.insert(arguments.end(), source.folders.begin(), source.folders.end());
  arguments.push_back("-I" + settings.include_directory);
  return arguments;
}

// libpto brings the mathematics library and the C library along.
std::vector<std::string> link_arguments(const Source& source) {
  std::vector<std::string> arguments = source.links;
  const std::string library = runtime_library();
  if (!library.empty()) arguments.push_back(library);
  if (library.empty() && source.kind == Source::Generated)
    arguments.insert(arguments.end(), {"-lm", "-lc"});
  return arguments;
}

void fail_interrupted(const Source& source) {
  throw Interrupted({source.name + ": the compilation was interrupted", "it was asked to stop",
                     "call again to compile"},
                    ErrorKind::Runtime);
}

std::string compile_object(const Toolchain& toolchain, const Source& source,
                           const std::string& folder, const Settings& settings,
                           const std::function<bool()>& interrupted) {
  const std::string stem = folder + "/" + file_name_of(source.name);
  const std::string object = stem + ".so";
  int most = 1;
  const std::vector<Unit> units = side_by_side(source, &most);
  if (units.size() > 1 &&
      compile_units(units, most, toolchain, source, folder, object, settings, interrupted) &&
      is_whole(object))
    return object;
  write_file(stem + ".cpp", source.text + joined(source.files, "", text_including));

  std::vector<std::string> arguments{toolchain.path};
  const auto add = [&arguments](const std::vector<std::string>& more) {
    arguments.insert(arguments.end(), more.begin(), more.end());
  };
  add(compile_flags(toolchain, source));
  add(source.folders);
  add({"-I" + settings.include_directory, stem + ".cpp", "-o", object});
  add_precompiled(&arguments, source, folder);
  add(link_arguments(source));

  const ProcessOptions options{compile_seconds(source, settings), folder, interrupted};
  const ProcessResult result = run_process(arguments, options);
  if (result.end == ProcessResult::Interrupted) fail_interrupted(source);
  if (result.succeeded() && is_whole(object)) return object;
  if (const int error = disk_error_in(result.output))
    throw std::system_error(error, std::generic_category(), folder);
  if (is_removed(stem + ".cpp")) throw std::system_error(ENOENT, std::generic_category(), folder);
  write_file(
      folder + "/output.log",
      joined(arguments, " ", [](const std::string& word) { return word; }) + "\n" + result.output);
  fail_compiler(toolchain, source, result, options.seconds);
}

std::string parse_header(const Toolchain& toolchain, const Source& header,
                         const std::string& folder, const Settings& settings,
                         const std::function<bool()>& interrupted) {
  const std::string text = folder + "/" + header.name + ".hpp", made = text + ".gch";
  write_file(text, header.text);
  std::vector<std::string> arguments = part_command(toolchain, header, settings);
  arguments.insert(arguments.end(), {"-x", "c++-header", text, "-o", made});
  const bool good =
      run_process(arguments, {compile_seconds(header, settings), folder, interrupted}).succeeded();
  return good && access(made.c_str(), R_OK) == 0 ? made : "";
}

}  // namespace pto
