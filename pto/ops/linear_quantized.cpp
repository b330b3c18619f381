// SPDX-License-Identifier: Apache-2.0
// Linear layers whose weights have 8 or 4 bits (isa/cpu/matmul_coded.hpp). Activations stay floats:
// weights are widened while they are loaded. A weight that is seen again is packed as the loops
// read it, followed by its rows and columns; packed or not, the bits are the same.
#include <cstring>

#include "pto/ops/linear_coded.hpp"
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

bool is_packed_so(const Coded& weight, const pto_tensor& tensor) {
  const int64_t floats = packed_floats(weight.type, weight.depth, weight.cols);
  const int64_t sizes[] = {weight.depth, weight.cols};
  return tensor.sizes[0] == floats + kSizesFloats &&
         std::memcmp(static_cast<const float*>(tensor.data) + floats, sizes, sizeof sizes) == 0;
}

int32_t pack(const KernelArguments& in, const Coded& weight, float* to) {
  const int64_t depth = weight.depth, cols = weight.cols, sizes[] = {depth, cols};
  const int64_t parts = quotient_up(cols, kPartCols);
  if (std::max(depth, cols) > kSizeMax) return in.fail(kTooLarge);
  auto [part, last] = in.items(parts);
  if (last == parts) std::memcpy(to + packed_floats(weight.type, depth, cols), sizes, sizeof sizes);
  for (; part < last; ++part) {
    const int64_t col = part * kPartCols, count = std::min(cols - col, kPartCols);
    pto_matmul_job job = job_of(0, depth, count);
    weight.give(job, {0, 0, col, count});
    job.packed = to;
    job.packs = 1;
    pto_matmul(&job);
  }
  return 0;
}

template <class Epilogue, class Named>
int32_t run(const Named& in, Coded& weight, const Epilogue& epilogue) {
  const TensorRows<PTO_TYPE_0> x(in.tensor("x"_arg));
  if (!in.is_absent("packed"_arg)) {
    if (!is_packed_so(weight, in.tensor("packed"_arg))) return in.fail(kOtherWeight);
    weight.packed = in.data("packed"_arg);
  }
  return Product(in, x, weight.cols, epilogue.result, weight, epilogue).run();
}

template <class Named>
int32_t run_int8(const Named& in, Coded weight) {
  auto epilogue = epilogue_of<Epilogue<PTO_TYPE_0, float, PTO_TYPE_2>>(in, weight.cols);
  epilogue.scale = in.data("scale"_arg);
  return run(in, weight, epilogue);
}
template <class Named>
int32_t run_int4(const Named& in, Coded weight) {
  weight = in_groups<PTO_TYPE_2>(in, weight);
  return run(in, weight, epilogue_of<Epilogue<PTO_TYPE_0>>(in, weight.cols));
}

}  // namespace

PTO_OPERATOR_KERNEL(pack_int8) { return pack(in, coded(in, PTO_MATMUL_I8), in.data("result"_arg)); }

PTO_OPERATOR_KERNEL(linear_int8) { return run_int8(in, coded(in, PTO_MATMUL_I8)); }

PTO_OPERATOR_KERNEL(linear_int8_packed) { return run_int8(in, coded_elsewhere(in, PTO_MATMUL_I8)); }

PTO_OPERATOR_KERNEL(pack_int4) {
  return pack(in, coded(in, PTO_MATMUL_I4X2), in.data("result"_arg));
}

PTO_OPERATOR_KERNEL(linear_int4) { return run_int4(in, coded(in, PTO_MATMUL_I4X2)); }

PTO_OPERATOR_KERNEL(linear_int4_packed) {
  return run_int4(in, coded_elsewhere(in, PTO_MATMUL_I4X2));
}
