// SPDX-License-Identifier: Apache-2.0
// Attention masks: where the part of a mask for one head lies, and the gradient of a mask of
// numbers, an element of which is the sum over all scores that share it.
//
//     const pto_attention_operand mask = mask_at(tensor, q, batch, head);
//     MaskGradient<float, GradientJobs<Named>> gradient(jobs, job, mask, d_mask, q, memory);
//     for (int64_t item = 0; item < gradient.count(); ++item) gradient.run(item);
//
// Law: sums run over batches, heads and queries in order, whatever the threads.
// Thread safety: several threads may run different items, each with memory of its own.
#pragma once
#include <algorithm>
#include <cstdint>

#include "pto/isa/cpu/attention_job.hpp"
#include "pto/operators/named_arguments.hpp"

namespace {

// A matrix of a mask, or of its gradient, by its number among all: heads count fastest.
inline pto_attention_operand mask_matrix(const pto_tensor& mask, int64_t number) {
  const auto stride = [&](int from_end) -> int64_t {
    const int axis = mask.rank - from_end;
    return axis < 0 || mask.sizes[axis] == 1 ? 0 : mask.strides[axis];
  };
  int64_t offset = 0;
  for (int axis = mask.rank - 3; axis >= 0; --axis) {
    offset += number % mask.sizes[axis] * mask.strides[axis];
    number /= mask.sizes[axis];
  }
  return {static_cast<char*>(mask.data) + offset * (mask.type_bits / 8), stride(3), stride(2),
          stride(1)};
}

// Returns the number of the matrix that a head of a batch has; `like` has the batch.
inline int64_t mask_number(const pto_tensor& mask, const pto_tensor& like, int64_t batch,
                           int64_t head) {
  int64_t number = 0, step = 1, index = head;
  for (int from_end = 3; from_end <= mask.rank; ++from_end) {
    const int64_t size = mask.sizes[mask.rank - from_end];
    if (from_end > 3) {
      const int64_t all = like.sizes[like.rank - from_end];
      index = batch % all;
      batch /= all;
    }
    if (size > 1) number += index * step;
    step *= size;
  }
  return number;
}

// A mask, broadcast to [batch..., heads, queries, keys].
inline pto_attention_operand mask_at(const pto_tensor& mask, const pto_tensor& like, int64_t batch,
                                     int64_t head) {
  return mask_matrix(mask, mask_number(mask, like, batch, head));
}

// The gradient of the mask, a block of rows of one of its matrices after the other. The job has
// what all jobs share, and its workspace.
template <class Element, class Jobs>
class MaskGradient {
  static constexpr int64_t kRows = PTO_ATTENTION_SCORE_ROWS, kKeys = PTO_ATTENTION_SCORE_KEYS;

 public:
  // The floats of its memory; it finds logarithms of sums where the call has none.
  static int64_t floats(const Jobs& jobs) {
    const int64_t sums = jobs.batches() * jobs.query_heads() * jobs.queries();
    return kRows * (kKeys + 1) + (jobs.has_log_sums() ? 0 : sums);
  }

  MaskGradient(const Jobs& jobs, const pto_attention_gradients& job, const pto_tensor& mask,
               const pto_tensor& d_mask, const pto_tensor& like, float* memory)
      : jobs_(jobs),
        job_(job),
        mask_(mask),
        to_(d_mask),
        like_(like),
        sums_(memory),
        totals_(sums_ + kRows * kKeys),
        log_sums_(totals_ + kRows),
        rows_(size(2)),
        cols_(size(1)),
        blocks_((rows_ + kRows - 1) / kRows) {
    job_.d_q = job_.d_k = job_.d_v = {};
  }

  int64_t count() const {
    int64_t matrices = 1;
    for (int from_end = 3; from_end <= mask_.rank; ++from_end) matrices *= size(from_end);
    return cols_ == 0 ? 0 : matrices * blocks_;
  }

  void run(int64_t item) {
    const int64_t number = item / blocks_, first = item % blocks_ * kRows;
    const int64_t rows = std::min(rows_ - first, kRows);
    if (!jobs_.has_log_sums()) for_each_part(number, first, rows, [this] { find_log_sums(); });
    std::fill_n(totals_, kRows, 0.0f);
    for (int64_t key = 0; key < jobs_.keys(); key += kKeys) {
      std::fill_n(sums_, kRows * kKeys, 0.0f);
      const auto at = static_cast<int32_t>(key);
      if (job_.of.mask_hides == 0)
        for_each_part(number, first, rows, [&] {
          if (at < job_.of.keys) pto_attention_add_scores(&job_, at, sums_);
        });
      if (rows_ == 1) add_rows();
      const int64_t keys = std::min(jobs_.keys() - key, kKeys);
      for (int64_t i = 0; i < rows; ++i) {
        const float* const row = sums_ + i * kKeys;
        if (cols_ == 1)
          for (int64_t j = 0; j < keys; ++j) totals_[i] += row[j];
        else
          write(number, first + i, key, keys, row);
      }
    }
    if (cols_ == 1)
      for (int64_t i = 0; i < rows; ++i) write(number, first + i, 0, 1, totals_ + i);
  }

 private:
  int64_t size(int from_end) const {
    return from_end > mask_.rank ? 1 : mask_.sizes[mask_.rank - from_end];
  }

  // Calls f with the job for each part of the queries that share these rows of a matrix.
  template <class F>
  void for_each_part(int64_t number, int64_t first, int64_t rows, F f) {
    const int64_t queries = jobs_.queries(), group = jobs_.group();
    const int64_t begin = rows_ == 1 ? 0 : first, end = rows_ == 1 ? queries : first + rows;
    for (int64_t batch = 0; batch < jobs_.batches(); ++batch)
      for (int64_t head = 0; head < jobs_.query_heads(); ++head) {
        if (mask_number(mask_, like_, batch, head) != number) continue;
        jobs_.place(job_, (batch * jobs_.query_heads() + head) / group);
        if (!jobs_.has_log_sums()) {
          const int64_t before = (batch * jobs_.query_heads() + head / group * group) * queries;
          job_.of.log_sums = {log_sums_ + before, queries, 1, 0};
        }
        for (int64_t query = begin; query < end; query += kRows) {
          job_.of.row = static_cast<int32_t>(head % group * queries + query);
          job_.of.rows = static_cast<int32_t>(std::min(end - query, kRows));
          f();
        }
      }
  }

  void find_log_sums() const {
    pto_attention_job sums = job_.of;
    sums.out.data = nullptr;
    pto_attention(&sums);
  }

  // Adds all rows to the first.
  void add_rows() {
    for (int64_t i = 1; i < kRows; ++i)
      for (int64_t j = 0; j < kKeys; ++j) sums_[j] += sums_[i * kKeys + j];
  }

  void write(int64_t number, int64_t row, int64_t key, int64_t count, const float* from) const {
    const pto_attention_operand to = mask_matrix(to_, number);
    Element* const out = static_cast<Element*>(to.data) + row * to.row_stride + key * to.col_stride;
    for (int64_t j = 0; j < count; ++j) out[j * to.col_stride] = Element(from[j]);
  }

  const Jobs& jobs_;
  pto_attention_gradients job_;
  const pto_tensor &mask_, &to_, &like_;
  float *const sums_, *const totals_, *const log_sums_;
  const int64_t rows_, cols_, blocks_;
};

}  // namespace
