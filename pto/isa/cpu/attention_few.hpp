// SPDX-License-Identifier: Apache-2.0
// Attention of a few rows: their products with a block of keys and values, which are read where
// they lie. Their time is that of reading, so each panel of keys, and some rows of values, ask for
// those that pass next: the last keys for values, the last values for the next keys.
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
#include "pto/isa/cpu/matmul_shared.hpp"

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
      for (int at = keys_.first; at < keys_.last; at += kPanel) tile(at);
    }
  }

  // Adds to the outputs of all rows.
  void multiply_values() const {
    pto_runs soon = next_keys();
    for (int g = 0; g < groups(); ++g) {
      const int row = share(b_.rows, g, groups()), count = keys_.last - keys_.first;
      pto_matmul_job values = {};
      values.rows = share(b_.rows, g + 1, groups()) - row, values.depth = count,
      values.cols = job_.value_width;
      values.a = matrix(b_.weights(row) + b_.sizes.floats(keys_.first), b_.sizes.keys);
      if (Dot::kPerUnit > 1) values.a.type = PTO_MATMUL_BF16;
      values.b = matrix(at_row(job_.v, keys_.first), job_.v.row_stride);
      values.c = values.start = matrix(b_.outs(row), b_.sizes.outs);
      values.soon = &soon;
      matmul::add_few<Dot, T>(values);
    }
  }

 private:
  static constexpr bool kTurns = !kSame<T, half>;  // keys where they lie
  using Key = typename Choose<kTurns, T, float>::type;
  static constexpr int kTileRows = kRows < 8 ? kRows : 8;  // of scores

  int groups() const { return quotient_up(b_.rows, kRows); }
  const T* at_row(const pto_attention_operand& x, int at) const {
    return static_cast<const T*>(x.data) + (int64_t{b_.key} + at) * x.row_stride;
  }
  pto_runs runs(const pto_attention_operand& x, const void* at, int width) const {
    return {at, x.row_stride * int(sizeof(T)), width * int64_t{sizeof(T)}, kPanel, nullptr, 0, 0};
  }
  // The first keys behind those of the block, or of the next call.
  pto_runs next_keys() const {
    const bool goes_on = b_.key + b_.keys < job_.keys;
    return runs(job_.k, goes_on ? at_row(job_.k, b_.keys) : job_.soon.k, job_.width);
  }
  // Asks for what passes behind a panel of keys.
  matmul::NearRows ahead(int at) const {
    const int then = at + matmul::Apart<Dot, T>::asked(job_.width);
    pto_runs soon = next_keys();
    if (then < keys_.last || (!job_.out.data && !soon.data))
      soon = runs(job_.k, at_row(job_.k, smaller(then, keys_.last)), job_.width);
    else if (job_.out.data)
      soon = runs(job_.v, at_row(job_.v, then - keys_.last + keys_.first), job_.value_width);
    return {soon.data, soon.distance, soon.bytes, kPanel};
  }
  static pto_matmul_matrix matrix(const void* data, int64_t row_stride) {
    return pto_matmul_plain(data, PTO_MATMUL_F32, row_stride, 1);
  }

  // Computes the scores of kPanel keys.
  void tile(int at) const {
    const int count = smaller(keys_.last - at, kPanel);
    if (kTurns && count == kPanel)
      return turn(reinterpret_cast<const Key*>(at_row(job_.k, at)), job_.k.row_stride, at);
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
    turn(near, b_.sizes.depth, at);
  }
  void turn(const Key* keys, int64_t stride, int at) const {
    const int groups = quotient_up(b_.rows, kTileRows);
    for (int g = 0; g < groups; ++g) {
      const int row = share(b_.rows, g, groups);
      turn(typename IndicesTo<kTileRows>::type(), row, share(b_.rows, g + 1, groups) - row, keys,
           stride, at);
    }
  }
  template <int... I>
  void turn(Indices<I...>, int row, int rows, const Key* keys, int64_t stride, int at) const {
    matmul::NearRows next = ahead(at);
    const auto made = [&](auto of) {
      using Tile = decltype(of);
      Tile::run(typename Tile::All(),
                {reinterpret_cast<const int32_t*>(b_.queries(row)), b_.sizes.floats(b_.sizes.depth),
                 reinterpret_cast<const char*>(keys), stride * int64_t{sizeof(Key)},
                 job_.width / Dot::kPerUnit},
                {nullptr, 0},
                {reinterpret_cast<int32_t*>(b_.scores(row) + at), b_.sizes.score_stride()},
                matmul::AskNear{next});
    };
    ((I + 1 == rows ? made(matmul::Turned<I + 1, Key, Dot>()) : void()), ...);
  }

  const KeyBlock& b_;
  const pto_attention_job& job_;
  const Seen keys_;
};

}  // namespace attention
PTO_NAMESPACE_END
