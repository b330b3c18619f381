// SPDX-License-Identifier: Apache-2.0
// StarPU: a data handle a cell, from whose modes it infers the order.
#include <starpu.h>
#include <stdlib.h>

#include <cstring>

#include "bench/task_patterns.hpp"

namespace {

struct Call {
  Body body;
  int64_t task;
};
void run_one(void**, void* given) {
  const auto* call = static_cast<const Call*>(given);
  call->body(call->task);
}

starpu_codelet& codelet() {
  static starpu_codelet one;
  one.cpu_funcs[0] = run_one;
  one.nbuffers = STARPU_VARIABLE_NBUFFERS;
  one.where = STARPU_CPU;
  return one;
}

}  // namespace

void start_starpu(int threads) {
  setenv("STARPU_SILENT", "1", 1);
  starpu_conf conf;
  starpu_conf_init(&conf);
  conf.ncpus = threads;
  conf.ncuda = conf.nopencl = 0;
  if (starpu_init(&conf) != 0) abort();
  starpu_pause();  // its workers spin, which the others would pay for
}
void stop_starpu() {
  starpu_resume();
  starpu_shutdown();
}

void with_starpu(const Graph& graph, int, Body body) {
  starpu_resume();
  std::vector<int32_t> cells(static_cast<size_t>(graph.tasks));
  std::vector<starpu_data_handle_t> handles(cells.size());
  for (size_t i = 0; i < cells.size(); ++i)
    starpu_variable_data_register(&handles[i], STARPU_MAIN_RAM, uintptr_t(&cells[i]), 4);
  std::vector<Call> calls(cells.size());
  for (int64_t i = 0; i < graph.tasks; ++i) {
    starpu_task* const task = starpu_task_create();
    task->cl = &codelet();
    calls[size_t(i)] = {body, i};
    task->cl_arg = &calls[size_t(i)];
    int n = 0;
    for (int64_t k = graph.first[size_t(i)]; k < graph.first[size_t(i) + 1]; ++k) {
      task->handles[n] = handles[size_t(graph.reads[size_t(k)])];
      task->modes[n++] = STARPU_R;
    }
    const bool is_chain = graph.pattern == Pattern::Chain;
    task->handles[n] = handles[is_chain ? 0 : size_t(i)];
    task->modes[n++] = is_chain ? STARPU_RW : STARPU_W;
    task->nbuffers = n;
    if (starpu_task_submit(task) != 0) abort();
  }
  starpu_task_wait_for_all();
  starpu_pause();
  for (starpu_data_handle_t handle : handles) starpu_data_unregister_no_coherency(handle);
}
