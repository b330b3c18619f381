// SPDX-License-Identifier: Apache-2.0
// VirtualProcesses: drives a book of tasks with worker processes that are actors in virtual time.
//
//     VirtualProcesses<TaskBook> host(case_of(7));
//     host.run() == "";                        // else the law that broke
//
// It stands for what HostEngine does with threads and processes: a submitting thread and an
// attendant under one lock. The seed draws who goes on, kills workers and stops runs.
// Thread safety: one thread.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "pto/tasks/simulate/virtual_workers_test.hpp"

namespace pto {

template <class Book>
class VirtualProcesses final : public VirtualWorkers, BookDriver {
 public:
  explicit VirtualProcesses(const ProcessCase& options)
      : VirtualWorkers(options), book_(*this, workers_of(options), options.sent_most) {}

  // Returns the law that broke, or "".
  std::string run() {
    time_.add([this] { orchestrate(); });
    attendant_ = &time_.add([this] { attend(); });
    try {
      time_.run();
    } catch (const std::exception& error) {
      return error.what();
    }
    return broken_;
  }

 private:
  static std::vector<BookWorker> workers_of(const ProcessCase& options) {
    std::vector<BookWorker> workers(size_t(2 * options.devices));
    for (size_t w = 0; w < workers.size(); ++w) {
      workers[w].name = "device " + std::to_string(w % size_t(options.devices));
      workers[w].is_kept = w < size_t(options.devices);
    }
    return workers;
  }

  // --- what the book decides ---
  uint64_t now_ns() override { return time_.now_ns(); }
  bool send(int worker, const BookTask& task) override {
    time_.step();
    Life& life = *lives_[size_t(worker)];
    if (life.to_worker.size() >= case_.ring_most) return false;
    size_t part = 0;
    while (task.parts[part].worker != worker) ++part;
    life.to_worker.push_back({task.id, part, task.follows});
    return true;
  }
  void has_sent(int worker) override {
    time_.step();
    wake(*lives_[size_t(worker)]);
  }
  TaskId current_task(int worker) override {
    time_.step();
    return lives_[size_t(worker)]->current;
  }
  void refuse_until(int worker, TaskId last) override {
    time_.step();
    lives_[size_t(worker)]->refused = last;
  }
  void kill(int worker) override { strike(*lives_[size_t(worker)]); }
  std::string start(int worker) override {
    if (drawn() < case_.lost_starts) {
      is_broken_[size_t(worker)] = true;
      return "no process";
    }
    begin_life(worker);
    ring();
    return "";
  }
  bool holds(const BookTask& gate) override { return parts_done_ >= truth(gate.id).gate_at; }
  void has_ended(const BookTask& task) override {
    ++truth(task.id).ends;
    truth(task.id).has_opened = task.cause < 0;
    notify();
  }
  void look_at_time() override { ring(); }

  // --- the host's threads ---
  void lock() {
    while (is_locked_) {
      time_.count_step();
      time_.pass(50 + time_.drawn_step());
    }
    is_locked_ = true;
  }
  void unlock() { is_locked_ = false; }
  void notify() {
    if (std::exchange(waiter_, nullptr) != nullptr)
      time_.wake(*orchestrator_, now_ns() + time_.drawn_step());
  }
  bool has_answers() const {
    return std::any_of(lives_.begin(), lives_.end(),
                       [](const Life* life) { return life != nullptr && !life->to_host.empty(); });
  }
  void take_answers() {
    for (size_t w = 0; w < lives_.size(); ++w) {
      Life* const life = lives_[w];
      if (life == nullptr) continue;
      bool has_any = false;
      for (time_.step(); !life->to_host.empty(); life->to_host.pop_front(), has_any = true) {
        const Reply reply = life->to_host.front();
        book_.take_answer(int(w), reply.task, reply.outcome, "as it was told");
        time_.step();
      }
      if (has_any) book_.pump(int(w));
    }
  }
  bool awaits_answers() const { return waiters_ > 0 || book_.awaits_answers(); }
  void want_bells() {
    for (size_t w = 0; w < lives_.size(); ++w)
      if (lives_[w] != nullptr && !book_.worker(int(w)).sent.empty()) {
        time_.step();
        int& wanted = lives_[w]->wants_bell;
        wanted = std::max(wanted, awaits_answers() ? 2 : 1);
      }
  }
  template <class Condition>
  void drive_until(const Condition& condition) {
    const auto is_met = [&] {
      take_answers();
      return condition();
    };
    while (!is_met()) {
      unlock();
      time_.step();
      lock();
      if (is_met()) return;
      if (has_answers()) continue;
      ++waiters_;
      want_bells();
      if (!has_answers()) {
        unlock();
        waiter_ = orchestrator_;
        time_.sleep();
        lock();
      }
      --waiters_;
    }
  }
  void handle_end(int worker) {
    take_answers();
    const Life& life = *lives_[size_t(worker)];
    const auto& sent = book_.worker(worker).sent;
    if (!sent.empty() && sent.front()->id != life.current) ++truth(sent.front()->id).next_deaths;
    int& early = early_ends_[size_t(worker)];
    early = life.is_ready ? 0 : early + 1;
    if (early >= 3) is_broken_[size_t(worker)] = true;
    WorkerEnd end{"its worker", "was killed", "", 9, life.is_ready, life.current};
    lives_[size_t(worker)] = nullptr;
    book_.worker_ended(worker, end);
    notify();
  }
  bool has_dead() const {
    return std::any_of(lives_.begin(), lives_.end(),
                       [](const Life* life) { return life != nullptr && !life->is_alive; });
  }
  void attend() {
    lock();
    for (;;) {
      take_answers();
      book_.look_at_gates();
      book_.keep_time();
      notify();
      if (awaits_answers() || book_.awaits_room()) {
        want_bells();
        if (has_answers()) continue;
      }
      uint64_t until = book_.next_time_ns();
      if (book_.has_gates()) until = std::min<uint64_t>(until, now_ns() + 1'000'000);
      unlock();
      time_.step();
      while (!bell_ && !has_dead() && now_ns() < until) {
        attendant_sleeps_ = true;
        until == UINT64_MAX ? time_.sleep() : time_.sleep_until(until);
        attendant_sleeps_ = false;
      }
      bell_ = false;
      time_.step();
      lock();
      for (size_t w = 0; w < lives_.size(); ++w)
        if (lives_[w] != nullptr && !lives_[w]->is_alive) handle_end(int(w));
    }
  }

