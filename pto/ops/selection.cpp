// SPDX-License-Identifier: Apache-2.0
// Kernels of selection.py, and of gradients of movement.py. Tensors are dense; PTO_TYPE_0 is the
// element type, PTO_TYPE_1 that of indices.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "pto/abi/program.h"
#include "pto/operators/named_arguments.hpp"
#include "pto/pto-inst.hpp"

namespace {

using pto::bfloat16_t;
using pto::half;
using pto::KernelArguments;
using namespace pto::literals;
using Element = PTO_TYPE_0;

// An axis of a dense tensor: consecutive elements of a row are `stride` apart.
struct TensorAxis {
  int64_t size, stride, rows;

  TensorAxis(const pto_tensor& tensor, int64_t dim) : size(1), stride(1), rows(1) {
    if (tensor.rank == 0) return;
    const int64_t axis = dim < 0 ? dim + tensor.rank : dim;
    size = tensor.sizes[axis];
    for (int64_t d = 0; d < tensor.rank; ++d) {
      if (d > axis) stride *= tensor.sizes[d];
      if (d != axis) rows *= tensor.sizes[d];
    }
  }

  int64_t first(int64_t row) const { return row / stride * stride * size + row % stride; }
};

// The `size` elements from `data` on, `stride` apart, of the tensor's type.
pto_tensor line_of(const pto_tensor& tensor, void* data, const int64_t& size,
                   const int64_t& stride) {
  pto_tensor line = tensor;
  line.data = data, line.rank = 1, line.sizes = &size, line.strides = &stride;
  return line;
}

}  // namespace

PTO_OPERATOR_KERNEL(top_k) {
  Element* x = in.data("x"_arg);
  Element* values = in.data("values"_arg);
  int64_t* indices = in.data("indices"_arg);
  const int64_t k = in.integer("k"_arg);
  const bool largest = in.integer("largest"_arg) != 0;
  const TensorAxis from(in.tensor("x"_arg), in.integer("dim"_arg)),
      to(in.tensor("values"_arg), in.integer("dim"_arg));
  if (k > from.size) {
    char text[160];
    __builtin_snprintf(text, sizeof text,
                       "k is %lld, and the axis has the size %lld\nit counts elements of the axis\n"
                       "give its size at most",
                       static_cast<long long>(k), static_cast<long long>(from.size));
    return in.fail(text);
  }
  const auto rows = in.items(from.rows);
  for (int64_t row = rows.first; row < rows.last; ++row) {
    const int64_t at = to.first(row);
    const pto_tensor line =
                         line_of(in.tensor("x"_arg), x + from.first(row), from.size, from.stride),
                     most = line_of(in.tensor("values"_arg), values + at, k, to.stride),
                     places = line_of(in.tensor("indices"_arg), indices + at, k, to.stride);
    if (const int32_t code = pto_sort(in.services(), "", &most, &places, &line, k, largest, 1))
      return code;
  }
  return 0;
}

PTO_OPERATOR_KERNEL(top_k_backward) {
  if ((in.integer("needs"_arg) & 1) == 0) return 0;
  const Element* d_values = in.data("d_values"_arg);
  const int64_t* indices = in.data("indices"_arg);
  Element* d_x = in.data("d_x"_arg);
  const TensorAxis from(in.tensor("d_values"_arg), in.integer("dim"_arg)),
      to(in.tensor("x"_arg), in.integer("dim"_arg));
  const auto rows = in.items(to.rows);
  for (int64_t row = rows.first; row < rows.last; ++row) {
    for (int64_t i = 0; i < to.size; ++i) d_x[to.first(row) + i * to.stride] = Element(0);
    for (int64_t i = 0; i < from.size; ++i) {
      const int64_t at = from.first(row) + i * from.stride;
      if (indices[at] < 0 || indices[at] >= to.size) {
        return in.fail_index(indices[at], 0, to.size);
      }
      d_x[to.first(row) + indices[at] * to.stride] = d_values[at];
    }
  }
  return 0;
}

