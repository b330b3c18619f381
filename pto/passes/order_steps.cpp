// SPDX-License-Identifier: Apache-2.0
#include "pto/passes/order_steps.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>

namespace pto {
namespace {

using Needs = std::vector<std::vector<size_t>>;

// Counts for each item the items on the longest chain that begins with it.
std::vector<int> chains(const Needs& needs) {
  std::vector<int> length(needs.size(), 0);
  std::vector<std::vector<size_t>> readers(needs.size());
  for (size_t i = 0; i < needs.size(); ++i)
    for (const size_t need : needs[i]) readers[need].push_back(i);
  const std::function<int(size_t)> of = [&](size_t i) {
    if (length[i] > 0) return length[i];
    int longest = 0;
    for (const size_t reader : readers[i]) longest = std::max(longest, of(reader));
    return length[i] = longest + 1;
  };
  for (size_t i = 0; i < needs.size(); ++i) of(i);
  return length;
}

// Takes again and again the item with the least rank of those that wait for nothing.
std::vector<size_t> by_rank(const Needs& needs, const std::vector<std::pair<int, Value>>& rank) {
  std::vector<size_t> order;
  std::vector<bool> done(needs.size());
  while (order.size() < needs.size()) {
    size_t best = needs.size();
    for (size_t i = 0; i < needs.size(); ++i) {
      const bool is_ready = !done[i] && std::all_of(needs[i].begin(), needs[i].end(),
                                                    [&](size_t need) { return done[need]; });
      if (is_ready && (best == needs.size() || rank[i] < rank[best])) best = i;
    }
    PTO_ASSERT(best < needs.size());
    done[best] = true;
    order.push_back(best);
  }
  return order;
}

// Goes from each end back to what it needs.
std::vector<size_t> by_depth(const Needs& needs, const std::vector<Value>& place) {
  std::vector<size_t> ends(needs.size()), order;
  std::iota(ends.begin(), ends.end(), 0);
  std::stable_sort(ends.begin(), ends.end(),
                   [&](size_t a, size_t b) { return place[a] < place[b]; });
  std::set<size_t> needed, done;
  for (const auto& some : needs) needed.insert(some.begin(), some.end());
  const std::function<void(size_t)> visit = [&](size_t i) {
    if (!done.insert(i).second) return;
    for (const size_t need : needs[i]) visit(need);
    order.push_back(i);
  };
  for (const size_t end : ends)
    if (!needed.count(end)) visit(end);
  return order;
}

}  // namespace

std::optional<StepOrder> asked_order(const Graph& graph) {
  for (const Node& node : graph.nodes()) {
    const Hint* hint = find_hint(node, "order");
    if (hint == nullptr) continue;
    if (hint->text == "submitted") return StepOrder::Submitted;
    if (hint->text == "depth") return StepOrder::Depth;
    if (hint->text == "longest") return StepOrder::Longest;
  }
  return std::nullopt;
}

std::vector<size_t> in_order(const Needs& needs, const std::vector<Value>& place, StepOrder order) {
  if (order == StepOrder::Depth) return by_depth(needs, place);
  std::vector<std::pair<int, Value>> rank;
  const std::vector<int> length = chains(needs);
  for (size_t i = 0; i < needs.size(); ++i)
    rank.emplace_back(order == StepOrder::Longest ? -length[i] : 0, place[i]);
  return by_rank(needs, rank);
}

}  // namespace pto
