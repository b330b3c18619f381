// SPDX-License-Identifier: Apache-2.0
// Runs a row of ours for a front (aten/fronts.hpp).
//
//     address = pto_torch_aten_runner(run, is_plain)   // run(index, slot, arguments)
//
// A call that is like none before goes to Python: run() returns (result, plan); slot is None for a
// call that asks for none. `result` is a tensor, a tuple of tensors, or NotImplemented where the
// row refuses. `plan` says how later calls of that slot with arguments of the same types, sizes and
// numbers run:
//   (bound call, places, outputs)   a call of abi/bound_call.h with the arguments at these places;
//       its results are new, or go to the arguments at the places of `outputs`
//   (program, names, places, constants)   program(name=the argument at this place, or the constant
//       where the place is -1), in Python
//   NotImplemented   the row refuses them;  Ellipsis   and all others with tensors of these types;
//   None   run() is asked again.
//
// No gradient is recorded meanwhile: PyTorch has recorded its own above.
// Invariant: plans are of calls that are_plain(), and of the newest runner; pto_torch_aten_forget()
// drops them all. What is Python's dies under Python's lock.
// Thread safety: any thread. Plans have a lock of their own, which nobody holds who waits for
// Python's; each thread finds those that it ran lately without it.
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/SmallVector.h>
#include <pthread.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/object_ptr.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "pto/abi/bound_call.h"
#include "pto/abi/limits.h"
#include "pto/adapters/torch/aten/fronts.hpp"
#include "pto/adapters/torch/call_key.hpp"
#include "pto/adapters/torch/dlpack_types.hpp"
#include "pto/bindings/python_lock.hpp"

namespace pto::torch_adapter::aten_fronts {
namespace {

// A plan that needs no Python.
struct BoundPlan {
  ~BoundPlan() { call->release(call); }
  const pto_bound_call* call = nullptr;
  std::vector<size_t> inputs, outputs;  // places among the arguments
  bool makes_results = false;
  std::vector<at::ScalarType> types;  // of the results
};

struct Plan {
  std::shared_ptr<const BoundPlan> bound;
  THPObjectPtr in_python;  // where there is no bound one; null: the row refuses
};

PyObject* run_in_python = nullptr;
int (*are_plain)() = nullptr;  // whether no mode of PyTorch does more with a call than run it

// The plans of each front.
struct Plans {
  std::mutex mutex;
  std::unordered_map<int32_t, Kept<Plan>> of;
  std::atomic<int64_t> forgotten{0};  // how many times all were dropped
};
Plans& plans() {
  static auto* const all = new Plans;  // it outlives Python
  return *all;
}

// A child of fork() finds the lock free.
[[maybe_unused]] const int forks = pthread_atfork(
    [] { plans().mutex.lock(); }, [] { plans().mutex.unlock(); }, [] { plans().mutex.unlock(); });

PyObject* object_of(const c10::IValue& value) {
  if (value.isNone()) return Py_NewRef(Py_None);
  if (value.isTensor()) return THPVariable_Wrap(value.toTensor());
  if (value.isBool()) return PyBool_FromLong(value.toBool());
  if (value.isInt()) return PyLong_FromLongLong(value.toInt());
  if (value.isDouble()) return PyFloat_FromDouble(value.toDouble());
  if (value.isString()) {
    const std::string& text = value.toStringRef();
    return PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
  }
  if (value.isComplexDouble()) {
    const auto number = value.toComplexDouble();
    return PyComplex_FromDoubles(number.real(), number.imag());
  }
  if (!value.isList()) return Py_NewRef(Py_NotImplemented);
  const auto items = value.toListRef();
  PyObject* const list = PyList_New(static_cast<Py_ssize_t>(items.size()));
  for (size_t i = 0; i < items.size(); ++i)
    PyList_SET_ITEM(list, static_cast<Py_ssize_t>(i), object_of(items[i]));
  return list;
}

// Makes a call as an earlier one like it was made. Null: Python's error.
PyObject* run_planned(PyObject* plan, const FrontCall& call) {
  PyObject* const names = PyTuple_GET_ITEM(plan, 1);
  PyObject* const places = PyTuple_GET_ITEM(plan, 2);
  PyObject* const constants = PyTuple_GET_ITEM(plan, 3);
  c10::SmallVector<THPObjectPtr, 8> held;
  c10::SmallVector<PyObject*, 8> values;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); ++i) {
    const long place = PyLong_AsLong(PyTuple_GET_ITEM(places, i));
    held.emplace_back(place < 0 ? Py_NewRef(PyTuple_GET_ITEM(constants, i))
                                : object_of(call.value(static_cast<size_t>(place))));
    // A compiled program takes a list of tensors as a tuple, as what it is compiled for.
    if (PyList_Check(held.back().get())) held.back() = PyList_AsTuple(held.back().get());
    values.push_back(held.back().get());
  }
  return PyObject_Vectorcall(PyTuple_GET_ITEM(plan, 0), values.data(), 0, names);
}

