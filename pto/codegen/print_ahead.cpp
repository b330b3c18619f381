// SPDX-License-Identifier: Apache-2.0
// Products that ask for memory ahead of its use: each for the matrix that the product behind it
// reads as b, the last one of a loop for that of the next iteration. A number that does not fit
// there ends nothing: then nobody asks.
#include <algorithm>
#include <set>

#include "pto/codegen/graph_printer.hpp"
#include "pto/ir/infer.hpp"
#include "pto/ir/made.hpp"

namespace pto {
namespace {

// True where a value is a part of a tensor that the graph is given, or pages of it.
bool is_part(const Graph& graph, Value v) {
  bool has_view = false;
  for (; only_moves(graph[v].op) || gathers_pages(graph, v); v = graph[v].operands[0])
    has_view = has_view || graph[v].op == Opcode::view || graph[v].op == Opcode::gather;
  return has_view && graph[v].is_parameter();
}

Value next_product(const Graph& graph, Value first) {
  const auto end = static_cast<Value>(graph.nodes().size());
  while (first < end && graph[first].op != Opcode::matmul) ++first;
  return first < end ? first : -1;
}

// Adds the nodes of a loop's body that say where a value lies. False where a carried value, or a
// node that computes elements, does.
bool add_address(const Graph& body, Value v, std::set<Value>* nodes) {
  const Node& node = body[v];
  if (node.is_parameter()) {
    const auto& inputs = body.inputs();
    const auto place = std::find(inputs.begin(), inputs.end(), v) - inputs.begin();
    return place == 0 || place > static_cast<int64_t>(body.outputs().size());
  }
  if (!only_moves(node.op) && node.op != Opcode::size && !is_number(node.type) &&
      !gathers_pages(body, v))
    return false;
  if (node.has_body() || !nodes->insert(v).second) return !node.has_body();
  bool is_known = true;
  const size_t read = node.op == Opcode::size ? 1 : node.operands.size();  // not what checks show
  for (size_t i = 0; i < read; ++i)
    is_known = is_known && add_address(body, node.operands[i], nodes);
  std::vector<int> symbols;
  for (const Dim& dim : node.type.shape) collect_symbols(dim, &symbols);
  for (Value other = 0; other < v; ++other)
    if (body[other].op == Opcode::size &&
        std::count(symbols.begin(), symbols.end(), body[other].attributes.size.value()))
      is_known = is_known && add_address(body, other, nodes);
  return is_known;
}

}  // namespace

void GraphPrinter::refuse(const std::string& condition, const std::string& report) {
  w_.line("if (__builtin_expect(" + condition + ", 0)) return " + (finds_next_ ? "{}" : report) +
          ";");
}

std::string GraphPrinter::soon_of(Value product) {
  if (const auto share = shares_.find(product); share != shares_.end()) return share->second;
  const Value behind = next_product(graph_, product + 1);
  if (behind < 0) return next_;
  Value part = graph_[behind].operands[1];
  if (!is_part(graph_, part)) return "";
  while (!places_.count(part) && only_moves(graph_[part].op)) part = graph_[part].operands[0];
  const auto known = places_.find(part);
  if (known == places_.end() || !is_part(graph_, part)) return "";
  if (known->second.constant >= 0) return "";  // it may be read as a packed copy
  const std::string& pages = known->second.pages;
  return "runs_of(" + (pages.empty() ? "" : pages + ".runs, ") + tensor_argument(known->second) +
         ")";
}

std::string GraphPrinter::print_next(Value loop, const Results& results, const std::string& count,
                                     const std::string& start, const std::string& step) {
  const Graph& body = graph_[loop].body();
  const Value product = next_product(body, 0);
  if (product < 0) return "";
  const Value part = body[product].operands[1];
  std::set<Value> nodes;
  if (!is_part(body, part) || !add_address(body, part, &nodes)) return "";
  const std::string name = text_.variable("next"), k = text_.variable("k"),
                    index = text_.variable("i");
  GraphPrinter finder = printer_of(loop, body, results, index, true);
  finder.finds_next_ = true;
  for (const Value v : nodes)
    if (finder.storage_.copied_moves.count(v)) return "";
  w_.open("const auto " + name + " = [&](int64_t " + k + ") -> pto_runs {");
  w_.line("if (" + k + " >= " + count + ") return {};");
  w_.line(index_definition(index, start, k, step));
  for (const Value v : nodes) finder.print_node(v);
  w_.line("return runs_of(" + finder.found(part) + ");");
  w_.close("};");
  return name;
}

// The arguments that tell where a value lies.
std::string GraphPrinter::found(Value v) {
  const MemRef at = place(v);
  return (at.pages.empty() ? "" : at.pages + ", ") + tensor_argument(at);
}

namespace {

// The loops side by side that are all the work of the body of a loop.
std::vector<Value> work_of(const Graph& body) {
  std::vector<Value> found;
  for (Value v = 0; v < static_cast<Value>(body.nodes().size()); ++v) {
    if (!body[v].has_body()) continue;
    if (body[v].op != Opcode::loop || !writes_apart(body, v)) return {};
    found.push_back(v);
  }
  return found;
}

std::vector<Value> products_of(const Graph& graph) {
  std::vector<Value> found;
  for (Value v = next_product(graph, 0); v >= 0; v = next_product(graph, v + 1)) found.push_back(v);
  return found;
}

// Adds the nodes of a body that say where nodes of a loop in it lie. False where one is computed.
bool add_outer_address(const Graph& body, const Node& loop, const std::set<Value>& inner,
                       std::set<Value>* nodes) {
  const Graph& graph = loop.body();
  bool is_known =
      add_address(body, loop.operands[0], nodes) && add_address(body, loop.operands[2], nodes);
  for (size_t i = 1; i < graph.inputs().size(); ++i) {
    const bool is_read = std::any_of(inner.begin(), inner.end(), [&](Value v) {
      const auto& all = graph[v].operands;
      return std::count(all.begin(), all.end(), graph.inputs()[i]) != 0;
    });
    if (is_read) is_known = is_known && add_address(body, loop.operands[i + 2], nodes);
  }
  for (Value v = 0; v < static_cast<Value>(body.nodes().size()); ++v)
    if (body[v].op == Opcode::size) is_known = is_known && add_address(body, v, nodes);
  return is_known;
}

}  // namespace

std::string GraphPrinter::print_rows_of(Value loop, Value work, Value product,
                                        const Results& results, const std::string& count,
                                        const std::string& start, const std::string& step) {
  const Graph &body = graph_[loop].body(), &inner = body[work].body();
  const Value part = inner[product].operands[1];
  std::set<Value> nodes, outer;
  if (!is_part(inner, part) || !add_address(inner, part, &nodes) ||
      !add_outer_address(body, body[work], nodes, &outer))
    return "";
  const std::string name = text_.variable("rows"), k = text_.variable("k"),
                    index = text_.variable("i"), one = text_.variable("k"),
                    at = text_.variable("i");
  GraphPrinter around = printer_of(loop, body, results, index, true);
  around.finds_next_ = true;
  w_.open("const auto " + name + " = [&](int64_t " + k + ", int64_t " + one + ") -> pto_runs {");
  w_.line("if (" + k + " >= " + count + ") return {};");
  w_.line(index_definition(index, start, k, step));
  for (const Value node : outer) around.print_node(node);
  const auto bound = [&](size_t i) { return around.number(body[work].operands[i]); };
  w_.line(index_definition(at, bound(0), one, bound(2)));
  GraphPrinter finder = around.printer_of(work, inner, {}, at, true);
  finder.finds_next_ = true;
  for (const Value node : nodes) finder.print_node(node);
  w_.line("return runs_of(" + finder.found(part) + ");");
  w_.close("};");
  return name;
}

std::vector<GraphPrinter::RowsFunction> GraphPrinter::print_rows(Value loop, const Results& results,
                                                                 const std::string& count,
                                                                 const std::string& start,
                                                                 const std::string& step) {
  const Graph& body = graph_[loop].body();
  const std::vector<Value> loops = work_of(body);
  std::vector<RowsFunction> found;
  for (size_t i = 0; i < loops.size(); ++i) {
    const bool is_next = i + 1 == loops.size();
    const Value next = loops[is_next ? 0 : i + 1];
    const std::vector<Value> products = products_of(body[loops[i]].body()),
                             behind = products_of(body[next].body());
    for (size_t q = 0; q < std::min(products.size(), behind.size()); ++q) {
      const std::string name = print_rows_of(loop, next, behind[q], results, count, start, step);
      if (!name.empty()) found.push_back({loops[i], products[q], name, is_next});
    }
  }
  return found;
}

}  // namespace pto
