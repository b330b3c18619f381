// SPDX-License-Identifier: Apache-2.0
#undef _FORTIFY_SOURCE  // its longjmp takes another stack for a mistake
#include "pto/launch/fiber.hpp"

#include <cxxabi.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include "pto/base/error.hpp"

extern "C" {
__attribute__((weak)) void __sanitizer_start_switch_fiber(void**, const void*, size_t);
__attribute__((weak)) void __sanitizer_finish_switch_fiber(void*, const void**, size_t*);
__attribute__((weak)) void* __tsan_get_current_fiber(void);
__attribute__((weak)) void* __tsan_create_fiber(unsigned int);
__attribute__((weak)) void __tsan_destroy_fiber(void*);
__attribute__((weak)) void __tsan_switch_to_fiber(void*, unsigned int);
}

namespace pto {
namespace {

// The layout that the C++ ABI gives to a thread's state of exceptions.
struct ExceptionState {
  void* caught;
  unsigned int uncaught;
};

// Finishes a switch in `to`; where `from` is given, fills in its stack's bounds for the way back.
void finish_switch(FiberContext& to, FiberContext* from) {
  if (__sanitizer_finish_switch_fiber == nullptr) return;
  const void* stack = nullptr;
  size_t bytes = 0;
  __sanitizer_finish_switch_fiber(to.fake_stack, &stack, &bytes);
  if (from == nullptr) return;
  from->stack = stack;
  from->stack_bytes = bytes;
}

void swap_exceptions(FiberContext& from, const FiberContext& to) {
  auto* state = reinterpret_cast<ExceptionState*>(abi::__cxa_get_globals());
  from.caught = state->caught;
  from.uncaught = state->uncaught;
  *state = {to.caught, to.uncaught};
}

void start_switch(FiberContext& from, const FiberContext& to) {
  swap_exceptions(from, to);
  if (__sanitizer_start_switch_fiber != nullptr) {
    __sanitizer_start_switch_fiber(&from.fake_stack, to.stack, to.stack_bytes);
  }
  if (__tsan_switch_to_fiber != nullptr) __tsan_switch_to_fiber(to.tsan, 0);
}

// Not inlined: the function that calls _setjmp keeps no variables in registers.
__attribute__((noinline)) void switch_context(FiberContext& from, FiberContext& to) {
  if (_setjmp(from.registers) == 0) {
    start_switch(from, to);
    _longjmp(to.registers, 1);
  }
}

size_t page_bytes() {
  static const auto bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

}  // namespace

Fiber::Fiber() : memory_bytes_(kStackBytes + page_bytes()) {
  void* memory = mmap(nullptr, memory_bytes_, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED) {
    fail({"no memory for the stack of a block that waits: " + std::to_string(kStackBytes >> 20) +
              " MB of addresses",
          "every block that has begun and waits needs a stack of its own",
          "launch fewer blocks, or raise the limits of memory (ulimit -v) and of mappings "
          "(vm.max_map_count)"},
         ErrorKind::Runtime);
  }
  memory_ = static_cast<char*>(memory);
  mprotect(memory_, page_bytes(), PROT_NONE);
  own_.stack = memory_ + page_bytes();
  own_.stack_bytes = kStackBytes;
  if (__tsan_create_fiber != nullptr) own_.tsan = __tsan_create_fiber(0);
}

Fiber::~Fiber() {
  if (__tsan_destroy_fiber != nullptr) __tsan_destroy_fiber(own_.tsan);
  munmap(memory_, memory_bytes_);
}

void Fiber::start(void (*function)(void*), void* argument) {
  PTO_ASSERT(has_ended_);
  function_ = function;
  argument_ = argument;
  has_ended_ = false;
}

void Fiber::resume() {
  PTO_ASSERT(!has_ended_);
  if (__tsan_get_current_fiber != nullptr) outer_.tsan = __tsan_get_current_fiber();
  if (is_made_)
    switch_context(outer_, own_);
  else
    make_context();
  finish_switch(outer_, nullptr);
}

void Fiber::suspend(Fiber& fiber) {
  switch_context(fiber.own_, fiber.outer_);
  finish_switch(fiber.own_, &fiber.outer_);
}

// Makes the first switch to a stack possible; makecontext passes only ints.
__attribute__((noinline)) void Fiber::make_context() {
  is_made_ = true;
  ucontext_t context;
  getcontext(&context);
  context.uc_stack.ss_sp = const_cast<void*>(own_.stack);
  context.uc_stack.ss_size = own_.stack_bytes;
  context.uc_link = nullptr;
  const auto self = reinterpret_cast<uint64_t>(this);
  makecontext(&context, reinterpret_cast<void (*)()>(enter), 2,
              static_cast<unsigned int>(self >> 32), static_cast<unsigned int>(self));
  if (_setjmp(outer_.registers) == 0) {
    start_switch(outer_, own_);
    setcontext(&context);
  }
}

void Fiber::enter(unsigned int high, unsigned int low) {
  reinterpret_cast<Fiber*>(uint64_t{high} << 32 | low)->run();
}

// Never returns: an ended fiber waits here for its next start().
void Fiber::run() {
  finish_switch(own_, &outer_);
  for (;;) {
    function_(argument_);
    has_ended_ = true;
    suspend(*this);
  }
}

}  // namespace pto
