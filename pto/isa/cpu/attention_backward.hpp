// SPDX-License-Identifier: Apache-2.0
// Attention backward: the gradients of q, k and v. Weights are computed again from the logarithms
// of their sums; with P the weights and D the sum of out d_out along a row, the gradients of scores
// are dS = P (d_out v^T - D + d_log_sum), and d_v = P^T d_out, d_q = dS k, d_k = dS^T q. Dropout
// multiplies P in d_v, and d_out v^T, by its factors. The gradient of a mask is dS, summed over the
// heads and batches that share it; add_scores() finds it apart, as jobs would wait for each other.
//
//     attention::run_backward(job);   // one head of k and v with all rows that share it
//     attention::add_scores(job, 128, sums);   // dS of some rows and the keys from 128 on
//
// Law: sums run over blocks of keys and of rows whose places depend on the widths only.
// Invariant: writes the job's gradients or sums, and its workspace, nothing else.
// Thread safety: pure functions on the caller's memory.
#pragma once
#include "pto/isa/cpu/attention_products.hpp"
#include "pto/isa/cpu/attention_softmax.hpp"

PTO_NAMESPACE_BEGIN
namespace attention {

// Where the parts of the workspace begin, in floats, behind those of the KeyBlock.
struct GradientAreas {
  int64_t values, keys, d_keys, d_values, d_outs, right_queries, right_d_outs;
  int64_t d_scores, slopes, turned_weights, turned_d_scores, sums, dots, d_queries, end;

  GradientAreas(const Sizes& sizes, int width, int rows) {
    int64_t at = Areas(sizes).end;
    const auto take = [&at](int64_t floats) {
      const int64_t begin = at;
      at += (floats + kPanel + 15) / 16 * 16;
      return begin;
    };
    const int64_t wide = rounded_up(width, kPanel), keys_of = sizes.keys;
    values = take(keys_of * sizes.outs), keys = take(keys_of * wide);
    d_keys = take(keys_of * wide), d_values = take(keys_of * sizes.outs);
    d_outs = take(kSubRows * int64_t(sizes.outs));
    right_queries = take(kSubRows * wide), right_d_outs = take(kSubRows * int64_t(sizes.outs));
    d_scores = take(kSubRows * sizes.score_stride()),
    slopes = take(kSubRows * sizes.score_stride());
    turned_weights = take(kSubRows * keys_of), turned_d_scores = take(kSubRows * keys_of);
    sums = take(rows), dots = take(rows), d_queries = take(rows * wide);
    end = at;
  }
};

static_assert(kSubRows == PTO_ATTENTION_SCORE_ROWS && kGradientKeys == PTO_ATTENTION_SCORE_KEYS);

template <class T>
class Backward {
 public:
  explicit Backward(const pto_attention_gradients& job)
      : job_(job),
        of_(job.of),
        b_(of_, Sizes(of_, kGradientKeys)),
        areas_(b_.sizes, of_.width, of_.rows),
        dropout_(of_),
        wide_(rounded_up(of_.width, kPanel)) {}

  static size_t bytes(const pto_attention_gradients& job) {
    const Sizes sizes(job.of, kGradientKeys);
    return size_t(GradientAreas(sizes, job.of.width, job.of.rows).end) * sizeof(float);
  }

  void run() {
    for (int row = 0; row < of_.rows; row += kSubRows) {
      b_.move(row, smaller(of_.rows - row, kSubRows));
      for (int i = 0; i < b_.rows; ++i) start(i);
    }
    zero(area(areas_.d_queries), of_.rows * int64_t(wide_));
    for (b_.key = 0; b_.key < of_.keys; b_.key += b_.sizes.keys) {
      b_.keys = smaller(of_.keys - b_.key, b_.sizes.keys);
      pack_keys();
      zero(area(areas_.d_keys), b_.keys * int64_t(wide_));
      zero(area(areas_.d_values), b_.keys * int64_t(b_.sizes.outs));
      for (int row = 0; row < of_.rows; row += kSubRows) {
        b_.move(row, smaller(of_.rows - row, kSubRows));
        add_rows();
      }
      for (int i = 0; i < b_.keys; ++i) {
        write(job_.d_k, 0, b_.key + i, d_keys(i), of_.width, of_.scale);
        write(job_.d_v, 0, b_.key + i, d_values(i), of_.value_width, 1);
      }
    }
    for (int row = 0; row < of_.rows; row += kSubRows) {
      b_.move(row, smaller(of_.rows - row, kSubRows));
      for (int i = 0; i < b_.rows; ++i)
        write(job_.d_q, b_.head(i), b_.query(i), d_queries(i), of_.width, of_.scale);
    }
  }

