// SPDX-License-Identifier: Apache-2.0
#include "pto/ir/parse.hpp"

#include <algorithm>
#include <map>

#include "pto/base/text.hpp"
#include "pto/ir/infer.hpp"
#include "pto/ir/operations/operation.hpp"

namespace pto {
namespace {

bool is_word(char c) {
  return c == '_' || c == '.' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c >= '0' && c <= '9');
}

// Reads tokens and values, and knows its position.
class TextReader {
 public:
  explicit TextReader(std::string_view text) : text_(text) {}

  [[noreturn]] void fail_at(size_t position, const ErrorText& error) const {
    const std::string_view before = text_.substr(0, position);
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const size_t start = before.rfind('\n');  // npos + 1 == 0
    const size_t column = position - (start == before.npos ? 0 : start + 1) + 1;
    fail({"line " + std::to_string(line) + ", column " + std::to_string(column) + ": " + error.what,
          error.why, error.fix});
  }

  // Calls f() and adds the line and column of `position` to its errors.
  template <class F>
  auto checked(size_t position, F f) const {
    try {
      return f();
    } catch (const Error& error) {
      fail_at(position, error.text());
    }
  }

  [[noreturn]] void fail_expected(std::string_view wanted) {
    skip();
    const std::string found =
        at_ < text_.size() ? in_quotes(text_.substr(at_, 12)) : "the end of the text";
    fail_at(at_, {"expected " + std::string(wanted) + " but found " + found,
                  "the text must have the form that print() writes", "correct the text"});
  }

  size_t position() {
    skip();
    return at_;
  }

  bool peek(std::string_view token) {
    skip();
    return text_.substr(at_, token.size()) == token &&
           !(is_word(token.back()) && at_ + token.size() < text_.size() &&
             is_word(text_[at_ + token.size()]));
  }

  bool take(std::string_view token) {
    if (!peek(token)) return false;
    at_ += token.size();
    return true;
  }

  void expect(std::string_view token) {
    if (!take(token)) fail_expected(in_quotes(token));
  }

  std::string_view word(std::string_view wanted) {
    skip();
    size_t end = at_;
    while (end < text_.size() && is_word(text_[end])) ++end;
    if (end == at_) fail_expected(wanted);
    const auto found = text_.substr(at_, end - at_);
    at_ = end;
    return found;
  }

  std::string string() {
    skip();
    const auto found = read_quoted(text_, at_);
    if (!found) fail_expected("a string in double quotes");
    return *found;
  }

  std::string name() {
    skip();
    return at_ < text_.size() && text_[at_] == '"' ? string() : std::string(word("a name"));
  }

  // Returns the characters up to one of `ends`, for numbers.
  std::string_view until(std::string_view ends) {
    skip();
    const size_t end = std::min(text_.find_first_of(ends, at_), text_.size());
    const auto found = text_.substr(at_, end - at_);
    at_ = end;
    return found;
  }

  int64_t integer() {
    const size_t start = position();
    const auto value = parse_int(until(" ,])}:@\n"));
    if (value) return *value;
    at_ = start;
    fail_expected("an integer");
  }

  Dim dim() {
    const size_t start = position();
    const auto found = checked(start, [&] { return read_dim(text_, at_); });
    if (!found) fail_expected("a size");
    return *found;
  }

  DType dtype() {
    const size_t start = position();
    const auto found = parse_dtype(word("an element type"));
    if (found) return *found;
    at_ = start;
    fail_expected("an element type such as f32");
  }

  // Reads items separated by commas up to `end`, which it takes.
  template <class F>
  void list(std::string_view end, F item) {
    if (take(end)) return;
    do {
      item();
    } while (take(","));
    expect(end);
  }

 private:
  void skip() {
    while (at_ < text_.size()) {
      if (text_[at_] == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' ||
                 text_[at_] == '\r') {
        ++at_;
      } else {
        return;
      }
    }
  }

