// SPDX-License-Identifier: Apache-2.0
// Linear layers: x times a weight's transpose, with what follows it applied to each part of the
// result while the cache has it. A weight of f32 may be packed once: strips of its columns, each as
// libpto's loops read it (isa/cpu/matmul_job.hpp), followed by its rows and columns. Packed or not,
// the bits are those of matmul.
#include <cstring>

#include "pto/ops/linear_parts.hpp"

namespace {

constexpr int64_t kSizesFloats = 4;  // of packed weights; see linear.py
static_assert(kStripCols <= PTO_MATMUL_PACKED_COLS);

int64_t strips_of(int64_t cols) { return quotient_up(cols, kStripCols); }
int64_t strip_bytes(int64_t depth, int64_t cols) {
  const pto_matmul_job job = job_of(0, depth, cols);
  return pto_matmul_packed_bytes(&job);
}

// Counts the floats in front of the sizes.
int64_t packed_floats(int64_t depth, int64_t cols) {
  const int64_t strips = cols / kStripCols, rest = strip_bytes(depth, cols % kStripCols);
  return (strips * strip_bytes(depth, kStripCols) + rest) / static_cast<int64_t>(sizeof(float));
}

// Points `job` at the packed columns from `col` on; its columns lie in one strip.
void set_packed(pto_matmul_job& job, float* packed, int64_t cols, int64_t col) {
  const int64_t strip = col / kStripCols, first = strip * kStripCols;
  job.packed = reinterpret_cast<char*>(packed) + strip * strip_bytes(job.depth, kStripCols);
  job.packed_cols = static_cast<int32_t>(std::min(cols - first, kStripCols));
  job.packed_first = static_cast<int32_t>(col - first);
}

bool is_packed_so(const pto_tensor& packed, int64_t depth, int64_t cols) {
  const int64_t floats = packed_floats(depth, cols), sizes[] = {depth, cols};
  return packed.sizes[0] == floats + kSizesFloats &&
         std::memcmp(static_cast<const float*>(packed.data) + floats, sizes, sizeof sizes) == 0;
}

constexpr char kOtherWeight[] =
    "linear: the packed matrix has another number of rows or columns\nit has the sizes of "
    "the matrix that it was packed from\npack the matrix that is multiplied";

// Packs a matrix of these strides into `to`.
int32_t pack(const KernelArguments& in, const pto_tensor& b, bool swaps, float* to) {
  const int64_t depth = b.sizes[swaps], cols = b.sizes[!swaps], sizes[] = {depth, cols};
  if (std::max(depth, cols) > kSizeMax) return in.fail(kTooLarge);
  const int64_t parts = quotient_up(cols, kNarrowest);
  auto [part, last] = in.items(parts);
  if (last == parts) std::memcpy(to + packed_floats(depth, cols), sizes, sizeof sizes);
  for (; part < last; ++part) {
    const int64_t col = part * kNarrowest;
    pto_matmul_job job = job_of(0, depth, std::min(cols - col, kNarrowest));
    job.b = matrix(static_cast<const float*>(b.data) + col * b.strides[!swaps], b.strides[swaps],
                   b.strides[!swaps]);
    set_packed(job, to, cols, col);
    job.packs = 1;
    pto_matmul(&job);
  }
  return 0;
}

// The weight of a product: cols x depth, or packed.
template <class Element>
struct Weight {
  using Sum = SumOf<Element>;
  const pto_tensor* weight = nullptr;
  float* packed = nullptr;
  const pto_tensor* bias = nullptr;  // added by the product's loops, of float
  int64_t cols = 0;

  bool is_packed() const { return packed != nullptr; }
  void give(pto_matmul_job& job, const Part& part) const {
    if (packed) {
      set_packed(job, packed, cols, part.col);
      job.b = matrix<const Element>(nullptr, 0, 0);
    } else {
      job.b = matrix(static_cast<const Element*>(weight->data) + part.col * weight->strides[0],
                     weight->strides[1], weight->strides[0]);
    }
    if (!bias) return;
    const int64_t step = bias->strides[0];
    job.bias = matrix(static_cast<const float*>(bias->data) + part.col * step, 0, step);
  }
};

struct Nothing {
  template <class Sum>
  void operator()(const Part&, Sum*, int64_t) const {}
};

}  // namespace

// The result has one axis.
PTO_OPERATOR_KERNEL(pack_right) {
  return pack(in, in.tensor("b"_arg), in.integer("transpose_b"_arg) != 0, in.data("result"_arg));
}

PTO_OPERATOR_KERNEL(pack_weight) {
  return pack(in, in.tensor("weight"_arg), true, in.data("result"_arg));
}

PTO_OPERATOR_KERNEL(matmul_packed) {
  const Rows<float> rows(in.tensor("a"_arg));
  const int64_t cols = in.integer("cols"_arg);
  if (!is_packed_so(in.tensor("packed"_arg), rows.depth, cols)) return in.fail(kOtherWeight);
  Weight<float> weight;
  weight.packed = in.data("packed"_arg);
  weight.cols = cols;
  float* const result = in.data("result"_arg);
  return Product(in, rows, cols, result, weight, Nothing()).run();
}

PTO_OPERATOR_KERNEL(linear) {
  using Element = PTO_TYPE_0;
  const Rows<Element> x(in.tensor("x"_arg));
  Weight<Element> weight;
  weight.weight = &in.tensor("weight"_arg);
  weight.cols = weight.weight->sizes[0];
  auto epilogue = epilogue_of<Epilogue<Element>>(in, weight.cols);
  if (std::is_same_v<Element, float> && !in.is_absent("packed"_arg)) {
    if (!is_packed_so(in.tensor("packed"_arg), x.depth, weight.cols)) return in.fail(kOtherWeight);
    weight.packed = in.data("packed"_arg);
    if (epilogue.has_bias_only()) std::swap(weight.bias, epilogue.bias);
  }
  return Product(in, x, weight.cols, epilogue.result, weight, epilogue).run();
}
