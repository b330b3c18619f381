// SPDX-License-Identifier: Apache-2.0
// Attention loops: softmax(q k^T) v with an online softmax. A block of keys and values is packed
// once for some hundred rows; the scores of some rows and their weights stay in a near cache. A
// few rows read keys and values where they lie.
//
//     attention::run(job);   // any type, layout and mask; see attention_job.hpp
//
// libpto compiles these loops once for each target (attention_avx2.cpp, ...), so that no kernel
// pays for compiling them.
//
// Invariant: writes the job's outputs for its rows and its workspace, nothing else.
// Thread safety: pure functions on the caller's memory.
#pragma once
#include "pto/isa/cpu/attention_few.hpp"
#include "pto/isa/cpu/attention_products.hpp"
#include "pto/isa/cpu/attention_softmax.hpp"
#include "pto/isa/cpu/matmul_requests.hpp"

PTO_NAMESPACE_BEGIN
namespace attention {

template <class T>
class Attention {
 public:
  explicit Attention(const pto_attention_job& job)
      : job_(job),
        b_(job),
        soon_{rows_of(job.soon.q, job.q, smaller(job.rows, job.queries), job.width),
              rows_of(job.soon.k, job.k, job.keys, job.width),
              rows_of(job.soon.v, job.v, job.keys, job.value_width)} {}

  void run() {
    const bool is_streamed = FewRows<T>::can_read(job_) && pays_to_stream();
    b_.sliver_rows = is_streamed ? 1 : kRows;
    const int end = job_.row + job_.rows;
    for (int row = job_.row; row < end; row += b_.sizes.rows) {
      b_.move(row, smaller(end - row, b_.sizes.rows));
      start();
      for (b_.key = 0; b_.key < job_.keys; b_.key += b_.sizes.keys) {
        b_.keys = smaller(job_.keys - b_.key, b_.sizes.keys);
        is_streamed ? stream_keys() : add_keys();
      }
      write_outputs<T>(b_);
    }
  }

 private:
  // Rows of several slivers read keys and values several times: from a cache, or from panels.
  bool pays_to_stream() const {
    const int64_t floats = int64_t(job_.keys) * (job_.width + job_.value_width);
    return job_.rows <= kRows || (job_.rows <= kFewRows && floats > kNearFloats);
  }

  // The rows of an operand of the next call, to be asked for in turns between the products of this
  // one, whose number is not above this.
  matmul::Lines rows_of(const void* data, const pto_attention_operand& x, int rows,
                        int width) const {
    const int64_t panels = quotient_up(job_.keys, kPanel) + quotient_up(job_.value_width, kPanel);
    const int64_t floats = int64_t(job_.keys) * (job_.width + job_.value_width);
    pto_runs runs = {};
    if (x.col_stride == 1 && floats <= kSoonFloats)
      runs = {data, x.row_stride * int(sizeof(T)), width * int64_t{sizeof(T)}, rows, nullptr, 0, 0};
    return {&runs, 0, quotient_up(job_.rows, kRows) * panels};
  }
  void take_turn() {
    for (matmul::Lines& rows : soon_) rows.take_turn();
  }

  // Packs the queries, scaled, so that scores are logarithms to base 2.
  void start() const {
    const float scale = job_.scale * lanes::kLog2E;
    const auto& q = job_.q;
    for (int number = 0; number < b_.slivers(); ++number) {
      const Sliver s = b_.sliver(number);
      for (int i = 0; i < s.rows; ++i) {
        const int row = s.row + i;
        const T* const from = static_cast<const T*>(q.data) + b_.head(row) * q.head_stride +
                              b_.query(row) * q.row_stride;
        pack_row(from, q.col_stride, job_.width, scale, b_.queries(s.row) + i * kGroup, s.rows);
      }
    }
    clear_outputs(b_);
  }

