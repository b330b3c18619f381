// SPDX-License-Identifier: Apache-2.0
// Matrix products of any layout: f32, f16 and bf16 through libpto's loops (isa/cpu/matmul_job.hpp),
// the other types by plain ones. Sums of f16 and bf16 are kept in f32 and round once.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "pto/isa/cpu/matmul_job.hpp"
#include "pto/isa/kernel_arguments.hpp"
#include "pto/pto-inst.hpp"

using namespace pto;

namespace {

// A strip of the result, what a thread takes at least. Every strip packs its columns of b, so it
// has many rows where there are strips enough for all threads all the same.
constexpr int64_t kStripRows = 256, kFewStripRows = 64, kStripCols = 384, kStripsWanted = 4;
constexpr int64_t kSizeMax = INT32_MAX;
constexpr int64_t kSizesFloats = 4;  // behind packed strips: rows and columns, 64 bits each

// A matrix of a batch: strides in elements.
template <class T>
struct Matrix {
  T* data;
  int64_t row_stride, col_stride;
  T* at(int64_t row, int64_t col) const { return data + row * row_stride + col * col_stride; }
};

struct Rectangle {
  int64_t row, rows, col, cols;
};

template <class Element>
class Product {
  static constexpr bool kIsHalf = std::is_same_v<Element, half>;
  static constexpr bool kIsNarrow = kIsHalf || std::is_same_v<Element, bfloat16_t>;
  static constexpr bool kHasLoops = kIsNarrow || std::is_same_v<Element, float>;
  static constexpr int kType = kIsHalf     ? PTO_MATMUL_F16
                               : kIsNarrow ? PTO_MATMUL_BF16
                                           : PTO_MATMUL_F32;
  using Sum = std::conditional_t<kIsNarrow, float, Element>;

 public:
  Product(const KernelArguments& in, int out, bool transpose_a, bool transpose_b)
      : in_(in), a_(in.tensor(0)), b_(in.tensor(1)), out_(in.tensor(out)) {
    is_vector_a_ = a_.rank == 1;
    is_vector_b_ = b_.rank == 1;
    set_left(transpose_a);
    set_right(transpose_b);
    join_batches();
  }

  // b is what pack() wrote of a matrix of these columns.
  Product(const KernelArguments& in, int64_t cols)
      : in_(in), a_(in.tensor(0)), b_(in.tensor(1)), out_(in.tensor(2)) {
    is_vector_a_ = a_.rank == 1;
    is_vector_b_ = false;
    set_left(false);
    packed_ = static_cast<float*>(b_.data);
    cols_ = cols;
    join_batches();
  }

  // Writes strips of b as multiply() reads them.
  static void pack(const KernelArguments& in, bool transposed) {
    const pto_tensor& b = in.tensor(0);
    const int64_t depth = b.sizes[transposed], cols = b.sizes[!transposed];
    Matrix<const Element> from = {static_cast<const Element*>(b.data), b.strides[transposed],
                                  b.strides[!transposed]};
    const int64_t strips = (cols + kStripCols - 1) / kStripCols, sizes[] = {depth, cols};
    auto [strip, last] = in.items(strips);
    if (last == strips)
      std::memcpy(in.data<float>(1) + strips * strip_floats(depth), sizes, sizeof sizes);
    for (; strip < last; ++strip) {
      const int64_t first = strip * kStripCols;
      pto_matmul_job job = job_of({0, 0, first, std::min(cols - first, kStripCols)}, depth);
      from.data = static_cast<const Element*>(b.data) + first * from.col_stride;
      job.b = matrix(from, kType);
      job.packed = in.data<float>(1) + strip * strip_floats(depth);
      job.packs = 1;
      pto_matmul(&job);
    }
  }

  // How the sum becomes the result.
  double alpha = 1, beta = 0;
  const pto_tensor* added = nullptr;  // broadcast to the result

  int32_t run() {
    const int64_t col_strips = (cols_ + kStripCols - 1) / kStripCols;
    if (packed_ && !is_packed_so(col_strips)) {
      return in_.fail(
          "matmul_packed: the packed matrix has another number of rows or columns\n  why: a has as "
          "many columns as it has rows, and cols says its columns\n  fix: pack the matrix that is "
          "multiplied");
    }
    if (std::max({rows_, depth_, cols_}) > kSizeMax) {
      return in_.fail(
          "matmul: a size is above 2147483647\n  why: sizes of one product have 32 "
          "bits\n  fix: split the matrices");
    }
    const bool is_large = batches() * col_strips * (rows_ / kStripRows) >= kStripsWanted;
    const int64_t height = is_large ? kStripRows : kFewStripRows;
    const int64_t row_strips = (rows_ + height - 1) / height;
    const int64_t strips = row_strips * col_strips;
    auto [item, last] = in_.items(batches() * strips);
    while (item < last) {
      const int64_t batch = item / strips, col = item % strips / row_strips;
      const int64_t row = item % row_strips, count = std::min(last - item, row_strips - row);
      const int64_t first_row = row * height, first_col = col * kStripCols;
      multiply(batch, {first_row, std::min(rows_ - first_row, count * height), first_col,
                       std::min(cols_ - first_col, kStripCols)});
      item += count;
    }
    return 0;
  }

