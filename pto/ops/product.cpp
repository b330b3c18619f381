// SPDX-License-Identifier: Apache-2.0
// Matrix products of any layout, and their gradients, which are products too, by libpto's loops
// (isa/cpu/matmul_job.hpp). Sums of f16 and bf16 stay in f32 and round once.
#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "pto/isa/cpu/even_run.hpp"
#include "pto/isa/cpu/matrix_cut.hpp"
#include "pto/isa/reduce/block_sums.hpp"
#include "pto/operators/named_arguments.hpp"
#include "pto/ops/matrix.hpp"

using namespace pto;

namespace {

constexpr int64_t kSizeMax = INT32_MAX;
constexpr int64_t kNarrowSums = 256 << 10;  // that f16 and bf16 keep at a time

// A tensor as a batch of matrices.
template <class T>
struct Operand {
  StridedMatrix<T> matrix;
  int64_t rows = 1, cols = 1;
  int64_t batch_strides[PTO_MAX_RANK] = {};
  bool repeats[PTO_MAX_RANK] = {};  // along an axis of the batch that it lacks

  Operand transposed() const {
    Operand other = *this;
    std::swap(other.rows, other.cols);
    std::swap(other.matrix.row_stride, other.matrix.col_stride);
    return other;
  }
};

// Lays the matrices of a @ b out in the tensors, and those of its gradients.
class Matrices {
 public:
  // `result` is the product or its gradient.
  template <class Named>
  Matrices(const Named& in, const pto_tensor& result)
      : has_rows_(in.tensor("a"_arg).rank > 1),
        has_cols_(in.tensor("b"_arg).rank > 1),
        transpose_a_(in.integer("transpose_a"_arg) != 0),
        transpose_b_(in.integer("transpose_b"_arg) != 0),
        batch_axes_(result.rank - has_rows_ - has_cols_),
        batch_(result.sizes) {}

  int batch_axes() const { return batch_axes_; }
  int64_t batch_size(int axis) const { return batch_[axis]; }

  template <class T>
  Operand<T> left(const pto_tensor& tensor) const {
    const Operand<T> found = matrices<T>(tensor, has_rows_, true);
    return transpose_a_ && has_rows_ ? found.transposed() : found;
  }
  template <class T>
  Operand<T> right(const pto_tensor& tensor) const {
    const Operand<T> found = matrices<T>(tensor, true, has_cols_);
    return transpose_b_ && has_cols_ ? found.transposed() : found;
  }
  template <class T>
  Operand<T> result(const pto_tensor& tensor) const {
    return matrices<T>(tensor, has_rows_, has_cols_);
  }

 private:
  template <class T>
  Operand<T> matrices(const pto_tensor& tensor, bool has_rows, bool has_cols) const {
    Operand<T> found;
    found.matrix = {static_cast<T*>(tensor.data), 0, 1};
    int axis = tensor.rank;
    if (has_cols) {
      found.cols = tensor.sizes[--axis];
      found.matrix.col_stride = tensor.strides[axis];
    }
    if (has_rows) {
      found.rows = tensor.sizes[--axis];
      found.matrix.row_stride = tensor.strides[axis];
    }
    for (int of = batch_axes_ - 1; of >= 0; --of) {
      --axis;
      found.repeats[of] = axis < 0 || (tensor.sizes[axis] == 1 && batch_[of] != 1);
      found.batch_strides[of] = found.repeats[of] ? 0 : tensor.strides[axis];
    }
    return found;
  }

  const bool has_rows_, has_cols_, transpose_a_, transpose_b_;
  const int batch_axes_;
  const int64_t* batch_;
};

// Computes out = alpha * (the sum of the terms' products) + beta * added. Products along a batch
// axis that `out` lacks are summed in order.
template <class Element>
class Product {
  static constexpr bool kIsHalf = std::is_same_v<Element, half>;
  static constexpr bool kIsNarrow = kIsHalf || std::is_same_v<Element, bfloat16_t>;
  using Sum = std::conditional_t<kIsNarrow, float, Element>;

 public:
  Product(const KernelArguments& in, const Matrices& layout, const Operand<Element>& out)
      : in_(in), layout_(layout), out_(out) {
    const StridedMatrix<Element>& m = out.matrix;
    // Rows of the result lie dense then; a column becomes a row, which streams by.
    swaps_ = m.row_stride == 1 && (m.col_stride != 1 || out.cols == 1);
    if (swaps_) out_ = out.transposed();
  }

