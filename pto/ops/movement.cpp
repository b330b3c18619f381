// SPDX-License-Identifier: Apache-2.0
// Kernels that only move elements: transpose, slice, gather, concat. The gradients of the last two
// are in selection.cpp.
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "pto/operators/named_arguments.hpp"
#include "pto/pto-inst.hpp"

using namespace pto;

namespace {

using Element = PTO_TYPE_0;
constexpr int64_t kSide = 32;  // of a square that is transposed at once: 32 cache lines

// Copies into a dense row-major tensor from one with any strides (in elements).
class Copy {
 public:
  Copy(Element* to, const Element* from) : to_(to), from_(from) {}

  // Adds the axes of the result in order, and joins axes that continue each other.
  void add_axis(int64_t size, int64_t stride) {
    if (size == 1) return;
    if (rank_ > 0 && strides_[rank_ - 1] == stride * size) {
      sizes_[rank_ - 1] *= size;
      strides_[rank_ - 1] = stride;
      return;
    }
    sizes_[rank_] = size;
    strides_[rank_++] = stride;
  }

  void run(const KernelArguments& in) {
    if (std::count(sizes_, sizes_ + rank_, 0) > 0) return;
    if (rank_ == 0) add_axis_of_one();
    for (int64_t step = 1, axis = rank_ - 1; axis >= 0; step *= sizes_[axis--]) {
      to_strides_[axis] = step;
    }
    const int unit = axis_of_stride_one();
    unit >= 0 && unit < rank_ - 1 ? run_squares(in, unit) : run_rows(in);
  }

 private:
  void add_axis_of_one() {
    sizes_[0] = 1;
    strides_[rank_++] = 1;
  }

  int axis_of_stride_one() const {
    for (int axis = rank_ - 1; axis >= 0; --axis) {
      if (strides_[axis] == 1) return axis;
    }
    return -1;
  }

  // Finds where the item with this number starts in both tensors, over all axes but the last and
  // `skip`.
  void locate(int64_t item, int skip, int64_t* to, int64_t* from) const {
    *to = *from = 0;
    for (int axis = rank_ - 2; axis >= 0; --axis) {
      if (axis == skip) continue;
      *to += item % sizes_[axis] * to_strides_[axis];
      *from += item % sizes_[axis] * strides_[axis];
      item /= sizes_[axis];
    }
  }

  void run_rows(const KernelArguments& in) const {
    const int64_t length = sizes_[rank_ - 1], stride = strides_[rank_ - 1];
    int64_t rows = 1;
    for (int axis = 0; axis < rank_ - 1; ++axis) rows *= sizes_[axis];
    const bool one_row = rows == 1;  // cut the row then
    const auto [first, last] = in.items(one_row ? length : rows);
    if (one_row) return copy_row(to_ + first, from_ + first * stride, last - first, stride);
    int64_t place[PTO_MAX_RANK + 1], rest = first, from = 0;
    for (int axis = rank_ - 2; axis >= 0; --axis) {
      place[axis] = rest % sizes_[axis];
      from += place[axis] * strides_[axis];
      rest /= sizes_[axis];
    }
    for (int64_t row = first; row < last; ++row) {
      copy_row(to_ + row * length, from_ + from, length, stride);
      for (int axis = rank_ - 2; axis >= 0; --axis) {  // on to the next row
        from += strides_[axis];
        if (++place[axis] < sizes_[axis]) break;
        place[axis] = 0;
        from -= sizes_[axis] * strides_[axis];
      }
    }
  }

  static void copy_row(Element* to, const Element* from, int64_t length, int64_t stride) {
    if (stride == 1) {
      std::memcpy(to, from, static_cast<size_t>(length) * sizeof(Element));
    } else {
      for (int64_t i = 0; i < length; ++i) to[i] = from[i * stride];
    }
  }

  // Copies in squares: axis `unit` is dense in the source, the last axis in the result.
  void run_squares(const KernelArguments& in, int unit) const {
    const int64_t width = sizes_[unit], strips = (width + kSide - 1) / kSide;
    int64_t outer = 1;
    for (int axis = 0; axis < rank_ - 1; ++axis) outer *= axis == unit ? 1 : sizes_[axis];
    const auto [first, last] = in.items(outer * strips);
    for (int64_t item = first; item < last; ++item) {
      int64_t to, from;
      locate(item / strips, unit, &to, &from);
      const int64_t begin = item % strips * kSide, end = std::min(width, begin + kSide);
      transpose_strip(to_ + to, from_ + from, unit, begin, end);
    }
  }