  // Adds dS behind softcap of all rows, at most kSubRows, and a block of keys to rows of sums.
  void add_scores(int key, float* sums) {
    b_.move(of_.row, of_.rows);
    b_.key = key, b_.keys = smaller(of_.keys - key, b_.sizes.keys);
    is_behind_softcap_ = true;
    for (int i = 0; i < b_.rows; ++i) start(i);
    pack_keys();
    Sliver parts[kSlivers];
    if (!find_changes(parts)) return;
    for (int i = 0; i < b_.rows; ++i)
      for (int k = 0; k < b_.keys; ++k) sums[i * kGradientKeys + k] += d_scores(i)[k];
  }

 private:
  float* area(int64_t begin) const { return static_cast<float*>(of_.workspace) + begin; }
  static void zero(float* to, int64_t count) {
    for (int64_t i = 0; i < count; i += kLane) lanes::store<kLane>(to + i, V{});
  }
  const T* row_of(const pto_attention_operand& x, int i) const {
    return static_cast<const T*>(x.data) + b_.head(i) * x.head_stride + b_.query(i) * x.row_stride;
  }
  static const T* key_of(const pto_attention_operand& x, int key) {
    return static_cast<const T*>(x.data) + key * x.row_stride;
  }

  // All rows: logarithms to base 2 of their sums, and D - d_log_sum.
  float& log_sum(int i) const { return area(areas_.sums)[b_.row - of_.row + i]; }
  float& dot(int i) const { return area(areas_.dots)[b_.row - of_.row + i]; }
  float* d_queries(int i) const { return area(areas_.d_queries) + int64_t(b_.row + i) * wide_; }
  // The block of keys: [width][kPanel] of values, [keys][kPanel] of keys, and their gradients.
  float* turned_values(int at) const {
    return area(areas_.values) + int64_t(at) * rounded_up(of_.value_width, kGroup);
  }
  float* right_keys(int at, int col) const {
    return area(areas_.keys) + int64_t(col) * b_.sizes.keys + at * kPanel;
  }
  float* d_keys(int at) const { return area(areas_.d_keys) + int64_t(at) * wide_; }
  float* d_values(int at) const { return area(areas_.d_values) + int64_t(at) * b_.sizes.outs; }
  // The rows: left panels of d_out, [rows][kPanel] of q and d_out, rows of dS.
  float* d_outs(int i) const { return area(areas_.d_outs) + int64_t(i) * b_.sizes.outs; }
  float* right_queries(int i, int col) const {
    return area(areas_.right_queries) + col * kSubRows + i * kPanel;
  }
  float* right_d_outs(int i, int col) const {
    return area(areas_.right_d_outs) + col * kSubRows + i * kPanel;
  }
  float* d_scores(int i) const { return area(areas_.d_scores) + i * b_.sizes.score_stride(); }
  float* slopes(int i) const { return area(areas_.slopes) + i * b_.sizes.score_stride(); }

  void start(int i) const {
    const float sum = b_.of_row(of_.log_sums, i);
    log_sum(i) = sum == kLowest ? 0 : sum * lanes::kLog2E;
    const T *const out = row_of(of_.out, i), *const d = row_of(job_.d_out, i);
    V total = {};
    for (int c = 0; c < of_.value_width; c += kLane)
      total += read<kLane>(out, c, of_.out.col_stride, of_.value_width) *
               read<kLane>(d, c, job_.d_out.col_stride, of_.value_width);
    dot(i) = lanes::reduce([](auto a, auto b) { return a + b; }, total) -
             (job_.d_log_sums.data ? b_.of_row(job_.d_log_sums, i) : 0);
  }

  void pack_keys() const {
    for (int at = 0; at < b_.keys; at += kPanel) {
      const int count = smaller(b_.keys - at, kPanel);
      pack_columns<T>(of_.k, b_.key + at, count, of_.width, b_.key_panel(at));
      pack_columns<T>(of_.v, b_.key + at, count, of_.value_width, turned_values(at));
    }
    for (int at = 0; at < b_.keys; ++at)
      for (int col = 0; col < of_.width; col += kPanel)
        pack_part(key_of(of_.k, b_.key + at), of_.k.col_stride, col, of_.width,
                  right_keys(at, col));
  }

