// SPDX-License-Identifier: Apache-2.0
#include "pto/bindings/argument.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <unordered_map>

#include "pto/abi/limits.h"
#include "pto/base/meeting.hpp"
#include "pto/base/strided.hpp"

namespace pto::bindings {
namespace {

TorchReader torch_reader = nullptr;

PyObject* interned(const char* text) { return PyUnicode_InternFromString(text); }

const dlpack::ExchangeApi* exchange_api(PyTypeObject* type) {
  Ref capsule(
      PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "__dlpack_c_exchange_api__"));
  void* pointer = capsule ? PyCapsule_GetPointer(capsule.get(), "dlpack_exchange_api") : nullptr;
  auto* api = static_cast<const dlpack::ExchangeApi*>(pointer);
  while (api != nullptr && api->version.major > 1) api = api->previous;
  if (api == nullptr || api->borrow_from_python == nullptr) {
    PyErr_Clear();
    return nullptr;
  }
  return api;
}

TypeRecord classified(PyTypeObject* type, PyObject* policy) {
  Ref number = checked(PyObject_CallMethod(policy, "classify", "O", type));
  auto kind = static_cast<Kind>(PyLong_AsLong(number.get()));
  const dlpack::ExchangeApi* api = nullptr;
  if (kind == Kind::Torch || kind == Kind::Exchange) {
    api = exchange_api(type);
    if (api == nullptr) kind = Kind::Dlpack;
  }
  return {kind, api};
}

// Maps struct-module codes of native numbers; the size tells integers of the same letter apart.
std::optional<DType> dtype_of_format(const char* format, Py_ssize_t bytes) {
  if (format == nullptr) return DType::U8;
  if (*format == '@' || *format == '=' || *format == '<') ++format;
  if (format[0] == '\0' || format[1] != '\0') return std::nullopt;
  uint8_t bits = static_cast<uint8_t>(bytes * 8);
  if (*format == '?') return DType::Bool;
  if (std::strchr("efd", *format) != nullptr) return from_dlpack(2, bits);
  if (std::strchr("bhilqn", *format) != nullptr) return from_dlpack(0, bits);
  if (std::strchr("BHILQN", *format) != nullptr) return from_dlpack(1, bits);
  return std::nullopt;
}

// Reads `object.name`, or calls it where it is a method without arguments. It calls the functions
// behind PyTorch's descriptors itself: Python's way to them takes half of the time.
bool is_true(PyObject* object, PyObject* name) {
  PyObject* const found = _PyType_Lookup(Py_TYPE(object), name);
  if (found != nullptr && Py_IS_TYPE(found, &PyGetSetDescr_Type)) {
    const PyGetSetDef* const getter = reinterpret_cast<PyGetSetDescrObject*>(found)->d_getset;
    return checked(getter->get(object, getter->closure)).get() == Py_True;
  }
  if (found != nullptr && Py_IS_TYPE(found, &PyMethodDescr_Type)) {
    const PyMethodDef* const method = reinterpret_cast<PyMethodDescrObject*>(found)->d_method;
    if (method->ml_flags == METH_NOARGS)
      return checked(method->ml_meth(object, nullptr)).get() == Py_True;
  }
  const Ref value = checked(PyObject_GetAttr(object, name));
  if (PyCallable_Check(value.get()) == 0) return value.get() == Py_True;
  return checked(PyObject_CallNoArgs(value.get())).get() == Py_True;
}

}  // namespace

void set_torch_reader(TorchReader reader) { torch_reader = reader; }

ArgumentReader::~ArgumentReader() {
  for (int i = 0; i < buffer_count_; ++i) PyBuffer_Release(&buffers_[i]);
  for (int i = 0; i < kept_count_; ++i) Py_DECREF(kept_[i]);
}

TypeRecord ArgumentReader::record(PyObject* object) const {
  // Keeps the few types alive, so that a new type never takes the address of an old one.
  static auto* records = new std::unordered_map<PyTypeObject*, TypeRecord>;
  PyTypeObject* type = Py_TYPE(object);
  auto found = records->find(type);
  if (found != records->end()) return found->second;
  TypeRecord made = classified(type, policy_);
  if (records->emplace(type, made).second) Py_INCREF(type);
  return made;
}

bool ArgumentReader::has_adapter(PyObject* object) const {
  const Ref name = checked(PyObject_CallMethod(policy_, "adapter", "O", Py_TYPE(object)));
  return PyObject_IsTrue(name.get()) == 1;
}

