// SPDX-License-Identifier: Apache-2.0
// Loop invariants of regions without reductions: what is the same for all items, or all along the
// vector axis of one, is computed ahead of that loop, in four lanes.
#include <algorithm>

#include "pto/codegen/region_body.hpp"

namespace pto {

void RegionBody::find_innermost() {
  for (const Instance& i : plan_.instances) {
    int last = -1;
    for (size_t axis = 0; axis < i.accesses.size(); ++axis)
      if (i.accesses[axis].step != AxisStep::None) last = static_cast<int>(axis);
    for (const int operand : i.operands)
      last = std::max(last, innermost_[static_cast<size_t>(operand)]);
    innermost_.push_back(last);
  }
}

// Says whether instance i is computed, and varies along none but the first `axes` axes.
bool RegionBody::is_invariant(int i, int axes) const {
  const bool is_computed = plan_.at(i).input < 0 && !is_literal(i);
  return is_computed && !plan_.reduces() && innermost_[static_cast<size_t>(i)] < axes;
}

void RegionBody::define_invariants(int axes) {
  const auto is_ahead = [&](int i) { return is_invariant(i, axes); };
  width_ = "Row{}";
  for (const int i : plan_.needed(plan_.roots(0), is_ahead))
    if (is_ahead(i)) tile(i);
}

}  // namespace pto