  void pack_rows(const Sliver& s) const {
    for (int i = s.row; i < s.row + s.rows; ++i) {
      const T *const q = row_of(of_.q, i), *const d = row_of(job_.d_out, i);
      const int at = (i - s.row) * kGroup;
      pack_row(q, of_.q.col_stride, of_.width, of_.scale * lanes::kLog2E, b_.queries(s.row) + at,
               s.rows);
      pack_row(d, job_.d_out.col_stride, of_.value_width, 1.0f, d_outs(s.row) + at, s.rows);
      for (int col = 0; col < of_.width; col += kPanel)
        pack_part(q, of_.q.col_stride, col, of_.width, right_queries(i, col));
      for (int col = 0; col < of_.value_width; col += kPanel)
        pack_part(d, job_.d_out.col_stride, col, of_.value_width, right_d_outs(i, col));
    }
  }

  static constexpr int kSlivers = kSubRows / kRows;

  // Finds weights and dS of some rows and the block of keys; false if the rows see none of them.
  bool find_changes(Sliver* parts) const {
    const int count = b_.slivers();
    bool sees = false;
    for (int i = 0; i < count; ++i) {
      parts[i] = b_.look(b_.sliver(i));
      sees = sees || parts[i].keys.any();
    }
    if (!sees) return false;
    for (int i = 0; i < count; ++i) pack_rows(parts[i]);
    for (int at = 0; at < b_.keys; at += kPanel)
      for (int i = 0; i < count; ++i) {
        const Sliver& s = parts[i];
        if (at < s.keys.first || at >= s.keys.last) continue;
        const int64_t stride = b_.sizes.score_stride();
        multiply({b_.queries(s.row), s.rows}, b_.key_panel(at), of_.width, nullptr,
                 b_.scores(s.row) + at, stride);
        multiply({d_outs(s.row), s.rows}, turned_values(at), of_.value_width, nullptr,
                 d_scores(s.row) + at, stride);
      }
    for (int i = 0; i < count; ++i)
      for (int r = 0; r < parts[i].rows; ++r) differentiate(parts[i], r);
    return true;
  }

  // Adds what some rows give to the gradients of the block of keys, and the other way round.
  void add_rows() const {
    Sliver parts[kSlivers];
    if (!find_changes(parts)) return;
    const int count = b_.slivers();
    turn_all();
    multiply_turned(areas_.turned_weights, of_.value_width, area(areas_.right_d_outs),
                    area(areas_.d_values), b_.sizes.outs);
    multiply_turned(areas_.turned_d_scores, of_.width, area(areas_.right_queries),
                    area(areas_.d_keys), wide_);
    for (int col = 0; col < of_.width; col += kPanel)
      for (int i = 0; i < count; ++i) {
        const Sliver& s = parts[i];
        if (!s.keys.any()) continue;
        float* const to = d_queries(s.row) + col;
        multiply({b_.weights(s.row) + s.keys.first * s.rows, s.rows}, right_keys(s.keys.first, col),
                 s.keys.last - s.keys.first, to, to, wide_);
      }
  }

  // Turns a row of scores into weights, and one of d_out v^T into dS, also in the left panel of its
  // sliver.
  void differentiate(const Sliver& s, int i) const {
    const int row = s.row + i, end = rounded_up(b_.keys, kPanel);
    const int first = s.keys.any() ? s.keys.first : end;
    const int last = s.keys.any() ? rounded_up(s.keys.last, kPanel) : end;
    float *const score = b_.scores(row), *const d = d_scores(row);
    if (of_.softcap != 0) find_slopes(score, slopes(row), first, last);
    const Softmax<T> softmax(b_);
    if (s.keys.any()) softmax.prepare(score, row, first, last);
    float* const tiles[] = {score, d};
    for (float* const tile : tiles) {
      Softmax<T>::fill(tile, 0, first, 0);
      Softmax<T>::fill(tile, last, end, 0);
    }
    float factors[kMostKeys];
    const bool drops = dropout_.is_active();
    if (drops) dropout_.find(b_, row, first, last, factors);
    const V sum = lanes::splat<V>(log_sum(row)), dots = lanes::splat<V>(dot(row));
    float* left = b_.weights(s.row) + first * s.rows + i * kGroup;
    for (int k = first; k < last; k += kPanel, left += kPanel * s.rows)
      for (int part = 0; part < kVectors; ++part) {
        const int at = k + part * kLane;
        const V x = lanes::load<kLane>(score + at);
        const V factor = drops ? lanes::load<kLane>(factors + at) : lanes::splat<V>(1.0f);
        const V weight = lanes::exp2_to_one(x - sum);
        V change = weight * (lanes::load<kLane>(d + at) * factor - dots);
        if (of_.softcap != 0 && !is_behind_softcap_) change *= lanes::load<kLane>(slopes(row) + at);
        change = lanes::select(x == kLowest, V{}, change);  // beyond the keys lies anything
        lanes::store<kLane>(score + at, weight * factor);
        lanes::store<kLane>(d + at, change);
        part == 0 ? put<0>(left, s.rows, change) : put<kLane>(left, s.rows, change);
      }
  }