  // Adds a block of keys to the outputs of all rows.
  void add_keys() {
    constexpr int kSlivers = kTogether / kRows;
    bool is_packed = false;
    for (int first = 0; first < b_.slivers(); first += kSlivers) {
      Sliver parts[kSlivers];
      const int count = smaller(b_.slivers() - first, kSlivers);
      bool sees = false;
      for (int i = 0; i < count; ++i) {
        parts[i] = b_.look(b_.sliver(first + i));
        sees = sees || parts[i].keys.any();
      }
      if (!sees) continue;
      if (!is_packed) pack();
      is_packed = true;
      multiply_keys(parts, count);
      weigh(parts, count);
      if (job_.out.data) multiply_values(parts, count);
    }
  }
  void weigh(const Sliver* parts, int count) const {
    const Softmax<T> softmax(b_);
    for (int i = 0; i < count; ++i) softmax.weigh(parts[0].row, parts[i]);
  }

  void pack() const {
    for (int at = 0; at < b_.keys; at += kPanel)
      pack_columns<T>(job_.k, b_.key + at, smaller(b_.keys - at, kPanel), job_.width,
                      b_.key_panel(at));
    // Rows of values are read whole, eight at a time.
    const auto& v = job_.v;
    const T* const from = static_cast<const T*>(v.data) + b_.key * v.row_stride;
    for (int first = 0; first < b_.keys; first += kGroup)
      for (int col = 0; col < job_.value_width; col += kPanel)
        for (int at = first; at < smaller(first + kGroup, b_.keys); ++at)
          pack_part(from + at * v.row_stride, v.col_stride, col, job_.value_width,
                    b_.value_panel(at, col));
  }

  // Computes the scores of all slivers, panel by panel of keys, which stays in the first cache.
  void multiply_keys(const Sliver* parts, int count) {
    for (int at = 0; at < b_.keys; at += kPanel)
      for (int i = 0; i < count; ++i) {
        const Sliver& s = parts[i];
        take_turn();
        if (s.keys.first <= at && at < s.keys.last)
          multiply(s.rows, b_.queries(s.row), b_.key_panel(at), job_.width, nullptr,
                   b_.scores(s.row - parts[0].row) + at, b_.sizes.score_stride());
      }
  }

  void multiply_values(const Sliver* parts, int count) {
    for (int col = 0; col < job_.value_width; col += kPanel)
      for (int i = 0; i < count; ++i) {
        const Sliver& s = parts[i];
        take_turn();
        if (!s.keys.any()) continue;
        float* const out = b_.outs(s.row) + col;
        multiply(s.rows, b_.weights(s.row - parts[0].row) + s.keys.first * s.rows,
                 b_.value_panel(s.keys.first, col), s.keys.last - s.keys.first, out, out,
                 b_.sizes.outs);
      }
  }

  // The same for a few rows, whose slivers have one row each.
  void stream_keys() const {
    Sliver parts[kFewRows];
    Seen all = {b_.keys, 0};
    for (int i = 0; i < b_.rows; ++i) {
      parts[i] = b_.look(b_.sliver(i));
      if (!parts[i].keys.any()) continue;
      all = {smaller(all.first, parts[i].keys.first), larger(all.last, parts[i].keys.last)};
    }
    if (!all.any()) return;
    for (int i = 0; i < b_.rows; ++i) parts[i].keys = all;
    const FewRows<T> few(b_, all);
    few.multiply_keys();
    weigh(parts, b_.rows);
    if (job_.out.data) few.multiply_values();
  }

  const pto_attention_job& job_;
  KeyBlock b_;
  matmul::Lines soon_[3];  // of the next call: queries, keys, values
};

inline void run(const pto_attention_job& job) {
  if (job.type == PTO_MATMUL_F32)
    Attention<float>(job).run();
  else if (job.type == PTO_MATMUL_F16)
    Attention<half>(job).run();
  else
    Attention<bfloat16_t>(job).run();
}
inline size_t bytes(const pto_attention_job& job) {
  return size_t(Areas(Sizes(job)).end) * sizeof(float);
}
inline int rows(const pto_attention_job& job) { return Sizes(job).rows; }

}  // namespace attention
PTO_NAMESPACE_END
