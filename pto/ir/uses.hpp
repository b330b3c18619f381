// SPDX-License-Identifier: Apache-2.0
// Uses: which nodes of a graph read each value.
//
//     const Uses uses(graph);
//     for (const auto& [user, operand] : uses.of(v)) ...   // graph[user].operands[operand] == v
//     if (uses.is_read_once(v)) ...                        // by one operand, and no output is v
//
// A `result` does not count: what reads the result reads its node.
//
// Thread safety: immutable.
#pragma once

#include <cstddef>
#include <vector>

#include "pto/ir/graph.hpp"

namespace pto {

class Uses {
 public:
  struct Use {
    Value user;
    size_t operand;
  };

  explicit Uses(const Graph& graph)
      : uses_(graph.nodes().size()), is_output_(graph.nodes().size()) {
    for (Value v = 0; v < static_cast<Value>(uses_.size()); ++v)
      for (size_t i = 0; i < graph[v].operands.size() && graph[v].op != Opcode::result; ++i)
        uses_[static_cast<size_t>(graph[v].operands[i])].push_back({v, i});
    for (const Value v : graph.outputs()) is_output_[static_cast<size_t>(v)] = true;
  }

  const std::vector<Use>& of(Value v) const { return uses_[static_cast<size_t>(v)]; }
  bool is_output(Value v) const { return is_output_[static_cast<size_t>(v)]; }
  bool is_read(Value v) const { return !of(v).empty() || is_output(v); }
  bool is_read_once(Value v) const { return of(v).size() == 1 && !is_output(v); }

 private:
  std::vector<std::vector<Use>> uses_;
  std::vector<bool> is_output_;
};

}  // namespace pto
