// SPDX-License-Identifier: Apache-2.0
#include "pto/tasks/cores/checker.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "pto/base/error.hpp"
#include "pto/tasks/book/task_order.hpp"
#include "pto/tasks/cores/run_state.hpp"

namespace pto {
namespace {

constexpr int64_t kGuard = 4096;  // bytes on both sides of memory that the run allocates
constexpr char kGuardByte = '\xa5';
constexpr int64_t kMostRuns = 1 << 20;           // runs of a box that are compared one by one
constexpr int64_t kMostWork = int64_t{1} << 31;  // words read to look for surplus edges

using Bytes = std::pair<int64_t, int64_t>;  // from, to

// Lists the runs of the box in order, with touching ones joined.
std::vector<Bytes> runs_of(const Box& box) {
  if (box.is_empty()) return {};
  int64_t count = 1;
  for (int32_t k = 0; k < box.rank; ++k) count *= box.size[k];
  if (count > kMostRuns) return {{box.offset, box.end()}};
  std::vector<Bytes> runs;
  for (int64_t i = 0; i < count; ++i) {
    int64_t at = box.offset, rest = i;
    for (int32_t k = box.rank - 1; k >= 0; --k) {
      at += rest % box.size[k] * box.stride[k];
      rest /= box.size[k];
    }
    runs.emplace_back(at, at + box.item);
  }
  std::sort(runs.begin(), runs.end());
  std::vector<Bytes> joined;
  for (const Bytes& run : runs)
    if (!joined.empty() && run.first <= joined.back().second)
      joined.back().second = std::max(joined.back().second, run.second);
    else
      joined.push_back(run);
  return joined;
}

void add_run(CheckedBytes& bytes, int64_t begin, int64_t end) {
  if (bytes.count == 0) bytes.begin = begin;
  bytes.end = end;
  bytes.count += end - begin;
}

CheckedBytes common_bytes(const Box& a, const Box& b) {
  CheckedBytes common;
  const std::vector<Bytes> left = runs_of(a), right = runs_of(b);
  for (size_t i = 0, k = 0; i < left.size() && k < right.size();) {
    const int64_t begin = std::max(left[i].first, right[k].first);
    const int64_t end = std::min(left[i].second, right[k].second);
    if (begin < end) add_run(common, begin, end);
    (left[i].second < right[k].second ? i : k) += 1;
  }
  return common;
}

bool is_in(const std::vector<Bytes>& runs, int64_t byte) {
  auto it = std::upper_bound(runs.begin(), runs.end(), Bytes{byte, INT64_MAX});
  return it != runs.begin() && byte < std::prev(it)->second;
}

// Memory of the run: its name, its bytes after the last task, and the accesses of all tasks as if
// nothing had opted out.
struct KnownMemory {
  std::string name;
  std::vector<char> before;
  History everything;
  std::unique_ptr<char[]> owned;  // with guards
};

struct Touch {
  Allocation* allocation;
  Box box;
  Access access;
};

}  // namespace

class CheckingRun final : public TaskRun {
 public:
  std::vector<Allocation*> adopt(std::span<const MemoryPiece> pieces) override {
    std::vector<Allocation*> result = adopt_pieces(pieces, allocations_);
    for (size_t i = 0; i < result.size(); ++i)
      if (KnownMemory& memory = known_[result[i]]; memory.name.empty()) {
        memory.name = "argument " + std::to_string(i);
        memory.before.assign(result[i]->data, result[i]->data + result[i]->bytes);
      }
    return result;
  }
  Allocation& allocate(int64_t bytes) override;
  void let_go(Allocation& allocation) override { allocation.users.store(0); }
  TaskId submit(const TaskSpec& spec) override;
  bool wait_for(const TaskTensor& tensor) override;
  void stop(const std::string& text) override { fail({text, "", ""}, ErrorKind::Runtime); }
  bool has_failed() const override { return false; }

  CheckReport finish();

  std::optional<Error> failed;  // of a task, which came back through the orchestration

 private:
  std::vector<int> follow(const TaskSpec& spec, TaskId task);
  void run(const TaskSpec& spec);
  void compare(const TaskSpec& spec);
  void compare_one(Allocation& allocation, KnownMemory& memory, const TaskSpec& spec);
  void note_write(UndeclaredWrite::Kind kind, const std::string& memory, CheckedBytes bytes);
  void look_for_races(const TaskSpec& spec);
  void note_race(TaskId from, TaskId to, const Touch& touch);
  int node_of(TaskId task) const { return nodes_[size_t(task) - 1]; }

