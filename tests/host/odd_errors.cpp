// SPDX-License-Identifier: Apache-2.0
// A kernel that fails with a text which is no UTF-8, and an orchestration that submits it.
#include <pto/runtime.h>
#include <pto/pto-inst.hpp>
#include <stdexcept>

void Mutters(float*) { throw std::runtime_error("bytes: \xff\xfe"); }
PTO_KERNEL(mutters, Mutters)

extern "C" int32_t pto_orchestrate(const pto_runtime_api* rt, const pto_args* args) {
  pto::Orchestration o(rt, args);
  o.submit("mutters", {o.inout(o.inout(0))});
  return 0;
}
