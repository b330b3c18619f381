// SPDX-License-Identifier: Apache-2.0
// Simulator: the parts of the public simulator that programs use around kernels: a launcher, the
// core that a thread plays, and the memories of a core.
//
//     pto::cpu_sim::KernelLaunchOptions options;
//     options.kernel_name = "twice";
//     options.explicit_block_count = 8;
//     pto::cpu_sim::LaunchKernelMultiCore(options, stream, [&] { twice(out, x, n); });
//
//     pto::cpu_sim::ScopedExecutionContext as_lane(block, 1, 2);    // this thread, until the end
//     NPUMemoryModel::Instance().Clear();                           // what TASSIGN binds to
//
// Errors: as EXEC_KERNEL_CMD: std::runtime_error where exceptions are enabled.
//
// Invariant: a launch runs on the resident pool, each core of it both a cube and a vector core; the
// lanes of a block run at the same time. Inside launches a thread's own context changes nothing.
// Thread safety: contexts and memories belong to the calling thread.
#pragma once
#include "pto/abi/acl.h"
#include "pto/isa/kernel/cores.hpp"
#include "pto/isa/kernel/kernel.hpp"

namespace pto {
namespace cpu_sim {

// Returns the cores of a launch that states none: PTO_CPU_SIM_NUM_CORES, or 4.
inline uint32_t GetConfiguredCoreCount() {
  return pto_environment_number("PTO_CPU_SIM_NUM_CORES", 4);
}

// Holds a name for people, cut at 63 characters.
struct KernelName {
  char text[64] = "";
  KernelName() = default;
  KernelName(const char* name) {
    for (int i = 0; i < 63 && name[i]; ++i) text[i + 1] = 0, text[i] = name[i];
  }
  template <class String, class = decltype(static_cast<const String*>(nullptr)->c_str())>
  KernelName(const String& name) : KernelName(name.c_str()) {}
};

struct KernelLaunchOptions {
  KernelName kernel_name;
  uint32_t requested_cores = 0;   // 0: the configured ones
  uint32_t total_work_items = 0;  // no more blocks than that, 0: unknown
  uint32_t work_quantum = 1;      // each block gets a multiple of it
  uint32_t subblocks_per_block = 1;
  uint32_t explicit_block_count = 0;  // 0: from the numbers above
  bool write_trace_files = true;      // there are no traces
};

// Returns the blocks for a number of work items: at most `requested_cores` and one per item, and so
// many that each gets a multiple of the quantum.
inline uint32_t ResolveActiveCoreCount(uint32_t requested_cores, uint32_t total_work_items = 0,
                                       uint32_t work_quantum = 1) {
  uint32_t blocks = requested_cores > 0 ? requested_cores : GetConfiguredCoreCount();
  if (total_work_items == 0) return blocks;
  if (blocks > total_work_items) blocks = total_work_items;
  while (blocks > 1 && work_quantum > 1 &&
         ((total_work_items - 1) / blocks + 1) % work_quantum != 0)
    --blocks;
  return blocks;
}

template <class Kernel>
void LaunchKernelMultiCore(const KernelLaunchOptions& options, aclrtStream, Kernel&& kernel) {
  const uint32_t lanes = options.subblocks_per_block > 0 ? options.subblocks_per_block : 1;
  const uint32_t blocks =
      options.explicit_block_count > 0
          ? options.explicit_block_count
          : ResolveActiveCoreCount(options.requested_cores, options.total_work_items,
                                   options.work_quantum);
  const auto run = [](void* context) -> int32_t {
    (**static_cast<decltype(&kernel)*>(context))();
    return 0;
  };
  auto* pointer = &kernel;
  isa::launch::finished(pto_launch_cores(int32_t(blocks), int32_t(lanes), 0, run, &pointer));
}

// Makes the calling thread play a core from now on, outside launches. There are as many blocks as
// are configured.
inline void set_execution_context(uint32_t block, uint32_t subblock, uint32_t subblocks = 1) {
  const uint32_t configured = GetConfiguredCoreCount();
  pto_set_core(PTO_CORE_ANY, int32_t(block), int32_t(subblock), int32_t(subblocks));
  pto_set_block_count(int32_t(block < configured ? configured : block + 1));
}
inline void reset_execution_context() {
  pto_set_core(PTO_CORE_ANY, 0, 0, 1);
  pto_set_block_count(1);
}

// Sets the word of the calling thread's task, whose bits the control register shows: bit 48 makes
// quantising saturate.
inline void set_task_cookie(uint64_t bits) { isa::set_ctrl(bits); }
inline uint64_t get_task_cookie() { return isa::get_ctrl(); }

class ScopedExecutionContext {
 public:
  ScopedExecutionContext(uint32_t block, uint32_t subblock, uint32_t subblocks = 1)
      : core_(pto_core()),
        block_(pto_block_index()),
        blocks_(pto_block_count()),
        lane_(pto_lane_index()),
        lanes_(pto_lane_count()) {
    set_execution_context(block, subblock, subblocks);
  }
  ~ScopedExecutionContext() {
    pto_set_core(core_, block_, lane_, lanes_);
    pto_set_block_count(blocks_);
  }
  ScopedExecutionContext(const ScopedExecutionContext&) = delete;
  ScopedExecutionContext& operator=(const ScopedExecutionContext&) = delete;

