// SPDX-License-Identifier: Apache-2.0
// pto_multiply (abi/program.h): batches of matrix products of any layout and types, cut over the
// pool.
#include "pto/abi/program.h"
#include "pto/isa/cpu/element_types.hpp"
#include "pto/isa/cpu/even_run.hpp"
#include "pto/isa/cpu/host_memory.hpp"
#include "pto/isa/cpu/matrix_cut.hpp"
#include "pto/isa/cpu/packed_right.hpp"

namespace pto {
namespace {

constexpr int64_t kPiece = 64 << 10;  // elements of sums that are converted at a time

int least(int64_t a, int64_t b) { return static_cast<int>(a < b ? a : b); }

template <class T>
struct ElementOfPointer;
template <class T>
struct ElementOfPointer<T*> : isa::TypeIs<T> {};
template <class Pointer>
using ElementOf = typename ElementOfPointer<Pointer>::type;

template <class To, class From>
To converted(From x) {
  if constexpr (isa::kSame<From, half> || isa::kSame<From, bfloat16_t>)
    return static_cast<To>(static_cast<float>(x));
  else
    return static_cast<To>(x);
}

class Batches {
 public:
  // `precision`: 0 for that of the process. `soon`: what comes next, or null; `is_asked`: b was
  // that. `where`: the user's line.
  Batches(pto_services* services, const char* where, const pto_tensor& c, const pto_tensor& a,
          const pto_tensor& b, int precision, const pto_packed_right* packed, pto_pages* pages,
          pto_runs* soon, bool is_asked, int threads)
      : services_(services),
        where_(where),
        c_(c),
        a_(a),
        b_(lying(b, pages)),
        precision_(precision != 0 ? precision : pto_matmul_precision()),
        packed_(packed, a, b, precision_),
        rows_(c.sizes[c.rank - 2]),
        cols_(c.sizes[c.rank - 1]),
        depth_(a.sizes[a.rank - 1]),
        batches_(count(c)),
        threads_(threads),
        cut_(batches_, rows_, cols_, threads),
        pages_(is_one(pages) ? nullptr : pages),
        soon_(soon),
        is_asked_(is_asked) {}

  int32_t run() {
    if (batches_ == 0 || rows_ == 0 || cols_ == 0) return 0;
    if (rows_ > INT32_MAX || cols_ > INT32_MAX || depth_ > INT32_MAX)
      return pto_fail_product(services_, where_, rows_, depth_, cols_);
    const int64_t parts = batches_ * cut_.count();
    const double work = double(batches_) * double(rows_) * double(cols_) * double(depth_ + 1);
    if (run_many(work)) return 0;
    if (threads_ <= 1 || work < kLeastWork || parts > INT32_MAX) {
      for (int64_t i = 0; i < parts; ++i)
        if (const int32_t code = multiply(i)) return code;
      return 0;
    }
    return pto_parallel(
        static_cast<int32_t>(parts),
        [](void* self, int32_t part) { return static_cast<Batches*>(self)->multiply(part); }, this);
  }

 private:
  static constexpr double kLeastWork = 1 << 17;  // multiply-adds for which other threads wake up

  // Multiplies all batches at once, where they are small and even; false: nothing was written.
  bool run_many(double work) {
    const int type = matmul_type(a_);
    const bool is_real = type == PTO_MATMUL_F32 || type == PTO_MATMUL_F64;
    if (batches_ < kManyProducts || !is_real || matmul_type(b_) != type || matmul_type(c_) != type)
      return false;
    if (pages_ || packed_.at(b_.data, cols_).cols > 0) return false;
    for (int axis = c_.rank - 3; axis >= 0; --axis)
      if (!even_.add(c_.sizes[axis], stride(a_, axis), stride(b_, axis), stride(c_, axis))) break;
    if (even_.count < kManyProducts) return false;
    const bool is_cut = threads_ > 1 && work >= kLeastWork;
    const int64_t pieces = is_cut ? 2 * threads_ : 1;
    piece_ =
        ((even_.count + pieces - 1) / pieces + kManyProducts - 1) / kManyProducts * kManyProducts;
    const int64_t parts = batches_ / even_.count * ((even_.count + piece_ - 1) / piece_);
    if (parts > INT32_MAX || !multiply_many(0)) return false;
    if (is_cut && parts > 1)
      return pto_parallel(
                 static_cast<int32_t>(parts - 1),
                 [](void* self, int32_t part) {
                   return static_cast<Batches*>(self)->multiply_many(part + 1) ? 0 : 1;
                 },
                 this) == 0;
    for (int64_t part = 1; part < parts; ++part) multiply_many(part);
    return true;
  }

