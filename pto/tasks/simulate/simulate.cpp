// SPDX-License-Identifier: Apache-2.0
#include "pto/tasks/simulate/simulate.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <unordered_map>

#include "pto/base/error.hpp"
#include "pto/tasks/cores/engine.hpp"
#include "pto/tasks/simulate/virtual_cores.hpp"

namespace pto {
namespace {

int32_t take_its_time(const pto_args*) { return 0; }  // virtual cores advance the time instead
const TaskKernel kRecorded{take_its_time, "recorded"};

// Submits a record again. One byte stands for each task that the orchestration awaits and for each
// box that tasks reduce into; no kernel touches them.
class Resubmission {
 public:
  Resubmission(const RecordedRun& recorded, VirtualCores& cores)
      : recorded_(recorded), cores_(cores) {
    for (const RecordedTask& task : recorded.tasks) {
      for (TaskId id : task.awaited) place_of(awaited_, int64_t(id));
      for (int64_t turn : task.turns) place_of(turns_, turn);
    }
    memory_.resize(std::max<size_t>(awaited_.size() + turns_.size(), 1));
  }

  void operator()(TaskRun& run) {
    const MemoryPiece piece{memory_.data(), int64_t(memory_.size())};
    allocation_ = run.adopt({&piece, 1})[0];
    // A replay has all its tasks before it begins: all follow one task, which ends when all are
    // submitted.
    if (recorded_.is_replay) run.submit({&kRecorded, {}, {}, {}});
    for (size_t i = 0; i < recorded_.tasks.size(); ++i) submit(run, i);
  }

  int64_t first_id() const { return recorded_.is_replay ? 2 : 1; }

 private:
  // Gives each (kind, number) the next byte in the order of first use.
  void place_of(std::map<int64_t, size_t>& kind, int64_t number) {
    kind.try_emplace(number, awaited_.size() + turns_.size());
  }
  TaskTensor byte(size_t place, Access access) {
    static constexpr int64_t kOne[] = {1};
    return {allocation_, access, {&memory_[place], kOne, kOne, 1, 1, 8, 1, 0, 1}};
  }

  void submit(TaskRun& run, size_t i) {
    const RecordedTask& task = recorded_.tasks[i];
    cores_.pass(task.gap_ns);
    for (TaskId id : task.awaited) run.wait_for(byte(awaited_.at(int64_t(id)), Access::Read));
    cores_.pass(task.submit_ns);
    after_.clear();
    tensors_.clear();
    for (const TraceEdge& edge : task.follows) after_.push_back(edge.from + TaskId(first_id()) - 1);
    if (recorded_.is_replay && after_.empty()) after_.push_back(1);
    if (const auto it = awaited_.find(int64_t(i) + 1); it != awaited_.end())
      tensors_.push_back(byte(it->second, Access::Write));
    for (int64_t turn : task.turns) tensors_.push_back(byte(turns_.at(turn), Access::Reduce));
    TaskSpec spec{};
    spec.kernel = task.block_ns.empty() ? nullptr : &kRecorded;
    spec.after = after_;
    spec.tensors = tensors_;
    spec.blocks = int32_t(std::max<size_t>(task.block_ns.size(), 1));
    run.submit(spec);
  }

