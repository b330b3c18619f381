// SPDX-License-Identifier: Apache-2.0
// Parameter structures of the kernels in pto/ops/guids, in the public spelling.
//
//     HPU_PARAMS_STUB(ns_ReluKernel::Params);
//     params->threshold.f = 0.0;
//
// Thread safety: plain data.
#pragma once

namespace ns_ReluKernel {
struct Params {
  union {
    int i;
    float f;
  } threshold;
};
}  // namespace ns_ReluKernel
