// SPDX-License-Identifier: Apache-2.0
// The gradients of linear.cpp. With d = d_result times the slope of the activation:
//
//     d_x = d weight    d_weight = d' x    d_bias = the sum of d's rows    d_residual = d_result
//
// A part of d_x needs some rows of d, one of d_weight some columns; with an activation each
// computes them again. Sums of f16 and bf16 stay in f32 and round once.
#include "pto/isa/reduce/block_sums.hpp"
#include "pto/ops/linear_rows.hpp"

namespace {

using Element = PTO_TYPE_0;
using Sum = SumOf<Element>;

constexpr int64_t kPart = 48;          // rows of d_x, or of d_weight
constexpr int64_t kRowsAtOnce = 1024;  // of x, for d_weight
constexpr bool kIsNarrow = !std::is_same_v<Sum, Element>;

class Gradients {
 public:
  template <class Named>
  explicit Gradients(const Named& in)
      : in_(in),
        d_result_(in.tensor("d_result"_arg)),
        x_(in.tensor("x"_arg)),
        weight_(in.tensor("weight"_arg)),
        activation_(activation_of(in.text("activation"_arg))),
        cols_(weight_.sizes[0]) {
    const int64_t needs = in.integer("needs"_arg);
    if (!in.is_absent("bias"_arg)) bias_ = &in.tensor("bias"_arg);
    if (needs & 1) d_x_ = in.data("d_x"_arg);
    if (needs & 2) d_weight_ = in.data("d_weight"_arg);
    if (needs & 4 && bias_) d_bias_ = in.data("d_bias"_arg);
    if (needs & 8 && !in.is_absent("residual"_arg)) d_residual_ = in.data("d_residual"_arg);
  }

  int32_t run() {
    if (std::max({x_.depth, x_.count, cols_}) > kSizeMax) {
      return in_.fail(
          "linear: a size is above 2147483647\nsizes of one product have 32 bits\n"
          "split the tensors");
    }
    const int64_t slopes = kPart * std::max(cols_, kRowsAtOnce);
    const int64_t sums = kIsNarrow ? kPart * x_.depth : 0;
    slopes_ = static_cast<Sum*>(in_.scratch(static_cast<size_t>(slopes + sums) * sizeof(Sum)));
    if (!slopes_) return in_.fail("linear_backward: no memory for a part of the gradient");
    sums_ = slopes_ + slopes;
    const int64_t down = d_x_ || d_residual_ ? quotient_up(x_.count, kPart) : 0;
    const int64_t across = d_weight_ || d_bias_ ? quotient_up(cols_, kPart) : 0;
    const auto [first, last] = in_.items(down + across);
    for (int64_t item = first; item < last; ++item) {
      if (item < down)
        write_rows(item * kPart, std::min(kPart, x_.count - item * kPart));
      else
        write_cols((item - down) * kPart, std::min(kPart, cols_ - (item - down) * kPart));
    }
    return 0;
  }

 private:
  // Returns how many rows of x and d_result from this one on are evenly spaced in both.
  int64_t run(int64_t row, int64_t last) const {
    return std::min(x_.run(row, last), d_result_.run(row, last));
  }

  Matrix<const Element> weight(int64_t row) const {
    return {static_cast<const Element*>(weight_.data) + row * weight_.strides[0],
            weight_.strides[0], weight_.strides[1]};
  }
  Matrix<const Element> d_result(int64_t row, int64_t col) const {
    Matrix<const Element> d = d_result_.from(row);
    d.data += col * d.col_stride;
    return d;
  }

  // Calls f with a part of d as a matrix.
  template <class F>
  void with_slopes(const Part& part, F f) const {
    const Matrix<const Element> d = d_result(part.row, part.col);
    if (activation_ == Activation::None) return f(d);
    const Matrix<Sum> z = {slopes_, part.cols, 1};
    const Matrix<const Element> w = weight(part.col);
    pto_matmul_job job = job_of(part.rows, x_.depth, part.cols);
    multiply_one(job, x_.from(part.row), Matrix<const Element>{w.data, w.col_stride, w.row_stride},
                 z);
    for_activation(activation_, [&](auto function) {
      for (int64_t i = 0; i < part.rows; ++i)
        for (int64_t j = 0; j < part.cols; ++j) scale(function, z, d, i, j, bias_at(part.col + j));
    });
    f(Matrix<const Sum>{z.data, z.row_stride, z.col_stride});
  }