void ArgumentReader::refuse(PyObject* name, PyObject* value, const char* reason,
                            const char* detail) const {
  Ref cause;
  if (PyErr_Occurred()) {
    PyObject *type, *error, *trace;
    PyErr_Fetch(&type, &error, &trace);
    cause = Ref(error != nullptr ? PyObject_Str(error) : nullptr);
    Py_XDECREF(type), Py_XDECREF(error), Py_XDECREF(trace);
    PyErr_Clear();
  }
  if (!cause) cause = checked(PyUnicode_FromString(detail));
  Ref none = checked(
      PyObject_CallMethod(policy_, "refuse", "OOOsO", function_, name, value, reason, cause.get()));
  PyErr_SetString(PyExc_SystemError, "pto: an argument was refused without a text");
  throw PythonError{};
}

void ArgumentReader::read(PyObject* object, PyObject* name, TypeRecord record, bool writable) {
  if (count_ == PTO_MAX_TENSORS) refuse(name, object, "too many");
  if (count_ == 0) {
    origin_ = record;
    first_ = object;
  } else if (!same_library(record)) {
    refuse(name, object, "mixed libraries", Py_TYPE(first_)->tp_name);
  }
  if (record.kind == Kind::Torch) {
    read_torch(object, name, record.api);
  } else if (record.api != nullptr) {
    read_exchange(object, name, record.api);
  } else if (record.kind == Kind::Numpy || record.kind == Kind::NumpyNumber) {
    read_buffer(object, name, writable);
  } else {
    read_capsule(object, name, writable);
  }
  finish(name, object);
}

PyObject* out_label() {
  static PyObject* const label = interned("out");
  return label;
}

void ArgumentReader::read_targets(PyObject* arrays, size_t count, PyObject* out,
                                  const ArgumentReader& inputs) {
  if (static_cast<size_t>(PyTuple_GET_SIZE(arrays)) != count)
    refuse(out_label(), out, "out count", std::to_string(count).c_str());
  for (size_t i = 0; i < count; ++i) {
    PyObject* const target = PyTuple_GET_ITEM(arrays, static_cast<Py_ssize_t>(i));
    const TypeRecord kind = record(target);
    if (!inputs.same_library(kind))
      refuse(out_label(), target, "mixed libraries", Py_TYPE(inputs.first())->tp_name);
    read(target, out_label(), kind, true);
  }
}

void ArgumentReader::check_target(const pto_tensor_ref& target, PyObject* name, PyObject* object,
                                  std::span<const pto_tensor_ref> others,
                                  const std::function<std::string(size_t)>& name_of) const {
  if (!is_injective(target.rank, target.sizes, target.strides)) refuse(name, object, "out shared");
  for (size_t i = 0; i < others.size(); ++i) {
    if (!may_meet(target, others[i])) continue;
    const auto [here, there] = bytes_of_both(target, others[i]);
    const std::string detail =
        name_of(i) + ", of whose memory it has the bytes " + here + ", and that has " + there;
    refuse(name, object, "out overlap", detail.c_str());
  }
}

bool ArgumentReader::may_write(size_t tensor) const {
  if (origin_.api != nullptr) return true;
  return origin_.kind == Kind::Numpy && buffers_[tensor].readonly == 0;
}

void ArgumentReader::check_torch(PyObject* object) const {
  static PyObject* const requires_grad = interned("requires_grad");
  static PyObject* const is_neg = interned("is_neg");
  if (is_true(object, requires_grad)) {
    Ref enabled = checked(PyObject_CallMethod(policy_, "grad_enabled", nullptr));
    if (enabled.get() == Py_True) throw ForLibrary{};
  }
  if (is_true(object, is_neg)) throw ForLibrary{};
  static PyObject* const forward_mode =
      checked(PyObject_CallMethod(policy_, "forward_mode", nullptr)).release();
  PyObject* const level = PyDict_GetItemString(forward_mode, "_current_level");
  if (level == nullptr || PyLong_AsLong(level) < 0) return;
  Ref has_tangent = checked(PyObject_CallMethod(policy_, "has_tangent", "O", object));
  if (has_tangent.get() == Py_True) throw ForLibrary{};
}

void ArgumentReader::read_torch(PyObject* object, PyObject* name, const dlpack::ExchangeApi* api) {
  if (torch_reader != nullptr && torch_reader(object, &tensors_[count_]) != 0) return;
  check_torch(object);
  read_exchange(object, name, api);
}

void ArgumentReader::read_exchange(PyObject* object, PyObject* name,
                                   const dlpack::ExchangeApi* api) {
  dlpack::Tensor tensor{};
  if (api->borrow_from_python(object, &tensor) != 0) {
    if (origin_.kind != Kind::Torch) refuse(name, object, "unreadable");
    PyErr_Clear();
    throw ForLibrary{};
  }
  take(tensor, name, object);
}

