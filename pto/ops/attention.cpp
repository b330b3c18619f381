// SPDX-License-Identifier: Apache-2.0
// Attention of all heads and batches by libpto's loops (isa/cpu/attention_job.hpp): the heads that
// share keys are one job, whose rows several threads share.
#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "pto/isa/cpu/attention_job.hpp"
#include "pto/operators/named_arguments.hpp"
#include "pto/ops/attention_mask.hpp"
#include "pto/ops/matrix.hpp"

using namespace pto;

namespace {

using Element = PTO_TYPE_0;
constexpr int64_t kSizeMax = PTO_ATTENTION_UNBOUNDED - 1;
constexpr int64_t kUnitsOfThread = 4, kFewRows = 96;

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

// Jobs of a call, forward or backward.
template <class Named>
class Jobs {
 public:
  explicit Jobs(const Named& in)
      : in_(in),
        heads_first_(in.text("layout"_arg) == "HLD"),
        q_(of("q"_arg)),
        k_(of("k"_arg)),
        v_(of("v"_arg)),
        group_(q_.heads() / std::max<int64_t>(k_.heads(), 1)) {}

  // The heads that share a head of k and v are one job; all rows of it.
  int64_t count() const { return q_.batches() * k_.heads(); }
  int64_t rows() const { return group_ * q_.rows(); }
  int64_t keys() const { return k_.rows(); }
  int64_t batches() const { return q_.batches(); }
  int64_t query_heads() const { return q_.heads(); }
  int64_t queries() const { return q_.rows(); }
  int64_t group() const { return group_; }

  template <class Name>
  Heads of(Name name) const {
    return Heads(in_.tensor(name), heads_first_);
  }
  // The first of the heads of q, and of what has its layout.
  template <class Name>
  pto_attention_operand heads(Name name, int64_t number) const {
    return of(name).at(number / k_.heads(), number % k_.heads() * group_);
  }
  // The head of k, v and what has their layout.
  template <class Name>
  pto_attention_operand shared(Name name, int64_t number) const {
    return of(name).at(number / k_.heads(), number % k_.heads());
  }

  // Returns 0 if all sizes and lengths are in their ranges.
  int32_t check() const {
    if (std::max({rows(), k_.rows(), q_.width(), v_.width()}) > kSizeMax) {
      return in_.fail("a size is above 1073741823\npositions have 32 bits\nsplit the sequence");
    }
    const double dropout = in_.real("dropout"_arg);
    if (!(dropout >= 0 && dropout <= 1)) return refuse_dropout(dropout);
    if (in_.is_absent("lengths"_arg)) return 0;
    for (int64_t batch = 0; batch < q_.batches(); ++batch)
      if (length(batch) < 0 || length(batch) > k_.rows()) return refuse_length(batch);
    return 0;
  }
  int32_t refuse_length(int64_t batch) const {
    char text[160];
    __builtin_snprintf(text, sizeof text,
                       "length %lld of batch %lld, where there are %lld keys\n"
                       "a length is from 0 to the number of keys\ncheck the tensor of lengths",
                       static_cast<long long>(length(batch)), static_cast<long long>(batch),
                       static_cast<long long>(k_.rows()));
    return in_.fail(text);
  }
  int32_t refuse_dropout(double dropout) const {
    char text[160];
    __builtin_snprintf(text, sizeof text,
                       "dropout is %g\nit is the share of weights to drop, from 0 to 1\n"
                       "give 0.1 for a tenth",
                       dropout);
    return in_.fail(text);
  }
  int32_t refuse_memory() const {
    return in_.fail(
        "no memory for a block of keys\neach thread needs about a megabyte, and for gradients as "
        "much as those of the queries of a head\nfree some memory");
  }

  pto_attention_job common() const {
    pto_attention_job job = {};
    job.type = kMatmulType<Element>;
    job.heads = static_cast<int32_t>(group_);
    job.queries = static_cast<int32_t>(q_.rows());
    job.rows = static_cast<int32_t>(rows());
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
    job.mask_hides = in_.tensor("mask"_arg).type_code == kBool;
    job.dropout = static_cast<float>(in_.real("dropout"_arg));
    job.seed = static_cast<uint64_t>(in_.integer("seed"_arg));
    return job;
  }

