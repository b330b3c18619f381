// SPDX-License-Identifier: Apache-2.0
// Measures tasks: to submit, order and run one, against OpenMP's depend clauses, oneTBB's flow
// graph and StarPU; how that grows; what is left of two cores; what traces and memory cost.
//
//     ./tasks        one JSON line a case, contender and number of threads, seconds a task; and
//                    notes, one {"note": text} a line
//
// `submit`: an orchestration submits and the engine infers the order from views of one array; flow
// graphs get their edges instead. `replay`: the captured graph, or the flow graph once more.
// Every contender is checked first: a task that runs before one that it reads ends the bench.
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <random>
#include <string>
#include <thread>

#include "bench/task_patterns.hpp"
#include "pto/launch/memory.hpp"
#include "pto/tasks/cores/graph.hpp"
#include "pto/tasks/cores/run_state.hpp"

using namespace pto;

namespace {

constexpr int kRounds = 7;

double now() {
  using Clock = std::chrono::steady_clock;
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

struct Contender {
  const char* name;
  int64_t tasks;
  std::function<void()> run;
  std::vector<double> seconds;  // a task
};

// In turns; of the first one's best time each thread's share is what costs nothing, where asked
// for.
void report(const std::string& name, int threads, std::vector<Contender> all,
            bool first_is_ideal = false) {
  for (int round = -1; round < kRounds; ++round)
    for (Contender& one : all) {
      const double start = now();
      one.run();
      if (round >= 0) one.seconds.push_back((now() - start) / double(one.tasks));
    }
  for (Contender& one : all) {
    std::sort(one.seconds.begin(), one.seconds.end());
    std::printf(
        "{\"case\": \"%s\", \"size\": [%ld], \"dtype\": \"-\", \"contender\": \"%s\", "
        "\"threads\": %d, \"median_s\": %.4g, \"p10_s\": %.4g, \"p90_s\": %.4g, "
        "\"ceiling_s\": %.4g}\n",
        name.c_str(), long(one.tasks), one.name, threads, one.seconds[kRounds / 2], one.seconds[0],
        one.seconds[kRounds - 1], first_is_ideal ? all[0].seconds[0] / threads : 0.0);
  }
  std::fflush(stdout);
}

template <class... Values>
void note(const char* format, Values... values) {
  std::printf("{\"note\": \"");
  std::printf(format, values...);
  std::printf("\"}\n");
  std::fflush(stdout);
}

// --- a graph as an orchestration -----------------------------------------------------------------

const Graph* g_graph;
Body g_body;

int32_t call_body(const pto_args* args) {
  g_body(int64_t(args->scalars[0]));
  return 0;
}

int32_t orchestrate_graph(const pto_runtime_api* api, const pto_args* args) {
  Orchestration o(api, args);
  const Graph& graph = *g_graph;
  const View cells = o.inout(0);
  const auto cell = [&](int64_t i) { return cells.slice(0, i, i + 1); };
  std::vector<TaskArgument> list;
  for (int64_t i = 0; i < graph.tasks; ++i) {
    list.clear();
    for (int64_t k = graph.first[size_t(i)]; k < graph.first[size_t(i) + 1]; ++k)
      list.push_back(o.in(cell(graph.reads[size_t(k)])));
    list.push_back(graph.pattern == Pattern::Chain ? o.inout(cell(0)) : o.out(cell(i)));
    list.push_back(o.scalar(i));
    o.submit("body", list);
  }
  return 0;
}

// The memory of a graph's cells, and its runs by the engine.
class Program {
 public:
  explicit Program(int64_t cells, decltype(&orchestrate_graph) orchestrate = orchestrate_graph)
      : cells_(size_t(cells)),
        sizes_{cells},
        tensor_{cells_.data(), sizes_, strides_, 1, 2, 32, 1, 0, cells * 4},
        program_{orchestrate, {{"body", {call_body, "body"}}}} {}

  RunReport run(int threads, Body body, RunTrace* trace = nullptr) {
    g_body = body;
    return run_orchestration(program_, {&tensor_, 1}, {}, options(threads, trace));
  }
  TaskGraph capture() const { return TaskGraph(program_, {&tensor_, 1}, {}); }
  void replay(TaskGraph& graph, int threads, Body body) const {
    g_body = body;
    graph.replay({&tensor_, 1}, options(threads, nullptr));
  }

 private:
  static RunOptions options(int threads, RunTrace* trace) {
    RunOptions options;
    options.workers = threads;
    options.trace = trace;
    return options;
  }
  std::vector<float> cells_;
  const int64_t sizes_[1], strides_[1] = {1};
  const pto_tensor tensor_;
  const OrchestrationProgram program_;
};

// --- cases ---------------------------------------------------------------------------------------

void stop_if_wrong(const char* what, const Graph& graph) {
  if (wrong_order() == 0) return;
  std::fprintf(stderr, "%s ran tasks of %s before those that they read, or not at all\n", what,
               name_of(graph.pattern));
  std::exit(1);
}

void check(const char* name, const Graph& graph, const std::function<void(Body)>& run) {
  begin_check(graph);
  run(check_order);
  stop_if_wrong(name, graph);
}

// Contenders that submit a graph with `body`, each checked; StarPU a smaller one.
std::vector<Contender> submitters(Program& program, const Graph& graph,
                                  [[maybe_unused]] const Graph& small, int threads, Body body) {
  std::vector<Contender> all;
  const auto add = [&](const char* name, const Graph& of, std::function<void(Body)> run) {
    check(name, of, run);
    all.push_back({name, of.tasks, [=] { run(body); }, {}});
  };
  add("pto", graph, [&program, threads](Body b) { program.run(threads, b); });
  add("openmp", graph, [&graph, threads](Body b) { with_openmp(graph, threads, b); });
#ifdef PTO_BENCH_TBB
  add("tbb", graph, [&graph, threads](Body b) { with_flow_graph(graph, threads, b); });
#endif
#ifdef PTO_BENCH_STARPU
  add("starpu", small, [&small, threads](Body b) { with_starpu(small, threads, b); });
#endif
  return all;
}

std::vector<Contender> replayers(Program& program, TaskGraph& captured, const Graph& graph,
                                 int threads, Body body) {
  std::vector<Contender> all;
  check("pto", graph, [&](Body b) { program.replay(captured, threads, b); });
  all.push_back({"pto",
                 graph.tasks,
                 [&program, &captured, threads, body] { program.replay(captured, threads, body); },
                 {}});
#ifdef PTO_BENCH_TBB
  check("tbb", graph, [&](Body b) { FlowGraph(graph, threads, b).run(); });
  auto flow = std::make_shared<FlowGraph>(graph, threads, body);
  all.push_back({"tbb", graph.tasks, [flow] { flow->run(); }, {}});
#endif
  return all;
}

void measure_patterns(int threads) {
  for (Pattern pattern :
       {Pattern::Independent, Pattern::Chain, Pattern::Wavefront, Pattern::Random}) {
    const Graph graph = graph_of(pattern, 512 * 512), small = graph_of(pattern, 64 * 64);
    g_graph = &graph;
    Program program(graph.tasks);
    const std::string name = name_of(pattern);
    report("submit_" + name, threads, submitters(program, graph, small, threads, do_nothing));
    TaskGraph captured = program.capture();
    report("replay_" + name, threads, replayers(program, captured, graph, threads, do_nothing));
  }
}

// The share of all cores that bodies of a microsecond get.
void measure_efficiency(int threads) {
  const Graph graph = graph_of(Pattern::Independent, 20000);
  g_graph = &graph;
  Program program(graph.tasks);
  TaskGraph captured = program.capture();
  const Contender alone{"bodies",
                        graph.tasks,
                        [&] {
                          for (int64_t i = 0; i < graph.tasks; ++i) work_1_us(i);
                        },
                        {}};
  std::vector<Contender> submit = submitters(program, graph, graph, threads, work_1_us);
  submit.insert(submit.begin(), alone);
  report("submit_1us", threads, submit, true);
  std::vector<Contender> replay = replayers(program, captured, graph, threads, work_1_us);
  replay.insert(replay.begin(), alone);
  report("replay_1us", threads, replay, true);
}

// --- a ring of cells, which come again and again
// --------------------------------------------------

int64_t g_tasks;
std::vector<int64_t> g_ring;
double g_again_s;  // of all tasks behind the first round
int32_t orchestrate_ring(const pto_runtime_api* api, const pto_args* args) {
  Orchestration o(api, args);
  const View cells = o.inout(0);
  const auto n = int64_t(g_ring.size());
  double start = now();
  for (int64_t i = 0, k = 0; i < g_tasks; ++i, k = k + 1 == n ? 0 : k + 1) {
    if (i == n) start = now();
    const int64_t at = g_ring[size_t(k)];
    o.submit("body", {o.inout(cells.slice(0, at, at + 1)), o.scalar(i)});
  }
  g_again_s = now() - start;
  return 0;
}
void make_ring(int64_t cells, int64_t tasks) {
  g_tasks = tasks;
  g_ring.resize(size_t(cells));
  for (int64_t i = 0; i < cells; ++i) g_ring[size_t(i)] = i;
  std::shuffle(g_ring.begin(), g_ring.end(), std::mt19937(1));
}

int64_t resident_bytes() {
  long all = 0, resident = 0;
  if (std::FILE* file = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(file, "%ld %ld", &all, &resident) != 2) resident = 0;
    std::fclose(file);
  }
  return int64_t(resident) * sysconf(_SC_PAGESIZE);
}

void measure_growth(int threads) {
  int64_t first = 0;
  for (int64_t tasks = 1000; tasks <= 10'000'000; tasks *= 10) {
    make_ring(1024, tasks);
    Program program(1024, orchestrate_ring);
    report("tasks_on_1024_cells", threads,
           {{"pto", tasks, [&] { program.run(threads, do_nothing); }, {}}});
    if (first == 0) first = resident_bytes();
    note("%10ld tasks, %d threads: %8.2f MB resident, %+.3f MB", long(tasks), threads,
         double(resident_bytes()) / 1e6, double(resident_bytes() - first) / 1e6);
  }
}

void measure_regions() {
  for (int64_t cells = 10; cells <= 1'000'000; cells *= 10) {
    make_ring(cells, cells + 1'000'000);
    Program program(cells, orchestrate_ring);
    double best = 1;
    for (int round = 0; round < 3; ++round) {
      program.run(1, do_nothing);
      best = std::min(best, g_again_s);
    }
    note("%8ld live regions: %6.1f ns a task", long(cells), best * 1e3);
  }
}

// --- traces and memory ---------------------------------------------------------------------------

void measure_traces() {
  const Graph graph = graph_of(Pattern::Independent, 20000);
  g_graph = &graph;
  Program program(graph.tasks);
  RunTrace trace;
  for (const auto& [name, body] : {std::pair<const char*, Body>{"1 us", work_1_us},
                                   std::pair<const char*, Body>{"10 us", work_10_us}}) {
    double plain = 1, traced = 1;
    for (int round = 0; round < 2 * kRounds; ++round) {
      double start = now();
      program.run(1, body);
      plain = std::min(plain, now() - start);
      start = now();
      program.run(1, body, &trace);
      traced = std::min(traced, now() - start);
    }
    note("trace of tasks of %s: %+.1f ns a task, %+.2f %%", name,
         (traced - plain) / double(graph.tasks) * 1e9, (traced / plain - 1) * 100);
  }
}

std::atomic<bool> g_gate;
void wait_at_gate(int64_t task) {
  while (task == 0 && !g_gate) std::this_thread::yield();
}
int64_t used_bytes() { return int64_t(mallinfo2().uordblks) + memory_stats().live_bytes; }

// Tasks that wait for the first, which waits until the window is full.
void measure_live_tasks() {
  constexpr int64_t kLive = 4000;
  static int64_t s_used;
  Program program(kLive, [](const pto_runtime_api* api, const pto_args* args) -> int32_t {
    Orchestration o(api, args);
    const View cells = o.inout(0), gate = cells.slice(0, 0, 1);
    const int64_t before = used_bytes();
    o.submit("body", {o.inout(gate), o.scalar(0)});
    for (int64_t i = 1; i < kLive; ++i)
      o.submit("body", {o.in(gate), o.out(cells.slice(0, i, i + 1)), o.scalar(i)});
    s_used = used_bytes() - before;
    g_gate = true;
    return 0;
  });
  program.run(2, wait_at_gate);
  note("a live task: %zu bytes in its slot, %.0f besides (its box, its place among the readers)",
       sizeof(Task), double(s_used) / double(kLive));
}

}  // namespace

int main() {
  measure_live_tasks();
  for (int threads : {1, 2}) {
#ifdef PTO_BENCH_STARPU
    start_starpu(threads);
#endif
    measure_patterns(threads);
    measure_efficiency(threads);
#ifdef PTO_BENCH_STARPU
    stop_starpu();
#endif
    measure_growth(threads);
  }
  measure_regions();
  measure_traces();
  return 0;
}
