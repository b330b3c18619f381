// SPDX-License-Identifier: Apache-2.0
// The Python type pto._core.OperatorCall: a subclassable callable around an OperatorCall.
#include <Python.h>

#include <structmember.h>  // wants Python.h before it

#include "pto/bindings/module.hpp"
#include "pto/bindings/operator_call.hpp"
#include "pto/bindings/python_lock.hpp"
#include "pto/bindings/translated.hpp"
#include "pto/launch/kernel_table.hpp"

namespace nb = nanobind;

namespace pto::bindings {
namespace {

struct OperatorObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  OperatorCall* state;
};

OperatorObject* self_of(PyObject* object) { return reinterpret_cast<OperatorObject*>(object); }

// Calls self.call_otherwise(*args, **keywords) for what is no call on arrays.
PyObject* call_otherwise(PyObject* self, PyObject* const* args, size_t count, PyObject* keywords) {
  static PyObject* const name = PyUnicode_InternFromString("call_otherwise");
  const Ref method = checked(PyObject_GetAttr(self, name));
  return PyObject_Vectorcall(method.get(), args, count, keywords);
}

PyObject* vectorcall(PyObject* self, PyObject* const* args, size_t flags, PyObject* keywords) {
  return translated([&]() -> PyObject* {
    const Py_ssize_t count = PyVectorcall_NARGS(flags);
    if (OperatorCall* const state = self_of(self)->state; state != nullptr)
      if (PyObject* const result = state->call(args, count, keywords)) return result;
    return call_otherwise(self, args, static_cast<size_t>(count), keywords);
  });
}

PyObject* create(PyTypeObject* type, PyObject*, PyObject*) {
  PyObject* self = type->tp_alloc(type, 0);
  if (self != nullptr) self_of(self)->vectorcall = &vectorcall;
  return self;
}

// open(index, policy): makes calls run that operator of the registry.
PyObject* open(PyObject* self, PyObject* args) {
  return translated([&]() -> PyObject* {
    int index = 0;
    PyObject* policy = nullptr;
    if (!PyArg_ParseTuple(args, "iO", &index, &policy)) throw PythonError{};
    const pto_operator* const op = pto_operator_at(index);
    if (op == nullptr) {
      PyErr_Format(PyExc_IndexError, "there is no operator %d", index);
      throw PythonError{};
    }
    delete std::exchange(self_of(self)->state, nullptr);
    self_of(self)->state = new OperatorCall(*op, policy);
    Py_RETURN_NONE;
  });
}

void dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  delete std::exchange(self_of(self)->state, nullptr);
  type->tp_free(self);
  Py_DECREF(type);
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  return 0;
}

PyMethodDef kMethods[] = {
    {"open", &open, METH_VARARGS, "open(index, policy): calls run this operator from now on."},
    {nullptr, nullptr, 0, nullptr}};

PyMemberDef kMembers[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(OperatorObject, vectorcall), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

PyType_Slot kSlots[] = {{Py_tp_new, reinterpret_cast<void*>(&create)},
                        {Py_tp_dealloc, reinterpret_cast<void*>(&dealloc)},
                        {Py_tp_traverse, reinterpret_cast<void*>(&traverse)},
                        {Py_tp_call, reinterpret_cast<void*>(&PyVectorcall_Call)},
                        {Py_tp_methods, kMethods},
                        {Py_tp_members, kMembers},
                        {0, nullptr}};
PyType_Spec kSpec = {
    "pto._core.OperatorCall", sizeof(OperatorObject), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    kSlots};

// Releases Python's lock: the first thread makes a kernel with the lock held, so waiting threads
// must not hold it.
void* give_up_lock() {
  return Py_IsInitialized() && PyGILState_Check() ? PyEval_SaveThread() : nullptr;
}
void take_lock_again(void* given_up) {
  if (given_up != nullptr) take_python_lock(static_cast<PyThreadState*>(given_up));
}

}  // namespace

void bind_operator_call(nb::module_& m) {
  set_miss_hooks({give_up_lock, take_lock_again});
  nb::object type = nb::steal(PyType_FromSpec(&kSpec));
  if (!type.is_valid()) throw nb::python_error();
  m.attr("OperatorCall") = type;
}

}  // namespace pto::bindings