  std::vector<std::unique_ptr<Allocation>> allocations_;
  std::map<Allocation*, KnownMemory> known_;
  std::vector<CheckedTask> tasks_;
  std::vector<int> nodes_;                   // of the tasks, in order_
  std::vector<std::vector<Touch>> touches_;  // of the tasks
  TaskOrder order_;
  int last_wait_ = -1;                               // a node that all later ones follow
  std::vector<std::pair<int, int>> required_;        // what inference alone would order
  std::vector<std::pair<TaskId, TaskId>> explicit_;  // what `after` does
  std::set<std::pair<TaskId, TaskId>> races_;
  std::vector<char> written_reads_;  // of the last task's read-only tensors: it wrote them
  CheckReport report_;
  int64_t made_ = 0;
};

Allocation& CheckingRun::allocate(int64_t bytes) {
  const int64_t all = std::max<int64_t>(bytes, 1) + 2 * kGuard;
  std::unique_ptr<char[]> owned(bytes < 0 ? nullptr : new (std::nothrow) char[size_t(all)]);
  if (owned == nullptr)
    fail({"a checked run asked for " + std::to_string(bytes) +
              " bytes, and the system cannot give them",
          "tensors of an orchestration are kept until the check ends", "use smaller tensors"},
         ErrorKind::Runtime);
  std::fill_n(owned.get(), all, kGuardByte);
  Allocation& added = add_allocation(allocations_, owned.get() + kGuard, bytes, false);
  KnownMemory& memory = known_[&added];
  memory.name = "tensor " + std::to_string(++made_);
  memory.before.assign(added.data, added.data + bytes);
  memory.owned = std::move(owned);
  return added;
}

// Lists the edges that the run has: from tracked tensors and from `after`.
std::vector<int> CheckingRun::follow(const TaskSpec& spec, TaskId task) {
  std::vector<int> follows;
  if (last_wait_ >= 0) follows.push_back(last_wait_);
  const auto follow_one = [&](const TaskTensor& tensor) {
    if (!tensor.is_tracked) return;
    tensor.allocation->history.record(
        box_of(tensor), tensor.access, task,
        [&](TaskId earlier) {
          if (earlier != task) follows.push_back(node_of(earlier));
        },
        [](TaskId) { return false; });
  };
  for (const TaskTensor& tensor : spec.tensors) follow_one(tensor);
  if (spec.predicate_tensor != nullptr) follow_one(*spec.predicate_tensor);
  std::sort(follows.begin(), follows.end());
  follows.erase(std::unique(follows.begin(), follows.end()), follows.end());
  for (TaskId id : spec.after) {
    if (std::find(follows.begin(), follows.end(), node_of(id)) != follows.end()) {
      report_.surplus.push_back({tasks_[size_t(id) - 1], tasks_.back(), true});
      continue;
    }
    follows.push_back(node_of(id));
    explicit_.emplace_back(id, task);
  }
  report_.edges += int64_t(follows.size());
  return follows;
}

TaskId CheckingRun::submit(const TaskSpec& spec) {
  check_submission(spec, tasks_.size());
  if (order_.size() >= TaskOrder::kMost)
    fail({"a program of more than " + std::to_string(TaskOrder::kMost) + " tasks is checked",
          "a check keeps a bit for each pair of tasks", "check a smaller size of the program"});
  const TaskId task = tasks_.size() + 1;
  tasks_.push_back(
      {task, spec.kernel == nullptr ? "(none)" : spec.kernel->name, site_of(spec.file, spec.line)});
  nodes_.push_back(order_.add(follow(spec, task)));
  written_reads_.assign(spec.tensors.size(), 0);
  if (spec.kernel != nullptr && (spec.predicate == nullptr || holds(*spec.predicate))) run(spec);
  look_for_races(spec);
  ++report_.tasks;
  return task;
}

void CheckingRun::run(const TaskSpec& spec) {
  std::vector<pto_tensor> tensors;
  for (const TaskTensor& tensor : spec.tensors) tensors.push_back(tensor.view);
  const pto_args args = args_of(tensors, spec.scalars);
  if (spec.kernel->launch(args, spec.blocks) != 0) {
    const CheckedTask& task = tasks_.back();
    failed.emplace(
        ErrorText{"task " + std::to_string(task.id) + " (" + task.kernel + ")" +
                      (task.site.empty() ? "" : ", submitted at " + task.site) +
                      ", failed while it was checked: " + pto_last_error(),
                  "a check runs every task once, in order", "mend the cause and check again"},
        ErrorKind::Runtime);
    throw *failed;
  }
  compare(spec);
}

void CheckingRun::compare(const TaskSpec& spec) {
  for (const auto& one : allocations_) compare_one(*one, known_.at(one.get()), spec);
}

// Reports bytes that have changed outside the boxes that the task writes.
void CheckingRun::compare_one(Allocation& allocation, KnownMemory& memory, const TaskSpec& spec) {
  if (memory.owned != nullptr) {
    char* const guards[] = {memory.owned.get(), allocation.data + allocation.bytes};
    for (char* guard : guards) {
      CheckedBytes changed;
      for (int64_t i = 0; i < kGuard; ++i)
        if (const int64_t at = guard + i - allocation.data; guard[i] != kGuardByte)
          add_run(changed, at, at + 1);
      note_write(UndeclaredWrite::OutOfBounds, memory.name, changed);
      std::fill_n(guard, kGuard, kGuardByte);
    }
  }
  const auto bytes = size_t(allocation.bytes);
  if (bytes == 0 || std::memcmp(allocation.data, memory.before.data(), bytes) == 0) return;
  std::vector<std::vector<Bytes>> written, read;
  std::vector<size_t> inputs_of;
  for (size_t i = 0; i < spec.tensors.size(); ++i) {
    if (spec.tensors[i].allocation != &allocation) continue;
    (spec.tensors[i].access == Access::Read ? read : written)
        .push_back(runs_of(box_of(spec.tensors[i])));
    if (spec.tensors[i].access == Access::Read) inputs_of.push_back(i);
  }
  CheckedBytes inputs, beside;
  for (int64_t at = 0; at < allocation.bytes; ++at) {
    if (allocation.data[at] == memory.before[size_t(at)]) continue;
    const auto has = [&](const std::vector<Bytes>& runs) { return is_in(runs, at); };
    if (std::any_of(written.begin(), written.end(), has)) continue;
    bool is_input = false;
    for (size_t k = 0; k < read.size(); ++k)
      if (has(read[k])) {
        is_input = true;
        written_reads_[inputs_of[k]] = 1;
      }
    add_run(is_input ? inputs : beside, at, at + 1);
  }
  note_write(UndeclaredWrite::IntoInput, memory.name, inputs);
  note_write(
      read.empty() && written.empty() ? UndeclaredWrite::IntoOthers : UndeclaredWrite::BesideItsBox,
      memory.name, beside);
  std::copy_n(allocation.data, bytes, memory.before.data());
}

void CheckingRun::note_write(UndeclaredWrite::Kind kind, const std::string& memory,
                             CheckedBytes bytes) {
  if (bytes.count == 0) return;
  bytes.memory = memory;
  report_.writes.push_back({tasks_.back(), kind, bytes});
}

// Reports pairs of tasks that inference would order and the existing edges do not. Untracked
// reducing tasks take no turns, so they count as writers.
void CheckingRun::look_for_races(const TaskSpec& spec) {
  const TaskId task = tasks_.size();
  touches_.emplace_back();
  const auto touch_one = [&](const TaskTensor& tensor, bool is_written) {
    Touch touch{tensor.allocation, box_of(tensor), tensor.access};
    const bool takes_turns = tensor.is_tracked && touch.access == Access::Reduce;
    if (is_written || (touch.access == Access::Reduce && !takes_turns))
      touch.access = Access::Update;
    touches_.back().push_back(touch);
    known_.at(tensor.allocation)
        .everything.record(
            touch.box, touch.access, task,
            [&](TaskId earlier) {
              if (earlier == task) return;
              if (order_.precedes(node_of(earlier), node_of(task)))
                required_.emplace_back(node_of(earlier), node_of(task));
              else
                note_race(earlier, task, touch);
            },
            [](TaskId) { return false; });
  };
  for (size_t i = 0; i < spec.tensors.size(); ++i)
    touch_one(spec.tensors[i], written_reads_[i] != 0);
  if (spec.predicate_tensor != nullptr) touch_one(*spec.predicate_tensor, false);
}

void CheckingRun::note_race(TaskId from, TaskId to, const Touch& touch) {
  if (races_.count({from, to}) > 0) return;
  for (const Touch& other : touches_[size_t(from) - 1]) {
    if (other.allocation != touch.allocation) continue;
    if (other.access == Access::Read && touch.access == Access::Read) continue;
    CheckedBytes common = common_bytes(other.box, touch.box);
    if (common.count == 0) continue;
    common.memory = known_.at(touch.allocation).name;
    const CheckedTask later = to == 0 ? CheckedTask{} : tasks_[size_t(to) - 1];
    report_.races.push_back(
        {tasks_[size_t(from) - 1], later, other.access, touch.access, std::move(common)});
    races_.insert({from, to});
    return;
  }
}

// The orchestration waits for the writers in the history; any other writer races with it.
bool CheckingRun::wait_for(const TaskTensor& tensor) {
  std::vector<int> follows;
  if (last_wait_ >= 0) follows.push_back(last_wait_);
  const Box box = box_of(tensor);
  tensor.allocation->history.writers(box, [&](TaskId task) { follows.push_back(node_of(task)); });
  last_wait_ = order_.add(follows);
  const Touch touch{tensor.allocation, box, Access::Read};
  known_.at(tensor.allocation).everything.writers(box, [&](TaskId task) {
    if (!order_.precedes(node_of(task), last_wait_)) note_race(task, 0, touch);
  });
  return true;
}

CheckReport CheckingRun::finish() {
  int64_t work = 0;
  for (const auto& [from, to] : explicit_) {
    work += order_.work(node_of(to));
    if (work > kMostWork) {
      ++report_.unexamined;
      continue;
    }
    const auto change = order_.without(node_of(from), node_of(to), required_);
    if (change.is_same)
      report_.surplus.push_back(
          {tasks_[size_t(from) - 1], tasks_[size_t(to) - 1], change.is_implied});
  }
  return std::move(report_);
}

CheckReport check_orchestration(const OrchestrationProgram& program,
                                std::span<const pto_tensor> tensors, const Numbers& scalars) {
  CheckingRun run;
  try {
    orchestrate_into(run, program, tensors, scalars);
  } catch (const Error&) {
    if (run.failed) throw *run.failed;
    throw;
  }
  return run.finish();
}

}  // namespace pto