  std::string_view text_;
  size_t at_ = 0;
};

Type read_type(TextReader& in) {
  Type type{in.dtype(), {}};
  in.expect("[");
  in.list("]", [&] { type.shape.push_back(in.dim()); });
  return type;
}

std::vector<Location> read_locations(TextReader& in) {
  std::vector<Location> locations;
  while (in.take("@")) {
    Location location{in.string(), 0};
    in.expect(":");
    const size_t start = in.position();
    const int64_t line = in.integer();
    location.line = static_cast<int>(line);
    if (location.line != line)
      in.fail_at(start, {"the line is " + std::to_string(line), "the number of a line has 32 bits",
                         "name a line of the file"});
    locations.push_back(std::move(location));
  }
  return locations;
}

// Reads what print() writes behind a type: !label="q" !vec_tile=[1, 64].
Hints read_hints(TextReader& in) {
  std::vector<Hint> hints;
  while (in.take("!")) {
    Hint& hint = hints.emplace_back();
    hint.name = in.word("the name of a hint");
    in.expect("=");
    if (in.take("["))
      in.list("]", [&] { hint.numbers.push_back(in.integer()); });
    else
      hint.text = in.string();
  }
  return hints.empty() ? nullptr : std::make_shared<const std::vector<Hint>>(std::move(hints));
}

Graph read_graph(TextReader& in, int depth);

// Reads one graph into a builder.
class GraphReader {
 public:
  GraphReader(TextReader& in, int depth) : in_(in), depth_(depth), builder_(header(in)) {}

  Graph read() {
    const size_t start = in_.position();
    in_.expect("(");
    in_.list(")", [&] { parameter(); });
    std::vector<Type> types;
    in_.expect("->");
    in_.expect("(");
    in_.list(")", [&] { types.push_back(read_type(in_)); });
    in_.expect("{");
    while (in_.peek("%")) statement();
    while (in_.peek("guard")) guard();
    in_.expect("return");
    const size_t outputs = in_.position();
    std::vector<Type> returned;
    do {
      const Value v = operand();
      returned.push_back(builder_.type(v));
      builder_.output(v);
    } while (in_.take(","));
    in_.expect("}");
    if (returned != types)
      in_.fail_at(outputs,
                  {"the returned values are " + list_of(returned) + " but the first line says " +
                       list_of(types),
                   "the types of the outputs stand in the first line", "correct one of them"});
    return in_.checked(start, [&] { return builder_.build(); });
  }

 private:
  static std::string header(TextReader& in) {
    in.expect("graph");
    return in.name();
  }

  static std::string list_of(const std::vector<Type>& types) {
    return "(" + joined(types, ", ", [](const Type& type) { return text(type); }) + ")";
  }

  // Returns the name of a value as the text spells it, so that %"0" is not %0.
  std::string value_key() {
    in_.expect("%");
    const bool is_quoted = in_.peek("\"");
    const std::string name = in_.name();
    return is_quoted ? in_quotes(name) : name;
  }

  void define(size_t position, const std::string& key, Value v) {
    if (!values_.emplace(key, v).second)
      in_.fail_at(position, {"the value %" + key + " is defined twice",
                             "a value has one definition", "rename one of them"});
  }

  Value operand() {
    const size_t position = in_.position();
    const std::string key = value_key();
    const auto found = values_.find(key);
    if (found == values_.end())
      in_.fail_at(position, {"the value %" + key + " is not defined here",
                             "a value stands before its uses", "define it first"});
    return found->second;
  }

  void parameter() {
    const size_t position = in_.position();
    Node node{Opcode::input, {}, {}, {}, {}};
    const std::string key = value_key();
    size_t start = 0;
    node.attributes.name = read_quoted(key, start).value_or(key);
    in_.expect(":");
    if (in_.take("scalar")) {
      node.op = Opcode::scalar;
      node.type = {in_.dtype(), {}};
    } else {
      node.type = read_type(in_);
    }
    node.hints = read_hints(in_);
    node.locations = read_locations(in_);
    define(position, key, in_.checked(position, [&] { return builder_.copy(node, {}); }));
  }

  void require_takes(const Node& node, Field field, std::string_view attribute) {
    if (operation(node.op).field == field) return;
    const std::string name(info(node.op).name);
    in_.fail_at(in_.position(),
                {name + " has " + std::string(attribute),
                 name + " takes none: the operation says what a value may have", "take it out"});
  }

  // Takes "size=", where the operation has such an attribute; false where another one stands here.
  bool takes(const Node& node, std::string_view name, Field field, std::string_view attribute) {
    if (!in_.peek(name)) return false;
    require_takes(node, field, attribute);
    in_.expect(name);
    in_.expect("=");
    return true;
  }

