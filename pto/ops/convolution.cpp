// SPDX-License-Identifier: Apache-2.0
// Kernels of convolution.py. For one image and group, P pixels of the result, K elements of a
// filter and O filters, `columns` [K, P] holds the pixels of x under the filter. libpto gathers
// them while it packs its panels (pto_matmul_patches); gradients write them to memory.
//
//     result [O, P] = weight [O, K] columns      d_columns [K, P] = weight' d_result
//     d_weight [O, K] = sum over images of d_result columns'
//
// Sums run in f32 (f64 for f64), in an order that does not depend on the number of threads.
#include <algorithm>
#include <type_traits>

#include "pto/isa/cpu/matrix_cut.hpp"
#include "pto/isa/reduce/block_sums.hpp"
#include "pto/operators/named_arguments.hpp"
#include "pto/ops/matrix.hpp"

namespace {

using pto::bfloat16_t;
using pto::half;
using pto::KernelArguments;
using namespace pto::literals;
using Element = PTO_TYPE_0;
using Sum = pto::SumOf<Element>;
using pto::job_matrix;
using pto::kMatmulType;
using Factor = pto::StridedMatrix<const Sum>;

struct Convolution {
  int64_t images, channels, height, width;     // of x
  int64_t filters, depth, filter_h, filter_w;  // of weight; depth: channels of a group
  int64_t out_h, out_w;
  int64_t stride_h, stride_w, padding_h, padding_w, dilation_h, dilation_w, groups;

  int64_t k() const { return depth * filter_h * filter_w; }
  int64_t pixels() const { return out_h * out_w; }
  int64_t group_filters() const { return filters / groups; }
};

template <class Named>
Convolution read(const Named& in, const pto_tensor& from, const pto_tensor& w,
                 const pto_tensor& to) {
  const auto stride = in.integers("stride"_arg), padding = in.integers("padding"_arg),
             dilation = in.integers("dilation"_arg);
  return {from.sizes[0],
          from.sizes[1],
          from.sizes[2],
          from.sizes[3],
          w.sizes[0],
          w.sizes[1],
          w.sizes[2],
          w.sizes[3],
          to.sizes[2],
          to.sizes[3],
          stride[0],
          stride[1],
          padding[0],
          padding[1],
          dilation[0],
          dilation[1],
          in.integer("groups"_arg)};
}

// One row of `columns`: channel, filter row and filter column.
struct FilterElement {
  int64_t channel, row, column;
  FilterElement(const Convolution& c, int64_t k)
      : channel(k / (c.filter_h * c.filter_w)),
        row(k / c.filter_w % c.filter_h),
        column(k % c.filter_w) {}
};

// Calls f(place in columns, place in the image's plane or -1) for pixels from `first` on.
template <class F>
void for_each_pixel(const Convolution& c, const FilterElement& e, int64_t first, int64_t count,
                    F f) {
  int64_t h = first / c.out_w, w = first % c.out_w;
  for (int64_t p = 0; p < count; ++p) {
    const int64_t y = h * c.stride_h - c.padding_h + e.row * c.dilation_h;
    const int64_t x = w * c.stride_w - c.padding_w + e.column * c.dilation_w;
    const bool inside = y >= 0 && y < c.height && x >= 0 && x < c.width;
    f(p, inside ? y * c.width + x : -1);
    if (++w == c.out_w) w = 0, ++h;
  }
}

// Gathers rows `first_k` to `last_k` of columns, for pixels from `first` on.
void gather_columns(const Convolution& c, const Element* image, int64_t group, int64_t first_k,
                    int64_t last_k, int64_t first, int64_t count, Sum* columns) {
  for (int64_t k = first_k; k < last_k; ++k, columns += count) {
    const FilterElement e(c, k);
    const Element* plane = image + (group * c.depth + e.channel) * c.height * c.width;
    for_each_pixel(c, e, first, count,
                   [&](int64_t p, int64_t at) { columns[p] = at < 0 ? Sum(0) : Sum(plane[at]); });
  }
}

constexpr bool kCopies = sizeof(Sum) != sizeof(Element);

// Computes c [rows, cols] = a b, or c + a b; c has rows `stride` apart.
void multiply(Sum* c, int64_t stride, const Factor& a, const Factor& b, int64_t rows, int64_t depth,
              int64_t cols, bool accumulate) {
  pto_matmul_job job = {};
  job.rows = int32_t(rows), job.depth = int32_t(depth), job.cols = int32_t(cols);
  job.c = job_matrix(c, stride, 1);
  if (accumulate) job.start = job.c;
  job.a = job_matrix(a);
  job.b = job_matrix(b);
  if (!kCopies) job.precision = pto_matmul_precision();  // of f32, not of f16 and bf16 as sums
  pto_matmul(&job);
}

// Returns elements as Sum: in place if they have that type, else copied to `copy`.
const Sum* as_sums(const Element* from, int64_t count, Sum* copy) {
  if constexpr (sizeof(Sum) == sizeof(Element)) return reinterpret_cast<const Sum*>(from);
  for (int64_t i = 0; i < count; ++i) copy[i] = Sum(from[i]);
  return copy;
}

Sum* scratch(const KernelArguments& in, int64_t count) {
  return static_cast<Sum*>(in.scratch(size_t(std::max<int64_t>(count, 1)) * sizeof(Sum)));
}
constexpr const char* kNoMemory = "conv2d: no memory for a part of the result";
constexpr const char* kTooLarge =
    "conv2d: a size is above 2147483647\nsizes of one product have 32 bits: the filters of a "
    "group, "
    "the elements of one and, of gradients, the pixels of the result\nuse more groups, smaller "
    "filters or smaller images";

}  // namespace

