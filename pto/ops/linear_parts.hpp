// SPDX-License-Identifier: Apache-2.0
// Linear parts: a product with a weight is cut over threads and then into pieces, and what follows
// it is applied to each piece of the result while the cache has it.
//
//     const auto epilogue = epilogue_of<Epilogue<float>>(in, cols);   // bias, activation, residual
//     return Product(in, x, cols, result, weight, epilogue).run();
//
// Thread safety: pure functions on the caller's memory.
#pragma once
#include "pto/ops/linear_rows.hpp"

namespace {

constexpr int64_t kStripCols = 768;    // of pieces, and of weights of f32 that are packed
constexpr int64_t kHeight = 96;        // rows of a piece: those of a block of libpto
constexpr int64_t kHighest = 10 * 96;  // of a piece whose weight is packed for it
constexpr int64_t kPartCols = 96;      // of a weight, that are packed at once

// Calls use(piece) for the pieces of a part of a result: of one strip of columns each, and as high
// as what follows the product finds them in the cache; higher where the weight is packed for each.
template <class Use>
void for_pieces(const Rectangle& part, bool is_packed, Use use) {
  const int64_t down = quotient_up(part.rows, kHeight);
  const int64_t low = down < 4 ? quotient_up(part.rows, std::max<int64_t>(down, 1)) : kHeight;
  const int64_t height = is_packed ? low : kHighest;
  const int64_t end_col = part.col + part.cols, end_row = part.row + part.rows;
  for (int64_t col = part.col, cols = 0; col < end_col; col += cols) {
    cols = std::min(kStripCols - col % kStripCols, end_col - col);
    for (int64_t row = part.row; row < end_row; row += height)
      use(Rectangle{row, std::min(height, end_row - row), col, cols});
  }
}

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
    const MatrixCut cut(1, x_.count, cols_, in_.threads());
    const bool is_packed = weight_.is_packed();
    Sum* sums = nullptr;
    if constexpr (!std::is_same_v<Sum, Result>) {
      const int64_t rows = std::min(x_.count, is_packed ? kHeight : kHighest);
      const auto most = static_cast<size_t>(rows * std::min(cols_, kStripCols));
      sums = static_cast<Sum*>(in_.scratch(most * sizeof(Sum)));
      if (!sums) return in_.fail("linear: no memory for a part of the result");
    }
    auto [item, last] = in_.items(cut.count());
    for (; item < last; ++item)
      for_pieces(cut.part(item), is_packed, [&](const Rectangle& piece) {
        const int64_t end = piece.row + piece.rows;
        for (int64_t row = piece.row, rows = 0; row < end; row += rows) {
          rows = x_.run(row, end);
          multiply({row, rows, piece.col, piece.cols}, sums);
        }
      });
    return 0;
  }

 private:
  void multiply(const Rectangle& part, Sum* sums) const {
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

  void operator()(const Rectangle& part, Sums* sums, int64_t stride) const {
    if (std::is_same_v<Sums, Element> && !is_needed()) return;
    for_activation(activation, [&](auto f) { finish(f, part, sums, stride); });
  }

 private:
  template <class F>
  void finish(F f, const Rectangle& part, const Sums* sums, int64_t stride) const {
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
  static const Element* row_of(const pto_tensor& tensor, int64_t row, const Rectangle& part,
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
