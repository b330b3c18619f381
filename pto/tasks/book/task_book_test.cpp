// SPDX-License-Identifier: Apache-2.0
// Single histories of the book, by a driver that notes what it is told. Random ones run in
// simulate/virtual_processes_test.cpp.
#include "pto/tasks/book/task_book.hpp"

#include <gtest/gtest.h>

#include <set>

namespace pto::task_book_test {

struct Notes final : BookDriver {
  uint64_t now_ns() override { return now; }
  bool send(int, const BookTask& task) override {
    sent.push_back(task.id);
    return true;
  }
  void has_sent(int) override {}
  TaskId current_task(int worker) override { return current[worker]; }
  void refuse_until(int, TaskId) override {}
  void kill(int worker) override { killed.push_back(worker); }
  std::string start(int worker) override {
    started.push_back(worker);
    return "";
  }
  bool holds(const BookTask& gate) override { return open.count(gate.id) > 0; }
  void has_ended(const BookTask&) override {}
  void look_at_time() override {}

  uint64_t now = 0;
  TaskId current[3] = {};
  std::vector<TaskId> sent;
  std::vector<int> killed, started;
  std::set<TaskId> open;  // gates
};

struct OneBook {
  explicit OneBook(size_t sent_most = TaskBook::kSentMost)
      : book(notes, {{"device 0"}, {"device 1"}, {"device 2"}}, sent_most) {
    for (int worker = 0; worker < 3; ++worker) book.worker_started(worker);
    book.begin_run(64, 0, false);
  }
  TaskId submit(std::vector<int> workers, std::vector<TaskId> after = {}) {
    BookTask& task = book.open("task", "");
    for (int worker : workers) task.parts.push_back({worker});
    for (TaskId earlier : after) book.follow(task, earlier);
    book.release(task);
    return task.id;
  }
  void answer(int worker, TaskId task, Outcome outcome = Outcome::Done) {
    book.take_answer(worker, task, outcome, "");
    book.pump(worker);
  }
  Notes notes;
  TaskBook book;
};

TEST(TaskBook, sends_nothing_that_follows_a_failed_task_while_a_gate_opens) {
  OneBook one(1);
  const TaskId fails = one.submit({0});
  const TaskId follows = one.submit({0}, {one.submit({0}, {fails})});
  const TaskId gate = one.submit({});
  const TaskId good = one.submit({0}, {gate});
  one.notes.open.insert(gate);
  one.answer(0, fails, Outcome::Failed);
  EXPECT_FALSE(one.book.has_succeeded(follows));
  EXPECT_EQ(one.notes.sent, (std::vector<TaskId>{fails, good}));
}

TEST(TaskBook, a_gate_that_another_gate_opens_is_no_deadlock) {
  OneBook one;
  const TaskId later = one.submit({}), sooner = one.submit({});
  const TaskId opens = one.submit({0}, {sooner}), last = one.submit({0});
  one.book.begin_end();
  one.notes.open.insert(sooner);
  one.answer(0, last);
  EXPECT_FALSE(one.book.is_done(later));
  one.notes.open.insert(later);
  one.answer(0, opens);
  EXPECT_TRUE(one.book.has_succeeded(later));
  EXPECT_TRUE(one.book.is_at_rest());
}

TEST(TaskBook, a_gate_is_a_deadlock_where_who_submits_waits_for_it) {
  OneBook one;
  const TaskId gate = one.submit({}), follows = one.submit({0}, {gate});
  const TaskId other = one.submit({0});
  one.book.await(other);
  EXPECT_FALSE(one.book.is_done(gate));
  one.answer(0, other);
  EXPECT_FALSE(one.book.is_done(gate));  // more may come
  one.book.await(follows);
  EXPECT_FALSE(one.book.has_succeeded(gate));
  EXPECT_FALSE(one.book.has_succeeded(follows));
  EXPECT_TRUE(one.book.is_at_rest());
}

TEST(TaskBook, limits_the_part_that_runs_and_not_a_later_one_whose_group_broke_first) {
  OneBook one;
  const TaskId runs = one.submit({1, 2}), waits = one.submit({0, 1});
  one.notes.current[1] = runs;
  one.answer(0, waits, Outcome::Failed);
  one.answer(2, runs, Outcome::Failed);
  one.notes.now = TaskBook::kGroupGrace_ns;
  one.book.keep_time();
  EXPECT_EQ(one.notes.killed, std::vector<int>{1});
}

TEST(TaskBook, limits_a_part_whose_group_lost_one_that_never_began) {
  OneBook one;
  const TaskId runs = one.submit({0, 1});
  one.notes.current[0] = runs;
  one.book.stop("enough", false);
  one.answer(1, runs, Outcome::Skipped);
  one.notes.now = TaskBook::kGroupGrace_ns;
  one.book.keep_time();
  EXPECT_EQ(one.notes.killed, std::vector<int>{0});
}

TEST(TaskBook, gives_a_part_that_begins_late_all_of_its_time) {
  OneBook one;
  const TaskId sooner = one.submit({1}), runs = one.submit({0, 1});
  one.notes.current[1] = sooner;
  one.answer(0, runs, Outcome::Failed);
  one.answer(1, sooner);
  one.notes.current[1] = runs;
  for (int look = 1; look <= 2; ++look) {
    EXPECT_TRUE(one.notes.killed.empty());
    one.notes.now = uint64_t(look) * TaskBook::kGroupGrace_ns;
    one.book.keep_time();
  }
  EXPECT_EQ(one.notes.killed, std::vector<int>{1});
}

TEST(TaskBook, starts_a_lazy_worker_that_died_idle_for_a_task_that_waited) {
  Notes notes;
  TaskBook book(notes, {{"device 0"}, {.name = "device 1", .is_kept = false}});
  book.worker_started(0);
  book.worker_started(1);
  book.begin_run(64, 0, false);
  BookTask& first = book.open("first", "");
  first.parts.push_back({0});
  book.release(first);
  BookTask& second = book.open("second", "");
  second.parts.push_back({1});
  book.follow(second, first.id);
  book.release(second);
  book.worker_ended(1, {"a worker", "ended", "", 9, true, 0});
  EXPECT_TRUE(notes.started.empty());
  book.take_answer(0, first.id, Outcome::Done, "");
  EXPECT_EQ(notes.started, std::vector<int>{1});
  EXPECT_EQ(notes.sent.back(), second.id);
}

}  // namespace pto::task_book_test
