// SPDX-License-Identifier: Apache-2.0
// Keeps beside the kernels of a cache folder which compilers made them, for machines without one.
#include <algorithm>
#include <filesystem>
#include <sstream>

#include "pto/base/file.hpp"
#include "pto/base/sha256.hpp"
#include "pto/compiler/toolchain.hpp"

namespace pto {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "toolchain-";

std::string content_of(const Toolchain& toolchain) {
  return std::string(toolchain.family == Toolchain::Clang ? "clang" : "gcc") + " " +
         std::to_string(toolchain.major) + "\n" + toolchain.path + "\n" + toolchain.version + "\n" +
         toolchain.identity;
}

std::optional<Toolchain> toolchain_of(const std::string& content) {
  std::istringstream lines(content);
  std::string family;
  Toolchain found;
  if (!(lines >> family >> found.major) || (family != "gcc" && family != "clang")) return {};
  found.family = family == "clang" ? Toolchain::Clang : Toolchain::Gcc;
  lines.ignore(1);
  if (!std::getline(lines, found.path) || !std::getline(lines, found.version)) return {};
  std::getline(lines, found.identity, '\0');
  return found;
}

}  // namespace

void record_toolchain(const Toolchain& toolchain, const std::string& folder) {
  const std::string content = content_of(toolchain);
  const std::string name = hex(Sha256().field(content).digest()).substr(0, 32);
  const std::string path = folder + "/" + std::string(kPrefix) + name + ".txt";
  std::error_code error;
  if (!fs::exists(path, error)) replace_file(path, content);
}

std::vector<Toolchain> recorded_toolchains(const std::string& folder) {
  std::vector<std::pair<fs::file_time_type, Toolchain>> dated;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; at != end; at.increment(error)) {
    if (!at->path().filename().string().starts_with(kPrefix)) continue;
    const std::string content = read_file(at->path().string()).value_or("");
    if (auto found = toolchain_of(content)) dated.emplace_back(at->last_write_time(error), *found);
  }
  std::sort(dated.begin(), dated.end(),
            [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<Toolchain> found;
  for (auto& one : dated) found.push_back(std::move(one.second));
  return found;
}

}  // namespace pto
