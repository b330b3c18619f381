// SPDX-License-Identifier: Apache-2.0
// Empty tasks: what it costs to submit, order and run one, against OpenMP's depend clauses.
//
//     ./tasks        one JSON line a case, contender and number of threads, seconds a task
//
// `submit`: an orchestration submits and the engine infers the order from views of one array.
// `replay`: the captured graph. Each pattern has 512 x 512 tasks; each task of `checked` patterns
// counts its predecessors first, so that an order that is wrong is reported, not timed.
#include <omp.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "pto/runtime/tasks/graph.hpp"

using namespace pto;

namespace {

constexpr int64_t kSide = 512, kTasks = kSide * kSide;
constexpr int kRounds = 9;

enum Pattern { kIndependent, kChain, kWavefront, kRandom };
const char* const kNames[] = {"independent", "chain", "wavefront", "random"};

// The cells that task i reads; it writes cell i, or cell 0 in a chain.
std::vector<int64_t> reads(Pattern pattern, int64_t i, std::mt19937& random) {
  std::vector<int64_t> cells;
  if (pattern == kWavefront) {
    if (i >= kSide) cells.push_back(i - kSide);
    if (i % kSide != 0) cells.push_back(i - 1);
  }
  if (pattern == kRandom && i > 0)
    for (int k = 0; k < 3; ++k) cells.push_back(int64_t(random() % uint64_t(i)));
  return cells;
}
struct Edges {
  std::vector<int64_t> first, cells;  // those of task i: cells[first[i]] ... cells[first[i + 1]]
};
Edges edges_of(Pattern pattern) {
  Edges edges;
  std::mt19937 random(1);
  for (int64_t i = 0; i < kTasks; ++i) {
    edges.first.push_back(int64_t(edges.cells.size()));
    for (int64_t cell : reads(pattern, i, random)) edges.cells.push_back(cell);
  }
  edges.first.push_back(int64_t(edges.cells.size()));
  return edges;
}

// Whether every task ran after those it reads: set by check_order.
const Edges* g_edges;
std::vector<std::atomic<char>> g_done(size_t(kTasks) + 1);
std::atomic<int64_t> g_wrong{0};

int32_t nothing(const pto_args*) { return 0; }
int32_t check_order(const pto_args* args) {
  const auto i = int64_t(args->scalars[0]);
  for (int64_t k = g_edges->first[size_t(i)]; k < g_edges->first[size_t(i) + 1]; ++k)
    g_wrong += g_done[size_t(g_edges->cells[size_t(k)])].load() == 0;
  g_done[size_t(i)] = 1;
  return 0;
}

Pattern g_pattern;
const char* g_kernel;
int32_t orchestrate(const pto_runtime_api* api, const pto_args* args) {
  Orchestration o(api, args);
  const View cells = o.inout(0);
  const auto cell = [&](int64_t i) { return cells.slice(0, i, i + 1); };
  std::vector<TaskArgument> list;
  for (int64_t i = 0; i < kTasks; ++i) {
    list.clear();
    for (int64_t k = g_edges->first[size_t(i)]; k < g_edges->first[size_t(i) + 1]; ++k)
      list.push_back(o.in(cell(g_edges->cells[size_t(k)])));
    list.push_back(g_pattern == kChain ? o.inout(cell(0)) : o.out(cell(i)));
    list.push_back(o.scalar(i));
    o.submit(g_kernel, list);
  }
  return 0;
}

void with_openmp(const std::vector<float>& cells) {
  const float* const c = cells.data();
#pragma omp parallel
#pragma omp single
  for (int64_t i = 0; i < kTasks; ++i) {
    const auto first = size_t(g_edges->first[size_t(i)]);
    const int64_t n = g_edges->first[size_t(i) + 1] - int64_t(first);
    const int64_t* const from = g_edges->cells.data() + first;
    if (g_pattern == kIndependent) {
#pragma omp task
      asm volatile("" ::"r"(i));
    } else if (g_pattern == kChain) {
#pragma omp task depend(inout : c[0])
      asm volatile("" ::"r"(i));
    } else {
#pragma omp task depend(iterator(int64_t k = 0 : n), in : c[from[k]]) depend(out : c[i])
      asm volatile("" ::"r"(i));
    }
  }
}

double now() {
  using Clock = std::chrono::steady_clock;
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

void report(const std::string& name, const char* contender, int threads,
            const std::function<void()>& run) {
  std::vector<double> seconds;
  run();
  for (int round = 0; round < kRounds; ++round) {
    const double start = now();
    run();
    seconds.push_back((now() - start) / double(kTasks));
  }
  std::sort(seconds.begin(), seconds.end());
  std::printf(
      "{\"case\": \"%s\", \"size\": [%ld, %ld], \"dtype\": \"-\", \"contender\": \"%s\", "
      "\"threads\": %d, \"median_s\": %.4g, \"p10_s\": %.4g, \"p90_s\": %.4g, "
      "\"ceiling_s\": 0}\n",
      name.c_str(), long(kSide), long(kSide), contender, threads, seconds[kRounds / 2], seconds[1],
      seconds[kRounds - 2]);
  std::fflush(stdout);
}

}  // namespace

int main() {
  std::vector<float> cells(static_cast<size_t>(kTasks));
  const int64_t sizes[] = {kTasks}, strides[] = {1};
  pto_tensor tensor{cells.data(), sizes, strides, 1, 2, 32, 1, 0, kTasks * 4};
  const OrchestrationProgram program{
      orchestrate, {{"nothing", {nothing, "nothing"}}, {"check", {check_order, "check"}}}};
  for (Pattern pattern : {kIndependent, kChain, kWavefront, kRandom}) {
    const Edges edges = edges_of(pattern);
    g_edges = &edges;
    g_pattern = pattern;
    const std::string name = kNames[pattern];
    for (int threads : {1, 2}) {
      RunOptions options;
      options.workers = threads;
      g_kernel = "check";
      for (auto& done : g_done) done = 0;
      run_orchestration(program, {&tensor, 1}, {}, options);
      if (g_wrong > 0) return 1;
      g_kernel = "nothing";
      TaskGraph graph(program, {&tensor, 1}, {});
      report("submit_" + name, "pto", threads, [&] {
        run_orchestration(program, {&tensor, 1}, {}, options);
      });
      omp_set_num_threads(threads);
      report("submit_" + name, "openmp", threads, [&] { with_openmp(cells); });
      report("replay_" + name, "pto", threads, [&] { graph.replay({&tensor, 1}, options); });
    }
  }
  return 0;
}