  template <class F>
  static void scale(F, const Matrix<Sum>& z, const Matrix<const Element>& d, int64_t i, int64_t j,
                    Sum bias) {
    using V = isa::Vec<Sum, 16 / sizeof(Sum)>;
    Sum& at = z.data[i * z.row_stride + j];
    const V slope = F::slope(isa::lanes::splat<V>(at + bias));
    at = static_cast<Sum>(slope[0]) * static_cast<Sum>(d.data[i * d.row_stride + j * d.col_stride]);
  }

  Sum bias_at(int64_t col) const {
    return bias_
               ? static_cast<Sum>(static_cast<const Element*>(bias_->data)[col * bias_->strides[0]])
               : Sum(0);
  }

  void write_rows(int64_t row, int64_t rows) {
    for (const int64_t last = row + rows; row < last;) {
      const int64_t count = run(row, last), depth = x_.depth;
      for (int64_t i = 0; i < count && d_residual_; ++i) {
        const Matrix<const Element> d = d_result(row + i, 0);
        for (int64_t j = 0; j < cols_; ++j)
          d_residual_[(row + i) * cols_ + j] = d.data[j * d.col_stride];
      }
      if (d_x_) {
        Element* const to = d_x_ + row * depth;
        with_slopes({row, count, 0, cols_}, [&](auto d) {
          pto_matmul_job job = job_of(count, cols_, depth);
          multiply_one(job, d, weight(0), Matrix<Sum>{sums_or(to), depth, 1});
        });
        round(to, count * depth);
      }
      row += count;
    }
  }

  void write_cols(int64_t col, int64_t cols) {
    const int64_t depth = x_.depth;
    Element* const to = d_weight_ + col * depth;
    isa::RunningSum<double> bias[kPart];
    for (int64_t row = 0; row < x_.count || row == 0;) {
      const int64_t count = x_.count == 0 ? 0 : run(row, std::min(x_.count, row + kRowsAtOnce));
      with_slopes({row, count, col, cols}, [&](auto d) {
        pto_matmul_job job = job_of(cols, count, depth);
        std::swap(d.row_stride, d.col_stride);
        if (d_weight_)
          multiply_one(job, d, x_.from(row), Matrix<Sum>{sums_or(to), depth, 1}, row > 0);
        for (int64_t i = 0; i < count && d_bias_; ++i)
          for (int64_t j = 0; j < cols; ++j)
            bias[j].add(static_cast<double>(d.data[j * d.row_stride + i * d.col_stride]));
      });
      if (count == 0) break;
      row += count;
    }
    if (d_weight_) round(to, cols * depth);
    for (int64_t j = 0; j < cols && d_bias_; ++j)
      d_bias_[col + j] = static_cast<Element>(bias[j].total());
  }

  // Where sums lie until they are rounded: in the result if it is as wide.
  template <class T>
  Sum* sums_or(T* to) const {
    if constexpr (std::is_same_v<T, Sum>)
      return to;
    else
      return sums_;
  }
  void round(Element* to, int64_t count) const {
    for (int64_t i = 0; kIsNarrow && i < count; ++i) to[i] = static_cast<Element>(sums_[i]);
  }

  const KernelArguments& in_;
  const Rows<Element> d_result_, x_;
  const pto_tensor& weight_;
  const Activation activation_;
  const int64_t cols_;
  const pto_tensor* bias_ = nullptr;
  Element *d_x_ = nullptr, *d_weight_ = nullptr, *d_bias_ = nullptr, *d_residual_ = nullptr;
  Sum *slopes_ = nullptr, *sums_ = nullptr;
};

}  // namespace

PTO_OPERATOR_KERNEL(linear_backward) { return Gradients(in).run(); }
