// SPDX-License-Identifier: Apache-2.0
// Injects random faults: each run ends soon with the right error, other results stay right, and
// nothing is left behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <random>
#include <set>

#include "pto/tasks/processes/host_test.hpp"
#include "tests/deep.hpp"

namespace pto::host_faults_test {

using Clock = std::chrono::steady_clock;

enum class Fault { Kill, KillsItself, Throws, Exits, Hangs, Stopped };

// A run of one chain of tasks a matrix, with a fault in a chain or from outside.
class FaultyRun {
 public:
  FaultyRun(Host& host, unsigned seed, int devices)
      : host_(host),
        random_(seed),
        devices_(devices),
        fault_(Fault(seed % 4 == 0 ? 0 : below(6))) {}

  // Returns the seconds from the fault, or from the first sign of it, to the end of the run.
  double run() {
    for (int i = 0; i < kChains; ++i) chains_.push_back(host_.matrix(1, 4));
    HostRunOptions options;
    options.window = 1 << (2 + below(6));
    if (fault_ == Fault::Hangs) {
      options.deadline_s = 0.01 + 0.001 * below(10);
      is_stopped_ = true;  // on a busy machine, before the fault
    }
    const auto begin = Clock::now();
    host_.begin_run(options);
    const int tasks = 10 + below(60);
    const int at = below(tasks);
    try {
      for (int t = 0; t < tasks; ++t) {
        if (t == at) put_fault();
        submit_good();
      }
    } catch (const HostError&) {  // the run was stopped
    }
    end();
    const auto known = fault_ == Fault::Hangs
                           ? begin + std::chrono::duration_cast<Clock::duration>(
                                         std::chrono::duration<double>(options.deadline_s))
                           : happened_;
    return std::chrono::duration<double>(Clock::now() - known).count();
  }
  bool was_kill() const { return fault_ == Fault::Kill || fault_ == Fault::KillsItself; }

 private:
  static constexpr int kChains = 4;
  int below(int n) { return int(random_() % unsigned(n)); }

  void submit_good() {
    const int chain = below(kChains);
    host_.task("add_word", below(devices_), {chains_[size_t(chain)].as(Access::Update)}, 1);
    ++expected_[chain];
  }

  void put_fault() {
    const int chain = below(kChains), device = below(devices_);
    const std::vector<HostTensor> tensors{chains_[size_t(chain)].as(Access::Update)};
    happened_ = Clock::now();
    switch (fault_) {
      case Fault::Kill: {
        const auto workers = host_.workers();
        kill(workers[size_t(below(int(workers.size())))].pid, SIGKILL);
        may_succeed_ = true;  // if it was idle, or had finished its task
        return;
      }
      case Fault::Stopped:
        host_.stop("enough", below(2) == 0);
        is_stopped_ = true;
        return;
      case Fault::KillsItself:
        host_.task("kill", device, tensors, SIGKILL);
        break;
      case Fault::Throws:
        host_.task("throw", device, tensors);
        break;
      case Fault::Exits:
        host_.task("exit", device, tensors, 3);
        break;
      case Fault::Hangs:
        host_.task("hang", device, tensors);
        return;
    }
    broken_ = chain;
    before_ = expected_[chain];
  }

  void end() {
    try {
      host_.end_run();
      EXPECT_TRUE(may_succeed_) << "the fault " << int(fault_) << " was not reported";
    } catch (const HostError& error) {
      EXPECT_TRUE(is_stopped_ == (error.failure.task == 0)) << error.what();
      if (fault_ == Fault::Kill) {
        EXPECT_EQ(error.failure.signal, SIGKILL) << error.what();
        return;  // the test does not know which task it hit
      }
      if (fault_ == Fault::Throws) {
        EXPECT_EQ(error.failure.name, "throw");
      }
    }
    if (is_stopped_) return;
    for (int i = 0; i < kChains; ++i)
      EXPECT_EQ(chains_[size_t(i)].at(0), i == broken_ ? before_ : expected_[i]) << "chain " << i;
  }

  Host& host_;
  std::mt19937 random_;
  const int devices_;
  const Fault fault_;
  std::vector<Matrix> chains_;
  int64_t expected_[kChains] = {};
  Clock::time_point happened_ = Clock::now();
  bool is_stopped_ = false, may_succeed_ = false;
  int broken_ = -1;
  int64_t before_ = 0;
};

size_t descriptors() {
  return size_t(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

std::set<std::string> children() {
  std::set<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::FILE* const file = std::fopen((entry.path() / "stat").c_str(), "r");
    if (file == nullptr) continue;
    int parent = 0;
    if (std::fscanf(file, "%*d (%*[^)]) %*c %d", &parent) == 1 && parent == getpid())
      found.insert(name);
    std::fclose(file);
  }
  return found;
}

TEST(HostFaults, are_reported_soon_and_leave_nothing) {
  { Host host(1); }  // opens what the process opens once
  const size_t descriptors_before = descriptors();
  const int faults = rounds_of(200, 10'000);
  std::vector<double> times;
  int kills = 0;
  std::unique_ptr<Host> host;
  for (int i = 0; i < faults; ++i) {
    const int devices = 1 + i / 50 % 3;
    if (i % 50 == 0) host = std::make_unique<Host>(devices);
    {
      FaultyRun run(*host, unsigned(i), devices);
      times.push_back(run.run());
      kills += run.was_kill();
    }
    ASSERT_FALSE(HasFailure()) << "seed " << i;
  }
  host->begin_run({});
  host->task("sleep", 0, {}, 0);
  EXPECT_EQ(host->end_run().tasks, 1);
  host.reset();
  EXPECT_EQ(descriptors(), descriptors_before);
  EXPECT_EQ(children(), std::set<std::string>());
  EXPECT_GE(4 * kills, faults);
  std::sort(times.begin(), times.end());
  const auto at = [&](double share) {
    return times[size_t(share * double(times.size() - 1))] * 1e3;
  };
  std::printf(
      "%d faults, %d of them kills; to the report: %.2f ms in the middle, %.2f ms at 99.9 %%, "
      "%.2f ms at most\n",
      faults, kills, at(0.5), at(0.999), at(1));
}

}  // namespace pto::host_faults_test
