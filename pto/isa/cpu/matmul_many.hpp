// SPDX-License-Identifier: Apache-2.0
// Matmul many: batches of matrices so small that a product is over before another one has begun. A
// lane of each vector has the elements of one product.
//
//     run_many(job, {100000, 9, 3, 3});   // of 3 x 3 by 3 x 1; false: they are not small
//
// Law: that of the job for each product; the same bits as the loops over panels.
// Thread safety: pure function on the caller's memory.
#pragma once
#include "pto/isa/cpu/access.hpp"
#include "pto/isa/cpu/loops.hpp"
#include "pto/isa/cpu/matmul_dot.hpp"
#include "pto/isa/cpu/transpose.hpp"

PTO_NAMESPACE_BEGIN
namespace matmul {

constexpr int kManyElements = 64;  // of a and of b: what vectors of them take is in the first cache
constexpr int kManyDepth = 2048;   // of products of one element
constexpr int kLeastOfMany = kLane;  // products that fill most of a vector

// Whether collecting the elements takes less than what other loops begin with.
inline bool are_small(const pto_matmul_job& job) {
  if (job.rows * int64_t{job.cols} == 1) return job.depth <= kManyDepth;
  if (job.rows > kManyElements || job.cols > kManyElements || job.depth > kManyElements)
    return false;
  const int left = job.rows * job.depth, right = job.depth * job.cols;
  const bool is_vector = job.rows == 1 || job.cols == 1;
  return left <= kManyElements && right <= kManyElements &&
         left + right + 2 * job.rows * job.cols <= (is_vector ? 2 : 1) * kManyElements;
}

template <class Dot, class T>
class ManyProducts {
 public:
  ManyProducts(const pto_matmul_job& job, const MatmulSteps& steps) : job_(job), steps_(steps) {}

  void run() {
    const bool is_one = job_.rows * job_.cols == 1;
    for (int64_t first = 0; first < steps_.count; first += kLanes) {
      const int count = int(steps_.count - first < kLanes ? steps_.count - first : kLanes);
      const Side a = side(job_.a, first, steps_.a, count), b = side(job_.b, first, steps_.b, count);
      T* const c = static_cast<T*>(job_.c.data) + first * steps_.c;
      if (is_one)
        lanes::scatter<kLanes>(c, steps_.c, dot(a, b), count);
      else
        multiply(a, b, c, count);
    }
  }

 private:
  using Sum = typename Dot::Sum;
  static constexpr int kLanes = kCount<Sum>;
  // Elements of an operand in so many products.
  struct Side {
    const T* data;
    int64_t row, col, step;
    int count;
    PTO_INLINE Sum at(int i, int j) const {
      const T* const first = data + i * row + j * col;
      if (step == 0) return lanes::splat<Sum>(*first);
      return step == 1 ? lanes::load_part<kLanes>(first, count)
                       : lanes::gather<kLanes>(first, step, count);
    }
  };
  // Neighbouring elements of as many products as a vector has lanes.
  struct Block {
    Vec<moves::Bits<sizeof(T)>, kLanes> of[moves::kLaneCount<int(sizeof(T))>];
    PTO_INLINE Block(const T* data, int64_t step) {
      moves::load_transposed<sizeof(T), kLanes>(of, reinterpret_cast<const char*>(data),
                                                step * int64_t(sizeof(T)));
    }
    PTO_INLINE Sum at(int i) const { return bit_cast<Sum>(of[i]); }
  };
  static Side side(const pto_matmul_matrix& m, int64_t first, int64_t step, int count) {
    return {static_cast<const T*>(m.data) + first * step, m.row_stride, m.col_stride, step, count};
  }
  static PTO_INLINE Sum add(Sum sum, Sum a, Sum b) {
    return Dot::add(sum, bit_cast<typename Dot::Vector>(a), bit_cast<typename Dot::Vector>(b));
  }

  Sum dot(const Side& a, const Side& b) const {
    constexpr int kBlock = moves::kLaneCount<int(sizeof(T))>;
    Sum sum = {};
    int k = 0;
    if (a.count == kLanes && a.col == 1 && b.row == 1 && a.step * b.step != 0)
      for (; k + kBlock <= job_.depth; k += kBlock) {
        const Block x(a.data + k, a.step), y(b.data + k, b.step);
        PTO_UNROLL
        for (int i = 0; i < kBlock; ++i) sum = add(sum, x.at(i), y.at(i));
      }
    for (; k < job_.depth; ++k) sum = add(sum, a.at(0, k), b.at(k, 0));
    return sum;
  }

  void multiply(const Side& a, const Side& b, T* c, int count) const {
    Sum left[kManyElements], right[kManyElements];
    for (int i = 0; i < job_.rows; ++i)
      for (int k = 0; k < job_.depth; ++k) left[i * job_.depth + k] = a.at(i, k);
    for (int k = 0; k < job_.depth; ++k)
      for (int j = 0; j < job_.cols; ++j) right[k * job_.cols + j] = b.at(k, j);
    for (int i = 0; i < job_.rows; ++i)
      for (int j = 0; j < job_.cols; ++j) {
        Sum sum = {};
        for (int k = 0; k < job_.depth; ++k)
          sum = add(sum, left[i * job_.depth + k], right[k * job_.cols + j]);
        lanes::scatter<kLanes>(c + i * job_.c.row_stride + j * job_.c.col_stride, steps_.c, sum,
                               count);
      }
  }

  const pto_matmul_job& job_;
  const MatmulSteps& steps_;
};

// Multiplies all of a batch; false: nothing was written.
inline bool run_many(const pto_matmul_job& job, const MatmulSteps& steps) {
  const int type = job.a.type;
  if (job.b.type != type || job.c.type != type || job.depth <= 0 || !are_small(job)) return false;
  if (type == PTO_MATMUL_F32)
    ManyProducts<FloatDot, float>(job, steps).run();
  else if (type == PTO_MATMUL_F64)
    ManyProducts<DoubleDot, double>(job, steps).run();
  else
    return false;
  return true;
}

}  // namespace matmul
PTO_NAMESPACE_END
