// SPDX-License-Identifier: Apache-2.0
// Attention of all heads and batches by libpto's loops (isa/cpu/attention_job.hpp): the heads that
// share keys are one job, whose rows several threads share.
#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "pto/isa/cpu/attention_job.hpp"
#include "pto/operators/named_arguments.hpp"
#include "pto/pto-inst.hpp"

using namespace pto;

namespace {

using Element = PTO_TYPE_0;
constexpr int kType = std::is_same_v<Element, float>  ? PTO_MATMUL_F32
                      : std::is_same_v<Element, half> ? PTO_MATMUL_F16
                                                      : PTO_MATMUL_BF16;
constexpr int64_t kSizeMax = PTO_ATTENTION_UNBOUNDED - 1;
constexpr int64_t kUnitsWanted = 8, kFewRows = 96;

// The axes of a tensor of heads: elements last, heads and positions before them.
class Heads {
 public:
  Heads(const pto_tensor& tensor, bool heads_first) : tensor_(tensor), rank_(tensor.rank) {
    row_ = heads_first || rank_ < 3 ? rank_ - 2 : rank_ - 3;
    head_ = rank_ < 3 ? -1 : heads_first ? rank_ - 3 : rank_ - 2;
  }
  int64_t heads() const { return head_ < 0 ? 1 : tensor_.sizes[head_]; }
  int64_t rows() const { return tensor_.sizes[row_]; }
  int64_t width() const { return tensor_.sizes[rank_ - 1]; }
  int64_t batches() const {
    int64_t count = 1;
    for (int axis = 0; axis < rank_ - 3; ++axis) count *= tensor_.sizes[axis];
    return count;
  }
  // The matrix of a head of a batch, and what follows it.
  pto_attention_operand at(int64_t batch, int64_t head) const {
    const int64_t head_stride = head_ < 0 ? 0 : tensor_.strides[head_];
    int64_t offset = head * head_stride;
    for (int axis = rank_ - 4; axis >= 0; --axis) {
      offset += batch % tensor_.sizes[axis] * tensor_.strides[axis];
      batch /= tensor_.sizes[axis];
    }
    return {static_cast<Element*>(tensor_.data) + offset, head_stride, tensor_.strides[row_],
            tensor_.strides[rank_ - 1]};
  }

 private:
  const pto_tensor& tensor_;
  const int rank_;
  int row_, head_;
};

// A mask, broadcast to [batch..., heads, queries, keys]; `like` has the batch.
pto_attention_operand mask_at(const pto_tensor& mask, const pto_tensor& like, int64_t batch,
                              int64_t head) {
  const auto stride = [&](int from_end) -> int64_t {
    const int axis = mask.rank - from_end;
    return axis < 0 || mask.sizes[axis] == 1 ? 0 : mask.strides[axis];
  };
  int64_t offset = head * stride(3);
  for (int from_end = 4; from_end <= like.rank; ++from_end) {
    const int64_t size = like.sizes[like.rank - from_end];
    offset += batch % size * stride(from_end);
    batch /= size;
  }
  return {static_cast<char*>(mask.data) + offset * (mask.type_bits / 8), stride(3), stride(2),
          stride(1)};
}

template <class Named>
class Attention {
 public:
  explicit Attention(const Named& in)
      : in_(in),
        heads_first_(in.text("layout"_arg) == "HLD"),
        q_(in.tensor("q"_arg), heads_first_),
        k_(in.tensor("k"_arg), heads_first_),
        v_(in.tensor("v"_arg), heads_first_),
        out_(in.tensor("result"_arg), heads_first_),
        group_(q_.heads() / std::max<int64_t>(k_.heads(), 1)) {}

  float* log_sums = nullptr;  // [batch..., heads, queries]

