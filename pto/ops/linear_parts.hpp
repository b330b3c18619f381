// SPDX-License-Identifier: Apache-2.0
// Linear parts: a product with a weight is cut into parts, and what follows it is applied to each
// part of the result while the cache has it.
//
//     const auto epilogue = epilogue_of<Epilogue<float>>(in, cols);   // bias, activation, residual
//     return Product(in, x, cols, result, weight, epilogue).run();
//
// Thread safety: pure functions on the caller's memory.
#pragma once
#include "pto/ops/linear_rows.hpp"

namespace {

constexpr int64_t kStripCols = 768;         // of parts, and of weights of f32 that are packed
constexpr int64_t kHeight = 96;             // rows of a part: those of a block of libpto
constexpr int64_t kHighest = 10 * kHeight;  // of parts that are one
constexpr int64_t kNarrowest = 96, kPartsWanted = 8;

constexpr char kTooLargeAPart[] = "linear: a part of the result has more elements than it may have";

// Cuts a result into parts, the least that a thread takes. Parts of a thread that lie beside each
// other are one: with a packed weight, and where no part lies below another, those of the same
// rows, so that they are packed once, else those of the same columns, since a weight is packed for
// each part.
class Parts {
 public:
  Parts(int64_t rows, int64_t cols, bool is_packed) : rows_(rows), cols_(cols) {
    down_ = quotient_up(rows, kHeight);
    is_packed_ = is_packed || down_ == 1;
    height_ = down_ > 0 && down_ < 4 ? quotient_up(rows, down_) : kHeight;
    while (width_ > kNarrowest && count() < kPartsWanted) width_ /= 2;
  }
  int64_t count() const { return down_ * quotient_up(cols_, width_); }
  // Elements of the largest part that is joined.
  int64_t largest() const {
    return is_packed_ ? std::min(rows_, height_) * std::min(cols_, kStripCols)
                      : std::min(rows_, kHighest) * width_;
  }

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

// Computes x times a weight, of which `finish(part, sums, stride)` makes the result. The sums lie
// in the result where that has their type. The weight has `Sum`, `is_packed()` and
// `give(job, part)`, which sets b.
template <class Element, class Result, class Weight, class Finish>
class Product {
  using Sum = typename Weight::Sum;

 public:
  Product(const KernelArguments& in, const TensorRows<Element>& x, int64_t cols, Result* result,
          const Weight& weight, const Finish& finish)
      : in_(in), x_(x), cols_(cols), result_(result), weight_(weight), finish_(finish) {}

  int32_t run() const {
    if (std::max({x_.depth, x_.count, cols_}) > kSizeMax) return in_.fail(kTooLarge);
    const Parts parts(x_.count, cols_, weight_.is_packed());
    Sum* sums = nullptr;
    if constexpr (!std::is_same_v<Sum, Result>) {
      sums = static_cast<Sum*>(in_.scratch(static_cast<size_t>(parts.largest()) * sizeof(Sum)));
      if (!sums) return in_.fail("linear: no memory for a part of the result");
    }
    auto [item, last] = in_.items(parts.count());
    while (item < last) {
      const Part part = parts.next(&item, last);
      if (part.rows * part.cols > parts.largest()) return in_.fail(kTooLargeAPart);
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
    if constexpr (std::is_same_v<Sum, Result>) {
      sums = result_ + part.row * cols_ + part.col;
      stride = cols_;
    }
    pto_matmul_job job = job_of(part.rows, x_.depth, part.cols);
    job.a = job_matrix(x_.from(part.row));
    weight_.give(job, part);
    job.c = job_matrix(sums, stride, 1);
    pto_matmul(&job);
    finish_(part, sums, stride);
  }

  const KernelArguments& in_;
  const TensorRows<Element>& x_;
  const int64_t cols_;
  Result* const result_;
  const Weight& weight_;
  const Finish& finish_;
};

// result = activation(sums + bias) + residual; with a Scale, which is the type of scales, sums
// count as sums * scale, and those of integers as sums * row_scale * scale.
template <class Element, class Sums = SumOf<Element>, class Scale = void>
class Epilogue {
  using Sum = SumOf<Element>;
  static constexpr bool kIsScaled = !std::is_void_v<Scale>;
  static constexpr bool kHasRows = std::is_integral_v<Sums>;
  static constexpr int kLanes = isa::kVectorBytes / sizeof(Sum);
  using V = isa::Vec<Sum, kLanes>;
  static constexpr int kAtOnce = 4;

