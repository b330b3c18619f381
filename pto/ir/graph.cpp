// SPDX-License-Identifier: Apache-2.0
#include "pto/ir/graph.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "pto/base/text.hpp"

namespace pto {
namespace {

// Maps every NaN to one; zeros keep their sign.
uint64_t identity(double value) { return std::bit_cast<uint64_t>(std::isnan(value) ? NAN : value); }

bool same_value(const std::variant<double, int64_t>& a, const std::variant<double, int64_t>& b) {
  if (a.index() != b.index()) return false;
  if (a.index() == 1) return std::get<1>(a) == std::get<1>(b);
  return identity(std::get<0>(a)) == identity(std::get<0>(b));
}

using Bodies = std::vector<std::shared_ptr<const Graph>>;

bool same_bodies(const Bodies& a, const Bodies& b) {
  const auto same = [](const auto& x, const auto& y) { return x == y || *x == *y; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same);
}

}  // namespace

std::string text(const Location& location) {
  return location.file.empty() ? "" : location.file + ":" + std::to_string(location.line);
}

Hints with_hint(const Hints& hints, Hint hint) {
  std::vector<Hint> all = hints ? *hints : std::vector<Hint>{};
  all.push_back(std::move(hint));
  return std::make_shared<const std::vector<Hint>>(std::move(all));
}

const Hint* find_hint(const Node& node, std::string_view name) {
  if (node.hints == nullptr) return nullptr;
  const auto found = std::find_if(node.hints->begin(), node.hints->end(),
                                  [&](const Hint& hint) { return hint.name == name; });
  return found == node.hints->end() ? nullptr : &*found;
}

int64_t hint_number(const Node& node, std::string_view name, int64_t otherwise) {
  const Hint* const hint = find_hint(node, name);
  return hint == nullptr || hint->numbers.empty() ? otherwise : hint->numbers.back();
}

std::optional<int64_t> whole_number(const Node& node) {
  const auto* const value = std::get_if<int64_t>(&node.attributes.value);
  return node.op == Opcode::constant && value != nullptr ? std::optional(*value) : std::nullopt;
}

std::optional<size_t> taken_product(const Node& node) {
  const int64_t place = hint_number(node, "takes_product", -1);
  return place < 0 ? std::nullopt : std::optional(static_cast<size_t>(place));
}

std::string text(const Hint& hint) {
  return hint.name + "=" + (hint.numbers.empty() ? in_quotes(hint.text) : text(hint.numbers));
}

std::string text(const Type& type) { return std::string(name(type.dtype)) + text(type.shape); }

bool operator==(const Attributes& a, const Attributes& b) {
  return a.name == b.name && same_value(a.value, b.value) && a.axes == b.axes &&
         a.index == b.index && a.size == b.size && same_bodies(a.bodies, b.bodies);
}

bool operator==(const Graph& a, const Graph& b) {
  const auto same_node = [](const Node& x, const Node& y) {
    return x.op == y.op && x.operands == y.operands && x.type == y.type &&
           x.attributes == y.attributes;
  };
  return a.name_ == b.name_ && a.inputs_ == b.inputs_ && a.outputs_ == b.outputs_ &&
         a.guards_ == b.guards_ &&
         std::equal(a.nodes_.begin(), a.nodes_.end(), b.nodes_.begin(), b.nodes_.end(), same_node);
}

}  // namespace pto
