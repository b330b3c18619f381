// SPDX-License-Identifier: Apache-2.0
#include "pto/bindings/owned_buffer.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "pto/abi/limits.h"
#include "pto/base/error_message.hpp"
#include "pto/base/strided.hpp"
#include "pto/bindings/python_lock.hpp"
#include "pto/bindings/translated.hpp"

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

// Sets a Python error; `what`, `why` and `fix` are texts.
void refuse(PyObject* type, const std::string& what, const char* why, const char* fix) {
  PyErr_SetString(type, error_message("pto: " + what, why, fix).c_str());
}

// True, with a Python error set, where the memory cannot be exported under these flags.
bool is_refused(const Py_buffer& view, int flags) {
  const auto asks = [flags](int wanted) { return (flags & wanted) == wanted; };
  if (asks(PyBUF_F_CONTIGUOUS) && PyBuffer_IsContiguous(&view, 'F') == 0) {
    refuse(PyExc_BufferError,
           "a result of " + std::to_string(view.ndim) +
               " axes was asked for in column-major order, but it is row-major",
           "PyBUF_F_CONTIGUOUS asks for memory whose first axis is the fastest",
           "ask for PyBUF_STRIDES or PyBUF_C_CONTIGUOUS, or copy with numpy.asfortranarray()");
    return true;
  }
  if (asks(PyBUF_FORMAT) && !asks(PyBUF_ND)) {
    refuse(PyExc_BufferError, "a result was asked for as plain bytes, with the format of elements",
           "PyBUF_SIMPLE means unsigned bytes without a shape, which have no other format",
           "ask for PyBUF_ND too, or leave PyBUF_FORMAT away");
    return true;
  }
  return false;
}

// Answers each request in full; what was not asked for is null, as the protocol wants it.
int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  OwnedBuffer* owner = buffer_of(self);
  *view = {};
  view->buf = owner->data;
  view->len = owner->bytes;
  view->itemsize = bytes(owner->dtype);
  view->ndim = static_cast<int>(owner->rank);
  view->format = const_cast<char*>(buffer_format(owner->dtype));
  view->shape = owner->sizes;
  view->strides = owner->strides;
  if (is_refused(*view, flags)) return -1;
  if ((flags & PyBUF_FORMAT) == 0) view->format = nullptr;
  const bool has_axes = view->ndim > 0;
  if ((flags & PyBUF_ND) == 0) view->ndim = 1;  // bytes
  if (!has_axes || (flags & PyBUF_ND) == 0) view->shape = nullptr;
  if (!has_axes || (flags & PyBUF_STRIDES) != PyBUF_STRIDES) view->strides = nullptr;
  view->obj = Py_NewRef(self);
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

  static PyObject* capsule(PyObject* self, const char* name, bool is_copied) {
    auto exported = std::make_unique<Exported>(self);
    if constexpr (requires { exported->managed.version; }) {
      exported->managed.version = {1, 0};
      exported->managed.flags = is_copied ? dlpack::kIsCopied : 0;
    }
    PyObject* made = PyCapsule_New(&exported->managed, name, &drop);
    if (made == nullptr) {
      Py_DECREF(self);
    } else {
      static_cast<void>(exported.release());
    }
    return made;
  }
};

using Pair = std::pair<long, long>;

