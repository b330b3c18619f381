// SPDX-License-Identifier: Apache-2.0
#include "pto/runtime/launch.hpp"

#include <algorithm>
#include <atomic>
#include <exception>

#include "pto/base/error.hpp"
#include "pto/runtime/extents.hpp"
#include "pto/runtime/pool.hpp"
#include "pto/runtime/scratch.hpp"

namespace pto {
namespace {

// What the thread runs now.
struct Current {
  int32_t block = 0;
  int32_t blocks = 1;
  const pto_args* args = nullptr;
};
thread_local Current t_current;
thread_local std::string t_last_error;

ScratchStack& scratch_of_thread() {
  static thread_local ScratchStack stack;
  return stack;
}

// Round to nearest, subnormals kept, no traps; restores what was there, sticky flags included.
class FloatState {
 public:
#if defined(__x86_64__)
  FloatState() : outer_(__builtin_ia32_stmxcsr()) {
    constexpr unsigned kFlags = 0x3f, kKernel = 0x1f80;
    if ((outer_ & ~kFlags) != kKernel) __builtin_ia32_ldmxcsr(kKernel);
  }
  ~FloatState() { __builtin_ia32_ldmxcsr(outer_); }

 private:
  const unsigned outer_;
#endif
};

// One launch: what all its blocks share.
struct Launch {
  Launch(pto_kernel function, const pto_args& given, int32_t count)
      : services{PTO_ABI_VERSION, keep_text, take_scratch, this},
        args(given),
        kernel(function),
        blocks(count) {
    args.services = &services;
    args.blocks = count;
  }

  void keep(const char* what) noexcept {
    if (has_text.exchange(true, std::memory_order_relaxed)) return;
    try {
      text = what;
    } catch (const std::exception&) {  // no memory for the text: the code remains
    }
  }

  static int32_t keep_text(pto_services* services, const char* what) {
    static_cast<Launch*>(services->state)->keep(what == nullptr ? "" : what);
    return kBlockThrew;
  }

  static void* take_scratch(pto_services*, size_t bytes) {
    try {
      return scratch_of_thread().take(bytes);
    } catch (const std::exception&) {
      return nullptr;
    }
  }

  pto_services services;
  pto_args args;
  pto_kernel kernel;
  int32_t blocks;
  std::atomic<bool> has_text{false};
  std::string text;  // written by the block that set has_text, read after the last block
};

// The thread's state around one block.
class BlockScope {
 public:
  BlockScope(int32_t block, int32_t blocks, const pto_args* args)
      : outer_(t_current), mark_(scratch_of_thread().mark()) {
    t_current = {block, blocks, args};
  }
  ~BlockScope() {
    scratch_of_thread().release(mark_);
    t_current = outer_;
  }
  BlockScope(const BlockScope&) = delete;
  BlockScope& operator=(const BlockScope&) = delete;

 private:
  const Current outer_;
  const ScratchStack::Mark mark_;
  const FloatState float_state_;
};

int32_t run_block(void* context, int32_t block) {
  auto* launch = static_cast<Launch*>(context);
  pto_args args = launch->args;
  args.block = block;
  const BlockScope scope(block, launch->blocks, &args);
  try {
    const int32_t code = launch->kernel(&args);
    if (code != 0 && !launch->has_text.load(std::memory_order_relaxed)) {
      launch->keep(("the kernel returned " + std::to_string(code) + " in block " +
                    std::to_string(block) + " of " + std::to_string(launch->blocks))
                       .c_str());
    }
    return code;
  } catch (const std::exception& error) {
    launch->keep(error.what());
  } catch (...) {
    launch->keep("the kernel threw something that is no std::exception");
  }
  return kBlockThrew;
}

int32_t refuse(ErrorText text) {
  set_last_error(Error(std::move(text)).what());
  return kBlockThrew;
}

// Runs what may throw at the border to C.
template <class Function>
int32_t guarded(Function function) noexcept {
  try {
    return function();
  } catch (const std::exception& error) {
    try {
      set_last_error(error.what());
    } catch (const std::exception&) {  // no memory for the text: the code remains
    }
    return kBlockThrew;
  }
}

}  // namespace

void set_last_error(std::string text) { t_last_error = std::move(text); }

}  // namespace pto

int32_t pto_launch(pto_kernel kernel, const pto_args* args, int32_t blocks) {
  using namespace pto;
  return guarded([&]() -> int32_t {
    if (kernel == nullptr || args == nullptr) {
      return refuse({"a launch got no kernel or no arguments",
                     "pto_launch calls kernel(args) once per block", "pass both"});
    }
    if (args->abi_version != PTO_ABI_VERSION) {
      return refuse({"the arguments have ABI version " + std::to_string(args->abi_version) +
                         ", but this runtime has " + std::to_string(PTO_ABI_VERSION),
                     "caller and runtime must agree on the layout of pto_args",
                     "compile the caller with the headers of this version, and set abi_version "
                     "to PTO_ABI_VERSION"});
    }
    if (blocks < 0) {
      return refuse({"a launch over " + std::to_string(blocks) + " blocks",
                     "the number of blocks is at least 0", "pass a count of blocks"});
    }
    Launch launch(kernel, *args, blocks);
    const int32_t code = parallel_for(blocks, run_block, &launch);
    if (code != 0) set_last_error(std::move(launch.text));
    return code;
  });
}

int32_t pto_parallel(int32_t blocks, int32_t (*fn)(void*, int32_t), void* context) {
  return pto::guarded([&] { return pto::parallel_for(blocks, fn, context); });
}

const char* pto_last_error(void) { return pto::t_last_error.c_str(); }

int32_t pto_block_index(void) { return pto::t_current.block; }
int32_t pto_block_count(void) { return pto::t_current.blocks; }

// Tensors of the launch need no registration: their extents are in its arguments. Where several
// hold the pointer, those that may be written bound it by the nearest end, so that nothing behind
// an output is stored; inputs by the furthest, so that each is read to its end. Typed launches
// refuse overlaps in which that would cut an input short.
int64_t pto_extent(const void* pointer) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  const pto_args* args = pto::t_current.args;
  int64_t written = -1, read = -1;
  for (int32_t i = 0; args != nullptr && i < args->n_tensors; ++i) {
    const pto_tensor& tensor = args->tensors[i];
    const auto base = reinterpret_cast<uintptr_t>(tensor.data);
    if (tensor.extent_bytes < 0 || address < base) continue;
    const int64_t left = tensor.extent_bytes - static_cast<int64_t>(address - base);
    if (left <= 0) continue;
    if (tensor.flags & PTO_TENSOR_READ_ONLY)
      read = std::max(read, left);
    else
      written = written < 0 ? left : std::min(written, left);
  }
  const int64_t tensor = written >= 0 ? written : read;
  const int64_t range = pto::process_extents().bytes_from(pointer);
  if (tensor < 0 || range < 0) return std::max(tensor, range);
  return std::min(tensor, range);
}
