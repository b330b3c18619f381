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
  if (PyDict_Check(owner)) return PyDict_GetItemWithError(owner, name);
  if (PyList_Check(owner)) {
    const Py_ssize_t index = PyLong_AsSsize_t(name);
    return index < PyList_GET_SIZE(owner) ? PyList_GET_ITEM(owner, index) : nullptr;
  }
  if (PyCell_Check(owner)) return PyCell_GET(owner);
  if (PyType_Check(owner))
    return _PyType_Lookup(reinterpret_cast<PyTypeObject*>(owner), name);  // runs no descriptor
  // An attribute of a function, or a slot of an object: the owner holds it, so it may be borrowed.
  const Ref value(PyObject_GenericGetAttr(owner, name));
  if (!value) PyErr_Clear();
  return value.get();
}

// Returns what a container holds, in a new tuple; null for any other owner.
PyObject* elements_of(PyObject* owner) {
  if (PyList_Check(owner)) return PyList_AsTuple(owner);
  if (PyAnySet_Check(owner)) return PySequence_Tuple(owner);
  if (!PyDict_Check(owner)) return nullptr;
  const Py_ssize_t count = PyDict_Size(owner);
  PyObject* const all = PyTuple_New(2 * count);
  PyObject *key, *value;
  Py_ssize_t at = 0, i = 0;
  while (all != nullptr && i < count && PyDict_Next(owner, &at, &key, &value)) {
    PyTuple_SET_ITEM(all, i, Py_NewRef(key));
    PyTuple_SET_ITEM(all, count + i++, Py_NewRef(value));
  }
  return all;
}

// Says whether `now` has the elements of the tuple `before`, as the same objects.
bool same_elements(PyObject* before, PyObject* now) {
  if (before == nullptr || !PyTuple_CheckExact(before) || !PyTuple_CheckExact(now)) return false;
  const Py_ssize_t count = PyTuple_GET_SIZE(now);
  if (PyTuple_GET_SIZE(before) != count) return false;
  for (Py_ssize_t i = 0; i < count; ++i)
    if (PyTuple_GET_ITEM(before, i) != PyTuple_GET_ITEM(now, i)) return false;
  return true;
}

