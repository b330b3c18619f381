// SPDX-License-Identifier: Apache-2.0
#include "pto/base/machine.hpp"

#include <sched.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>

#include "pto/base/error.hpp"

namespace pto {
namespace {

constexpr int64_t kKilo = 1024;
constexpr int64_t kMega = 1024 * 1024;

// __builtin_cpu_supports also asks whether the operating system saves the wide registers.
Target best_target() {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  const bool f16c = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
  if (!f16c || !__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
    return Target::Portable;
  }
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return avx512 ? Target::Avx512 : Target::Avx2;
#else
  return Target::Portable;
#endif
}

bool is_zen4() {
#if defined(__x86_64__)
  constexpr unsigned kAuthenticAmd = 0x68747541;  // "Auth", as the first register has it
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(0, &a, &b, &c, &d) || b != kAuthenticAmd) return false;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return false;
  const unsigned family = (a >> 8 & 0xf) + (a >> 20 & 0xff);
  return family == 0x19 && best_target() == Target::Avx512;  // Zen 3 has no vectors of 64 bytes
#else
  return false;
#endif
}

std::string cpu_model() {
#if defined(__x86_64__)
  unsigned words[12] = {};
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(0x80000000u, &a, &b, &c, &d) && a >= 0x80000004u) {
    for (unsigned i = 0; i < 3; ++i) {
      __get_cpuid(0x80000002u + i, words + 4 * i, words + 4 * i + 1, words + 4 * i + 2,
                  words + 4 * i + 3);
    }
    char text[sizeof(words) + 1] = {};
    std::memcpy(text, words, sizeof(words));
    std::string model = text;
    model.erase(0, std::min(model.find_first_not_of(' '), model.size()));
    while (!model.empty() && model.back() == ' ') model.pop_back();
    if (!model.empty()) return model;
  }
#endif
  return "unknown";
}

std::string read_text(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

int usable_cores() {
  cpu_set_t set;
  int cores = 0;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) cores = CPU_COUNT(&set);
  if (cores <= 0) cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  const int quota = cores_of_quota(read_text("/sys/fs/cgroup/cpu.max"));
  if (quota > 0) cores = std::min(cores, quota);
  return std::max(cores, 1);
}

// Reads the data cache of core 0 at this level, in bytes; 0 where the system does not say.
int64_t cache_bytes(int level) {
  for (int index = 0; index < 8; ++index) {
    const std::string folder =
        "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/";
    if (std::atoi(read_text(folder + "level").c_str()) != level) continue;
    if (read_text(folder + "type").rfind("Instruction", 0) == 0) continue;
    const std::string size = read_text(folder + "size");  // "32768K"
    const int64_t value = std::atoll(size.c_str());
    return size.find('M') != std::string::npos ? value * kMega : value * kKilo;
  }
  constexpr int kNames[] = {_SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE};
  return std::max<int64_t>(sysconf(kNames[level - 1]), 0);
}

int64_t number_or(const Environment& environment, const char* variable, int64_t otherwise,
                  int64_t least) {
  const char* value = environment(variable);
  if (value == nullptr || *value == '\0') return otherwise;
  int64_t number = 0;
  const char* end = value + std::strlen(value);
  const auto [stop, error] = std::from_chars(value, end, number);
  if (error != std::errc() || stop != end || number < least) {
    fail({std::string(variable) + " is \"" + value + "\"",
          "it must be a whole number of at least " + std::to_string(least),
          std::string("unset ") + variable + " or set it to such a number"});
  }
  return number;
}

Target target_or_best(const Environment& environment, Target best) {
  const char* value = environment("PTO_TARGET");
  if (value == nullptr || *value == '\0') return best;
  for (const Target target : {Target::Portable, Target::Avx2, Target::Avx512}) {
    if (name(target) != value) continue;
    if (target <= best) return target;
    fail({std::string("PTO_TARGET is ") + value + ", but this CPU supports at most " +
              std::string(name(best)),
          "code for a target uses all its instructions, with the operating system's support",
          "unset PTO_TARGET or set it to " + std::string(name(best))});
  }
  fail({std::string("PTO_TARGET is \"") + value + "\"",
        "a target names the instructions that code may use",
        "unset PTO_TARGET or set it to portable, avx2 or avx512"});
}

}  // namespace

