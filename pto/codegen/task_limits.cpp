// SPDX-License-Identifier: Apache-2.0
#include "pto/codegen/task_limits.hpp"

#include <algorithm>

namespace pto {
namespace {

void take_smaller(const Node& node, std::string_view name, int64_t* number) {
  const int64_t asked = hint_number(node, name);
  if (asked > 0) *number = *number == 0 ? asked : std::min(*number, asked);
}

void add(const Node& node, TaskLimits* limits) {
  take_smaller(node, "workers", &limits->workers);
  take_smaller(node, "tiles_per_task", &limits->tiles);
  take_smaller(node, "vec_tile", &limits->tile);
}

}  // namespace

std::string TaskLimits::text() const {
  return any() ? ", Limits{" + std::to_string(workers) + ", " + std::to_string(tiles) + "}" : "";
}

int64_t TaskLimits::piece(int64_t usual) const {
  if (tile == 0) return usual;
  return tiles > 0 ? tile : std::max(tile, usual / tile * tile);
}

TaskLimits limits_of(const Graph& kernel) {
  TaskLimits limits;
  for (const Node& node : kernel.nodes())
    if (!node.is_parameter() && node.op != Opcode::constant) add(node, &limits);
  return limits;
}

TaskLimits limits_of(const Node& loop) {
  TaskLimits limits;
  add(loop, &limits);
  return limits;
}

bool has_limits(const Graph& fused) {
  return std::any_of(fused.nodes().begin(), fused.nodes().end(), [](const Node& node) {
    return node.op == Opcode::fused && limits_of(node.body()).any();
  });
}

}  // namespace pto