namespace {

struct Pair {
  const Element *x, *weight;
};

// Computes result = the sum of the pairs' convolutions + bias, which may be null. A product takes
// the places of one image as columns, or of all images where one has few.
class Forward {
  static constexpr int64_t kStrip = 512;       // columns whose patches the second cache keeps
  static constexpr int64_t kFewPixels = 512;   // of an image
  static constexpr int64_t kRowsAtOnce = 512;  // of a product whose sums lie apart
  static constexpr int64_t kColumnsStep = 32;  // whole tiles of libpto's loops

 public:
  Forward(const KernelArguments& in, const Convolution& c, const Pair* pairs, int n_pairs,
          const Element* bias, Element* result)
      : in_(in), c_(c), pairs_(pairs), n_pairs_(n_pairs), bias_(bias), result_(result) {
    joins_ = c.images > 1 && c.pixels() < kFewPixels;
    is_pointwise_ = c.filter_h == 1 && c.filter_w == 1 && c.stride_h == 1 && c.stride_w == 1 &&
                    c.padding_h == 0 && c.padding_w == 0;
    patches_ = {c.channels * c.height * c.width,
                c.height * c.width,
                c.height,
                c.width,
                c.filter_h,
                c.filter_w,
                c.out_h,
                c.out_w,
                c.stride_h,
                c.stride_w,
                c.padding_h,
                c.padding_w,
                c.dilation_h,
                c.dilation_w,
                0};
    if (is_pointwise_) {  // an image is one row
      patches_.width = patches_.out_w = c.pixels();
      patches_.height = patches_.out_h = 1;
    }
  }

  int32_t run() {
    const int64_t rows = c_.group_filters(), cols = (joins_ ? c_.images : 1) * c_.pixels();
    if (std::max(rows, c_.k()) > INT32_MAX) return in_.fail(kTooLarge);
    if (has_sums()) {
      sums_ = scratch(in_, std::min(rows, kRowsAtOnce) * std::min(cols, kStrip + kColumnsStep));
      if (!sums_) return in_.fail(kNoMemory);
    }
    const int64_t batches = (joins_ ? 1 : c_.images) * c_.groups;
    const pto::MatrixCut cut(batches, rows, cols, in_.threads());
    const auto [first, last] = in_.items(batches * cut.count());
    for (int64_t item = first; item < last; ++item)
      compute_strips(item / cut.count(), cut.part(item % cut.count()));
    return 0;
  }

 private:
  // Sums lie apart where they have another type or belong to several images.
  bool has_sums() const { return kCopies || joins_; }

