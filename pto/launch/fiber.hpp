// SPDX-License-Identifier: Apache-2.0
// Fiber: runs a function on a stack of its own until the function suspends itself.
//
//     Fiber fiber;
//     fiber.start([](void* self) { Fiber::suspend(*static_cast<Fiber*>(self)); }, &fiber);
//     fiber.resume();   // runs up to suspend(); a second resume() goes on behind it
//
// A switch saves registers and the state of C++ exceptions but no signal mask: makecontext makes
// the context once per stack, and later switches are _setjmp and _longjmp. Weak symbols tell
// AddressSanitizer and ThreadSanitizer of every switch, so a libpto that was built without them
// serves a sanitized program.
//
// Invariant: a fiber runs only on the thread that started it, since compiled code keeps addresses
// of thread-local variables. A stack is as large as a thread's, has a guard page below, and is
// touched only as far as it is used. A fiber that has ended can be started again.
// Thread safety: a fiber belongs to its thread.
#pragma once

#include <setjmp.h>

#include <cstddef>

namespace pto {

// The place where a thread or a fiber goes on, and the state that a switch carries along.
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
  Fiber();  // throws pto::Error when there is no memory for a stack
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
