// SPDX-License-Identifier: Apache-2.0
// The calls of the public spelling (orchestration_api.h), on the current run.
//
//     PTO2_SCOPE() { rt_submit_aic_task(3, args); }
//
// Thread safety: each acts on the run of the calling thread.
#pragma once

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <thread>

#include "orchestration_api.h"

#define PTO_COMPAT_SITE const char *file = __builtin_FILE(), int line = __builtin_LINE()

static inline TaskOutputTensors rt_submit_task(const MixedKernels& kernels,
                                               const CoreTaskArgs& args, PTO_COMPAT_SITE) {
  if (kernels.aic_kernel_id < 0 && kernels.aiv0_kernel_id < 0 && kernels.aiv1_kernel_id < 0)
    pto::compat::refuse("a mixed task without a kernel", "at least one core runs one",
                        "set a kernel, or call rt_submit_dummy_task");
  return pto::compat::Session::current().submit(kernels, args, file, line);
}
static inline TaskOutputTensors rt_submit_aic_task(int32_t kernel, const CoreTaskArgs& args,
                                                   PTO_COMPAT_SITE) {
  return rt_submit_task({kernel, INVALID_KERNEL_ID, INVALID_KERNEL_ID}, args, file, line);
}
static inline TaskOutputTensors rt_submit_aiv_task(int32_t kernel, const CoreTaskArgs& args,
                                                   PTO_COMPAT_SITE) {
  return rt_submit_task({INVALID_KERNEL_ID, kernel, INVALID_KERNEL_ID}, args, file, line);
}
// Runs nothing, and only carries edges.
static inline TaskOutputTensors rt_submit_dummy_task(const CoreTaskArgs& args, PTO_COMPAT_SITE) {
  return pto::compat::Session::current().submit({}, args, file, line);
}
template <size_t N>
static inline TaskOutputTensors rt_submit_task(const MixedKernels& kernels,
                                               CoreTaskArgsWithDeps<N>& args, PTO_COMPAT_SITE) {
  return rt_submit_task(kernels, args.finalize_for_submit(), file, line);
}
template <size_t N>
static inline TaskOutputTensors rt_submit_aic_task(int32_t kernel, CoreTaskArgsWithDeps<N>& args,
                                                   PTO_COMPAT_SITE) {
  return rt_submit_aic_task(kernel, args.finalize_for_submit(), file, line);
}
template <size_t N>
static inline TaskOutputTensors rt_submit_aiv_task(int32_t kernel, CoreTaskArgsWithDeps<N>& args,
                                                   PTO_COMPAT_SITE) {
  return rt_submit_aiv_task(kernel, args.finalize_for_submit(), file, line);
}
template <size_t N>
static inline TaskOutputTensors rt_submit_dummy_task(CoreTaskArgsWithDeps<N>& args,
                                                     PTO_COMPAT_SITE) {
  return rt_submit_dummy_task(args.finalize_for_submit(), file, line);
}

// Runs a part of the orchestration that others cache; here it is a plain call.
template <class... Config, class... Given>
static inline void rt_submit_graph(void (*function)(const CoreTaskArgs&, Config...),
                                   const CoreTaskArgs& args, Given... config) {
  function(args, config...);
}

// Makes a tensor by its address; `version` is ignored.
static inline ChipTensor make_tensor_external(void* address, const uint32_t shape[], uint32_t ndims,
                                              DataType dtype = DataType::FLOAT32,
                                              bool manual_dep = false, int32_t = 0) {
  return pto::compat::Session::current().external(address, shape, ndims, dtype, manual_dep);
}

// Makes memory before any task; it belongs to the scope.
static inline TaskOutputTensors alloc_tensors(const CoreTaskArgs& args, PTO_COMPAT_SITE) {
  return pto::compat::Session::current().allocate(args, file, line);
}
static inline TaskOutputTensors alloc_tensors(const TensorCreateInfo infos[], uint32_t count,
                                              PTO_COMPAT_SITE) {
  CoreTaskArgs args;
  for (uint32_t k = 0; k < count; ++k) args.add_output(infos[k]);
  return alloc_tensors(args, file, line);
}
template <class... Infos>
static inline TaskOutputTensors alloc_tensors(const TensorCreateInfo& first,
                                              const Infos&... infos) {
  CoreTaskArgs args;
  args.add_output(first, infos...);
  return alloc_tensors(args);
}

