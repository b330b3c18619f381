// SPDX-License-Identifier: Apache-2.0
// OperatorShapes: the shapes of an operator's outputs, evaluated on Python's sizes: ints, sizes of
// PyTorch or JAX that are symbols.
//
// Thread safety: immutable; evaluating needs Python's lock.
#pragma once

#include <nanobind/nanobind.h>

#include "pto/abi/operator.h"

namespace pto::bindings {

struct OperatorShapes {
  const pto_operator* op;
  const pto_shapes* shapes;  // lives as long as the process
};

}  // namespace pto::bindings
