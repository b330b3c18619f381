// SPDX-License-Identifier: Apache-2.0
// pto_worker: one device of the host engine, as a process. The engine starts it:
//
//     pto_worker PARENT MAILBOX_BYTES HEAP_BYTES DEVICE SPIN_US
//
// with descriptors 3 (mailbox), 4 (heap) and 5 (the host's bell). It ends with its parent.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>

#include "pto/launch/wait.hpp"
#include "pto/tasks/processes/child_process.hpp"
#include "pto/tasks/processes/serve.hpp"
#include "pto/tasks/processes/worker/native_executor.hpp"

int main(int count, char** words) {
  constexpr int kWords = 6;
  if (count != kWords) {
    std::fputs("pto_worker is started by pto.Runtime(level=\"host\"), not by hand\n", stderr);
    return 2;
  }
  const auto number = [&](int i) { return std::atoll(words[i]); };
  setvbuf(stdout, nullptr, _IOLBF, 0);
  pto::end_with_parent(int(number(1)));
  pto::be_first_without_memory();
  pto::share_memory_with_processes();
  try {
    pto::NativeExecutor executor;
    pto::serve({std::make_shared<pto::SharedRegion>(3, number(2)),
                std::make_shared<pto::SharedRegion>(4, number(3)), 5, int(number(5))},
               executor);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "worker of device %s: %s\n", words[4], error.what());
    return 1;
  }
  return 0;
}
