// SPDX-License-Identifier: Apache-2.0
// Products with a matrix that is packed once: strips of its columns, each as libpto's loops read it
// (isa/cpu/matmul_job.hpp), followed by its rows and columns. f32; bit-equal to matmul.
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "pto/isa/cpu/matmul_job.hpp"
#include "pto/operators/named_arguments.hpp"
#include "pto/pto-inst.hpp"

using namespace pto;

namespace {

constexpr int64_t kStripCols = 384, kStripRows = 64, kSizesFloats = 4, kSizeMax = INT32_MAX;

int64_t strips_of(int64_t cols) { return (cols + kStripCols - 1) / kStripCols; }
int64_t strip_floats(int64_t depth) { return PTO_MATMUL_PACKED_FLOATS(depth, kStripCols); }

pto_matmul_matrix matrix(const float* data, int64_t row_stride, int64_t col_stride) {
  return {const_cast<float*>(data),
          PTO_MATMUL_F32,
          PTO_MATMUL_UNBOXED,
          PTO_MATMUL_UNBOXED,
          0,
          0,
          row_stride,
          col_stride};
}

pto_matmul_job job_of(int64_t rows, int64_t depth, int64_t cols) {
  pto_matmul_job job = {};
  job.rows = static_cast<int32_t>(rows);
  job.depth = static_cast<int32_t>(depth);
  job.cols = static_cast<int32_t>(cols);
  job.a.type = job.b.type = job.c.type = PTO_MATMUL_F32;
  return job;
}

// The rows of all batches of the left operand, and its columns.
class Rows {
 public:
  explicit Rows(const pto_tensor& a) : a_(a) {
    const int r = a.rank;
    depth = a.sizes[r - 1];
    in_batch_ = r > 1 ? a.sizes[r - 2] : 1;
    stride_ = r > 1 ? a.strides[r - 2] : 0;
    bool is_even = true;
    for (int axis = r - 3; axis >= 0; --axis) {
      is_even = is_even && (a.sizes[axis] == 1 || a.strides[axis] == count * in_batch_ * stride_);
      count *= a.sizes[axis];
    }
    count *= in_batch_;
    if (is_even) in_batch_ = count;  // the batches are the rows of one matrix
  }

  int64_t depth, count = 1;

  // Returns how many rows from this one on, below `last`, are evenly spaced.
  int64_t run(int64_t row, int64_t last) const {
    return std::min(last - row, in_batch_ - row % in_batch_);
  }

  pto_matmul_matrix from(int64_t row) const {
    const auto* data = static_cast<const float*>(a_.data) + row % in_batch_ * stride_;
    int64_t batch = in_batch_ == count ? 0 : row / in_batch_;
    for (int axis = a_.rank - 3; axis >= 0 && batch > 0; --axis) {
      data += batch % a_.sizes[axis] * a_.strides[axis];
      batch /= a_.sizes[axis];
    }
    return matrix(data, stride_, a_.strides[a_.rank - 1]);
  }

 private:
  const pto_tensor& a_;
  int64_t in_batch_, stride_;
};

bool is_packed_so(const pto_tensor& packed, int64_t depth, int64_t cols) {
  const int64_t floats = strips_of(cols) * strip_floats(depth), sizes[] = {depth, cols};
  const auto* data = static_cast<const float*>(packed.data);
  return packed.sizes[0] == floats + kSizesFloats &&
         std::memcmp(data + floats, sizes, sizeof sizes) == 0;
}

}  // namespace

// The result has one axis.
PTO_OPERATOR_KERNEL(pack_right) {
  const pto_tensor& b = in.tensor("b"_arg);
  const bool swaps = in.integer("transpose_b"_arg) != 0;
  const int64_t depth = b.sizes[swaps], cols = b.sizes[!swaps];
  if (std::max(depth, cols) > kSizeMax) {
    return in.fail(
        "pack_right: a size is above 2147483647\n  why: sizes of one product have 32 bits\n  fix: "
        "split the matrix");
  }
  const int64_t strips = strips_of(cols), sizes[] = {depth, cols};
  float* const to = in.data("result"_arg);
  const float* const elements = in.data("b"_arg);
  auto [strip, last] = in.items(strips);
  if (last == strips) std::memcpy(to + strips * strip_floats(depth), sizes, sizeof sizes);
  for (; strip < last; ++strip) {
    const int64_t first = strip * kStripCols;
    pto_matmul_job job = job_of(0, depth, std::min(cols - first, kStripCols));
    job.b = matrix(elements + first * b.strides[!swaps], b.strides[swaps], b.strides[!swaps]);
    job.packed = to + strip * strip_floats(depth);
    job.packs = 1;
    pto_matmul(&job);
  }
  return 0;
}

// Blocks of rows, of which each makes all columns of a strip in turn.
PTO_OPERATOR_KERNEL(matmul_packed) {
  const Rows rows(in.tensor("a"_arg));
  const int64_t cols = in.integer("cols"_arg), strips = strips_of(cols);
  if (std::max({rows.depth, rows.count, cols}) > kSizeMax) {
    return in.fail(
        "matmul_packed: a size is above 2147483647\n  why: sizes of one product have 32 bits\n  "
        "fix: split the matrices");
  }
  if (!is_packed_so(in.tensor("packed"_arg), rows.depth, cols)) {
    return in.fail(
        "matmul_packed: the packed matrix has another number of rows or columns\n  why: a has as "
        "many columns as it has rows, and cols says its columns\n  fix: pack the matrix that is "
        "multiplied");
  }
  const int64_t row_strips = (rows.count + kStripRows - 1) / kStripRows;
  float *const packed = in.data("packed"_arg), *const result = in.data("result"_arg);
  auto [item, last] = in.items(strips * row_strips);
  while (item < last) {
    const int64_t strip = item / row_strips, first = item % row_strips;
    const int64_t some = std::min(last - item, row_strips - first);
    const int64_t end = std::min(rows.count, (first + some) * kStripRows);
    for (int64_t row = first * kStripRows; row < end;) {
      const int64_t count = rows.run(row, end), col = strip * kStripCols;
      pto_matmul_job job = job_of(count, rows.depth, std::min(cols - col, kStripCols));
      job.a = rows.from(row);
      job.c = matrix(result + row * cols + col, cols, 1);
      job.packed = packed + strip * strip_floats(rows.depth);
      pto_matmul(&job);
      row += count;
    }
    item += some;
  }
  return 0;
}