  double alpha = 1, beta = 0;
  const pto_tensor* added = nullptr;  // broadcast to the result

  template <class Left, class Right>
  void add(const Operand<Left>& left, const Operand<Right>& right) {
    terms_[n_terms_++] = swaps_ ? Term{side(right.transposed()), side(left.transposed())}
                                : Term{side(left), side(right)};
  }

  int32_t run() {
    const int64_t depth = n_terms_ > 0 ? terms_[0].left.elements.cols : 0;
    if (std::max({out_.rows, out_.cols, depth}) > kSizeMax) {
      return in_.fail(
          "matmul: a size is above 2147483647\nsizes of one product have 32 "
          "bits\nsplit the matrices");
    }
    const int64_t batches = count(/*repeated=*/false);
    const MatrixCut cut(batches, out_.rows, out_.cols, in_.threads());
    const int64_t parts = cut.count();
    const auto [first, last] = in_.items(batches * parts);
    for (int64_t item = first; item < last; ++item) {
      if (const int64_t many = parts == 1 ? multiply_many(item, last) : 0; many > 0) {
        item += many - 1;
        continue;
      }
      if (!multiply(item / parts, cut.part(item % parts)))
        return in_.fail(
            "matmul: no memory for a part of the result\nsums of f16 and bf16 are f32 until they "
            "round\nfree memory, or multiply fewer rows at once");
    }
    return 0;
  }

 private:
  // A factor of a product, of any type.
  struct Side {
    Operand<const char> elements;  // strides in elements
    int type;
    int64_t bytes;
  };
  struct Term {
    Side left, right;
  };
  template <class T>
  static Side side(const Operand<const T>& x) {
    Operand<const char> plain;
    plain.matrix = {reinterpret_cast<const char*>(x.matrix.data), x.matrix.row_stride,
                    x.matrix.col_stride};
    plain.rows = x.rows, plain.cols = x.cols;
    std::copy_n(x.batch_strides, PTO_MAX_RANK, plain.batch_strides);
    return {plain, kMatmulType<T>, sizeof(T)};
  }
  // Returns one matrix of a factor from a row and column on.
  pto_matmul_matrix from(const Side& x, int64_t row, int64_t col, int64_t batch,
                         int64_t summand) const {
    const StridedMatrix<const char>& m = x.elements.matrix;
    const int64_t place =
        row * m.row_stride + col * m.col_stride + offset(x.elements, batch, summand);
    return pto_matmul_plain(m.data + place * x.bytes, x.type, m.row_stride, m.col_stride);
  }

  // Counts the matrices of the result, or the products that are summed into each.
  int64_t count(bool repeated) const {
    int64_t found = 1;
    for (int axis = 0; axis < layout_.batch_axes(); ++axis) {
      if (out_.repeats[axis] == repeated) found *= layout_.batch_size(axis);
    }
    return found;
  }

  // Returns where a matrix of an operand starts: the `batch`-th of the result, the `summand`-th of
  // its sum.
  template <class T>
  int64_t offset(const Operand<T>& x, int64_t batch, int64_t summand) const {
    int64_t found = 0;
    for (int axis = layout_.batch_axes() - 1; axis >= 0; --axis) {
      int64_t& number = out_.repeats[axis] ? summand : batch;
      const int64_t size = std::max<int64_t>(layout_.batch_size(axis), 1);  // 0: sums of nothing
      found += number % size * x.batch_strides[axis];
      number /= size;
    }
    return found;
  }

  // Writes small matrices of the result that lie evenly, from number `batch` on and in front of
  // `last`. Returns how many there are, 0 where each is a product of its own.
  int64_t multiply_many(int64_t batch, int64_t last) const {
    if constexpr (kIsNarrow) return 0;
    if (n_terms_ != 1 || alpha != 1 || added || count(/*repeated=*/true) != 1) return 0;
    const Operand<const char>&a = terms_[0].left.elements, &b = terms_[0].right.elements;
    EvenRun run;
    for (int axis = layout_.batch_axes() - 1; axis >= 0; --axis)
      if (!run.add(layout_.batch_size(axis), a.batch_strides[axis], b.batch_strides[axis],
                   out_.batch_strides[axis]))
        break;
    const int64_t many = std::min(run.count - batch % run.count, last - batch);
    if (many < kManyProducts) return 0;
    const Rectangle whole = {0, out_.rows, 0, out_.cols};
    const pto_matmul_job job =
        job_of(job_matrix(result_at(batch, whole)), terms_[0], batch, 0, whole);
    return pto_matmul_many(&job, many, run.a, run.b, run.c) ? many : 0;
  }

