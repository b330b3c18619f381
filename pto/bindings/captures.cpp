// SPDX-License-Identifier: Apache-2.0
#include "pto/bindings/captures.hpp"

#include <cstring>

#include "pto/bindings/argument.hpp"
#include "pto/bindings/constants.hpp"

namespace pto::bindings {
namespace {

constexpr size_t kRowsMax = 64;

// Returns a borrowed reference to the value at a place, or null if there is none.
PyObject* value_at(PyObject* place) {
  PyObject* const owner = PyTuple_GET_ITEM(place, 0);
  PyObject* const name = PyTuple_GET_ITEM(place, 1);
  if (PyDict_CheckExact(owner)) return PyDict_GetItemWithError(owner, name);
  if (PyList_CheckExact(owner)) {
    const Py_ssize_t index = PyLong_AsSsize_t(name);
    return index < PyList_GET_SIZE(owner) ? PyList_GET_ITEM(owner, index) : nullptr;
  }
  if (PyCell_Check(owner)) return PyCell_GET(owner);
  return _PyType_Lookup(reinterpret_cast<PyTypeObject*>(owner), name);  // runs no descriptor
}

// Says whether values compare by content: numbers, texts, None, tuples of them.
bool is_plain(PyObject* value, int depth = 0) {
  if (PyTuple_CheckExact(value)) {
    if (depth == kMaxConstantDepth) return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); ++i)
      if (!is_plain(PyTuple_GET_ITEM(value, i), depth + 1)) return false;
    return true;
  }
  return PyLong_CheckExact(value) || PyFloat_CheckExact(value) || PyBool_Check(value) ||
         PyUnicode_CheckExact(value) || PyBytes_CheckExact(value);
}

// Compares NumPy scalars by their bytes.
bool same_bytes(PyObject* a, PyObject* b) {
  Py_buffer x, y;
  if (PyObject_GetBuffer(a, &x, PyBUF_SIMPLE) != 0) {
    PyErr_Clear();
    return false;
  }
  bool same = PyObject_GetBuffer(b, &y, PyBUF_SIMPLE) == 0;
  if (same) {
    same = x.len == y.len && x.len <= 32 && std::memcmp(x.buf, y.buf, size_t(x.len)) == 0;
    PyBuffer_Release(&y);
  } else {
    PyErr_Clear();
  }
  PyBuffer_Release(&x);
  return same;
}

bool same_value(PyObject* a, PyObject* b) {
  if (a == b) return true;
  if (a == nullptr || b == nullptr || Py_TYPE(a) != Py_TYPE(b)) return false;
  if (is_plain(a) && is_plain(b)) return same_constant(a, b);
  return PyObject_CheckBuffer(a) && same_bytes(a, b);
}

bool same_places(PyObject* a, PyObject* b) {
  if (a == nullptr || PyTuple_GET_SIZE(a) != PyTuple_GET_SIZE(b)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(a); ++i) {
    PyObject *x = PyTuple_GET_ITEM(a, i), *y = PyTuple_GET_ITEM(b, i);
    if (PyTuple_GET_ITEM(x, 0) != PyTuple_GET_ITEM(y, 0) ||
        !same_constant(PyTuple_GET_ITEM(x, 1), PyTuple_GET_ITEM(y, 1)))
      return false;
  }
  return true;
}

void release(std::vector<PyObject*>& row) {
  for (PyObject* value : row) Py_XDECREF(value);
}

}  // namespace

Captures::~Captures() {
  for (Row& row : rows_) release(row);
  release(linked_);
  Py_XDECREF(places_);
  Py_XDECREF(links_);
}

bool Captures::links_changed() const {
  for (size_t i = 0; i < linked_.size(); ++i)
    if (value_at(PyTuple_GET_ITEM(links_, static_cast<Py_ssize_t>(i))) != linked_[i]) return true;
  return false;
}

