// SPDX-License-Identifier: Apache-2.0
// Linear layers: x times a weight's transpose, with what follows it applied to each part of the
// result while the cache has it. A weight of f32, f16, bf16 or bytes may be packed once:
// strips of its columns, each as libpto's loops read it (isa/cpu/matmul_job.hpp), followed by its
// rows and columns and by the layout of each part of columns. Packed or not, the bits are those of
// matmul at the precision of packing.
#include <cstring>

#include "pto/isa/cpu/packed_strips.hpp"
#include "pto/ops/linear_parts.hpp"

namespace {

// The floats at the end of packed weights: rows and columns, then a byte for each part of columns
// that is packed at once. See linear.py.
int64_t trailer_floats(int64_t cols) {
  return quotient_up(2 * int64_t{sizeof(int64_t)} + quotient_up(cols, kPartCols), 8) * 2;
}
static_assert(kStripCols <= PTO_MATMUL_PACKED_COLS);

template <class Element>
pto_matmul_job job_of_packed(int64_t depth, int64_t cols, int precision) {
  pto_matmul_job job = job_of(0, depth, cols);
  job.a.type = job.b.type = kMatmulType<Element>;
  job.precision = precision;
  return job;
}

// The end of a packed weight.
class Trailer {
 public:
  Trailer(const pto_tensor& packed, int64_t depth, int64_t cols)
      : floats_(packed.sizes[0] - trailer_floats(cols)), depth_(depth), cols_(cols) {
    if (std::max(depth, cols) <= kSizeMax && floats_ >= 0)
      at_ = reinterpret_cast<char*>(static_cast<float*>(packed.data) + floats_);
  }

  int64_t parts() const { return quotient_up(cols_, kPartCols); }
  bool has_sizes() const {
    const int64_t sizes[] = {depth_, cols_};
    return at_ && std::memcmp(at_, sizes, sizeof sizes) == 0;
  }
  void write_sizes() const {
    const int64_t sizes[] = {depth_, cols_};
    std::memcpy(at_, sizes, sizeof sizes);
  }
  void write(int64_t part, int layout) const { layouts()[part] = static_cast<char>(layout); }

  // Tells whether what jobs like this one pack has room before it.
  bool has_room(const pto_matmul_job& job) const {
    const int64_t strips = cols_ / kStripCols, each = strip_bytes(job, kStripCols);
    const int64_t bytes = floats_ * static_cast<int64_t>(sizeof(float));
    return at_ && (strips == 0 || each <= bytes / strips) &&
           strips * each + strip_bytes(job, cols_ % kStripCols) <= bytes;
  }

  // Returns the precision of jobs that read all of it; -1: this CPU has none, or the switch changed
  // while it was packed. Needs has_sizes().
  template <class Element>
  int precision() const {
    const int layout = parts() > 0 ? layouts()[0] : 0;
    for (int64_t i = 1; i < parts(); ++i)
      if (layouts()[i] != layout) return -1;
    for (int precision = PTO_MATMUL_CHAIN; precision <= PTO_MATMUL_MEDIUM; ++precision) {
      const pto_matmul_job job = job_of_packed<Element>(depth_, kStripCols, precision);
      const bool fits = parts() == 0 || pto_matmul_layout(&job) == layout;
      if (fits) return has_room(job) ? precision : -1;
    }
    return -1;
  }

 private:
  char* layouts() const { return at_ + 2 * sizeof(int64_t); }

  int64_t floats_, depth_, cols_;
  char* at_ = nullptr;  // null: it is too short
};

constexpr char kOtherWeight[] =
    "linear: the packed matrix has another number of rows or columns\nit has the sizes of "
    "the matrix that it was packed from\npack the matrix that is multiplied";
constexpr char kOtherLayout[] =
    "linear: the matrix was packed for another CPU, element type or version, or in part at another "
    "matmul_precision\neach engine arranges packed matrices in its own way\npack the matrix again, "
    "in a process like this one";

// Packs a matrix of these strides into `to`.
template <class Element>
int32_t pack(const KernelArguments& in, const pto_tensor& b, bool swaps, const pto_tensor& result) {
  const int64_t depth = b.sizes[swaps], cols = b.sizes[!swaps];
  if (std::max(depth, cols) > kSizeMax) return in.fail(kTooLarge);
  const Trailer trailer(result, depth, cols);
  auto* const to = static_cast<float*>(result.data);
  auto [part, last] = in.items(trailer.parts());
  if (last == trailer.parts()) trailer.write_sizes();
  for (; part < last; ++part) {
    const int64_t col = part * kPartCols;
    pto_matmul_job job =
        job_of_packed<Element>(depth, std::min(cols - col, kPartCols), pto_matmul_precision());
    if (!trailer.has_room(job))
      return in.fail("linear: the result has no room for a packed matrix");
    trailer.write(part, pto_matmul_layout(&job));
    job.b = job_matrix(static_cast<const Element*>(b.data) + col * b.strides[!swaps],
                       b.strides[swaps], b.strides[!swaps]);
    set_strip(&job, to, cols, kStripCols, col);
    job.packs = 1;
    pto_matmul(&job);
  }
  return 0;
}

// The weight of a product: cols x depth, or packed.
template <class Element>
struct Weight {
  using Sum = std::conditional_t<std::is_same_v<Element, int8_t>, int32_t, SumOf<Element>>;
  const pto_tensor* weight = nullptr;  // null: it is packed
  float* packed = nullptr;
  int precision = PTO_MATMUL_CHAIN;  // of `packed`
  const pto_tensor* bias = nullptr;  // added by the product's loops, of float
  int64_t cols = 0;

