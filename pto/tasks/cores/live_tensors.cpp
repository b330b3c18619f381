// SPDX-License-Identifier: Apache-2.0
#include "pto/tasks/cores/live_tensors.hpp"

#include "pto/abi/limits.h"
#include "pto/base/error.hpp"

namespace pto {
namespace {

std::string named(const char* what, int32_t index) {
  return index < 0 ? what : "argument " + std::to_string(index) + " of a task";
}

}  // namespace

bool LiveTensors::look_up(const Allocation* allocation) {
  if (all_.count(allocation) == 0) return false;
  recent(allocation) = {allocation, reinterpret_cast<uintptr_t>(TaskRun::data_of(*allocation)),
                        TaskRun::bytes_of(*allocation)};
  return true;
}

void LiveTensors::fail_unknown(const char* what, int32_t index) {
  fail({named(what, index) + " is no tensor of this run, or its scope has ended",
        "tensors come from input(), output(), inout() and tensor(), and live in their scope",
        "pass what one of these calls returned, inside its scope"});
}

void LiveTensors::fail_outside(const pto_view& view, const Known& known, const char* what,
                               int32_t index) {
  if (view.rank < 0 || view.rank > PTO_MAX_RANK)
    fail({named(what, index) + " is a view of " + std::to_string(view.rank) + " dimensions",
          "a view has at most " + std::to_string(PTO_MAX_RANK), "reshape it"});
  check_element_type(view.type_code, view.type_bits);
  std::string sizes, strides;
  for (int32_t k = 0; k < view.rank; ++k) {
    sizes += (k > 0 ? ", " : "") + std::to_string(view.sizes[k]);
    strides += (k > 0 ? ", " : "") + std::to_string(view.strides[k]);
  }
  const auto offset = int64_t(reinterpret_cast<uintptr_t>(view.data) - known.base);
  fail({named(what, index) + " reaches beyond its tensor: sizes [" + sizes + "], strides [" +
            strides + "], from byte " + std::to_string(offset) + " of " +
            std::to_string(known.bytes),
        "tasks touch memory of the run only", "make views by slice(), transpose() and the others"});
}

void check_element_type(uint8_t code, uint8_t bits) {
  if (LiveTensors::is_element_type(bits)) return;
  fail(
      {"an element type of code " + std::to_string(code) + " and " + std::to_string(bits) + " bits",
       "elements have whole bytes, at most 16",
       "use a type of pto::element, such as element::f32"});
}

}  // namespace pto
