// SPDX-License-Identifier: Apache-2.0
// The graphs, their bodies, and OpenMP's depend clauses.
#include "bench/task_patterns.hpp"

#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>

namespace {

std::vector<int64_t> reads_of(Pattern pattern, int64_t i, int64_t side, std::mt19937& random) {
  std::vector<int64_t> cells;
  if (pattern == Pattern::Wavefront) {
    if (i >= side) cells.push_back(i - side);
    if (i % side != 0) cells.push_back(i - 1);
  }
  if (pattern == Pattern::Random && i > 0) {
    for (int k = 0; k < 3; ++k) cells.push_back(int64_t(random() % uint64_t(i)));
    std::sort(cells.begin(), cells.end());
    cells.erase(std::unique(cells.begin(), cells.end()), cells.end());
  }
  return cells;
}

const Graph* g_graph;
std::vector<std::atomic<char>> g_done;
std::atomic<int64_t> g_wrong{0};

void spin(int64_t times) {
  for (int64_t i = 0; i < times; ++i) asm volatile("" ::"r"(i));
}

// Rounds of spin() in a microsecond. A count, so that a thread that is interrupted does all its
// work all the same.
int64_t times_of_us() {
  using Clock = std::chrono::steady_clock;
  constexpr int64_t kTimes = 1 << 20;
  double best = 1;
  for (int round = 0; round < 9; ++round) {
    const auto start = Clock::now();
    spin(kTimes);
    best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return int64_t(double(kTimes) * 1e-6 / best);
}
const int64_t kTimesOfUs = times_of_us();

}  // namespace

Graph graph_of(Pattern pattern, int64_t tasks) {
  Graph graph{pattern, tasks, {}, {}};
  std::mt19937 random(1);
  const auto side = int64_t(std::sqrt(double(tasks)));
  for (int64_t i = 0; i < tasks; ++i) {
    graph.first.push_back(int64_t(graph.reads.size()));
    for (int64_t cell : reads_of(pattern, i, side, random)) graph.reads.push_back(cell);
  }
  graph.first.push_back(int64_t(graph.reads.size()));
  return graph;
}

void do_nothing(int64_t task) { asm volatile("" ::"r"(task)); }
void work_1_us(int64_t) { spin(kTimesOfUs); }
void work_10_us(int64_t) { spin(10 * kTimesOfUs); }

void begin_check(const Graph& graph) {
  g_graph = &graph;
  g_done = std::vector<std::atomic<char>>(size_t(graph.tasks));
}
void check_order(int64_t task) {
  const Graph& graph = *g_graph;
  if (graph.pattern == Pattern::Chain && task > 0) g_wrong += g_done[size_t(task) - 1] == 0;
  for (int64_t k = graph.first[size_t(task)]; k < graph.first[size_t(task) + 1]; ++k)
    g_wrong += g_done[size_t(graph.reads[size_t(k)])] == 0;
  g_done[size_t(task)] = 1;
}
int64_t wrong_order() {
  for (const auto& done : g_done) g_wrong += done == 0;
  return g_wrong;
}

void with_openmp(const Graph& graph, int threads, Body body) {
  std::vector<char> cells(static_cast<size_t>(graph.tasks));
  [[maybe_unused]] const char* const c = cells.data();
#pragma omp parallel num_threads(threads)
#pragma omp single
  for (int64_t i = 0; i < graph.tasks; ++i) {
    const int64_t first = graph.first[size_t(i)], n = graph.first[size_t(i) + 1] - first;
    const int64_t* const from = graph.reads.data() + first;
    if (graph.pattern == Pattern::Independent) {
#pragma omp task
      body(i);
    } else if (graph.pattern == Pattern::Chain) {
#pragma omp task depend(inout : c[0])
      body(i);
    } else {
#pragma omp task depend(iterator(int64_t k = 0 : n), in : c[from[k]]) depend(out : c[i])
      body(i);
    }
  }
}
