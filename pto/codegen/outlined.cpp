// SPDX-License-Identifier: Apache-2.0
#include "pto/codegen/outlined.hpp"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <map>
#include <string_view>

namespace pto {
namespace {

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

constexpr std::string_view kPrefixes[] = {"v", "a", "blocks", "b", "p", "i", "s", "f", "open", "r"};

// Returns "v" for v3, v3w and v3_1; "" for a name that is not numbered.
std::string prefix_of(const std::string& name) {
  size_t end = 0;
  while (end < name.size() && name[end] >= 'a' && name[end] <= 'z') ++end;
  size_t rest = end;
  while (rest < name.size() && (is_digit(name[rest]) || (name[rest] == '_' && rest > end))) ++rest;
  if (rest > end && rest + 1 == name.size() && name[rest] == 'w') ++rest;
  const std::string prefix = name.substr(0, end);
  const bool is_known =
      std::find(std::begin(kPrefixes), std::end(kPrefixes), prefix) != std::end(kPrefixes);
  return is_known && rest > end && rest == name.size() ? prefix : "";
}

}  // namespace

Outlined outlined(const std::string& text,
                  const std::function<std::string(const std::string& name)>& type_of) {
  Outlined made;
  std::map<std::string, std::string> names;  // by those in `text`
  std::map<std::string, int> counts;         // by prefix
  for (size_t begin = 0, end; begin < text.size(); begin = end) {
    end = begin + 1;
    if (!is_word(text[begin])) {
      made.text += text[begin];
      continue;
    }
    while (end < text.size() && is_word(text[end])) ++end;
    const std::string word = text.substr(begin, end - begin);
    if (is_digit(word[0])) {
      made.text += word;
      continue;
    }
    const auto [at, is_new] = names.try_emplace(word, word);
    if (is_new) {
      const std::string prefix = prefix_of(word), type = type_of(word);
      if (!prefix.empty()) at->second = prefix + std::to_string(counts[prefix]++);
      const char* comma = made.parameters.empty() || type.empty() ? "" : ", ";
      if (!type.empty()) made.parameters += comma + type + " " + at->second;
      if (!type.empty()) made.arguments += comma + word;
    }
    made.text += at->second;
  }
  return made;
}

}  // namespace pto
