// SPDX-License-Identifier: Apache-2.0
// The Python type pto._core.FastCall: a subclassable callable around a FastCall.
#include <Python.h>

#include <structmember.h>  // wants Python.h before it

#include "pto/bindings/fast_call.hpp"
#include "pto/bindings/module.hpp"
#include "pto/bindings/owned_buffer.hpp"
#include "pto/bindings/translated.hpp"

namespace nb = nanobind;

namespace pto::bindings {
namespace {

struct FastCallObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  FastCall* state;
};

FastCall* state_of(PyObject* self) {
  FastCall* state = reinterpret_cast<FastCallObject*>(self)->state;
  if (state == nullptr) {
    PyErr_SetString(PyExc_RuntimeError, "FastCall.__init__ was not called");
    throw PythonError{};
  }
  return state;
}

PyObject* vectorcall(PyObject* self, PyObject* const* args, size_t flags, PyObject* keywords) {
  return translated(
      [&] { return state_of(self)->call(args, PyVectorcall_NARGS(flags), keywords); });
}

PyObject* describe(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* keywords) {
  return translated([&] { return state_of(self)->describe(args, count, keywords); });
}

PyObject* take_object(PyObject* self, PyObject*) {
  return translated([&] {
    state_of(self)->take_object();
    return Py_NewRef(Py_None);
  });
}

PyObject* create(PyTypeObject* type, PyObject*, PyObject*) {
  PyObject* self = type->tp_alloc(type, 0);
  if (self != nullptr) reinterpret_cast<FastCallObject*>(self)->vectorcall = &vectorcall;
  return self;
}

int initialise(PyObject* self, PyObject* args, PyObject*) {
  PyObject *name, *parameters, *defaults, *policy;
  if (!PyArg_ParseTuple(args, "UO!O!O", &name, &PyTuple_Type, &parameters, &PyTuple_Type, &defaults,
                        &policy))
    return -1;
  if (PyTuple_GET_SIZE(parameters) > FastCall::kMaxParameters ||
      PyTuple_GET_SIZE(defaults) > PyTuple_GET_SIZE(parameters)) {
    PyErr_Format(PyExc_TypeError, "%U: a function has at most %d parameters", name,
                 FastCall::kMaxParameters);
    return -1;
  }
  auto* object = reinterpret_cast<FastCallObject*>(self);
  delete std::exchange(object->state, nullptr);
  object->state = new FastCall(self, name, parameters, defaults, policy);
  return 0;
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  FastCall* state = reinterpret_cast<FastCallObject*>(self)->state;
  return state != nullptr ? state->visit(visit, arg) : 0;
}

void dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  delete std::exchange(reinterpret_cast<FastCallObject*>(self)->state, nullptr);
  type->tp_free(self);
  Py_DECREF(type);
}

PyMethodDef kMethods[] = {
    {"describe_call", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&describe)),
     METH_FASTCALL | METH_KEYWORDS,
     "(tensors, constants, numbers): for each parameter (dtype, shape, stride class) or None, its "
     "value, and whether that is a number of the call."},
    {"take_object", &take_object, METH_NOARGS,
     "The first parameter may be the object of a method: a constant, of which state(object) is "
     "the key."},
    {nullptr, nullptr, 0, nullptr}};

PyMemberDef kMembers[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(FastCallObject, vectorcall), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

PyType_Slot kSlots[] = {{Py_tp_new, reinterpret_cast<void*>(&create)},
                        {Py_tp_init, reinterpret_cast<void*>(&initialise)},
                        {Py_tp_dealloc, reinterpret_cast<void*>(&dealloc)},
                        {Py_tp_traverse, reinterpret_cast<void*>(&traverse)},
                        {Py_tp_call, reinterpret_cast<void*>(&PyVectorcall_Call)},
                        {Py_tp_methods, kMethods},
                        {Py_tp_members, kMembers},
                        {0, nullptr}};
PyType_Spec kSpec = {
    "pto._core.FastCall", sizeof(FastCallObject), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    kSlots};

}  // namespace

void bind_fast_call(nb::module_& m) {
  nb::object type = nb::steal(PyType_FromSpec(&kSpec));
  if (!type.is_valid() || !prepare_owned_buffer()) throw nb::python_error();
  m.attr("FastCall") = type;
  m.def(
      "set_torch_executor",
      [](uintptr_t run, uintptr_t threads, uintptr_t is_plain) {
        torch_executor() = {reinterpret_cast<ParallelFor>(run),
                            reinterpret_cast<int (*)()>(threads),
                            reinterpret_cast<int (*)()>(is_plain)};
      },
      nb::arg("parallel_for"), nb::arg("num_threads"), nb::arg("is_plain") = 0,
      "Addresses of C functions for calls on torch tensors: a loop (see launch/pool.hpp; 0: our "
      "pool), PyTorch's present number of threads (0: our own setting), and whether PyTorch would "
      "do no more with a call than run the kernel (0: always).");
}

}  // namespace pto::bindings
