// SPDX-License-Identifier: Apache-2.0
// The functions that Python calls in the library, as plain C.
// Thread safety: one thread loads; any thread may call everything else.
#include <c10/util/Exception.h>

#include <exception>
#include <string>

#include "pto/adapters/torch/npu/fallback.hpp"
#include "pto/adapters/torch/npu/memory.hpp"
#include "pto/adapters/torch/npu/registration.hpp"
#include "pto/device/npu/stream.hpp"

namespace {
thread_local std::string text;

std::string text_of(const std::exception& error) {
  const auto* const theirs = dynamic_cast<const c10::Error*>(&error);
  return theirs ? theirs->what_without_backtrace() : error.what();
}
}  // namespace

// Registers the device. Returns null, or the text of the error.
extern "C" const char* pto_npu_load() {
  using namespace pto::torch_npu;
  try {
    make_streams(&text_of);
    register_device();
    register_services();
    register_kernels();
    register_autocast();
    register_queue();
    register_fallback();
    return nullptr;
  } catch (const std::exception& error) {
    text = text_of(error);
    return text.c_str();
  }
}

extern "C" int32_t pto_npu_device_count() { return pto::torch_npu::device_count(); }
extern "C" int32_t pto_npu_is_checked() { return pto::torch_npu::is_checked() ? 1 : 0; }

// Returns lines "name calls", valid for the calling thread until its next call.
extern "C" const char* pto_npu_fallbacks() {
  text.clear();
  for (const auto& [name, calls] : pto::torch_npu::fallback_counts()) {
    text += name + " " + std::to_string(calls) + "\n";
  }
  return text.c_str();
}

extern "C" void pto_npu_reset_fallbacks() { pto::torch_npu::reset_fallback_counts(); }
