// SPDX-License-Identifier: Apache-2.0
#include "pto/compiler/compile_units.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>

#include "pto/base/file.hpp"
#include "pto/compiler/process.hpp"

namespace pto {
namespace {

bool link_units(const std::vector<std::string>& objects, const Toolchain& toolchain,
                const Source& source, const std::string& object, const ProcessOptions& options) {
  const bool is_generated = source.kind == Source::Generated;
  std::vector<std::string> arguments{toolchain.path, "-shared"};
  if (is_generated) arguments.push_back("-nostdlib");
  if (is_generated && toolchain.family == Toolchain::Gcc)
    arguments.push_back("-fno-use-linker-plugin");
  arguments.insert(arguments.end(), objects.begin(), objects.end());
  arguments.insert(arguments.end(), {"-o", object});
  const std::vector<std::string> links = link_arguments(source);
  arguments.insert(arguments.end(), links.begin(), links.end());
  return run_process(arguments, options).succeeded();
}

}  // namespace

bool compile_units(const std::vector<Unit>& units, int most, const Toolchain& toolchain,
                   const Source& source, const std::string& folder, const std::string& object,
                   const Settings& settings, const std::function<bool()>& interrupted) {
  const std::string stem = folder + "/" + file_name_of(source.name) + "-unit";
  std::vector<std::string> objects;
  for (size_t i = 0; i < units.size(); ++i) objects.push_back(stem + std::to_string(i) + ".o");

  std::atomic<size_t> next{0};
  std::atomic<bool> stop{false};
  bool was_interrupted = false;
  const auto compile = [&](size_t i, const std::function<bool()>& stopped) {
    const std::string text = stem + std::to_string(i) + ".cpp";
    write_file(text, units[i].text);
    std::vector<std::string> arguments = part_command(toolchain, source, settings);
    if (units[i].is_root) arguments.push_back("-O1");  // the last one counts
    arguments.insert(arguments.end(), {"-c", text, "-o", objects[i]});
    return run_process(arguments, {compile_seconds(source, settings), folder, stopped}).succeeded();
  };
  const auto compile_next = [&](const std::function<bool()>& stopped) {
    for (size_t i = next++; i < units.size(); i = next++) {
      if (!stopped() && compile(i, stopped)) continue;
      stop = true;  // the others are of no use
      return false;
    }
    return true;
  };
  const auto asked = [&] {  // by this thread alone
    if (!stop && interrupted && interrupted()) was_interrupted = stop = true;
    return stop.load();
  };
  std::vector<std::future<bool>> others;  // get() runs one for which there is no thread
  for (int i = 1; i < std::min(static_cast<int>(units.size()), most); ++i)
    others.push_back(std::async(compile_next, [&stop] { return stop.load(); }));
  bool good = compile_next(asked);
  for (std::future<bool>& other : others) {
    constexpr std::chrono::milliseconds kPoll{20};
    while (other.wait_for(kPoll) == std::future_status::timeout) asked();
    good = other.get() && good;
  }
  const ProcessOptions options{compile_seconds(source, settings), folder, asked};
  good = good && link_units(objects, toolchain, source, object, options);
  if (was_interrupted) fail_interrupted(source);
  return good;
}

}  // namespace pto