  // Writes a part of one matrix of the result; false: there is no memory for its sums.
  bool multiply(int64_t batch, const Rectangle& part) {
    if (part.rows == 0 || part.cols == 0) return true;
    if constexpr (kIsNarrow) {
      if (multiply_rounding(batch, part)) return true;
      const int64_t height = std::min<int64_t>(part.rows, 1024), width = kNarrowSums / height;
      for (int64_t row = 0; row < part.rows; row += height)
        for (int64_t col = 0; col < part.cols; col += width) {
          if (!multiply_narrow(batch, {part.row + row, std::min(height, part.rows - row),
                                       part.col + col, std::min(width, part.cols - col)}))
            return false;
        }
    } else {
      multiply_into(result_at(batch, part), batch, part);
    }
    return true;
  }
  StridedMatrix<Element> result_at(int64_t batch, const Rectangle& part) const {
    StridedMatrix<Element> result = out_.matrix;
    result.data = result.at(part.row, part.col) + offset(out_, batch, 0);
    return result;
  }

  // Writes one product that the loops can round themselves; false: it cannot be.
  bool multiply_rounding(int64_t batch, const Rectangle& part) {
    const StridedMatrix<Element> result = result_at(batch, part);
    if (n_terms_ != 1 || count(/*repeated=*/true) != 1 || alpha != 1 || added) return false;
    pto_matmul_job job = job_of(job_matrix(result), terms_[0], batch, 0, part);
    if (result.col_stride != 1 || job.depth > pto_matmul_narrow_depth(&job)) return false;
    pto_matmul(&job);
    return true;
  }

  bool multiply_narrow(int64_t batch, const Rectangle& part) {
    const StridedMatrix<Element> result = result_at(batch, part);
    const StridedMatrix<Sum> sums = {sums_of(part), part.cols, 1};
    if (!sums.data) return false;
    multiply_into(sums, batch, part);
    for (int64_t i = 0; i < part.rows; ++i) {
      int64_t j = 0;
      if constexpr (kIsNarrow) {
        constexpr int kLanes = isa::kVectorBytes / sizeof(Sum);
        for (; result.col_stride == 1 && j + kLanes <= part.cols; j += kLanes)
          isa::lanes::store<kLanes>(result.at(i, j), isa::lanes::load<kLanes>(sums.at(i, j)));
      }
      for (; j < part.cols; ++j) *result.at(i, j) = Element(*sums.at(i, j));
    }
    return true;
  }

  Sum* sums_of(const Rectangle& part) {
    const auto bytes = static_cast<size_t>(part.rows * part.cols) * sizeof(Sum);
    if (bytes > sums_bytes_) {
      pto_free(sums_);
      sums_ = static_cast<Sum*>(pto_malloc(bytes));
      sums_bytes_ = sums_ ? bytes : 0;
    }
    return sums_;
  }

  void multiply_into(const StridedMatrix<Sum>& c, int64_t batch, const Rectangle& part) {
    const int64_t summands = count(/*repeated=*/true);
    bool is_first = true;
    for (int64_t summand = 0; summand < summands; ++summand) {
      for (int term = 0; term < n_terms_; ++term) {
        pto_matmul_job job = job_of(job_matrix(c), terms_[term], batch, summand, part);
        if (!is_first) job.start = job.c;
        pto_matmul(&job);
        is_first = false;
      }
    }
    if (!is_first && alpha == 1 && !added) return;
    for (int64_t i = 0; i < part.rows; ++i) {
      for (int64_t j = 0; j < part.cols; ++j) {
        Sum sum = is_first ? Sum(0) : *c.at(i, j);
        if (alpha != 1) sum = static_cast<Sum>(static_cast<Sum>(alpha) * sum);
        if (added)
          sum += swaps_ ? addend(part.col + j, part.row + i) : addend(part.row + i, part.col + j);
        *c.at(i, j) = sum;
      }
    }
  }

