// SPDX-License-Identifier: Apache-2.0
// Pattern: an expression of operations, written as text, that matches values and builds them.
//
//     const Pattern before("where(logical_not(c), x, y)"), after("where(c, y, x)");
//     Bindings bound;
//     if (before.matches(b, node, &bound)) return after.build(b, bound);
//
// A letter is a variable: any value, the same one where the letter repeats; r is a value that is
// rounded to an integer. A number is a constant, also a broadcast one, with the sign of a zero; an
// integer 0 has both signs.
//
// Thread safety: immutable.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "pto/ir/graph.hpp"

namespace pto {

class Bindings {
 public:
  Bindings() { values_.fill(-1); }
  Value& operator[](char variable) { return values_[static_cast<size_t>(variable - 'a')]; }
  Value operator[](char variable) const { return values_[static_cast<size_t>(variable - 'a')]; }

 private:
  std::array<Value, 26> values_;  // -1: not bound
};

// Says whether an operation has integers as results: floor, ceil, round, trunc.
bool is_rounding(Opcode op);

class Pattern {
 public:
  // A text that is no pattern is a defect of ours: throws std::logic_error, as PTO_ASSERT does.
  explicit Pattern(std::string_view text);

  // Binds the variables; after false some may be bound.
  bool matches(const GraphBuilder& b, const Node& node, Bindings* bound) const;

  // Throws pto::Error where an operation does not take the variables' types.
  Value build(GraphBuilder& b, const Bindings& bound) const;

 private:
  struct Part {
    enum Kind { Operation, Variable, Number } kind;
    Opcode op;
    char variable;
    double number;
    std::vector<size_t> operands;  // places in parts_
  };

  size_t parse(std::string_view text, size_t* at);
  bool part_matches(const GraphBuilder& b, size_t part, Value value, Bindings* bound) const;
  bool operands_match(const GraphBuilder& b, size_t part, const Node& node, Bindings* bound) const;
  Value build_part(GraphBuilder& b, size_t part, const Bindings& bound) const;

  std::vector<Part> parts_;
  size_t root_ = 0;
};

}  // namespace pto
