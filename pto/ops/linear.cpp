// SPDX-License-Identifier: Apache-2.0
// Linear layers: x times a weight's transpose, with what follows it applied to each part of the
// result while the cache has it. A weight of f32 may be packed once: strips of its columns, each as
// libpto's loops read it (isa/cpu/matmul_job.hpp), followed by its rows and columns. Packed or not,
// the bits are those of matmul.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "pto/ops/linear_rows.hpp"

namespace {

constexpr int64_t kStripCols = 768, kSizesFloats = 4;  // of packed weights; see product.py
constexpr int64_t kHeight = 96;                        // rows of a part: those of a block of libpto
constexpr int64_t kHighest = 10 * kHeight;             // of parts that are one
constexpr int64_t kNarrowest = 96, kPartsWanted = 8;
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

constexpr char kTooLarge[] =
    "linear: a size is above 2147483647\nsizes of one product have 32 bits\nsplit "
    "the "
    "tensors";
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

// Cuts a result into parts, the least that a thread takes. Parts of a thread that lie beside each
// other are one: with a packed weight those of the same rows, so that they are packed once, else
// those of the same columns, since a weight is packed for each part.
class Parts {
 public:
  Parts(int64_t rows, int64_t cols, bool is_packed) : rows_(rows), cols_(cols) {
    is_packed_ = is_packed;
    down_ = quotient_up(rows, kHeight);
    height_ = down_ > 0 && down_ < 4 ? quotient_up(rows, down_) : kHeight;
    while (width_ > kNarrowest && count() < kPartsWanted) width_ /= 2;
  }
  int64_t count() const { return down_ * quotient_up(cols_, width_); }
  int64_t largest() const { return std::min(rows_, kHighest) * width_; }

  // Joins parts from this one on, below `last`; takes them off.
  Part next(int64_t* item, int64_t last) const {
    return is_packed_ ? row(item, last) : col(item, last);
  }

 private:
  Part row(int64_t* item, int64_t last) const {
    const int64_t whole = cols_ / kStripCols, of_strip = down_ * (kStripCols / width_);
    const int64_t strip = std::min(*item / of_strip, whole), first = strip * kStripCols;
    const int64_t cols = std::min(kStripCols, cols_ - first), across = quotient_up(cols, width_);
    const int64_t here = *item - strip * of_strip, place = here % across;
    const int64_t some = std::min(last - *item, across - place);
    *item += some;
    return part(here / across * height_, height_, first + place * width_,
                std::min(some * width_, cols - place * width_));
  }
  Part col(int64_t* item, int64_t last) const {
    const int64_t place = *item % down_, at = *item / down_ * width_;
    const int64_t some = std::min({last - *item, down_ - place, kHighest / kHeight});
    *item += some;
    return part(place * height_, some * height_, at, std::min(width_, cols_ - at));
  }
  Part part(int64_t row, int64_t rows, int64_t col, int64_t cols) const {
    return {row, std::min(rows, rows_ - row), col, cols};
  }

  int64_t rows_, cols_, down_, height_, width_ = kStripCols;
  bool is_packed_;
};

// Computes x weight', of which `finish(part, sums, stride)` makes the result. The sums lie in the
// result where that has their type.
template <class Element, class Finish>
class Product {
  using Sum = SumOf<Element>;

 public:
  Product(const KernelArguments& in, const Rows<Element>& x, int64_t cols, Element* result,
          Finish finish)
      : in_(in), x_(x), cols_(cols), result_(result), finish_(finish) {}

  const pto_tensor* weight = nullptr;  // cols x depth
  float* packed = nullptr;             // the weight, packed
  const pto_tensor* bias = nullptr;    // added by the product's loops, of float

  int32_t run() const {
    if (std::max({x_.depth, x_.count, cols_}) > kSizeMax) return in_.fail(kTooLarge);
    const Parts parts(x_.count, cols_, packed != nullptr);
    Sum* sums = nullptr;
    if constexpr (!std::is_same_v<Sum, Element>) {
      sums = static_cast<Sum*>(in_.scratch(static_cast<size_t>(parts.largest()) * sizeof(Sum)));
      if (!sums) return in_.fail("linear: no memory for a part of the result");
    }
    auto [item, last] = in_.items(parts.count());
    while (item < last) {
      const Part part = parts.next(&item, last);
      for (int64_t row = part.row; row < part.row + part.rows;) {
        const int64_t count = x_.run(row, part.row + part.rows);
        multiply({row, count, part.col, part.cols}, sums);
        row += count;
      }
    }
    return 0;
  }

 private:
  void multiply(const Part& part, Sum* sums) const {
    int64_t stride = part.cols;
    if constexpr (std::is_same_v<Sum, Element>) {
      sums = result_ + part.row * cols_ + part.col;
      stride = cols_;
    }
    pto_matmul_job job = job_of(part.rows, x_.depth, part.cols);
    const auto a = x_.from(part.row);
    if (packed) set_packed(job, packed, cols_, part.col);
    if (bias) {
      const int64_t step = bias->strides[0];
      job.bias = matrix(static_cast<const float*>(bias->data) + part.col * step, 0, step);
    }
    multiply_one(job, a, packed ? Matrix<const Element>{} : weight_from(part.col),
                 Matrix<Sum>{sums, stride, 1});
    finish_(part, sums, stride);
  }