  bool multiply_many(int64_t part) const {
    const int64_t pieces = (even_.count + piece_ - 1) / piece_;
    const int64_t from = part % pieces * piece_, batch = part / pieces * even_.count + from;
    pto_matmul_job job = {};
    job.precision = precision_, job.depth = static_cast<int32_t>(depth_);
    job.rows = static_cast<int32_t>(rows_), job.cols = static_cast<int32_t>(cols_);
    job.a = plain(at(a_, batch, 0, 0));
    job.b = plain(at(b_, batch, 0, 0));
    job.c = plain(at(c_, batch, 0, 0));
    return pto_matmul_many(&job, least(piece_, even_.count - from), even_.a, even_.b, even_.c);
  }

  // The distance of neighbours of x along an axis of c.
  int64_t stride(const pto_tensor& x, int axis) const {
    const int of = axis - c_.rank + x.rank;
    return of >= 0 && x.sizes[of] != 1 ? x.strides[of] : 0;
  }

  static int64_t count(const pto_tensor& x) {
    int64_t found = 1;
    for (int axis = 0; axis + 2 < x.rank; ++axis) found *= x.sizes[axis];
    return found;
  }

  // A single page is read where it lies, by any loop.
  static bool is_one(const pto_pages* pages) { return pages && pages->runs.count == 1; }
  static pto_tensor lying(pto_tensor b, const pto_pages* pages) {
    if (!is_one(pages)) return b;
    const int64_t place = static_cast<const char*>(b.data) - static_cast<char*>(pages->copy);
    b.data = const_cast<char*>(pto_run_at(&pages->runs, 0)) + place;
    return b;
  }

  // The matrix of x that batch `batch` of c reads, from a row and column on.
  pto_tensor at(const pto_tensor& x, int64_t batch, int64_t row, int64_t col) const {
    int64_t place = row * x.strides[x.rank - 2] + col * x.strides[x.rank - 1];
    for (int axis = c_.rank - 3; axis >= 0; --axis) {
      place += batch % c_.sizes[axis] * stride(x, axis);
      batch /= c_.sizes[axis];
    }
    pto_tensor moved = x;
    moved.data = static_cast<char*>(x.data) + place * (x.type_bits / 8);
    return moved;
  }
  static pto_matmul_matrix plain(const pto_tensor& x) {
    return pto_matmul_plain(x.data, matmul_type(x), x.strides[x.rank - 2], x.strides[x.rank - 1]);
  }

  // Multiplies a part, from strip to strip where b is packed.
  int32_t multiply(int64_t item) const {
    const int64_t batch = item / cut_.count();
    Rectangle part = cut_.part(item % cut_.count());
    if (part.rows == 0) return 0;
    for (const int64_t end = part.col + part.cols; part.col < end; part.col += part.cols) {
      const auto packed = packed_.at(at(b_, batch, 0, part.col).data, end - part.col);
      part.cols = packed.cols > 0 ? packed.cols : end - part.col;
      if (const int32_t code = multiply(batch, part, packed)) return code;
    }
    return 0;
  }
  int32_t multiply(int64_t batch, const Rectangle& part, const PackedRight::Columns& packed) const {
    const bool reals = c_.type_code == kFloat || c_.type_code == kBfloat;
    if (reals && c_.type_bits == 64)
      return by_sums<double, double>(batch, part, packed, PTO_MATMUL_F64);
    if (reals) return by_sums<float, float>(batch, part, packed, PTO_MATMUL_F32);
    if (c_.type_bits == 64) return by_sums<int64_t, int64_t>(batch, part, packed, PTO_MATMUL_I64);
    return by_sums<int32_t, int32_t>(batch, part, packed, PTO_MATMUL_I32);
  }

  // Says whether the loops read the operands as they are where sums are of this type.
  bool reads(int sums) const {
    const int type = matmul_type(a_);
    if (type == sums) return true;
    if (sums == PTO_MATMUL_F32) return type == PTO_MATMUL_F16 || type == PTO_MATMUL_BF16;
    const bool is_short = type == PTO_MATMUL_I16 && (a_.type_code == kInt || c_.type_bits == 16);
    return sums == PTO_MATMUL_I32 && (type == PTO_MATMUL_I8 || type == PTO_MATMUL_U8 || is_short);
  }