// Says whether a value compares by content: a number, a text.
bool is_plain(PyObject* value) {
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

bool same_value(PyObject* a, PyObject* b, int depth = 0) {
  if (a == b) return true;
  if (a == nullptr || b == nullptr || Py_TYPE(a) != Py_TYPE(b)) return false;
  if (PyTuple_CheckExact(a)) {
    const Py_ssize_t count = PyTuple_GET_SIZE(a);
    if (depth == kMaxConstantDepth || PyTuple_GET_SIZE(b) != count) return false;
    for (Py_ssize_t i = 0; i < count; ++i)
      if (!same_value(PyTuple_GET_ITEM(a, i), PyTuple_GET_ITEM(b, i), depth + 1)) return false;
    return true;
  }
  if (is_plain(a)) return same_constant(a, b);
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

// Reads the bytes of an array, or the elements of a container, and keeps those of before where none
// has changed.
void Captures::read_contents(size_t place, PyObject* jit) {
  PyObject* const at = PyTuple_GET_ITEM(places_, static_cast<Py_ssize_t>(place));
  const Ref owner(Py_NewRef(PyTuple_GET_ITEM(at, 0)));
  PyObject* const before = contents_[place].get();
  Ref now(elements_of(owner.get()));
  Py_buffer view;
  if (!now && PyObject_CheckBuffer(owner.get()) &&
      PyObject_GetBuffer(owner.get(), &view, PyBUF_FULL_RO) == 0) {
    const bool same = before != nullptr && PyBytes_GET_SIZE(before) == view.len &&
                      PyBuffer_IsContiguous(&view, 'C') != 0 &&
                      std::memcmp(PyBytes_AS_STRING(before), view.buf, size_t(view.len)) == 0;
    if (!same) {
      now = Ref(PyBytes_FromStringAndSize(nullptr, view.len));
      if (now) PyBuffer_ToContiguous(PyBytes_AS_STRING(now.get()), &view, view.len, 'C');
    }
    PyBuffer_Release(&view);
    if (same) return;
  }
  PyErr_Clear();
  const uint64_t version = version_;
  if (!now) now = checked(PyObject_CallMethod(jit, "contents", "O", owner.get()));
  if (version != version_ || same_elements(before, now.get()) || same_value(before, now.get()))
    return;
  std::swap(contents_[place], now);
}

uint64_t Captures::key(PyObject* jit) {
  if (!linked_.empty() && links_changed()) refresh(jit);
  if (read_.empty()) return 0;
  const uint64_t version = version_;
  for (size_t i = 0; i < whole_.size(); ++i) {
    if (!left_out_[whole_[i]]) read_contents(whole_[i], jit);
    if (version != version_) return key(jit);
  }
  const bool known = last_ < rows_.size();
  bool same = known;
  for (size_t i = 0; i < read_.size(); ++i) {
    read_[i] = nullptr;
    if (left_out_[i]) continue;
    PyObject* const place = PyTuple_GET_ITEM(places_, static_cast<Py_ssize_t>(i));
    read_[i] = contents_[i] ? contents_[i].get() : value_at(place);
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
  PyObject *found = nullptr, *links = nullptr, *own = nullptr;
  if (!PyArg_ParseTuple(captured.get(), "O!O!|O!;captured() must return tuples", &PyTuple_Type,
                        &found, &PyTuple_Type, &links, &PyTuple_Type, &own))
    throw PythonError{};
  keep_links(links);
  ++version_;
  const bool same = places_ != nullptr && same_places(places_, found);
  const Ref before(std::exchange(places_, Py_NewRef(found)));
  if (same) {
    leave_out(own);
    return false;
  }
  const bool captured_nothing = read_.empty();
  first_key_ += rows_.size();
  std::vector<Row> old;
  std::swap(old, rows_);
  read_.assign(static_cast<size_t>(PyTuple_GET_SIZE(found)), nullptr);
  std::vector<Ref> contents(read_.size());
  std::swap(contents, contents_);
  whole_.clear();
  for (size_t i = 0; i < read_.size(); ++i)
    if (PyTuple_GET_ITEM(PyTuple_GET_ITEM(found, static_cast<Py_ssize_t>(i)), 1) == Py_None)
      whole_.push_back(i);
  last_ = 0;
  leave_out(own);
  for (Row& row : old) release(row);
  return !captured_nothing || !read_.empty();
}

// Values of these places are null in rows to come, and now in those that are: no row is told from
// another by them.
void Captures::leave_out(PyObject* own) {
  const Py_ssize_t count = PyTuple_GET_SIZE(places_);
  left_out_.assign(static_cast<size_t>(count), false);
  std::vector<PyObject*> old;
  for (Py_ssize_t i = 0; own != nullptr && i < count; ++i) {
    PyObject* const place = PyTuple_GET_ITEM(places_, i);
    const auto at = static_cast<size_t>(i);
    for (Py_ssize_t j = 0; j < PyTuple_GET_SIZE(own); ++j)
      if (PyTuple_GET_ITEM(own, j) == place) left_out_[at] = true;
    for (Row& row : rows_)
      if (left_out_[at]) old.push_back(std::exchange(row[at], nullptr));
  }
  release(old);
}

int Captures::visit(visitproc visit, void* arg) const {
  Py_VISIT(places_);
  Py_VISIT(links_);
  for (PyObject* value : linked_) Py_VISIT(value);
  for (const Ref& contents : contents_) Py_VISIT(contents.get());
  for (const Row& row : rows_)
    for (PyObject* value : row) Py_VISIT(value);
  return 0;
}

}  // namespace pto::bindings
