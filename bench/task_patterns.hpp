// SPDX-License-Identifier: Apache-2.0
// Graphs of tasks that the task benches run, and the libraries that run them besides ours.
//
//     const Graph graph = graph_of(Pattern::Wavefront, 512 * 512);
//     with_openmp(graph, 2, check_order);   // submits, runs, waits
//
// Task i writes cell i and reads the cells of earlier tasks; in a chain all write cell 0.
// Thread safety: a Graph is constant.
#pragma once
#include <atomic>
#include <cstdint>
#include <vector>

enum class Pattern { Independent, Chain, Wavefront, Random };
inline const char* name_of(Pattern pattern) {
  static const char* const names[] = {"independent", "chain", "wavefront", "random"};
  return names[int(pattern)];
}

struct Graph {
  Pattern pattern;
  int64_t tasks;
  std::vector<int64_t> first, reads;  // those of task i: reads[first[i]] ... reads[first[i + 1]]
};
Graph graph_of(Pattern pattern, int64_t tasks);

using Body = void (*)(int64_t task);
void do_nothing(int64_t task);
void work_1_us(int64_t task);
void work_10_us(int64_t task);

// Counts in wrong_order() the tasks that ran before one that they read. Of the graph that
// begin_check() named last.
void begin_check(const Graph& graph);
void check_order(int64_t task);
int64_t wrong_order();

// Each submits all tasks of the graph and waits for them.
void with_openmp(const Graph& graph, int threads, Body body);
#ifdef PTO_BENCH_TBB
void with_flow_graph(const Graph& graph, int threads, Body body);
// The graph is made once, and runs again.
class FlowGraph {
 public:
  FlowGraph(const Graph& graph, int threads, Body body);
  ~FlowGraph();
  void run();

 private:
  struct Nodes;
  Nodes* nodes_;
};
#endif
#ifdef PTO_BENCH_STARPU
// Between these two it has its workers.
void start_starpu(int threads);
void stop_starpu();
void with_starpu(const Graph& graph, int threads, Body body);
#endif
