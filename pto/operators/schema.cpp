// SPDX-License-Identifier: Apache-2.0
#include "pto/operators/schema.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <set>
#include <utility>

#include "pto/base/error.hpp"
#include "pto/base/text.hpp"

namespace pto {
namespace {

constexpr std::array<std::pair<std::string_view, ArgumentKind>, 7> kTypes = {{
    {"Tensor", ArgumentKind::Tensor},
    {"int", ArgumentKind::Int},
    {"SymInt", ArgumentKind::SymInt},
    {"float", ArgumentKind::Float},
    {"Scalar", ArgumentKind::Float},
    {"bool", ArgumentKind::Bool},
    {"str", ArgumentKind::String},
}};
constexpr const char* kTypeNames =
    "Tensor, Tensor[], Tensor(a!), int, SymInt, int[], int[2], float, Scalar, bool, str, or one of "
    "them with ?";

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Argument argument() {
    Argument read = one_argument();
    expect_end();
    return read;
  }

  Schema schema() {
    Schema schema;
    schema.name = name("the operator's name");
    if (accept("::")) schema.name += "::" + name("the operator's name behind its space");
    expect("(");
    arguments(schema);
    expect("->");
    returns(schema);
    expect_end();
    return schema;
  }

 private:
  void arguments(Schema& schema) {
    if (accept(")")) return;
    std::set<std::string> seen;
    bool keyword_only = false;
    do {
      if (!keyword_only && accept("*")) {
        keyword_only = true;
        continue;
      }
      Argument argument = one_argument();
      argument.is_keyword_only = keyword_only;
      if (!seen.insert(argument.name).second) error("a name that is not taken yet");
      schema.arguments.push_back(std::move(argument));
    } while (accept(","));
    expect(")");
  }

  Argument one_argument() {
    Argument argument = type();
    argument.name = name("the argument's name");
    if (accept("=")) argument.default_value = value(argument);
    return argument;
  }

  // Parses a type into an argument without a name.
  Argument type() {
    skip_space();
    const size_t start = at_;
    const std::string word = name("a type");
    Argument argument;
    bool known = false;
    for (const auto& [name, kind] : kTypes) {
      if (name != word) continue;
      argument.kind = kind;
      known = true;
    }
    argument.is_scalar = word == "Scalar";
    if (known) known = suffixes(argument);
    if (known) return argument;
    at_ = start;
    error(std::string("one of ") + kTypeNames);
  }

  // Parses the suffixes of a type; returns false if they do not fit its word.
  bool suffixes(Argument& argument) {
    if (argument.kind == ArgumentKind::Tensor && next('(')) {
      argument.alias = name("the letter of an alias, as in Tensor(a!)");
      expect("!");
      expect(")");
    }
    if (next('[')) {
      if (argument.kind == ArgumentKind::Tensor && argument.alias.empty()) {
        argument.kind = ArgumentKind::TensorList;
      } else if (argument.kind == ArgumentKind::Int) {
        argument.kind = ArgumentKind::IntList;
        if (!accept("]")) {
          const auto length = number<int64_t>("the length of the list, or ]");
          if (length < 1 || length > 64) error("a length from 1 to 64");
          argument.list_size = static_cast<int>(length);
          expect("]");
        }
      } else {
        return false;
      }
      if (argument.kind == ArgumentKind::TensorList) expect("]");
    }
    argument.is_optional = next('?');
    return !argument.is_optional ||
           (argument.kind != ArgumentKind::TensorList && argument.alias.empty());
  }

