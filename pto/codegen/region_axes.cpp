// SPDX-License-Identifier: Apache-2.0
#include "pto/codegen/region_axes.hpp"

#include <algorithm>

namespace pto {
namespace {

class AxisJoiner {
 public:
  AxisJoiner(RegionPlan* plan, const std::vector<TensorAccess>& accesses)
      : axes_(plan->axes), plan_(*plan), accesses_(accesses) {}

  void run() {
    for (size_t axis = axes_.empty() ? 0 : axes_.size() - 1; axis-- > 0;)
      if (mergeable_everywhere(axis)) merge(axis);
    join_short_axis();
    turn_short_rows();
  }

 private:
  // True where an axis and the next one are one in memory with this layout.
  static bool is_dense(const TensorAccess& access, size_t axis) {
    const std::vector<int>&first = (*access.axes)[axis].dims,
          &second = (*access.axes)[axis + 1].dims;
    return first.empty() || second.empty() ||
           !access.layout.gaps.between(first.back(), second.front());
  }

  // True where two neighbouring axes are one in this tensor's memory if it is dense, or where the
  // tensor varies along neither.
  static bool mergeable(const TensorAccess& access, size_t axis) {
    const std::vector<int>&first = (*access.axes)[axis].dims,
          &second = (*access.axes)[axis + 1].dims;
    if (first.empty() && second.empty()) return true;
    if (first.empty() || second.empty() || second.front() < first.back()) return false;
    for (int d = first.back() + 1; d < second.front(); ++d)
      if (!is_one((*access.shape)[static_cast<size_t>(d)])) return false;
    return true;
  }

  bool mergeable_everywhere(size_t axis) const {
    const bool inner = axes_[axis].inner;
    return inner == axes_[axis + 1].inner &&
           std::all_of(accesses_.begin(), accesses_.end(), [&](const TensorAccess& access) {
             return (inner || is_dense(access, axis)) && mergeable(access, axis);
           });
  }

  // The access of an axis and the next one as one.
  static AxisAccess merged(const AxisAccess& outer, AxisAccess inner) {
    inner.dims.insert(inner.dims.begin(), outer.dims.begin(), outer.dims.end());
    return inner;
  }

  void merge(size_t axis) {
    for (const TensorAccess& access : accesses_) {
      AxisAccess both = merged((*access.axes)[axis], (*access.axes)[axis + 1]);
      if (!is_dense(access, axis) && !both.dims.empty()) both.step = AxisStep::Folded;
      access.axes->erase(access.axes->begin() + static_cast<long>(axis));
      (*access.axes)[axis] = both;
    }
    join(axis);
  }

  // Makes one axis of this one and the next one.
  void join(size_t axis) {
    const RegionAxis outer = axes_[axis];
    axes_.erase(axes_.begin() + static_cast<long>(axis));
    axes_[axis].size = outer.size * axes_[axis].size;
    std::vector<Dim>& parts = axes_[axis].parts;
    parts.insert(parts.begin(), outer.parts.begin(), outer.parts.end());
  }

  bool has_short_last_axis(int64_t longest) const {
    const Dim size = axes_.empty() ? Dim(1) : axes_.back().size;
    return size.is_constant() && size.value() >= 2 && size.value() <= longest;
  }

  // Returns the access of the last two axes, the last one short, as one; null where there is none.
  static std::optional<AxisAccess> joined(const TensorAccess& access) {
    const size_t last = access.axes->size() - 1;
    const AxisAccess &outer = (*access.axes)[last - 1], &inner = (*access.axes)[last];
    const auto steps = std::pair(outer.step, inner.step);
    if (steps == std::pair(AxisStep::None, AxisStep::None)) return AxisAccess{};
    if (access.are_positions) return std::nullopt;
    if (steps == std::pair(AxisStep::Unit, AxisStep::None))
      return AxisAccess{AxisStep::Repeated, outer.dims};
    if (steps == std::pair(AxisStep::None, AxisStep::Unit))
      return AxisAccess{AxisStep::Periodic, inner.dims};
    const bool is_whole = steps == std::pair(AxisStep::Strided, AxisStep::Unit) &&
                          is_dense(access, last - 1) && mergeable(access, last - 1);
    return is_whole ? std::optional(merged(outer, inner)) : std::nullopt;
  }

  void join_short_axis() {
    constexpr int64_t kLongest = 8;
    if (axes_.size() < 2 || plan_.reduces() || !has_short_last_axis(kLongest)) return;
    if (!std::all_of(accesses_.begin(), accesses_.end(), joined)) return;
    for (const TensorAccess& access : accesses_) {
      const AxisAccess both = *joined(access);
      access.axes->pop_back();
      access.axes->back() = both;
    }
    plan_.period = axes_.back().size.value();
    join(axes_.size() - 2);
  }

  // Also where there is one row: the order of a sum must not depend on their number.
  void turn_short_rows() {
    constexpr int64_t kLongest = 4;
    if (!has_short_last_axis(kLongest) || !axes_.back().inner) return;
    size_t outer = axes_.size();
    while (outer > 0 && axes_[outer - 1].inner) --outer;
    const bool is_one_row = outer == 0;
    if (is_one_row) {
      axes_.push_back({1, false, {1}});
      for (const TensorAccess& access : accesses_) access.axes->emplace_back();
    } else if (is_plain(--outer)) {
      to_the_end(&axes_, outer);
      for (const TensorAccess& access : accesses_) to_the_end(access.axes, outer);
    } else {
      return;
    }
    plan_.turned = true;
  }

  bool is_plain(size_t axis) const {
    return std::none_of(accesses_.begin(), accesses_.end(), [&](const TensorAccess& access) {
      return (*access.axes)[axis].step == AxisStep::Chosen;
    });
  }

  template <class T>
  static void to_the_end(std::vector<T>* all, size_t place) {
    const auto at = all->begin() + static_cast<long>(place);
    std::rotate(at, at + 1, all->end());
  }

  std::vector<RegionAxis>& axes_;
  RegionPlan& plan_;
  const std::vector<TensorAccess>& accesses_;
};

}  // namespace

void join_axes(RegionPlan* plan, const std::vector<TensorAccess>& accesses) {
  AxisJoiner(plan, accesses).run();
}

}  // namespace pto
