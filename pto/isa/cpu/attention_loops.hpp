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
#include "pto/isa/cpu/attention_ways.hpp"
#include "pto/isa/cpu/matmul_requests.hpp"

PTO_NAMESPACE_BEGIN
namespace attention {

template <class Way>
class Attention {
  using T = typename Way::Element;
  using Dot = typename Way::Dot;

 public:
  explicit Attention(const pto_attention_job& job)
      : job_(job),
        b_(job, typename Way::Blocks(job)),
        asked_{{nullptr, 0, 0}, {nullptr, 0, 0}, {nullptr, 0, 0}} {}

  void run() {
    const bool is_streamed = FewRows<Way>::can_read(job_) && pays_to_stream();
    b_.sliver_rows = is_streamed ? 1 : kRows;
    const int end = job_.row + job_.rows, blocks = quotient_up(job_.rows, b_.sizes.rows);
    const int rows =  // of a block: as many in each
        smaller(rounded_up(quotient_up(job_.rows, larger(blocks, 1)), kTogether), b_.sizes.rows);
    for (int row = job_.row; row < end; row += rows) {
      b_.move(row, smaller(end - row, rows));
      start();
      const Seen all = b_.seen_by_any();
      const int first = all.first / b_.sizes.keys * b_.sizes.keys;
      for (b_.key = first; b_.key < all.last; b_.key += b_.sizes.keys) {
        b_.keys = smaller(job_.keys - b_.key, b_.sizes.keys);
        if (is_streamed) {
          stream_keys();
          continue;
        }
        if (b_.key + b_.keys < all.last)
          ask({nullptr, job_.k.data, job_.v.data}, 0, b_.key + b_.keys);
        else if (row + rows < end)
          ask({query(row + rows), job_.k.data, job_.v.data}, smaller(end - row - rows, rows),
              first);
        else
          ask(job_.soon, job_.rows, first);
        add_keys();
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

  const void* query(int row) const {
    return static_cast<const T*>(job_.q.data) + row / job_.queries * job_.q.head_stride +
           row % job_.queries * job_.q.row_stride;
  }
  // Asks for what is packed next, in turns between the products with this block of keys: at most
  // `rows` of one head, and a block of keys and values. It would be waited for line by line.
  void ask(const pto_attention_soon& next, int rows, int key) {
    const int panels = quotient_up(b_.keys, kPanel) + quotient_up(job_.value_width, kPanel);
    const auto lines = [&](const void* data, const pto_attention_operand& x, int first, int count,
                           int width) {
      pto_runs runs = {
          nullptr, x.row_stride * int(sizeof(T)), width * int64_t{sizeof(T)}, count, nullptr, 0, 0};
      if (data && x.col_stride == 1) runs.data = static_cast<const T*>(data) + first * x.row_stride;
      return matmul::Lines(&runs, 0, int64_t{b_.slivers()} * panels);
    };
    const int keys = smaller(job_.keys - key, b_.sizes.keys);
    rows = smaller(smaller(rows, job_.queries), b_.sizes.rows);
    asked_[0] = lines(next.q, job_.q, 0, rows, job_.width);
    asked_[1] = lines(next.k, job_.k, key, keys, job_.width);
    asked_[2] = lines(next.v, job_.v, key, keys, job_.value_width);
  }
  void take_turn() {
    for (matmul::Lines& lines : asked_) lines.take_turn();
  }

  // Packs the queries. Scores, times their factor, are logarithms to base 2.
  void start() const {
    const float factor = Way::query_factor(job_);
    const auto& q = job_.q;
    for (int number = 0; number < b_.slivers(); ++number) {
      const Sliver s = b_.sliver(number);
      for (int i = 0; i < s.rows; ++i) {
        const int row = s.row + i;
        const T* const from = static_cast<const T*>(q.data) + b_.head(row) * q.head_stride +
                              b_.query(row) * q.row_stride;
        Way::pack_query(from, q.col_stride, job_.width, factor, b_.queries(s.row) + i * kGroup,
                        s.rows);
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
    const Softmax<T, typename Way::Weights> softmax(b_, Way::score_factor(job_));
    for (int i = 0; i < count; ++i) softmax.weigh(parts[0].row, parts[i]);
  }

  void pack() const {
    for (int at = 0; at < b_.keys; at += kPanel)
      Way::pack_keys(job_.k, b_.key + at, smaller(b_.keys - at, kPanel), job_.width,
                     b_.key_panel(at));
    Way::pack_values(b_);
  }
  static int units(int elements) { return quotient_up(elements, Dot::kPerUnit); }

  // Computes the scores of all slivers, panel by panel of keys, which stays in the first cache.
  void multiply_keys(const Sliver* parts, int count) {
    const auto vectors = [](const Sliver& s, int at) {
      const bool is_seen = s.keys.first <= at && at < s.keys.last;
      return is_seen ? smaller(quotient_up(s.keys.last - at, kLane), kVectors) : 0;
    };
    for (int at = 0; at < b_.keys; at += kPanel)
      for_runs(
          parts, count,
          [&](const Sliver& s, const Sliver& next) {
            return s.rows == next.rows && vectors(s, at) == vectors(next, at);
          },
          [&](const Sliver& s, int slivers) {
            if (vectors(s, at) > 0)
              multiply<Dot>(
                  {b_.queries(s.row), s.rows, slivers, b_.queries(s.rows) - b_.queries(0)},
                  b_.key_panel(at), units(job_.width), nullptr,
                  b_.scores(s.row - parts[0].row) + at, b_.sizes.score_stride(), vectors(s, at));
          });
  }

  void multiply_values(const Sliver* parts, int count) {
    for (int col = 0; col < job_.value_width; col += kPanel)
      for_runs(
          parts, count,
          [](const Sliver& s, const Sliver& next) {
            return s.rows == next.rows && s.keys.first == next.keys.first &&
                   s.keys.last == next.keys.last;
          },
          [&](const Sliver& s, int slivers) {
            if (!s.keys.any()) return;
            float* const out = b_.outs(s.row) + col;
            const float* const weights = b_.weights(s.row - parts[0].row);
            multiply<Dot>({weights + b_.sizes.floats(s.keys.first * s.rows), s.rows, slivers,
                           b_.weights(s.rows) - b_.weights(0)},
                          b_.value_panel(s.keys.first, col), units(s.keys.last - s.keys.first), out,
                          out, b_.sizes.outs);
          });
  }

  // Calls work(sliver, how many) for slivers below each other that a kernel can take at once.
  template <class Same, class Work>
  PTO_INLINE void for_runs(const Sliver* parts, int count, Same same, Work work) {
    for (int i = 0, next = 0; i < count; i = next) {
      for (next = i + 1; next < count && same(parts[i], parts[next]);) ++next;
      for (int turn = i; turn < next; ++turn) take_turn();
      work(parts[i], next - i);
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
    const FewRows<Way> few(b_, all);
    few.multiply_keys();
    weigh(parts, b_.rows);
    if (job_.out.data) few.multiply_values();
  }

  const pto_attention_job& job_;
  KeyBlock b_;
  matmul::Lines asked_[3];  // queries, keys and values that are packed next
};

inline void run(const pto_attention_job& job) {
  if (job.type == PTO_MATMUL_F32)
    Attention<Floats<float>>(job).run();
  else if (job.type == PTO_MATMUL_F16)
    Attention<Floats<half>>(job).run();
  else
    Attention<Floats<bfloat16_t>>(job).run();
}
template <class Way>
size_t bytes(const pto_attention_job& job) {
  return size_t(Areas(typename Way::Blocks(job)).end) * sizeof(float);
}
template <class Way>
int rows(const pto_attention_job& job) {
  return typename Way::Blocks(job).rows;
}

}  // namespace attention
PTO_NAMESPACE_END
