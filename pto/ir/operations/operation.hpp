// SPDX-License-Identifier: Apache-2.0
// Operation: all that the system knows of one operation of a graph, in one place.
//
//     const Operation& exp = operation(Opcode::exp);
//     exp.info.mnemonic == "TEXP";
//     exp.facts.is_expensive;                  // computed once rather than twice
//     Type type = exp.infer(node, {&x});       // throws pto::Error where the operands do not fit
//
// Builder, parser, printer, verifier, interpreter, fusion and code generation ask this table, and
// know few operations by name. Each family is a file of this folder.
//
// Invariant: the functions check what they are given only as far as their comment says; infer()
// (infer.hpp) checks the number of operands before it calls one.
// Thread safety: constant data and pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pto/ir/axis_map.hpp"
#include "pto/ir/graph.hpp"

namespace pto {

class Evaluation;  // evaluation.hpp
struct Bounded;    // interpret.hpp

using Operands = std::vector<const Node*>;

// A field of Attributes that a node has and its text shows: {value=0.5}, {axes=[0, 2]}, a graph.
// Tile: a name, and at most one graph. Precision: a name that may be missing. Steps: axes that may
// be missing, which are steps along each axis.
enum class Field : uint8_t { None, Value, Axes, Index, Size, Body, Tile, Precision, Steps };

// Code generation makes this of a node.
enum class KernelForm : uint8_t {
  None,       // nothing: a graph with such a node has no compiled form
  Step,       // a statement of its own between the kernels, which makes tensors
  Part,       // one that says where a part of its operand lies
  Number,     // one that makes a number or a size
  Parameter,  // a load, or a number of the call
  Constant,   // a literal
  Position,   // where the loops are
  Moved,      // the elements of its operand, addressed in another way
  Element,    // one instruction on micro-tiles
  Reduction,  // a sweep of its own
  Region      // a kernel; its results
};

// How the result of an element-wise operation follows its operands: bounds.cpp.
enum class ErrorGrowth : uint8_t {
  Unknown,   // in no way that a bound could use
  Monotone,  // the ends of the interval, on either side of 0, bound what lies between
  Slope1,    // by at most as much as the operand
  Periodic,  // by at most as much as the operand, and by at most 2
  Steep,     // Monotone, and without bound around 0
  Pole,      // Steep, and infinite at 0
  Corners,   // the corners of the two intervals bound what lies between
  Quotient,  // Corners, and infinite where the second operand may be 0
  Power,     // Corners, for a base above 0
  Largest    // by at most as much as one of the operands
};

// Facts of algebra and arithmetic.
struct Facts {
  bool is_exact = false;             // on small integers of every element type
  bool is_expensive = false;         // worth a buffer rather than a second computation
  bool gives_whole_numbers = false;  // floor and its like
  bool may_stay_unrounded = false;   // contracted with a sum: a * b + c
  bool flushes = false;              // compiled f32 code gives 0 for results below 2^-126
  uint8_t ulps = 0, ulps_f64 = 0;    // that compiled code may be off, the reference's own included
  ErrorGrowth growth = ErrorGrowth::Unknown;
};

// Two sizes that must be equal at run time. The builder guards them, the verifier asks for it.
struct SizePair {
  Dim from, to;
  bool stretches;               // `from` may also be 1
  const char* rule = nullptr;   // a sentence for the verifier; by default it names the sizes
  const Graph* body = nullptr;  // whose guards hold here too
};

// Two nodes that do the same, `one` on a row and `many` on a batch of rows in front: batch.hpp.
struct RowsOf {
  const Graph &many_graph, &one_graph;
  const Node &many, &one;
  bool all_mapped, all_equal;  // the operands of `many`: rows for each of the batch; one for all
};

struct Operation {
  OpcodeInfo info;
  uint32_t dtypes = ~0u;  // element types of the first operand (of `where`: its second), a bit each
  Field field = Field::None;
  KernelForm kernel = KernelForm::None;
  Facts facts = {};

  // The type of a node with these operands; see infer() for what `node.type` says.
  Type (*infer)(const Node& node, const Operands& operands);
  // The types of all results of a verified node, of an operation with several; null: it has one.
  std::vector<Type> (*results)(const Node& node) = nullptr;
  // Sizes that must be equal; null: none.
  std::vector<SizePair> (*sizes)(const Node& node, const Operands& operands) = nullptr;
  // The values of a verified node, one a result; null: inputs have theirs.
  std::vector<Bounded> (*evaluate)(Evaluation& in, const Node& node) = nullptr;
  // The map of operand `index`, of the shape `from`, of a node that is needed at `map`; null: a
  // kernel cannot hold it.
  AxisMap (*operand_map)(const Node& node, size_t index, const Dims& from,
                         const AxisMap& map) = nullptr;
  // True where a row of the result comes from the same row of the operands; null: unknown.
  bool (*keeps_rows_apart)(const RowsOf& rows) = nullptr;
};

const Operation& operation(Opcode op);

// The operations by name: operations::matmul.
namespace operations {
#define PTO_OPERATION(op) extern const Operation op;
#include "pto/ir/operations/operations.def"
}  // namespace operations

}  // namespace pto
