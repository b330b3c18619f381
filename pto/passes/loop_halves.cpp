// SPDX-License-Identifier: Apache-2.0
#include "pto/passes/loop_halves.hpp"

#include <algorithm>

#include "pto/ir/infer.hpp"
#include "pto/ir/made.hpp"

namespace pto {

LoopHalves::LoopHalves(const LoopNest& nest) : nest_(nest), body_(nest.inner_loop().body()) {
  const Value second = find_second_product();
  if (second < 0) return;
  mark_values(second);
  for (Value v = 0; v < static_cast<Value>(body_.nodes().size()); ++v)
    if (body_[v].op == Opcode::size && !is_common(v)) return;
  is_early_.assign(body_.nodes().size(), false);
  std::set<Value> seen;
  for (const Value operand : body_[second].operands) need_early(operand);
  for (size_t k = 0; k < nest_.carried(); ++k)
    if (!is_late(k)) need_early(body_.outputs()[k]);
  for (size_t k = 0; k < nest_.carried(); ++k)
    if (is_late(k)) need_late(body_.outputs()[k], &seen);
  any_ = splits_no_sum();
}

bool LoopHalves::is_late(size_t k) const {
  return is_late_[static_cast<size_t>(body_.outputs()[k])];
}

// The later of two products by such parts, where there are no others and no bodies.
Value LoopHalves::find_second_product() const {
  std::vector<Value> products;
  for (Value v = 0; v < static_cast<Value>(body_.nodes().size()); ++v) {
    if (body_[v].has_body()) return -1;
    if (body_[v].op == Opcode::matmul) products.push_back(v);
  }
  const bool has_two = products.size() == 2 && reads_part(body_[products[0]].operands[1]) &&
                       reads_part(body_[products[1]].operands[1]);
  return has_two ? products[1] : -1;
}

bool LoopHalves::reads_part(Value v) const {
  while (only_moves(body_[v].op) && !nest_.parts().count(v)) v = body_[v].operands[0];
  return nest_.parts().count(v) != 0;
}

void LoopHalves::mark_values(Value second) {
  const Node& loop = nest_.inner_loop();
  const auto count = static_cast<Value>(body_.nodes().size());
  std::vector<bool> is_same(body_.nodes().size());
  is_common_.assign(body_.nodes().size(), false), is_late_ = is_common_;
  for (size_t i = 0; i < body_.inputs().size(); ++i) {
    const Value outer = loop.operands[i + operands_ahead(loop)];
    is_same[static_cast<size_t>(body_.inputs()[i])] =
        i == 0 || (i > nest_.carried() && nest_.is_common(outer) &&
                   (nest_.body()[outer].is_parameter() || is_number(nest_.body()[outer].type)));
  }
  for (Value v = 0; v < count; ++v) {
    const Node& node = body_[v];
    if (node.is_parameter()) continue;
    bool same = true, late = v == second;
    for (const Value operand : node.operands) {
      same = same && is_same[static_cast<size_t>(operand)];
      late = late || is_late_[static_cast<size_t>(operand)];
    }
    const bool is_simple = only_moves(node.op) || is_number(node.type);
    is_same[static_cast<size_t>(v)] = same && is_simple;
    is_late_[static_cast<size_t>(v)] = late;
    is_common_[static_cast<size_t>(v)] = same && is_number(node.type) && !node.operands.empty();
  }
}

void LoopHalves::need_early(Value v) {
  if (is_early_[static_cast<size_t>(v)] || is_late_[static_cast<size_t>(v)]) return;
  is_early_[static_cast<size_t>(v)] = true;
  for (const Value operand : body_[v].operands) need_early(operand);
}

// Notes what crosses of the values that v, of the second half, needs.
void LoopHalves::need_late(Value v, std::set<Value>* seen) {
  const Node& node = body_[v];
  if (is_common(v) || !seen->insert(v).second) return;
  if (node.is_parameter()) {
    const auto& inputs = body_.inputs();
    const auto place =
        static_cast<size_t>(std::find(inputs.begin(), inputs.end(), v) - inputs.begin());
    if (place >= 1 && place <= nest_.carried() && !is_late(place - 1)) crossing_.insert(v);
    return;
  }
  const bool is_cheap = only_moves(node.op) || node.operands.empty();
  if (is_early_[static_cast<size_t>(v)] && !is_cheap) {
    crossing_.insert(v);
    return;
  }
  for (const Value operand : node.operands) need_late(operand, seen);
}

// A product that additions take is no value of its own, and does not cross.
bool LoopHalves::splits_no_sum() const {
  return std::all_of(body_.nodes().begin(), body_.nodes().end(), [&](const Node& node) {
    const auto taken = taken_product(node);
    return !taken || crossing_.count(node.operands[*taken]) == 0;
  });
}

}  // namespace pto