  // --- the orchestration ---
  void orchestrate() {
    orchestrator_ = &time_.current();
    lock();
    for (int w = 0; w < case_.devices; ++w) {
      begin_life(w);
      book_.worker_started(w);
    }
    unlock();
    for (int run = 0; run < case_.runs && broken_.empty(); ++run) orchestrate_run(run);
    time_.end();
  }
  void begin_run(int run) {
    works_ = random_works(case_.seed * 16 + uint64_t(run));
    bool has_room = int64_t(works_.size()) <= case_.window;  // else a gate may close the window
    for (Work& work : works_) {
      work.has_predicate = false;
      work.is_waited_for = work.is_waited_for && !has_room;
      for (Part& part : work.parts)
        if (part.access == Access::Reduce) part.access = Access::Update;
      if (!work.has_kernel || work.blocks > case_.devices)
        work.blocks = std::min(work.blocks, int32_t(case_.devices));
    }
    ++run_;
    base_ = book_.last();
    cells_.assign(size_t(kArrays * kCells), 0);
    memory_ = std::vector<History>(size_t(kArrays));
    order_ = TaskOrder();
    std::fill(is_broken_.begin(), is_broken_.end(), false);
    early_ends_.assign(lives_.size(), 0);
    watch_ = {[this](uint64_t ns) {
                Life* const life = life_of_[time_.current().index];
                live(*life, ns);
              },
              std::vector<int>(works_.size())};
    g_watch = &watch_;
    book_.begin_run(case_.window, case_.deadline_s, false);
    gates_wait_ = has_room;
    for (int k = 0; k < case_.kills; ++k)
      time_.add([this] { kill_one(); }, now_ns() + time_.random() % 60'000);
    if (case_.stop != ProcessCase::Stop::None)
      time_.add([this, number = run_] { stop(number); }, now_ns() + time_.random() % 60'000);
  }
  void kill_one() {
    Life* const life = lives_[time_.random() % lives_.size()];
    if (life != nullptr) strike(*life);
  }
  void stop(uint64_t number) {
    lock();
    if (book_.is_running() && run_ == number)
      book_.stop("enough", case_.stop == ProcessCase::Stop::Kills);
    unlock();
  }
  void orchestrate_run(int run) {
    lock();
    begin_run(run);
    for (size_t i = 0; i < works_.size(); ++i) {
      drive_until([&] { return book_.has_room(); });
      if (book_.is_stopped()) break;
      submit(i);
      if (awaits_answers() || book_.awaits_room()) {
        want_bells();
        if (has_answers()) take_answers();
      }
      const TaskId id = book_.last();
      if (works_[i].is_waited_for) {
        drive_until([&] { return book_.is_done(id); });
        if (truth(id).ends != 1) note("a wait for " + named(id) + " ended early");
        if (book_.is_stopped()) break;
      }
      unlock();
      time_.step();
      lock();
    }
    book_.begin_end();
    drive_until([&] { return book_.unfinished() == 0; });
    book_.end_run();
    check(book_);
    unlock();
    time_.step();
  }
  void submit(size_t i) {
    const Work& work = works_[i];
    const size_t parts = work.has_kernel ? size_t(work.blocks) : 0;
    const int lane = work.seed % 3 == 0 ? case_.devices : 0;
    const int first = int(work.seed / 3) % case_.devices;
    truths_.resize(size_t(base_) + i + 1);
    Truth& own = truths_.back();
    own.parts.assign(parts, Truth::Part::New);
    if (gates_wait_ && work.seed % 2 == 0) own.gate_at = parts_done_ + work.seed % 8;
    for (size_t p = 0; p < parts; ++p) {
      const int worker = lane + (first + int(p)) % case_.devices;
      if (lives_[size_t(worker)] != nullptr || !book_.worker(worker).broken.empty()) continue;
      begin_life(worker);
      book_.worker_started(worker);
      ring();
    }
    BookTask& task = book_.open("work", "");
    for (size_t p = 0; p < parts; ++p)
      task.parts.push_back({lane + (first + int(p)) % case_.devices});
    for (const Part& part : work.parts)
      memory_[size_t(part.array)].record(
          make_box((part.row * kSide + part.column) * 8, part.sizes, kStrides, 8), part.access,
          task.id, [&](TaskId earlier) { book_.follow(task, earlier); },
          [&](TaskId earlier) { return book_.is_settled(earlier); });
    for (TaskId earlier : work.after) book_.follow(task, base_ + earlier);
    std::vector<int> before;
    for (size_t k = 0; k < i; ++k)
      if (follows(works_, i, k)) before.push_back(int(k));
    order_.add(before);
    befores_.resize(i);
    befores_.push_back(std::move(before));
    book_.release(task);
  }

  Book book_;
  VirtualTime::Actor *orchestrator_ = nullptr, *waiter_ = nullptr;
  bool is_locked_ = false, gates_wait_ = false;
  int waiters_ = 0;
  std::vector<History> memory_;  // of the run's arrays
};

}  // namespace pto