void ArgumentReader::take(const dlpack::Tensor& tensor, PyObject* name, PyObject* object) {
  if (tensor.device_type != dlpack::kCpu && tensor.device_type != dlpack::kCudaHost) {
    if (origin_.kind == Kind::Torch) throw ForLibrary{};
    refuse(name, object, "device");
  }
  auto dtype = from_dlpack(tensor.type_code, tensor.type_bits, tensor.type_lanes);
  if (!dtype) refuse(name, object, "dtype");
  if (tensor.rank > PTO_MAX_RANK) refuse(name, object, "rank");
  const int64_t* strides = tensor.strides;
  if (strides == nullptr) {
    dense_strides(tensor.rank, tensor.sizes, strides_[count_]);
    strides = strides_[count_];
  }
  tensors_[count_] = {static_cast<char*>(tensor.data) + tensor.byte_offset, tensor.sizes, strides,
                      tensor.rank, static_cast<int32_t>(*dtype)};
}

void ArgumentReader::read_buffer(PyObject* object, PyObject* name, bool writable) {
  Py_buffer& view = buffers_[buffer_count_];
  PyObject* source = object;
  std::optional<DType> dtype;
  int flags = writable ? PyBUF_RECORDS : PyBUF_RECORDS_RO;
  if (PyObject_GetBuffer(source, &view, flags) != 0) {
    PyErr_Clear();
    if (writable && PyObject_GetBuffer(source, &view, PyBUF_RECORDS_RO) == 0) {
      ++buffer_count_;
      refuse(name, object, "read-only");
    }
    PyErr_Clear();
    Ref pair = checked(PyObject_CallMethod(policy_, "convert", "O", object));
    if (pair.get() == Py_None) refuse(name, object, "dtype");
    source = PyTuple_GetItem(pair.get(), 0);
    const char* type_name = PyUnicode_AsUTF8(PyTuple_GetItem(pair.get(), 1));
    if (source == nullptr || type_name == nullptr) throw PythonError{};
    dtype = parse_dtype(type_name);
    if (PyObject_GetBuffer(source, &view, flags) != 0) refuse(name, object, "unreadable");
  }
  ++buffer_count_;
  if (!dtype) dtype = dtype_of_format(view.format, view.itemsize);
  if (!dtype) refuse(name, object, "dtype");
  if (view.ndim > PTO_MAX_RANK) refuse(name, object, "rank");
  for (int axis = 0; axis < view.ndim; ++axis) {
    sizes_[count_][axis] = view.shape[axis];
    strides_[count_][axis] = view.strides[axis] / view.itemsize;
    if (view.strides[axis] % view.itemsize != 0 && view.shape[axis] > 1)
      refuse(name, object, "alignment");
  }
  tensors_[count_] = {view.buf, sizes_[count_], strides_[count_], view.ndim,
                      static_cast<int32_t>(*dtype)};
}

void ArgumentReader::read_capsule(PyObject* object, PyObject* name, bool writable) {
  Ref capsule(PyObject_CallMethod(policy_, "export_dlpack", "O", object));
  if (!capsule) refuse(name, object, "unreadable");
  const dlpack::Tensor* tensor = nullptr;
  if (PyCapsule_IsValid(capsule.get(), "dltensor_versioned")) {
    void* managed = PyCapsule_GetPointer(capsule.get(), "dltensor_versioned");
    auto* versioned = static_cast<dlpack::ManagedVersioned*>(managed);
    if (versioned->version.major == 1) tensor = &versioned->tensor;
    if (tensor != nullptr && writable && (versioned->flags & dlpack::kReadOnly) != 0)
      refuse(name, object, "read-only");
  } else if (PyCapsule_IsValid(capsule.get(), "dltensor")) {
    tensor =
        &static_cast<dlpack::Managed*>(PyCapsule_GetPointer(capsule.get(), "dltensor"))->tensor;
  }
  if (tensor == nullptr) refuse(name, object, "unreadable", "an unknown version of DLPack");
  keep(capsule.release());
  take(*tensor, name, object);
}

void ArgumentReader::finish(PyObject* name, PyObject* object) {
  const pto_tensor_ref& tensor = tensors_[count_];
  bool empty = false;
  for (int axis = 0; axis < tensor.rank; ++axis) empty |= tensor.sizes[axis] == 0;
  if (!empty) {
    const bool is_torch = origin_.kind == Kind::Torch;
    if (tensor.data == nullptr && is_torch) throw ForLibrary{};
    if (tensor.data == nullptr) refuse(name, object, "no memory");
    if (!is_aligned(tensor.data, dtype_of(tensor)) && is_torch) throw ForLibrary{};
    if (!is_aligned(tensor.data, dtype_of(tensor))) refuse(name, object, "alignment");
  }
  ++count_;
}

}  // namespace pto::bindings
