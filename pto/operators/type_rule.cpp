// SPDX-License-Identifier: Apache-2.0
#include "pto/operators/type_rule.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>

#include "pto/base/error.hpp"

namespace pto {
namespace {

uint32_t bit(DType dtype) { return 1u << static_cast<int>(dtype); }

uint32_t types_where(bool (*holds)(DType)) {
  uint32_t set = 0;
  for (int d = 0; d < kDTypes; ++d) {
    if (holds(static_cast<DType>(d))) set |= 1u << d;
  }
  return set;
}

std::optional<uint32_t> set_named(std::string_view word) {
  if (word == "float") return types_where(is_float);
  if (word == "integer") return types_where(is_integer);
  if (word == "number") return types_where(is_float) | types_where(is_integer);
  if (word == "any") return (1u << kDTypes) - 1;
  if (const auto dtype = parse_dtype(word)) return bit(*dtype);
  return std::nullopt;
}

using Words = std::vector<std::string>;

// Splits a text into names and the signs ( ) , : ->.
Words words_of(std::string_view text) {
  Words words;
  for (size_t i = 0; i < text.size();) {
    if (std::isspace(static_cast<unsigned char>(text[i]))) {
      ++i;
      continue;
    }
    size_t end = i;
    while (end < text.size() && (std::isalnum(static_cast<unsigned char>(text[end])))) ++end;
    if (end == i) end += text.substr(i, 2) == "->" ? 2 : 1;
    words.emplace_back(text.substr(i, end - i));
    i = end;
  }
  return words;
}

class RuleReader {
 public:
  RuleReader(std::string_view text, const Schema& schema)
      : text_(text), schema_(schema), words_(words_of(text)) {}

  TypeRule rule() {
    const Words arguments = names(), results = (expect("->"), names());
    std::map<std::string, uint32_t> where;
    if (accept("where")) where = constraints();
    if (at_ != words_.size()) error("the end or \"where\"");
    for (const std::string& name : arguments) {
      rule_.arguments.push_back(variable(name, where));
    }
    for (const std::string& name : results) {
      const auto dtype = parse_dtype(name);
      rule_.outputs.push_back(dtype ? -1 - static_cast<int>(*dtype) : known(name));
    }
    for (const auto& [name, set] : where) {
      if (std::find(rule_.names.begin(), rule_.names.end(), name) == rule_.names.end()) {
        error("a variable of the left side after \"where\", which " + name + " is not");
      }
    }
    return rule_;
  }

 private:
  Words names() {
    Words found;
    const bool several = accept("(");
    if (several && accept(")")) return found;
    do {
      if (at_ == words_.size() || !std::isalpha(static_cast<unsigned char>(words_[at_][0]))) {
        error("the name of a type or variable");
      }
      found.push_back(words_[at_++]);
    } while (several && accept(","));
    if (several) expect(")");
    return found;
  }

  std::map<std::string, uint32_t> constraints() {
    std::map<std::string, uint32_t> all;
    do {
      if (at_ == words_.size()) error("a variable");
      uint32_t& set = all[words_[at_++]];
      expect(":");
      const size_t first = at_;
      for (; at_ < words_.size() && words_[at_] != ","; ++at_) {
        const auto types = set_named(words_[at_]);
        if (!types) error("an element type, float, integer, number or any");
        set |= *types;
      }
      if (at_ == first) error("an element type");
    } while (accept(","));
    return all;
  }

  int variable(const std::string& name, const std::map<std::string, uint32_t>& where) {
    const auto found = std::find(rule_.names.begin(), rule_.names.end(), name);
    if (found != rule_.names.end()) return static_cast<int>(found - rule_.names.begin());
    const auto given = where.find(name);
    const auto dtype = parse_dtype(name);
    rule_.names.push_back(name);
    rule_.sets.push_back(given != where.end() ? given->second
                         : dtype              ? bit(*dtype)
                                              : types_where(is_float));
    return static_cast<int>(rule_.names.size()) - 1;
  }

  int known(const std::string& name) {
    const auto found = std::find(rule_.names.begin(), rule_.names.end(), name);
    if (found == rule_.names.end())
      error("an output of an argument's type or an element type, not " + name);
    return static_cast<int>(found - rule_.names.begin());
  }

  bool accept(std::string_view word) {
    if (at_ == words_.size() || words_[at_] != word) return false;
    ++at_;
    return true;
  }

  void expect(std::string_view word) {
    if (!accept(word)) error("'" + std::string(word) + "'");
  }

  [[noreturn]] void error(const std::string& wanted) const {
    fail({"types \"" + std::string(text_) + "\" of " + schema_.name + ": expected " + wanted +
              ", found \"" + (at_ < words_.size() ? words_[at_] : "the end") + "\"",
          "types read (T, I) -> T where T: f32 f64, I: integer", "correct the types"});
  }

  std::string_view text_;
  const Schema& schema_;
  Words words_;
  size_t at_ = 0;
  TypeRule rule_;
};

}  // namespace

TypeRule parse_types(std::string_view text, const Schema& schema) {
  const auto is_given = [](const Argument& argument) { return is_tensor(argument); };
  const auto tensors = static_cast<size_t>(
      std::count_if(schema.arguments.begin(), schema.arguments.end(), is_given));
  if (text.empty()) {
    return {{"T"},
            {types_where(is_float)},
            std::vector<int>(tensors, 0),
            std::vector<int>(schema.returns.size(), 0)};
  }
  TypeRule rule = RuleReader(text, schema).rule();
  if (rule.arguments.size() == tensors && rule.outputs.size() == schema.returns.size()) {
    return rule;
  }
  fail({"types \"" + std::string(text) + "\" name " + std::to_string(rule.arguments.size()) +
            " arguments and " + std::to_string(rule.outputs.size()) + " outputs, but " +
            pto::text(schema) + " has " + std::to_string(tensors) + " and " +
            std::to_string(schema.returns.size()),
        "each tensor argument and each output has a type, in schema order", "name one for each"});
}

std::string names_of(uint32_t dtypes) {
  std::string names;
  for (int d = 0; d < kDTypes; ++d) {
    if (dtypes >> d & 1)
      names += (names.empty() ? "" : " ") + std::string(name(static_cast<DType>(d)));
  }
  return names;
}

}  // namespace pto
