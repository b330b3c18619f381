// SPDX-License-Identifier: Apache-2.0
// Runs random histories of worker processes that die, answer late and have full mailboxes: each
// task ends once, with the right result or the right cause. A law that fails prints its seed, which
// replays the history exactly.
#include "pto/tasks/simulate/virtual_processes_test.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/deep.hpp"

namespace pto::virtual_processes_test {

using testing::HasSubstr;

ProcessCase case_of(uint64_t seed) {
  uint64_t bits = mix_bits(seed);
  const auto below = [&](uint64_t n) {
    const uint64_t drawn = bits % n;
    bits /= n;
    return drawn;
  };
  ProcessCase one;
  one.seed = seed;
  one.devices = 1 + int(below(4));
  one.window = int64_t(2) << below(6);
  one.sent_most = below(2) == 0 ? 1 + below(4) : TaskBook::kSentMost;
  one.ring_most = 2 + below(5);  // an answer may be taken before its message has left
  if (below(3) == 0) one.fails = 0.1;
  if (below(3) == 0) one.dies = 0.05;
  if (below(3) == 0) one.deaths = below(2) == 0 ? 0.02 : 0.002;
  if (below(4) == 0) one.kills = 1 + int(below(5));
  if (below(8) == 0) one.early_ends = 0.4;
  if (below(8) == 0) one.lost_starts = 0.2;
  if (below(6) == 0) one.stop = below(2) == 0 ? ProcessCase::Stop::Kills : ProcessCase::Stop::Lets;
  if (below(6) == 0) {
    one.deadline_s = 1e-6 * double(5 + below(200));
    one.hangs = 0.05;
  }
  return one;
}

TEST(VirtualProcesses, every_history_ends_each_task_once_with_its_result_or_its_cause) {
  const int rounds = rounds_of(2000, 100'000);
  int64_t parts = 0, deaths = 0;
  for (uint64_t seed = 1; seed <= uint64_t(rounds); ++seed) {
    VirtualProcesses<TaskBook> host(case_of(seed));
    ASSERT_EQ(host.run(), "") << "seed " << seed;
    parts += host.parts_done();
    deaths += host.deaths();
  }
  EXPECT_GT(parts, 20 * rounds);
  EXPECT_GT(deaths, rounds / 2);
}

TEST(VirtualProcesses, a_seed_replays_exactly) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    VirtualProcesses<TaskBook> one(case_of(seed)), other(case_of(seed));
    EXPECT_EQ(one.run(), other.run());
    EXPECT_EQ(one.end_ns(), other.end_ns()) << "seed " << seed;
  }
}

// --- mistakes of the rules, made on purpose, are found -------------------------------------------

struct ForgetsPoison : TaskBook {
  using TaskBook::TaskBook;
  void take_answer(int worker, TaskId task, Outcome outcome, const std::string& text) {
    TaskBook::take_answer(worker, task, outcome, text);
    if (outcome != Outcome::Failed) return;
    for (BookTask& one : slots_)
      if (one.stage == BookTask::Stage::Waiting && one.cause == slot(task).cause) one.cause = -1;
  }
};
struct ReleasesEarly : TaskBook {
  using TaskBook::TaskBook;
  void release(BookTask& task) {
    if (task.pending > 2 && task.id % 4 == 0) --task.pending;
    TaskBook::release(task);
  }
};
struct EndsGroupsWithTheirFirstPart : TaskBook {
  using TaskBook::TaskBook;
  void take_answer(int worker, TaskId task, Outcome outcome, const std::string& text) {
    if (BookTask& one = slot(task); one.id == task) one.parts_left = 1;
    TaskBook::take_answer(worker, task, outcome, text);
  }
};
struct NeverFreesASlot : TaskBook {
  using TaskBook::TaskBook;
  void take_answer(int worker, TaskId task, Outcome outcome, const std::string& text) {
    TaskBook::take_answer(worker, task, outcome, text);
    if (task % 16 == 0 && is_done(task)) slot(task).stage = BookTask::Stage::Queued;
  }
};
struct LosesWhatADeadWorkerHadNotBegun : TaskBook {
  using TaskBook::TaskBook;
  void worker_ended(int worker, const WorkerEnd& end) {
    std::deque<BookTask*>& sent = workers_[size_t(worker)].sent;
    if (!sent.empty() && sent.front()->id != end.current) sent.clear();
    TaskBook::worker_ended(worker, end);
  }
};
struct SendsWhatADeadWorkerHadBegun : TaskBook {
  using TaskBook::TaskBook;
  void worker_ended(int worker, WorkerEnd end) {
    end.current = 0;
    TaskBook::worker_ended(worker, end);
  }
};
struct LetsGroupsWaitForEver : TaskBook {
  using TaskBook::TaskBook;
  void keep_time() {
    for (BookWorker& worker : workers_) worker.kill_task = 0;
    TaskBook::keep_time();
  }
};
struct CountsATaskTwice : TaskBook {
  using TaskBook::TaskBook;
  void begin_end() {
    TaskBook::begin_end();
    ++waiting_;
  }
};

// Returns how the first seed that breaks the law does.
template <class Book>
std::string first_broken() {
  for (uint64_t seed = 1; seed <= 600; ++seed) {
    VirtualProcesses<Book> host(case_of(seed));
    const std::string broken = host.run();
    if (broken.empty()) continue;
    VirtualProcesses<Book> again(case_of(seed));
    EXPECT_EQ(again.run(), broken) << "seed " << seed;
    return broken;
  }
  return "nothing is broken";
}

TEST(VirtualProcesses, finds_a_task_that_runs_although_it_follows_a_failed_one) {
  EXPECT_THAT(first_broken<ForgetsPoison>(), HasSubstr("began although"));
}
TEST(VirtualProcesses, finds_a_task_that_begins_before_those_it_follows) {
  EXPECT_THAT(first_broken<ReleasesEarly>(), HasSubstr("began although"));
  EXPECT_THAT(first_broken<EndsGroupsWithTheirFirstPart>(), testing::Not("nothing is broken"));
}
TEST(VirtualProcesses, finds_a_slot_that_is_never_free) {
  EXPECT_THAT(first_broken<NeverFreesASlot>(), testing::Not("nothing is broken"));
}
TEST(VirtualProcesses, finds_a_death_between_sending_and_answering_that_is_ignored) {
  EXPECT_THAT(first_broken<LosesWhatADeadWorkerHadNotBegun>(), HasSubstr("stands still"));
  EXPECT_THAT(first_broken<SendsWhatADeadWorkerHadBegun>(), HasSubstr("began twice"));
}
TEST(VirtualProcesses, finds_a_group_that_waits_for_ever) {
  EXPECT_THAT(first_broken<LetsGroupsWaitForEver>(), HasSubstr("stands still"));
}
TEST(VirtualProcesses, finds_counts_that_are_wrong_after_a_run) {
  EXPECT_THAT(first_broken<CountsATaskTwice>(), HasSubstr("not at rest"));
}

}  // namespace pto::virtual_processes_test
