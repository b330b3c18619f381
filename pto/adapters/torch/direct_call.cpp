// SPDX-License-Identifier: Apache-2.0
// DirectCall: a call of an operator from Python that goes straight to the kernel.
//
//     torch.ops.pto.gelu.default(x, approximate="tanh")
//
// PyTorch's own callable matches the arguments with the schema in its interpreter and walks the
// dispatch keys, which costs more than a small kernel. Both can be left out where PyTorch would
// only run the kernel: tensors in memory of the processor that no gradient is asked of, and no
// mode, transform, autocast, tracing or profiler. All else goes to PyTorch's callable, and a call
// that fails here is made there once more: results and errors are always PyTorch's.
// direct.py makes it the `__call__` of an operator's class. It is a library of its own, since only
// it needs Python's headers.
// Thread safety: any thread that holds Python's lock; the kernel runs without it.
#include <torch/csrc/autograd/python_variable.h>

#include <bit>
#include <exception>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "pto/adapters/operator.hpp"
#include "pto/adapters/torch/callable_type.hpp"
#include "pto/adapters/torch/plain_tensor.hpp"
#include "pto/adapters/torch/shim.hpp"
#include "pto/bindings/python_lock.hpp"

namespace pto::torch_adapter {
namespace {

// Functions of ops.cpp and eager.cpp, which lie in another library.
using Run = void (*)(int32_t index, Boxed* stack, pto_operator_site* site);
using IsPlain = int (*)();

constexpr size_t kSites = 8;  // of one operator; calls with further attributes have none

// The site of calls with these attributes, null for those that were not given and for tensors.
struct KeptSite {
  std::vector<PyObject*> attributes;
  pto_operator_site* site;
};

struct DirectCall {
  PyObject_HEAD PyObject* original;
  const pto_operator* op;
  PyObject** names;  // of its arguments, interned
  std::vector<KeptSite>* sites;
  Run run;
  IsPlain is_plain;
};

// Says whether PyTorch would do nothing for this tensor but run the kernel.
bool is_plain(PyObject* value) {
  return THPVariable_CheckExact(value) && is_plain_tensor(THPVariable_Unpack(value));
}

bool is_integer(PyObject* value) {
  int overflow = 0;
  if (!PyLong_CheckExact(value)) return false;
  PyLong_AsLongLongAndOverflow(value, &overflow);
  return overflow == 0;
}

bool are_integers(PyObject* value) {
  if (!PyList_CheckExact(value) && !PyTuple_CheckExact(value)) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); ++i)
    if (!is_integer(PySequence_Fast_GET_ITEM(value, i))) return false;
  return true;
}

bool is_text(PyObject* value) {
  if (!PyUnicode_CheckExact(value)) return false;
  if (PyUnicode_AsUTF8(value)) return true;
  PyErr_Clear();
  return false;
}

// Says whether a value (null: none was given) can stand for an argument as it is.
bool fits(const pto_operator_argument& argument, PyObject* value) {
  if (!value) return argument.default_value || (is_tensor(argument) && is_optional(argument));
  if (value == Py_None) return is_optional(argument);
  switch (argument.kind) {
    case PTO_KIND_TENSOR:
      return is_plain(value);
    case PTO_KIND_INT:
    case PTO_KIND_SYMINT:
      return is_integer(value);
    case PTO_KIND_FLOAT:
      return PyFloat_CheckExact(value) || is_integer(value);
    case PTO_KIND_BOOL:
      return PyBool_Check(value);
    case PTO_KIND_STRING:
      return is_text(value);
    case PTO_KIND_INT_LIST:
      return are_integers(value);
    default:
      return false;
  }
}

