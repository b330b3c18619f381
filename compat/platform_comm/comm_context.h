// SPDX-License-Identifier: Apache-2.0
// Comm context: a rank's facts about its group: the start of each rank's shared memory.
//
//     auto* context = reinterpret_cast<CommContext*>(args[2]);
//     const uint64_t mine = context->windowsIn[context->rankId];
//
// Thread safety: a value.
#pragma once

#include <cstddef>
#include <cstdint>

static constexpr uint32_t COMM_MAX_RANK_NUM = 64;

struct CommContext {
  uint64_t workSpace, workSpaceSize;
  uint32_t rankId, rankNum;
  uint64_t winSize, windowsIn[COMM_MAX_RANK_NUM], windowsOut[COMM_MAX_RANK_NUM];
};
