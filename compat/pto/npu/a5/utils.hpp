// SPDX-License-Identifier: Apache-2.0
// Names of this chip's own folder that public kernels use: GetScaleAddr(tile.data()), where the
// scales of an operand of TMATMUL_MX lie.
//
// Thread safety: as pto/isa/kernel/simulator.hpp.
#pragma once
#include <pto/pto-inst.hpp>

#include "pto/isa/kernel/simulator.hpp"
