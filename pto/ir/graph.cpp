// SPDX-License-Identifier: Apache-2.0
#include "pto/ir/graph.hpp"

#include <array>
#include <bit>
#include <cmath>

namespace pto {
namespace {

// Rows stand in the order of the enumeration.
constexpr OpcodeInfo kInfo[] = {
    {"input", "", Family::Structure, 0},   {"constant", "", Family::Structure, 0},
    {"scalar", "", Family::Structure, 0},  {"broadcast", "", Family::Structure, 1},
    {"reshape", "", Family::Structure, 1}, {"transpose", "", Family::Structure, 1},
    {"view", "", Family::Structure, -1},   {"matmul", "", Family::Structure, 2},
    {"loop", "", Family::Structure, -1},   {"fused", "", Family::Structure, -1},
    {"result", "", Family::Structure, 1},
#define PTO_UNARY(mnemonic, op, ...) {#op, #mnemonic, Family::Unary, 1},
#define PTO_BINARY(mnemonic, op, ...) {#op, #mnemonic, Family::Binary, 2},
#define PTO_COMPARE(mode, op, ...) {#op, #mode, Family::Compare, 2},
#define PTO_SELECT(mnemonic, op, ...) {#op, #mnemonic, Family::Select, 3},
#define PTO_CONVERT(mnemonic, op, ...) {#op, #mnemonic, Family::Convert, 1},
#define PTO_REDUCE(row, col, part, op, ...) {#op, #row, Family::Reduce, 1},
#include "pto/isa/instructions.def"
};

// Maps every NaN to one; zeros keep their sign.
uint64_t identity(double value) { return std::bit_cast<uint64_t>(std::isnan(value) ? NAN : value); }

bool same_value(const std::variant<double, int64_t>& a, const std::variant<double, int64_t>& b) {
  if (a.index() != b.index()) return false;
  if (a.index() == 1) return std::get<1>(a) == std::get<1>(b);
  return identity(std::get<0>(a)) == identity(std::get<0>(b));
}

bool same_body(const std::shared_ptr<const Graph>& a, const std::shared_ptr<const Graph>& b) {
  return a == b || (a && b && *a == *b);
}

}  // namespace

const OpcodeInfo& info(Opcode op) {
  const auto index = static_cast<size_t>(op);
  PTO_ASSERT(index < std::size(kInfo));
  return kInfo[index];
}

std::optional<Opcode> parse_opcode(std::string_view name) {
  for (size_t i = 0; i < std::size(kInfo); ++i)
    if (kInfo[i].name == name) return static_cast<Opcode>(i);
  return std::nullopt;
}

bool is_elementwise(Opcode op) {
  const Family family = info(op).family;
  return family != Family::Structure && family != Family::Reduce;
}

std::string text(const Location& location) {
  return location.file.empty() ? "" : location.file + ":" + std::to_string(location.line);
}

std::string text(const Type& type) { return std::string(name(type.dtype)) + text(type.shape); }

bool operator==(const Attributes& a, const Attributes& b) {
  return a.name == b.name && same_value(a.value, b.value) && a.axes == b.axes &&
         a.index == b.index && same_body(a.body, b.body);
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
