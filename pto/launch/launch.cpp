// SPDX-License-Identifier: Apache-2.0
#include "pto/launch/launch.hpp"

#include <algorithm>
#include <atomic>
#include <exception>

#include "pto/base/error.hpp"
#include "pto/launch/block.hpp"
#include "pto/launch/device_blocks.hpp"
#include "pto/launch/extents.hpp"
#include "pto/launch/pool.hpp"
#include "pto/launch/sync.hpp"
#include "pto/launch/wait.hpp"

namespace pto {
namespace {

thread_local std::string t_last_error;
std::atomic<bool> g_refuses_unknown{false};

int32_t run_one(void* launch, int32_t block) {
  return run_cores(*static_cast<Launch*>(launch), block);
}

int32_t refuse(ErrorText text) {
  set_last_error(Error(std::move(text)).what());
  return kBlockThrew;
}

// Runs all blocks, or one; a flag that they left set is an error too.
int32_t run(Launch& launch, int32_t block = kAllBlocks) {
  int32_t code = block == kAllBlocks ? parallel_for(launch.blocks, run_one, &launch)
                                     : run_cores(launch, block);
  if (code == 0 && launch.has_failed.load()) code = kBlockThrew;
  if (Sync* sync = launch.sync_if_any(); sync != nullptr && code == 0) {
    const std::string left = sync->left();
    if (!left.empty()) {
      launch.keep(left.c_str());
      code = kBlockThrew;
    }
  }
  if (code != 0) set_last_error(std::move(launch.text));
  return code;
}

// Carries a function of pto_launch_cores as a kernel.
struct CoreCall {
  int32_t (*function)(void*);
  void* context;
};
int32_t call_core(const pto_args* args) {
  const auto* call = static_cast<const CoreCall*>(args->params);
  return call->function(call->context);
}

// A launch with different kernels on its cores.
struct MixedLaunch : Launch {
  MixedLaunch(const CoreKernels& of_cores, const pto_args& given, int32_t block_count)
      : Launch(run_core, given, block_count), kernels(of_cores) {
    lanes = kernels.vectors[1] != nullptr ? 2 : kernels.vectors[0] != nullptr;
    has_cube = kernels.cube != nullptr;
    has_roles = true;
  }
  static int32_t run_core(const pto_args* args) {
    const CoreKernels& kernels = static_cast<MixedLaunch*>(t_block.launch)->kernels;
    const bool is_cube = t_block.core == PTO_CORE_CUBE;
    const pto_kernel kernel = is_cube ? kernels.cube : kernels.vectors[t_block.lane];
    return kernel == nullptr ? 0 : kernel(args);
  }

  const CoreKernels kernels;
};

// Catches exceptions at the border to C.
template <class Function>
int32_t guarded(Function function) noexcept {
  try {
    return function();
  } catch (const std::exception& error) {
    try {
      set_last_error(error.what());
    } catch (const std::exception&) {  // no memory for the text: the code remains
    }
  } catch (...) {
    try {
      set_last_error("the kernel threw something that is no std::exception");
    } catch (const std::exception&) {  // the same
    }
  }
  return kBlockThrew;
}

}  // namespace

int32_t launch_cores(const CoreKernels& kernels, const pto_args& args, int32_t blocks,
                     int32_t block) {
  return guarded([&] {
    MixedLaunch launch(kernels, args, blocks);
    return run(launch, block);
  });
}

int32_t run_program(pto_kernel function, const pto_args& args) {
  return guarded([&] {
    Launch launch(function, args, 1);
    const KernelFloatState float_state;
    const int32_t code = function(&launch.args);
    if (code != 0 && launch.has_text.load()) set_last_error(std::move(launch.text));
    return code;  // where a launch of the program failed, its text is there
  });
}

void set_last_error(std::string text) { t_last_error = std::move(text); }

}  // namespace pto

int32_t pto_launch(pto_kernel kernel, const pto_args* args, int32_t blocks) {
  using namespace pto;
  return guarded([&]() -> int32_t {
    if (kernel == nullptr || args == nullptr) {
      return refuse({"a launch got no kernel or no arguments",
                     "pto_launch calls kernel(args) once per block",
                     "pass a kernel and its arguments"});
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
    return run(launch);
  });
}

int32_t pto_launch_cores(int32_t blocks, int32_t lanes, int32_t has_cube,
                         int32_t (*fn)(void* context), void* context) {
  using namespace pto;
  return guarded([&]() -> int32_t {
    has_cube = has_cube != 0;
    if (fn == nullptr || blocks < 0 || lanes < 0 || lanes > 2 || lanes + has_cube < 1 ||
        blocks > INT32_MAX / 4) {
      return refuse({"a launch over " + std::to_string(blocks) + " blocks of " +
                         std::to_string(lanes) + " vector cores and " + std::to_string(has_cube) +
                         " cube cores" + (fn == nullptr ? ", without a function" : ""),
                     "a block has one or two vector cores, or none and a cube core",
                     "pass a function, a count of blocks, lanes of 0 to 2"});
    }
    const CoreCall call{fn, context};
    const pto_args args = args_of({}, {}, std::as_bytes(std::span(&call, 1)));
    Launch launch(call_core, args, blocks);
    launch.lanes = lanes;
    launch.has_cube = has_cube;
    launch.has_roles = has_cube != 0;
    return run(launch);
  });
}

int32_t pto_parallel(int32_t blocks, int32_t (*fn)(void*, int32_t), void* context) {
  return pto::guarded([&] {
    if (fn == nullptr)
      return pto::refuse(
          {"pto_parallel: the function is null", "it runs once for each block", "pass a function"});
    return pto::parallel_for(blocks, fn, context);
  });
}

const char* pto_last_error(void) { return pto::t_last_error.c_str(); }

// A launch need not register its tensors: its arguments hold their extents. Where several tensors
// hold the pointer, those that may be written bound it by the nearest end, so that nothing behind
// an output is stored; inputs by the furthest, so that each is read to its end. Typed launches
// refuse overlaps in which that would cut an input short. A device's blocks come last: no tensor of
// a launch and no range within one is larger.
int64_t pto::known_extent(const void* pointer) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  const pto_args* args = pto::t_block.args;
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
  if (tensor >= 0 && range >= 0) return std::min(tensor, range);
  if (tensor >= 0 || range >= 0) return std::max(tensor, range);
  return pto::process_device_blocks().place_of(pointer).bytes;
}

int64_t pto_extent(const void* pointer) {
  const int64_t bytes = pto::known_extent(pointer);
  if (bytes < 0 && pto::t_block.launch != nullptr &&
      pto::g_refuses_unknown.load(std::memory_order_relaxed)) {
    pto::fail({pto::text_of_core(*pto::t_block.launch, pto::t_block.position) +
                   ": nothing is known about the memory of GlobalTensor(pointer)",
               "the one-argument form ends where the memory of its pointer does, which is known of "
               "a tensor, of a raw pointer of an npu tensor and of aclrtMalloc's memory",
               "pass the tensor itself to the kernel, or give the view a count"},
              pto::ErrorKind::Runtime);
  }
  return bytes;
}

void pto::refuse_unknown_extents() { g_refuses_unknown.store(true); }