 private:
  void set_left(bool transposed) {
    const int r = a_.rank;
    left_.data = static_cast<const Element*>(a_.data);
    rows_ = is_vector_a_ ? 1 : a_.sizes[r - 2];
    depth_ = a_.sizes[r - 1];
    left_.row_stride = is_vector_a_ ? 0 : a_.strides[r - 2];
    left_.col_stride = a_.strides[r - 1];
    if (!transposed || is_vector_a_) return;
    std::swap(rows_, depth_);
    std::swap(left_.row_stride, left_.col_stride);
  }

  void set_right(bool transposed) {
    const int r = b_.rank;
    const bool swaps = transposed && !is_vector_b_;
    right_.data = static_cast<const Element*>(b_.data);
    const int row_axis = is_vector_b_ ? 0 : swaps ? r - 1 : r - 2;
    const int col_axis = swaps ? r - 2 : r - 1;
    cols_ = is_vector_b_ ? 1 : b_.sizes[col_axis];
    right_.row_stride = b_.strides[row_axis];
    right_.col_stride = is_vector_b_ ? 0 : b_.strides[col_axis];
  }

  bool is_packed_so(int64_t strips) const {
    const int64_t floats = strips * strip_floats(depth_), sizes[] = {depth_, cols_};
    return b_.sizes[0] == floats + kSizesFloats &&
           std::memcmp(packed_ + floats, sizes, sizeof sizes) == 0;
  }

  // Where all batches multiply by one b, and the rows of a lie evenly apart, they are the rows of
  // one matrix: b is then packed for all of them together.
  void join_batches() {
    if (is_vector_a_ || (!packed_ && b_.rank != 2) || a_.rank < 3) return;
    if (left_.row_stride != a_.strides[a_.rank - 2]) return;  // transposed
    int64_t rows = rows_;
    for (int axis = a_.rank - 3; axis >= 0; --axis) {
      if (a_.sizes[axis] != 1 && a_.strides[axis] != rows * left_.row_stride) return;
      rows *= a_.sizes[axis];
    }
    if (rows > kSizeMax) return;
    rows_ = rows;
    is_joined_ = true;
  }

  // Axes of the result in front of its matrices.
  int batch_axes() const { return out_.rank - !is_vector_a_ - !is_vector_b_; }

  int64_t batches() const {
    int64_t count = 1;
    for (int axis = 0; !is_joined_ && axis < batch_axes(); ++axis) count *= out_.sizes[axis];
    return count;
  }

  // Where the batch with this number starts in an operand, whose axes of size 1 repeat.
  int64_t offset(const pto_tensor& x, int64_t batch) const {
    int64_t result = 0;
    for (int axis = batch_axes() - 1, own = x.rank - 3; axis >= 0; --axis, --own) {
      const int64_t place = batch % out_.sizes[axis];
      if (own >= 0 && x.sizes[own] != 1) result += place * x.strides[own];
      batch /= out_.sizes[axis];
    }
    return result;
  }

  void multiply(int64_t batch, const Rectangle& part) {
    Matrix<const Element> a = left_, b = right_;
    a.data = a.at(part.row, 0);
    if (!is_joined_) a.data += offset(a_, batch);
    if (!packed_) b.data = b.at(0, part.col);
    if (!packed_ && !is_joined_) b.data += offset(b_, batch);
    Element* out = static_cast<Element*>(out_.data) + batch * rows_ * cols_;
    const Matrix<Element> result = {out + part.row * cols_ + part.col, cols_, 1};
    if constexpr (kIsNarrow) {
      Matrix<Sum> sums = {sums_of(part), part.cols, 1};
      multiply_into(sums, a, b, part);
      for (int64_t i = 0; i < part.rows; ++i) {
        for (int64_t j = 0; j < part.cols; ++j) *result.at(i, j) = Element(*sums.at(i, j));
      }
    } else {
      multiply_into(result, a, b, part);
    }
  }

  Sum* sums_of(const Rectangle& part) {
    const auto bytes = static_cast<size_t>(part.rows * part.cols) * sizeof(Sum);
    if (bytes > sums_bytes_) {
      pto_free(sums_);
      sums_ = static_cast<Sum*>(pto_malloc(bytes));
      sums_bytes_ = sums_ ? bytes : 0;
    }
    if (!sums_) __builtin_trap();
    return sums_;
  }

