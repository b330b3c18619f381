// SPDX-License-Identifier: Apache-2.0
// Whole numbers and truth values of a program, which live in variables; sizes that come from them.
#include <algorithm>
#include <initializer_list>

#include "pto/codegen/graph_printer.hpp"
#include "pto/ir/operations/operation.hpp"

namespace pto {
namespace {

std::string literal(const Node& node) {
  const auto& value = node.attributes.value;
  if (is_float(node.type.dtype)) return cpp_constant(value, node.type.dtype);
  const int64_t n = std::holds_alternative<int64_t>(value)
                        ? std::get<int64_t>(value)
                        : static_cast<int64_t>(std::get<double>(value));
  if (node.type.dtype == DType::Bool) return n != 0 ? "true" : "false";
  if (node.type.dtype == DType::I64 && n >= 0 && n < (int64_t{1} << 31)) return std::to_string(n);
  return std::string(cpp_name(node.type.dtype)) + "(" + std::to_string(static_cast<uint64_t>(n)) +
         "ull)";
}

}  // namespace

std::string GraphPrinter::number(Value v) {
  if (const auto known = numbers_.find(v); known != numbers_.end()) return known->second;
  const std::string type(cpp_name(graph_[v].type.dtype)), name = text_.variable("v");
  w_.line("const " + type + " " + name + " = load_number<" + type + ">(" + places_.at(v).data +
          ");");
  return numbers_[v] = name;
}

// A loop may change its numbers before they are read, so values are variables of their own.
void GraphPrinter::print_number(Value v) {
  const Node& node = graph_[v];
  if (node.op == Opcode::constant) {
    numbers_[v] = literal(node);
    return;
  }
  const std::string type(cpp_name(node.type.dtype));
  std::string value;
  if (node.op == Opcode::extent) {
    value = cpp_size(node.attributes.size);
  } else if (!is_elementwise(node.op)) {
    numbers_[v] = number(node.operands[0]);
    return;
  } else if (node.op == Opcode::cast) {
    value = type + "(" + number(node.operands[0]) + ")";
  } else {
    const std::string of(cpp_name(graph_[node.operands.back()].type.dtype));
    for (const Value operand : node.operands)
      value += (value.empty() ? "" : ", ") + number(operand);
    const bool is_plain = node.op == Opcode::logical_not;
    value = "number::" + std::string(info(node.op).name) + (is_plain ? "(" : "<" + of + ">(") +
            value + ")";
  }
  const std::string name = text_.variable("v");
  w_.line("const " + type + " " + name + " = " + value + ";");
  numbers_[v] = name;
}

void GraphPrinter::print_size(Value v) {
  const Node& node = graph_[v];
  const std::string count = number(node.operands[0]);
  w_.line("[[maybe_unused]] const int64_t " + cpp_size(node.attributes.size) + " = " + count + ";");
  refuse(count + " < 0", "pto_fail_size(frame.args->services, " + where(node) + ", " + count + ")");
  numbers_[v] = count;
  if (text_.is_recorded && !finds_next_)
    w_.line("pto_record_size(" + std::to_string(node.attributes.size.value()) + ", " + count +
            ");");
  print_guards({node.attributes.size.value()}, &node);
}

// Checks that a size is 0; else the program ends and shows the sides of what is not true.
void GraphPrinter::print_check(const Guard& guard, const Node& size) {
  const std::string count = cpp_size(guard.a);
  if (finds_next_) return refuse(count + " != 0", "");
  w_.open("if (__builtin_expect(" + count + " != 0, 0)) {");
  std::vector<std::string> sides;
  for (size_t i = 1; i < size.operands.size(); ++i) {
    const Type& type = graph_[size.operands[i]].type;
    const auto known = numbers_.find(size.operands[i]);
    if (known == numbers_.end()) {
      sides.push_back(tensor_argument(places_.at(size.operands[i])));
      continue;
    }
    const std::string name = text_.variable("v"), element(cpp_name(type.dtype));
    w_.line("Stored<" + element + "> " + name + "(" + known->second + ");");
    sides.push_back(tensor_argument(dense_memref("&" + name, type)));
  }
  if (sides.empty()) sides.emplace_back("{}");
  const std::string names = text_.variable("t");
  w_.line("const pto_tensor " + names + "[] = {" +
          joined(sides, ", ", [](const std::string& side) { return side; }) + "};");
  w_.line("return pto_fail_check(frame.args->services, " + cpp_line({guard.location}) + ", " +
          cpp_string(guard.because) + ", " + count + ", \"" + size.attributes.name + "\", " +
          names + ");");
  w_.close("}");
}

// Checks the guards, and the quotients of sizes, that name one of the symbols that were just
// defined, and none that will be; with nothing defined those whose sizes are known when the graph
// starts. The call has checked the quotients of the root that it knows.
void GraphPrinter::print_guards(const std::vector<int64_t>& defined, const Node* size) {
  std::vector<int64_t> later;
  for (Value v = 0; v < static_cast<Value>(graph_.nodes().size()); ++v)
    if (graph_[v].op == Opcode::size && !numbers_.count(v))
      later.push_back(graph_[v].attributes.size.value());
  const auto is_due = [&](std::initializer_list<const Dim*> sizes) {
    bool names_new = defined.empty(), names_later = false;
    for (const Dim* dim : sizes)
      each_symbol(*dim, [&](int64_t symbol) {
        const auto in = [&](const std::vector<int64_t>& list) {
          return std::find(list.begin(), list.end(), symbol) != list.end();
        };
        names_new = names_new || in(defined);
        names_later = names_later || in(later);
      });
    return names_new && !names_later;
  };
  for (const Guard& guard : graph_.guards()) {
    if (!is_due({&guard.a, &guard.b})) continue;
    if (guard.kind == GuardKind::Holds && size != nullptr) {
      print_check(guard, *size);
      continue;
    }
    const std::string a = cpp_size(guard.a), b = cpp_size(guard.b);
    refuse(a + " != " + b, "pto_fail_sizes(frame.args->services, " + cpp_line({guard.location}) +
                               ", " + cpp_string(guard.because) + ", " + a + ", " + b + ", " +
                               std::to_string(static_cast<int>(guard.kind)) + ")");
  }
  if (is_root_ && defined.empty()) return;
  std::vector<Dim> quotients;
  for (const Node& node : graph_.nodes()) {
    const size_t known = quotients.size();
    collect_quotients(node, &quotients);
    for (size_t i = known; i < quotients.size(); ++i)
      if (is_due({&quotients[i]})) print_quotient(node, quotients[i]);
  }
}

void GraphPrinter::print_quotient(const Node& node, const Dim& quotient) {
  refuse(cpp_size(quotient.right()) + " == 0", "pto_fail_quotient(frame.args->services, " +
                                                   where(node) + ", \"" + pto::text(quotient) +
                                                   "\", " + cpp_size(quotient.left()) + ")");
}

}  // namespace pto
