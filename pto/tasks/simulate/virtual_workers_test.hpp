// SPDX-License-Identifier: Apache-2.0
// VirtualWorkers: worker processes in virtual time, and the laws that hold whatever becomes of
// them.
//
// A worker is an actor with a mailbox of a few places; it serves as serve.cpp does. The seed kills
// it at any step. Each part of a task notes what became of it, so the laws need not ask the book.
// Thread safety: one thread.
#pragma once

#include <algorithm>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "pto/tasks/book/task_book.hpp"
#include "pto/tasks/book/task_order.hpp"
#include "pto/tasks/simulate/laws_test.hpp"
#include "pto/tasks/simulate/virtual_time.hpp"

namespace pto {

struct ProcessCase {
  uint64_t seed = 1;
  int devices = 2;
  int64_t window = 4;
  size_t sent_most = TaskBook::kSentMost, ring_most = 4;
  double fails = 0, dies = 0, hangs = 0;  // shares of tasks
  double deaths = 0;                      // share of a worker's steps
  double early_ends = 0, lost_starts = 0;
  int kills = 0;  // from outside, in a run
  enum class Stop { None, Kills, Lets } stop = Stop::None;
  double deadline_s = 0;
  int runs = 2;
};

// Notes what became of a task.
struct Truth {
  enum class Part { New, Begun, Done, Failed };
  std::vector<Part> parts;
  int ends = 0;             // that the book has told of
  bool has_opened = false;  // of a gate
  int next_deaths = 0;      // of workers whose next task it was
  int arrived = 0;          // members of a group that meet
  int64_t gate_at = 0;      // a gate opens after so many parts

  bool is(Part state) const {
    return std::all_of(parts.begin(), parts.end(), [&](Part one) { return one == state; });
  }
  bool has_begun() const { return !is(Part::New); }
  bool is_done() const { return is(Part::Done) && (has_opened || !parts.empty()); }
};

class VirtualWorkers {
 public:
  uint64_t end_ns() const { return time_.now_ns(); }
  int64_t parts_done() const { return parts_done_; }
  int64_t deaths() const { return deaths_; }

