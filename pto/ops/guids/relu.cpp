// SPDX-License-Identifier: Apache-2.0
// Guids relu_fwd_DTYPE and relu_bwd_DTYPE, with the names of the public samples beside them.
//
// relu_fwd(x) -> out: x where it is above the threshold or NaN, else 0. The threshold, 0 without
// params, is a float in params.
// relu_bwd(d_out, x, threshold = 0) -> d_x: d_out at the places that relu_fwd lets through.
#include <cstring>
#include <type_traits>

#include "pto/abi/guid.h"
#include "pto/ops/guids/typed.hpp"

namespace pto::guids {
namespace {

using isa::bfloat16_t;
using isa::half;

// A type that holds an element and the threshold: float if that is wide enough.
template <class T>
using Wide = std::conditional_t<(sizeof(T) <= 4 && !std::is_integral_v<T>), float, double>;

template <class T>
int32_t relu(const pto_args* args) {
  const KernelArguments in(args);
  if (const int32_t code = check_types<T>(in, 2)) return code;
  if (!has_sizes_of(in.tensor(0), in.tensor(1))) return refuse_sizes(in);
  float threshold = 0;
  if (args->params_bytes >= static_cast<int64_t>(sizeof threshold)) {
    std::memcpy(&threshold, args->params, sizeof threshold);
  }
  const T* x = in.data<const T>(0);
  T* out = in.data<T>(1);
  const auto items = in.items(elements(in.tensor(0)));
  for (int64_t i = items.first; i < items.last; ++i) {
    const T value = x[i];
    out[i] = static_cast<Wide<T>>(value) <= threshold ? T(0) : value;
  }
  return 0;
}

template <class T>
int32_t relu_backward(const pto_args* args) {
  const KernelArguments in(args);
  if (const int32_t code = check_types<T>(in, 3)) return code;
  if (!has_sizes_of(in.tensor(0), in.tensor(1)) || !has_sizes_of(in.tensor(0), in.tensor(2))) {
    return refuse_sizes(in);
  }
  const auto threshold = static_cast<Wide<T>>(args->n_scalars > 0 ? in.real(0) : 0);
  const T *d_out = in.data<const T>(0), *x = in.data<const T>(1);
  T* d_x = in.data<T>(2);
  const auto items = in.items(elements(in.tensor(0)));
  for (int64_t i = items.first; i < items.last; ++i) {
    const T value = d_out[i];
    d_x[i] = static_cast<Wide<T>>(x[i]) <= threshold ? T(0) : value;
  }
  return 0;
}

constexpr uint32_t kElementwise = PTO_GUID_SPLITS | PTO_GUID_IN_PLACE;

PTO_GUID("relu_fwd_f32", relu<float>, kElementwise)
PTO_GUID("relu_fwd_bf16", relu<bfloat16_t>, kElementwise)
PTO_GUID("relu_fwd_f16", relu<half>, kElementwise)
PTO_GUID("relu_fwd_f64", relu<double>, kElementwise)
PTO_GUID("relu_fwd_i32", relu<int32_t>, kElementwise)
PTO_GUID("relu_bwd_f32", relu_backward<float>, kElementwise)
PTO_GUID("relu_bwd_bf16", relu_backward<bfloat16_t>, kElementwise)
PTO_GUID("relu_bwd_f16", relu_backward<half>, kElementwise)
PTO_GUID("relu_bwd_f64", relu_backward<double>, kElementwise)

PTO_GUID("custom_relu_fwd_f32_gaudi2", relu<float>, kElementwise)
PTO_GUID("custom_relu_bwd_f32_gaudi2", relu_backward<float>, kElementwise)
PTO_GUID("custom_relu_fwd_bf16_gaudi2", relu<bfloat16_t>, kElementwise)
PTO_GUID("custom_relu_bwd_bf16_gaudi2", relu_backward<bfloat16_t>, kElementwise)

}  // namespace
}  // namespace pto::guids
