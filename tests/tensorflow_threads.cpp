// SPDX-License-Identifier: Apache-2.0
// Runs a launch as TensorFlow's adapter does, on a pool that only looks like TensorFlow's. Prints
// how many blocks ran once, and whether helpers ran some.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <thread>
#include <vector>

namespace tensorflow::thread {

class ThreadPool {
 public:
  ~ThreadPool() {
    for (std::thread& thread : threads_) thread.join();
  }
  int NumThreads() const { return 4; }
  void Schedule(std::function<void()> work) { threads_.emplace_back(std::move(work)); }

 private:
  std::vector<std::thread> threads_;
};

}  // namespace tensorflow::thread

#include "pto/abi/host.h"
#include "pto/adapters/tensorflow/executor.hpp"

constexpr int kBlocks = 64;

struct Run {
  std::thread::id caller = std::this_thread::get_id();
  std::atomic<int> times[kBlocks] = {};
  std::atomic<bool> was_helped{false};
};

int32_t run_block(void* context, int32_t block) {
  Run& run = *static_cast<Run*>(context);
  ++run.times[block];
  if (std::this_thread::get_id() != run.caller) run.was_helped = true;
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return 0;
}

int main() {
  Run run;
  tensorflow::thread::ThreadPool pool;
  const pto::tensorflow_adapter::HostThreads threads(&pool);
  const int32_t code = pto_parallel(kBlocks, run_block, &run);
  int once = 0;
  for (const auto& times : run.times) once += times == 1;
  std::printf("code %d, %d blocks once, %s\n", code, once, run.was_helped ? "helped" : "alone");
}
