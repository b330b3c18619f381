// SPDX-License-Identifier: Apache-2.0
// Fiber: a stack of its own, on which a function runs until it suspends itself.
//
//     Fiber fiber;
//     fiber.start([](void* n) { ++*static_cast<int*>(n); Fiber::suspend(); ... }, &n);
//     fiber.resume();   // n is 1; a second resume() goes on behind suspend()
//
// A switch saves registers and the state of C++ exceptions, no signal mask: the context is made
// by makecontext once per stack, later switches are _setjmp and _longjmp.
// Invariants: a fiber runs only on the thread that started it, since compiled code keeps addresses
// of thread-local variables. A stack is as large as a thread's, has a guard page below, and is
// touched only as far as it is used. A fiber that has ended can be started again.
// AddressSanitizer and ThreadSanitizer are told of every switch, through weak symbols: a sanitized
// program is served by a libpto that was built without them.
// Thread safety: a fiber belongs to its thread.
#pragma once

#include <setjmp.h>

#include <cstddef>

namespace pto {

// Where a thread or a fiber goes on, and what a switch carries along.
struct FiberContext {
  jmp_buf registers;
  void* caught = nullptr;     // exceptions being handled
  unsigned int uncaught = 0;  // exceptions being thrown
  void* tsan = nullptr;
  void* fake_stack = nullptr;  // AddressSanitizer's
  const void* stack = nullptr;
  size_t stack_bytes = 0;
};

class Fiber {
 public:
  Fiber();  // throws pto::Error where there is no memory for a stack
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // The fiber must be new or have ended. `function` must not throw.
  void start(void (*function)(void*), void* argument);

  // Runs the fiber until it suspends or ends; a fiber may resume others.
  void resume();

  bool has_ended() const { return has_ended_; }

  // Goes back to the resume() that runs `fiber`, the fiber that calls this.
  static void suspend(Fiber& fiber);

  static constexpr size_t kStackBytes = size_t{8} << 20;

 private:
  static void enter(unsigned int high, unsigned int low);
  [[noreturn]] void run();
  void make_context();

  char* memory_ = nullptr;  // guard page and stack
  size_t memory_bytes_ = 0;
  FiberContext own_, outer_;
  void (*function_)(void*) = nullptr;
  void* argument_ = nullptr;
  bool is_made_ = false;
  bool has_ended_ = true;
};

}  // namespace pto