// Returns an argument of two integers, such as (1, 0); nothing for None.
std::optional<Pair> pair_of(const char* name, PyObject* argument) {
  if (argument == nullptr || argument == Py_None) return std::nullopt;
  Pair pair{-1, -1};
  const bool is_pair = PyTuple_Check(argument) && PyTuple_GET_SIZE(argument) == 2;
  int overflow = 0;  // -1 then, or the largest number: no device and the newest version
  if (is_pair) pair.first = PyLong_AsLongAndOverflow(PyTuple_GET_ITEM(argument, 0), &overflow);
  if (overflow > 0) pair.first = std::numeric_limits<long>::max();
  if (is_pair && !PyErr_Occurred())
    pair.second = PyLong_AsLongAndOverflow(PyTuple_GET_ITEM(argument, 1), &overflow);
  if (is_pair && !PyErr_Occurred()) return pair;
  PyErr_Clear();
  const Ref text = checked(PyObject_Repr(argument));
  const char* const found = PyUnicode_AsUTF8(text.get());
  if (found == nullptr) throw PythonError{};
  refuse(PyExc_TypeError, std::string("__dlpack__(") + name + "=" + found + ")",
         "it is a tuple of two integers, or None", "pass one such as (1, 0)");
  throw PythonError{};
}

// Throws PythonError where the memory is not on the device that the consumer asks for.
void check_device(std::optional<Pair> device, PyObject* stream) {
  if (device && *device != Pair{dlpack::kCpu, 0}) {
    refuse(PyExc_BufferError,
           "__dlpack__(dl_device=(" + std::to_string(device->first) + ", " +
               std::to_string(device->second) + ")), but a result lies on device (1, 0), the CPU",
           "pto copies results to no other device",
           "leave dl_device away, and copy the array with the library of that device");
    throw PythonError{};
  }
  if (stream != nullptr && stream != Py_None) {
    refuse(PyExc_BufferError, "__dlpack__(stream=...) of a result, which lies on the CPU",
           "the CPU has no streams: a result is complete when it is there", "pass stream=None");
    throw PythonError{};
  }
}

// Returns another buffer with the same elements.
Ref copy_of(const OwnedBuffer& buffer) {
  const auto size = static_cast<size_t>(buffer.bytes);
  void* const memory = pto_malloc(std::max<size_t>(size, 1));
  if (memory == nullptr) throw std::bad_alloc();
  std::memcpy(memory, buffer.data, size);
  int64_t sizes[PTO_MAX_RANK];
  std::copy_n(buffer.sizes, buffer.rank, sizes);
  return owned_buffer({memory, sizes, nullptr, static_cast<int32_t>(buffer.rank),
                       static_cast<int32_t>(buffer.dtype)});
}

PyObject* dlpack(PyObject* self, PyObject* args, PyObject* keywords) {
  static const char* kNames[] = {"stream", "max_version", "dl_device", "copy", nullptr};
  PyObject *stream = nullptr, *version = nullptr, *device = nullptr, *copy = nullptr;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "|$OOOO", const_cast<char**>(kNames), &stream,
                                   &version, &device, &copy))
    return nullptr;
  return translated([&] {
    check_device(pair_of("dl_device", device), stream);
    const std::optional<Pair> newest = pair_of("max_version", version);
    const int copies = copy == nullptr || copy == Py_None ? 0 : PyObject_IsTrue(copy);
    if (copies < 0) throw PythonError{};
    const Ref owner = copies ? copy_of(*buffer_of(self)) : Ref(Py_NewRef(self));
    return newest && newest->first >= 1
               ? Exported<dlpack::ManagedVersioned>::capsule(owner.get(), "dltensor_versioned",
                                                             copies != 0)
               : Exported<dlpack::Managed>::capsule(owner.get(), "dltensor", copies != 0);
  });
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
  buffer.bytes = element_bytes(tensor);
  int64_t steps[PTO_MAX_RANK];
  dense_strides(tensor.rank, tensor.sizes, steps);
  for (int axis = 0; axis < tensor.rank; ++axis) {
    buffer.sizes[axis] = tensor.sizes[axis];
    calculate(DimOp::Mul, steps[axis], bytes(buffer.dtype), &steps[axis]);  // wraps, where empty
    buffer.strides[axis] = steps[axis];
  }
  return owner;
}

bool prepare_owned_buffer() {
  owned_buffer_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&kBufferSpec));
  return owned_buffer_type != nullptr;
}

}  // namespace pto::bindings