  Sum addend(int64_t row, int64_t col) const {
    const int r = added->rank;
    int64_t place = 0;
    if (r > 0 && added->sizes[r - 1] != 1) place += col * added->strides[r - 1];
    if (r > 1 && added->sizes[r - 2] != 1) place += row * added->strides[r - 2];
    const Sum value = static_cast<Sum>(static_cast<const Element*>(added->data)[place]);
    return beta == 1 ? value : static_cast<Sum>(static_cast<Sum>(beta) * value);
  }

  pto_matmul_job job_of(const pto_matmul_matrix& c, const Term& term, int64_t batch,
                        int64_t summand, const Rectangle& part) const {
    pto_matmul_job job = {};
    job.rows = static_cast<int32_t>(part.rows);
    job.cols = static_cast<int32_t>(part.cols);
    job.depth = static_cast<int32_t>(term.left.elements.cols);
    job.a = from(term.left, part.row, 0, batch, summand);
    job.b = from(term.right, 0, part.col, batch, summand);
    job.c = c;
    job.precision = pto_matmul_precision(), job.is_turned = swaps_;
    return job;
  }

  struct Released {
    Sum*& memory;
    ~Released() { pto_free(memory); }
  };

  const KernelArguments& in_;
  const Matrices& layout_;
  Operand<Element> out_;
  Term terms_[2];
  int n_terms_ = 0;
  bool swaps_;  // the transposed product is computed
  Sum* sums_ = nullptr;
  size_t sums_bytes_ = 0;
  Released released_{sums_};
};

using Element = PTO_TYPE_0;
using Input = Operand<const Element>;

// Writes left right, for the gradient of `left` or `right` or for the result.
template <class Out, class Left, class Right>
int32_t write_product(const KernelArguments& in, const Matrices& layout, const Operand<Out>& out,
                      const Operand<Left>& left, const Operand<Right>& right, double alpha) {
  Product<Out> product(in, layout, out);
  product.alpha = alpha;
  product.add(left, right);
  return product.run();
}

// Writes a b; b's elements are of type Right.
template <class Result, class Right, class Named>
int32_t write_result(const Named& in) {
  const pto_tensor& result = in.tensor("result"_arg);
  const Matrices layout(in, result);
  return write_product(in, layout, layout.result<Result>(result),
                       layout.left<const Element>(in.tensor("a"_arg)),
                       layout.right<const Right>(in.tensor("b"_arg)), 1);
}

// Writes d_a and d_b, of type T as a and b.
template <class T = Element, class Named>
int32_t write_gradients(const Named& in, const Matrices& layout, int64_t needs, double alpha) {
  const Input d = layout.result<const Element>(in.tensor("d_result"_arg));
  if (needs & 1) {
    const auto b = layout.right<const T>(in.tensor("b"_arg)).transposed();
    const auto d_a = layout.left<T>(in.tensor("d_a"_arg));
    if (write_product(in, layout, d_a, d, b, alpha)) return 1;
  }
  if (needs & 2) {
    const auto a = layout.left<const T>(in.tensor("a"_arg)).transposed();
    const auto d_b = layout.right<T>(in.tensor("d_b"_arg));
    if (write_product(in, layout, d_b, a, d, alpha)) return 1;
  }
  return 0;
}

// Writes the gradients of write_gradients by d_result, a and b, from those of its results, which
// are there if `needs`, that of the gradient, says so.
template <class Named>
int32_t write_second_gradients(const Named& in, const Matrices& layout, double alpha, double beta,
                               const pto_tensor* added) {
  const Input d = layout.result<const Element>(in.tensor("d_result"_arg));
  const Input d_d_a = layout.left<const Element>(in.tensor("d_d_a"_arg));
  const Input d_d_b = layout.right<const Element>(in.tensor("d_d_b"_arg));
  const int64_t needed = in.integer("needs"_arg), needs = in.integer("needs_"_arg);
  const bool has_left = needed & 1, has_right = needed & 2;
  if (needs & 1) {
    Product<Element> product(in, layout, layout.result<Element>(in.tensor("d_d_result"_arg)));
    product.alpha = alpha, product.beta = beta, product.added = added;
    if (has_left) product.add(d_d_a, layout.right<const Element>(in.tensor("b"_arg)));
    if (has_right) product.add(layout.left<const Element>(in.tensor("a"_arg)), d_d_b);
    if (product.run()) return 1;
  }
  if (needs & 2) {
    Product<Element> product(in, layout, layout.left<Element>(in.tensor("d_a"_arg)));
    product.alpha = alpha;
    if (has_right) product.add(d, d_d_b.transposed());
    if (product.run()) return 1;
  }
  if (needs & 4) {
    Product<Element> product(in, layout, layout.right<Element>(in.tensor("d_b"_arg)));
    product.alpha = alpha;
    if (has_left) product.add(d_d_a.transposed(), d);
    if (product.run()) return 1;
  }
  return 0;
}

// Writes to = beta * d, summed over the axes along which `to` was broadcast.
void write_sum(const KernelArguments& in, const Operand<const Element>& d, const pto_tensor& to,
               double beta) {
  constexpr int64_t kWide = 16;
  const int64_t cols = to.rank > 0 ? to.sizes[to.rank - 1] : 1;
  const bool sums_cols = cols == 1, sums_rows = to.rank < 2 || to.sizes[to.rank - 2] == 1;
  const int64_t rows = to.rank > 1 ? to.sizes[to.rank - 2] : 1;
  auto [item, last] = in.items(rows * cols);
  while (item < last) {
    const int64_t row = item / cols, col = item % cols;
    const int64_t wide = std::min({kWide, cols - col, last - item});
    isa::RunningSum<double> sums[kWide];
    for (int64_t i = sums_rows ? 0 : row; i < (sums_rows ? d.rows : row + 1); ++i) {
      for (int64_t j = 0; j < (sums_cols ? d.cols : wide); ++j) {
        sums[sums_cols ? 0 : j].add(static_cast<double>(*d.matrix.at(i, col + j)));
      }
    }
    for (int64_t j = 0; j < wide; ++j) {
      static_cast<Element*>(to.data)[item + j] = static_cast<Element>(beta * sums[j].total());
    }
    item += wide;
  }
}

}  // namespace

