// SPDX-License-Identifier: Apache-2.0
#include "pto/bindings/operator_arguments.hpp"

#include <cstring>
#include <string_view>

namespace pto::bindings {
namespace {

// Returns the items of a list or tuple; none for other objects.
std::span<PyObject* const> items(PyObject* object) {
  if (!PyList_Check(object) && !PyTuple_Check(object)) return {};
  return {PySequence_Fast_ITEMS(object), static_cast<size_t>(PySequence_Fast_GET_SIZE(object))};
}

bool is_list(PyObject* object) { return PyList_Check(object) || PyTuple_Check(object); }

bool failed() {
  if (PyErr_Occurred() == nullptr) return false;
  PyErr_Clear();  // call_otherwise words what is wrong
  return true;
}

bool integer_from(PyObject* object, int64_t* value) {
  if (PyBool_Check(object) || PyFloat_Check(object)) return false;
  const Ref number(PyNumber_Index(object));
  if (number) *value = PyLong_AsLongLong(number.get());
  return !failed();
}

bool boolean_from(PyObject* object, int64_t* value) {
  const std::string_view type = Py_TYPE(object)->tp_name;
  if (!PyBool_Check(object) && type != "numpy.bool" && type != "numpy.bool_") return false;
  *value = PyObject_IsTrue(object);
  return !failed();
}

}  // namespace

bool OperatorArguments::add(int index, PyObject* object, PyObject* name) {
  const pto_operator_argument& argument = op_.arguments[index];
  const bool is_optional = (argument.flags & PTO_ARGUMENT_OPTIONAL) != 0;
  if (argument.kind <= PTO_KIND_TENSOR_LIST) {
    if (object == Py_None && is_optional) object = nullptr;
    return (object != nullptr || is_optional) && add_tensors(index, object, name);
  }
  pto_operator_value& value = attributes_[n_attributes_++];
  value.count = 0;
  if (object == nullptr) {
    value = *argument.default_value;
    return true;
  }
  if (object == Py_None) {
    value.count = -1;
    return is_optional;
  }
  if (argument.kind == PTO_KIND_INT_LIST) return add_integers(argument, object, &value);
  return add_attribute(argument.kind, object, &value);
}

bool OperatorArguments::add_tensors(int index, PyObject* object, PyObject* name) {
  places_[index] = tensors();
  const bool wants_list = op_.arguments[index].kind == PTO_KIND_TENSOR_LIST;
  if (object != nullptr && wants_list != is_list(object)) return false;
  if (object != nullptr && wants_list) {
    for (PyObject* item : items(object))
      if (!add_tensor(item, name, false)) return false;
  } else if (object != nullptr) {
    const bool writable = (op_.arguments[index].flags & PTO_ARGUMENT_MUTABLE) != 0;
    if (!add_tensor(object, name, writable)) return false;
  }
  counts_[n_counts_++] = tensors() - places_[index];
  return true;
}

bool OperatorArguments::add_tensor(PyObject* object, PyObject* name, bool writable) {
  const TypeRecord record = reader_.record(object);
  const bool is_numpy = record.kind == Kind::Numpy || record.kind == Kind::NumpyNumber;
  if (!is_numpy && record.kind != Kind::Dlpack && record.kind != Kind::Exchange) return false;
  if (!is_numpy && reader_.has_adapter(object)) return false;
  reader_.read(object, name, record, writable);
  return true;
}

bool OperatorArguments::add_attribute(int kind, PyObject* object, pto_operator_value* value) {
  switch (kind) {
    case PTO_KIND_BOOL:
      return boolean_from(object, &value->integer);
    case PTO_KIND_FLOAT:
      value->real = PyFloat_AsDouble(object);
      return !failed();
    case PTO_KIND_STRING: {
      Py_ssize_t bytes = 0;
      value->text = PyUnicode_Check(object) ? PyUnicode_AsUTF8AndSize(object, &bytes) : nullptr;
      value->count = bytes;
      return value->text != nullptr && !failed();
    }
    default:
      return integer_from(object, &value->integer);
  }
}

bool OperatorArguments::add_integers(const pto_operator_argument& argument, PyObject* object,
                                     pto_operator_value* value) {
  std::vector<int64_t>& list = integers_.emplace_front();
  const auto wanted = static_cast<size_t>(argument.list_size);
  if (is_list(object)) {
    for (PyObject* item : items(object))
      if (!integer_from(item, &list.emplace_back())) return false;
  } else {  // one number for all
    int64_t number = 0;
    if (wanted == 0 || !integer_from(object, &number)) return false;
    list.assign(wanted, number);
  }
  value->integers = list.data();
  value->count = static_cast<int64_t>(list.size());
  return wanted == 0 || list.size() == wanted;
}

void OperatorArguments::describe(pto_operator_call* call) {
  call->tensors = reader_.tensors().data();
  call->counts = counts_.data();
  call->attributes = attributes_.data();
}

}  // namespace pto::bindings