  Matrix<const Element> weight_from(int64_t col) const {
    return {static_cast<const Element*>(weight->data) + col * weight->strides[0],
            weight->strides[1], weight->strides[0]};
  }

  const KernelArguments& in_;
  const Rows<Element>& x_;
  const int64_t cols_;
  Element* const result_;
  const Finish finish_;
};

struct Nothing {
  template <class Sum>
  void operator()(const Part&, Sum*, int64_t) const {}
};

// result = activation(sums + bias) + residual
template <class Element>
class Epilogue {
  using Sum = SumOf<Element>;
  static constexpr int kLanes = isa::kVectorBytes / sizeof(Sum);
  using V = isa::Vec<Sum, kLanes>;
  static constexpr int kAtOnce = 4;

 public:
  const pto_tensor *bias = nullptr, *residual = nullptr;
  Activation activation = Activation::None;
  Element* result = nullptr;
  int64_t cols = 0;

  bool is_needed() const { return bias || residual || activation != Activation::None; }
  bool has_bias_only() const { return !residual && activation == Activation::None; }

  void operator()(const Part& part, Sum* sums, int64_t stride) const {
    if (std::is_same_v<Sum, Element> && !is_needed()) return;
    for_activation(activation, [&](auto f) { finish(f, part, sums, stride); });
  }

 private:
  template <class F>
  void finish(F f, const Part& part, const Sum* sums, int64_t stride) const {
    Element added[kStripCols], rest[kStripCols];
    const Element* const b = bias ? row_of(*bias, 0, part, added) : nullptr;
    for (int64_t i = 0; i < part.rows; ++i, sums += stride) {
      Element* const to = result + (part.row + i) * cols + part.col;
      const Element* const r = residual ? row_of(*residual, part.row + i, part, rest) : nullptr;
      const auto write = [&](int64_t at) {
        V v = isa::lanes::load<kLanes>(sums + at);
        if (b) v = v + isa::lanes::load<kLanes>(b + at);
        v = f(v);
        if (r) v = v + isa::lanes::load<kLanes>(r + at);
        isa::lanes::store<kLanes>(to + at, v);
      };
      int64_t j = 0;
      for (; j + kAtOnce * kLanes <= part.cols; j += kAtOnce * kLanes) {
        PTO_UNROLL
        for (int u = 0; u < kAtOnce; ++u) write(j + u * kLanes);
      }
      for (; j + kLanes <= part.cols; j += kLanes) write(j);
      if (const int left = static_cast<int>(part.cols - j); left > 0) {
        V v = isa::lanes::load_part<kLanes>(sums + j, left);
        if (b) v = v + isa::lanes::load_part<kLanes>(b + j, left);
        v = f(v);
        if (r) v = v + isa::lanes::load_part<kLanes>(r + j, left);
        isa::lanes::store_part<kLanes>(to + j, v, left);
      }
    }
  }

  // The elements of a vector or matrix beside those of a part's row, dense, in `copy` if need be.
  static const Element* row_of(const pto_tensor& tensor, int64_t row, const Part& part,
                               Element* copy) {
    const int last = tensor.rank - 1;
    const int64_t step = tensor.strides[last];
    const auto* from = static_cast<const Element*>(tensor.data) + part.col * step;
    for (int axis = last - 1; axis >= 0; --axis) {
      from += row % tensor.sizes[axis] * tensor.strides[axis];
      row /= tensor.sizes[axis];
    }
    if (step == 1) return from;
    for (int64_t j = 0; j < part.cols; ++j) copy[j] = from[j * step];
    return copy;
  }
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
  Product<float, Nothing> product(in, rows, cols, in.data("result"_arg), {});
  product.packed = in.data("packed"_arg);
  return product.run();
}

PTO_OPERATOR_KERNEL(linear) {
  using Element = PTO_TYPE_0;
  const Rows<Element> x(in.tensor("x"_arg));
  const pto_tensor& weight = in.tensor("weight"_arg);
  Epilogue<Element> epilogue;
  if (!in.is_absent("bias"_arg)) epilogue.bias = &in.tensor("bias"_arg);
  if (!in.is_absent("residual"_arg)) epilogue.residual = &in.tensor("residual"_arg);
  epilogue.activation = activation_of(in.text("activation"_arg));
  epilogue.result = in.data("result"_arg);
  epilogue.cols = weight.sizes[0];
  Product<Element, const Epilogue<Element>&> product(in, x, epilogue.cols, epilogue.result,
                                                     epilogue);
  product.weight = &weight;
  if (std::is_same_v<Element, float> && !in.is_absent("packed"_arg)) {
    if (!is_packed_so(in.tensor("packed"_arg), x.depth, epilogue.cols))
      return in.fail(kOtherWeight);
    product.packed = in.data("packed"_arg);
    if (epilogue.has_bias_only()) std::swap(product.bias, epilogue.bias);
  }
  return product.run();
}
