// SPDX-License-Identifier: Apache-2.0
// Tests the host engine with this executable as its worker; a program's name says what it does.
#include "pto/tasks/processes/host_engine.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <random>
#include <thread>

#include "pto/tasks/book/trace.hpp"
#include "pto/tasks/processes/child_process.hpp"
#include "pto/tasks/processes/host_test.hpp"
#include "pto/tasks/processes/serve.hpp"
#include "tests/deep.hpp"

namespace pto::host_engine_test {

using testing::HasSubstr;

// --- the worker ----------------------------------------------------------------------------------

std::shared_ptr<SharedRegion> g_mailbox;  // of the worker

class TestExecutor final : public TaskExecutor {
 public:
  void load(uint32_t program, std::span<const char> image) override {
    names_[program] = image_of(image).name;
    if (names_[program] == "unloadable") throw std::runtime_error("cannot be loaded");
  }
  void forget(uint32_t program) override { names_.erase(program); }
  void run(uint32_t program, std::span<const pto_tensor> tensors, const Numbers& scalars,
           double) override {
    const std::string name = names_.at(program);
    const std::span<const uint64_t> numbers = scalars.bits();
    const auto word = [&](size_t i) { return static_cast<std::atomic<int64_t>*>(tensors[i].data); };
    if (name == "mix") mix(tensors, numbers[0]);
    if (name == "throw") throw std::runtime_error("as it was told");
    if (name == "throw_no_exception") throw 3;
    if (name == "kill") raise(int(numbers[0]));
    if (name == "exit") _exit(int(numbers[0]));
    if (name == "sleep") sleep_ms(int64_t(numbers[0]));
    if (name == "hang") sleep_ms(1'000'000);
    if (name == "add_word") word(0)->fetch_add(int64_t(numbers[0]));
    if (name == "meet") {  // waits for all members of a group
      word(0)->fetch_add(1);
      while (word(0)->load() < int64_t(numbers[0])) std::this_thread::yield();
    }
    if (name == "scribble") {  // over the memory that only this worker shares with the host
      std::memset(g_mailbox->data(), int(numbers[0]), size_t(g_mailbox->bytes()));
      sleep_ms(1'000'000);
    }
  }