PTO_OPERATOR_KERNEL(top_k_backward_backward) {
  if ((in.integer("needs_"_arg) & 1) == 0) return 0;
  const Element* d_d_x = in.data("d_d_x"_arg);
  const int64_t* indices = in.data("indices"_arg);
  Element* to = in.data("d_d_values"_arg);
  const TensorAxis whole(in.tensor("d_d_x"_arg), in.integer("dim"_arg)),
      taken(in.tensor("indices"_arg), in.integer("dim"_arg));
  const auto rows = in.items(taken.rows);
  for (int64_t row = rows.first; row < rows.last; ++row) {
    for (int64_t i = 0; i < taken.size; ++i) {
      const int64_t at = taken.first(row) + i * taken.stride;
      if (indices[at] < 0 || indices[at] >= whole.size) {
        return in.fail_index(indices[at], 0, whole.size);
      }
      to[at] = d_d_x[whole.first(row) + indices[at] * whole.stride];
    }
  }
  return 0;
}

// weight, indices, result.
PTO_OPERATOR_KERNEL(embedding) {
  const Element* weight = in.data(0);
  const PTO_TYPE_1* indices = in.data(1);
  Element* to = in.data(2);
  const int64_t rows = in.tensor(0).sizes[0];
  // Indices are checked even where nothing is taken.
  const int64_t width = in.tensor(2).extent_bytes > 0 ? in.tensor(0).sizes[1] : 0;
  int64_t count = 1;
  for (int32_t axis = 0; axis < in.tensor(1).rank; ++axis) count *= in.tensor(1).sizes[axis];
  const auto items = in.items(count);
  for (int64_t i = items.first; i < items.last; ++i) {
    const auto row = int64_t(indices[i]);
    if (row < 0 || row >= rows) {
      return in.fail_index(row, 0, rows);
    }
    if (width > 0)
      std::memcpy(to + i * width, weight + row * width, size_t(width) * sizeof(Element));
  }
  return 0;
}

namespace {

// Adds the parts of d_result [outer, count, inner] to those of d_x [outer, size, inner] that the
// indices name, in their order. A block has some lanes, each an outer and an inner place.
class PartsSum {
 public:
  PartsSum(const KernelArguments& in, const pto_tensor& d_result, const pto_tensor& indices,
           const pto_tensor& d_x, int64_t dim, bool counts_from_end)
      : in_(in),
        d_result_(static_cast<const Element*>(d_result.data)),
        indices_(static_cast<const PTO_TYPE_2*>(indices.data)),
        d_x_(static_cast<Element*>(d_x.data)),
        to_(d_x, dim),
        lowest_(counts_from_end ? -to_.size : 0) {
    for (int32_t axis = 0; axis < indices.rank; ++axis) count_ *= indices.sizes[axis];
  }

  int32_t run() {
    const auto lanes = in_.items(to_.rows);
    if (kNeedsSum && to_.size > 0) {
      const int64_t most = std::min(lanes.last - lanes.first, to_.stride);
      sums_ = static_cast<Sum*>(in_.scratch(size_t(most * to_.size + 1) * sizeof(Sum)));
      if (sums_ == nullptr) return in_.fail("no memory for the sums of gradients");
    }
    for (int64_t lane = lanes.first; lane < lanes.last;) {
      const int64_t outer = lane / to_.stride, begin = lane % to_.stride;
      const int64_t wide = std::min(to_.stride - begin, lanes.last - lane);
      if (const int32_t failed = add(outer, begin, wide)) return failed;
      lane += wide;
    }
    return 0;
  }

 private:
  static constexpr bool kIsShort =
      std::is_same_v<Element, half> || std::is_same_v<Element, bfloat16_t>;
  using Sum = std::conditional_t<kIsShort, float, Element>;
  static constexpr bool kNeedsSum = sizeof(Sum) != sizeof(Element);