  void place(pto_attention_job& job, int64_t number) const {
    const int64_t batch = number / k_.heads(), head = number % k_.heads() * group_;
    job.first_head = static_cast<uint64_t>(batch * q_.heads() + head);
    job.q = heads("q"_arg, number);
    job.out = heads("result"_arg, number);
    job.k = shared("k"_arg, number);
    job.v = shared("v"_arg, number);
    job.keys = static_cast<int32_t>(k_.rows());
    if (!in_.is_absent("lengths"_arg)) job.keys = static_cast<int32_t>(length(batch));
    if (!in_.is_absent("mask"_arg))
      job.mask = mask_at(in_.tensor("mask"_arg), in_.tensor("q"_arg), batch, head);
    if (!in_.is_absent("slopes"_arg)) {
      const pto_tensor& all = in_.tensor("slopes"_arg);
      const int64_t stride = all.strides[0];
      job.slopes = {static_cast<float*>(all.data) + head * stride, stride, 0, 0};
    }
  }
  // The floats of a job's rows in [batch..., heads, queries], or [queries].
  pto_attention_operand sums(const pto_tensor& all, int64_t number) const {
    int64_t batch = number / k_.heads(), offset = 0;
    for (int axis = all.rank - 3; axis >= 0; --axis) {
      offset += batch % all.sizes[axis] * all.strides[axis];
      batch /= all.sizes[axis];
    }
    const int64_t head_stride = all.rank > 1 ? all.strides[all.rank - 2] : 0;
    offset += number % k_.heads() * group_ * head_stride;
    return {static_cast<float*>(all.data) + offset, head_stride, all.strides[all.rank - 1], 0};
  }

 private:
  static constexpr int kBool = 6;  // DLPack's
  int64_t length(int64_t batch) const {
    const pto_tensor& all = in_.tensor("lengths"_arg);
    return static_cast<const int64_t*>(all.data)[batch * all.strides[0]];
  }
  static int32_t position(int64_t given) {
    return static_cast<int32_t>(std::clamp<int64_t>(given, -kSizeMax, kSizeMax));
  }

  const Named& in_;
  const bool heads_first_;
  const Heads q_, k_, v_;
  const int64_t group_;  // heads of q that share a head of k and v
};

template <class Named>
int32_t attend(const Named& in, const pto_tensor* log_sums) {
  const Jobs<Named> jobs(in);
  if (const int32_t failed = jobs.check()) return failed;
  pto_attention_job job = jobs.common();
  job.workspace = in.scratch(pto_attention_bytes(&job));
  if (!job.workspace) return jobs.refuse_memory();
  const int64_t rows = jobs.rows();
  const int64_t wanted = kUnitsOfThread * in.threads();
  int64_t height = pto_attention_rows(&job);
  while (height > kFewRows && jobs.count() * ((rows + height - 1) / height) < wanted) height /= 2;
  const int64_t units = (rows + height - 1) / height;
  auto [item, last] = in.items(jobs.count() * units);
  while (item < last) {
    const int64_t number = item / units, first = item % units;
    const int64_t count = std::min(last - item, units - first);
    jobs.place(job, number);
    if (log_sums) job.log_sums = jobs.sums(*log_sums, number);
    const int64_t next = (item + count) / units;
    job.soon = {};
    if (next > number && item + count < last)
      job.soon = {jobs.heads("q"_arg, next).data, jobs.shared("k"_arg, next).data,
                  jobs.shared("v"_arg, next).data};
    job.row = static_cast<int32_t>(first * height);
    job.rows = static_cast<int32_t>(std::min(count * height, rows - first * height));
    pto_attention(&job);
    item += count;
  }
  return 0;
}

// Clears the rows from `first` on of a matrix.
void clear(const pto_attention_operand& x, int64_t first, int64_t rows, int64_t cols) {
  for (int64_t i = first; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j)
      static_cast<Element*>(x.data)[i * x.row_stride + j * x.col_stride] = Element(0);
}

// Jobs of gradients. Null log_sums: the call has none.
template <class Named>
class GradientJobs : public Jobs<Named> {
 public:
  GradientJobs(const Named& in, const pto_tensor* log_sums, const pto_tensor* d_log_sums)
      : Jobs<Named>(in), log_sums_(log_sums), d_log_sums_(d_log_sums) {}

