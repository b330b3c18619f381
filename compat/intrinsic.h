// SPDX-License-Identifier: Apache-2.0
// Intrinsic: tells a kernel of the public form its block and its vector core.
//
//     #include "intrinsic.h"
//     extern "C" __aicore__ void kernel_entry(__gm__ int64_t* args) {
//       for (int64_t i = get_block_idx(args); i < args[2]; i += get_block_num(args)) work(i);
//     }
//
// Invariant: the answers are the running core's; nothing reads the slots.
// Thread safety: as get_block_idx() of pto/pto-inst.hpp.
#pragma once
#include <pto/common/builtin_names.hpp>

static inline int32_t get_block_idx(int64_t*) { return pto_block_index(); }
static inline int32_t get_block_num(int64_t*) { return pto_block_count(); }
// Returns 0 or 1 among the vector cores of a mixed task.
static inline int32_t get_sub_block_id(int64_t*) { return pto_lane_index(); }

// Copies are made at once here, so their engines need no memory; but kernels do nothing when they
// get none.
enum DmaWorkspaceKind { DMA_WORKSPACE_SDMA, DMA_WORKSPACE_URMA, DMA_WORKSPACE_KIND_COUNT };
static inline uint8_t* get_dma_workspace(int64_t*, int kind) {
  static uint8_t unused[64];
  return kind >= 0 && kind < DMA_WORKSPACE_KIND_COUNT ? unused : nullptr;
}