std::vector<size_t> numbers_of(PyObject* tuple) {
  std::vector<size_t> made;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i)
    made.push_back(PyLong_AsSize_t(PyTuple_GET_ITEM(tuple, i)));
  return made;
}

at::ScalarType type_of(const pto_tensor& tensor) {
  return at::toScalarType(DLDataType{tensor.type_code, tensor.type_bits, tensor.type_lanes});
}

// Reads what Python returned as a plan.
Plan plan_of(PyObject* plan) {
  if (plan == Py_NotImplemented || plan == Py_Ellipsis) return {};
  PyObject* const first = PyTuple_GET_ITEM(plan, 0);
  if (!PyCapsule_IsValid(first, PTO_BOUND_CALL_NAME))
    return {nullptr, THPObjectPtr(Py_NewRef(plan))};
  const auto* const call =
      static_cast<const pto_bound_call*>(PyCapsule_GetPointer(first, PTO_BOUND_CALL_NAME));
  auto made = std::make_shared<BoundPlan>();
  made->call = call->retain(call);
  made->inputs = numbers_of(PyTuple_GET_ITEM(plan, 1));
  PyObject* const outputs = PyTuple_GET_ITEM(plan, 2);
  made->makes_results = outputs == Py_None;
  if (!made->makes_results) made->outputs = numbers_of(outputs);
  for (int32_t i = 0; i < call->n_outputs; ++i)
    made->types.push_back(type_of(call->tensors[call->n_inputs + i]));
  return {std::move(made), {}};
}

// A new tensor in memory of the call's, which it gives back when it dies.
at::Tensor result_of(const pto_tensor& about, at::ScalarType type, void* memory,
                     const pto_bound_call& call) {
  const at::IntArrayRef sizes(about.sizes, static_cast<size_t>(about.rank));
  const auto bytes = static_cast<size_t>(c10::multiply_integers(sizes)) * c10::elementSize(type);
  c10::Storage storage(c10::Storage::use_byte_size_t(), bytes,
                       at::DataPtr(memory, memory, call.free, at::kCPU), c10::GetCPUAllocator(),
                       /*resizable=*/true);
  at::Tensor made = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU),
      c10::scalarTypeToTypeMeta(type));
  made.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
  return made;
}

// Makes the results, and writes where their elements go.
void make_results(const BoundPlan& plan, void** memory, FrontResults& results) {
  const pto_bound_call& call = *plan.call;
  for (int32_t i = 0; i < call.n_outputs; ++i) {
    const pto_tensor& about = call.tensors[call.n_inputs + i];
    memory[i] = call.allocate(static_cast<size_t>(std::max<int64_t>(about.extent_bytes, 1)));
    TORCH_CHECK_WITH(OutOfMemoryError, memory[i], "there is no memory for ", about.extent_bytes,
                     " bytes of a result");
    results.push_back(result_of(about, plan.types[static_cast<size_t>(i)], memory[i], call));
  }
}

// Makes a call as an earlier one like it was made, without Python.
void run_bound(const BoundPlan& plan, FrontCall& call) {
  std::array<void*, PTO_MAX_TENSORS> inputs;
  std::array<void*, PTO_MAX_BUFFERS> outputs;
  for (size_t i = 0; i < plan.inputs.size(); ++i)
    inputs[i] = const_cast<void*>(call.tensor(plan.inputs[i]).const_data_ptr());
  for (size_t i = 0; i < plan.outputs.size(); ++i)
    outputs[i] = call.tensor(plan.outputs[i]).mutable_data_ptr();
  if (plan.makes_results) make_results(plan, outputs.data(), call.results);
  TORCH_CHECK(plan.call->run(plan.call, inputs.data(), outputs.data()) == 0, plan.call->error());
}

// Asks Python for a call, and keeps the plan for those like it where there is a key. Null: Python's
// error.
PyObject* run_unknown(const FrontCall& call, const CallKey* key) {
  const int64_t before = plans().forgotten;
  THPObjectPtr values(PyTuple_New(static_cast<Py_ssize_t>(call.size())));
  for (size_t i = 0; i < call.size(); ++i)
    PyTuple_SET_ITEM(values.get(), static_cast<Py_ssize_t>(i), object_of(call.value(i)));
  PyObject* const slot =
      call.wish() == kAnySlot ? Py_NewRef(Py_None) : PyLong_FromLong(call.wish() - kFirstSlot);
  THPObjectPtr pair(PyObject_CallFunction(run_in_python, "iNO", call.index(), slot, values.get()));
  if (!pair) return nullptr;
  PyObject* const given = PyTuple_GET_ITEM(pair.get(), 1);
  if (key && given != Py_None) {
    Plan plan = plan_of(given);
    std::optional<Plan> dropped;  // dies without the lock: it may run Python's code
    const std::lock_guard lock(plans().mutex);
    if (before == plans().forgotten) {
      if (given == Py_Ellipsis) call.leave_type();
      dropped = plans().of[call.index()].keep(*key, std::move(plan));
    }
  }
  return Py_NewRef(PyTuple_GET_ITEM(pair.get(), 0));
}

