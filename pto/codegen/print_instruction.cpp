// SPDX-License-Identifier: Apache-2.0
#include "pto/codegen/print_instruction.hpp"

#include <cctype>

namespace pto {
namespace {

bool is_half(DType dtype) { return dtype == DType::F16 || dtype == DType::BF16; }

// float -> f16 -> float is a rounding; other casts are conversions between compute types.
void print_cast(const Node& node, const InstructionText& t, CodeWriter* w) {
  const DType from = t.dtypes[0], to = node.type.dtype;
  const std::string head = "auto " + t.name + " = ",
                    arguments = "(" + t.width + ", " + t.operands[0] + ");";
  if (is_half(to))
    w->line(head + "round_to<" + std::string(cpp_name(to)) + ">" + arguments);
  else if (compute_type(from) == compute_type(to))
    w->line("auto& " + t.name + " = " + t.operands[0] + ";");
  else
    w->line(head + "convert<" + compute_type(to) + ">" + arguments);
}

// Names the mode of TCMP: LT for the comparison lt.
std::string mode_name(const OpcodeInfo& op) {
  std::string mode;
  for (char c : op.name) mode += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return mode;
}

std::string joined_operands(const InstructionText& t) {
  std::string all = t.name;
  for (const std::string& operand : t.operands) all += ", " + operand;
  return all;
}

}  // namespace

void print_instruction(const Node& node, const InstructionText& t, CodeWriter* w) {
  const OpcodeInfo& op = info(node.op);
  if (op.family == Family::Convert) return print_cast(node, t, w);
  w->line("auto " + t.name + " = make<" + compute_type(node.type.dtype) + ">(" + t.width + ");");
  if (node.op == Opcode::tile)
    w->line("user_" + node.attributes.name + "(" + joined_operands(t) + ");");
  else if (!t.divisor.empty())
    w->line("TDIVS(" + joined_operands(t) + ", " + t.divisor + ");");
  else if (op.family == Family::Compare)
    w->line("TCMP(" + joined_operands(t) + ", CmpMode::" + mode_name(op) + ");");
  else
    w->line(std::string(op.mnemonic) + "(" + joined_operands(t) + ");");
}

}  // namespace pto
