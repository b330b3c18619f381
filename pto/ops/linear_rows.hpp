// SPDX-License-Identifier: Apache-2.0
// Linear rows: the kernels of linear layers share rows of any layout, one product, activations.
//
//     const TensorRows<float> x(in.tensor("x"_arg));   // all batches, as rows
//     multiply_one(job_of(rows, depth, cols), a, b, c);   // c = a b
//     for_activation(Activation::Gelu, [&](auto f) { v = f(v); });
//
// Thread safety: pure functions on the caller's memory.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "pto/isa/cpu/erf.hpp"
#include "pto/isa/cpu/matrix_cut.hpp"
#include "pto/operators/named_arguments.hpp"
#include "pto/ops/matrix.hpp"

namespace {

using namespace pto;

constexpr int64_t kSizeMax = INT32_MAX;
constexpr char kTooLarge[] =
    "linear: a size is above 2147483647\nsizes of one product have 32 bits\nsplit the tensors";

constexpr int64_t quotient_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

pto_matmul_job job_of(int64_t rows, int64_t depth, int64_t cols) {
  pto_matmul_job job = {};
  job.rows = static_cast<int32_t>(rows);
  job.depth = static_cast<int32_t>(depth);
  job.cols = static_cast<int32_t>(cols);
  job.a.type = job.b.type = job.c.type = PTO_MATMUL_F32;
  job.precision = pto_matmul_precision();
  return job;
}

// Completes the job and runs it: c = a b, or c + a b. Without data, b is packed.
template <class A, class B, class Sum>
void multiply_one(pto_matmul_job& job, const StridedMatrix<A>& a, const StridedMatrix<B>& b,
                  const StridedMatrix<Sum>& c, bool adds = false) {
  job.a = job_matrix(a);
  job.b = job_matrix(b);
  job.c = job_matrix(c);
  if (adds) job.start = job.c;
  pto_matmul(&job);
}

// A tensor's rows along its last axis, those of all batches.
template <class T>
class TensorRows {
 public:
  explicit TensorRows(const pto_tensor& a) : a_(a) {
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
    in_batch_ = std::max<int64_t>(in_batch_, 1);
  }

  int64_t depth, count = 1;

  // Returns how many rows from this one on, below `last`, are evenly spaced.
  int64_t run(int64_t row, int64_t last) const {
    return std::min(last - row, in_batch_ - row % in_batch_);
  }

  StridedMatrix<const T> from(int64_t row) const {
    const auto* data = static_cast<const T*>(a_.data) + row % in_batch_ * stride_;
    int64_t batch = in_batch_ == count ? 0 : row / in_batch_;
    for (int axis = a_.rank - 3; axis >= 0 && batch > 0; --axis) {
      data += batch % a_.sizes[axis] * a_.strides[axis];
      batch /= a_.sizes[axis];
    }
    return {data, stride_, a_.strides[a_.rank - 1]};
  }

 private:
  const pto_tensor& a_;
  int64_t in_batch_, stride_;
};

enum class Activation { None, Relu, Silu, Gelu, GeluTanh };

inline Activation activation_of(const KernelArguments::Text& name) {
  if (name == "relu") return Activation::Relu;
  if (name == "silu") return Activation::Silu;
  if (name == "gelu") return Activation::Gelu;
  return name == "gelu_tanh" ? Activation::GeluTanh : Activation::None;
}

// sqrt(1 / 2); 2 sqrt(2 / pi), and its product with PyTorch's factor of the cube; 1 / sqrt(2 pi).
constexpr double kRootHalf = 0.70710678118654752, kScale = 1.5957691216057308;
constexpr double kCubic = 0.044715 * kScale, kDensity = 0.39894228040143268;

// Functions of vectors of float and double, and their derivatives.
struct Identity {
  template <class V>
  PTO_INLINE V operator()(V x) const {
    return x;
  }
  template <class V>
  static PTO_INLINE V slope(V) {
    return isa::lanes::splat<V>(1);
  }
};
struct Relu {
  template <class V>
  PTO_INLINE V operator()(V x) const {
    return isa::lanes::relu(x);
  }
  template <class V>
  static PTO_INLINE V slope(V x) {
    return x > V{} ? isa::lanes::splat<V>(1) : V{};
  }
};
struct Silu {
  template <class V>
  PTO_INLINE V operator()(V x) const {
    return x * isa::lanes::sigmoid(x);
  }
  template <class V>
  static PTO_INLINE V slope(V x) {
    const V s = isa::lanes::sigmoid(x), one = isa::lanes::splat<V>(1);
    return s * (one + x * (one - s));
  }
};
struct Gelu {
  template <class V>
  static PTO_INLINE V normal(V x) {
    return isa::lanes::splat<V>(1) +
           isa::lanes::erf(x * isa::lanes::splat<V>(isa::LaneOf<V>(kRootHalf)));
  }
  template <class V>
  PTO_INLINE V operator()(V x) const {
    return isa::lanes::splat<V>(isa::LaneOf<V>(0.5)) * x * normal(x);
  }
  template <class V>
  static PTO_INLINE V slope(V x) {
    const V half = isa::lanes::splat<V>(isa::LaneOf<V>(0.5));
    const V density = isa::lanes::exp(-half * x * x);
    return half * normal(x) + x * density * isa::lanes::splat<V>(isa::LaneOf<V>(kDensity));
  }
};
struct GeluTanh {
  template <class V>
  static PTO_INLINE V twice(V x, double cubic) {
    using T = isa::LaneOf<V>;
    return isa::lanes::splat<V>(T(kScale)) + isa::lanes::splat<V>(T(cubic)) * (x * x);
  }
  template <class V>
  PTO_INLINE V operator()(V x) const {
    return x * isa::lanes::sigmoid(x * twice(x, kCubic));
  }
  template <class V>
  static PTO_INLINE V slope(V x) {
    const V s = isa::lanes::sigmoid(x * twice(x, kCubic)), one = isa::lanes::splat<V>(1);
    return s + x * s * (one - s) * twice(x, 3 * kCubic);
  }
};

// Calls f with the function; loops inside it hold no branch.
template <class F>
PTO_INLINE void for_activation(Activation activation, F f) {
  switch (activation) {
    case Activation::Relu:
      return f(Relu());
    case Activation::Silu:
      return f(Silu());
    case Activation::Gelu:
      return f(Gelu());
    case Activation::GeluTanh:
      return f(GeluTanh());
    default:
      return f(Identity());
  }
}

}  // namespace
