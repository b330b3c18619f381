// SPDX-License-Identifier: Apache-2.0
// The most that a call may have, for every room and every adapter.
//
//     int64_t sizes[PTO_MAX_RANK];
//
// Thread safety: constants.
#pragma once

enum {
  PTO_MAX_RANK = 8,        // axes of a tensor
  PTO_MAX_TENSORS = 32,    // tensors that a call of an operator or a jitted function passes
  PTO_MAX_ARGUMENTS = 40,  // parameters in an operator's schema, tensors and others
  PTO_MAX_OUTPUTS = 32,    // results that an operator of PyTorch returns one by one
  PTO_MAX_BUFFERS = 64     // tensors of a compiled program: inputs, outputs and temporaries
};
