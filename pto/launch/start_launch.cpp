// SPDX-License-Identifier: Apache-2.0
#include "pto/launch/start_launch.hpp"

#include "pto/abi/limits.h"
#include "pto/base/machine.hpp"
#include "pto/launch/pool.hpp"

namespace pto {

namespace {

// A kernel reports what, why and fix as three lines; a text from elsewhere may have one line.
[[noreturn]] void fail_with_report(const std::string& name, const std::string& report) {
  const size_t first = report.find('\n'), second = report.find('\n', first + 1);
  if (first == std::string::npos || second == std::string::npos) {
    fail({name + ": the kernel failed: " + report, "a kernel reports what it cannot compute",
          "check the arguments of this call"},
         ErrorKind::Runtime);
  }
  fail({name + ": " + report.substr(0, first), report.substr(first + 1, second - first - 1),
        report.substr(second + 1)},
       ErrorKind::Runtime);
}

}  // namespace

Scratch::Scratch(int64_t bytes)
    : data_(bytes == 0 ? nullptr : pto_malloc(static_cast<size_t>(bytes))) {
  if (data_ != nullptr || bytes == 0) return;
  fail({"no memory for " + std::to_string(bytes) + " bytes of temporaries",
        "the results of reductions are kept between two sweeps", "free some tensors"},
       ErrorKind::Runtime);
}

void start_launch(const ProgramSpec& program, const MeasuredLaunch& launch, const pto_tensor* all,
                  uint64_t* scalars, std::span<const std::byte> params) {
  if (launch.items <= 0) return;
  const LaunchSpec& spec = *launch.spec;
  pto_tensor picked[PTO_MAX_BUFFERS];
  for (size_t t = 0; !launch.takes_all && t < spec.tensors.size(); ++t) {
    if (spec.tensors[t] != kAbsentTensor) {
      picked[t] = all[spec.tensors[t]];
      continue;
    }
    picked[t] = {};
    picked[t].flags = PTO_TENSOR_ABSENT;
  }
  const Machine& here = machine();
  scalars[launch.items_at] = static_cast<uint64_t>(launch.items);
  scalars[launch.items_at + 1] = static_cast<uint64_t>(spec.quantum);
  pto_args args{};
  args.abi_version = PTO_ABI_VERSION;
  args.n_tensors = static_cast<int32_t>(spec.tensors.size());
  args.tensors = launch.takes_all ? all : picked;
  args.n_scalars = launch.n_scalars;
  args.flags = launch.written_bytes >= here.stream_bytes ? PTO_LAUNCH_STREAM : 0;
  args.scalars = scalars;
  args.params = spec.params == nullptr ? params.data() : spec.params;
  args.params_bytes = static_cast<int64_t>(params.size());
  args.blocks = 1;
  const int32_t blocks =
      block_count(launch.items, launch.bytes, spec.quantum, num_threads(), here.grain_bytes);
  if (pto_launch(launch.function, &args, blocks) == 0) [[likely]]
    return;
  fail_with_report(program.name, pto_last_error());
}

}  // namespace pto
