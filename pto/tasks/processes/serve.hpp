// SPDX-License-Identifier: Apache-2.0
// Serve: the loop of a worker process.
//
//     struct Mine : TaskExecutor { ... };
//     Mine mine;
//     serve({mailbox, heap, bell_fd, spin_us}, mine);        // until the host says stop
//
// Thread safety: of one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "pto/abi/host.h"
#include "pto/launch/number.hpp"
#include "pto/tasks/processes/mailbox.hpp"

namespace pto {

// What a worker does with programs and tasks. What its functions throw fails the task; an error of
// load() fails each task of the program.
class TaskExecutor {
 public:
  virtual ~TaskExecutor() = default;
  virtual void load(uint32_t program, std::span<const char> image) = 0;
  virtual void forget(uint32_t program) = 0;
  // `seconds_left` of the run's deadline; 0: it has none.
  virtual void run(uint32_t program, std::span<const pto_tensor> tensors, const Numbers& scalars,
                   double seconds_left) = 0;
};

struct WorkerPlace {
  std::shared_ptr<SharedRegion> mailbox, heap;
  int bell_fd;  // of the host: a number written there wakes it
  int spin_us;
};

void serve(const WorkerPlace& place, TaskExecutor& executor);

}  // namespace pto