  void find_slopes(const float* score, float* to, int first, int last) const {
    for (int k = first; k < last; k += kLane) {
      const V t = lanes::tanh(lanes::load<kLane>(score + k) / (of_.softcap * lanes::kLog2E));
      lanes::store<kLane>(to + k, 1.0f - t * t);
    }
  }

  // Turns weights and dS into left panels of slivers of kRows keys, [rows / 8][keys][8].
  void turn_all() const {
    const int rows = rounded_up(b_.rows, kGroup);
    for (int i = b_.rows; i < rows; ++i) {
      Softmax<T>::fill(b_.scores(i), 0, rounded_up(b_.keys, kPanel), 0);
      Softmax<T>::fill(d_scores(i), 0, rounded_up(b_.keys, kPanel), 0);
    }
    for (int i = 0; i < rows; i += kGroup)
      for (int key = 0; key < b_.keys; key += kGroup) {
        turn(b_.scores(i) + key, area(areas_.turned_weights), i, key);
        turn(d_scores(i) + key, area(areas_.turned_d_scores), i, key);
      }
  }
  void turn(const float* from, float* to, int row, int key) const {
    matmul::Group v[kGroup];
    PTO_UNROLL
    for (int i = 0; i < kGroup; ++i)
      v[i] = bit_cast<matmul::Group>(lanes::load<kGroup>(from + i * b_.sizes.score_stride()));
    matmul::transpose(v);
    const int rows = rounded_up(b_.rows, kGroup);
    for (int i = 0; i < smaller(kGroup, b_.keys - key); ++i) {
      const int sliver = (key + i) / kRows * kRows, count = smaller(kRows, b_.keys - sliver);
      lanes::store<kGroup>(to + sliver * rows + row * count + (key + i - sliver) * kGroup,
                           bit_cast<Vec<float, kGroup>>(v[i]));
    }
  }

  // Adds turned left panels times a right operand of the rows to gradients of keys.
  void multiply_turned(int64_t left, int width, const float* right, float* to, int stride) const {
    const int rows = rounded_up(b_.rows, kGroup);
    const int slivers = b_.keys / kRows, whole = slivers * kRows;
    const auto add = [&](int key, const LeftPanels& panels, int col) {
      float* const out = to + int64_t(key) * stride + col;
      multiply(panels, right + col * kSubRows, b_.rows, out, out, stride);
    };
    for (int col = 0; col < width; col += kPanel) {
      if (slivers > 0) add(0, {area(left), kRows, slivers, int64_t{kRows} * rows}, col);
      if (b_.keys > whole) add(whole, {area(left) + whole * rows, b_.keys - whole}, col);
    }
  }

  static void write(const pto_attention_operand& to, int head, int row, const float* from,
                    int width, float scale) {
    if (!to.data) return;
    T* const out = static_cast<T*>(to.data) + head * to.head_stride + row * to.row_stride;
    for (int col = 0; col < width; col += kLane)
      lanes::scatter<kLane>(out + col * to.col_stride, to.col_stride,
                            lanes::load<kLane>(from + col) * scale, width - col);
  }

  const pto_attention_gradients& job_;
  const pto_attention_job& of_;
  KeyBlock b_;
  const GradientAreas areas_;
  const Dropout dropout_;
  const int wide_;                  // the width in whole panels
  bool is_behind_softcap_ = false;  // where dS is wanted
};

inline void run_backward(const pto_attention_gradients& job) {
  if (job.of.type == PTO_MATMUL_F32)
    Backward<float>(job).run();
  else if (job.of.type == PTO_MATMUL_F16)
    Backward<half>(job).run();
  else
    Backward<bfloat16_t>(job).run();
}
inline void add_scores(const pto_attention_gradients& job, int key, float* sums) {
  if (job.of.type == PTO_MATMUL_F32)
    Backward<float>(job).add_scores(key, sums);
  else if (job.of.type == PTO_MATMUL_F16)
    Backward<half>(job).add_scores(key, sums);
  else
    Backward<bfloat16_t>(job).add_scores(key, sums);
}
inline size_t backward_bytes(const pto_attention_gradients& job) {
  return Backward<float>::bytes(job);
}

}  // namespace attention
PTO_NAMESPACE_END