  // Multiplies by sums of type Sum, which the loops write, or which become elements of c.
  template <class Sum, class Wide>
  int32_t by_sums(int64_t batch, const Rectangle& part, const PackedRight::Columns& packed,
                  int sums) const {
    pto_matmul_job job = {};
    job.precision = precision_;
    job.depth = static_cast<int32_t>(depth_);
    job.rows = static_cast<int32_t>(part.rows);
    job.cols = static_cast<int32_t>(part.cols);
    const pto_tensor a = at(a_, batch, part.row, 0), b = at(b_, batch, 0, part.col),
                     c = at(c_, batch, part.row, part.col);
    job.a = plain(a);
    job.b = plain(b);
    job.c = plain(c);
    const bool is_read = reads(sums);
    if (packed.cols > 0 && is_read)
      packed_.set(&job, packed);
    else if (threads_ <= 1)
      job.soon = soon_, job.soon_parts = least(batches_ - batch, int64_t{1} << 20),
      job.is_asked = is_asked_;
    if (pages_) job.b_pages = pages_;
    if (pages_ && !is_read) pto_copy_pages(pages_);
    const HostMemory<Wide> left(is_read ? 0 : part.rows * depth_),
        right(is_read ? 0 : depth_ * part.cols);
    if (!left.data()) return pto_fail_memory(services_, where_, left.bytes());
    if (!right.data()) return pto_fail_memory(services_, where_, right.bytes());
    if (!is_read) {
      widen(a, part.rows, depth_, left.data());
      widen(b, depth_, part.cols, right.data());
      job.a = pto_matmul_plain(left.data(), sums, depth_, 1);
      job.b = pto_matmul_plain(right.data(), sums, part.cols, 1);
    }
    const bool rounds = is_read && job.c.col_stride == 1 && job.c.type == job.a.type &&
                        depth_ <= pto_matmul_narrow_depth(&job);
    if (job.c.type == sums || rounds) return multiply_turned(job);
    return by_pieces<Sum>(job, c, part, sums);
  }

  // Rows of the result that lie dense stream by: a column becomes a row, and b is read as a, where
  // they are of one type.
  static int32_t multiply_turned(const pto_matmul_job& job) {
    if (job.a.type == job.b.type && job.c.row_stride == 1 &&
        (job.c.col_stride != 1 || job.cols == 1)) {
      pto_matmul_job other = turned(job);
      if (other.b_pages) pto_copy_pages(other.b_pages);
      other.b_pages = nullptr;
      return pto_matmul(&other);
    }
    return pto_matmul(&job);
  }
  static pto_matmul_job turned(const pto_matmul_job& job) {
    pto_matmul_job other = job;
    other.a = turned(job.b), other.b = turned(job.a), other.c = turned(job.c);
    other.rows = job.cols, other.cols = job.rows;
    other.packed = nullptr, other.packed_cols = other.packed_first = 0;
    other.is_turned = 1;
    return other;
  }
  static pto_matmul_matrix turned(const pto_matmul_matrix& m) {
    return pto_matmul_plain(m.data, m.type, m.col_stride, m.row_stride);
  }

  template <class Sum>
  int32_t by_pieces(pto_matmul_job job, const pto_tensor& c, const Rectangle& part,
                    int sums) const {
    const int height = least(part.rows, 1024), across = static_cast<int>(kPiece / height) & -32,
              width = least(part.cols, across), packed_first = job.packed_first;
    const HostMemory<Sum> memory(int64_t(height) * width);
    if (!memory.data()) return pto_fail_memory(services_, where_, memory.bytes());
    const pto_matmul_matrix a = job.a, b = job.b;
    const auto moved = [](pto_matmul_matrix m, int64_t bytes, int64_t row, int64_t col) {
      m.data = static_cast<char*>(m.data) + (row * m.row_stride + col * m.col_stride) * bytes;
      return m;
    };
    const bool is_read = reads(sums);
    const int64_t item = is_read ? a_.type_bits / 8 : int64_t(sizeof(Sum));
    for (int64_t row = 0; row < part.rows; row += height) {
      for (int64_t col = 0; col < part.cols; col += width) {
        job.rows = least(height, part.rows - row), job.cols = least(width, part.cols - col);
        job.a = moved(a, item, row, 0);
        job.b = moved(b, item, 0, col);
        if (job.packed) job.packed_first = packed_first + static_cast<int>(col);
        job.c = pto_matmul_plain(memory.data(), sums, job.cols, 1);
        if (const int32_t code = pto_matmul(&job)) return code;
        narrow(c, row, col, job.rows, job.cols, memory.data());
      }
    }
    return 0;
  }

