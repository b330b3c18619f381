// SPDX-License-Identifier: Apache-2.0
// The machine, threads and memory for Python.
#include "pto/base/machine.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <iterator>
#include <optional>
#include <utility>

#include "pto/abi/precision.h"
#include "pto/bindings/module.hpp"
#include "pto/isa/cpu/engine.hpp"
#include "pto/launch/memory.hpp"
#include "pto/launch/pool.hpp"
#include "pto/operators/weights.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace pto::bindings {
namespace {

nb::dict stats() {
  MemoryStats now = memory_stats();
  nb::dict result;
  result["live_bytes"] = now.live_bytes;
  result["peak_live_bytes"] = now.peak_live_bytes;
  result["held_bytes"] = now.held_bytes;
  result["free_bytes"] = now.free_bytes;
  result["maps"] = now.maps;
  return result;
}

// In the order of WeightCheck.
constexpr const char* kWeightChecks[] = {"sampled", "compared", "never", "trusted"};

std::optional<WeightCheck> weight_check_of(const std::optional<std::string>& name) {
  for (size_t i = 0; name && i < std::size(kWeightChecks); ++i) {
    if (*name == kWeightChecks[i]) return static_cast<WeightCheck>(i);
  }
  return std::nullopt;
}

void bind_weights(nb::module_& m) {
  m.def(
      "set_weight_check",
      [](const std::string& name) {
        if (const auto found = weight_check_of(name)) set_weight_check(*found);
      },
      "name"_a, "sampled, compared, never or trusted; see operators/weights.hpp.");
  m.def(
      "exchange_thread_weight_check",
      [](const std::optional<std::string>& name) -> std::optional<std::string> {
        const auto before = exchange_thread_weight_check(weight_check_of(name));
        if (!before) return std::nullopt;
        return kWeightChecks[static_cast<int>(*before)];
      },
      "name"_a.none(),
      "Sets the check of this thread alone, None: that of the process; returns the one before.");
  m.def("weight_check", [] { return kWeightChecks[static_cast<int>(weight_check())]; });
  m.def(
      "forget_weights",
      [](uintptr_t address, int64_t bytes) {
        return forget_weights(reinterpret_cast<const void*>(address), bytes);
      },
      "address"_a, "bytes"_a,
      "Forgets the packed copies of weights that begin in this memory; returns how many.");
  m.def("packed_weight_bytes", &packed_weight_bytes,
        "Bytes of the packed copies of weights that live.");
  m.def("count_packed_weight", &count_packed_weight, "bytes"_a,
        "Counts the bytes of a weight that a caller keeps packed; negative ones when it is freed.");
}

std::string matmul_layout(const std::string& dtype, const std::string& precision) {
  pto_matmul_job job = {};
  for (const auto& [name, type] :
       {std::pair("f32", PTO_MATMUL_F32), std::pair("f16", PTO_MATMUL_F16),
        std::pair("bf16", PTO_MATMUL_BF16), std::pair("i8", PTO_MATMUL_I8),
        std::pair("u8", PTO_MATMUL_I4X2)}) {
    if (dtype == name) job.b.type = type;
  }
  const bool has_codes = job.b.type == PTO_MATMUL_I8 || job.b.type == PTO_MATMUL_I4X2;
  job.a.type = has_codes ? PTO_MATMUL_F32 : job.b.type;
  job.precision = pto_matmul_precision();
  for (int32_t i = PTO_MATMUL_HIGHEST; i <= PTO_MATMUL_MEDIUM; ++i)
    if (precision == pto_matmul_precision_name(i)) job.precision = i;
  const int32_t layout = pto_matmul_layout(&job);
  if (layout == 0) return "";
  return std::string(pto_matmul_layout_name(layout)) + ", version " +
         std::to_string(PTO_MATMUL_LAYOUT_VERSION);
}

void bind_precision(nb::module_& m) {
  m.def(
      "set_matmul_precision",
      [](const std::string& name) { return pto_set_matmul_precision(name.c_str()) == 0; }, "name"_a,
      "highest, high or medium; see abi/precision.h. False: another name.");
  m.def("matmul_precision", [] { return pto_matmul_precision_name(pto_matmul_precision()); });
  m.def("matmul_layout", &matmul_layout, "dtype"_a, "precision"_a = "",
        "How a weight of this type is packed, at this precision or the present one; \"\": it is "
        "not.");
  m.def("way_of_floats", &way_of_floats, "How operators multiply f32 at this precision.");
  m.def("has_matmul_tiles", &has_matmul_tiles, "Says whether this CPU has AMX.");
}

}  // namespace

void bind_machine(nb::module_& m) {
  m.def(
      "describe_machine", [] { return describe(machine()); },
      "This machine's features and the cut-offs derived from them, one a line.");
  m.def(
      "target_flags", [] { return std::string(target_flags(machine().target)); },
      "The compiler flags of this machine's target, or of PTO_TARGET's.");
  m.def("num_threads", &num_threads, "Threads that a launch of this thread may use.");
  m.def("set_num_threads", &set_num_threads, "threads"_a, "At least 1, at most the cores.");
  m.def("memory_stats", &stats, "Bytes of the recycling allocator; see launch/memory.hpp.");
  m.def("reset_peak_live_bytes", &reset_peak_live_bytes);
  bind_weights(m);
  bind_precision(m);
  m.def("release_cached", &release_cached, "Gives unused memory back to the system.");
}

}  // namespace pto::bindings