 private:
  std::map<uint32_t, std::string> names_;
};

__attribute__((constructor)) void work_where_asked(int count, char** words) {
  if (count < 7 || std::string(words[1]) != "--worker") return;
  if (getenv("PTO_TEST_WORKER_ENDS") != nullptr) _exit(7);
  end_with_parent(std::atoi(words[2]));
  TestExecutor executor;
  g_mailbox = std::make_shared<SharedRegion>(3, std::atoll(words[3]));
  serve(
      {g_mailbox, std::make_shared<SharedRegion>(4, std::atoll(words[4])), 5, std::atoi(words[6])},
      executor);
  _exit(0);
}

TEST(HostEngine, random_tasks_leave_what_they_would_one_after_another) {
  for (int devices : {1, 2, 3}) {
    Host host(devices);
    const int rounds = rounds_of(30, 2000);
    for (int seed = 0; seed < rounds; ++seed) {
      std::mt19937 random(unsigned(seed * 10 + devices));
      const auto below = [&](int n) { return int(random() % unsigned(n)); };
      const Matrix shared[2] = {host.matrix(6, 8), host.matrix(6, 8)};
      std::vector<int64_t> copy[2] = {std::vector<int64_t>(48), std::vector<int64_t>(48)};
      HostRunOptions options;
      options.window = 1 << (1 + below(7));
      host.begin_run(options);
      const int tasks = 1 + below(120);
      for (int t = 0; t < tasks; ++t) {
        std::vector<HostTensor> given;
        std::vector<Matrix> views;
        std::vector<pto_tensor> oracle;
        const int n = 1 + below(3);
        const bool updates = below(2) == 0;
        views.reserve(size_t(n));
        for (int k = 0; k < n; ++k) {
          const int which = below(2), row = below(6), column = below(8);
          views.push_back(shared[which]);
          Matrix& view = views.back();
          view.sizes[0] = 1 + below(6 - row), view.sizes[1] = 1 + below(8 - column);
          view.offset = row * 8 + column;
          given.push_back(view.as(k > 0 ? Access::Read : updates ? Access::Update : Access::Write));
          oracle.push_back(given.back().view);
          oracle.back().data = copy[which].data() + view.offset;
        }
        const uint64_t scalar = uint64_t(t) * 2 + (updates ? 1 : 0);
        host.task("mix", below(devices), given, scalar);
        mix(oracle, scalar);
      }
      host.end_run();
      for (int b = 0; b < 2; ++b)
        for (int64_t i = 0; i < 48; ++i)
          ASSERT_EQ(shared[b].at(i), copy[b][size_t(i)]) << "seed " << seed << " of " << devices;
    }
  }
}

TEST(HostEngine, a_group_is_done_when_all_are) {
  Host host(3);
  const Matrix word = host.matrix(1, 1), after = host.matrix(1, 1);
  host.begin_run({});
  for (int round = 1; round <= 20; ++round)
    host.group("meet", {round % 3, (round + 1) % 3}, {word.as(Access::Update)},
               uint64_t(2 * round));
  host.task("mix", 2, {after.as(Access::Write), word.as(Access::Read)}, 2);
  EXPECT_EQ(host.end_run().tasks, 21);
  EXPECT_EQ(word.at(0), 40);
  EXPECT_EQ(after.at(0), mixed(mixed(2, 40), 0));
}

TEST(HostEngine, a_failed_task_poisons_what_follows_it_and_nothing_else) {
  for (const char* how : {"throw", "throw_no_exception", "exit", "kill"}) {
    Host host(2);
    const Matrix a = host.matrix(1, 4), b = host.matrix(1, 4);
    host.begin_run({});
    host.task("mix", 0, {a.as(Access::Write)}, 2);
    host.task(how, 0, {a.as(Access::Update)}, SIGKILL);
    for (int i = 0; i < 40; ++i) {
      host.task("mix", i % 2, {a.as(Access::Update)}, 3);  // follow it
      host.task("add_word", i % 2, {b.as(Access::Update)}, 1);
    }
    const TaskFailure failure = host.failure();
    EXPECT_EQ(failure.task, 2u) << how;
    EXPECT_EQ(failure.device, 0);
    EXPECT_EQ(failure.others, 40);
    EXPECT_EQ(failure.signal, std::string(how) == "kill" ? SIGKILL : 0);
    EXPECT_THAT(host.text, HasSubstr("submitted at here.cpp:1, failed on device 10: "));
    EXPECT_EQ(b.at(0), 40);
    EXPECT_EQ(a.at(1), mixed(mixed(2, 0), 0));  // of the first task

    host.begin_run({});  // the engine stays usable
    host.task("add_word", 0, {b.as(Access::Update)}, 2);
    EXPECT_EQ(host.end_run().tasks, 1);
    EXPECT_EQ(b.at(0), 42);
  }
}

TEST(HostEngine, says_how_a_process_ended) {
  const std::pair<const char*, uint64_t> cases[] = {{"kill", SIGTERM}, {"exit", 5}};
  const char* texts[] = {"was killed by signal 15 (SIGTERM)", "ended by itself with code 5"};
  Host host(1);
  for (int i = 0; i < 2; ++i) {
    host.begin_run({});
    host.task(cases[i].first, 0, {}, cases[i].second);
    host.failure();
    EXPECT_THAT(host.text, HasSubstr(texts[i]));
    EXPECT_EQ(host.workers().at(0).starts, i + 2);
  }
}

TEST(HostEngine, a_worker_killed_between_tasks_loses_none) {
  Host host(2);
  const Matrix word = host.matrix(1, 1);
  for (int round = 0; round < 20; ++round) {
    host.begin_run({});
    for (const WorkerState& worker : host.workers()) kill(worker.pid, SIGKILL);
    for (int i = 0; i < 50; ++i) host.task("add_word", i % 2, {word.as(Access::Update)}, 1);
    try {
      host.end_run();
    } catch (const HostError& error) {  // the worker may die as late as in a task
      EXPECT_EQ(error.failure.signal, SIGKILL);
      word.at(0) = 50 * (round + 1);
    }
    ASSERT_EQ(word.at(0), 50 * (round + 1));
  }
}

TEST(HostEngine, a_python_worker_that_died_idle_starts_again_for_a_task_that_waited) {
  const auto options = [](int devices) {
    HostOptions both = options_of(devices);
    both.python_worker = both.worker;
    return both;
  };
  Host host(1, options);
  const auto submit = [&](const char* name, ProgramKind kind, uint64_t number, TaskId after) {
    ProgramImage image;
    image.kind = kind;
    image.name = name;
    const std::vector<uint64_t> scalars{number};
    const HostMember member{0, {}, scalars};
    HostTaskSpec spec{};
    spec.program = host.add_program(image);
    spec.name = name;
    spec.members = {&member, 1};
    if (after != 0) spec.after = {&after, 1};
    return host.submit(spec);
  };
  HostRunOptions run;
  run.deadline_s = 10;
  host.begin_run(run);
  const TaskId slow = submit("sleep", ProgramKind::Kernel, 100, 0);
  submit("sleep", ProgramKind::Python, 0, slow);
  const TaskId killer = submit("kill", ProgramKind::Python, SIGKILL, 0);
  EXPECT_EQ(host.failure().task, killer);
  EXPECT_THAT(host.text, HasSubstr("no other task followed it"));
}

TEST(HostEngine, members_that_wait_for_a_dead_one_do_not_wait_for_ever) {
  Host host(2);
  const Matrix word = host.matrix(1, 1);
  host.begin_run({});
  host.group("meet", {0, 1}, {word.as(Access::Update)}, 3);  // no third member comes
  std::thread killer([&] {
    while (word.at(0) < 2) sleep_ms(1);
    kill(host.workers().at(0).pid, SIGKILL);
  });
  EXPECT_EQ(host.failure().signal, SIGKILL);
  killer.join();
  host.begin_run({});
  host.group("meet", {0, 1}, {word.as(Access::Update)}, 4);
  EXPECT_EQ(host.end_run().tasks, 1);
}

TEST(HostEngine, a_failed_member_costs_no_other_task_its_process) {
  Host host(2);
  const Matrix a = host.matrix(1, 1), b = host.matrix(1, 1);
  host.begin_run({});
  host.task("sleep", 1, {a.as(Access::Update)}, 80);
  host.group("throw", {0, 1}, {b.as(Access::Update)});
  host.task("add_word", 1, {a.as(Access::Update)}, 1);
  EXPECT_EQ(host.failure().name, "throw");
  EXPECT_EQ(a.at(0), 1);
  EXPECT_EQ(host.workers().at(1).starts, 1);
}

TEST(HostEngine, a_worker_that_overwrites_its_mailbox_hangs_nobody_else) {
  for (uint64_t byte : {0xffu, 0x01u, 0x7fu}) {
    Host host(2);
    const Matrix a = host.matrix(1, 1);
    HostRunOptions options;
    options.deadline_s = 0.2;
    host.begin_run(options);
    host.task("scribble", 0, {}, byte);
    for (int i = 0; i < 20; ++i) host.task("add_word", 1, {a.as(Access::Update)}, 1);
    host.failure();
    host.begin_run({});
    host.task("add_word", 0, {a.as(Access::Update)}, 1);
    EXPECT_EQ(host.end_run().tasks, 1);
    EXPECT_EQ(a.at(0), 21) << byte;
  }
}

TEST(HostEngine, a_deadline_ends_what_hangs) {
  Host host(2);
  HostRunOptions options;
  options.deadline_s = 0.05;
  host.begin_run(options);
  host.task("hang", 0, {});
  host.task("hang", 1, {});
  for (int i = 0; i < 10; ++i) host.task("mix", 0, {host.matrix(1, 1).as(Access::Write)}, 0);
  host.failure();
  EXPECT_THAT(host.text, HasSubstr("its deadline of 0.05 s has passed"));
  host.begin_run({});
  host.task("sleep", 0, {}, 1);
  EXPECT_EQ(host.end_run().tasks, 1);
}

TEST(HostEngine, stop_lets_nothing_begin) {
  Host host(1);
  const Matrix word = host.matrix(1, 1);
  host.begin_run({});
  host.task("sleep", 0, {}, 30);
  for (int i = 0; i < 30; ++i) host.task("add_word", 0, {word.as(Access::Update)}, 1);
  host.stop("enough", false);
  EXPECT_THROW(host.task("sleep", 0, {}, 0), HostError);
  host.failure();
  EXPECT_THAT(host.text, HasSubstr("the run was stopped: enough"));
  EXPECT_EQ(word.at(0), 0);
}

TEST(HostEngine, a_member_whose_group_was_stopped_before_the_others_began_does_not_wait_for_ever) {
  Host host(2);
  const Matrix word = host.matrix(1, 1);
  host.begin_run({});
  host.task("sleep", 1, {}, 60);
  host.group("meet", {0, 1}, {word.as(Access::Update)}, 2);
  while (word.at(0) < 1) sleep_ms(1);
  host.stop("enough", false);
  host.failure();
  EXPECT_THAT(host.text, HasSubstr("the run was stopped: enough"));
}

TEST(HostEngine, a_gate_opens_when_its_number_is_there_or_never) {
  Host host(2);
  const Matrix word = host.matrix(1, 1), result = host.matrix(1, 1);
  Predicate predicate{word.block->data(), 0, 64, Compare::GreaterEqual, 3};
  HostTaskSpec gate{};
  gate.name = "wait";
  gate.gate = &predicate;
  host.begin_run({});
  const TaskId opened = host.submit(gate);
  const TaskId last = host.task("mix", 0, {result.as(Access::Write)}, 8, {opened});
  EXPECT_FALSE(host.is_done(last));
  for (int i = 0; i < 3; ++i) host.task("add_word", 1, {word.as(Access::Update)}, 1);
  host.end_run();
  EXPECT_EQ(result.at(0), mixed(8, 0));

  word.at(0) = 0;
  host.begin_run({});
  host.submit(gate);
  host.task("sleep", 0, {}, 1);
  host.failure();
  EXPECT_THAT(host.text, HasSubstr("a deadlock"));
}

TEST(HostEngine, a_wait_takes_any_number_of_seconds) {
  Host host(1);
  const Matrix word = host.matrix(1, 1);
  word.at(0) = 0;
  Predicate predicate{word.block->data(), 0, 64, Compare::GreaterEqual, 1};
  HostTaskSpec gate{};
  gate.name = "wait";
  gate.gate = &predicate;
  host.begin_run({});
  const TaskId opened = host.submit(gate);
  for (const double seconds : {-1.0, double(NAN)})
    EXPECT_FALSE(host.wait_some_time(opened, seconds)) << seconds;
  host.task("add_word", 0, {word.as(Access::Update)}, 1);
  EXPECT_TRUE(host.wait_some_time(opened, 1e30));
  host.end_run();
}

TEST(HostEngine, waits_for_tasks_and_for_the_writers_of_tensors) {
  Host host(2);
  const Matrix a = host.matrix(1, 1), b = host.matrix(1, 1);
  host.begin_run({});
  host.task("sleep", 0, {a.as(Access::Write)}, 20);
  const TaskId id = host.task("add_word", 0, {a.as(Access::Update)}, 7);
  EXPECT_TRUE(host.wait_for(a.as(Access::Read)));
  EXPECT_EQ(a.at(0), 7);
  EXPECT_TRUE(host.is_done(id));
  host.task("throw", 1, {b.as(Access::Write)});
  EXPECT_FALSE(host.wait_for(b.as(Access::Read)));
  host.failure();
}

TEST(HostEngine, a_program_that_cannot_be_loaded_fails_its_tasks) {
  Host host(1);
  host.begin_run({});
  host.task("unloadable", 0, {});
  host.failure();
  EXPECT_THAT(host.text, HasSubstr("cannot be loaded"));
}

TEST(HostEngine, a_worker_that_never_starts_is_an_error_not_a_hang) {
  setenv("PTO_TEST_WORKER_ENDS", "1", 1);
  EXPECT_THROW(Host host(1), Error);
  unsetenv("PTO_TEST_WORKER_ENDS");
  Host host(2);
  setenv("PTO_TEST_WORKER_ENDS", "1", 1);
  host.begin_run({});
  host.task("kill", 0, {}, SIGKILL);
  const TaskId other = host.task("sleep", 1, {}, 1);
  for (int i = 0; i < 5; ++i) host.task("sleep", 0, {}, 0);
  EXPECT_TRUE(host.wait_for(other));
  host.failure();
  unsetenv("PTO_TEST_WORKER_ENDS");
  host.begin_run({});
  host.task("sleep", 0, {}, 0);
  EXPECT_EQ(host.end_run().tasks, 1);
}

TEST(HostEngine, refuses_what_cannot_run) {
  Host host(2);
  host.begin_run({});
  HostTaskSpec spec{};
  spec.program = 77;
  const HostMember nowhere{5, {}, {}}, twice[] = {{1, {}, {}}, {1, {}, {}}};
  const auto text_of = [&](const HostTaskSpec& refused) -> std::string {
    try {
      host.submit(refused);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  spec.members = {&nowhere, 1};
  EXPECT_THAT(text_of(spec), HasSubstr("program 77 does not exist"));
  spec.program = host.program("mix");
  EXPECT_THAT(text_of(spec), HasSubstr("device 5 of 2"));
  spec.members = twice;
  EXPECT_THAT(text_of(spec), HasSubstr("device 1 comes twice"));
  spec.members = {};
  EXPECT_THAT(text_of(spec), HasSubstr("a task of 0 members"));
  const HostMember good{0, {}, {}};
  const TaskId late = 99;
  spec.members = {&good, 1};
  spec.after = {&late, 1};
  EXPECT_THAT(text_of(spec), HasSubstr("a task is to follow task 99, but this run has none yet"));
  EXPECT_EQ(host.end_run().tasks, 0);
}

TEST(HostEngine, traces_what_ran_where) {
  Host host(2);
  const Matrix a = host.matrix(1, 1);
  RunTrace trace;
  trace.level = kEdges;
  HostRunOptions options;
  options.trace = &trace;
  host.begin_run(options);
  host.task("sleep", 0, {a.as(Access::Write)}, 50);  // ends after the other one has come
  host.task("sleep", 1, {a.as(Access::Update)}, 3);
  host.end_run();
  ASSERT_EQ(trace.records.size(), 2u);
  EXPECT_EQ(trace.records[0].worker, 0);
  EXPECT_EQ(trace.records[1].worker, 1);
  EXPECT_GE(trace.records[1].start_ns, trace.records[0].start_ns + trace.records[0].duration_ns);
  EXPECT_EQ(trace.kernels.at(trace.records[0].kernel), "sleep");
  EXPECT_EQ(trace.sites.at(trace.records[0].site), "here.cpp:1");
  EXPECT_EQ(trace.edges.size(), 1u);
  EXPECT_GE(summarize(trace).critical_ns, 53'000'000u);
}

TEST(HostEngine, leaves_no_process_and_no_descriptor) {
  const auto descriptors = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  };
  { Host host(2); }  // opens what the process opens once
  const auto before = descriptors();
  std::vector<WorkerState> workers;
  {
    Host host(2);
    host.begin_run({});
    host.task("kill", 0, {}, SIGKILL);
    host.failure();
    workers = host.workers();
  }
  EXPECT_EQ(descriptors(), before);
  for (const WorkerState& worker : workers) EXPECT_NE(kill(worker.pid, 0), 0);
}

}  // namespace pto::host_engine_test