 public:
  const pto_tensor *bias = nullptr, *residual = nullptr;
  Activation activation = Activation::None;
  const Scale* scale = nullptr;      // of the columns, dense
  const float* row_scale = nullptr;  // dense
  Element* result = nullptr;
  int64_t cols = 0;

  bool is_needed() const { return kIsScaled || bias || residual || activation != Activation::None; }
  bool has_bias_only() const { return !residual && activation == Activation::None; }

  void operator()(const Part& part, Sums* sums, int64_t stride) const {
    if (std::is_same_v<Sums, Element> && !is_needed()) return;
    for_activation(activation, [&](auto f) { finish(f, part, sums, stride); });
  }

 private:
  template <class F>
  void finish(F f, const Part& part, const Sums* sums, int64_t stride) const {
    Element added[kStripCols], rest[kStripCols];
    const Element* const b = bias ? row_of(*bias, 0, part, added) : nullptr;
    V row = {};
    for (int64_t i = 0; i < part.rows; ++i, sums += stride) {
      Element* const to = result + (part.row + i) * cols + part.col;
      const Element* const r = residual ? row_of(*residual, part.row + i, part, rest) : nullptr;
      if constexpr (kHasRows) row = isa::lanes::splat<V>(row_scale[part.row + i]);
      const auto finished = [&](auto load, int64_t at) {
        // Products are rounded before they are added to, in each of the loops below.
        V v = isa::lanes::rounded(scaled(load, sums, row, part.col, at));
        if (b) v = v + load(b + at);
        v = isa::lanes::rounded(f(v));
        return r ? v + load(r + at) : v;
      };
      const auto write = [&](int64_t at) {
        const auto load = [](const auto* p) { return isa::lanes::load<kLanes>(p); };
        isa::lanes::store<kLanes>(to + at, finished(load, at));
      };
      int64_t j = 0;
      for (; j + kAtOnce * kLanes <= part.cols; j += kAtOnce * kLanes) {
        PTO_UNROLL
        for (int u = 0; u < kAtOnce; ++u) write(j + u * kLanes);
      }
      for (; j + kLanes <= part.cols; j += kLanes) write(j);
      if (const int left = static_cast<int>(part.cols - j); left > 0) {
        const auto load = [left](const auto* p) { return isa::lanes::load_part<kLanes>(p, left); };
        isa::lanes::store_part<kLanes>(to + j, finished(load, j), left);
      }
    }
  }

  // Returns sums from column `col + at` on, as their scales have them.
  template <class Load>
  PTO_INLINE V scaled(Load load, const Sums* sums, V row, int64_t col, int64_t at) const {
    V v;
    if constexpr (kHasRows)
      v = isa::lanes::convert<Sum>(load(sums + at)) * row;
    else
      v = load(sums + at);
    if constexpr (kIsScaled) v = v * load(scale + col + at);
    return v;
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

// Reads the arguments of a linear layer that follow its product.
template <class Epilogue, class Named>
Epilogue epilogue_of(const Named& in, int64_t cols) {
  Epilogue epilogue;
  if (!in.is_absent("bias"_arg)) epilogue.bias = &in.tensor("bias"_arg);
  if (!in.is_absent("residual"_arg)) epilogue.residual = &in.tensor("residual"_arg);
  epilogue.activation = activation_of(in.text("activation"_arg));
  epilogue.result = in.data("result"_arg);
  epilogue.cols = cols;
  return epilogue;
}

}  // namespace