#undef PTO_COMPAT_SITE

static inline void rt_scope_begin(ScopeMode mode = ScopeMode::AUTO) {
  pto::compat::Session::current().begin_scope(mode);
}
static inline void rt_scope_end() { pto::compat::Session::current().end_scope(); }

class ScopeGuard {
 public:
  explicit ScopeGuard(ScopeMode mode = ScopeMode::AUTO)
      : session_(pto::compat::Session::current()), depth_(session_.depth()) {
    session_.begin_scope(mode);
  }
  ~ScopeGuard() { session_.leave_scopes(depth_); }
  ScopeGuard(const ScopeGuard&) = delete;
  ScopeGuard& operator=(const ScopeGuard&) = delete;

 private:
  pto::compat::Session& session_;
  const size_t depth_;
};
#define PTO2_JOINED(a, b) a##b
#define PTO2_NAMED(a, b) PTO2_JOINED(a, b)
#define PTO2_SCOPE(...) if (ScopeGuard PTO2_NAMED(scope_guard_, __COUNTER__){__VA_ARGS__}; true)
#define PTO2_SCOPE_GUARD(...) \
  [[maybe_unused]] ScopeGuard PTO2_NAMED(scope_guard_, __COUNTER__) { __VA_ARGS__ }
#define SIMPLER_SCOPE(...) PTO2_SCOPE(__VA_ARGS__)
#define SIMPLER_SCOPE_GUARD(...) PTO2_SCOPE_GUARD(__VA_ARGS__)
using PTO2ScopeGuard = ScopeGuard;

static inline bool rt_is_fatal() { return pto::compat::Session::current().is_fatal(); }
__attribute__((format(printf, 2, 3))) static inline void rt_report_fatal(int32_t code,
                                                                         const char* format, ...) {
  char text[512];
  va_list list;
  va_start(list, format);
  std::vsnprintf(text, sizeof text, format, list);
  va_end(list);
  pto::compat::Session::current().report_fatal(code, text);
}

// Lets the workers run, in loops of the orchestration that wait for memory.
#define SPIN_WAIT_HINT() std::this_thread::yield()

// Returns the number of mixed tasks that may run at once, a cube core and two vector cores each.
static inline int32_t rt_available_cluster_count() {
  return int32_t(std::max(1u, std::thread::hardware_concurrency()));
}
static inline int32_t rt_available_aiv_count() { return 2 * rt_available_cluster_count(); }

// Reads an element, after the tasks that write it. Without T its bits, zero-extended.
template <class T = uint64_t>
static inline T get_tensor_data(const ChipTensor& tensor, uint32_t ndims,
                                const uint32_t indices[]) {
  auto& session = pto::compat::Session::current();
  if (session.is_fatal()) return T();
  const size_t size = get_element_size(tensor.dtype);
  if (!std::is_same<T, uint64_t>::value && sizeof(T) != size)
    pto::compat::refuse("get_tensor_data<T>(): the size of T is " + std::to_string(sizeof(T)) +
                            " bytes, that of an element is " + std::to_string(size),
                        "it returns the bytes of the element unchanged",
                        "use the element's type as T");
  const pto::View element = session.settled(tensor, ndims, indices, false);
  uint64_t bits = 0;
  std::memcpy(&bits, element.raw().data, size);
  T value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// Writes an element, after the tasks that read or write it.
template <class T = uint64_t>
static inline void set_tensor_data(const ChipTensor& tensor, uint32_t ndims,
                                   const uint32_t indices[], T value) {
  auto& session = pto::compat::Session::current();
  if (session.is_fatal()) return;
  const size_t size = get_element_size(tensor.dtype);
  if (!std::is_same<T, uint64_t>::value && sizeof(T) != size)
    pto::compat::refuse("set_tensor_data(): the size of the value is " + std::to_string(sizeof(T)) +
                            " bytes, that of an element is " + std::to_string(size),
                        "it writes the bytes of the value unchanged",
                        "pass a value of the element's type");
  const pto::View element = session.settled(tensor, ndims, indices, true);
  std::memcpy(element.raw().data, &value, size);
}