PTO_OPERATOR_KERNEL(matmul) { return write_result<Element, Element>(in); }
PTO_OPERATOR_KERNEL(matmul_i32) { return write_result<int32_t, PTO_TYPE_1>(in); }
PTO_OPERATOR_KERNEL(matmul_f32) { return write_result<float, Element>(in); }

PTO_OPERATOR_KERNEL(matmul_f32_backward) {
  const Matrices layout(in, in.tensor("d_result"_arg));
  return write_gradients<PTO_TYPE_1>(in, layout, in.integer("needs"_arg), 1);
}

PTO_OPERATOR_KERNEL(matmul_backward) {
  const Matrices layout(in, in.tensor("d_result"_arg));
  return write_gradients(in, layout, in.integer("needs"_arg), 1);
}

PTO_OPERATOR_KERNEL(matmul_backward_backward) {
  const Matrices layout(in, in.tensor("d_result"_arg));
  return write_second_gradients(in, layout, 1, 0, nullptr);
}

PTO_OPERATOR_KERNEL(gemm) {
  const pto_tensor& result = in.tensor("result"_arg);
  const Matrices layout(in, result);
  Product<Element> product(in, layout, layout.result<Element>(result));
  product.alpha = in.real("alpha"_arg);
  product.beta = in.real("beta"_arg);
  if (!in.is_absent("c"_arg) && product.beta != 0) product.added = &in.tensor("c"_arg);
  product.add(layout.left<const Element>(in.tensor("a"_arg)),
              layout.right<const Element>(in.tensor("b"_arg)));
  return product.run();
}

PTO_OPERATOR_KERNEL(gemm_backward) {
  const pto_tensor& d_result = in.tensor("d_result"_arg);
  const Matrices layout(in, d_result);
  const int64_t needs = in.integer("needs"_arg);
  if (needs & 4 && !in.is_absent("c"_arg)) {
    write_sum(in, layout.result<const Element>(d_result), in.tensor("d_c"_arg),
              in.real("beta"_arg));
  }
  return write_gradients(in, layout, needs, in.real("alpha"_arg));
}

PTO_OPERATOR_KERNEL(gemm_backward_backward) {
  const Matrices layout(in, in.tensor("d_result"_arg));
  const bool has_added = in.integer("needs"_arg) & 4 && in.real("beta"_arg) != 0;
  return write_second_gradients(in, layout, in.real("alpha"_arg), in.real("beta"_arg),
                                has_added ? &in.tensor("d_d_c"_arg) : nullptr);
}