  void transpose_strip(Element* to, const Element* from, int unit, int64_t begin,
                       int64_t end) const {
    const int64_t length = sizes_[rank_ - 1], from_step = strides_[rank_ - 1];
    const int64_t to_step = to_strides_[unit];
    for (int64_t at = 0; at < length; at += kSide) {
      const int64_t stop = std::min(length, at + kSide);
      for (int64_t j = begin; j < end; ++j) {
        for (int64_t i = at; i < stop; ++i) to[j * to_step + i] = from[i * from_step + j];
      }
    }
  }

  Element* to_;
  const Element* from_;
  int rank_ = 0;
  int64_t sizes_[PTO_MAX_RANK + 1], strides_[PTO_MAX_RANK + 1], to_strides_[PTO_MAX_RANK + 1];
};

int64_t product(const int64_t* sizes, int64_t first, int64_t last) {
  int64_t result = 1;
  for (int64_t axis = first; axis < last; ++axis) result *= sizes[axis];
  return result;
}

int64_t counted_from_front(int64_t axis, int64_t rank) { return axis < 0 ? axis + rank : axis; }

// Says whether a tensor is empty, as a gradient that is not needed is.
bool is_empty(const pto_tensor& tensor) {
  return std::count(tensor.sizes, tensor.sizes + tensor.rank, 0) > 0;
}

// The start and the step of a slice, by axis.
struct Slices {
  int64_t starts[PTO_MAX_RANK] = {}, steps[PTO_MAX_RANK];

  // The sizes of the result say more than `ends`.
  template <class Named>
  Slices(const Named& in, const pto_tensor& whole) {
    std::fill(steps, steps + PTO_MAX_RANK, 1);
    const auto axes = in.integers("axes"_arg);
    for (int64_t i = 0; i < axes.size; ++i) {
      const int64_t axis = counted_from_front(axes[i], whole.rank);
      const int64_t size = whole.sizes[axis], start = in.integers("starts"_arg)[i];
      const int64_t most = std::max<int64_t>(size, 1);  // a longer step takes no other elements
      steps[axis] = std::clamp<int64_t>(in.integers("steps"_arg)[i], -most, most);
      const int64_t wanted = start < 0 ? start + size : start;
      starts[axis] = std::clamp<int64_t>(wanted, 0, steps[axis] < 0 ? size - 1 : size);
    }
  }
};

}  // namespace

// x, result.
PTO_OPERATOR_KERNEL(transpose) {
  const pto_tensor& x = in.tensor(0);
  if (is_empty(in.tensor(1))) return 0;
  Copy copy(in.data(1), in.data(0));
  for (const int64_t axis : in.integers("perm"_arg)) {
    const int64_t from = counted_from_front(axis, x.rank);
    copy.add_axis(x.sizes[from], x.strides[from]);
  }
  copy.run(in);
  return 0;
}

PTO_OPERATOR_KERNEL(transpose_backward) {
  const pto_tensor& d_result = in.tensor("d_result"_arg);
  if (is_empty(in.tensor("d_x"_arg))) return 0;
  int64_t places[PTO_MAX_RANK] = {};  // of the axes of x in the result
  for (int64_t i = 0; i < d_result.rank; ++i) {
    places[counted_from_front(in.integers("perm"_arg)[i], d_result.rank)] = i;
  }
  Copy copy(in.data("d_x"_arg), in.data("d_result"_arg));
  for (int axis = 0; axis < d_result.rank; ++axis) {
    copy.add_axis(d_result.sizes[places[axis]], d_result.strides[places[axis]]);
  }
  copy.run(in);
  return 0;
}

// x, result.
PTO_OPERATOR_KERNEL(slice) {
  const pto_tensor &x = in.tensor(0), &result = in.tensor(1);
  if (is_empty(result)) return 0;
  const Slices slices(in, x);
  int64_t offset = 0;
  for (int axis = 0; axis < x.rank; ++axis) offset += slices.starts[axis] * x.strides[axis];
  const Element* from = in.data(0);
  Copy copy(in.data(1), from + offset);
  for (int axis = 0; axis < x.rank; ++axis) {
    copy.add_axis(result.sizes[axis], x.strides[axis] * slices.steps[axis]);
  }
  copy.run(in);
  return 0;
}

