// SPDX-License-Identifier: Apache-2.0
// The ways to run a call of abi/operator.h: at once, in two steps, and again and again at a site.
#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <new>

#include "pto/operators/last_error.hpp"
#include "pto/operators/operator.hpp"
#include "pto/operators/prepared_call.hpp"

struct pto_operator_launch {
  explicit pto_operator_launch(const pto_operator_call& call)
      : prepared(call), memory(prepared.memory(call)) {}

  const pto::PreparedCall prepared;
  pto::CallMemory memory;
};

struct pto_operator_site {
  void run(const pto_operator_call& call) {
    if (const pto::PreparedCall* known = find(call)) return run(*known, call);
    if (is_full()) return run(pto::PreparedCall(call), call);
    auto made = std::make_unique<const pto::PreparedCall>(call);
    run(*made, call);
    remember(call, std::move(made));
  }

  static void run(const pto::PreparedCall& prepared, const pto_operator_call& call) {
    pto::CallMemory memory = prepared.memory(call);
    prepared.run(&memory);
  }

  ~pto_operator_site() {
    for (const auto& one : known_) delete one.load();
  }

 private:
  const pto::PreparedCall* find(const pto_operator_call& call) const {
    for (const auto& one : known_) {
      const pto::PreparedCall* known = one.load(std::memory_order_acquire);
      if (!known || known->fits(call)) return known;
    }
    return nullptr;
  }

  bool is_full() const { return known_.back().load(std::memory_order_relaxed) != nullptr; }

  void remember(const pto_operator_call& call, std::unique_ptr<const pto::PreparedCall> made) {
    const std::lock_guard lock(mutex_);
    if (find(call) || is_full()) return;  // another thread was faster
    const auto is_free = [](const auto& one) { return one.load() == nullptr; };
    std::find_if(known_.begin(), known_.end(), is_free)
        ->store(made.release(), std::memory_order_release);
  }

  // An entry never changes once it is set, so calls need no lock; entries after the last are null.
  std::array<std::atomic<const pto::PreparedCall*>, 4> known_{};
  std::mutex mutex_;
};

int32_t pto_operator_run(const pto_operator_call* call) {
  return pto::reported([&] { pto_operator_site::run(pto::PreparedCall(*call), *call); });
}

pto_operator_launch* pto_operator_bind(const pto_operator_call* call) {
  std::unique_ptr<pto_operator_launch> launch;
  pto::reported([&] { launch = std::make_unique<pto_operator_launch>(*call); });
  return launch.release();
}

int32_t pto_operator_launch_run(pto_operator_launch* launch) {
  return pto::reported([&] { launch->prepared.run(&launch->memory); });
}

void pto_operator_launch_free(pto_operator_launch* launch) { delete launch; }

pto_operator_site* pto_operator_site_new(void) { return new (std::nothrow) pto_operator_site; }

int32_t pto_operator_site_run(pto_operator_site* site, const pto_operator_call* call) {
  if (!site) return pto_operator_run(call);
  return pto::reported([&] { site->run(*call); });
}

void pto_operator_site_free(pto_operator_site* site) { delete site; }