  bool is_packed() const { return packed != nullptr; }

  // Takes what was packed for this depth, where this CPU reads it. Returns null, or what is wrong.
  const char* take(const pto_tensor& tensor, int64_t depth) {
    const Trailer trailer(tensor, depth, cols);
    if (!trailer.has_sizes()) return kOtherWeight;
    const int found = trailer.precision<Element>();
    if (found < 0) return weight ? nullptr : kOtherLayout;
    precision = found;
    packed = static_cast<float*>(tensor.data);
    return nullptr;
  }

  // Takes the matrix, and the argument `packed` in its place where that is given.
  template <class Named>
  const char* take(const Named& in, const pto_tensor& matrix, int64_t depth) {
    weight = &matrix;
    cols = matrix.sizes[0];
    if (std::is_same_v<Element, double> || in.is_absent("packed"_arg)) return nullptr;
    return take(in.tensor("packed"_arg), depth);
  }

  void give(pto_matmul_job& job, const Rectangle& part) const {
    job.b = weight ? job_matrix(
                         static_cast<const Element*>(weight->data) + part.col * weight->strides[0],
                         weight->strides[1], weight->strides[0])
                   : job_matrix(StridedMatrix<const Element>());
    if (packed) {
      job.precision = precision;
      set_strip(&job, packed, cols, kStripCols, part.col);
    }
    if (!bias) return;
    const int64_t step = bias->strides[0];
    job.bias = job_matrix(static_cast<const float*>(bias->data) + part.col * step, 0, step);
  }
};

// x times the weight, and what follows it.
template <class Element, class Named, class Epilogue>
int32_t run(const Named& in, const TensorRows<Element>& x, Weight<Element>& weight,
            Epilogue epilogue) {
  if (std::is_same_v<Element, float> && weight.packed && epilogue.has_bias_only())
    std::swap(weight.bias, epilogue.bias);
  return Product(in, x, weight.cols, epilogue.result, weight, epilogue).run();
}

}  // namespace

// The result has one axis.
PTO_OPERATOR_KERNEL(pack_right) {
  return pack<PTO_TYPE_0>(in, in.tensor("b"_arg), in.integer("transpose_b"_arg) != 0,
                          in.tensor("result"_arg));
}

PTO_OPERATOR_KERNEL(pack_weight) {
  return pack<PTO_TYPE_0>(in, in.tensor("weight"_arg), true, in.tensor("result"_arg));
}

PTO_OPERATOR_KERNEL(matmul_packed) {
  using Element = PTO_TYPE_0;
  const TensorRows<Element> rows(in.tensor("a"_arg));
  Weight<Element> weight;
  weight.cols = in.integer("cols"_arg);
  if (const char* wrong = weight.take(in.tensor("packed"_arg), rows.depth)) return in.fail(wrong);
  Epilogue<Element> epilogue;
  epilogue.result = in.data("result"_arg);
  epilogue.cols = weight.cols;
  return run(in, rows, weight, epilogue);
}

PTO_OPERATOR_KERNEL(linear_packed) {
  using Element = PTO_TYPE_0;
  const TensorRows<Element> x(in.tensor("x"_arg));
  Weight<Element> weight;
  weight.cols = in.integer("outputs"_arg);
  if (const char* wrong = weight.take(in.tensor("packed"_arg), x.depth)) return in.fail(wrong);
  return run(in, x, weight, epilogue_of<Epilogue<Element>>(in, weight.cols));
}

PTO_OPERATOR_KERNEL(linear) {
  using Element = PTO_TYPE_0;
  const TensorRows<Element> x(in.tensor("x"_arg));
  Weight<Element> weight;
  if (const char* wrong = weight.take(in, in.tensor("weight"_arg), x.depth)) return in.fail(wrong);
  return run(in, x, weight, epilogue_of<Epilogue<Element>>(in, weight.cols));
}

// The product is exact; each sum is rounded to f32 and scaled.
PTO_OPERATOR_KERNEL(scaled_matmul) {
  const TensorRows<int8_t> a(in.tensor("a"_arg));
  Weight<int8_t> weight;
  if (const char* wrong = weight.take(in, in.tensor("b"_arg), a.depth)) return in.fail(wrong);
  auto epilogue = epilogue_of<Epilogue<PTO_TYPE_3, int32_t, PTO_TYPE_3>>(in, weight.cols);
  epilogue.scale = in.data("col_scale"_arg);
  epilogue.row_scale = in.data("row_scale"_arg);
  return run(in, a, weight, epilogue);
}