// Row by row of d_x: zeros, and what was taken.
PTO_OPERATOR_KERNEL(slice_backward) {
  const pto_tensor &d_result = in.tensor("d_result"_arg), &d_x = in.tensor("d_x"_arg);
  if (is_empty(d_x)) return 0;
  const Slices slices(in, in.tensor("x"_arg));
  const int last_axis = d_x.rank - 1;
  const int64_t length = d_x.rank > 0 ? d_x.sizes[last_axis] : 1;
  const int64_t taken = d_x.rank > 0 ? d_result.sizes[last_axis] : 1;
  Element* const d_x_elements = in.data("d_x"_arg);
  const auto [first, last] = in.items(product(d_x.sizes, 0, last_axis));
  for (int64_t row = first; row < last; ++row) {
    Element* to = d_x_elements + row * length;
    const Element* from = in.data("d_result"_arg);
    std::fill(to, to + length, Element(0));
    bool is_taken = true;
    int64_t rest = row;
    for (int axis = last_axis - 1; axis >= 0; rest /= d_x.sizes[axis--]) {
      const int64_t steps = rest % d_x.sizes[axis] - slices.starts[axis];
      const int64_t place = steps / slices.steps[axis];
      is_taken =
          is_taken && steps % slices.steps[axis] == 0 && place >= 0 && place < d_result.sizes[axis];
      from += place * d_result.strides[axis];
    }
    if (!is_taken) continue;
    const int64_t step = d_x.rank > 0 ? slices.steps[last_axis] : 1;
    const int64_t stride = d_x.rank > 0 ? d_result.strides[last_axis] : 1;
    if (d_x.rank > 0) to += slices.starts[last_axis];
    for (int64_t i = 0; i < taken; ++i) to[i * step] = from[i * stride];
  }
  return 0;
}

#ifdef PTO_TYPE_1
// x, indices, result.
PTO_OPERATOR_KERNEL(gather) {
  const pto_tensor &x = in.tensor(0), &indices = in.tensor(1);
  const PTO_TYPE_1* index = in.data(1);
  const int64_t axis = counted_from_front(in.integer("dim"_arg), x.rank), size = x.sizes[axis];
  const int64_t width = product(x.sizes, axis + 1, x.rank);
  const int64_t count = product(indices.sizes, 0, indices.rank);
  const bool takes_nothing = is_empty(in.tensor(2));  // then indices are checked all the same
  const Element* const x_elements = in.data(0);
  Element* const elements = in.data(2);
  const auto [first, last] = in.items(takes_nothing ? count : product(x.sizes, 0, axis) * count);
  for (int64_t row = first; row < last; ++row) {
    const auto given = static_cast<int64_t>(index[row % count]);
    if (given < -size || given >= size) return in.fail_index(given, -size, size);
    if (takes_nothing) continue;
    const int64_t from = row / count * size + (given < 0 ? given + size : given);
    std::memcpy(elements + row * width, x_elements + from * width,
                static_cast<size_t>(width) * sizeof(Element));
  }
  return 0;
}
#endif

// The parts, result.
PTO_OPERATOR_KERNEL(concat) {
  const int parts = in.tensors() - 1;
  const pto_tensor& result = in.tensor(parts);
  if (is_empty(result)) return 0;
  const int64_t axis = counted_from_front(in.integer("dim"_arg), result.rank);
  const int64_t width = product(result.sizes, axis, result.rank);
  Element* const elements = in.data(parts);
  const auto [first, last] = in.items(product(result.sizes, 0, axis));
  int64_t offset = 0;
  for (int part = 0; part < parts; ++part) {
    const pto_tensor& one = in.tensor(part);
    const Element* const part_elements = in.data(part);
    const int64_t length = product(one.sizes, axis, one.rank);
    for (int64_t row = first; row < last && length > 0; ++row) {
      std::memcpy(elements + row * width + offset, part_elements + row * length,
                  static_cast<size_t>(length) * sizeof(Element));
    }
    offset += length;
  }
  return 0;
}
