// SPDX-License-Identifier: Apache-2.0
// Linear gradients: those of a linear layer, for any kind of weight. With d = d_result times the
// slope of the activation, and times the outputs' scales where there are some:
//
//     d_x = d weight    d_weight = d' x    d_bias = the sum of d's rows    d_residual = d_result
//
//     Gradients<float, DenseWeight<float>> all(in, DenseWeight<float>(tensor));
//     all.d_x = in.data("d_x"_arg);            // what stays null is not computed
//     return all.run();
//
// The d of d_weight and d_bias lacks the scales. A part of d_x needs some rows of d, a part of
// d_weight some columns; with an activation each part computes them again. Sums of f16 and bf16
// stay in f32 and round once. A Weight has `cols`, its outputs, and `depth`, its inputs. Its give()
// sets the b of a job to some of its outputs, as x needs it, give_turned() to all of it, as d needs
// it; scale() returns the scale of an output.
//
// Thread safety: pure functions on the caller's memory.
#pragma once
#include "pto/isa/reduce/block_sums.hpp"
#include "pto/ops/linear_rows.hpp"

namespace {

// A weight of numbers as they are, outputs x inputs.
template <class Element>
class DenseWeight {
 public:
  static constexpr bool kIsScaled = false;
  static constexpr int64_t kRows = 48;  // of a part of d_x, at most
  explicit DenseWeight(const pto_tensor& weight)
      : cols(weight.sizes[0]), depth(weight.sizes[1]), weight_(weight) {}
  const int64_t cols, depth;

  void give(pto_matmul_job& job, const Rectangle& part) const {
    const auto* const from = data() + part.col * weight_.strides[0];
    job.b = job_matrix(from, weight_.strides[1], weight_.strides[0]);
  }
  void give_turned(pto_matmul_job& job) const {
    job.b = job_matrix(data(), weight_.strides[0], weight_.strides[1]);
  }
  SumOf<Element> scale(int64_t) const { return 1; }

 private:
  const Element* data() const { return static_cast<const Element*>(weight_.data); }
  const pto_tensor& weight_;
};

template <class Element, class Weight>
class Gradients {
  using Sum = SumOf<Element>;
  static constexpr int64_t kPart = 48;          // rows of d_x, at least, or of d_weight
  static constexpr int64_t kRowsAtOnce = 1024;  // of x, for d_weight
  static constexpr bool kIsNarrow = !std::is_same_v<Sum, Element>;

 public:
  template <class Named>
  Gradients(const Named& in, const Weight& weight)
      : in_(in),
        d_result_(in.tensor("d_result"_arg)),
        x_(in.tensor("x"_arg)),
        weight_(weight),
        activation_(activation_of(in.text("activation"_arg))),
        cols_(weight.cols) {
    if (!in.is_absent("bias"_arg)) bias_ = &in.tensor("bias"_arg);
  }
  // Where the gradients that are wanted go.
  Element *d_x = nullptr, *d_weight = nullptr, *d_bias = nullptr, *d_residual = nullptr;
  bool has_bias() const { return bias_; }

