// SPDX-License-Identifier: Apache-2.0
// Parameter structures of the kernels in pto/ops/guids, in the public spelling.
//
//     HPU_PARAMS_STUB(synBeamParams);
//     params->bsw = k;
//     params->axis = x.dim() - 1 - axis;   // 0 is the innermost
//
// Thread safety: plain data.
#pragma once

struct synBeamParams {
  unsigned bsw;
  unsigned axis;
  bool bottomK;
};