  template <class Wide>
  static void widen(const pto_tensor& x, int64_t rows, int64_t cols, Wide* to) {
    const int64_t down = x.strides[x.rank - 2], across = x.strides[x.rank - 1];
    with_type(x, [&](auto* from) {
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < cols; ++j)
          to[i * cols + j] = converted<Wide>(from[i * down + j * across]);
    });
  }
  template <class Sum>
  static void narrow(const pto_tensor& c, int64_t row, int64_t col, int64_t rows, int64_t cols,
                     const Sum* from) {
    const int64_t down = c.strides[c.rank - 2], across = c.strides[c.rank - 1];
    with_type(c, [&](auto* to) {
      using To = ElementOf<decltype(to)>;
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < cols; ++j)
          to[(row + i) * down + (col + j) * across] = static_cast<To>(from[i * cols + j]);
    });
  }

  pto_services* const services_;
  const char* const where_;
  const pto_tensor &c_, &a_;
  const pto_tensor b_;
  const int precision_;
  const PackedRight packed_;
  const int64_t rows_, cols_, depth_, batches_;
  const int threads_;
  const MatrixCut cut_;
  EvenRun even_;
  int64_t piece_ = 1;  // of those in a row
  pto_pages* const pages_;
  pto_runs* const soon_;
  const bool is_asked_;
};

}  // namespace
}  // namespace pto

namespace pto {
namespace {

void ask(const pto_runs& runs) {
  for (int64_t i = 0; i < runs.count; ++i)
    for (int64_t byte = 0; byte < runs.bytes; byte += 64)
      __builtin_prefetch(pto_run_at(&runs, i) + byte, 0, 2);
}

// Where the last requests of a thread lie, so that nobody asks twice.
class Asked {
 public:
  bool has(const pto_tensor& x, const pto_pages* pages) const {
    const char* first = static_cast<const char*>(x.data);
    if (pages && pages->runs.count > 0)
      first += pto_run_at(&pages->runs, 0) - static_cast<char*>(pages->copy);
    int64_t last = x.type_bits / 8 - 1;
    for (int axis = 0; axis < x.rank; ++axis)
      if (x.strides[axis] > 0) last += (x.sizes[axis] - 1) * x.strides[axis] * (x.type_bits / 8);
    for (const Range& range : ranges_)
      if (range.has_gaps ? first == range.data : first >= range.data && first + last < range.end)
        return true;
    return false;
  }
  void add(const pto_runs& runs) {
    const char* const data = pto_run_at(&runs, 0);
    const bool has_gaps = runs.places || (runs.count > 1 && runs.distance != runs.bytes);
    const char* const end = has_gaps ? nullptr : data + runs.bytes * runs.count;
    for (Range& range : ranges_)
      if (!has_gaps && range.end == data) {
        range.end = end;
        return;
      }
    ranges_[next_++ % kRanges] = {data, end, has_gaps};
  }

 private:
  static constexpr int kRanges = 4;  // keys and values, of this page and the next
  struct Range {
    const char *data, *end;
    bool has_gaps;  // known by its first run alone
  };
  Range ranges_[kRanges] = {};
  unsigned next_ = 0;
};

}  // namespace
}  // namespace pto

int32_t pto_multiply(pto_services* services, const char* where, const pto_tensor* c,
                     const pto_tensor* a, const pto_tensor* b, int32_t precision,
                     const pto_packed_right* packed, pto_pages* pages, const pto_runs* soon,
                     int32_t threads) {
  struct Own {  // a pointer, since there is little room for what each thread has from its start
    pto::Asked* const of = new pto::Asked;
    ~Own() { delete of; }
  };
  thread_local const Own own;
  pto::Asked& asked = *own.of;
  pto_runs runs = soon ? *soon : pto_runs{};
  const bool asks = runs.data && runs.count > 0, is_asked = asked.has(*b, pages);
  if (pages && pages->runs.count <= 0) pages = nullptr;
  if (pages && !is_asked) pto::ask(pages->runs);
  pto::Batches batches(services, where, *c, *a, *b, precision, packed, pages,
                       asks ? &runs : nullptr, is_asked, threads);
  const int32_t code = batches.run();
  if (asks && runs.count == 0) asked.add(*soon);
  return code;
}