pto_operator_value attribute_of(int32_t kind, PyObject* value, std::vector<int64_t>& integers) {
  pto_operator_value plain{};
  if (kind == PTO_KIND_FLOAT) {
    plain.real = PyFloat_AsDouble(value);
  } else if (kind == PTO_KIND_STRING) {
    Py_ssize_t bytes = 0;
    plain.text = PyUnicode_AsUTF8AndSize(value, &bytes);
    plain.count = bytes;
  } else if (kind == PTO_KIND_INT_LIST) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); ++i)
      integers.push_back(PyLong_AsLongLong(PySequence_Fast_GET_ITEM(value, i)));
    plain.integers = integers.data();
    plain.count = static_cast<int64_t>(integers.size());
  } else {
    plain.integer = PyLong_AsLongLong(value);
  }
  return plain;
}

Boxed boxed_attribute(int32_t kind, const pto_operator_value& value) {
  if (kind == PTO_KIND_STRING) {
    StringObject* text = nullptr;
    torch_new_string_handle(value.text, static_cast<size_t>(value.count), &text);
    return reinterpret_cast<Boxed>(text);
  }
  if (kind == PTO_KIND_INT_LIST) {
    ListObject* list = nullptr;
    torch_new_list_reserve_size(static_cast<size_t>(value.count), &list);
    for (const int64_t number : std::span(value.integers, static_cast<size_t>(value.count)))
      torch_list_push_back(list, static_cast<Boxed>(number));
    return reinterpret_cast<Boxed>(list);
  }
  return std::bit_cast<Boxed>(value.integer);  // or the bits of a double
}

// Returns an argument as PyTorch's stable interface puts it on a stack. Its reader owns it, but for
// tensors, which stay their objects': to share one takes Python's lock.
Boxed boxed(const pto_operator_argument& argument, PyObject* value) {
  const bool is_none =
      value ? value == Py_None : !argument.default_value || argument.default_value->count < 0;
  if (is_optional(argument) && is_none) return 0;
  Boxed plain = 0;
  if (argument.kind == PTO_KIND_TENSOR) {
    plain = reinterpret_cast<Boxed>(&THPVariable_Unpack(value));
  } else {
    std::vector<int64_t> integers;
    plain = boxed_attribute(argument.kind, value ? attribute_of(argument.kind, value, integers)
                                                 : *argument.default_value);
  }
  return is_optional(argument) ? reinterpret_cast<Boxed>(new Boxed(plain)) : plain;
}

// Says whether both are the same number or text, to the bit.
bool is_same(PyObject* a, PyObject* b) {
  if (a == b) return true;
  if (!a || !b || Py_TYPE(a) != Py_TYPE(b)) return false;
  if (PyFloat_CheckExact(a))
    return std::bit_cast<uint64_t>(PyFloat_AS_DOUBLE(a)) ==
           std::bit_cast<uint64_t>(PyFloat_AS_DOUBLE(b));
  return (PyLong_CheckExact(a) || PyUnicode_CheckExact(a)) &&
         PyObject_RichCompareBool(a, b, Py_EQ) == 1;
}

// Returns the site of calls with these arguments' attributes; null where there is none.
pto_operator_site* site_of(const DirectCall& self, std::span<PyObject* const> values) {
  const auto attribute = [&](size_t i) {
    return is_tensor(self.op->arguments[i]) ? nullptr : values[i];
  };
  for (const KeptSite& one : *self.sites) {
    size_t i = 0;
    while (i < values.size() && is_same(one.attributes[i], attribute(i))) ++i;
    if (i == values.size()) return one.site;
  }
  if (self.sites->size() == kSites) return nullptr;
  KeptSite made{std::vector<PyObject*>(values.size()), nullptr};
  for (size_t i = 0; i < values.size(); ++i) {
    if (attribute(i) && self.op->arguments[i].kind == PTO_KIND_INT_LIST) return nullptr;
    made.attributes[i] = attribute(i);
  }
  for (PyObject* const one : made.attributes) Py_XINCREF(one);
  made.site = pto_operator_site_new();
  self.sites->push_back(std::move(made));
  return self.sites->back().site;
}

