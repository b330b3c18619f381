// SPDX-License-Identifier: Apache-2.0
#include "pto/isa/cpu/packed_right.hpp"

#include "pto/isa/cpu/element_types.hpp"
#include "pto/isa/cpu/packed_strips.hpp"

namespace pto {
namespace {

constexpr int64_t kStrip = PTO_MATMUL_PACKED_COLS;
constexpr int64_t kPart = 128;  // columns that a thread packs at a time; strips are multiples
constexpr int64_t kPanel = 32;  // columns that lie together, but at the end of a strip
constexpr int64_t kAligned = 64;

bool is_packable(int type) {
  return type == PTO_MATMUL_F32 || type == PTO_MATMUL_F16 || type == PTO_MATMUL_BF16 ||
         type == PTO_MATMUL_I8;
}

// Orders the axes of a tensor by their strides, the longest first. False where two places may share
// memory.
bool order_axes(const pto_tensor& x, int32_t* order) {
  for (int32_t axis = 0; axis < x.rank; ++axis) {
    int at = axis;
    for (; at > 0 && x.strides[order[at - 1]] < x.strides[axis]; --at) order[at] = order[at - 1];
    order[at] = axis;
  }
  int64_t last = 0;  // place of the last element, of the axes so far
  for (int32_t i = x.rank; i-- > 0;) {
    const int64_t size = x.sizes[order[i]], stride = x.strides[order[i]];
    if (size == 1) continue;
    if (stride <= last) return false;
    last += (size - 1) * stride;
  }
  return true;
}

pto_matmul_job job_of(const pto_packed_right& packed) {
  pto_matmul_job job = {};
  job.a.type = job.b.type = matmul_type(packed.tensor);
  job.precision = packed.precision;
  job.depth = static_cast<int32_t>(packed.tensor.sizes[packed.depth_axis]);
  return job;
}

int64_t cols_of(const pto_packed_right& packed) { return packed.tensor.sizes[packed.col_axis]; }

// Packs parts of columns of matrices.
class Packing {
 public:
  explicit Packing(const pto_packed_right& packed)
      : packed_(packed),
        x_(packed.tensor),
        cols_(cols_of(packed)),
        parts_((cols_ + kPart - 1) / kPart) {
    matrices_ = 1;
    for (int32_t axis = 0; axis < x_.rank; ++axis)
      if (is_counting(axis)) matrices_ *= x_.sizes[axis];
  }

  int32_t run() {
    if (matrices_ * parts_ > INT32_MAX) return 1;
    return pto_parallel(
        static_cast<int32_t>(matrices_ * parts_),
        [](void* self, int32_t item) { return static_cast<Packing*>(self)->pack(item); }, this);
  }

 private:
  bool is_counting(int32_t axis) const {
    return axis != packed_.depth_axis && axis != packed_.col_axis;
  }

  int32_t pack(int64_t item) const {
    const int64_t matrix = item / parts_, col = item % parts_ * kPart;
    int64_t place = col * x_.strides[packed_.col_axis], rest = matrix;
    for (int32_t axis = x_.rank; axis-- > 0;)
      if (is_counting(axis)) {
        place += rest % x_.sizes[axis] * x_.strides[axis];
        rest /= x_.sizes[axis];
      }
    pto_matmul_job job = job_of(packed_);
    job.b = pto_matmul_plain(static_cast<char*>(x_.data) + place * (x_.type_bits / 8), job.b.type,
                             x_.strides[packed_.depth_axis], x_.strides[packed_.col_axis]);
    set_strip(&job, static_cast<char*>(packed_.data) + matrix * packed_.matrix_bytes, cols_, kStrip,
              col);
    job.cols = static_cast<int32_t>(cols_ - col < kPart ? cols_ - col : kPart);
    job.packs = 1;
    return pto_matmul(&job);
  }

  const pto_packed_right& packed_;
  const pto_tensor& x_;
  const int64_t cols_, parts_;
  int64_t matrices_;
};

}  // namespace

PackedRight::PackedRight(const pto_packed_right* packed, const pto_tensor& a, const pto_tensor& b,
                         int precision) {
  if (!packed || !packed->data || a.rank < 2 || b.rank < 2) return;
  const pto_tensor& x = packed->tensor;
  const int32_t down = b.rank - 2, across = b.rank - 1;
  const bool is_it = b.sizes[down] == x.sizes[packed->depth_axis] &&
                     b.strides[down] == x.strides[packed->depth_axis] &&
                     b.strides[across] == x.strides[packed->col_axis] &&
                     matmul_type(b) == matmul_type(x) && matmul_type(a) == matmul_type(x);
  if (!is_it || packed->precision != precision) return;
  if (order_axes(x, order_)) packed_ = packed;
}

PackedRight::Columns PackedRight::at(const void* data, int64_t wanted) const {
  if (!packed_) return {};
  const pto_tensor& x = packed_->tensor;
  int64_t place =
      (static_cast<const char*>(data) - static_cast<const char*>(x.data)) / (x.type_bits / 8);
  int64_t indices[PTO_MAX_RANK];
  for (int32_t i = 0; i < x.rank; ++i) {
    const int32_t axis = order_[i];
    indices[axis] = x.sizes[axis] == 1 ? 0 : place / x.strides[axis];
    place -= indices[axis] * x.strides[axis];
    if (indices[axis] < 0 || indices[axis] >= x.sizes[axis]) return {};
  }
  Columns found;
  found.col = indices[packed_->col_axis];
  if (place != 0 || indices[packed_->depth_axis] != 0 || found.col % kPanel != 0) return {};
  for (int32_t axis = 0; axis < x.rank; ++axis)
    if (axis != packed_->depth_axis && axis != packed_->col_axis)
      found.matrix = found.matrix * x.sizes[axis] + indices[axis];
  const int64_t in_strip = kStrip - found.col % kStrip, left = cols_of(*packed_) - found.col;
  found.cols = in_strip < left ? in_strip : left;
  if (wanted < found.cols) found.cols = wanted / kPanel * kPanel;
  return found;
}

void PackedRight::set(pto_matmul_job* job, const Columns& columns) const {
  set_strip(job, static_cast<char*>(packed_->data) + columns.matrix * packed_->matrix_bytes,
            cols_of(*packed_), kStrip, columns.col);
}

}  // namespace pto

int64_t pto_packed_right_bytes(const pto_packed_right* packed) {
  const pto_tensor& x = packed->tensor;
  int32_t order[PTO_MAX_RANK];
  if (x.rank < 2 || !pto::is_packable(pto::matmul_type(x)) || !pto::order_axes(x, order)) return 0;
  const int64_t depth = x.sizes[packed->depth_axis], cols = pto::cols_of(*packed);
  if (depth <= 0 || cols <= 0 || depth > INT32_MAX || cols > INT32_MAX) return 0;
  const int64_t bytes = pto::strips_bytes(pto::job_of(*packed), cols, pto::kStrip);
  return (bytes + pto::kAligned - 1) / pto::kAligned * pto::kAligned;
}

int32_t pto_pack_right(const pto_packed_right* packed) { return pto::Packing(*packed).run(); }