  bool has_log_sums() const { return log_sums_ != nullptr; }

  void place(pto_attention_gradients& job, int64_t number) const {
    Jobs<Named>::place(job.of, number);
    job.d_out = this->heads("d_result"_arg, number);
    if (log_sums_) job.of.log_sums = this->sums(*log_sums_, number);
    if (d_log_sums_) job.d_log_sums = this->sums(*d_log_sums_, number);
  }

 private:
  const pto_tensor *const log_sums_, *const d_log_sums_;
};

// Writes d_q, d_k and d_v where they are needed. `floats`: a job's logarithms of sums, if the call
// has none.
template <class Named>
void find_gradients(const Named& in, const GradientJobs<Named>& jobs, pto_attention_gradients job,
                    int64_t needs, float* floats) {
  auto [number, last] = in.items(jobs.count());
  for (; number < last; ++number) {
    jobs.place(job, number);
    if (!jobs.has_log_sums()) {
      job.of.log_sums = {floats, job.of.queries, 1, 0};
      pto_attention_job sums = job.of;
      sums.out.data = nullptr;
      pto_attention(&sums);
    }
    if (needs & 1) job.d_q = jobs.heads("d_q"_arg, number);
    // Keys beyond the length have no part in the result.
    const int64_t keys = jobs.keys();
    if (needs & 2) {
      job.d_k = jobs.shared("d_k"_arg, number);
      clear(job.d_k, job.of.keys, keys, job.of.width);
    }
    if (needs & 4) {
      job.d_v = jobs.shared("d_v"_arg, number);
      clear(job.d_v, job.of.keys, keys, job.of.value_width);
    }
    pto_attention_backward(&job);
  }
}

template <class Named>
int32_t differentiate(const Named& in, const pto_tensor* log_sums, const pto_tensor* d_log_sums) {
  using Mask = MaskGradient<Element, GradientJobs<Named>>;
  const GradientJobs<Named> jobs(in, log_sums, d_log_sums);
  if (const int32_t failed = jobs.check()) return failed;
  pto_attention_gradients job = {};
  job.of = jobs.common();
  const size_t bytes =
      std::max(pto_attention_gradients_bytes(&job), pto_attention_bytes(&job.of)) / 64 * 64 + 64;
  const int64_t needs = in.integer("needs"_arg);
  const bool needs_mask = (needs & 8) && !in.is_absent("mask"_arg);
  int64_t more = log_sums ? 0 : jobs.rows();
  if (needs_mask) more = std::max(more, Mask::floats(jobs));
  void* const memory = in.scratch(bytes + static_cast<size_t>(more) * sizeof(float));
  if (!memory) return jobs.refuse_memory();
  job.of.workspace = memory;
  float* const floats = reinterpret_cast<float*>(static_cast<char*>(memory) + bytes);
  if (needs & 7) find_gradients(in, jobs, job, needs, floats);
  if (needs_mask) {
    Mask gradient(jobs, job, in.tensor("mask"_arg), in.tensor("d_mask"_arg), in.tensor("q"_arg),
                  floats);
    auto [item, last] = in.items(gradient.count());
    for (; item < last; ++item) gradient.run(item);
  }
  return 0;
}

}  // namespace

PTO_OPERATOR_KERNEL(attention) { return attend(in, nullptr); }

PTO_OPERATOR_KERNEL(attention_with_log_sums) { return attend(in, &in.tensor("log_sums"_arg)); }

PTO_OPERATOR_KERNEL(attention_backward) { return differentiate(in, nullptr, nullptr); }

PTO_OPERATOR_KERNEL(attention_with_log_sums_backward) {
  return differentiate(in, &in.tensor("log_sums"_arg), &in.tensor("d_log_sums"_arg));
}