// Puts the arguments of a call in the order of the schema; returns false where they do not fit.
bool gather(const DirectCall& self, PyObject* args, PyObject* kwargs, std::span<PyObject*> values) {
  const Py_ssize_t given = PyTuple_GET_SIZE(args);
  if (given > static_cast<Py_ssize_t>(values.size())) return false;
  Py_ssize_t named = kwargs ? PyDict_GET_SIZE(kwargs) : 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const pto_operator_argument& argument = self.op->arguments[i];
    if (static_cast<Py_ssize_t>(i) < given) {
      if (argument.flags & PTO_ARGUMENT_KEYWORD_ONLY) return false;
      values[i] = PyTuple_GET_ITEM(args, i);
    } else {
      values[i] = named > 0 ? PyDict_GetItemWithError(kwargs, self.names[i]) : nullptr;
      named -= values[i] != nullptr;
    }
    if (!fits(argument, values[i])) return false;
  }
  return named == 0;
}

PyObject* tensor_of(Boxed result) {
  auto* tensor = reinterpret_cast<at::Tensor*>(result);
  PyObject* const object = THPVariable_Wrap(std::move(*tensor));
  delete tensor;
  return object;
}

PyObject* results_of(const pto_operator& op, const Boxed* stack) {
  if (op.n_returns == 1) return tensor_of(stack[0]);
  PyObject* const all = PyTuple_New(op.n_returns);
  for (int32_t i = 0; i < op.n_returns; ++i) PyTuple_SET_ITEM(all, i, tensor_of(stack[i]));
  return all;
}

// Runs the operator and returns its results; null where the call is one for PyTorch.
PyObject* run_directly(const DirectCall& self, PyObject* args, PyObject* kwargs) {
  if (!self.is_plain()) return nullptr;
  const pto_operator& op = *self.op;
  PyObject* values[PTO_MAX_ARGUMENTS];
  if (!gather(self, args, kwargs, std::span(values, static_cast<size_t>(op.n_arguments))))
    return nullptr;
  pto_operator_site* const site = site_of(self, {values, static_cast<size_t>(op.n_arguments)});
  Boxed stack[PTO_MAX_ARGUMENTS + PTO_MAX_OUTPUTS];
  for (int32_t i = 0; i < op.n_arguments; ++i) stack[i] = boxed(op.arguments[i], values[i]);
  try {
    const bindings::Unlocked unlocked;
    self.run(op.index, stack, site);
  } catch (const std::exception&) {
    return nullptr;
  }
  return results_of(op, stack);
}

PyObject* call(PyObject* object, PyObject* args, PyObject* kwargs) {
  const DirectCall& self = *reinterpret_cast<DirectCall*>(object);
  if (PyObject* const results = run_directly(self, args, kwargs)) return results;
  return PyErr_Occurred() ? nullptr : PyObject_Call(self.original, args, kwargs);
}

}  // namespace
}  // namespace pto::torch_adapter

// Returns a callable, which lives as long as the process, for the operator at `index`: it runs the
// operator itself where it may, else calls `original`. Null: a Python error.
extern "C" PyObject* pto_torch_direct_call(PyObject* original, int32_t index, const void* run,
                                           const void* is_plain) {
  using namespace pto::torch_adapter;
  PyTypeObject* const type = callable_type<DirectCall>("pto.DirectCall", &call);
  auto* self = type ? PyObject_New(DirectCall, type) : nullptr;
  if (!self) return nullptr;
  const pto_operator* const op = pto_operator_at(index);
  self->original = Py_NewRef(original);
  self->op = op;
  self->sites = new std::vector<KeptSite>;
  self->run = reinterpret_cast<Run>(const_cast<void*>(run));
  self->is_plain = reinterpret_cast<IsPlain>(const_cast<void*>(is_plain));
  self->names = new PyObject*[static_cast<size_t>(op->n_arguments)];
  for (int32_t i = 0; i < op->n_arguments; ++i)
    self->names[i] = PyUnicode_InternFromString(op->arguments[i].name);
  return reinterpret_cast<PyObject*>(self);
}