  void compute_strips(int64_t batch, const pto::Rectangle& part) {
    const int64_t height = has_sums() ? kRowsAtOnce : std::max<int64_t>(part.rows, 1);
    const int64_t strips = (part.cols + kStrip - 1) / kStrip;
    const int64_t tiles = (part.cols + kColumnsStep - 1) / kColumnsStep;
    for (int64_t strip = 0; strip < strips; ++strip) {
      const int64_t first = tiles * strip / strips * kColumnsStep;
      const int64_t last = std::min(tiles * (strip + 1) / strips * kColumnsStep, part.cols);
      for (int64_t row = 0; row < part.rows; row += height)
        compute(batch, {part.row + row, std::min(height, part.rows - row), part.col + first,
                        last - first});
    }
  }

  void compute(int64_t batch, const pto::Rectangle& part) {
    const int64_t image = batch / c_.groups, group = batch % c_.groups;
    const int64_t filter = group * c_.group_filters() + part.row;
    Element* const to = result_ + (image * c_.filters + filter) * c_.pixels() + part.col;
    Sum* const sums = has_sums() ? sums_ : reinterpret_cast<Sum*>(to);
    const int64_t stride = has_sums() ? part.cols : c_.pixels();
    pto_matmul_job job = {};
    job.rows = int32_t(part.rows), job.cols = int32_t(part.cols);
    job.c = job_matrix(sums, stride, 1);
    job.a.type = job.b.type = kMatmulType<Element>;
    if (n_pairs_ == 0) pto_matmul(&job);  // zeros
    job.depth = int32_t(c_.k());
    for (int pair = 0; pair < n_pairs_; ++pair, job.start = job.c) {
      job.a = job_matrix(pairs_[pair].weight + filter * c_.k(), c_.k(), 1);
      set_patches(&job,
                  pairs_[pair].x + image * patches_.image_stride +
                      group * c_.depth * patches_.channel_stride,
                  part.col);
      pto_matmul(&job);
    }
    if (has_sums() || bias_) finish(image, filter, part, sums, stride);
  }

  void set_patches(pto_matmul_job* job, const Element* x, int64_t first) {
    if (is_pointwise_ && !has_sums()) {  // an image is the matrix
      job->b = job_matrix(x + first, patches_.channel_stride, 1);
      return;
    }
    job->b = job_matrix(x, 0, 0);
    patches_.first = first;
    job->b_patches = &patches_;
  }

  // Adds the bias and takes the sums to their images.
  void finish(int64_t image, int64_t filter, const pto::Rectangle& part, const Sum* sums,
              int64_t stride) const {
    for (int64_t i = 0; i < part.rows; ++i, ++filter) {
      const Element* const bias = bias_ ? bias_ + filter : nullptr;
      for (int64_t j = 0; j < part.cols;) {
        const int64_t place = part.col + j, at = place % c_.pixels();
        const int64_t count = std::min(c_.pixels() - at, part.cols - j);
        const int64_t of = image + place / c_.pixels();
        finish_row(sums + i * stride + j, count, bias,
                   result_ + (of * c_.filters + filter) * c_.pixels() + at);
        j += count;
      }
    }
  }
  static void finish_row(const Sum* sums, int64_t count, const Element* bias, Element* to) {
    using namespace pto::isa;
    constexpr int kLanes = kVectorBytes / sizeof(Sum);
    using V = Vec<Sum, kLanes>;
    const Sum shift = bias ? Sum(*bias) : Sum(0);
    const auto sum = [&](V v) { return bias ? V(v + lanes::splat<V>(shift)) : v; };
    int64_t j = 0;
    for (; j + kLanes <= count; j += kLanes)
      lanes::store<kLanes>(to + j, sum(lanes::load<kLanes>(sums + j)));
    if (const int left = int(count - j); left > 0)
      lanes::store_part<kLanes>(to + j, sum(lanes::load_part<kLanes>(sums + j, left)), left);
  }

  const KernelArguments& in_;
  const Convolution& c_;
  const Pair* const pairs_;
  const int n_pairs_;
  const Element* const bias_;
  Element* const result_;
  bool joins_, is_pointwise_;
  pto_matmul_patches patches_;
  Sum* sums_ = nullptr;
};

}  // namespace

