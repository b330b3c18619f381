// SPDX-License-Identifier: Apache-2.0
// Attention of a few rows: their products with a block of keys and values, which are read where
// they lie. Their time is that of reading, so the product with keys asks for the values meanwhile,
// and that with values for the keys of the next block.
//
//     const FewRows<Floats<bfloat16_t>> few(block, {0, 256});   // keys 0 to 255 of the block
//     few.multiply_keys();     // scores
//     few.multiply_values();   // adds to outs by weights
//
// Slivers have one row each. Keys pass 32 at a time and are turned in registers; those of half, and
// the last ones, are copied first.
// Thread safety: pure functions on the memory of the block.
#pragma once
#include "pto/isa/cpu/attention_block.hpp"
#include "pto/isa/cpu/matmul_apart.hpp"

PTO_NAMESPACE_BEGIN
namespace attention {

template <class Way>
class FewRows {
  using T = typename Way::Element;
  using Dot = typename Way::Dot;

 public:
  FewRows(const KeyBlock& block, Seen keys) : b_(block), job_(block.job), keys_(keys) {}

  static bool can_read(const pto_attention_job& job) {
    const bool reads_values = kSame<T, float> || job.value_width % kLane == 0;
    return kLane >= kGroup && job.k.col_stride == 1 && job.v.col_stride == 1 && job.width > 0 &&
           job.width % Dot::kPerUnit == 0 && reads_values;
  }

  // Computes the scores of all rows.
  void multiply_keys() const {
    if constexpr (kLane >= kGroup) {
      const int tiles = quotient_up(keys_.last - keys_.first, kPanel);
      const int64_t turns = int64_t{tiles} * groups() * kTileTurns * (job_.width / kLineLength);
      const bool is_first = b_.key == 0 || keys_.first > 0;
      const pto_runs own = runs(job_.k, keys_.first, keys_.last, job_.width);
      const pto_runs soon = runs(job_.v, keys_.first, keys_.last, job_.value_width);
      matmul::Requests asked = {matmul::Lines(is_first ? &own : nullptr, kPanel, turns),
                                matmul::Lines(job_.out.data ? &soon : nullptr, 0, turns)};
      for (int at = keys_.first; at < keys_.last; at += kPanel) tile(at, asked);
    }
  }

  // Adds to the outputs of all rows.
  void multiply_values() const {
    const int next = smaller(job_.keys - b_.key - b_.keys, b_.sizes.keys);
    pto_runs soon = runs(job_.k, b_.keys, b_.keys + next, job_.width);
    for (int g = 0; g < groups(); ++g) {
      const int row = first_row(g), count = keys_.last - keys_.first;
      pto_matmul_job values = {};
      values.rows = first_row(g + 1) - row, values.depth = count, values.cols = job_.value_width;
      values.a = matrix(b_.weights(row) + b_.sizes.floats(keys_.first), b_.sizes.keys);
      if (Dot::kPerUnit > 1) values.a.type = PTO_MATMUL_BF16;
      values.b = matrix(at_row(job_.v, keys_.first), job_.v.row_stride);
      values.c = values.start = matrix(b_.outs(row), b_.sizes.outs);
      values.soon = &soon, values.is_asked = 1;
      if (matmul::Apart<Dot, T>(values).run(true)) continue;
      if constexpr (kSame<T, float>) matmul::Stream(values).run();
    }
  }

 private:
  static constexpr bool kTurns = !kSame<T, half>;  // keys where they lie
  using Key = typename Choose<kTurns, T, float>::type;
  static constexpr int kLineLength = matmul::kLineBytes / int(sizeof(Key));
  static constexpr int kTileTurns = kVectors * matmul::kLineUnits / 4;  // of a line of keys

  int groups() const { return quotient_up(b_.rows, kRows); }
  int first_row(int group) const { return share(b_.rows, group, groups()); }
  const T* at_row(const pto_attention_operand& x, int at) const {
    return static_cast<const T*>(x.data) + (int64_t{b_.key} + at) * x.row_stride;
  }
  pto_runs runs(const pto_attention_operand& x, int first, int last, int width) const {
    return {at_row(x, first),
            x.row_stride * int(sizeof(T)),
            width * int64_t{sizeof(T)},
            last - first,
            nullptr,
            0,
            0};
  }
  static pto_matmul_matrix matrix(const void* data, int64_t row_stride) {
    return pto_matmul_plain(data, PTO_MATMUL_F32, row_stride, 1);
  }

  // Computes the scores of kPanel keys.
  void tile(int at, matmul::Requests& asked) const {
    const int count = smaller(keys_.last - at, kPanel);
    if (kTurns && count == kPanel)
      return turn(reinterpret_cast<const Key*>(at_row(job_.k, at)), job_.k.row_stride, at, asked);
    Key* const near = reinterpret_cast<Key*>(b_.key_panel(0));
    for (int i = 0; i < count; ++i) {
      const T* const from = at_row(job_.k, at + i);
      Key* const to = near + i * b_.sizes.depth;
      if constexpr (kTurns) {
        __builtin_memcpy(to, from, size_t(job_.width) * sizeof(T));
      } else {
        for (int k = 0; k < job_.width; k += kGroup)
          lanes::store<kGroup>(to + k, read<kGroup>(from, k, 1, job_.width));
      }
    }
    turn(near, b_.sizes.depth, at, asked);
  }
  void turn(const Key* keys, int64_t stride, int at, matmul::Requests& asked) const {
    for (int g = 0; g < groups(); ++g)
      turn(typename IndicesTo<kRows>::type(), g, keys, stride, at, asked);
  }
  template <int... I>
  void turn(Indices<I...>, int group, const Key* keys, int64_t stride, int at,
            matmul::Requests& asked) const {
    const int row = first_row(group), rows = first_row(group + 1) - row;
    const auto made = [&](auto of) {
      using Tile = decltype(of);
      Tile::run(typename Tile::All(),
                {reinterpret_cast<const int32_t*>(b_.queries(row)), b_.sizes.floats(b_.sizes.depth),
                 reinterpret_cast<const char*>(keys), stride * int64_t{sizeof(Key)},
                 job_.width / Dot::kPerUnit},
                {nullptr, 0},
                {reinterpret_cast<int32_t*>(b_.scores(row) + at), b_.sizes.score_stride()},
                matmul::AskInTurns{asked});
    };
    ((I + 1 == rows ? made(matmul::Turned<I + 1, Key, Dot>()) : void()), ...);
  }

  const KeyBlock& b_;
  const pto_attention_job& job_;
  const Seen keys_;
};

}  // namespace attention
PTO_NAMESPACE_END
