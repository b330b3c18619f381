// SPDX-License-Identifier: Apache-2.0
// Attention products: packs rows of a head as operands of products, multiplies panels, and begins
// and ends the outputs.
//
//     pack_row(from, 1, width, 1.0f, left + i * kGroup, rows);   // row i of a left panel
//     pack_columns<float>(keys, 16, 8, width, to);               // keys 16 to 23: a right one
//     multiply({left, rows}, to, width, nullptr, scores, stride);
//     write_outputs<float>(block);
//
// Thread safety: pure functions on the caller's memory.
#pragma once
#include "pto/isa/cpu/attention_block.hpp"
#include "pto/isa/cpu/math.hpp"

PTO_NAMESPACE_BEGIN
namespace attention {

// Writes a row, scaled, as one of the `rows` rows of a left panel, [width / 8][rows][8].
template <class T>
PTO_INLINE void pack_row(const T* from, int64_t stride, int width, float scale, float* to,
                         int rows) {
  int k = 0;
  for (; stride == 1 && k + kGroup <= width; k += kGroup, to += rows * kGroup)
    lanes::store<kGroup>(to, lanes::load<kGroup>(from + k) * scale);
  for (; k < width; k += kGroup, to += rows * kGroup)
    lanes::store<kGroup>(to, read<kGroup>(from, k, stride, width) * scale);
}

// Writes `count` rows, at most kPanel, as the columns of a right panel, [width][kPanel].
template <class T>
void pack_columns(const pto_attention_operand& x, int first, int count, int width, float* to) {
  pto_matmul_job right = {};
  right.depth = width, right.cols = first + count;
  right.b = pto_matmul_plain(x.data, PTO_MATMUL_UNKNOWN, x.col_stride, x.row_stride);
  matmul::pack_right<T>(right, to, {first, count, kPanel, 0, width});
}

// Writes kPanel elements of a row, from `col` on, as a row of a right panel, [rows][kPanel].
template <class T>
PTO_INLINE void pack_part(const T* from, int64_t stride, int col, int width, float* to) {
  if (stride == 1 && col + kPanel <= width) {
    for (int more = 0; more < kPanel; more += kLane)
      lanes::store<kLane>(to + more, lanes::load<kLane>(from + col + more));
    return;
  }
  for (int more = 0; more < kPanel && col + more < width; more += kLane)
    lanes::store<kLane>(to + more, read<kLane>(from, col + more, stride, width));
}

// Left panels of slivers below each other, of as many rows each, `distance` floats apart.
struct LeftPanels {
  const float* at;
  int rows, slivers = 1;
  int64_t distance = 0;
};

// Multiplies left panels by the first vectors of a right one: to = from + left right, `stride`
// floats a row; from may be null.
template <class Dot = FloatDot>
void multiply(const LeftPanels& left, const float* right, int units, const float* from, float* to,
              int64_t stride, int vectors = kVectors) {
  matmul::Outputs out = {};
  for (int v = 0; v < vectors; ++v) {
    out.to[v] = reinterpret_cast<char*>(to + v * kLane);
    if (from) out.from[v] = reinterpret_cast<const char*>(from + v * kLane);
  }
  out.to_stride = out.from_stride = stride * int64_t(sizeof(float));
  const matmul::Operands panels = {left.at, right, units, left.slivers, left.distance};
  if (vectors == kVectors)
    matmul::MicroKernel<Dot>::get(left.rows, kVectors)(panels, out);
  else
    matmul::InPlaceKernel<Dot>::get(left.rows, vectors)(
        {panels, kGroup, int64_t{kGroup} * left.rows, kPanel, 1, 0, nullptr}, out);
}

// Begins the outputs of all rows.
inline void clear_outputs(const KeyBlock& b) {
  for (int row = 0; row < b.rows; ++row) b.largest(row) = kLowest, b.sums(row) = V{};
  for (int64_t i = 0; i < int64_t(b.rows) * b.sizes.outs; i += kLane)
    lanes::store<kLane>(b.outs(0) + i, V{});
}

PTO_INLINE float sum_of(V v) {
  return lanes::reduce([](auto a, auto b) { return a + b; }, v);
}

// Writes the outputs of all rows to those of the job.
template <class T>
void write_outputs(const KeyBlock& b) {
  constexpr float kLn2 = 0.693147181f;
  const auto& to = b.job.out;
  for (int row = 0; row < b.rows; ++row) {
    const float total = sum_of(b.sums(row)), share = total == 0 ? 0 : 1 / total;
    if (b.job.log_sums.data)
      b.of_row(b.job.log_sums, row) = b.largest(row) * kLn2 + lanes::log(lanes::splat<V>(total))[0];
    if (!to.data) continue;
    T* const out =
        static_cast<T*>(to.data) + b.head(row) * to.head_stride + b.query(row) * to.row_stride;
    const V scale = lanes::splat<V>(share);
    int col = 0;
    for (; to.col_stride == 1 && col + kLane <= b.job.value_width; col += kLane)
      lanes::store<kLane>(out + col, lanes::load<kLane>(b.outs(row) + col) * scale);
    for (; col < b.job.value_width; col += kLane)
      lanes::scatter<kLane>(out + col * to.col_stride, to.col_stride,
                            lanes::load<kLane>(b.outs(row) + col) * scale, b.job.value_width - col);
  }
}

}  // namespace attention
PTO_NAMESPACE_END
