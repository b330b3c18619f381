// SPDX-License-Identifier: Apache-2.0
// Serve: the loop of a worker process.
//
//     struct Mine : TaskExecutor { void load(uint32_t, std::span<const char>) override; };
//     Mine mine;                                             // with forget() and run()
//     serve({mailbox, heap, bell_fd, spin_us}, mine);        // until the host says stop
//
// Invariant: the worker answers each task once, in the order of its messages.
// Thread safety: one thread of the process calls serve(), once.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "pto/abi/host.h"
#include "pto/launch/number.hpp"
#include "pto/tasks/processes/mailbox.hpp"

namespace pto {

// Loads programs and runs tasks in a worker. An exception of run() fails the task; one of load()
// fails each task of the program.
class TaskExecutor {
 public:
  virtual ~TaskExecutor() = default;
  virtual void load(uint32_t program, std::span<const char> image) = 0;
  virtual void forget(uint32_t program) = 0;
  // `seconds_left` until the run's deadline; 0: it has none.
  virtual void run(uint32_t program, std::span<const pto_tensor> tensors, const Numbers& scalars,
                   double seconds_left) = 0;
};

struct WorkerPlace {
  std::shared_ptr<SharedRegion> mailbox, heap;
  int bell_fd;  // the host's eventfd: a write wakes it
  int spin_us;
};

void serve(const WorkerPlace& place, TaskExecutor& executor);

}  // namespace pto