  int32_t run() {
    if (std::max({x_.depth, x_.count, cols_}) > kSizeMax) return in_.fail(kTooLarge);
    const int64_t rows =
        std::clamp(quotient_up(x_.count, in_.threads()), kPart, std::max(kPart, Weight::kRows));
    const int64_t slopes = std::max(rows * cols_, kPart * kRowsAtOnce);
    const int64_t sums = kIsNarrow ? rows * x_.depth : 0;
    slopes_ = static_cast<Sum*>(in_.scratch(static_cast<size_t>(slopes + sums) * sizeof(Sum)));
    if (!slopes_) return in_.fail("linear_backward: no memory for a part of the gradient");
    sums_ = slopes_ + slopes;
    const int64_t down = d_x || d_residual ? quotient_up(x_.count, rows) : 0;
    const int64_t across = d_weight || d_bias ? quotient_up(cols_, kPart) : 0;
    const auto [first, last] = in_.items(down + across);
    for (int64_t item = first; item < last; ++item) {
      if (item < down)
        write_rows(item * rows, std::min(rows, x_.count - item * rows));
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

  StridedMatrix<const Element> d_result(int64_t row, int64_t col) const {
    StridedMatrix<const Element> d = d_result_.from(row);
    d.data += col * d.col_stride;
    return d;
  }

  // Calls f with a part of d as a matrix, times the outputs' scales if `is_scaled`.
  template <class F>
  void with_slopes(const Rectangle& part, bool is_scaled, F f) const {
    const StridedMatrix<const Element> d = d_result(part.row, part.col);
    const bool is_linear = activation_ == Activation::None;
    if (is_linear && !(is_scaled && Weight::kIsScaled)) return f(d);
    const StridedMatrix<Sum> z = {slopes_, part.cols, 1};
    if (!is_linear) {
      pto_matmul_job job = job_of(part.rows, x_.depth, part.cols);
      weight_.give(job, part);
      multiply(job, x_.from(part.row), z);
    }
    for_activation(activation_, [&](auto function) {
      for (int64_t i = 0; i < part.rows; ++i)
        for (int64_t j = 0; j < part.cols; ++j) {
          Sum& at = z.data[i * z.row_stride + j];
          const Sum one = static_cast<Sum>(d.data[i * d.row_stride + j * d.col_stride]);
          at = slope(function, at, part.col + j) * one;
          if (is_scaled) at *= weight_.scale(part.col + j);
        }
    });
    f(StridedMatrix<const Sum>{z.data, z.row_stride, z.col_stride});
  }

  // Completes the job and runs it: c = a b, or c + a b.
  template <class A>
  static void multiply(pto_matmul_job& job, const StridedMatrix<A>& a, const StridedMatrix<Sum>& c,
                       bool adds = false) {
    job.a = job_matrix(a);
    job.c = job_matrix(c);
    if (adds) job.start = job.c;
    pto_matmul(&job);
  }

  // Returns the slope of the activation of an output, from its sum.
  template <class F>
  Sum slope(F, Sum sum, int64_t col) const {
    if constexpr (std::is_same_v<F, Identity>) return 1;
    using V = isa::Vec<Sum, 16 / sizeof(Sum)>;
    return static_cast<Sum>(
        F::slope(isa::lanes::splat<V>(sum * weight_.scale(col) + bias_at(col)))[0]);
  }

  Sum bias_at(int64_t col) const {
    return bias_
               ? static_cast<Sum>(static_cast<const Element*>(bias_->data)[col * bias_->strides[0]])
               : Sum(0);
  }

  void write_rows(int64_t row, int64_t rows) {
    for (const int64_t last = row + rows; row < last;) {
      const int64_t count = run(row, last), depth = x_.depth;
      for (int64_t i = 0; i < count && d_residual; ++i) {
        const StridedMatrix<const Element> d = d_result(row + i, 0);
        for (int64_t j = 0; j < cols_; ++j)
          d_residual[(row + i) * cols_ + j] = d.data[j * d.col_stride];
      }
      if (d_x) {
        Element* const to = d_x + row * depth;
        with_slopes({row, count, 0, cols_}, true, [&](auto d) {
          pto_matmul_job job = job_of(count, cols_, depth);
          weight_.give_turned(job);
          multiply(job, d, StridedMatrix<Sum>{sums_or(to), depth, 1});
        });
        round(to, count * depth);
      }
      row += count;
    }
  }

  void write_cols(int64_t col, int64_t cols) {
    const int64_t depth = x_.depth;
    Element* const to = d_weight ? d_weight + col * depth : nullptr;
    isa::RunningSum<double> bias[kPart];
    for (int64_t row = 0; row < x_.count || row == 0;) {
      const int64_t count = x_.count == 0 ? 0 : run(row, std::min(x_.count, row + kRowsAtOnce));
      with_slopes({row, count, col, cols}, false, [&](auto d) {
        pto_matmul_job job = job_of(cols, count, depth);
        std::swap(d.row_stride, d.col_stride);
        if (d_weight)
          multiply_one(job, d, x_.from(row), StridedMatrix<Sum>{sums_or(to), depth, 1}, row > 0);
        for (int64_t i = 0; i < count && d_bias; ++i)
          for (int64_t j = 0; j < cols; ++j)
            bias[j].add(static_cast<double>(d.data[j * d.row_stride + i * d.col_stride]));
      });
      if (count == 0) break;
      row += count;
    }
    if (d_weight) round(to, cols * depth);
    for (int64_t j = 0; j < cols && d_bias; ++j)
      d_bias[col + j] = static_cast<Element>(bias[j].total());
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
  const TensorRows<Element> d_result_, x_;
  const Weight weight_;
  const Activation activation_;
  const int64_t cols_;
  const pto_tensor* bias_ = nullptr;
  Sum *slopes_ = nullptr, *sums_ = nullptr;
};

}  // namespace
