// SPDX-License-Identifier: Apache-2.0
// Refuses the n-th allocation of a run, for every n: each run ends with an error.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>
#include <vector>

#include "pto/base/error.hpp"
#include "pto/tasks/cores/graph.hpp"

namespace {

std::atomic<bool> g_is_counting{false}, g_refuses_all{false};  // all: from the n-th on
std::atomic<int64_t> g_requests{0}, g_refused{0};              // the number of the n-th

void* taken(size_t bytes) noexcept {
  if (g_is_counting.load(std::memory_order_relaxed)) {
    const int64_t number = g_requests.fetch_add(1), refused = g_refused.load();
    if (number == refused || (number > refused && g_refuses_all.load())) return nullptr;
  }
  return std::malloc(bytes == 0 ? 1 : bytes);
}
void* taken_or_thrown(size_t bytes) {
  void* const memory = taken(bytes);
  return memory != nullptr ? memory : throw std::bad_alloc();
}

}  // namespace

void* operator new(size_t bytes) { return taken_or_thrown(bytes); }
void* operator new[](size_t bytes) { return taken_or_thrown(bytes); }
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return taken(bytes); }
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept { return taken(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }

namespace pto::exhaustion_test {

// Adds the sum of all other elements to those of the last tensor.
int32_t add_sum(const pto_args* args) {
  uint64_t sum = 0;  // may wrap
  for (int32_t i = 0; i + 1 < args->n_tensors; ++i)
    for (int64_t k = 0; k < args->tensors[i].sizes[0]; ++k)
      sum += static_cast<uint64_t*>(args->tensors[i].data)[k];
  const pto_tensor& last = args->tensors[args->n_tensors - 1];
  for (int64_t k = 0; k < last.sizes[0]; ++k) static_cast<uint64_t*>(last.data)[k] += sum + 1;
  return 0;
}

bool g_goes_on;  // ignore errors of the table and continue
void submit_all(Orchestration& o) {
  const View x = o.inout(0);
  const auto scope = o.scope();
  const View t = o.tensor({64}, element::i64);
  std::vector<TaskArgument> parts;
  const auto submit = [&](const std::vector<TaskArgument>& args, const TaskOptions& options = {}) {
    try {
      o.submit("add_sum", args, options);
    } catch (const std::exception&) {
      if (!g_goes_on) throw;
    }
  };
  submit({o.out(t)});
  for (int64_t i = 0; i < 64; ++i) {  // many edges, and more arguments than fit a task
    const View part = t.slice(0, i, i + 1);
    submit({o.inout(part)});
    parts.push_back(o.in(part));
  }
  parts.push_back(o.inout(x));
  submit(parts);
  for (int64_t i = 0; i < 8; ++i) {  // overlaps, turns, readers
    submit({o.reduce(x.slice(0, 0, 8))});
    submit({o.in(x.slice(0, i, i + 4)), o.inout(t.slice(0, i, i + 2))});
  }
  const View first = x.slice(0, 0, 1);
  TaskOptions options;
  options.condition = &first;
  submit({o.inout(x)}, options);
}
int32_t orchestrate(const pto_runtime_api* api, const pto_args* args) {
  Orchestration o(api, args);
  submit_all(o);
  return 0;
}
const OrchestrationProgram kProgram{orchestrate, {{"add_sum", {add_sum, "add_sum"}}}};

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int64_t kStep = 11;
#else
constexpr int64_t kStep = 1;
#endif

// Repeats the run with the n-th request refused, for n = 0, 1, 2 ... until it makes fewer requests.
// An orchestration that ignores errors may succeed without what was refused.
template <class Run>
void refuse_each(const Run& run, bool fails_anyway = false) {
  for (int mode = 0; mode < 4; ++mode) {
    g_goes_on = mode & 1;
    g_refuses_all = mode & 2;
    bool is_refused = true;
    for (g_refused = 0; is_refused; g_refused += kStep) {
      bool has_failed = false;
      g_requests = 0;
      g_is_counting = true;
      try {
        run();
      } catch (const std::exception&) {
        has_failed = true;
      }
      g_is_counting = false;
      is_refused = g_requests > g_refused;
      EXPECT_TRUE(fails_anyway ? has_failed : g_goes_on || has_failed == is_refused)
          << "request " << g_refused;
    }
    EXPECT_GT(g_refused.load(), 10);
  }
}

struct Elements {
  std::vector<int64_t> values = std::vector<int64_t>(64);
  int64_t size = 64, stride = 1;
  pto_tensor tensor{values.data(), &size, &stride, 1, 0, 64, 1, 0, 64 * 8};
};

TEST(Exhaustion, ends_a_run_with_an_error_wherever_it_happens) {
  for (int workers : {1, 2}) {
    RunOptions options;
    options.workers = workers;
    Elements x;
    run_orchestration(kProgram, {&x.tensor, 1}, {}, options);  // threads of the pool start
    refuse_each([&] {
      std::fill(x.values.begin(), x.values.end(), 0);
      run_orchestration(kProgram, {&x.tensor, 1}, {}, options);
    });
    EXPECT_NE(x.values[0], 0);
  }
}

int32_t fail_here(const pto_args* args) { return args->services->fail(args->services, "no luck"); }

TEST(Exhaustion, hides_no_failure_of_a_task) {
  const OrchestrationProgram program{orchestrate, {{"add_sum", {fail_here, "fail_here"}}}};
  for (int workers : {1, 2}) {
    RunOptions options;
    options.workers = workers;
    Elements x;
    refuse_each([&] { run_orchestration(program, {&x.tensor, 1}, {}, options); }, true);
  }
}

TEST(Exhaustion, ends_a_capture_with_an_error_wherever_it_happens) {
  Elements x;
  refuse_each([&] { TaskGraph(kProgram, {&x.tensor, 1}, {}); });
}

}  // namespace pto::exhaustion_test
