// SPDX-License-Identifier: Apache-2.0
// Operations along an axis: positions, order and scans, each a call of libpto.
#include "pto/codegen/graph_printer.hpp"

namespace pto {
namespace {

constexpr const char* kServices = "frame.args->services";
constexpr const char* kThreads = "frame.is_root ? frame.args->services->threads : 1";

std::string axis_of(const Node& node) { return std::to_string(node.attributes.axes[0]); }

}  // namespace

void GraphPrinter::define_tensors(const std::vector<std::pair<std::string, MemRef>>& tensors) {
  for (const auto& [name, memory] : tensors) {
    const std::string made = tensor_argument(memory);
    w_.line("const pto_tensor " + name + " = " + made + ";");
  }
}

void GraphPrinter::print_iota(Value v) {
  const Node& node = graph_[v];
  const MemRef out = home_of({v, 0}, node.type);
  w_.open("{");
  define_tensors({{"out", out}});
  w_.line("pto_iota(&out, " + axis_of(node) + ", " + kThreads + ");");
  w_.close("}");
  places_[v] = out;
}

void GraphPrinter::print_gather(Value v) {
  const Node& node = graph_[v];
  const MemRef out = home_of({v, 0}, node.type), x = place(node.operands[0]),
               index = place(node.operands[1]);
  w_.open("{");
  define_tensors({{"out", out}, {"x", x}, {"index", index}});
  must(std::string("pto_gather(") + kServices + ", " + where(node) + ", &out, &x, &index, " +
       axis_of(node) + ", " + kThreads + ")");
  w_.close("}");
  places_[v] = out;
}

void GraphPrinter::print_scatter(Value v) {
  const Node& node = graph_[v];
  const MemRef out = home_of({v, 0}, node.type);
  if (storage_.copies.count({v, 0})) copy(out, place(node.operands[0]), true);
  const MemRef index = place(node.operands[1]), part = place(node.operands[2]);
  w_.open("{");
  define_tensors({{"out", out}, {"index", index}, {"part", part}});
  must(std::string("pto_scatter(") + kServices + ", " + where(node) + ", &out, &index, &part, " +
       axis_of(node) + ", " + (node.op == Opcode::scatter_add ? "1" : "0") + ", " + kThreads + ")");
  w_.close("}");
  places_[v] = out;
}

// A result that nobody reads has no home.
void GraphPrinter::print_sort(Value v) {
  const Node& node = graph_[v];
  std::string results[2] = {"nullptr", "nullptr"};
  std::vector<std::pair<std::string, MemRef>> tensors{{"x", place(node.operands[0])}};
  for (int k = 0; k < 2; ++k) {
    const Made made{v, k};
    if (!storage_.homes.count(made)) continue;
    const Type type{k == 0 ? node.type.dtype : DType::I64, node.type.shape};
    const MemRef home = made_[made] = home_of(made, type);
    const std::string name = k == 0 ? "values" : "positions";
    results[k] = "&" + name;
    tensors.emplace_back(name, home);
    if (k == 0) places_[v] = home;
  }
  w_.open("{");
  define_tensors(tensors);
  must(std::string("pto_sort(") + kServices + ", " + where(node) + ", " + results[0] + ", " +
       results[1] + ", &x, " + (node.op == Opcode::sort ? "0" : "1") + ", " + kThreads + ")");
  w_.close("}");
}

void GraphPrinter::print_scan(Value v) {
  const Node& node = graph_[v];
  const char* const fold = node.op == Opcode::cumsum    ? "PTO_SCAN_SUM"
                           : node.op == Opcode::cumprod ? "PTO_SCAN_PRODUCT"
                           : node.op == Opcode::cummax  ? "PTO_SCAN_LARGEST"
                                                        : "PTO_SCAN_SMALLEST";
  const MemRef out = home_of({v, 0}, node.type), x = place(node.operands[0]);
  w_.open("{");
  define_tensors({{"out", out}, {"x", x}});
  must("pto_scan(&out, &x, " + axis_of(node) + ", " + fold + ", " + kThreads + ")");
  w_.close("}");
  places_[v] = out;
}

}  // namespace pto
