// SPDX-License-Identifier: Apache-2.0
// Kernels of selection.py. Tensors are dense; PTO_TYPE_0 is the element type, PTO_TYPE_1 that of
// indices.
#include <algorithm>
#include <cstring>

#include "pto/isa/kernel_arguments.hpp"
#include "pto/pto-inst.hpp"

namespace {

using pto::bfloat16_t;
using pto::half;
using pto::KernelArguments;
using Element = PTO_TYPE_0;

// An axis of a dense tensor: element i of a row stands `stride` after the one before it.
struct Axis {
  int64_t size, stride, rows;

  Axis(const pto_tensor& tensor, int64_t dim) : size(1), stride(1), rows(1) {
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

template <class T>
bool is_nan(T value) {
  return value != value;
}

// Whether `a` comes before `b` among the largest: NaN first, then by value.
template <class T>
bool is_larger(T a, T b) {
  if (is_nan(b)) return false;
  return is_nan(a) || a > b;
}

// A number that compares as the element does.
inline float key(half v) { return float(v); }
inline float key(bfloat16_t v) { return float(v); }
template <class T>
T key(T v) {
  return v;
}

}  // namespace

// x, values, indices; k, dim, largest.
extern "C" int32_t top_k(const pto_args* args) {
  const KernelArguments in(args);
  const auto* x = in.data<const Element>(0);
  auto* values = in.data<Element>(1);
  auto* indices = in.data<int64_t>(2);
  const int64_t k = in.integer(0);
  const bool largest = in.integer(2) != 0;
  const Axis from(in.tensor(0), in.integer(1)), to(in.tensor(1), in.integer(1));
  if (k > from.size) return in.fail("top_k: k is larger than the axis; give at most its size");
  auto* order = static_cast<int64_t*>(in.scratch(size_t(from.size) * sizeof(int64_t)));
  if (order == nullptr && from.size > 0) return in.fail("top_k: no memory for the order of a row");
  const auto rows = in.items(from.rows);
  for (int64_t row = rows.first; row < rows.last && k > 0; ++row) {
    const Element* elements = x + from.first(row);
    for (int64_t i = 0; i < from.size; ++i) order[i] = i;
    const auto before = [&](int64_t a, int64_t b) {
      const auto left = key(elements[a * from.stride]), right = key(elements[b * from.stride]);
      const bool first = largest ? is_larger(left, right) : is_larger(right, left);
      const bool second = largest ? is_larger(right, left) : is_larger(left, right);
      return first || (!second && a < b);
    };
    if (k < from.size) std::nth_element(order, order + k - 1, order + from.size, before);
    std::sort(order, order + k, before);
    for (int64_t i = 0; i < k; ++i) {
      const int64_t at = to.first(row) + i * to.stride;
      values[at] = elements[order[i] * from.stride];
      indices[at] = order[i];
    }
  }
  return 0;
}

// d_values, x, indices, d_x; k, dim, largest, needs.
extern "C" int32_t top_k_backward(const pto_args* args) {
  const KernelArguments in(args);
  if ((in.integer(3) & 1) == 0) return 0;
  const auto* d_values = in.data<const Element>(0);
  const auto* indices = in.data<const int64_t>(2);
  auto* d_x = in.data<Element>(3);
  const Axis from(in.tensor(0), in.integer(1)), to(in.tensor(1), in.integer(1));
  const auto rows = in.items(to.rows);
  for (int64_t row = rows.first; row < rows.last; ++row) {
    for (int64_t i = 0; i < to.size; ++i) d_x[to.first(row) + i * to.stride] = Element(0);
    for (int64_t i = 0; i < from.size; ++i) {
      const int64_t at = from.first(row) + i * from.stride;
      if (indices[at] < 0 || indices[at] >= to.size) {
        return in.fail("top_k_backward: an index lies outside the axis; pass those of top_k");
      }
      d_x[to.first(row) + indices[at] * to.stride] = d_values[at];
    }
  }
  return 0;
}

// weight, indices, result.
extern "C" int32_t embedding(const pto_args* args) {
  const KernelArguments in(args);
  const auto* weight = in.data<const Element>(0);
  const auto* indices = in.data<const PTO_TYPE_1>(1);
  auto* to = in.data<Element>(2);
  const int64_t rows = in.tensor(0).sizes[0], width = in.tensor(0).sizes[1];
  int64_t count = 1;
  for (int32_t axis = 0; axis < in.tensor(1).rank; ++axis) count *= in.tensor(1).sizes[axis];
  const auto items = in.items(count);
  for (int64_t i = items.first; i < items.last; ++i) {
    const auto row = int64_t(indices[i]);
    if (row < 0 || row >= rows) {
      return in.fail("embedding: an index lies outside the rows of weight; check the indices");
    }
    std::memcpy(to + i * width, weight + row * width, size_t(width) * sizeof(Element));
  }
  return 0;
}

// d_result, weight, indices, d_weight; needs. A block sums some columns of all rows, in order.
extern "C" int32_t embedding_backward(const pto_args* args) {
  const KernelArguments in(args);
  if ((in.integer(0) & 1) == 0) return 0;
  const auto* d_result = in.data<const Element>(0);
  const auto* indices = in.data<const PTO_TYPE_2>(2);
  auto* d_weight = in.data<Element>(3);
  const int64_t rows = in.tensor(1).sizes[0], width = in.tensor(1).sizes[1];
  int64_t count = 1;
  for (int32_t axis = 0; axis < in.tensor(2).rank; ++axis) count *= in.tensor(2).sizes[axis];
  const auto columns = in.items(width);
  using Sum = decltype(key(Element(0)));
  constexpr bool kNeedsSum = sizeof(Sum) != sizeof(Element);
  const int64_t wide = columns.last - columns.first;
  Sum* sums = nullptr;
  if (kNeedsSum && rows * wide > 0) {
    sums = static_cast<Sum*>(in.scratch(size_t(rows * wide) * sizeof(Sum)));
    if (sums == nullptr) return in.fail("embedding_backward: no memory for the sums");
    std::fill(sums, sums + rows * wide, Sum(0));
  }
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t c = columns.first; c < columns.last; ++c) d_weight[row * width + c] = Element(0);
  }
  for (int64_t i = 0; i < count; ++i) {
    const auto row = int64_t(indices[i]);
    if (row < 0 || row >= rows) {
      return in.fail("embedding_backward: an index lies outside the rows of weight");
    }
    for (int64_t c = columns.first; c < columns.last; ++c) {
      if (kNeedsSum) {
        sums[row * wide + c - columns.first] += key(d_result[i * width + c]);
      } else {
        d_weight[row * width + c] =
            Element(key(d_weight[row * width + c]) + key(d_result[i * width + c]));
      }
    }
  }
  for (int64_t row = 0; kNeedsSum && row < rows; ++row) {
    for (int64_t c = 0; c < wide; ++c) {
      d_weight[row * width + columns.first + c] = Element(sums[row * wide + c]);
    }
  }
  return 0;
}

namespace {

// Copies pieces out of a whole, or into it: rows of the axes before `dim`, each a run of elements.
void copy_pieces(const KernelArguments& in, const pto_tensor& whole, int first_piece, int pieces,
                 int64_t dim, bool out_of_whole) {
  const Axis all(whole, dim);
  const auto rows = in.items(all.rows / all.stride);
  int64_t offset = 0;
  for (int p = 0; p < pieces; ++p) {
    const pto_tensor& piece = in.tensor(first_piece + p);
    const Axis part(piece, dim);
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
extern "C" int32_t split(const pto_args* args) {
  const KernelArguments in(args);
  if (in.tensor(0).extent_bytes == 0) return 0;
  copy_pieces(in, in.tensor(0), 1, in.tensors() - 1, in.integer(1), true);
  return 0;
}

// d_pieces, d_x; the number of pieces, sizes, dim, needs.
extern "C" int32_t join(const pto_args* args) {
  const KernelArguments in(args);
  const int pieces = in.tensors() - 1;
  if ((in.integer(3) & 1) == 0 || in.tensor(pieces).extent_bytes == 0) return 0;
  copy_pieces(in, in.tensor(pieces), 0, pieces, in.integer(2), false);
  return 0;
}
