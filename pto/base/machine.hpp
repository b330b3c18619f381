// SPDX-License-Identifier: Apache-2.0
// Machine: the abilities of this computer, and the cut-offs that follow from them.
//
//     machine().cores;                       // cores that this process may use
//     target_flags(machine().target);        // "-mavx2 -mfma -mf16c"
//     std::puts(describe(machine()).c_str());
//
// derive_machine() derives the cut-offs from the sizes of the caches; the environment overrides
// single values (names below). Tests call it with made-up facts.
//
// Invariant: the CPU and the operating system support `target`; 1 <= threads <= cores.
// Thread safety: pure functions; machine() reads the computer once, at its first call.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace pto {

// Each target includes the instructions of those before it.
enum class Target : uint8_t { Portable, Avx2, Avx512 };

// Prints "portable", "avx2", "avx512".
std::string_view name(Target target);

// Returns the compiler flags of a target; empty for the portable one.
std::string_view target_flags(Target target);

// Facts that the CPU and the operating system report.
struct MachineFacts {
  std::string cpu;  // model name
  Target best_target = Target::Portable;
  int cores = 1;  // by affinity and by the control group's quota
  // Its prefetchers follow a stream as far ahead as loads run: where vectors of 64 bytes are loaded
  // as two halves, data beyond the first cache come 5 to 15 % faster; lines that a kernel asks for
  // beside a single stream cost 10 to 20 %. Kernels compile with PTO_ZEN4 then.
  bool is_zen4 = false;
  int64_t l1d_bytes = 32 << 10;
  int64_t l2_bytes = 1 << 20;
  int64_t llc_bytes = 8 << 20;
};

struct Machine : MachineFacts {
  Target target = Target::Portable;  // PTO_TARGET
  int threads = 1;                   // PTO_NUM_THREADS, at most `cores`
  int spin_us = 100;                 // PTO_SPIN_US: how long an idle worker spins before it parks
  // A chain of kernels that writes this many bytes stores past the caches: min(LLC / 2, 64 MB),
  // where a producer and a consumer stop meeting in the cache. PTO_STREAM_BYTES.
  int64_t stream_bytes = 0;
  // A launch that reads and writes at most this many bytes stays on the calling thread: handing
  // work to another core takes about as long. PTO_GRAIN_BYTES.
  int64_t grain_bytes = 0;
  // A row of at most this many bytes stays in a core's own cache between two sweeps: half of L2.
  int64_t row_buffer_bytes = 0;
  // The recycling allocator holds at most this many bytes in large blocks, live and free together;
  // -1: the larger of 256 MB and the recent peak of live bytes. PTO_POOL_BYTES.
  int64_t pool_bytes = -1;
};

// Reads an environment variable; null where it is unset.
using Environment = std::function<const char*(const char* variable)>;

// Throws pto::Error for a variable that is no number in its range, and for a PTO_TARGET that is
// unknown or that the CPU lacks.
Machine derive_machine(const MachineFacts& facts, const Environment& environment);

MachineFacts read_machine_facts();

// Returns this computer. Throws as derive_machine does, at every call, until the user mends the
// environment.
const Machine& machine();

// Returns PTO_TARGET as it is now, or this computer's best target where it is unset. Throws as
// derive_machine does.
Target target_now();

// Prints one "name: value" a line.
std::string describe(const Machine& machine);

// Prints bytes for people: "384 B", "48 KB", "1.5 MB".
std::string text_bytes(int64_t bytes);

// Reads the quota of a cgroup v2 cpu.max text, "200000 100000": cores, rounded up; 0 without limit.
int cores_of_quota(std::string_view cpu_max);

}  // namespace pto
