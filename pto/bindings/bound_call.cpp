// SPDX-License-Identifier: Apache-2.0
// JitBinder::bound_call(): a program with the sizes and numbers of a call bound, as plain C
// (abi/bound_call.h).
#include <atomic>
#include <string>
#include <utility>

#include "pto/abi/bound_call.h"
#include "pto/abi/limits.h"
#include "pto/base/strided.hpp"
#include "pto/bindings/jit_binder.hpp"
#include "pto/bindings/python_lock.hpp"
#include "pto/launch/call.hpp"
#include "pto/launch/launch.hpp"

namespace pto::bindings {
namespace {

struct BoundCall final : pto_bound_call {
  BoundCall(std::shared_ptr<const Program> made, std::span<const pto_tensor_ref> inputs,
            std::span<const uint64_t> scalars, Kind kind);

  bool uses_torch_threads = false;  // for much work on torch tensors
  std::shared_ptr<const Program> program;
  Call call;
  std::vector<pto_tensor> described;
  mutable std::atomic<int> references{1};
};

const BoundCall& self_of(const pto_bound_call* call) {
  return *static_cast<const BoundCall*>(call);
}

int32_t run(const pto_bound_call* call, void* const* inputs, void* const* outputs) {
  const BoundCall& self = self_of(call);
  const std::span in(inputs, static_cast<size_t>(self.n_inputs));
  const std::span out(outputs, static_cast<size_t>(self.n_outputs));
  try {
    const auto call_it = [&] { self.call.run(in, out); };
    if (self.uses_torch_threads)
      run_on_torch_threads(call_it);
    else
      call_it();
  } catch (const std::exception& error) {
    set_last_error(error.what());
    return 1;
  }
  return 0;
}

const pto_bound_call* retain(const pto_bound_call* call) {
  self_of(call).references.fetch_add(1, std::memory_order_relaxed);
  return call;
}

void release(const pto_bound_call* call) {
  const BoundCall& self = self_of(call);
  if (self.references.fetch_sub(1, std::memory_order_acq_rel) == 1) delete &self;
}

BoundCall::BoundCall(std::shared_ptr<const Program> made, std::span<const pto_tensor_ref> inputs,
                     std::span<const uint64_t> scalars, Kind kind)
    : pto_bound_call{}, program(std::move(made)), call(*program, inputs, scalars) {
  int64_t bytes = 0;
  for (const auto& all : {call.inputs(), call.outputs()})
    for (pto_tensor one : all) {
      one.data = nullptr;
      described.push_back(one);
      bytes += one.extent_bytes;
    }
  uses_torch_threads = kind == Kind::Torch && bytes > kKeepLockBytes;
  n_inputs = static_cast<int32_t>(call.inputs().size());
  n_outputs = static_cast<int32_t>(call.outputs().size());
  tensors = described.data();
  pto_bound_call::run = &bindings::run;
  error = &pto_last_error;
  allocate = &pto_malloc;
  pto_bound_call::free = &pto_free;
  pto_bound_call::retain = &bindings::retain;
  pto_bound_call::release = &bindings::release;
}

bool is_dense(const pto_tensor_ref& tensor) {
  return is_contiguous(tensor.rank, tensor.sizes, tensor.strides);
}

void drop(PyObject* capsule) {
  const void* const call = PyCapsule_GetPointer(capsule, PTO_BOUND_CALL_NAME);
  release(static_cast<const pto_bound_call*>(call));
}

PyObject* capsule_of(std::unique_ptr<BoundCall> made) {
  PyObject* const capsule =
      PyCapsule_New(static_cast<pto_bound_call*>(made.get()), PTO_BOUND_CALL_NAME, &drop);
  if (capsule != nullptr) static_cast<void>(made.release());
  return capsule;
}

}  // namespace

PyObject* JitBinder::bound_call(const Passed& passed) {
  Bound bound;
  bind(passed, &bound);
  ArgumentReader reader(policy_, name_);
  try {
    sort(&reader, &bound);
    if (bound.traced || bound.out != nullptr || interprets_calls()) return Py_NewRef(Py_None);
    Signature signature;
    for (const pto_tensor_ref& tensor : reader.tensors()) signature.add(tensor);
    const Found found = find_or_steer(&signature, &bound);
    const ProgramSpec& spec = found.entry->program->spec();
    size_t written = 0;  // in place
    for (size_t i = 0; i < spec.outputs.size(); ++i)
      if (const int to = spec.outputs[i].writes; to >= 0)
        written += is_dense(reader.tensors()[static_cast<size_t>(to)]) &&
                   may_write_in_place(spec, i, reader.tensors());
    const bool is_plain =
        found.form == Py_None || found.form == reinterpret_cast<PyObject*>(&PyTuple_Type);
    const size_t wanted = is_plain ? 0 : spec.outputs.size();
    if (written != wanted || found.wants_copies || !spec.packed.empty()) return Py_NewRef(Py_None);
    uint64_t scalars[kMaxParameters];
    const size_t count = take_numbers(bound, scalars);
    return capsule_of(std::make_unique<BoundCall>(found.entry->program, reader.tensors(),
                                                  std::span<const uint64_t>(scalars, count),
                                                  reader.origin().kind));
  } catch (const ForLibrary&) {
  } catch (const Stepped&) {
  }
  return Py_NewRef(Py_None);
}

}  // namespace pto::bindings
