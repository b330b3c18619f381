// SPDX-License-Identifier: Apache-2.0
#include "pto/tasks/cores/task.hpp"

namespace pto {

TaskKernel exported_kernel(pto_kernel function, std::string name) {
  return {function, std::move(name),
          exported_numbers(function).value_or(std::vector<pto_parameter>())};
}

void Task::take_more(size_t bytes) {
  if (bytes > more_bytes) {
    more.reset();
    more_bytes = 0;
    more = std::make_unique_for_overwrite<char[]>(bytes);
    more_bytes = uint32_t(bytes);
  }
  given = more.get();
}

TaskEdge* Task::more_edge() {
  const int at = (n_edges - kEdges) % MoreEdges::kEdges;
  if (at == 0) {
    std::unique_ptr<MoreEdges>& next = n_edges == kEdges ? more_edges : open_edges->next;
    if (next == nullptr) next = std::make_unique<MoreEdges>();
    open_edges = next.get();
  }
  return &open_edges->edges[at];
}

}  // namespace pto
