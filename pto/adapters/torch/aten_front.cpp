// SPDX-License-Identifier: Apache-2.0
// Runs a row of ours for a front (aten/fronts.hpp): hands its arguments to Python.
//
//     address = pto_torch_aten_runner(run, is_plain)   // run(index, slot, arguments)
//
// run() returns (result, plan); slot is None for a call that asks for none. `result` is a tensor, a
// tuple of tensors, or NotImplemented where the row refuses. `plan` says how later calls of that
// slot with arguments of the same types, sizes and numbers run: (program, names, places, constants)
// calls program(name=argument at this place, or the constant where the place is -1); NotImplemented
// refuses them; None asks `run` again.
//
// No gradient is recorded meanwhile: PyTorch has recorded its own above.
// Invariant: plans are of calls that are_plain(), and of the newest runner; pto_torch_aten_forget()
// drops them all.
// Thread safety: any thread; it takes Python's lock, which guards the plans.
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/SmallVector.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/object_ptr.h>

#include <bit>
#include <cstring>
#include <map>
#include <string>
#include <utility>

#include "pto/adapters/torch/aten/fronts.hpp"
#include "pto/adapters/torch/call_key.hpp"
#include "pto/adapters/torch/plain_keys.hpp"
#include "pto/bindings/python_lock.hpp"

namespace pto::torch_adapter::aten_fronts {
namespace {

PyObject* run_in_python = nullptr;
int (*are_plain)() = nullptr;  // whether no mode of PyTorch does more with a call than run it

using Plans = std::map<int32_t, Kept<THPObjectPtr>>;  // of each front
Plans& plans() {
  static auto* const all = new Plans;  // it outlives Python
  return *all;
}
int64_t forgotten = 0;  // how many times all plans were dropped

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

bool add(const c10::IValue& value, CallKey& key);

bool add_members(const c10::IValue& list, CallKey& key) {
  const auto items = list.toListRef();
  key.insert(key.end(), {'l', static_cast<int64_t>(items.size())});
  for (const c10::IValue& item : items)
    if (!add(item, key)) return false;
  return true;
}

void add_text(const std::string& text, CallKey& key) {
  key.insert(key.end(), {'s', static_cast<int64_t>(text.size())});
  const size_t begin = key.size();
  key.resize(begin + (text.size() + sizeof key[0] - 1) / sizeof key[0]);
  std::memcpy(key.data() + begin, text.data(), text.size());
}

// Adds type and layout; false: a tensor that no plan takes.
bool add_tensor(const at::Tensor& tensor, CallKey& key) {
  key.push_back(tensor.requires_grad() ? 'g' : 't');
  if (!has_plain_keys(tensor) || tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides())
    return false;
  add_layout(tensor, key);
  return true;
}

// Adds a tensor by its layout, anything else by its value; false: a call with it has no key.
bool add(const c10::IValue& value, CallKey& key) {
  if (value.isTensor()) return add_tensor(value.toTensor(), key);
  if (value.isNone())
    key.push_back('n');
  else if (value.isBool())
    key.insert(key.end(), {'b', value.toBool()});
  else if (value.isInt())
    key.insert(key.end(), {'i', value.toInt()});
  else if (value.isDouble())
    key.insert(key.end(), {'d', std::bit_cast<int64_t>(value.toDouble())});
  else if (value.isString())
    add_text(value.toStringRef(), key);
  else
    return value.isList() && add_members(value, key);
  return true;
}

bool add_all(const Stack& stack, CallKey& key) {
  for (const c10::IValue& value : stack)
    if (!add(value, key)) return false;
  return true;
}

// Makes a call as an earlier one like it was made. Null: Python's error.
PyObject* run_planned(PyObject* plan, const Stack& stack) {
  PyObject* const names = PyTuple_GET_ITEM(plan, 1);
  PyObject* const places = PyTuple_GET_ITEM(plan, 2);
  PyObject* const constants = PyTuple_GET_ITEM(plan, 3);
  c10::SmallVector<THPObjectPtr, 8> held;
  c10::SmallVector<PyObject*, 8> values;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); ++i) {
    const long place = PyLong_AsLong(PyTuple_GET_ITEM(places, i));
    held.emplace_back(place < 0 ? Py_NewRef(PyTuple_GET_ITEM(constants, i))
                                : object_of(stack[static_cast<size_t>(place)]));
    // A compiled program takes a list of tensors as a tuple, as what it is compiled for.
    if (PyList_Check(held.back().get())) held.back() = PyList_AsTuple(held.back().get());
    values.push_back(held.back().get());
  }
  return PyObject_Vectorcall(PyTuple_GET_ITEM(plan, 0), values.data(), 0, names);
}

