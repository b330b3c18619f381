// SPDX-License-Identifier: Apache-2.0
// print_instruction(): prints one element-wise operation as calls of pto/isa on tiles.
//
//     print_instruction(node, {"v3", "w", {"v2"}, {DType::F32}}, &writer);
//     // for exp it prints: auto v3 = make<float>(w);  TEXP(v3, v2);
//
// Thread safety: pure function.
#pragma once

#include <string>
#include <vector>

#include "pto/codegen/code_writer.hpp"
#include "pto/ir/graph.hpp"

namespace pto {

struct InstructionText {
  std::string name;                   // the tile to define
  std::string width;                  // the width of its tiles, an expression
  std::vector<std::string> operands;  // tiles
  std::vector<DType> dtypes;          // the operands' types
  std::string divisor;  // if any: divide operands[0] by this scalar; operands has no second
};

void print_instruction(const Node& node, const InstructionText& text, CodeWriter* writer);

}  // namespace pto
