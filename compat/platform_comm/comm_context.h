// SPDX-License-Identifier: Apache-2.0
// What a rank knows of its group: where the memory of each rank begins that others may use.
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
