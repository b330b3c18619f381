// SPDX-License-Identifier: Apache-2.0
// Guid add_fwd_DTYPE: (x, y) -> out, x + y, each broadcast to the sizes of out as NumPy does.
#include "pto/abi/guid.h"
#include "pto/ops/guids/typed.hpp"

namespace pto::guids {
namespace {

// Strides of a tensor seen with the sizes of `out`; false where it does not broadcast.
bool broadcast(const pto_tensor& one, const pto_tensor& out, int64_t* strides) {
  const int32_t missing = out.rank - one.rank;
  if (missing < 0) return false;
  for (int32_t axis = 0; axis < out.rank; ++axis) {
    const bool is_repeated = axis < missing || one.sizes[axis - missing] == 1;
    if (!is_repeated && one.sizes[axis - missing] != out.sizes[axis]) return false;
    strides[axis] = is_repeated ? 0 : one.strides[axis - missing];
  }
  return true;
}

// Returns the offset of element `index`, counted row-major over all but the last axis.
int64_t offset_of(int64_t index, const pto_tensor& out, const int64_t* strides) {
  int64_t offset = 0;
  for (int32_t axis = out.rank - 2; axis >= 0; --axis) {
    offset += index % out.sizes[axis] * strides[axis];
    index /= out.sizes[axis];
  }
  return offset;
}

template <class T>
T sum(T a, T b) {
  return static_cast<T>(a + b);
}
template <>
int32_t sum(int32_t a, int32_t b) {  // wraps around
  return static_cast<int32_t>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
}
template <>
isa::half sum(isa::half a, isa::half b) {
  return isa::half(float(a) + float(b));
}
template <>
isa::bfloat16_t sum(isa::bfloat16_t a, isa::bfloat16_t b) {
  return isa::bfloat16_t(float(a) + float(b));
}

template <class T>
int32_t add(const pto_args* args) {
  const KernelArguments in(args);
  if (const int32_t code = check_types<T>(in, 3)) return code;
  const pto_tensor& out = in.tensor(2);
  int64_t x_strides[PTO_MAX_RANK] = {}, y_strides[PTO_MAX_RANK] = {};
  if (out.rank > PTO_MAX_RANK || !broadcast(in.tensor(0), out, x_strides) ||
      !broadcast(in.tensor(1), out, y_strides)) {
    return refuse_sizes(in);
  }
  const int last = out.rank - 1;
  const int64_t row = out.rank == 0 ? 1 : out.sizes[last];
  const int64_t x_step = out.rank == 0 ? 0 : x_strides[last];
  const int64_t y_step = out.rank == 0 ? 0 : y_strides[last];
  const int64_t out_step = out.rank == 0 ? 0 : out.strides[last];
  const auto rows = in.items(row == 0 ? 0 : elements(out) / row);
  for (int64_t r = rows.first; r < rows.last; ++r) {
    const T* x = in.data<const T>(0) + offset_of(r, out, x_strides);
    const T* y = in.data<const T>(1) + offset_of(r, out, y_strides);
    T* to = in.data<T>(2) + offset_of(r, out, out.strides);
    if (x_step == 1 && y_step == 1 && out_step == 1) {
      for (int64_t i = 0; i < row; ++i) to[i] = sum(x[i], y[i]);
    } else {
      for (int64_t i = 0; i < row; ++i) to[i * out_step] = sum(x[i * x_step], y[i * y_step]);
    }
  }
  return 0;
}

constexpr uint32_t kFlags = PTO_GUID_SPLITS | PTO_GUID_IN_PLACE | PTO_GUID_TAKES_STRIDES;

PTO_GUID("add_fwd_f32", add<float>, kFlags)
PTO_GUID("add_fwd_bf16", add<isa::bfloat16_t>, kFlags)
PTO_GUID("add_fwd_f16", add<isa::half>, kFlags)
PTO_GUID("add_fwd_f64", add<double>, kFlags)
PTO_GUID("add_fwd_i32", add<int32_t>, kFlags)

}  // namespace
}  // namespace pto::guids