 protected:
  explicit VirtualWorkers(const ProcessCase& options)
      : case_(options),
        time_(options.seed, true, 400'000),
        lives_(size_t(2 * options.devices)),
        is_broken_(lives_.size()),
        early_ends_(lives_.size()) {}

  struct Message {
    TaskId task;
    size_t part;
    std::vector<TaskId> follows;
  };
  struct Reply {
    TaskId task;
    Outcome outcome;
  };
  struct Killed {};
  struct Life {  // a process
    int worker;
    VirtualTime::Actor* actor = nullptr;
    std::deque<Message> to_worker;
    std::deque<Reply> to_host;
    TaskId current = 0, refused = 0;
    int wants_bell = 0;  // 1: when it is idle, 2: at once
    bool is_ready = false, is_alive = true, is_killed = false, is_asleep = false;
    WorkerSkips skips;
  };

  double drawn() { return double(time_.random() >> 11) * 0x1p-53; }
  double drawn_for(TaskId task) const {
    return double(mix_bits(case_.seed ^ mix_bits(task)) >> 11) * 0x1p-53;
  }
  Truth& truth(TaskId id) { return truths_[size_t(id - 1)]; }
  void note(const std::string& broken) {
    if (broken_.empty()) broken_ = broken;
  }

  // --- processes ---
  void begin_life(int worker) {
    all_lives_.push_back(std::make_unique<Life>());
    Life& life = *all_lives_.back();
    life.worker = worker;
    lives_[size_t(worker)] = &life;
    life.actor = &time_.add([this, &life] { serve(life); }, time_.now_ns() + time_.drawn_step());
    if (life_of_.size() <= life.actor->index) life_of_.resize(life.actor->index + 1);
    life_of_[life.actor->index] = &life;
  }
  void wake(Life& life) {
    if (!life.is_asleep) return;
    life.is_asleep = false;
    time_.wake(*life.actor, time_.now_ns() + time_.drawn_step());
  }
  void strike(Life& life) {
    life.is_killed = true;
    wake(life);
  }
  // The worker may die here.
  void live(Life& life, uint64_t ns = 0) {
    time_.pass(ns);
    time_.step();
    if (life.is_killed || drawn() < case_.deaths) throw Killed{};
  }
  void rest(Life& life) {
    life.is_asleep = true;
    time_.sleep();
    if (life.is_killed) throw Killed{};
  }
  void serve(Life& life) {
    try {
      live(life);
      if (drawn() < case_.early_ends) throw Killed{};
      life.is_ready = true;
      for (;;) {
        while (life.to_worker.empty()) rest(life);
        live(life);
        take(life, life.to_worker.front());
        life.to_worker.pop_front();
        live(life);
        if (life.wants_bell >= (life.to_worker.empty() ? 1 : 2)) {
          life.wants_bell = 0;
          ring();
        }
      }
    } catch (const Killed&) {
      ++deaths_;
    }
    life.is_alive = false;
    time_.step();
    wake_attendant();
  }
  void take(Life& life, const Message& message) {
    Truth& own = truth(message.task);
    if (life.skips.skips(run_, message.task, message.follows, life.refused))
      return answer(life, {message.task, Outcome::Skipped});
    live(life);
    life.current = message.task;
    if (own.parts[message.part] != Truth::Part::New) note(named(message.task) + " began twice");
    own.parts[message.part] = Truth::Part::Begun;
    check_predecessors(message.task);
    live(life);
    const bool is_done = call(life, message, own);
    live(life);
    if (!is_done) life.skips.note_failure(message.task);
    while (life.to_host.size() >= case_.ring_most) {
      ring();
      live(life);
    }
    own.parts[message.part] = is_done ? Truth::Part::Done : Truth::Part::Failed;
    parts_done_ += is_done;
    answer(life, {message.task, is_done ? Outcome::Done : Outcome::Failed});
    live(life);
    life.current = 0;
  }
  void answer(Life& life, Reply reply) {
    while (life.to_host.size() >= case_.ring_most) {
      ring();
      live(life);
    }
    life.to_host.push_back(reply);
  }
  bool call(Life& life, const Message& message, Truth& own) {
    const size_t i = size_t(message.task - base_ - 1);
    const Work& work = works_[i];
    if (own.parts.size() > 1 && work.seed % 2 == 0) {  // its members meet
      ++own.arrived;
      for (const auto& other : all_lives_) wake(*other);
      while (own.arrived < int(own.parts.size())) rest(life);
    }
    const double fate = drawn_for(message.task + message.part);
    if (fate < case_.fails) return false;
    if (fate < case_.fails + case_.dies) throw Killed{};
    if (fate < case_.fails + case_.dies + case_.hangs)
      for (;;) rest(life);
    std::vector<pto_tensor> tensors;
    for (const Part& part : work.parts) tensors.push_back(tensor_of(cells_, part));
    const uint64_t scalars[] = {reinterpret_cast<uint64_t>(&work), i};
    pto_args args{};
    args.tensors = tensors.data();
    args.n_tensors = int32_t(tensors.size());
    args.scalars = scalars;
    args.blocks = int32_t(own.parts.size());
    args.block = int32_t(message.part);
    return run_work(&args) == 0;
  }

  // --- the attendant's bell ---
  void ring() {
    bell_ = true;
    wake_attendant();
  }
  void wake_attendant() {
    if (!std::exchange(attendant_sleeps_, false)) return;
    time_.wake(*attendant_, time_.now_ns() + time_.drawn_step());
  }
  // --- laws ---
  std::string named(TaskId id) const { return "task " + std::to_string(id); }
  void check_predecessors(TaskId id) {
    for (int k : befores_[size_t(id - base_ - 1)]) {
      const TaskId earlier = base_ + TaskId(k) + 1;
      if (!truth(earlier).is_done())
        note(named(id) + " began although " + named(earlier) + " has not done its work");
    }
  }
  // Whether the task may have failed by itself.
  bool may_fail(const Truth& own, size_t i) const {
    if (own.parts.empty()) return parts_done_ < own.gate_at;
    if (own.next_deaths >= 3 || (own.has_begun() && !own.is(Truth::Part::Done))) return true;
    const int lane = works_[i].seed % 3 == 0 ? case_.devices : 0;
    for (size_t p = 0; p < own.parts.size(); ++p)
      if (is_broken_[size_t(lane + (int(works_[i].seed / 3) + int(p)) % case_.devices)])
        return true;
    return false;
  }
  void check(const TaskBook& book) {
    Oracle oracle;
    std::vector<char> is_lost(cells_.size());  // cells that a broken task may have written
    int64_t others = 0;
    const Failures& failures = book.failures();
    const size_t n = size_t(book.last() - base_);
    Watch none{{}, std::vector<int>(works_.size())};
    g_watch = &none;
    for (size_t i = 0; i < n; ++i) {
      const TaskId id = base_ + TaskId(i) + 1;
      Truth& own = truth(id);
      const bool has_succeeded = book.has_succeeded(id);
      others += !has_succeeded;
      if (own.ends != 1) note(named(id) + " ended " + std::to_string(own.ends) + " times");
      const bool is_done = own.is_done();
      if (has_succeeded && !is_done) note(named(id) + " did not do its work and counts as done");
      if (!has_succeeded) check_cause(book, id, i);
      if (own.has_begun() && !is_done) {
        const Part& part = works_[i].parts.back();
        for (int64_t k = 0; k < part.sizes[0] * part.sizes[1]; ++k)
          is_lost[size_t(part.array * kCells + (part.row + k / part.sizes[1]) * kSide +
                         part.column + k % part.sizes[1])] = 1;
      }
      oracle.step(works_, i, !is_done);
    }
    for (size_t k = 0; k < cells_.size(); ++k)
      if (is_lost[k] == 0 && cells_[k] != oracle.cells[k])
        note("memory is not as one task after another leaves it");
    if (failures.is_empty() ? others > 0
                            : failures.first().others != others - (failures.first().task != 0))
      note("the error counts other tasks than were stopped");
    if (!book.is_at_rest()) note("the book is not at rest after a run");
  }
  void check_cause(const TaskBook& book, TaskId id, size_t i) {
    const TaskFailure& cause = book.failures()[book.failures().cause_of(id)];
    if (cause.task == 0) {
      if (!book.is_stopped()) note(named(id) + " was stopped, and nobody stopped the run");
    } else if (truth(id).is_done() && !book.is_stopped()) {
      note(named(id) + " did its work and counts as failed: " + cause.text);
    } else if (cause.task == id) {
      if (!may_fail(truth(id), i)) note(named(id) + " failed by itself: " + cause.text);
    } else if (!order_.precedes(int(cause.task - base_ - 1), int(i))) {
      note(named(id) + " names a cause that it does not follow: " + named(cause.task));
    }
  }

  const ProcessCase case_;
  VirtualTime time_;
  std::vector<std::unique_ptr<Life>> all_lives_;
  std::vector<Life*> lives_, life_of_;  // by worker, null: none; by actor
  std::vector<char> is_broken_;         // workers that were not started again
  std::vector<int> early_ends_;
  std::deque<Truth> truths_;  // by task, over all runs
  int64_t parts_done_ = 0, deaths_ = 0;
  std::string broken_;  // the first law that broke
  VirtualTime::Actor* attendant_ = nullptr;
  bool bell_ = false, attendant_sleeps_ = false;

  // The current run.
  uint64_t run_ = 0;
  TaskId base_ = 0;  // the last task before it
  std::vector<Work> works_;
  std::vector<std::vector<int>> befores_;
  TaskOrder order_;
  Cells cells_;
  Watch watch_;
};

}  // namespace pto