void Captures::keep_links(PyObject* links) {
  Row now(static_cast<size_t>(PyTuple_GET_SIZE(links)));
  for (size_t i = 0; i < now.size(); ++i)
    now[i] = Py_XNewRef(value_at(PyTuple_GET_ITEM(links, static_cast<Py_ssize_t>(i))));
  std::swap(linked_, now);
  const Ref before(std::exchange(links_, Py_NewRef(links)));
  release(now);
}

// Returns the bytes of an array: those of before where none has changed; the array where it shows
// none.
PyObject* Captures::bytes_of(size_t place, PyObject* array) {
  Py_buffer view;
  if (PyObject_GetBuffer(array, &view, PyBUF_FULL_RO) != 0) {
    PyErr_Clear();
    return array;
  }
  Ref now(PyBytes_FromStringAndSize(nullptr, view.len));
  const bool is_read =
      now && PyBuffer_ToContiguous(PyBytes_AS_STRING(now.get()), &view, view.len, 'C') == 0;
  PyBuffer_Release(&view);
  if (!is_read) {
    PyErr_Clear();
    return array;
  }
  bytes_.resize(read_.size());
  if (!same_value(bytes_[place].get(), now.get())) bytes_[place] = std::move(now);
  return bytes_[place].get();
}

uint64_t Captures::key(PyObject* jit) {
  if (!linked_.empty() && links_changed()) refresh(jit);
  if (read_.empty()) return 0;
  const bool known = last_ < rows_.size();
  bool same = known;
  for (size_t i = 0; i < read_.size(); ++i) {
    PyObject* const place = PyTuple_GET_ITEM(places_, static_cast<Py_ssize_t>(i));
    const bool is_array = PyTuple_GET_ITEM(place, 1) == Py_None;
    read_[i] = is_array ? bytes_of(i, PyTuple_GET_ITEM(place, 0)) : value_at(place);
    same = same && read_[i] == rows_[last_][i];
  }
  return same ? first_key_ + last_ : key_of_changed();
}

// Finds a row with equal values in other objects; it then keeps the new objects, which are found at
// once next time.
uint64_t Captures::key_of_changed() {
  for (PyObject* value : read_) Py_XINCREF(value);
  for (last_ = 0; last_ < rows_.size(); ++last_) {
    bool same = true;
    for (size_t i = 0; same && i < read_.size(); ++i) same = same_value(rows_[last_][i], read_[i]);
    if (same) break;
  }
  std::vector<Row> old;
  if (last_ == kRowsMax) {  // a counter, or an array of each step: what was is forgotten
    std::swap(old, rows_);
    first_key_ += std::exchange(last_, 0);
  }
  if (last_ == rows_.size()) rows_.emplace_back(read_.size(), nullptr);
  std::swap(rows_[last_], read_);
  old.push_back(read_);
  for (Row& row : old) release(row);
  return first_key_ + last_;
}

bool Captures::refresh(PyObject* jit) {
  const Ref captured = checked(PyObject_CallMethod(jit, "captured", nullptr));
  PyObject *found = nullptr, *links = nullptr;
  if (!PyArg_ParseTuple(captured.get(), "O!O!;captured() must return two tuples", &PyTuple_Type,
                        &found, &PyTuple_Type, &links))
    throw PythonError{};
  keep_links(links);
  Ref places(Py_NewRef(found));
  if (same_places(places_, places.get())) return false;
  const bool captured_nothing = read_.empty();
  first_key_ += rows_.size();
  std::vector<Row> old;
  std::swap(old, rows_);
  read_.assign(static_cast<size_t>(PyTuple_GET_SIZE(places.get())), nullptr);
  bytes_.clear();
  last_ = 0;
  Ref before(std::exchange(places_, places.release()));
  for (Row& row : old) release(row);
  return !captured_nothing || !read_.empty();
}

int Captures::visit(visitproc visit, void* arg) const {
  Py_VISIT(places_);
  Py_VISIT(links_);
  for (PyObject* value : linked_) Py_VISIT(value);
  for (const Row& row : rows_)
    for (PyObject* value : row) Py_VISIT(value);
  return 0;
}

}  // namespace pto::bindings