PTO_OPERATOR_KERNEL(conv2d) {
  if (in.tensor("result"_arg).extent_bytes == 0) return 0;  // without channels it has no filters
  const Pair pair = {in.data("x"_arg), in.data("weight"_arg)};
  const Element* bias = in.data("bias"_arg);
  if (in.is_absent("bias"_arg)) bias = nullptr;
  const Convolution c =
      read(in, in.tensor("x"_arg), in.tensor("weight"_arg), in.tensor("result"_arg));
  return Forward(in, c, &pair, 1, bias, in.data("result"_arg)).run();
}

namespace {

// Tells whether the products of the gradients have sizes of 32 bits.
bool fits_products(const Convolution& c) {
  return std::max({c.pixels(), c.k(), c.group_filters()}) <= INT32_MAX;
}

// Computes d_x of some channels of one image: adds their rows of d_columns where the pixels came
// from.
int32_t input_gradient(const KernelArguments& in, const Convolution& c, const Element* d_result,
                       const Element* weight, Element* d_x) {
  if (!fits_products(c)) return in.fail(kTooLarge);
  const int64_t window = c.filter_h * c.filter_w, k = c.k(), o = c.group_filters();
  // An item takes as many channels as give its product about 64 rows.
  const int64_t fitting = (63 + window) / std::max<int64_t>(window, 1);
  const int64_t chunk = std::max<int64_t>(std::min(fitting, c.depth), 1);
  const int64_t chunks = (c.depth + chunk - 1) / chunk, plane = c.height * c.width;
  Sum* columns = scratch(in, chunk * window * c.pixels());
  Sum* total = scratch(in, chunk * plane);
  Sum* d_copy = kCopies ? scratch(in, o * c.pixels()) : nullptr;
  Sum* w_copy = kCopies ? scratch(in, o * k) : nullptr;
  if (!columns || !total || (kCopies && (!d_copy || !w_copy))) return in.fail(kNoMemory);
  const auto items = in.items(c.images * c.groups * chunks);
  for (int64_t item = items.first; item < items.last; ++item) {
    const int64_t image = item / (c.groups * chunks), group = item / chunks % c.groups;
    const int64_t channel = item % chunks * chunk, wide = std::min(chunk, c.depth - channel);
    const Sum* d =
        as_sums(d_result + (image * c.filters + group * o) * c.pixels(), o * c.pixels(), d_copy);
    const Sum* w = as_sums(weight + group * o * k, o * k, w_copy);
    multiply(columns, c.pixels(), {w + channel * window, 1, k}, {d, c.pixels(), 1}, wide * window,
             o, c.pixels(), false);
    std::fill(total, total + wide * plane, Sum(0));
    for (int64_t row = 0; row < wide * window; ++row) {
      const FilterElement e(c, row);
      Sum* to = total + e.channel * plane;
      const Sum* from = columns + row * c.pixels();
      for_each_pixel(c, e, 0, c.pixels(), [&](int64_t p, int64_t at) {
        if (at >= 0) to[at] += from[p];
      });
    }
    Element* to = d_x + (image * c.channels + group * c.depth + channel) * plane;
    for (int64_t i = 0; i < wide * plane; ++i) to[i] = Element(total[i]);
  }
  return 0;
}

// Computes d_weight of some filter elements of one group, image by image.
int32_t weight_gradient(const KernelArguments& in, const Convolution& c, const Element* d_result,
                        const Element* x, Element* d_weight) {
  if (!fits_products(c)) return in.fail(kTooLarge);
  const int64_t k = c.k(), o = c.group_filters();
  const int64_t chunk = std::max<int64_t>(std::min<int64_t>(64, k), 1);
  const int64_t chunks = (k + chunk - 1) / chunk;
  Sum* columns = scratch(in, chunk * c.pixels());
  Sum* total = scratch(in, o * chunk);
  Sum* d_copy = kCopies ? scratch(in, o * c.pixels()) : nullptr;
  if (!columns || !total || (kCopies && !d_copy)) return in.fail(kNoMemory);
  const auto items = in.items(c.groups * chunks);
  for (int64_t item = items.first; item < items.last; ++item) {
    const int64_t group = item / chunks, first = item % chunks * chunk;
    const int64_t wide = std::min(chunk, k - first);
    std::fill(total, total + o * wide, Sum(0));
    for (int64_t image = 0; image < c.images; ++image) {
      gather_columns(c, x + image * c.channels * c.height * c.width, group, first, first + wide, 0,
                     c.pixels(), columns);
      const Sum* d =
          as_sums(d_result + (image * c.filters + group * o) * c.pixels(), o * c.pixels(), d_copy);
      multiply(total, wide, {d, c.pixels(), 1}, {columns, 1, c.pixels()}, o, c.pixels(), wide,
               true);
    }
    for (int64_t i = 0; i < o; ++i) {
      for (int64_t j = 0; j < wide; ++j) {
        d_weight[(group * o + i) * k + first + j] = Element(total[i * wide + j]);
      }
    }
  }
  return 0;
}

void fill_zeros(const KernelArguments& in, const pto_tensor& tensor) {
  const auto items = in.items(tensor.extent_bytes / int64_t(sizeof(Element)));
  auto* const to = static_cast<Element*>(tensor.data);
  std::fill(to + items.first, to + items.last, Element(0));
}

void bias_gradient(const KernelArguments& in, const Convolution& c, const Element* d_result,
                   Element* d_bias) {
  const auto filters = in.items(c.filters);
  for (int64_t filter = filters.first; filter < filters.last; ++filter) {
    pto::isa::RunningSum<double> sum;
    for (int64_t image = 0; image < (c.channels > 0 ? c.images : 0); ++image) {
      const Element* from = d_result + (image * c.filters + filter) * c.pixels();
      for (int64_t p = 0; p < c.pixels(); ++p) sum.add(double(Sum(from[p])));
    }
    d_bias[filter] = Element(Sum(sum.total()));
  }
}

}  // namespace

