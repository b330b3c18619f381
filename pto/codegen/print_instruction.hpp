// SPDX-License-Identifier: Apache-2.0
// print_instruction(): one element-wise operation as calls of pto/isa on tiles.
//
//     exp of v2 into v3:   auto v3 = make<float>(w);  TEXP(v3, v2);
//
// Thread safety: pure function.
#pragma once

#include <string>
#include <vector>

#include "pto/codegen/code_writer.hpp"
#include "pto/ir/graph.hpp"

namespace pto {

struct InstructionText {
  std::string name;                   // of the tile to define
  std::string width;                  // of its tiles, an expression
  std::vector<std::string> operands;  // tiles
  std::vector<DType> dtypes;          // of the operation's operands
  std::string divisor;  // not empty: divide operands[0] by this scalar, operands has no second
};

void print_instruction(const Node& node, const InstructionText& text, CodeWriter* writer);

}  // namespace pto
