// SPDX-License-Identifier: Apache-2.0
// Interruption: ends the loops of a program where its host says so, as Ctrl-C does.
//
//     const ScopedInterruption scope(is_interrupted, &context);   // around a call of a program
//     call.run(outputs);                    // fails soon after is_interrupted(&context) was true
//
// A loop only looks at a flag, pto_alarm. A thread that sleeps most of the time raises it 20 times
// a second while a program with loops runs; then the program's thread asks, and lowers it.
//
// Invariant: `is_interrupted` runs on the thread that called the program, the process's first one,
// which alone serves signals in Python. Blocks of that program on other threads end with it.
// Thread safety: any thread.
#pragma once

namespace pto {

class ScopedInterruption {
 public:
  using Ask = bool (*)(void* context);

  ScopedInterruption(Ask ask, void* context);
  ~ScopedInterruption();
  ScopedInterruption(const ScopedInterruption&) = delete;
  ScopedInterruption& operator=(const ScopedInterruption&) = delete;

  bool ask() const { return ask_(context_); }

 private:
  const Ask ask_;
  void* const context_;
  const ScopedInterruption* const outer_;
};

// Says whether the calling thread runs a program that may be interrupted.
bool is_interruptible();

// Asks, on such a thread, whether its program ends; then its loops end on all threads.
bool interrupted();

// The time between two questions of a thread that waits for others of its program, and between two
// alarms.
inline constexpr int kInterruptionSlice_ms = 50;

}  // namespace pto
