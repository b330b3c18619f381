// SPDX-License-Identifier: Apache-2.0
// Rules that the type rules of several families share; each throws pto::Error with a fix.
//
//     require_same_dtype(node.op, left, right);
//
// Thread safety: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "pto/ir/operations/operation.hpp"

namespace pto {

constexpr uint32_t bit(DType dtype) { return 1u << static_cast<int>(dtype); }

// The columns of element types in the instruction table, a bit each.
enum ElementTypes : uint32_t {
  kAny = (1u << kDTypes) - 1,
  kBool = bit(DType::Bool),
  kFloat = bit(DType::F16) | bit(DType::BF16) | bit(DType::F32) | bit(DType::F64),
  kInteger = kAny & ~kFloat & ~kBool,
  kArithmetic = kFloat | kInteger,
  kOrdered = kArithmetic
};

inline const Type& type(const Operands& operands, size_t i) { return operands[i]->type; }
std::string label(Opcode op);

void require_dtype(Opcode op, DType dtype);
void require_same_dtype(Opcode op, const Type& a, const Type& b);
void require_same_shape(Opcode op, const Type& a, const Type& b);
void require_scalar(Opcode op, const Type& type, std::string_view role);  // an i64 of rank 0

// Returns the one axis of a node that works along one, of a tensor of this shape.
size_t require_one_axis(const Node& node, const Dims& shape);

// "sizes s0 and s1 are equal or have a guard", aligned at the last axis; sources may stretch.
void add_fits(std::vector<SizePair>& pairs, const Dims& from, const Dims& to);

// Facts of an operation whose elements follow from the same elements of its operands.
AxisMap same_map(const Node& node, size_t index, const Dims& from, const AxisMap& map);
bool rows_of_elements(const RowsOf& rows);

// True where all operands have a batch in front, and the axes of `many` are those of `one` behind
// it.
bool has_axes_behind_batch(const RowsOf& rows);

// The one result of an operation, as evaluate() returns it.
std::vector<Bounded> one_result(Bounded result);

// Lets elements have any value: compiled code may choose others.
void allow_any_value(Bounded& result);

}  // namespace pto