  int32_t run() {
    const int64_t rows = group_ * q_.rows(), heads = q_.batches() * k_.heads();
    if (std::max({rows, k_.rows(), q_.width(), v_.width()}) > kSizeMax) {
      return in_.fail(
          "attention: a size is above 1073741823\n  why: positions have 32 bits\n  fix: split the "
          "sequence");
    }
    pto_attention_job job = common();
    const int64_t most = pto_attention_rows(&job);
    job.workspace = in_.scratch(pto_attention_bytes(&job));
    if (!job.workspace) {
      return in_.fail(
          "attention: no memory for a block of keys\n  why: each thread needs about a megabyte\n  "
          "fix: free some memory");
    }
    int64_t height = most;
    while (height > kFewRows && heads * ((rows + height - 1) / height) < kUnitsWanted) height /= 2;
    const int64_t units = (rows + height - 1) / height;
    auto [item, last] = in_.items(heads * units);
    while (item < last) {
      const int64_t first = item % units, count = std::min(last - item, units - first);
      place(job, item / units);
      job.row = static_cast<int32_t>(first * height);
      job.rows = static_cast<int32_t>(std::min(count * height, rows - first * height));
      if (job.queries > 0) pto_attention(&job);
      item += count;
    }
    return 0;
  }

 private:
  pto_attention_job common() const {
    pto_attention_job job = {};
    job.type = kType;
    job.heads = static_cast<int32_t>(group_);
    job.queries = static_cast<int32_t>(q_.rows());
    job.width = static_cast<int32_t>(q_.width());
    job.value_width = static_cast<int32_t>(v_.width());
    job.position = position(in_.integer("position"_arg));
    const auto window = in_.integers("window"_arg);
    job.first = window[0] < 0 ? -PTO_ATTENTION_UNBOUNDED : -position(window[0]);
    job.last = window[1] < 0 ? PTO_ATTENTION_UNBOUNDED : position(window[1]);
    if (in_.integer("causal"_arg) != 0) job.last = 0;
    job.scale = in_.is_none("scale"_arg)
                    ? 1 / __builtin_sqrtf(static_cast<float>(std::max(job.width, 1)))
                    : static_cast<float>(in_.given_real("scale"_arg));
    job.softcap = static_cast<float>(in_.real("softcap"_arg));
    job.mask_hides = in_.tensor("mask"_arg).type_code == kDLBool;
    return job;
  }
  static constexpr int kDLBool = 6;
  static int32_t position(int64_t given) {
    return static_cast<int32_t>(std::clamp<int64_t>(given, -kSizeMax, kSizeMax));
  }

  // Points the job at the heads that share a head of keys.
  void place(pto_attention_job& job, int64_t number) const {
    const int64_t batch = number / k_.heads(), shared = number % k_.heads();
    const int64_t head = shared * group_;
    job.q = q_.at(batch, head);
    job.k = k_.at(batch, shared);
    job.v = v_.at(batch, shared);
    job.out = out_.at(batch, head);
    job.keys = static_cast<int32_t>(k_.rows());
    if (!in_.is_absent("lengths"_arg)) {
      const int64_t* const lengths = in_.data("lengths"_arg);
      job.keys = static_cast<int32_t>(std::clamp<int64_t>(lengths[batch], 0, k_.rows()));
    }
    if (!in_.is_absent("mask"_arg))
      job.mask = mask_at(in_.tensor("mask"_arg), in_.tensor("q"_arg), batch, head);
    if (!in_.is_absent("slopes"_arg)) {
      const float* const slopes = in_.data("slopes"_arg);
      job.slopes = slopes + head;
    }
    if (log_sums) job.log_sums = log_sums + (batch * q_.heads() + head) * q_.rows();
  }

  const Named& in_;
  const bool heads_first_;
  const Heads q_, k_, v_, out_;
  const int64_t group_;  // heads of q that share a head of k and v
};

}  // namespace

PTO_OPERATOR_KERNEL(attention) { return Attention<Named>(in).run(); }

PTO_OPERATOR_KERNEL(attention_with_log_sums) {
  Attention<Named> all(in);
  all.log_sums = in.data("log_sums"_arg);
  return all.run();
}
