// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "pto/base/size_program.hpp"
#include "pto/base/text.hpp"
#include "pto/ir/interpret.hpp"

namespace pto {
namespace {

void check_input(const Node& node, const Array& array) {
  if (array.dtype == node.type.dtype && array.shape.size() == node.type.shape.size()) return;
  fail({"input " + in_quotes(node.attributes.name) + " is " + std::string(name(array.dtype)) +
            text(array.shape) + " but the graph takes " + text(node.type),
        "dtype and rank are part of the graph", "cast or reshape the array"},
       ErrorKind::Type);
}

void check_equal(const Dim& dim, int64_t size, const std::vector<int64_t>& symbols,
                 const std::string& where) {
  const int64_t expected = evaluate(dim, symbols);
  if (expected == size) return;
  fail({where + " has size " + text(size) + " but " + text(dim) + " is " + text(expected),
        "one symbol stands for one size", "pass arrays whose sizes agree"});
}

// Calls f(dim) for every size of the graph and its bodies.
template <class F>
void each_dim(const Graph& graph, const F& f) {
  for (const Node& node : graph.nodes()) {
    for (const Dim& dim : node.type.shape) f(dim);
    f(node.attributes.size);
    for (const auto& body : node.attributes.bodies) each_dim(*body, f);
  }
  for (const Guard& guard : graph.guards()) f(guard.a), f(guard.b);
}

void check_known(const Dim& dim, const std::vector<bool>& known) {
  each_symbol(dim, [&](int64_t symbol) {
    if (static_cast<size_t>(symbol) < known.size() && known[static_cast<size_t>(symbol)]) return;
    fail({"size s" + text(symbol) + " has no value: it is the size of no input",
          "every symbol is, by itself, a size of an input", "give an input of that size"});
  });
}

bool is_known(const Dim& dim, const std::vector<int64_t>& symbols) {
  bool all = true;
  each_symbol(dim, [&](int64_t symbol) {
    const auto index = static_cast<size_t>(symbol);
    all = all && index < symbols.size() && symbols[index] != kUnknownSize;
  });
  return all;
}

// Marks the symbols that nodes of the graph and its bodies define.
void mark_defined(const Graph& graph, std::vector<bool>* known) {
  for (const Node& node : graph.nodes()) {
    if (node.op == Opcode::size) {
      const auto symbol = static_cast<size_t>(node.attributes.size.value());
      if (symbol >= known->size()) known->resize(symbol + 1);
      (*known)[symbol] = true;
    }
    for (const auto& body : node.attributes.bodies) mark_defined(*body, known);
  }
}

}  // namespace

void check_guards(const Graph& graph, const std::vector<int64_t>& symbols,
                  const std::function<std::string()>& seen) {
  for (const Guard& guard : graph.guards()) try {
      if (!is_known(guard.a, symbols) || !is_known(guard.b, symbols)) continue;
      if (guard.kind == GuardKind::Nonempty && evaluate(guard.a, symbols) == 0)
        fail(empty_reduction(guard.because, text(guard.a.left()) + " is 0"));
      if (const int64_t count = evaluate(guard.a, symbols); guard.kind == GuardKind::Holds) {
        if (count != 0) fail(broken_check(guard.because, text(count), seen()));
        continue;
      }
      check_equal(guard.a, evaluate(guard.b, symbols), symbols,
                  guard.because + ": " + text(guard.b));
    } catch (const Error& error) {
      throw error.at(text(guard.location));
    }
}

std::vector<int64_t> bind_symbols(const Graph& graph, const std::vector<Array>& inputs) {
  if (inputs.size() != graph.inputs().size())
    fail({"graph " + in_quotes(graph.name()) + " takes " + std::to_string(graph.inputs().size()) +
              " inputs but got " + std::to_string(inputs.size()),
          "tensors and scalars come in the order of the graph's inputs",
          "pass one array for each"});
  std::vector<int64_t> symbols;
  std::vector<bool> known;
  const auto each_size = [&](auto f) {
    for (size_t i = 0; i < inputs.size(); ++i)
      for (size_t axis = 0; axis < inputs[i].shape.size(); ++axis)
        f(graph[graph.inputs()[i]], axis, inputs[i].shape[axis]);
  };
  for (size_t i = 0; i < inputs.size(); ++i) check_input(graph[graph.inputs()[i]], inputs[i]);
  each_size([&](const Node& node, size_t axis, int64_t size) {
    const Dim& dim = node.type.shape[axis];
    if (!dim.is_symbol()) return;
    const auto symbol = static_cast<size_t>(dim.value());
    if (symbol >= symbols.size()) {
      symbols.resize(symbol + 1, kUnknownSize);
      known.resize(symbol + 1);
    }
    if (!known[symbol]) symbols[symbol] = size;
    known[symbol] = true;
  });
  mark_defined(graph, &known);
  each_dim(graph, [&](const Dim& dim) { check_known(dim, known); });
  each_size([&](const Node& node, size_t axis, int64_t size) {
    check_equal(node.type.shape[axis], size, symbols,
                "input " + in_quotes(node.attributes.name) + ", axis " + std::to_string(axis));
  });
  check_guards(graph, symbols);
  return symbols;
}

}  // namespace pto
