// SPDX-License-Identifier: Apache-2.0
// Instructions: every instruction, without launch and host calls; generated kernels include it.
//
//     #include "pto/isa/instructions.hpp"
//     using namespace pto::isa;     // names.hpp lifts what kernels use into pto
//     Tile<TileType::Vec, float, 1, kMicro<float>> t;
//     TLOAD(t, GlobalTensor(x, kMicro<float>));
//     TEXP(t, t);
//     TSTORE(GlobalTensor(y, t.Numel), t);
//
// Invariant: no standard header but <stdint.h> and <stddef.h>; C++17; nothing throws, and only a
// tile larger than 16 KB allocates.
// Thread safety: as each family's header says.
#pragma once
#include "pto/isa/elementwise/compare.hpp"
#include "pto/isa/elementwise/convert.hpp"
#include "pto/isa/elementwise/elementwise.hpp"
#include "pto/isa/elementwise/expand.hpp"
#include "pto/isa/memory/transfer.hpp"
#include "pto/isa/reduce/reduce.hpp"
#ifndef __OPTIMIZE__
#include "pto/isa/elementwise/convert_modes.hpp"  // without optimisation no constant mode is known
#endif
