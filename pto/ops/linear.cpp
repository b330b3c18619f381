// SPDX-License-Identifier: Apache-2.0
// Linear layers: x times a weight's transpose, with what follows it applied to each part of the
// result while the cache has it. A weight of f32 may be packed once: strips of its columns, each as
// libpto's loops read it (isa/cpu/matmul_job.hpp), followed by its rows and columns and by the
// precision of each part of columns, by which its products are made. Packed or not, the bits are
// those of matmul at this precision.
#include <cstring>

#include "pto/ops/linear_parts.hpp"

namespace {

// The floats at the end of packed weights: rows and columns, then a byte for each part of columns
// that is packed at once. See linear.py.
int64_t trailer_floats(int64_t cols) {
  return quotient_up(2 * int64_t{sizeof(int64_t)} + quotient_up(cols, kNarrowest), 8) * 2;
}
static_assert(kStripCols <= PTO_MATMUL_PACKED_COLS);

int64_t strip_bytes(int64_t depth, int64_t cols, int precision) {
  pto_matmul_job job = job_of(0, depth, cols);
  job.precision = precision;
  return pto_matmul_packed_bytes(&job);
}
int64_t packed_bytes(int64_t depth, int64_t cols, int precision) {
  return cols / kStripCols * strip_bytes(depth, kStripCols, precision) +
         strip_bytes(depth, cols % kStripCols, precision);
}

// Points `job` at the packed columns from `col` on; its columns lie in one strip.
void set_packed(pto_matmul_job& job, float* packed, int64_t cols, int64_t col) {
  const int64_t strip = col / kStripCols, first = strip * kStripCols;
  job.packed =
      reinterpret_cast<char*>(packed) + strip * strip_bytes(job.depth, kStripCols, job.precision);
  job.packed_cols = static_cast<int32_t>(std::min(cols - first, kStripCols));
  job.packed_first = static_cast<int32_t>(col - first);
}

// Finds the end of a packed weight of so many columns; null: it is too short.
char* trailer_of(const pto_tensor& packed, int64_t cols) {
  const int64_t place = packed.sizes[0] - trailer_floats(cols);
  return cols < 0 || place < 0 ? nullptr
                               : reinterpret_cast<char*>(static_cast<float*>(packed.data) + place);
}

bool is_packed_so(const pto_tensor& packed, int64_t depth, int64_t cols) {
  const char* const trailer = trailer_of(packed, cols);
  const int64_t sizes[] = {depth, cols};
  return trailer && std::memcmp(trailer, sizes, sizeof sizes) == 0;
}
// Returns the precision at which all of it was packed; PTO_MATMUL_CHAIN: the switch changed
// meanwhile, or there is less than that takes.
int precision_of(const pto_tensor& packed, int64_t depth, int64_t cols) {
  const char* const precisions = trailer_of(packed, cols) + 2 * sizeof(int64_t);
  const int64_t parts = quotient_up(cols, kNarrowest);
  const int precision = parts > 0 ? precisions[0] : PTO_MATMUL_HIGHEST;
  if (precision < PTO_MATMUL_HIGHEST || precision > PTO_MATMUL_MEDIUM) return PTO_MATMUL_CHAIN;
  for (int64_t i = 0; i < parts; ++i)
    if (precisions[i] != precision) return PTO_MATMUL_CHAIN;
  const int64_t floats = packed.sizes[0] - trailer_floats(cols);
  const int64_t bytes = packed_bytes(depth, cols, precision);
  return bytes <= floats * static_cast<int64_t>(sizeof(float)) ? precision : PTO_MATMUL_CHAIN;
}

constexpr char kOtherWeight[] =
    "linear: the packed matrix has another number of rows or columns\nit has the sizes of "
    "the matrix that it was packed from, all at one matmul_precision\npack the matrix that is "
    "multiplied";

// Packs a matrix of these strides into `to`.
int32_t pack(const KernelArguments& in, const pto_tensor& b, bool swaps, const pto_tensor& result) {
  const int64_t depth = b.sizes[swaps], cols = b.sizes[!swaps], sizes[] = {depth, cols};
  if (std::max(depth, cols) > kSizeMax) return in.fail(kTooLarge);
  const int64_t parts = quotient_up(cols, kNarrowest);
  char* const trailer = trailer_of(result, cols);
  auto* const to = static_cast<float*>(result.data);
  auto [part, last] = in.items(parts);
  if (last == parts) std::memcpy(trailer, sizes, sizeof sizes);
  for (; part < last; ++part) {
    const int64_t col = part * kNarrowest;
    pto_matmul_job job = job_of(0, depth, std::min(cols - col, kNarrowest));
    trailer[sizeof sizes + static_cast<size_t>(part)] = static_cast<char>(job.precision);
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
  const pto_tensor* weight = nullptr;  // null: it is packed
  float* packed = nullptr;
  int precision = PTO_MATMUL_CHAIN;  // of `packed`
  const pto_tensor* bias = nullptr;  // added by the product's loops, of float
  int64_t cols = 0;

  bool is_packed() const { return packed != nullptr; }
  void give(pto_matmul_job& job, const Part& part) const {
    if (packed) {
      job.precision = precision;
      set_packed(job, packed, cols, part.col);
    }
    job.b = weight
                ? matrix(static_cast<const Element*>(weight->data) + part.col * weight->strides[0],
                         weight->strides[1], weight->strides[0])
                : matrix<const Element>(nullptr, 0, 0);
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
  return pack(in, in.tensor("b"_arg), in.integer("transpose_b"_arg) != 0, in.tensor("result"_arg));
}

PTO_OPERATOR_KERNEL(pack_weight) {
  return pack(in, in.tensor("weight"_arg), true, in.tensor("result"_arg));
}

PTO_OPERATOR_KERNEL(matmul_packed) {
  const Rows<float> rows(in.tensor("a"_arg));
  const int64_t cols = in.integer("cols"_arg);
  const pto_tensor& packed = in.tensor("packed"_arg);
  if (!is_packed_so(packed, rows.depth, cols)) return in.fail(kOtherWeight);
  Weight<float> weight;
  weight.precision = precision_of(packed, rows.depth, cols);
  if (weight.precision == PTO_MATMUL_CHAIN) return in.fail(kOtherWeight);
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
    const pto_tensor& packed = in.tensor("packed"_arg);
    if (!is_packed_so(packed, x.depth, weight.cols)) return in.fail(kOtherWeight);
    weight.precision = precision_of(packed, x.depth, weight.cols);
    if (weight.precision != PTO_MATMUL_CHAIN) weight.packed = in.data("packed"_arg);
    if (epilogue.has_bias_only()) std::swap(weight.bias, epilogue.bias);
  }
  return Product(in, x, weight.cols, epilogue.result, weight, epilogue).run();
}
