// SPDX-License-Identifier: Apache-2.0
// Cores: launches whose blocks have several cores: a cube core and one or two vector cores.
//
//     run_cores(8, 2, [&] { cube(x, w); }, [&] { vector(y); });   // 8 blocks of 1 + 2 cores
//     run_blocks(8, [&] { ring_reduce(ranks); });                 // 8 blocks of one core
//
// All cores of a launch run together, as fibers where they wait for each other; get_block_idx(),
// get_subblockid() and get_subblockdim() identify the running core.
// Errors: as EXEC_KERNEL_CMD: std::runtime_error where exceptions are enabled, else a non-zero code
// and pto_last_error().
//
// Thread safety: any thread may launch.
#pragma once
#include "pto/isa/kernel/launch.hpp"

PTO_NAMESPACE_BEGIN

template <class Cube, class Vector>
int32_t run_cores(int32_t blocks, int32_t lanes, const Cube& cube, const Vector& vector) {
  struct Both {
    const Cube& cube;
    const Vector& vector;
  } both = {cube, vector};
  const auto run = [](void* context) -> int32_t {
    const Both& bodies = *static_cast<Both*>(context);
    if (pto_core() == PTO_CORE_CUBE)
      bodies.cube();
    else
      bodies.vector();
    return 0;
  };
  return launch::finished(pto_launch_cores(blocks, lanes, 1, run, &both));
}

template <class Body>
int32_t run_blocks(int32_t blocks, const Body& body) {
  struct One {
    const Body& body;
  } one = {body};
  const auto run = [](void* context) -> int32_t {
    static_cast<One*>(context)->body();
    return 0;
  };
  return launch::finished(pto_launch_cores(blocks, 1, 0, run, &one));
}

PTO_NAMESPACE_END
