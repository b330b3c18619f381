// SPDX-License-Identifier: Apache-2.0
#include "pto/bindings/weight_owners.hpp"

#include <atomic>
#include <unordered_map>

namespace pto::bindings {
namespace {

TorchWeightOwner torch_owner = nullptr;

// Stands for an array of NumPy: another array at its address gets another one.
struct Token {
  PyObject* array;
  PyObject* reference = nullptr;  // weak; tells when the array dies
  std::atomic<int> holders{1};
  std::atomic<bool> is_alive{true};
};

void hold(void* token) { ++static_cast<Token*>(token)->holders; }
void release(void* token) {
  if (--static_cast<Token*>(token)->holders == 0) delete static_cast<Token*>(token);
}
int32_t is_alive(void* token) { return static_cast<Token*>(token)->is_alive.load(); }

std::unordered_map<PyObject*, Token*>& tokens() {
  static auto* const tokens = new std::unordered_map<PyObject*, Token*>;
  return *tokens;
}

// Called with the weak reference when the array dies.
PyObject* forget(PyObject* capsule, PyObject*) {
  auto* const token = static_cast<Token*>(PyCapsule_GetPointer(capsule, nullptr));
  token->is_alive = false;
  tokens().erase(token->array);
  Py_CLEAR(token->reference);
  release(token);
  Py_RETURN_NONE;
}

// Null where the array can have no weak reference.
Token* token_of(PyObject* array) {
  static PyMethodDef method = {"forget", &forget, METH_O, nullptr};
  const auto known = tokens().find(array);
  if (known != tokens().end()) return known->second;
  auto* const token = new Token{array};
  const Ref capsule(PyCapsule_New(token, nullptr, nullptr));
  const Ref callback(capsule ? PyCFunction_New(&method, capsule.get()) : nullptr);
  token->reference = callback ? PyWeakref_NewRef(array, callback.get()) : nullptr;
  if (!token->reference) {
    PyErr_Clear();
    delete token;
    return nullptr;
  }
  return tokens()[array] = token;
}

// Returns the array whose memory this one shows.
Ref owning_array(PyObject* array) {
  static PyObject* const base = PyUnicode_InternFromString("base");
  Ref found(Py_NewRef(array));
  for (;;) {
    Ref next(PyObject_GetAttr(found.get(), base));
    if (!next) PyErr_Clear();
    const bool is_array = next && PyObject_TypeCheck(next.get(), Py_TYPE(array));
    if (!is_array) return found;
    found = std::move(next);
  }
}

}  // namespace

void set_torch_weight_owner(TorchWeightOwner function) { torch_owner = function; }

bool weight_owner(PyObject* array, Kind kind, pto_weight_owner* owner) {
  if (kind == Kind::Torch) return torch_owner && torch_owner(array, owner) != 0;
  if (kind != Kind::Numpy) return false;
  Token* const token = token_of(owning_array(array).get());
  if (!token) return false;
  *owner = {token, 0, &hold, &release, &is_alive};
  return true;
}

}  // namespace pto::bindings
