// SPDX-License-Identifier: Apache-2.0
// Operations along an axis: positions, order and scans, each a call of libpto.
#include "pto/codegen/graph_printer.hpp"

namespace pto {
namespace {

constexpr const char* kServices = "frame.args->services";
constexpr std::variant<double, int64_t> kFront = int64_t(0);
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

// Where only the first elements of each sorted row are read, as many on every path, nothing else is
// kept; their number is known in front of the sort.
std::optional<Dim> GraphPrinter::read_of_sorted(Value v) const {
  std::optional<Dim> count;
  for (const Value out : graph_.outputs())
    if (made_by(graph_, out).node == v) return std::nullopt;
  for (Value user = v + 1; user < static_cast<Value>(graph_.nodes().size()); ++user) {
    const Node& node = graph_[user];
    const auto reads = [&](Value operand) { return made_by(graph_, operand).node == v; };
    if (node.op == Opcode::result ||
        std::none_of(node.operands.begin(), node.operands.end(), reads))
      continue;
    if (node.op != Opcode::view) return std::nullopt;
    const Node& offset = graph_[node.operands.back()];
    const Dim size = node.type.shape.back();
    if (offset.op != Opcode::constant || offset.attributes.value != kFront) return std::nullopt;
    if (count && *count != size) return std::nullopt;
    count = size;
  }
  for (Value later = v; count && later < static_cast<Value>(graph_.nodes().size()); ++later) {
    bool is_later = false;
    each_symbol(*count, [&](int64_t symbol) {
      const Node& node = graph_[later];
      is_later |= node.op == Opcode::size && node.attributes.size.value() == symbol;
    });
    if (is_later) return std::nullopt;
  }
  return count;
}

// A result that nobody reads has no home.
void GraphPrinter::print_sort(Value v) {
  const Node& node = graph_[v];
  const std::optional<Dim> most = read_of_sorted(v);
  Dims shape = node.type.shape;
  if (most) shape.back() = *most;
  std::string results[2] = {"nullptr", "nullptr"};
  std::vector<std::pair<std::string, MemRef>> tensors{{"x", place(node.operands[0])}};
  for (int k = 0; k < 2; ++k) {
    const Made made{v, k};
    if (!storage_.homes.count(made)) continue;
    const Type type{k == 0 ? node.type.dtype : DType::I64, shape};
    const MemRef home = made_[made] = home_of(made, type);
    const std::string name = k == 0 ? "values" : "positions";
    results[k] = "&" + name;
    tensors.emplace_back(name, home);
    if (k == 0) places_[v] = home;
  }
  w_.open("{");
  define_tensors(tensors);
  must(std::string("pto_sort(") + kServices + ", " + where(node) + ", " + results[0] + ", " +
       results[1] + ", &x, " + (most ? cpp_size(*most) : "INT64_MAX") + ", " +
       (node.op == Opcode::sort ? "0" : "1") + ", " + kThreads + ")");
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
