// SPDX-License-Identifier: Apache-2.0
// Runs a row of ours for a front (aten/fronts.hpp): hands its arguments to Python.
//
//     address = pto_torch_aten_runner(run)     // run(index, arguments) -> tensor or NotImplemented
//
// No gradient is recorded meanwhile: PyTorch has recorded its own above.
// Thread safety: any thread; it takes Python's lock.
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>

#include <string>

#include "pto/bindings/python_lock.hpp"

namespace pto::torch_adapter::aten_fronts {
namespace {

PyObject* run_in_python = nullptr;

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

bool run(int32_t index, torch::jit::Stack& stack) {
  if (bindings::python_has_ended()) return false;
  const bindings::Locked locked;
  const c10::AutoGradMode without_gradients(false);
  // A kernel runs below views; a program that is called from outside does not expect that.
  const c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
  const c10::impl::ForceDispatchKeyGuard outside(
      keys.included_, keys.excluded_.remove(c10::DispatchKey::ADInplaceOrView));
  PyObject* const values = PyTuple_New(static_cast<Py_ssize_t>(stack.size()));
  for (size_t i = 0; i < stack.size(); ++i)
    PyTuple_SET_ITEM(values, static_cast<Py_ssize_t>(i), object_of(stack[i]));
  PyObject* const made = PyObject_CallFunction(run_in_python, "iO", index, values);
  Py_DECREF(values);
  if (!made) {
    python_error error;
    error.persist();
    throw error;
  }
  const bool is_taken = THPVariable_Check(made);
  if (is_taken) stack = {c10::IValue(THPVariable_Unpack(made))};
  Py_DECREF(made);
  return is_taken;
}

}  // namespace
}  // namespace pto::torch_adapter::aten_fronts

extern "C" const void* pto_torch_aten_runner(PyObject* run) {
  using namespace pto::torch_adapter::aten_fronts;
  run_in_python = Py_NewRef(run);
  return reinterpret_cast<const void*>(&pto::torch_adapter::aten_fronts::run);
}