  // Takes the character if it stands here, without space before it.
  bool next(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  void returns(Schema& schema) {
    if (!accept("(")) {
      schema.returns.push_back(one_return(schema));
    } else if (!accept(")")) {
      do {
        schema.returns.push_back(one_return(schema));
      } while (accept(","));
      expect(")");
    }
    name_returns(schema);
  }

  // Names unnamed outputs result or result0, with a trailing _ if an argument has that name.
  void name_returns(Schema& schema) {
    const auto is_argument = [&schema](const std::string& name) {
      return std::any_of(schema.arguments.begin(), schema.arguments.end(),
                         [&name](const Argument& argument) { return argument.name == name; });
    };
    std::set<std::string> seen;
    for (size_t i = 0; i < schema.returns.size(); ++i) {
      Return& one = schema.returns[i];
      const bool is_named = !one.name.empty();
      if (!is_named) {
        one.name = schema.returns.size() == 1 ? "result" : "result" + std::to_string(i);
        while (is_argument(one.name)) one.name += "_";
      }
      const bool clashes = is_named && one.alias.empty() && is_argument(one.name);
      if (clashes || !seen.insert(one.name).second) {
        error("names of outputs that differ from each other and from the arguments'");
      }
    }
  }

  Return one_return(const Schema& schema) {
    skip_space();
    const size_t start = at_;
    const Argument found = type();
    if (!is_tensor(found) || found.is_optional) {
      at_ = start;
      error("Tensor, Tensor[] or the Tensor(a!) of an argument");
    }
    Return result{{}, found.kind == ArgumentKind::TensorList, found.alias};
    bool known = found.alias.empty();
    for (const Argument& argument : schema.arguments) {
      known = known || argument.alias == found.alias;
      if (!found.alias.empty() && argument.alias == found.alias) result.name = argument.name;
    }
    if (!known) error("the alias of an argument: nothing is Tensor(" + found.alias + "!) before");
    skip_space();
    if (at_ < text_.size() && starts_name(text_[at_])) result.name = name("the output's name");
    return result;
  }

  AttributeValue value(const Argument& argument) {
    if (is_tensor(argument) && !argument.is_optional) {
      error("no default: a tensor has none (use Tensor?)");
    }
    if (argument.is_optional && accept("None")) return std::monostate();
    switch (argument.kind) {
      case ArgumentKind::Int:
      case ArgumentKind::SymInt:
        return number<int64_t>("a whole number");
      case ArgumentKind::Float:
        return number<double>("a number");
      case ArgumentKind::Bool:
        if (accept("True")) return true;
        expect("False");
        return false;
      case ArgumentKind::String:
        return quoted();
      case ArgumentKind::IntList:
        return integers(argument);
      default:
        error("None");
    }
  }

  std::vector<int64_t> integers(const Argument& argument) {
    std::vector<int64_t> values;
    if (!accept("[")) {
      if (argument.list_size == 0) error("a list as [1, 2]");
      return std::vector<int64_t>(static_cast<size_t>(argument.list_size),
                                  number<int64_t>("a whole number or a list"));
    }
    if (accept("]")) return values;
    do {
      values.push_back(number<int64_t>("a whole number"));
    } while (accept(","));
    expect("]");
    const auto size = static_cast<size_t>(argument.list_size);
    if (size != 0 && values.size() != size) error(std::to_string(size) + " numbers");
    return values;
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
    if (result.find_first_of("'\"\\") != result.npos)
      error("a string without quotes and \\ inside");
    at_ = end + 1;
    return result;
  }

  static bool starts_name(char c) {
    return std::isalpha(static_cast<unsigned char>(c)) || c == '_';
  }

  std::string name(const std::string& what) {
    skip_space();
    const size_t start = at_;
    if (at_ >= text_.size() || !starts_name(text_[at_])) error(what);
    while (at_ < text_.size() &&
           (starts_name(text_[at_]) || std::isdigit(static_cast<unsigned char>(text_[at_])))) {
      ++at_;
    }
    return std::string(text_.substr(start, at_ - start));
  }

  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
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

  void expect_end() {
    skip_space();
    if (at_ != text_.size()) error("the end");
  }

  [[noreturn]] void error(const std::string& wanted) {
    fail({"schema \"" + std::string(text_) + "\": column " + std::to_string(at_ + 1) +
              ": expected " + wanted + ", found \"" + std::string(text_.substr(at_, 12)) + "\"",
          std::string("a schema reads name(TYPE name[=default], ..., *, TYPE name) -> Tensor, with "
                      "the types ") +
              kTypeNames,
          "correct the schema at this column"});
  }

  std::string_view text_;
  size_t at_ = 0;
};

std::string text_of(double value) {
  char buffer[32];
  const auto [end, failed] = std::to_chars(buffer, buffer + sizeof buffer, value);
  std::string number(buffer, end);
  const bool looks_whole = number.find_first_not_of("-0123456789") == number.npos;
  return looks_whole ? number + ".0" : number;
}

std::string text(const Return& result, bool names) {
  if (!result.alias.empty()) return "Tensor(" + result.alias + "!)";
  return (result.is_list ? "Tensor[]" : "Tensor") + (names ? " " + result.name : "");
}

std::string text(const Argument& argument) {
  const std::string typed = type_text(argument) + " " + argument.name;
  return argument.default_value ? typed + "=" + pto::text(*argument.default_value) : typed;
}

bool has(const Schema& schema, const std::string& name) {
  const auto is_it = [&name](const auto& one) { return one.name == name; };
  return std::ranges::any_of(schema.arguments, is_it) || std::ranges::any_of(schema.returns, is_it);
}

}  // namespace

bool is_tensor(const Argument& argument) {
  return argument.kind == ArgumentKind::Tensor || argument.kind == ArgumentKind::TensorList;
}

Schema parse_schema(std::string_view text) { return Parser(text).schema(); }
Argument parse_argument(std::string_view text) { return Parser(text).argument(); }

std::string text(const AttributeValue& value) {
  if (const auto* s = std::get_if<std::string>(&value)) return "'" + *s + "'";
  if (const auto* b = std::get_if<bool>(&value)) return *b ? "True" : "False";
  if (const auto* i = std::get_if<int64_t>(&value)) return std::to_string(*i);
  if (const auto* d = std::get_if<double>(&value)) return text_of(*d);
  if (const auto* list = std::get_if<std::vector<int64_t>>(&value)) {
    return "[" + joined(*list, ", ", [](int64_t i) { return std::to_string(i); }) + "]";
  }
  return "None";
}

std::string type_text(const Argument& argument) {
  const std::string end = argument.is_optional ? "?" : "";
  if (!argument.alias.empty()) return "Tensor(" + argument.alias + "!)";
  if (argument.kind == ArgumentKind::TensorList) return "Tensor[]";
  if (argument.is_scalar) return "Scalar" + end;
  if (argument.kind == ArgumentKind::IntList) {
    const std::string size = argument.list_size ? std::to_string(argument.list_size) : "";
    return "int[" + size + "]" + end;
  }
  for (const auto& [name, kind] : kTypes) {
    if (kind == argument.kind) return std::string(name) + end;
  }
  return {};
}

std::string text(const Schema& schema, bool names_outputs) {
  std::string result = schema.name + "(";
  bool keyword_only = false, first = true;
  for (const Argument& argument : schema.arguments) {
    if (!std::exchange(first, false)) result += ", ";
    if (argument.is_keyword_only && !std::exchange(keyword_only, true)) result += "*, ";
    result += text(argument);
  }
  result += ") -> ";
  const std::string returns =
      joined(schema.returns, ", ", [&](const Return& r) { return text(r, names_outputs); });
  return result + (schema.returns.size() == 1 && !names_outputs ? returns : "(" + returns + ")");
}

std::vector<std::string_view> names_in(std::string_view list) {
  std::vector<std::string_view> names;
  for (size_t end = 0; !list.empty(); list.remove_prefix(std::min(end + 1, list.size()))) {
    end = std::min(list.find_first_of(", "), list.size());
    if (end > 0) names.push_back(list.substr(0, end));
  }
  return names;
}

Schema inplace_schema(const Schema& of) {
  Schema made = of;
  made.name += "_";
  made.returns = {{made.arguments.at(0).name, false, "a"}};
  made.arguments[0].alias = "a";
  if (text(of.arguments[0]) == "Tensor " + of.arguments[0].name) return made;
  fail({"operator " + of.name + ": its first argument is " + text(of.arguments[0]) +
            ", so there is no " + made.name,
        "in place means that the result replaces the elements of the first argument",
        "take a Tensor as the first argument, or leave inplace out"});
}

Schema gradient_schema(const Schema& of, const std::vector<int32_t>& differentiable,
                       const std::vector<int32_t>& saved, const std::vector<int32_t>& wanted) {
  Schema made{of.name + "_backward", {}, {}};
  const auto take = [&made](const std::string& name, bool is_list, bool is_optional = false) {
    made.arguments.push_back({.name = name,
                              .kind = is_list ? ArgumentKind::TensorList : ArgumentKind::Tensor,
                              .is_optional = is_optional});
  };
  for (const int32_t output : differentiable) {
    const Return& one = of.returns.at(static_cast<size_t>(output));
    take("d_" + one.name, one.is_list);
  }
  for (const int32_t source : saved) {
    if (source < 0) {
      const Return& one = of.returns.at(static_cast<size_t>(-1 - source));
      take(one.name, one.is_list);
    } else {
      const Argument& one = of.arguments.at(static_cast<size_t>(source));
      take(one.name, one.kind == ArgumentKind::TensorList, one.is_optional);
    }
  }
  for (const int32_t source : wanted) {
    const Argument& one = of.arguments.at(static_cast<size_t>(source));
    std::string name = "d_" + one.name;
    while (has(made, name)) name = "d_" + name;
    made.returns.push_back({name, one.kind == ArgumentKind::TensorList});
  }
  for (const Argument& one : of.arguments) {
    if (is_tensor(one)) continue;
    made.arguments.push_back(one);
    made.arguments.back().is_keyword_only = true;
  }
  made.arguments.push_back({.name = has(of, "needs") ? "needs_" : "needs",
                            .kind = ArgumentKind::Int,
                            .is_keyword_only = true,
                            .default_value = int64_t{-1}});
  return made;
}

}  // namespace pto
