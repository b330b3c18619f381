// SPDX-License-Identifier: Apache-2.0
// Facts of the platform that public kernels ask for.
//
//     const double seconds = double(get_sys_cnt() - start) / PLATFORM_PROF_SYS_CNT_FREQ;
//
// Thread safety: constants.
#pragma once

#include <stdint.h>

constexpr uint64_t PLATFORM_PROF_SYS_CNT_FREQ = 50000000;  // ticks of get_sys_cnt() in a second
