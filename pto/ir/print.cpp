// SPDX-License-Identifier: Apache-2.0
#include "pto/ir/print.hpp"

#include <algorithm>

#include "pto/base/text.hpp"
#include "pto/ir/operations/operation.hpp"

namespace pto {
namespace {

bool is_identifier(std::string_view name) {
  const auto letter = [](char c) {
    return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  };
  const auto fits = [&](char c) { return letter(c) || (c >= '0' && c <= '9') || c == '.'; };
  return !name.empty() && letter(name[0]) && std::all_of(name.begin(), name.end(), fits);
}

std::string text_of_name(std::string_view name) {
  return is_identifier(name) ? std::string(name) : in_quotes(name);
}

std::string text_of(const std::vector<Location>& locations) {
  return joined(locations, "", [](const Location& location) {
    return " @ " + in_quotes(location.file) + ":" + std::to_string(location.line);
  });
}

std::string text_of(const Hints& hints) {
  return hints ? joined(*hints, "", [](const Hint& hint) { return " !" + text(hint); }) : "";
}

// Prints one graph; `indent` is that of its first line.
class Printer {
 public:
  Printer(const Graph& graph, std::string indent) : graph_(graph), indent_(std::move(indent)) {
    int next = 0;
    for (const Node& node : graph.nodes())
      names_.push_back(node.is_parameter() ? "%" + text_of_name(node.attributes.name)
                                           : "%" + std::to_string(next++));
  }

  std::string print() const {
    std::string out =
        "graph " + text_of_name(graph_.name()) + "(" +
        joined(graph_.inputs(), ", ", [&](Value v) { return parameter(v); }) + ") -> (" +
        joined(graph_.outputs(), ", ", [&](Value v) { return text(graph_[v].type); }) + ") {\n";
    for (size_t i = 0; i < names_.size(); ++i)
      if (!graph_.nodes()[i].is_parameter()) out += line(names_[i], graph_.nodes()[i]);
    for (const Guard& guard : graph_.guards()) out += line(guard);
    out += indent_ + "  return " + list(graph_.outputs()) + "\n";
    return out + indent_ + "}";
  }

 private:
  std::string list(const std::vector<Value>& values) const {
    return joined(values, ", ", [&](Value v) { return names_[static_cast<size_t>(v)]; });
  }

  std::string parameter(Value v) const {
    const Node& node = graph_[v];
    const std::string type = node.op == Opcode::scalar
                                 ? "scalar " + std::string(name(node.type.dtype))
                                 : text(node.type);
    return names_[static_cast<size_t>(v)] + ": " + type + text_of(node.hints) +
           text_of(node.locations);
  }

  std::string line(const std::string& name, const Node& node) const {
    std::string out = indent_ + "  " + name + " = " + std::string(info(node.op).name);
    if (!node.operands.empty()) out += "(" + list(node.operands) + ")";
    out += attributes(node);
    return out + " : " + text(node.type) + text_of(node.hints) + text_of(node.locations) + "\n";
  }

  std::string line(const Guard& guard) const {
    std::vector<Location> locations;
    if (!guard.location.file.empty()) locations.push_back(guard.location);
    return indent_ + "  guard " + sizes_of(guard) + " because " + in_quotes(guard.because) +
           text_of(locations) + "\n";
  }

  static std::string sizes_of(const Guard& guard) {
    if (guard.kind == GuardKind::Nonempty) return "nonempty " + text(guard.a.left());
    if (guard.kind == GuardKind::Holds) return "none " + text(guard.a);
    return text(guard.a) + " == " + text(guard.b);
  }

  std::string attributes(const Node& node) const {
    const Attributes& attributes = node.attributes;
    switch (operation(node.op).field) {
      case Field::Value:
        return " {value=" + std::visit([](auto value) { return text(value); }, attributes.value) +
               "}";
      case Field::Index:
        return " {index=" + text(attributes.index) + "}";
      case Field::Size:
        return " {size=" + text(attributes.size) +
               (attributes.name.empty() ? "" : " of " + attributes.name) + "}";
      case Field::Steps:
        if (attributes.axes.empty()) return "";
        [[fallthrough]];
      case Field::Axes: {
        const char* const name = operation(node.op).field == Field::Axes ? "axes" : "steps";
        return std::string(" {") + name + "=" + text(attributes.axes) + "}";
      }
      case Field::Body:
        return bodies(attributes);
      case Field::Tile:
        return " {name=" + text_of_name(attributes.name) + "}" + bodies(attributes);
      case Field::Precision:
        return attributes.name.empty() ? "" : " {precision=" + attributes.name + "}";
      case Field::None:
        break;
    }
    return "";
  }

  std::string bodies(const Attributes& attributes) const {
    return joined(attributes.bodies, "", [&](const std::shared_ptr<const Graph>& body) {
      return " " + Printer(*body, indent_ + "  ").print();
    });
  }

  const Graph& graph_;
  std::string indent_;
  std::vector<std::string> names_;
};

}  // namespace

std::string print(const Graph& graph) { return Printer(graph, "").print() + "\n"; }

}  // namespace pto