  // c = alpha a b + beta added.
  void multiply_into(const Matrix<Sum>& c, const Matrix<const Element>& a,
                     const Matrix<const Element>& b, const Rectangle& part) {
    if constexpr (kHasLoops) {
      multiply_by_loops(c, a, b, part);
    } else {
      multiply_plainly(c, a, b, part);
    }
    if (alpha == 1 && !added) return;
    for (int64_t i = 0; i < part.rows; ++i) {
      for (int64_t j = 0; j < part.cols; ++j) {
        Sum sum = *c.at(i, j);
        if (alpha != 1) sum = static_cast<Sum>(static_cast<Sum>(alpha) * sum);
        if (added) sum += addend(part.row + i, part.col + j);
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

  template <class T>
  static pto_matmul_matrix matrix(const Matrix<T>& m, int type) {
    return {const_cast<std::remove_const_t<T>*>(m.data),
            type,
            PTO_MATMUL_UNBOXED,
            PTO_MATMUL_UNBOXED,
            0,
            0,
            m.row_stride,
            m.col_stride};
  }

  static pto_matmul_job job_of(const Rectangle& part, int64_t depth) {
    pto_matmul_job job = {};
    job.rows = static_cast<int32_t>(part.rows);
    job.cols = static_cast<int32_t>(part.cols);
    job.depth = static_cast<int32_t>(depth);
    job.a.type = job.b.type = kType;
    return job;
  }

  static int64_t strip_floats(int64_t depth) { return PTO_MATMUL_PACKED_FLOATS(depth, kStripCols); }

  void multiply_by_loops(const Matrix<Sum>& c, const Matrix<const Element>& a,
                         const Matrix<const Element>& b, const Rectangle& part) const {
    pto_matmul_job job = job_of(part, depth_);
    job.a = matrix(a, kType);
    job.c = matrix(c, PTO_MATMUL_F32);
    if (packed_) {
      job.packed = packed_ + part.col / kStripCols * strip_floats(depth_);
    } else {
      job.b = matrix(b, kType);
    }
    pto_matmul(&job);
  }

  void multiply_plainly(const Matrix<Sum>& c, const Matrix<const Element>& a,
                        const Matrix<const Element>& b, const Rectangle& part) const {
    using Wrapping = std::conditional_t<std::is_integral_v<Sum>, uint64_t, Sum>;
    for (int64_t i = 0; i < part.rows; ++i) {
      for (int64_t j = 0; j < part.cols; ++j) *c.at(i, j) = Sum(0);
      for (int64_t k = 0; k < depth_; ++k) {
        const auto factor = static_cast<Wrapping>(*a.at(i, k));
        for (int64_t j = 0; j < part.cols; ++j) {
          const auto sum = static_cast<Wrapping>(*c.at(i, j));
          *c.at(i, j) = static_cast<Sum>(sum + factor * static_cast<Wrapping>(*b.at(k, j)));
        }
      }
    }
  }

  struct Released {
    Sum*& memory;
    ~Released() { pto_free(memory); }
  };

  const KernelArguments& in_;
  const pto_tensor &a_, &b_, &out_;
  bool is_vector_a_, is_vector_b_;
  int64_t rows_, depth_, cols_;
  Matrix<const Element> left_, right_ = {};
  float* packed_ = nullptr;  // strips of b, in place of right_
  bool is_joined_ = false;   // the batches are rows of one matrix
  Sum* sums_ = nullptr;
  size_t sums_bytes_ = 0;
  Released released_{sums_};
};

}  // namespace

// a, b; scalars: transpose_a, transpose_b.
extern "C" int32_t matmul(const pto_args* args) {
  const KernelArguments in(args);
  return Product<PTO_TYPE_0>(in, 2, in.integer(0) != 0, in.integer(1) != 0).run();
}

// b; scalar: transpose_b. The result is of one axis.
extern "C" int32_t pack_right(const pto_args* args) {
  const KernelArguments in(args);
  Product<PTO_TYPE_0>::pack(in, in.integer(0) != 0);
  return 0;
}

// a, packed; scalar: cols.
extern "C" int32_t matmul_packed(const pto_args* args) {
  const KernelArguments in(args);
  return Product<PTO_TYPE_0>(in, in.integer(0)).run();
}

// a, b, added (may be absent); scalars: alpha, beta, transpose_a, transpose_b.
extern "C" int32_t gemm(const pto_args* args) {
  const KernelArguments in(args);
  Product<PTO_TYPE_0> product(in, 3, in.integer(2) != 0, in.integer(3) != 0);
  product.alpha = in.real(0);
  product.beta = in.real(1);
  if (!in.is_absent(2) && product.beta != 0) product.added = &in.tensor(2);
  return product.run();
}
