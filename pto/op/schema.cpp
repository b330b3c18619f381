// SPDX-License-Identifier: Apache-2.0
#include "pto/op/schema.hpp"

#include <array>
#include <cctype>
#include <charconv>
#include <set>
#include <utility>

#include "pto/base/error.hpp"

namespace pto {
namespace {

constexpr std::array<std::pair<std::string_view, ArgumentKind>, 6> kTypes = {{
    {"Tensor", ArgumentKind::Tensor},
    {"Tensor?", ArgumentKind::OptionalTensor},
    {"int", ArgumentKind::Int},
    {"float", ArgumentKind::Float},
    {"bool", ArgumentKind::Bool},
    {"str", ArgumentKind::String},
}};

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Schema schema() {
    Schema schema;
    schema.name = name("the operator's name");
    expect("(");
    arguments(schema);
    expect("->");
    returns(schema);
    skip_space();
    if (at_ != text_.size()) error("the end");
    return schema;
  }

 private:
  void arguments(Schema& schema) {
    if (accept(")")) return;
    std::set<std::string> seen;
    bool keyword_only = false;
    do {
      if (accept("*")) {
        keyword_only = true;
        continue;
      }
      Argument argument = one_argument();
      argument.keyword_only = keyword_only;
      if (!seen.insert(argument.name).second) error("a name that is not taken yet");
      schema.arguments.push_back(std::move(argument));
    } while (accept(","));
    expect(")");
  }

  Argument one_argument() {
    Argument argument;
    argument.kind = type();
    argument.name = name("the argument's name");
    if (accept("=")) argument.default_value = value(argument.kind);
    return argument;
  }

  ArgumentKind type() {
    skip_space();
    const size_t start = at_;
    std::string word = name("a type");
    if (at_ < text_.size() && text_[at_] == '?') word += text_[at_++];
    for (const auto& [name, kind] : kTypes) {
      if (name == word) return kind;
    }
    at_ = start;
    error("one of Tensor, Tensor?, int, float, bool, str");
  }

  void returns(Schema& schema) {
    const bool several = accept("(");
    do {
      if (type() != ArgumentKind::Tensor) error("Tensor");
      skip_space();
      const bool named = at_ < text_.size() && starts_name(text_[at_]);
      schema.returns.push_back(named ? name("the output's name") : std::string());
    } while (several && accept(","));
    if (several) expect(")");
    for (size_t i = 0; i < schema.returns.size(); ++i) {
      if (!schema.returns[i].empty()) continue;
      schema.returns[i] = schema.returns.size() == 1 ? "result" : "result" + std::to_string(i);
    }
  }

  AttributeValue value(ArgumentKind kind) {
    switch (kind) {
      case ArgumentKind::OptionalTensor:
        expect("None");
        return true;
      case ArgumentKind::Int:
        return number<int64_t>("a whole number");
      case ArgumentKind::Float:
        return number<double>("a number");
      case ArgumentKind::Bool:
        if (accept("True")) return true;
        expect("False");
        return false;
      case ArgumentKind::String:
        return quoted();
      case ArgumentKind::Tensor:
        break;
    }
    error("no default: a tensor has none (use Tensor?)");
  }

  template <class T>
  T number(const char* what) {
    skip_space();
    T value{};
    const char* begin = text_.data() + at_;
    const auto [end, failed] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (failed != std::errc()) error(what);
    at_ += static_cast<size_t>(end - begin);
    return value;
  }

  std::string quoted() {
    skip_space();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    const size_t end = quote == '\'' || quote == '"' ? text_.find(quote, at_ + 1) : text_.npos;
    if (end == text_.npos) error("a string in quotes");
    std::string result(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return result;
  }

  static bool starts_name(char c) {
    return std::isalpha(static_cast<unsigned char>(c)) || c == '_';
  }

  std::string name(const char* what) {
    skip_space();
    const size_t start = at_;
    if (at_ >= text_.size() || !starts_name(text_[at_])) error(what);
    while (at_ < text_.size() && (starts_name(text_[at_]) || std::isdigit(text_[at_]))) ++at_;
    return std::string(text_.substr(start, at_ - start));
  }

  void skip_space() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }

  bool accept(std::string_view token) {
    skip_space();
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }

  void expect(std::string_view token) {
    if (!accept(token)) error("'" + std::string(token) + "'");
  }

  [[noreturn]] void error(const std::string& wanted) {
    fail({"schema \"" + std::string(text_) + "\": column " + std::to_string(at_ + 1) +
              ": expected " + wanted + ", found \"" + std::string(text_.substr(at_, 12)) + "\"",
          "a schema reads name(TYPE name[=default], ..., *, TYPE name) -> Tensor, with the types "
          "Tensor, Tensor?, int, float, bool and str",
          "correct the schema at this column"});
  }

  std::string_view text_;
  size_t at_ = 0;
};

std::string text(const AttributeValue& value, ArgumentKind kind) {
  if (kind == ArgumentKind::OptionalTensor) return "None";
  if (const auto* s = std::get_if<std::string>(&value)) return "'" + *s + "'";
  if (const auto* b = std::get_if<bool>(&value)) return *b ? "True" : "False";
  if (const auto* i = std::get_if<int64_t>(&value)) return std::to_string(*i);
  char buffer[32];
  const auto [end, failed] = std::to_chars(buffer, buffer + sizeof buffer, std::get<double>(value));
  std::string number(buffer, end);
  const bool looks_whole = number.find_first_not_of("-0123456789") == number.npos;
  return looks_whole ? number + ".0" : number;
}

}  // namespace

bool is_tensor(const Argument& argument) {
  return argument.kind == ArgumentKind::Tensor || argument.kind == ArgumentKind::OptionalTensor;
}

Schema parse_schema(std::string_view text) { return Parser(text).schema(); }

std::string text(const Schema& schema) {
  std::string result = schema.name + "(";
  bool keyword_only = false, first = true;
  for (const Argument& argument : schema.arguments) {
    if (!std::exchange(first, false)) result += ", ";
    if (argument.keyword_only && !std::exchange(keyword_only, true)) result += "*, ";
    result += kTypes[static_cast<size_t>(argument.kind)].first;
    result += " " + argument.name;
    if (argument.default_value) result += "=" + text(*argument.default_value, argument.kind);
  }
  const bool several = schema.returns.size() > 1;
  result += several ? ") -> (" : ") -> ";
  for (size_t i = 0; i < schema.returns.size(); ++i) result += i == 0 ? "Tensor" : ", Tensor";
  return several ? result + ")" : result;
}

}  // namespace pto
