// SPDX-License-Identifier: Apache-2.0
// The Python type pto._core.Callable: a subclassable object whose calls a Binder runs.
#include "pto/bindings/callable.hpp"

#include <structmember.h>

#include "pto/bindings/jit_binder.hpp"
#include "pto/bindings/module.hpp"
#include "pto/bindings/owned_buffer.hpp"
#include "pto/bindings/python_lock.hpp"
#include "pto/bindings/results.hpp"
#include "pto/bindings/schema_binder.hpp"
#include "pto/bindings/translated.hpp"
#include "pto/bindings/weight_owners.hpp"
#include "pto/launch/host_lock.hpp"

namespace nb = nanobind;

namespace pto::bindings {

Parameters::~Parameters() {
  for (const Parameter& one : all_) {
    Py_DECREF(one.name);
    Py_XDECREF(one.stand_in);
  }
}

void Parameters::add(PyObject* name, PyObject* stand_in, bool is_required, bool by_name) {
  if (!by_name && by_place_ == size()) ++by_place_;
  if (PyUnicode_CompareWithASCIIString(name, "out") == 0) takes_out_ = false;
  all_.push_back({Py_NewRef(name), Py_XNewRef(stand_in), is_required});
}

bool Parameters::bind_keyword(PyObject* name, PyObject* value, PyObject** slots,
                              PyObject** out) const {
  for (size_t i = 0; i < all_.size(); ++i) {
    if (all_[i].name != name && PyUnicode_Compare(all_[i].name, name) != 0) continue;
    if (slots[i] != nullptr) return false;
    slots[i] = value;
    return true;
  }
  if (!takes_out_ || PyUnicode_CompareWithASCIIString(name, "out") != 0) return false;
  *out = value == Py_None ? nullptr : value;
  return true;
}

bool Parameters::bind(const Passed& passed, PyObject** slots, PyObject** out) const {
  const auto& [args, count, keywords] = passed;
  if (count > by_place_) return false;
  for (Py_ssize_t i = 0; i < size(); ++i) slots[i] = i < count ? args[i] : nullptr;
  for (Py_ssize_t i = 0; keywords != nullptr && i < PyTuple_GET_SIZE(keywords); ++i)
    if (!bind_keyword(PyTuple_GET_ITEM(keywords, i), args[count + i], slots, out)) return false;
  for (Py_ssize_t i = count; i < size(); ++i) {
    if (slots[i] != nullptr) continue;
    const Parameter& one = all_[static_cast<size_t>(i)];
    if (one.is_required) return false;
    slots[i] = one.stand_in;
  }
  return true;
}

int Parameters::visit(visitproc visit, void* arg) const {
  for (const Parameter& one : all_) Py_VISIT(one.stand_in);
  return 0;
}

namespace {

struct CallableObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  Binder* binder;
};

CallableObject* self_of(PyObject* object) { return reinterpret_cast<CallableObject*>(object); }

// Takes no call: those of an operator that is not in the registry yet.
class NoBinder final : public Binder {
 public:
  PyObject* call(const Passed&, const char** instead) override {
    *instead = "call_otherwise";
    return nullptr;
  }
};

Binder& binder_of(PyObject* self) {
  static NoBinder none;
  Binder* const binder = self_of(self)->binder;
  return binder != nullptr ? *binder : none;
}

PyObject* vectorcall(PyObject* self, PyObject* const* args, size_t flags, PyObject* keywords) {
  return translated([&]() -> PyObject* {
    const Passed passed{args, PyVectorcall_NARGS(flags), keywords};
    const char* instead = nullptr;
    PyObject* const result = binder_of(self).call(passed, &instead);
    if (result != nullptr) return result;
    const Ref method = checked(PyObject_GetAttrString(self, instead));
    return PyObject_Vectorcall(method.get(), args, static_cast<size_t>(passed.count), keywords);
  });
}

PyObject* describe(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* keywords) {
  return translated([&] { return binder_of(self).describe({args, count, keywords}); });
}

PyObject* bound_call(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* keywords) {
  return translated([&] { return binder_of(self).bound_call({args, count, keywords}); });
}

PyObject* forget_kernels(PyObject* self, PyObject*) {
  return translated([&] {
    binder_of(self).forget_kernels();
    return Py_NewRef(Py_None);
  });
}

PyObject* replace(PyObject* self, Binder* binder) {
  delete std::exchange(self_of(self)->binder, binder);
  return Py_NewRef(Py_None);
}

PyObject* bind_function(PyObject* self, PyObject* args) {
  return translated([&]() -> PyObject* {
    PyObject *name, *parameters, *defaults, *policy;
    int takes_object = 0, in_any_mode = 0;
    if (!PyArg_ParseTuple(args, "UO!O!O|pp", &name, &PyTuple_Type, &parameters, &PyTuple_Type,
                          &defaults, &policy, &takes_object, &in_any_mode))
      throw PythonError{};
    if (PyTuple_GET_SIZE(parameters) > JitBinder::kMaxParameters ||
        PyTuple_GET_SIZE(defaults) > PyTuple_GET_SIZE(parameters)) {
      PyErr_Format(PyExc_TypeError, "%U: a function has at most %d parameters", name,
                   JitBinder::kMaxParameters);
      throw PythonError{};
    }
    return replace(self, new JitBinder(self, name, parameters, defaults, policy, takes_object != 0,
                                       in_any_mode != 0));
  });
}

PyObject* bind_schema(PyObject* self, PyObject* args) {
  return translated([&]() -> PyObject* {
    int index = 0;
    PyObject* policy = nullptr;
    if (!PyArg_ParseTuple(args, "iO", &index, &policy)) throw PythonError{};
    const pto_operator* const op = pto_operator_at(index);
    if (op == nullptr) {
      PyErr_Format(PyExc_IndexError, "there is no operator %d", index);
      throw PythonError{};
    }
    return replace(self, new SchemaBinder(*op, policy));
  });
}

PyObject* create(PyTypeObject* type, PyObject*, PyObject*) {
  PyObject* self = type->tp_alloc(type, 0);
  if (self != nullptr) self_of(self)->vectorcall = &vectorcall;
  return self;
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  const Binder* const binder = self_of(self)->binder;
  return binder != nullptr ? binder->visit(visit, arg) : 0;
}

void dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  delete std::exchange(self_of(self)->binder, nullptr);
  type->tp_free(self);
  Py_DECREF(type);
}

