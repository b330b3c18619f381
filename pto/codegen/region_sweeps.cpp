// SPDX-License-Identifier: Apache-2.0
// Sweeps of a long chain as functions of their own.
#include "pto/codegen/outlined.hpp"
#include "pto/codegen/region_body.hpp"

namespace pto {

// Says whether each sweep is a function: in long chains. A chain with erf keeps its tables, twelve
// vectors, in registers from sweep to sweep; functions would load them for each row, in 11 % of the
// time of 24 sweeps over rows of 1024 elements. A place within loops may hide a value of the row.
bool RegionBody::has_sweep_functions() const {
  constexpr int kManySweeps = 6;
  bool is_bound = false;
  for (const Instance& i : plan_.instances)
    is_bound = is_bound || body_[i.value].op == Opcode::erf || is_placed_inside(i);
  return plan_.sweeps >= kManySweeps && !is_bound;
}

// Prints a sweep as a function that earlier sweeps may have, and its call. The compiler's time
// grows with the number of different sweeps then; a call costs a row some nanoseconds.
void RegionBody::call_sweep(int sweep) {
  const CodeWriter around = w_;
  w_ = CodeWriter();
  print_row_loops(sweep);
  const std::vector<int> reductions = plan_.reductions(sweep);
  for (const int i : reductions)
    w_.line("r" + std::to_string(i) + " = " + total_of(sweep, i) + ";");
  const std::string text = w_.text();
  w_ = around;

  const Outlined one = outlined(text, [&](const std::string& name) {
    const bool is_own = text.find("auto " + name + " ") != text.npos ||
                        text.find("auto& " + name + " ") != text.npos ||
                        text.find("(int64_t " + name + " ") != text.npos;
    return is_own ? "" : type_around(name);
  });
  const auto [known, is_new] = sweeps_.try_emplace(
      one.parameters + one.text, function_ + "_" + std::to_string(sweeps_.size()));
  if (is_new) {
    functions_.line("");
    functions_.open("static __attribute__((noinline)) void " + known->second + "(" +
                    one.parameters + ") {");
    functions_.block(one.text);
    functions_.close("}");
  }
  for (const int i : reductions) w_.line(type_of(i) + " r" + std::to_string(i) + ";");
  w_.line(known->second + "(" + one.arguments + ");");
  for (const int i : reductions) {
    const std::string name = "v" + std::to_string(i);
    w_.line("auto " + name + " = spread(Row{}, r" + std::to_string(i) + ");");
    scopes_.back()[i] = name;
  }
}

// Returns the type of what a sweep uses from around it; "" for its own names and those of the
// instruction set.
std::string RegionBody::type_around(const std::string& name) const {
  if (name == "n") return "const int64_t";
  if (name == "far" || name == "stream") return "const bool";
  if (name == "args") return "const pto_args*";
  const size_t digits = name.find_first_of("0123456789");
  if (digits != 1 || name.back() == 'w') return "";
  const bool is_pair = name.find('_') != name.npos;
  const auto number = static_cast<size_t>(std::stoul(name.substr(1)));
  switch (name[0]) {
    case 'g':
    case 'i':
    case 's':
      return "const int64_t";
    case 'p':
      return is_pair ? "const int64_t" : type_of_tensor(static_cast<int>(number)) + "* const";
    case 'b':
      return compute_type(plan_.rows_of_scratch[number]) + "* const";
    case 'f':
      return type_of_folded(static_cast<int>(number), name.substr(name.find('_') + 1));
    case 'v':
      return "const MicroTile<" + type_of(static_cast<int>(number)) + ", kRow>&";
    case 'r':
      return type_of(static_cast<int>(number)) + "&";
    default:
      return "";
  }
}

std::string RegionBody::type_of_folded(int tensor, const std::string& axis) const {
  const size_t a = std::stoul(axis);
  for (const Instance& i : plan_.instances)
    if (i.input >= 0 && tensor_of_input_[static_cast<size_t>(i.input)] == tensor &&
        i.accesses[a].step == AxisStep::Folded)
      return "Folded<" + std::to_string(i.accesses[a].dims.size()) + ">&";
  return "";
}

// Returns the type of a tensor's elements: const where it is an input.
std::string RegionBody::type_of_tensor(int tensor) const {
  if (tensor >= inputs_) {
    const Value v = body_.outputs()[static_cast<size_t>(tensor - inputs_)];
    return std::string(cpp_name(body_[v].type.dtype));
  }
  for (size_t k = 0; k < tensor_of_input_.size(); ++k)
    if (tensor_of_input_[k] == tensor)
      return "const " + std::string(cpp_name(body_[body_.inputs()[k]].type.dtype));
  return "";
}

}  // namespace pto
