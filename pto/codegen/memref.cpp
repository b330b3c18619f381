// SPDX-License-Identifier: Apache-2.0
#include "pto/codegen/memref.hpp"

#include <algorithm>

#include "pto/base/text.hpp"
#include "pto/codegen/code_writer.hpp"
#include "pto/ir/axis_map.hpp"

namespace pto {
namespace {

bool is_number(const std::string& text) {
  return text.find_first_not_of("0123456789") == std::string::npos;
}

// Multiplies numbers here: C++ would take a product of two for an int.
std::string times(const std::string& a, const std::string& b) {
  if (a == "0" || b == "0") return "0";
  if (a == "1" || b == "1") return a == "1" ? b : a;
  if (is_number(a) && is_number(b)) return std::to_string(std::stoll(a) * std::stoll(b));
  return a + " * " + b;
}

std::vector<std::string> dense_strides(const Dims& shape) {
  std::vector<std::string> strides(shape.size());
  std::string step = "1";
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = step;
    if (i > 0 && !is_one(shape[i])) step = times(cpp_size(shape[i]), step);
  }
  return strides;
}

// Says what is known of the strides of a part, or of axes in another order.
StrideClass layout_of(const MemRef& place) {
  const bool is_row = place.strides.empty() || place.strides.back() == "1";
  return is_row ? StrideClass::Rows : StrideClass::Any;
}

// Says whether the axes in front of a part have size 1, and those behind one axis are whole.
bool is_block(const Dims& whole, const Dims& part) {
  size_t i = 0;
  while (i < part.size() && is_one(part[i])) ++i;
  for (++i; i < part.size(); ++i)
    if (!(part[i] == whole[i])) return false;
  return true;
}

}  // namespace

MemRef dense_memref(const std::string& data, const Type& type) {
  return {data, type, dense_strides(type.shape), StrideClass::Contiguous};
}

MemRef part_of(const MemRef& whole, const std::vector<std::string>& offsets, const Dims& sizes,
               const std::vector<int64_t>& steps) {
  MemRef part = whole;
  part.type.shape = sizes;
  for (size_t i = 0; i < offsets.size(); ++i)
    if (const std::string step = times(offsets[i], whole.strides[i]); step != "0")
      part.data += " + " + step;
  const bool is_dense =
      steps.empty() && whole.layout == StrideClass::Contiguous && is_block(whole.type.shape, sizes);
  if (is_dense) return part;
  for (size_t i = 0; i < steps.size(); ++i)
    part.strides[i] = times(std::to_string(steps[i]), part.strides[i]);
  part.layout = layout_of(part);
  for (size_t i = 0; i < sizes.size(); ++i)
    if (!(sizes[i] * Dim(steps.empty() ? 1 : steps[i]) == whole.type.shape[i])) part.gaps.add(i);
  for (size_t i = 0; i < steps.size(); ++i)
    if (steps[i] != 1) part.gaps.add(i + 1);
  return part;
}

namespace {

// Says which axes of the constant those of another shape are; they come in the same order.
std::vector<int> axes_of_shape(const MemRef& from, const Dims& shape) {
  std::vector<int> axes(shape.size(), -1);
  size_t next = 0;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (is_one(shape[i])) continue;
    while (next < from.axes.size() && is_one(from.type.shape[next])) ++next;
    if (next == from.axes.size() || !(from.type.shape[next] == shape[i])) return axes;
    axes[i] = from.axes[next++];
  }
  return axes;
}

// The places of the axes of a shape whose size is not 1.
std::vector<size_t> axes_of(const Dims& shape) {
  std::vector<size_t> places;
  for (size_t i = 0; i < shape.size(); ++i)
    if (!is_one(shape[i])) places.push_back(i);
  return places;
}

// Says whether two axes, with none but of size 1 between them, lie as one, as far as is known.
bool continues(const MemRef& from, size_t axis, size_t next) {
  return !from.gaps.between(static_cast<int>(axis), static_cast<int>(next)) ||
         from.strides[axis] == times(cpp_size(from.type.shape[next]), from.strides[next]);
}

}  // namespace

std::optional<MemRef> reshaped(const MemRef& from, const Dims& shape) {
  MemRef to = from;
  to.type.shape = shape;
  if (to.constant >= 0) to.axes = axes_of_shape(from, shape);
  if (from.layout == StrideClass::Contiguous) {
    to.strides = dense_strides(shape);
    return to;
  }
  const auto groups = regrouped(iteration_space(from.type.shape), iteration_space(shape));
  if (!groups) return std::nullopt;
  const std::vector<size_t> old = axes_of(from.type.shape), axes = axes_of(shape);
  to.strides.assign(shape.size(), "0");
  to.gaps = {};
  for (const Regrouped& g : *groups) {
    std::string step = from.strides[old[g.from_end - 1]];
    if (g.from > 0 && !continues(from, old[g.from - 1], old[g.from])) to.gaps.add(axes[g.to]);
    for (size_t k = g.from_end; --k > g.from;)
      if (!continues(from, old[k - 1], old[k])) return std::nullopt;
    for (size_t k = g.to_end; k-- > g.to;) {
      to.strides[axes[k]] = step;
      step = times(cpp_size(shape[axes[k]]), step);
    }
  }
  if (!shape.empty() && is_one(shape.back())) to.strides.back() = "1";
  to.layout = layout_of(to);
  return to;
}

MemRef with_shape(const MemRef& from, const Dims& shape) {
  if (from.layout == StrideClass::Contiguous) return *reshaped(from, shape);
  MemRef same = from;  // with sizes that are spelled as those of the shape
  const std::vector<size_t> old = axes_of(from.type.shape), axes = axes_of(shape);
  PTO_ASSERT(old.size() == axes.size());
  for (size_t i = 0; i < old.size(); ++i) same.type.shape[old[i]] = shape[axes[i]];
  return *reshaped(same, shape);
}

MemRef transposed(const MemRef& from, const std::vector<int64_t>& axes) {
  MemRef to = from;
  for (size_t i = 0; i < axes.size(); ++i) {
    to.strides[i] = from.strides[static_cast<size_t>(axes[i])];
    to.type.shape[i] = from.type.shape[static_cast<size_t>(axes[i])];
    if (to.constant >= 0) to.axes[i] = from.axes[static_cast<size_t>(axes[i])];
  }
  to.layout = layout_of(to);
  to.gaps = AxisGaps::everywhere();
  return to;
}

MemRef broadcast_to(const MemRef& from, const Dims& shape) {
  MemRef to = from;
  to.type.shape = shape;
  to.strides.assign(shape.size(), "0");
  const size_t ahead = shape.size() - from.strides.size();
  bool repeats = ahead > 0;
  if (to.constant >= 0) to.axes.insert(to.axes.begin(), ahead, -1);
  for (size_t i = 0; i < from.strides.size(); ++i) {
    const bool stretches = is_one(from.type.shape[i]) && !is_one(shape[ahead + i]);
    if (!stretches) to.strides[ahead + i] = from.strides[i];
    repeats = repeats || stretches;
  }
  if (repeats) to.layout = layout_of(to), to.gaps = AxisGaps::everywhere();
  return to;
}

std::vector<std::string> known_strides(const MemRef& tensor) {
  std::vector<std::string> known = tensor.strides;
  for (std::string& stride : known)
    if (!is_number(stride)) stride.clear();
  return known;
}

std::string element_count(const Dims& shape) { return cpp_checked_size(product(shape)); }

}  // namespace pto