PyMethodDef kMethods[] = {
    {"bind_function", &bind_function, METH_VARARGS,
     "bind_function(name, parameters, defaults, policy, takes_object=False, in_any_mode=False)"},
    {"bind_schema", &bind_schema, METH_VARARGS, "bind_schema(index, policy)"},
    {"describe_call", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&describe)),
     METH_FASTCALL | METH_KEYWORDS,
     "(tensors, constants, numbers): for each parameter (dtype, shape, stride class) or None, its "
     "value, and whether that is a number of the call."},
    {"bound_call", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&bound_call)),
     METH_FASTCALL | METH_KEYWORDS, "The call to be made again on other memory, or None."},
    {"forget_kernels", &forget_kernels, METH_NOARGS,
     "The next calls compile anew; calls in progress keep their kernels."},
    {nullptr, nullptr, 0, nullptr}};

PyMemberDef kMembers[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(CallableObject, vectorcall), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

PyType_Slot kSlots[] = {{Py_tp_new, reinterpret_cast<void*>(&create)},
                        {Py_tp_dealloc, reinterpret_cast<void*>(&dealloc)},
                        {Py_tp_traverse, reinterpret_cast<void*>(&traverse)},
                        {Py_tp_call, reinterpret_cast<void*>(&PyVectorcall_Call)},
                        {Py_tp_methods, kMethods},
                        {Py_tp_members, kMembers},
                        {0, nullptr}};
PyType_Spec kSpec = {
    "pto._core.Callable", sizeof(CallableObject), 0,
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

void bind_callable(nb::module_& m) {
  set_host_lock({give_up_lock, take_lock_again});
  nb::object type = nb::steal(PyType_FromSpec(&kSpec));
  if (!type.is_valid() || !prepare_owned_buffer()) throw nb::python_error();
  m.attr("Callable") = type;
  m.def(
      "set_torch_weight_owner",
      [](uintptr_t function) {
        set_torch_weight_owner(reinterpret_cast<TorchWeightOwner>(function));
      },
      nb::arg("function"), "Tells the owner of a tensor's memory: see bindings/weight_owners.hpp.");
  m.def(
      "set_torch_reader",
      [](uintptr_t function) { set_torch_reader(reinterpret_cast<TorchReader>(function)); },
      nb::arg("function"), "Reads tensors of PyTorch: see bindings/argument.hpp.");
  m.def(
      "set_torch_resizer",
      [](uintptr_t function) { set_torch_resizer(reinterpret_cast<TorchResizer>(function)); },
      nb::arg("function"), "Lets PyTorch resize results: see bindings/results.hpp.");
  m.def("interprets_calls", [] { return interprets_calls(); });
  m.def(
      "set_interprets_calls", [](bool yes) { interprets_calls() = yes; }, nb::arg("yes"),
      "Lets calls of jitted functions go to call_interpreted().");
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
