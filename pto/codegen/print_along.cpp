// SPDX-License-Identifier: Apache-2.0
// Operations along an axis: positions, order and scans, each a call of libpto.
#include <algorithm>

#include "pto/codegen/graph_printer.hpp"
#include "pto/ir/infer.hpp"
#include "pto/ir/made.hpp"

namespace pto {
namespace {

// True where only products read a value, as matrices on their right.
bool only_products_read(const Graph& graph, Value v) {
  const auto& outputs = graph.outputs();
  if (std::count(outputs.begin(), outputs.end(), v) != 0) return false;
  for (Value user = v + 1; user < static_cast<Value>(graph.nodes().size()); ++user) {
    const Node& node = graph[user];
    for (size_t i = 0; i < node.operands.size(); ++i) {
      if (node.operands[i] != v) continue;
      const bool is_right = node.op == Opcode::matmul && i == 1;
      if (!is_right && !(only_moves(node.op) && i == 0 && only_products_read(graph, user)))
        return false;
    }
  }
  return true;
}

constexpr const char* kServices = "frame.args->services";
constexpr const char* kThreads = "frame.is_root ? frame.args->services->threads : 1";

std::string axis_of(const Node& node) { return std::to_string(node.attributes.axes[0]); }
std::string axis_count(const Node& node) { return std::to_string(node.attributes.axes.size()); }

}  // namespace

bool gathers_pages(const Graph& graph, Value v) {
  const Node& node = graph[v];
  if (node.op != Opcode::gather || node.attributes.axes[0] != 0 || is_number(node.type))
    return false;
  const Dims& index = graph[node.operands[1]].type.shape;
  return index.size() > 1 && std::all_of(index.begin() + 1, index.end(), is_one) &&
         only_products_read(graph, v);
}

void GraphPrinter::define_tensors(const std::vector<std::pair<std::string, MemRef>>& tensors) {
  for (const auto& [name, memory] : tensors) {
    const std::string made = tensor_argument(memory);
    w_.line("const pto_tensor " + name + " = " + made + ";");
  }
}

void GraphPrinter::print_gather(Value v) {
  const Node& node = graph_[v];
  if (finds_next_) return print_pages_ahead(v);
  MemRef out = home_of({v, 0}, node.type);
  const MemRef x = place(node.operands[0]), index = place(node.operands[1]);
  const bool is_paged = gathers_pages(graph_, v) && !has_copied_moves(v) && stays(node.operands[0]);
  if (is_paged) {
    out.pages = text_.variable("pages");
    w_.line("pto_pages " + out.pages + " = {};");
  }
  w_.open("{");
  define_tensors({{"out", out}, {"x", x}, {"index", index}});
  const std::string call = is_paged ? "pto_find_pages(" : "pto_gather(",
                    last = is_paged ? ", &" + out.pages + ")" : ")";
  must(call + kServices + ", " + where(node) + ", &out, &x, &index, " +
       (is_paged ? "" : axis_of(node) + ", ") + axis_count(node) + ", " + kThreads + last);
  w_.close("}");
  places_[v] = out;
}

// Says where the pages lie that a gather finds; their numbers have no check.
void GraphPrinter::print_pages_ahead(Value v) {
  const Node& node = graph_[v];
  MemRef out = dense_memref(
      "static_cast<Stored<" + std::string(cpp_name(node.type.dtype)) + ">*>(nullptr)", node.type);
  const std::string to = tensor_argument(out), x = tensor_argument(place(node.operands[0])),
                    index = tensor_argument(place(node.operands[1]));
  out.pages = text_.variable("pages");
  w_.line("const pto_tensor " + out.pages + "_t[] = {" + to + ", " + x + ", " + index + "};");
  w_.line("const pto_runs " + out.pages + " = pto_runs_of_pages(" + out.pages + "_t, " + out.pages +
          "_t + 1, " + out.pages + "_t + 2, " + axis_count(node) + ");");
  places_[v] = out;
}

// True where nobody writes what a value reads as long as the graph runs.
bool GraphPrinter::stays(Value v) const {
  while (only_moves(graph_[v].op)) v = graph_[v].operands[0];
  return !is_root_ && graph_[v].is_parameter() && held_.count(v) == 0;
}

// True where a value is copied on its way to who reads it.
bool GraphPrinter::has_copied_moves(Value v) const {
  for (Value user = v + 1; user < static_cast<Value>(graph_.nodes().size()); ++user) {
    const auto& operands = graph_[user].operands;
    if (!only_moves(graph_[user].op) || std::count(operands.begin(), operands.end(), v) == 0)
      continue;
    if (storage_.copied_moves.count(user) || has_copied_moves(user)) return true;
  }
  return false;
}

void GraphPrinter::print_scatter(Value v) {
  const Node& node = graph_[v];
  const MemRef out = home_of({v, 0}, node.type);
  if (storage_.copies.count({v, 0})) copy(out, place(node.operands[0]), true);
  const MemRef index = place(node.operands[1]), part = place(node.operands[2]);
  w_.open("{");
  define_tensors({{"out", out}, {"index", index}, {"part", part}});
  must(std::string("pto_scatter(") + kServices + ", " + where(node) + ", &out, &index, &part, " +
       axis_of(node) + ", " + axis_count(node) + ", " +
       (node.op == Opcode::scatter_add ? "1" : "0") + ", " + kThreads + ")");
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
    if (node.op != Opcode::view || !node.attributes.axes.empty()) return std::nullopt;
    const Dim size = node.type.shape.back();
    if (whole_number(graph_[node.operands.back()]) != 0) return std::nullopt;
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