std::string_view name(Target target) {
  constexpr std::string_view kNames[] = {"portable", "avx2", "avx512"};
  return kNames[static_cast<int>(target)];
}

std::string_view target_flags(Target target) {
  constexpr std::string_view kFlags[] = {
      "", "-mavx2 -mfma -mf16c",
      // The tuning chooses how loops are addressed and laid out; the code runs on every AVX-512.
      "-mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512dq -mavx512vl -mtune=icelake-server"};
  return kFlags[static_cast<int>(target)];
}

int cores_of_quota(std::string_view cpu_max) {
  std::istringstream text{std::string(cpu_max)};
  double quota = 0, period = 0;
  if (!(text >> quota >> period) || quota <= 0 || period <= 0) return 0;  // "max 100000"
  const double cores = (quota + period - 1) / period;
  return static_cast<int>(std::min(cores, 1e6));
}

MachineFacts read_machine_facts() {
  MachineFacts facts;
  facts.cpu = cpu_model();
  facts.best_target = best_target();
  facts.is_zen4 = is_zen4();
  facts.cores = usable_cores();
  if (const int64_t bytes = cache_bytes(1); bytes > 0) facts.l1d_bytes = bytes;
  if (const int64_t bytes = cache_bytes(2); bytes > 0) facts.l2_bytes = bytes;
  const int64_t shared = cache_bytes(3);
  facts.llc_bytes = shared > 0 ? shared : std::max(facts.llc_bytes, facts.l2_bytes);
  return facts;
}

Machine derive_machine(const MachineFacts& facts, const Environment& environment) {
  Machine made;
  static_cast<MachineFacts&>(made) = facts;
  made.target = target_or_best(environment, facts.best_target);
  made.threads = static_cast<int>(
      std::min<int64_t>(number_or(environment, "PTO_NUM_THREADS", facts.cores, 1), facts.cores));
  made.spin_us =
      static_cast<int>(std::min<int64_t>(number_or(environment, "PTO_SPIN_US", 100, 0), 1000000));
  made.stream_bytes =
      number_or(environment, "PTO_STREAM_BYTES", std::min(facts.llc_bytes / 2, 64 * kMega), 0);
  made.grain_bytes = number_or(environment, "PTO_GRAIN_BYTES",
                               std::clamp(facts.l2_bytes / 4, 64 * kKilo, 512 * kKilo), 0);
  made.row_buffer_bytes = facts.l2_bytes / 2;
  made.pool_bytes = number_or(environment, "PTO_POOL_BYTES", -1, 0);
  return made;
}

const Machine& machine() {
  static const Machine kMachine = derive_machine(
      read_machine_facts(), [](const char* variable) { return std::getenv(variable); });
  return kMachine;
}

Target target_now() {
  return target_or_best([](const char* variable) { return std::getenv(variable); },
                        machine().best_target);
}

std::string text_bytes(int64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KB", "MB", "GB", "TB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  for (; value >= 1024 && unit < 4; ++unit) value /= 1024;
  char text[32];
  std::snprintf(text, sizeof(text), "%.4g %s", value, kUnits[unit]);
  return text;
}

std::string describe(const Machine& machine) {
  std::ostringstream out;
  out << "cpu: " << machine.cpu << "\ntarget: " << name(machine.target);
  if (machine.target != machine.best_target)
    out << " (the CPU has " << name(machine.best_target) << ")";
  out << "\nflags: " << target_flags(machine.target) << "\ncores: " << machine.cores
      << "\nthreads: " << machine.threads << "\nL1d: " << text_bytes(machine.l1d_bytes)
      << "\nL2: " << text_bytes(machine.l2_bytes)
      << "\nlast level cache: " << text_bytes(machine.llc_bytes)
      << "\nstream from: " << text_bytes(machine.stream_bytes)
      << "\nparallel from: " << text_bytes(machine.grain_bytes)
      << "\nrow buffer: " << text_bytes(machine.row_buffer_bytes) << "\nmemory pool: "
      << (machine.pool_bytes < 0 ? "256 MB or the recent peak" : text_bytes(machine.pool_bytes))
      << "\nspin: " << machine.spin_us << " us\n";
  return out.str();
}

}  // namespace pto