  int32_t add(int64_t outer, int64_t begin, int64_t wide) {
    const auto* d_result = d_result_ + outer * count_ * to_.stride + begin;
    auto* d_x = d_x_ + outer * to_.size * to_.stride + begin;
    Sum* sums = kNeedsSum ? sums_ : reinterpret_cast<Sum*>(d_x);
    const int64_t stride = kNeedsSum ? wide : to_.stride;
    for (int64_t row = 0; row < to_.size; ++row) {
      std::fill(sums + row * stride, sums + row * stride + wide, Sum(0));
    }
    for (int64_t i = 0; i < count_; ++i) {
      const auto given = int64_t(indices_[i]);
      if (given < lowest_ || given >= to_.size) return in_.fail_index(given, lowest_, to_.size);
      Sum* row = sums + (given < 0 ? given + to_.size : given) * stride;
      for (int64_t c = 0; c < wide; ++c) row[c] += Sum(d_result[i * to_.stride + c]);
    }
    for (int64_t row = 0; kNeedsSum && row < to_.size; ++row) {
      for (int64_t c = 0; c < wide; ++c) d_x[row * to_.stride + c] = Element(sums[row * wide + c]);
    }
    return 0;
  }

  const KernelArguments& in_;
  const Element* const d_result_;
  const PTO_TYPE_2* const indices_;
  Element* const d_x_;
  const TensorAxis to_;
  const int64_t lowest_;
  int64_t count_ = 1;
  Sum* sums_ = nullptr;
};

}  // namespace

PTO_OPERATOR_KERNEL(embedding_backward) {
  if ((in.integer("needs"_arg) & 1) == 0) return 0;
  return PartsSum(in, in.tensor("d_result"_arg), in.tensor("indices"_arg),
                  in.tensor("d_weight"_arg), 0, /*counts_from_end=*/false)
      .run();
}

PTO_OPERATOR_KERNEL(gather_backward) {
  if ((in.integer("needs"_arg) & 1) == 0) return 0;
  return PartsSum(in, in.tensor("d_result"_arg), in.tensor("indices"_arg), in.tensor("d_x"_arg),
                  in.integer("dim"_arg), /*counts_from_end=*/true)
      .run();
}

namespace {

// Copies pieces out of a whole, or into it: a run of elements for each row of the axes before
// `dim`.
void copy_pieces(const KernelArguments& in, const pto_tensor& whole, int first_piece, int pieces,
                 int64_t dim, bool out_of_whole) {
  const TensorAxis all(whole, dim);
  const auto rows = in.items(all.rows / all.stride);
  int64_t offset = 0;
  for (int p = 0; p < pieces; ++p) {
    const pto_tensor& piece = in.tensor(first_piece + p);
    const TensorAxis part(piece, dim);
    const size_t bytes = size_t(part.size * part.stride) * sizeof(Element);
    for (int64_t row = rows.first; row < rows.last && bytes > 0; ++row) {
      char* in_whole = static_cast<char*>(whole.data) +
                       (row * all.size + offset) * all.stride * int64_t(sizeof(Element));
      char* in_piece = static_cast<char*>(piece.data) + row * int64_t(bytes);
      std::memcpy(out_of_whole ? in_piece : in_whole, out_of_whole ? in_whole : in_piece, bytes);
    }
    offset += part.size;
  }
}

}  // namespace

// x, pieces; sizes, dim.
PTO_OPERATOR_KERNEL(split) {
  const int pieces = in.tensors() - 1;
  if (in.tensor(0).extent_bytes == 0 || pieces == 0) return 0;  // none: a gradient not needed
  copy_pieces(in, in.tensor(0), 1, pieces, in.integer("dim"_arg), true);
  return 0;
}

// d_pieces, d_x; the number of pieces, sizes, dim, needs.
PTO_OPERATOR_KERNEL(join) {
  const int pieces = in.tensors() - 1;
  if ((in.integer("needs"_arg) & 1) == 0 || in.tensor(pieces).extent_bytes == 0) return 0;
  copy_pieces(in, in.tensor(pieces), 0, pieces, in.integer("dim"_arg), false);
  return 0;
}

// d_result, tensors, d_tensors; the number of tensors, dim, needs.
PTO_OPERATOR_KERNEL(concat_backward) {
  const int pieces = static_cast<int>(in.integer("tensors"_arg));
  if ((in.integer("needs"_arg) & 1) == 0 || in.tensor(0).extent_bytes == 0) return 0;
  copy_pieces(in, in.tensor(0), 1 + pieces, pieces, in.integer("dim"_arg), true);
  return 0;
}