  void attributes(Node& node) {
    if (in_.take("{")) {
      if (takes(node, "name", Field::Tile, "a name")) {
        node.attributes.name = in_.name();
      } else if (takes(node, "steps", Field::Steps, "steps") ||
                 takes(node, "axes", Field::Axes, "axes")) {
        in_.expect("[");
        in_.list("]", [&] { node.attributes.axes.push_back(in_.integer()); });
      } else if (takes(node, "index", Field::Index, "an index")) {
        node.attributes.index = in_.integer();
      } else if (takes(node, "size", Field::Size, "a size")) {
        node.attributes.size = in_.dim();
        if (in_.take("of"))
          for (std::string& names = node.attributes.name; !in_.peek("}");)
            (names += names.empty() ? "" : " ") += in_.word("a comparison");
      } else if (takes(node, "precision", Field::Precision, "a precision")) {
        node.attributes.name = in_.word("a precision");
      } else if (takes(node, "value", Field::Value, "a value")) {
        number_ = in_.position();
        value_text_ = in_.until(" }\n");
      } else {
        in_.fail_expected(in_quotes("value"));
      }
      in_.expect("}");
    }
    if (in_.peek("graph") && operation(node.op).field != Field::Tile)
      require_takes(node, Field::Body, "a body");
    while (in_.peek("graph"))
      node.attributes.bodies.push_back(std::make_shared<const Graph>(read_graph(in_, depth_ + 1)));
  }

  // Runs once the type is known: only then can a constant's value be read.
  void read_value(Node& node) {
    if (is_float(node.type.dtype)) {
      if (const auto value = parse_double(value_text_)) {
        node.attributes.value = *value;
        return;
      }
    } else if (const auto value = parse_int(value_text_)) {
      node.attributes.value = *value;
      return;
    }
    in_.fail_at(number_,
                {"the value " + in_quotes(value_text_) + " is not one of " + text(node.type),
                 "a constant is a number of its type", "correct the number"});
  }

  void statement() {
    const size_t position = in_.position();
    const std::string key = value_key();
    in_.expect("=");
    const size_t start = in_.position();
    const std::string_view word = in_.word("an operation");
    const auto op = parse_opcode(word);
    if (!op || *op == Opcode::input || *op == Opcode::scalar)
      in_.fail_at(start, {in_quotes(word) + " is no operation of a graph's body",
                          "operations are those of the instruction table and the "
                          "structural ones",
                          "correct the name"});
    Node node{*op, {}, {}, {}, {}};
    value_text_ = {};
    number_ = start;
    if (in_.take("(")) in_.list(")", [&] { node.operands.push_back(operand()); });
    attributes(node);
    in_.expect(":");
    node.type = read_type(in_);
    node.hints = read_hints(in_);
    node.locations = read_locations(in_);
    if (operation(*op).field == Field::Value) read_value(node);
    const Value v = in_.checked(position, [&] { return builder_.copy(node, node.operands); });
    if (builder_.type(v) != node.type)
      in_.fail_at(position, {std::string(word) + " gives " + text(builder_.type(v)) +
                                 " but the text says " + text(node.type),
                             "the type of a value follows from its operands", "correct the type"});
    define(position, key, v);
  }

  void guard() {
    const size_t position = in_.position();
    in_.expect("guard");
    const bool is_nonempty = in_.take("nonempty"), holds = !is_nonempty && in_.take("none");
    SizeGuard guard{in_.dim(), 0, ""};
    if (!is_nonempty && !holds) {
      in_.expect("==");
      guard.b = in_.dim();
    }
    in_.expect("because");
    const std::string because = in_.string();
    const auto locations = read_locations(in_);
    if (!locations.empty()) builder_.set_location(locations[0]);
    in_.checked(position, [&] {
      if (is_nonempty) return builder_.guard_nonempty(guard.a, because);
      if (holds) return builder_.guard_holds(guard.a, because);
      if (guard.a == guard.b) return builder_.guard_value(guard.a, because);
      builder_.guard_equal(guard.a, guard.b, because);
    });
    builder_.clear_location();
  }

  TextReader& in_;
  int depth_;
  GraphBuilder builder_;
  std::map<std::string, Value> values_;
  std::string_view value_text_;
  size_t number_ = 0;
};

Graph read_graph(TextReader& in, int depth) {
  constexpr int kMaxDepth = 32;
  if (depth > kMaxDepth) in.fail_expected("fewer than 32 nested graphs");
  return GraphReader(in, depth).read();
}

}  // namespace

Graph parse(std::string_view text) {
  TextReader in(text);
  Graph graph = read_graph(in, 0);
  if (in.position() != text.size()) in.fail_expected("the end of the text");
  return graph;
}

}  // namespace pto