// Asks Python for a call, and keeps the plan for those like it where there is a key. Null: Python's
// error.
PyObject* run_unknown(int32_t index, Wish wish, const Stack& stack, CallKey* key) {
  const int64_t before = forgotten;
  THPObjectPtr values(PyTuple_New(static_cast<Py_ssize_t>(stack.size())));
  for (size_t i = 0; i < stack.size(); ++i)
    PyTuple_SET_ITEM(values.get(), static_cast<Py_ssize_t>(i), object_of(stack[i]));
  PyObject* const slot = wish == kAnySlot ? Py_NewRef(Py_None) : PyLong_FromLong(wish - kFirstSlot);
  THPObjectPtr pair(PyObject_CallFunction(run_in_python, "iNO", index, slot, values.get()));
  if (!pair) return nullptr;
  PyObject* const plan = PyTuple_GET_ITEM(pair.get(), 1);
  if (key && plan != Py_None && before == forgotten)
    plans()[index].keep(std::move(*key), THPObjectPtr(Py_NewRef(plan)));
  return Py_NewRef(PyTuple_GET_ITEM(pair.get(), 0));
}

// Puts what Python returned into the stack; false: it is no result.
bool take(PyObject* made, Stack& stack) {
  if (THPVariable_Check(made)) {
    stack = {c10::IValue(THPVariable_Unpack(made))};
    return true;
  }
  if (!PyTuple_Check(made)) return false;
  stack.clear();
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(made); ++i)
    stack.emplace_back(THPVariable_Unpack(PyTuple_GET_ITEM(made, i)));
  return true;
}

bool run(int32_t index, Wish wish, Stack& stack) {
  if (bindings::python_has_ended()) return false;
  const bindings::Locked locked;
  const c10::AutoGradMode without_gradients(false);
  // A kernel runs below views; a program that is called from outside does not expect that.
  const c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
  const c10::impl::ForceDispatchKeyGuard outside(
      keys.included_, keys.excluded_.remove(c10::DispatchKey::ADInplaceOrView));
  CallKey key = {wish};
  const bool has_key = are_plain() != 0 && add_all(stack, key);
  THPObjectPtr* const plan = has_key ? plans()[index].find(key) : nullptr;
  if (plan && plan->get() == Py_NotImplemented) return false;
  THPObjectPtr held(plan ? Py_NewRef(plan->get()) : nullptr);
  THPObjectPtr made(plan ? run_planned(held.get(), stack)
                         : run_unknown(index, wish, stack, has_key ? &key : nullptr));
  if (!made) {
    python_error error;
    error.persist();
    throw error;
  }
  return take(made.get(), stack);
}

}  // namespace
}  // namespace pto::torch_adapter::aten_fronts

extern "C" void pto_torch_aten_forget() {
  using namespace pto::torch_adapter::aten_fronts;
  ++forgotten;
  const auto dropped = std::exchange(plans(), {});  // a program that dies may run Python's code
}

extern "C" const void* pto_torch_aten_runner(PyObject* run, const void* is_plain) {
  using namespace pto::torch_adapter::aten_fronts;
  run_in_python = Py_NewRef(run);
  are_plain = reinterpret_cast<int (*)()>(const_cast<void*>(is_plain));
  pto_torch_aten_forget();
  const pto::torch_adapter::FrontRunner runner = &pto::torch_adapter::aten_fronts::run;
  return reinterpret_cast<const void*>(runner);
}