// Takes what Python returned as results; false: it is none.
bool take(PyObject* made, FrontResults& results) {
  if (THPVariable_Check(made)) {
    results.push_back(THPVariable_Unpack(made));
    return true;
  }
  if (!PyTuple_Check(made)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(made); ++i)
    results.push_back(THPVariable_Unpack(PyTuple_GET_ITEM(made, i)));
  return true;
}

// Makes a call in Python, by the plan for its key (null: it has none) where there is one.
bool run_locked(FrontCall& call, const CallKey* key) {
  if (bindings::python_has_ended()) return false;
  const bindings::Locked locked;
  const c10::AutoGradMode without_gradients(false);
  // A kernel runs below views; a program that is called from outside does not expect that.
  const c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
  const c10::impl::ForceDispatchKeyGuard outside(
      keys.included_, keys.excluded_.remove(c10::DispatchKey::ADInplaceOrView));
  const bool may_plan = key && are_plain() != 0;
  THPObjectPtr plan;
  if (may_plan) {
    const std::lock_guard lock(plans().mutex);
    const Plan* const found = plans().of[call.index()].find(*key);
    if (found && found->in_python) plan = Py_NewRef(found->in_python.get());
  }
  THPObjectPtr made(plan ? run_planned(plan.get(), call)
                         : run_unknown(call, may_plan ? key : nullptr));
  if (!made) {
    python_error error;
    error.persist();
    throw error;
  }
  return take(made.get(), call.results);
}

// A plan without Python that the thread found lately.
struct Recent {
  bool is_of(std::span<const int64_t> other, int64_t now) const {
    return forgotten == now && std::ranges::equal(key, other);
  }
  CallKey key;
  int64_t forgotten = -1;                  // Plans::forgotten when it was found
  std::shared_ptr<const BoundPlan> bound;  // null: the row refuses
};

Recent& recent_of(std::span<const int64_t> key) {
  constexpr size_t kRecent = 64;  // of a thread
  static thread_local std::array<Recent, kRecent> all;
  uint64_t hash = 0, odd = 1;
  for (const int64_t word : key) {
    hash += static_cast<uint64_t>(word) * odd;
    odd += 0x9E3779B97F4A7C16u;  // stays odd
  }
  return all[hash >> 32 & (kRecent - 1)];
}

// Finds the plan of a call among those of all threads; false: it has none without Python.
bool find(const FrontCall& call, const CallKey& key, Recent* found) {
  const std::lock_guard lock(plans().mutex);
  const Plan* const plan = plans().of[call.index()].find(key);
  if (!plan || plan->in_python) return false;
  *found = {key, plans().forgotten, plan->bound};
  return true;
}

bool run(FrontCall& call) {
  const auto words = call.key();
  if (words.empty()) return run_locked(call, nullptr);
  Recent& recent = recent_of(words);
  if (!recent.is_of(words, plans().forgotten.load(std::memory_order_acquire))) {
    const CallKey key(words.begin(), words.end());
    if (!find(call, key, &recent)) return run_locked(call, &key);
  }
  if (recent.bound) run_bound(*recent.bound, call);
  return recent.bound != nullptr;
}

}  // namespace
}  // namespace pto::torch_adapter::aten_fronts

extern "C" void pto_torch_aten_forget() {
  using namespace pto::torch_adapter::aten_fronts;
  std::unordered_map<int32_t, pto::torch_adapter::Kept<Plan>> dropped;  // dies without the lock
  const std::lock_guard lock(plans().mutex);
  ++plans().forgotten;
  dropped.swap(plans().of);
}

extern "C" const void* pto_torch_aten_runner(PyObject* run, const void* is_plain) {
  using namespace pto::torch_adapter::aten_fronts;
  run_in_python = Py_NewRef(run);
  are_plain = reinterpret_cast<int (*)()>(const_cast<void*>(is_plain));
  pto_torch_aten_forget();
  const pto::torch_adapter::FrontRunner runner = &pto::torch_adapter::aten_fronts::run;
  return reinterpret_cast<const void*>(runner);
}
