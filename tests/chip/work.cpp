// SPDX-License-Identifier: Apache-2.0
// x[0] += times * STEP; it sleeps a millisecond first where SLOW is defined.
#include <time.h>
#include <pto/pto-inst.hpp>
#ifndef STEP
#define STEP 1
#endif
using namespace pto;
__global__ __aicore__ void Work(__gm__ int64_t* x, int64_t times) {
#ifdef SLOW
  const timespec time{0, 1000000};
  nanosleep(&time, nullptr);
#endif
  x[0] += times * STEP;
}
PTO_KERNEL(work, Work)