PTO_OPERATOR_KERNEL(conv2d_backward) {
  const Convolution c =
      read(in, in.tensor("x"_arg), in.tensor("weight"_arg), in.tensor("d_result"_arg));
  const int64_t needs = in.integer("needs"_arg);
  const Element* d = in.data("d_result"_arg);
  if (needs & 1 && input_gradient(in, c, d, in.data("weight"_arg), in.data("d_x"_arg))) {
    return 1;
  }
  if (needs & 2 && weight_gradient(in, c, d, in.data("x"_arg), in.data("d_weight"_arg))) {
    return 1;
  }
  if (needs & 4) bias_gradient(in, c, d, in.data("d_bias"_arg));
  return 0;
}

// conv2d is linear in x and in weight, so each gradient is a sum of what conv2d and conv2d_backward
// compute. `needs` is that of conv2d_backward.
PTO_OPERATOR_KERNEL(conv2d_backward_backward) {
  const Convolution c =
      read(in, in.tensor("x"_arg), in.tensor("weight"_arg), in.tensor("d_result"_arg));
  const int64_t needed = in.integer("needs"_arg), needs = in.integer("needs_"_arg);
  const Element *d_d_x = in.data("d_d_x"_arg), *d_d_weight = in.data("d_d_weight"_arg);
  const Element *d = in.data("d_result"_arg), *x = in.data("x"_arg);
  if (needs & 1) {
    Pair pairs[2];
    int n_pairs = 0;
    if (needed & 1) pairs[n_pairs++] = {d_d_x, in.data("weight"_arg)};
    if (needed & 2) pairs[n_pairs++] = {x, d_d_weight};
    const Element* d_d_bias = in.data("d_d_bias"_arg);
    if (!(needed & 4)) d_d_bias = nullptr;
    if (in.tensor("d_d_result"_arg).extent_bytes > 0 &&
        Forward(in, c, pairs, n_pairs, d_d_bias, in.data("d_d_result"_arg)).run()) {
      return 1;
    }
  }
  if (needs & 2) {
    if (!(needed & 2)) {
      fill_zeros(in, in.tensor("d_x"_arg));
    } else if (input_gradient(in, c, d, d_d_weight, in.data("d_x"_arg))) {
      return 1;
    }
  }
  if (needs & 4) {
    if (!(needed & 1)) {
      fill_zeros(in, in.tensor("d_weight"_arg));
    } else if (weight_gradient(in, c, d, d_d_x, in.data("d_weight"_arg))) {
      return 1;
    }
  }
  return 0;
}
