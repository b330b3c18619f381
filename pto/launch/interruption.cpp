// SPDX-License-Identifier: Apache-2.0
#include "pto/launch/interruption.hpp"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <system_error>
#include <thread>

#include "pto/abi/program.h"
#include "pto/base/blocked_signals.hpp"
#include "pto/launch/block.hpp"

int32_t pto_alarm = 0;  // one of Alarm; std::atomic_ref reads and writes it

namespace pto {
namespace {

enum Alarm : int32_t { kQuiet, kLook, kEnd };

constexpr int kQuietTicks = 20;  // after which the thread sleeps until a program begins

std::atomic<int> g_watched{0};  // the number of the program that runs, or 0
std::atomic<int> g_last{0};     // number of a program
std::atomic<bool> g_has_ticker{false};

PTO_FAST_THREAD_LOCAL const ScopedInterruption* t_interruption = nullptr;
PTO_FAST_THREAD_LOCAL int t_depth = 0;     // programs of this thread that may be interrupted
PTO_FAST_THREAD_LOCAL int t_is_first = 0;  // 0: not yet known, 1, or -1

std::atomic_ref<int32_t> alarm() { return std::atomic_ref<int32_t>(pto_alarm); }

void raise_alarm() {
  int32_t quiet = kQuiet;
  alarm().compare_exchange_strong(quiet, kLook, std::memory_order_relaxed);
}

// Raises the alarm for a program that has run for a whole tick.
void tick() {
  pthread_setname_np(pthread_self(), "pto-ticker");
  for (int before = 0, quiet = 0;;) {
    if (quiet >= kQuietTicks) g_watched.wait(0);
    std::this_thread::sleep_for(std::chrono::milliseconds(kInterruptionSlice_ms));
    const int watched = g_watched.load(), last = g_last.load();
    if (watched != 0 && watched == before) raise_alarm();
    quiet = watched == 0 && last == before ? quiet + 1 : 0;
    before = last;
  }
}

void start_ticker() {
  const BlockedSignals blocked;
  try {
    std::thread(tick).detach();
  } catch (const std::system_error&) {  // without it, programs run to their end
  }
}

// The child has one thread, which is its first.
void forget_in_child() {
  g_has_ticker = false;
  g_watched = 0;
  alarm() = kQuiet;
  t_is_first = 1;
}
[[maybe_unused]] const int kForkHandler = pthread_atfork(nullptr, nullptr, forget_in_child);

bool is_first_thread() {
  if (t_is_first == 0) t_is_first = syscall(SYS_gettid) == getpid() ? 1 : -1;
  return t_is_first > 0;
}

}  // namespace

ScopedInterruption::ScopedInterruption(Ask ask, void* context)
    : ask_(ask), context_(context), outer_(t_interruption) {
  t_interruption = this;
}

ScopedInterruption::~ScopedInterruption() { t_interruption = outer_; }

bool is_interruptible() { return t_depth > 0; }

bool interrupted() {
  if (alarm().load(std::memory_order_relaxed) == kEnd) return true;
  alarm() = kQuiet;
  if (!t_interruption->ask()) return false;
  alarm() = kEnd;
  return true;
}

}  // namespace pto

void pto_watch_begin(void) {
  using namespace pto;
  if (t_interruption == nullptr || !is_first_thread() || t_depth++ > 0) return;
  if (!g_has_ticker.exchange(true)) start_ticker();
  int number = g_last.load(std::memory_order_relaxed) + 1;
  if (number <= 0) number = 1;
  g_last = number;
  g_watched = number;
  g_watched.notify_one();
}

void pto_watch_end(void) {
  using namespace pto;
  if (t_depth == 0 || --t_depth > 0) return;
  g_watched = 0;
  alarm() = kQuiet;
}

int32_t pto_answer_alarm(pto_services* services) {
  using namespace pto;
  bool ends = false;
  if (is_interruptible())
    ends = interrupted();
  else if (t_block.launch != nullptr && t_block.launch->is_interruptible)
    ends = alarm().load(std::memory_order_relaxed) == kEnd;
  else if (g_watched.load(std::memory_order_relaxed) == 0)  // raised as the program ended
    alarm() = kQuiet;
  if (!ends) return 0;
  return services->fail(services,
                        "the program was interrupted\nits host has asked it to end\ncall it again");
}
