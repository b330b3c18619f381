// SPDX-License-Identifier: Apache-2.0
#include "pto/codegen/memref.hpp"

#include <algorithm>

#include "pto/base/text.hpp"
#include "pto/codegen/code_writer.hpp"
#include "pto/ir/axis_map.hpp"

namespace pto {
namespace {

std::string times(const std::string& a, const std::string& b) {
  if (a == "0" || b == "0") return "0";
  if (a == "1") return b;
  return b == "1" ? a : a + " * " + b;
}

std::vector<std::string> dense_strides(const Dims& shape) {
  std::vector<std::string> strides(shape.size());
  std::string step = "1";
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = step;
    if (!is_one(shape[i])) step = times(cpp_size(shape[i]), step);
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

MemRef part_of(const MemRef& whole, const std::vector<std::string>& offsets, const Dims& sizes) {
  MemRef part = whole;
  part.type.shape = sizes;
  for (size_t i = 0; i < offsets.size(); ++i)
    if (const std::string step = times(offsets[i], whole.strides[i]); step != "0")
      part.data += " + " + step;
  const bool is_dense =
      whole.layout == StrideClass::Contiguous && is_block(whole.type.shape, sizes);
  if (is_dense) return part;
  part.layout = layout_of(part);
  for (size_t i = 0; i < sizes.size(); ++i)
    if (!(sizes[i] == whole.type.shape[i]))
      part.dense_from = std::max(part.dense_from, static_cast<int>(i));
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

}  // namespace

MemRef with_shape(const MemRef& from, const Dims& shape) {
  if (from.layout == StrideClass::Contiguous) {
    MemRef to = dense_memref(from.data, {from.type.dtype, shape});
    to.constant = from.constant, to.pages = from.pages;
    if (to.constant >= 0) to.axes = axes_of_shape(from, shape);
    return to;
  }
  std::vector<std::string> kept;
  for (size_t i = 0; i < from.strides.size(); ++i)
    if (!is_one(from.type.shape[i])) kept.push_back(from.strides[i]);
  MemRef to = from;
  to.type.shape = shape;
  to.strides.assign(shape.size(), "0");
  auto dense = std::count_if(from.type.shape.begin() + from.dense_from, from.type.shape.end(),
                             [](const Dim& size) { return !is_one(size); });
  size_t next = kept.size();
  to.dense_from = static_cast<int>(shape.size());
  for (size_t i = shape.size(); i-- > 0;) {
    if (is_one(shape[i])) continue;
    to.strides[i] = kept[--next];
    if (dense-- > 0) to.dense_from = static_cast<int>(i);
  }
  if (!shape.empty() && is_one(shape.back())) to.strides.back() = "1";
  to.layout = layout_of(to);
  if (to.constant >= 0) to.axes = axes_of_shape(from, shape);
  return to;
}

MemRef transposed(const MemRef& from, const std::vector<int64_t>& axes) {
  MemRef to = from;
  for (size_t i = 0; i < axes.size(); ++i) {
    to.strides[i] = from.strides[static_cast<size_t>(axes[i])];
    to.type.shape[i] = from.type.shape[static_cast<size_t>(axes[i])];
    if (to.constant >= 0) to.axes[i] = from.axes[static_cast<size_t>(axes[i])];
  }
  to.layout = layout_of(to);
  to.dense_from = static_cast<int>(axes.size());
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
  if (repeats) to.layout = layout_of(to), to.dense_from = static_cast<int>(shape.size());
  return to;
}

std::string element_count(const Dims& shape) { return cpp_checked_size(product(shape)); }

}  // namespace pto
