// SPDX-License-Identifier: Apache-2.0
// The instruction set for kernels: one include.
//
//     #include <pto/pto-inst.hpp>
//     using namespace pto;
//     __global__ __aicore__ void twice(__gm__ float* out, __gm__ const float* x, uint32_t n) {
//       Tile<TileType::Vec, float, 16, 256> t;
//       TLOAD(t, GlobalTensor(x, n));
//       TADD(t, t, t);
//       TSTORE(GlobalTensor(out, n), t);
//     }
//     void run(float* out, const float* x, uint32_t n) { EXEC_KERNEL_CMD(twice, 1, out, x, n); }
//
// Link with libpto: `python -m pto config --cxxflags` and `--ldflags` print the flags. With
// -DPTO_CHECKED each instruction checks its operands, see isa/kernel/checked.hpp.
//
// Thread safety: as each header says.
#pragma once
// Sources for the public simulator get its rules, see isa/tile/rules.hpp.
#if defined(__CPU_SIM) && __has_include(<pto/common/simulator_rules.hpp>)
#include <pto/common/simulator_rules.hpp>
#endif

#include "pto/abi/acl.h"
#include "pto/isa/comm/comm.hpp"
#include "pto/isa/element/int4.hpp"
#include "pto/isa/elementwise/convert_modes.hpp"
#include "pto/isa/elementwise/fused.hpp"
#include "pto/isa/elementwise/generate.hpp"
#include "pto/isa/elementwise/partial.hpp"
#include "pto/isa/elementwise/quantize.hpp"
#include "pto/isa/instructions.hpp"
#include "pto/isa/kernel/cores.hpp"
#include "pto/isa/kernel/kernel.hpp"
#include "pto/isa/kernel/launch.hpp"
#include "pto/isa/matrix/fixpipe.hpp"
#include "pto/isa/matrix/img2col.hpp"
#include "pto/isa/matrix/matmul.hpp"
#include "pto/isa/matrix/matrix_transfer.hpp"
#include "pto/isa/memory/concat.hpp"
#include "pto/isa/memory/gather.hpp"
#include "pto/isa/memory/global_gather.hpp"
#include "pto/isa/memory/move.hpp"
#include "pto/isa/memory/prefetch.hpp"
#include "pto/isa/memory/reshape.hpp"
#include "pto/isa/reduce/arg_reduce.hpp"
#include "pto/isa/reduce/histogram.hpp"
#include "pto/isa/reduce/pair_reduce.hpp"
#include "pto/isa/reduce/sort.hpp"
#include "pto/isa/sync/pipe.hpp"
#include "pto/isa/tile/print.hpp"
#include "pto/isa/tile/tile_layouts.hpp"
#include "pto/isa/tile/words.hpp"

#include "pto/isa/names.hpp"  // last: lifts what is declared above

// Sources for the public simulator write its names without `pto::`.
#if defined(__CPU_SIM) && __has_include(<pto/common/cpu_stub.hpp>)
#include <pto/common/cpu_stub.hpp>
#endif

// A TensorFlow kernel passes plain pointers; this header finds the tensors that bound them.
#if defined(TENSORFLOW_CORE_FRAMEWORK_OP_KERNEL_H_)
#if __has_include(<pto/common/tensorflow_kernels.hpp>)
#include <pto/common/tensorflow_kernels.hpp>
#endif
#endif

#if !defined(PTO_TARGET_AVX512) && !defined(PTO_TARGET_AVX2) && !defined(PTO_PORTABLE)
#pragma message(                                                                                   \
    "pto: portable instructions, correct but slow; `python -m pto config --cxxflags` prints this " \
    "machine's flags, -DPTO_PORTABLE keeps this quiet")
#endif