 private:
  const int32_t core_, block_, blocks_, lane_, lanes_;
};

}  // namespace cpu_sim

enum class NPUArch { A2A3, A5 };

// The memories of the running core: UB, L1, L0A, L0B, L0C. They are larger here than on any chip;
// GetSizes() returns the chip's sizes, or those of the environment (PTO_CPU_SIM_UB_BYTES ...).
class NPUMemoryModel {
 public:
  static constexpr int kRegions = 5;
  using ArchMemorySizes = size_t[kRegions];

  static NPUMemoryModel& Instance() {
    static thread_local NPUMemoryModel of_thread;
    return of_thread;
  }
  static void SetDefaultArch(NPUArch arch) { default_arch() = arch; }

  void Initialize() { Initialize(default_arch()); }
  void Initialize(NPUArch arch) {
    constexpr uint32_t kKilobytes[2][kRegions] = {{192, 512, 64, 64, 128}, {256, 512, 64, 64, 256}};
    constexpr const char* kNames[kRegions] = {"PTO_CPU_SIM_UB_BYTES", "PTO_CPU_SIM_L1_BYTES",
                                              "PTO_CPU_SIM_L0A_BYTES", "PTO_CPU_SIM_L0B_BYTES",
                                              "PTO_CPU_SIM_L0C_BYTES"};
    arch_ = arch;
    for (int i = 0; i < kRegions; ++i)
      sizes_[i] = pto_environment_number(kNames[i], kKilobytes[arch == NPUArch::A5][i] * 1024);
    is_initialized_ = true;
  }
  void EnsureInitialized() {
    if (!is_initialized_) Initialize();
  }
  bool IsInitialized() const { return is_initialized_; }
  NPUArch GetArch() const { return arch_; }
  const ArchMemorySizes& GetSizes() const { return sizes_; }

  char* GetUBBase() { return base(TileType::Vec); }
  char* GetL1Base() { return base(TileType::Mat); }
  char* GetL0ABase() { return base(TileType::Left); }
  char* GetL0BBase() { return base(TileType::Right); }
  char* GetL0CBase() { return base(TileType::Acc); }
  template <class D>
  typename D::DType* GetPointer(size_t bytes) {
    return reinterpret_cast<typename D::DType*>(base(D::Loc) + bytes);
  }

  // Fills with zeros.
  void Clear() {
    for (int i = 0; i < isa::detail::kLocations; ++i)
      __builtin_memset(base(TileType(i)), 0, isa::detail::kLocationBytes[i]);
  }
  void Reset() {
    Clear();
    is_initialized_ = false;
  }

 private:
  NPUMemoryModel() = default;
  static NPUArch& default_arch() {
    static NPUArch arch = NPUArch::A2A3;
    return arch;
  }
  char* base(TileType location) {
    EnsureInitialized();
    return static_cast<char*>(
        isa::needed_block_memory(int(location), isa::detail::kLocationBytes[int(location)]));
  }

  ArchMemorySizes sizes_ = {};
  NPUArch arch_ = NPUArch::A2A3;
  bool is_initialized_ = false;
};

// Returns the address of an operand's scales: its byte in its memory, divided by 16. For a pointer
// into no memory of the core, such as a tile's own storage, TASSIGN does not bind to the result.
template <class T>
uint64_t GetScaleAddr(const T* operand) {
  const auto address = reinterpret_cast<uintptr_t>(operand);
  for (int i = 0; i < isa::detail::kLocations; ++i) {
    const size_t room = isa::detail::kLocationBytes[i];
    const auto base = reinterpret_cast<uintptr_t>(pto_block_memory(i, room));
    if (base != 0 && address >= base && address - base < room) return (address - base) >> 4;
  }
  return ~uint64_t(0);
}

inline void NPU_MEMORY_INIT() { NPUMemoryModel::Instance().Initialize(); }
inline void NPU_MEMORY_INIT(NPUArch arch) { NPUMemoryModel::Instance().Initialize(arch); }
inline void NPU_MEMORY_CLEAR() { NPUMemoryModel::Instance().Clear(); }

}  // namespace pto
