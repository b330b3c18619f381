// SPDX-License-Identifier: Apache-2.0
// Linear layers whose weights have 8 or 4 bits (isa/cpu/matmul_coded.hpp). Activations stay floats:
// weights are widened while they are loaded. A weight that is seen again is packed as the loops
// read it, followed by its rows and columns; packed or not, the bits are the same. Activations that
// are bytes already multiply exactly; each sum is rounded to f32 and scaled.
#include <cstring>

#include "pto/ops/linear_parts.hpp"

namespace {

constexpr int64_t kSizesFloats = 4;  // behind a packed weight; see quantized.py
constexpr char kOtherWeight[] =
    "linear: the packed weight has another number of rows or columns\nit has the sizes of the "
    "weight that it was packed from\npack the weight that is given";

int64_t packed_floats(int type, int64_t depth, int64_t cols) {
  pto_matmul_job job = job_of(0, depth, cols);
  job.b.type = type;
  return pto_matmul_packed_bytes(&job) / static_cast<int64_t>(sizeof(float));
}

// A dense weight of codes, cols x depth, and the factors and zeros of its groups.
struct Coded {
  using Sum = float;
  int type = PTO_MATMUL_I8;
  char* weight = nullptr;
  float* packed = nullptr;
  int64_t depth = 0, cols = 0;
  int32_t group = 0;
  pto_matmul_matrix factor = {}, zero = {};

  bool is_packed() const { return false; }  // a part widens its columns, packed or not
  void give(pto_matmul_job& job, const Part& part) const {
    job.b = {weight + part.col * (type == PTO_MATMUL_I8 ? depth : depth / 2),
             type,
             PTO_MATMUL_UNBOXED,
             PTO_MATMUL_UNBOXED,
             0,
             0,
             1,
             depth};
    job.packed = packed;
    job.packed_first = static_cast<int32_t>(part.col);
    job.packed_cols = static_cast<int32_t>(cols);
    job.b_group = group;
    job.b_factor = from(factor, part.col);
    job.b_zero = from(zero, part.col);
  }

  bool is_packed_so(const pto_tensor& tensor) const {
    const int64_t floats = packed_floats(type, depth, cols), sizes[] = {depth, cols};
    return tensor.sizes[0] == floats + kSizesFloats &&
           std::memcmp(static_cast<const float*>(tensor.data) + floats, sizes, sizeof sizes) == 0;
  }

  int32_t pack(const KernelArguments& in, float* to) const {
    const int64_t sizes[] = {depth, cols}, parts = quotient_up(cols, kNarrowest);
    if (std::max(depth, cols) > kSizeMax) return in.fail(kTooLarge);
    auto [part, last] = in.items(parts);
    if (last == parts) std::memcpy(to + packed_floats(type, depth, cols), sizes, sizeof sizes);
    for (; part < last; ++part) {
      const int64_t col = part * kNarrowest, count = std::min(cols - col, kNarrowest);
      pto_matmul_job job = job_of(0, depth, count);
      give(job, {0, 0, col, count});
      job.packed = to;
      job.packs = 1;
      pto_matmul(&job);
    }
    return 0;
  }

 private:
  static pto_matmul_matrix from(pto_matmul_matrix m, int64_t col) {
    const int64_t bytes = m.type == PTO_MATMUL_F32 ? 4 : 2;
    if (m.data) m.data = static_cast<char*>(m.data) + col * bytes;
    return m;
  }
};

template <class Named>
Coded coded(const Named& in, int type) {
  const pto_tensor& weight = in.tensor("weight"_arg);
  Coded found;
  found.type = type;
  found.weight = static_cast<char*>(weight.data);
  found.cols = weight.sizes[0];
  found.depth = weight.sizes[1] * (type == PTO_MATMUL_I8 ? 1 : 2);
  return found;
}

template <class Epilogue, class Named>
int32_t run(const Named& in, Coded& weight, const Epilogue& epilogue) {
  const Rows<PTO_TYPE_0> x(in.tensor("x"_arg));
  if (!in.is_absent("packed"_arg)) {
    if (!weight.is_packed_so(in.tensor("packed"_arg))) return in.fail(kOtherWeight);
    weight.packed = in.data("packed"_arg);
  }
  return Product(in, x, weight.cols, epilogue.result, weight, epilogue).run();
}

// A dense weight of bytes against bytes.
struct Bytes {
  using Sum = int32_t;
  const pto_tensor& weight;
  bool is_packed() const { return false; }
  void give(pto_matmul_job& job, const Part& part) const {
    const auto* const from = static_cast<const int8_t*>(weight.data) + part.col * weight.sizes[1];
    job.b = matrix(from, 1, weight.sizes[1]);
  }
};

}  // namespace

PTO_OPERATOR_KERNEL(pack_int8) { return coded(in, PTO_MATMUL_I8).pack(in, in.data("result"_arg)); }

PTO_OPERATOR_KERNEL(linear_int8) {
  Coded weight = coded(in, PTO_MATMUL_I8);
  auto epilogue = epilogue_of<Epilogue<PTO_TYPE_0, float, PTO_TYPE_2>>(in, weight.cols);
  epilogue.scale = in.data("scale"_arg);
  return run(in, weight, epilogue);
}

PTO_OPERATOR_KERNEL(pack_int4) {
  return coded(in, PTO_MATMUL_I4X2).pack(in, in.data("result"_arg));
}

PTO_OPERATOR_KERNEL(linear_int4) {
  Coded weight = coded(in, PTO_MATMUL_I4X2);
  weight.group = static_cast<int32_t>(in.integer("group"_arg));
  weight.factor = matrix<const PTO_TYPE_2>(in.data("scale"_arg), weight.cols, 1);
  if (!in.is_absent("zero"_arg))
    weight.zero = matrix<const PTO_TYPE_2>(in.data("zero"_arg), weight.cols, 1);
  return run(in, weight, epilogue_of<Epilogue<PTO_TYPE_0>>(in, weight.cols));
}

PTO_OPERATOR_KERNEL(scaled_matmul) {
  const Bytes weight = {in.tensor("b"_arg)};
  const Rows<int8_t> a(in.tensor("a"_arg));
  const int64_t cols = weight.weight.sizes[0];
  auto epilogue = epilogue_of<Epilogue<PTO_TYPE_3, int32_t, PTO_TYPE_3>>(in, cols);
  epilogue.scale = in.data("col_scale"_arg);
  epilogue.row_scale = in.data("row_scale"_arg);
  return Product(in, a, cols, epilogue.result, weight, epilogue).run();
}