  const RecordedRun& recorded_;
  VirtualCores& cores_;
  std::map<int64_t, size_t> awaited_, turns_;
  std::vector<char> memory_;
  Allocation* allocation_ = nullptr;
  std::vector<TaskId> after_;
  std::vector<TaskTensor> tensors_;
};

uint64_t longest_block(const RecordedTask& task) {
  return task.block_ns.empty() ? 0 : *std::max_element(task.block_ns.begin(), task.block_ns.end());
}

void check_complete(const RunTrace& trace) {
  if (trace.level < kEdges)
    fail({"a trace of level " + std::to_string(trace.level) + " cannot be simulated",
          "only level " + std::to_string(kEdges) + " records which task follows which",
          "call trace(path, level=" + std::to_string(kEdges) + ")"});
  if (trace.is_bound)
    fail({"a trace of level host cannot be simulated",
          "the simulation chooses a core for each task, but these tasks name their devices",
          "simulate programs of level chip"});
  if (trace.dropped > 0)
    fail({"a trace that has lost records cannot be simulated: " + std::to_string(trace.dropped),
          "each worker keeps only its last " + std::to_string(trace.capacity),
          "trace a shorter run"});
}

}  // namespace

RecordedRun record_of(const RunTrace& trace) {
  check_complete(trace);
  RecordedRun run;
  run.kernels = trace.kernels;
  run.sites = trace.sites;
  run.workers = trace.workers;
  run.is_replay = trace.is_replay;
  run.duration_ns = trace.duration_ns;
  TaskId last = trace.submissions.empty() ? 0 : trace.submissions.back().task;
  for (const TraceRecord& record : trace.records) last = std::max(last, record.task);
  for (const TraceEdge& edge : trace.edges) last = std::max(last, edge.to);
  run.tasks.resize(size_t(last));
  for (const TraceRecord& record : trace.records) {
    RecordedTask& task = run.tasks[record.task - 1];
    task.block_ns.push_back(record.duration_ns);
    task.kernel = record.kernel;
    task.site = record.site;
  }
  for (const TraceEdge& edge : trace.edges) run.tasks[edge.to - 1].follows.push_back(edge);
  for (const auto& [task, turn] : trace.turns) run.tasks[task - 1].turns.push_back(turn);
  uint64_t before = 0;
  for (const TraceSubmission& one : trace.submissions) {
    RecordedTask& task = run.tasks[one.task - 1];
    const uint64_t idle = before + one.awaited_ns;
    task.gap_ns = one.start_ns > idle ? one.start_ns - idle : 0;
    task.submit_ns = one.cost_ns;
    task.awaited = one.awaited;
    task.kernel = one.kernel;
    task.site = one.site;
    before = one.start_ns + one.waited_ns + one.cost_ns;
  }
  return run;
}

uint64_t critical_path(const RecordedRun& run, std::vector<TaskId>* tasks) {
  std::vector<uint64_t> end(run.tasks.size() + 1);
  std::vector<TaskId> through(run.tasks.size() + 1);
  TaskId last = 0;
  for (TaskId id = 1; id <= run.tasks.size(); ++id) {
    const RecordedTask& task = run.tasks[id - 1];
    for (const TraceEdge& edge : task.follows)
      if (end[edge.from] >= end[through[id]]) through[id] = edge.from;
    end[id] = end[through[id]] + longest_block(task);
    if (end[id] >= end[last]) last = id;
  }
  if (tasks != nullptr) {
    tasks->clear();
    for (TaskId id = last; id != 0; id = through[id]) tasks->push_back(id);
    std::reverse(tasks->begin(), tasks->end());
  }
  return end[last];
}

SimulatedTime simulate(const RecordedRun& run, const SimulationSetup& setup) {
  const SchedulingCosts& costs = setup.costs != nullptr ? *setup.costs : scheduling_costs();
  VirtualCoresOptions options;
  options.is_shaken = options.runs_kernels = false;
  const auto set = [&](Step step, uint32_t ns) { options.step_ns[size_t(step)] = ns; };
  set(Step::Close, run.is_replay ? costs.replay_ns : costs.task_ns);
  set(Step::Look, costs.look_ns);
  set(Step::Pass, costs.look_ns);
  set(Step::Steal, costs.steal_ns);
  options.wake_soon_ns = costs.wake_soon_ns;
  options.wake_late_ns = costs.wake_late_ns;
  options.soon_ns = costs.soon_ns;
  RunOptions run_options;
  run_options.workers = setup.cores;
  run_options.window = run.window;
  if (run.is_replay) run_options.window = int64_t(std::bit_ceil(run.tasks.size() + 2));
  int64_t entries = 1, most = 1;
  for (const RecordedTask& task : run.tasks) {
    const auto own = std::clamp<int64_t>(int64_t(task.block_ns.size()), 1, setup.cores);
    entries += own;
    most = std::max(most, own);
  }
  options.ready_max = std::min(entries, most * run_options.window);
  int64_t first = run.is_replay ? 2 : 1;
  options.duration = [&run, first](const Task& task, int32_t block) {
    const int64_t at = int64_t(task.id) - first;
    return at < 0 ? uint64_t{0} : run.tasks[size_t(at)].block_ns[size_t(block)];
  };
  VirtualCores cores(std::move(options));
  run_options.steps = &cores;
  run_tasks(run_options, Resubmission(run, cores));
  SimulatedTime time{cores.now_ns(), 0, critical_path(run)};
  for (const RecordedTask& task : run.tasks)
    for (uint64_t ns : task.block_ns) time.busy_ns += ns;
  return time;
}

}  // namespace pto
