// SPDX-License-Identifier: Apache-2.0
#include "pto/bindings/owned_buffer.hpp"

#include <algorithm>
#include <memory>

#include "pto/abi/limits.h"
#include "pto/bindings/python_lock.hpp"

namespace pto::bindings {
namespace {

struct OwnedBuffer {
  PyObject_HEAD void* data;
  DType dtype;
  Py_ssize_t rank, bytes;
  Py_ssize_t sizes[PTO_MAX_RANK], strides[PTO_MAX_RANK];  // in bytes
};

PyTypeObject* owned_buffer_type = nullptr;

OwnedBuffer* buffer_of(PyObject* object) { return reinterpret_cast<OwnedBuffer*>(object); }

void free_buffer(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  pto_free(buffer_of(self)->data);
  type->tp_free(self);
  Py_DECREF(type);
}

int get_buffer(PyObject* self, Py_buffer* view, int) {
  OwnedBuffer* owner = buffer_of(self);
  *view = {};
  view->obj = Py_NewRef(self);
  view->buf = owner->data;
  view->len = owner->bytes;
  view->itemsize = bytes(owner->dtype);
  view->ndim = static_cast<int>(owner->rank);
  view->format = const_cast<char*>(buffer_format(owner->dtype));
  view->shape = owner->sizes;
  view->strides = owner->strides;
  return 0;
}

// A DLPack tensor that keeps the buffer alive; `Managed` is dlpack's, with or without a version.
template <class Managed>
struct Exported {
  Managed managed{};
  PyObject* owner;
  int64_t sizes[PTO_MAX_RANK], strides[PTO_MAX_RANK];

  explicit Exported(PyObject* self) : owner(Py_NewRef(self)) {
    const OwnedBuffer& buffer = *buffer_of(self);
    const DLPackType type = dlpack_type(buffer.dtype);
    for (Py_ssize_t axis = 0; axis < buffer.rank; ++axis) {
      sizes[axis] = buffer.sizes[axis];
      strides[axis] = buffer.strides[axis] / bytes(buffer.dtype);
    }
    managed.context = this;
    managed.deleter = &remove;
    managed.tensor = {
        buffer.data, dlpack::kCpu, 0, static_cast<int32_t>(buffer.rank), type.code, type.bits, 1,
        sizes,       strides,      0};
  }

  static void remove(Managed* managed) {
    const std::unique_ptr<Exported> self(static_cast<Exported*>(managed->context));
    if (python_has_ended()) return;  // the process ends, with the memory
    const Locked locked;
    Py_DECREF(self->owner);
  }

  // Deletes a capsule that nobody consumed; a consumer renames it.
  static void drop(PyObject* capsule) {
    const char* name = PyCapsule_GetName(capsule);
    if (name == nullptr || std::string_view(name).starts_with("used_")) return;
    auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
    managed->deleter(managed);
  }

  static PyObject* capsule(PyObject* self, const char* name) {
    auto exported = std::make_unique<Exported>(self);
    if constexpr (requires { exported->managed.version; }) exported->managed.version = {1, 0};
    PyObject* made = PyCapsule_New(&exported->managed, name, &drop);
    if (made == nullptr) {
      Py_DECREF(self);
    } else {
      static_cast<void>(exported.release());
    }
    return made;
  }
};

PyObject* dlpack(PyObject* self, PyObject* args, PyObject* keywords) {
  static const char* kNames[] = {"stream", "max_version", "dl_device", "copy", nullptr};
  PyObject *stream = nullptr, *version = nullptr, *device = nullptr, *copy = nullptr;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "|$OOOO", const_cast<char**>(kNames), &stream,
                                   &version, &device, &copy))
    return nullptr;
  if (copy == Py_True) {
    PyErr_SetString(PyExc_BufferError, "pto: a result is not copied; pass copy=None or False");
    return nullptr;
  }
  long major = 0;
  if (version != nullptr && PyTuple_Check(version) && PyTuple_GET_SIZE(version) == 2)
    major = PyLong_AsLong(PyTuple_GET_ITEM(version, 0));
  if (PyErr_Occurred()) return nullptr;
  return major >= 1 ? Exported<dlpack::ManagedVersioned>::capsule(self, "dltensor_versioned")
                    : Exported<dlpack::Managed>::capsule(self, "dltensor");
}

PyObject* dlpack_device(PyObject*, PyObject*) { return Py_BuildValue("ii", dlpack::kCpu, 0); }

PyMethodDef kBufferMethods[] = {
    {"__dlpack__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&dlpack)),
     METH_VARARGS | METH_KEYWORDS, "The memory as a DLPack capsule."},
    {"__dlpack_device__", &dlpack_device, METH_NOARGS, "(1, 0): the CPU."},
    {nullptr, nullptr, 0, nullptr}};

PyType_Slot kBufferSlots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(&free_buffer)},
                              {Py_bf_getbuffer, reinterpret_cast<void*>(&get_buffer)},
                              {Py_tp_methods, kBufferMethods},
                              {0, nullptr}};
PyType_Spec kBufferSpec = {"pto._core.OwnedBuffer", sizeof(OwnedBuffer), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, kBufferSlots};

}  // namespace

Ref owned_buffer(const pto_tensor_ref& tensor) {
  PyObject* made = owned_buffer_type->tp_alloc(owned_buffer_type, 0);
  if (made == nullptr) pto_free(tensor.data);
  Ref owner = checked(made);
  OwnedBuffer& buffer = *buffer_of(made);
  buffer.data = tensor.data;
  buffer.dtype = dtype_of(tensor);
  buffer.rank = tensor.rank;
  buffer.bytes = bytes(buffer.dtype);
  for (int axis = tensor.rank; axis-- > 0;) {
    buffer.sizes[axis] = tensor.sizes[axis];
    buffer.strides[axis] = buffer.bytes;
    buffer.bytes *= tensor.sizes[axis];
  }
  return owner;
}

bool prepare_owned_buffer() {
  owned_buffer_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&kBufferSpec));
  return owned_buffer_type != nullptr;
}

}  // namespace pto::bindings
