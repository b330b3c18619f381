// SPDX-License-Identifier: Apache-2.0
// AtenCall: a call of one overload of ATen from Python that skips the checks of an earlier call
// like it.
//
//     call = pto_torch_aten_call("aten::add", "out", learn, fail, is_plain)
//     call(x, y, out=z)            # what torch.ops.aten.add.out(x, y, out=z) does and returns
//
// A call is like another if its arguments have the same kinds and, where outputs are checked before
// a call, the same types, sizes, strides and numbers. An unknown one goes to learn(args, kwargs),
// which makes it with all checks and returns its result and whether others may skip them. PyTorch's
// error goes to fail(args, kwargs, error), which raises ours.
// Thread safety: any thread that holds Python's lock; the kernel runs without it.
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>

#include <atomic>
#include <bit>
#include <mutex>
#include <variant>
#include <vector>

#include "pto/adapters/torch/call_key.hpp"
#include "pto/adapters/torch/callable_type.hpp"
#include "pto/adapters/torch/plain_keys.hpp"
#include "pto/base/strided.hpp"
#include "pto/bindings/python_lock.hpp"

namespace pto::torch_adapter::aten_calls {
namespace {

using c10::IValue;
using c10::TypeKind;
using IsPlain = int (*)();

struct Parameter {
  PyObject* name;  // interned
  TypeKind kind;   // of what an optional one holds
  bool is_optional, is_keyword_only, is_output;
  const IValue* otherwise;  // its default; null: it has none
};

struct State {
  c10::OperatorHandle op;
  std::vector<Parameter> parameters;
  bool has_outputs = false, returns_tensors = true;
  PyObject *learn, *fail;
  IsPlain is_plain;
  Kept<std::monostate> known;
  std::atomic<bool> is_gone = false;  // whoever registered the operator has taken it back
};

// The states of all calls. Those of an operator that PyTorch has no longer stay, and ask learn().
class States final : public c10::OpRegistrationListener {
 public:
  static void add(State* state) {
    const std::lock_guard lock(mutex());
    all().push_back(state);
    static const auto* const listening = new c10::RegistrationHandleRAII(
        c10::Dispatcher::singleton().addRegistrationListener(std::make_unique<States>()));
    (void)listening;
  }

 private:
  void onOperatorRegistered(const c10::OperatorHandle&) override {}
  void onOperatorDeregistered(const c10::OperatorHandle& op) override {
    const std::lock_guard lock(mutex());
    for (State* one : all()) one->is_gone = one->is_gone || one->op == op;
  }
  static std::mutex& mutex() {
    static auto* const one = new std::mutex;
    return *one;
  }
  static std::vector<State*>& all() {
    static auto* const states = new std::vector<State*>;
    return *states;
  }
};

struct AtenCall {
  PyObject_HEAD State* state;
};

// Adds a tensor to the key, with its sizes where outputs depend on them; false: it is none of
// those that a plan takes.
bool add_tensor(const State& self, PyObject* value, torch::jit::Stack& stack, CallKey& key) {
  if (!THPVariable_CheckExact(value)) return false;
  const at::Tensor& tensor = THPVariable_Unpack(value);
  if (!has_plain_keys(tensor)) return false;
  const c10::TensorImpl& one = *tensor.unsafeGetTensorImpl();
  if (one.has_symbolic_sizes_strides()) return false;
  key.push_back('t');
  if (self.has_outputs) {
    key.push_back(one.numel() == 0 && tensor.storage().resizable());  // it may grow
    add_layout(tensor, key);
  }
  stack.emplace_back(tensor);
  return true;
}

bool add_number(const State& self, char kind, int64_t bits, IValue value, torch::jit::Stack& stack,
                CallKey& key) {
  key.push_back(kind);
  if (self.has_outputs) key.push_back(bits);
  stack.push_back(std::move(value));
  return true;
}

bool add_integer(const State& self, PyObject* value, TypeKind kind, torch::jit::Stack& stack,
                 CallKey& key) {
  int overflow = 0;
  const int64_t number = PyLong_AsLongLongAndOverflow(value, &overflow);
  if (overflow != 0) return false;
  const bool is_real = kind == TypeKind::FloatType;
  return add_number(self, 'i', number,
                    is_real ? IValue(static_cast<double>(number)) : IValue(number), stack, key);
}

// Adds one value to the stack and the key; false: a call with it goes the long way.
bool add(const State& self, const Parameter& parameter, PyObject* value, torch::jit::Stack& stack,
         CallKey& key) {
  if (!value) {
    key.push_back('d');
    if (parameter.otherwise) stack.push_back(*parameter.otherwise);
    return parameter.otherwise != nullptr;
  }
  if (value == Py_None) {
    key.push_back('n');
    stack.emplace_back();
    return parameter.is_optional;
  }
  const TypeKind kind = parameter.kind;
  const bool is_number = kind == TypeKind::NumberType;
  if (kind == TypeKind::TensorType) return add_tensor(self, value, stack, key);
  if (PyBool_Check(value)) {
    const bool is_true = value == Py_True;
    return (is_number || kind == TypeKind::BoolType) &&
           add_number(self, 'b', is_true, IValue(is_true), stack, key);
  }
  if (PyFloat_CheckExact(value)) {
    const double number = PyFloat_AS_DOUBLE(value);
    return (is_number || kind == TypeKind::FloatType) &&
           add_number(self, 'f', std::bit_cast<int64_t>(number), IValue(number), stack, key);
  }
  const bool takes_int = is_number || kind == TypeKind::IntType || kind == TypeKind::SymIntType ||
                         kind == TypeKind::FloatType;
  return takes_int && PyLong_CheckExact(value) && add_integer(self, value, kind, stack, key);
}

AddressRange range_of(const at::Tensor& tensor) {
  const pto_tensor_ref ref{const_cast<void*>(tensor.const_data_ptr()), tensor.sizes().data(),
                           tensor.strides().data(), static_cast<int32_t>(tensor.dim()), 0};
  return address_range(ref, static_cast<int64_t>(tensor.element_size()));
}

// Whether memory of an output reaches into that of another tensor, which the long way looks at.
bool outputs_meet(const State& self, const torch::jit::Stack& stack) {
  for (size_t i = 0; i < stack.size(); ++i) {
    if (!self.parameters[i].is_output || !stack[i].isTensor()) continue;
    const AddressRange written = range_of(stack[i].toTensor());
    for (size_t j = 0; j < stack.size(); ++j)
      if (j != i && stack[j].isTensor() && overlap(written, range_of(stack[j].toTensor())))
        return true;
  }
  return false;
}

// Puts the arguments in the order of the schema; false: the call goes the long way.
bool gather(const State& self, PyObject* args, PyObject* kwargs, torch::jit::Stack& stack,
            CallKey& key) {
  const Py_ssize_t given = PyTuple_GET_SIZE(args);
  const auto parameters = static_cast<Py_ssize_t>(self.parameters.size());
  if (given > parameters || !self.returns_tensors) return false;
  Py_ssize_t named = kwargs ? PyDict_GET_SIZE(kwargs) : 0;
  stack.reserve(self.parameters.size());
  for (Py_ssize_t i = 0; i < parameters; ++i) {
    const Parameter& one = self.parameters[static_cast<size_t>(i)];
    if (i < given && one.is_keyword_only) return false;
    PyObject* value = i < given ? PyTuple_GET_ITEM(args, i) : nullptr;
    if (i >= given && named > 0) {
      value = PyDict_GetItemWithError(kwargs, one.name);
      named -= value != nullptr;
    }
    if (!add(self, one, value, stack, key)) return false;
  }
  return named == 0;
}

PyObject* results_of(const torch::jit::Stack& stack) {
  if (stack.empty()) return Py_NewRef(Py_None);
  if (stack.size() == 1) return THPVariable_Wrap(stack[0].toTensor());
  PyObject* const all = PyTuple_New(static_cast<Py_ssize_t>(stack.size()));
  for (size_t i = 0; i < stack.size(); ++i)
    PyTuple_SET_ITEM(all, static_cast<Py_ssize_t>(i), THPVariable_Wrap(stack[i].toTensor()));
  return all;
}

// Null: PyTorch's error is Python's.
PyObject* run(const State& self, torch::jit::Stack& stack) {
  HANDLE_TH_ERRORS {
    const bindings::Unlocked unlocked;
    self.op.callBoxed(stack);
  }
  return results_of(stack);
  END_HANDLE_TH_ERRORS
}

// Hands PyTorch's error over, to be raised as ours.
PyObject* fail(const State& self, PyObject* args, PyObject* kwargs) {
  PyObject *type = nullptr, *error = nullptr, *trace = nullptr;
  PyErr_Fetch(&type, &error, &trace);
  PyErr_NormalizeException(&type, &error, &trace);
  PyObject* const named = kwargs ? Py_NewRef(kwargs) : PyDict_New();
  PyObject* const made = PyObject_CallFunctionObjArgs(self.fail, args, named, error, nullptr);
  Py_XDECREF(named), Py_XDECREF(type), Py_XDECREF(error), Py_XDECREF(trace);
  return made;
}

// Makes a call with all checks; keeps its key (null: it has none) if others may skip them.
PyObject* learn(State& self, PyObject* args, PyObject* kwargs, CallKey* key) {
  PyObject* const named = kwargs ? Py_NewRef(kwargs) : PyDict_New();
  PyObject* const pair = PyObject_CallFunctionObjArgs(self.learn, args, named, nullptr);
  Py_XDECREF(named);
  if (!pair) return nullptr;
  if (key && PyTuple_GET_ITEM(pair, 1) == Py_True) self.known.keep(std::move(*key), {});
  PyObject* const result = Py_NewRef(PyTuple_GET_ITEM(pair, 0));
  Py_DECREF(pair);
  return result;
}

PyObject* call(PyObject* object, PyObject* args, PyObject* kwargs) {
  State& self = *reinterpret_cast<AtenCall*>(object)->state;
  torch::jit::Stack stack;
  static thread_local CallKey scratch;
  scratch.clear();
  if (self.is_gone.load(std::memory_order_relaxed) || !self.is_plain() ||
      !gather(self, args, kwargs, stack, scratch) ||
      (self.has_outputs && outputs_meet(self, stack)))
    return PyErr_Occurred() ? nullptr : learn(self, args, kwargs, nullptr);
  if (!self.known.find(scratch)) {
    CallKey key = scratch;
    stack.clear();
    return learn(self, args, kwargs, &key);
  }
  PyObject* const result = run(self, stack);
  return result ? result : fail(self, args, kwargs);
}

State* state_of(const c10::OperatorHandle& op) {
  auto* made = new State{.op = op};
  for (const c10::Argument& one : op.schema().arguments()) {
    const bool is_optional = one.type()->kind() == TypeKind::OptionalType;
    const TypeKind kind =
        is_optional ? one.real_type()->containedType(0)->kind() : one.real_type()->kind();
    const bool is_written = one.alias_info() && one.alias_info()->isWrite();
    made->has_outputs |= is_written && one.kwarg_only();
    made->parameters.push_back({PyUnicode_InternFromString(one.name().c_str()), kind, is_optional,
                                one.kwarg_only(), is_written && one.kwarg_only(),
                                one.default_value() ? &*one.default_value() : nullptr});
  }
  for (const c10::Argument& one : op.schema().returns())
    made->returns_tensors &= one.type()->kind() == TypeKind::TensorType;
  States::add(made);
  return made;
}

}  // namespace
}  // namespace pto::torch_adapter::aten_calls

// Returns the call of an overload, which lives as long as the process; null: there is none, or a
// Python error.
extern "C" PyObject* pto_torch_aten_call(const char* name, const char* overload, PyObject* learn,
                                         PyObject* fail, const void* is_plain) {
  using namespace pto::torch_adapter::aten_calls;
  const auto op = c10::Dispatcher::singleton().findSchema({name, overload});
  PyTypeObject* const type = pto::torch_adapter::callable_type<AtenCall>("pto.AtenCall", &call);
  auto* self = op && type ? PyObject_New(AtenCall, type) : nullptr;
  if (!self) return PyErr_Occurred() ? nullptr : Py_NewRef(Py_None);
  self->state = state_of(*op);
  self->state->learn = Py_NewRef(learn);
  self->state->fail = Py_NewRef(fail);
  self->state->is_plain = reinterpret_cast<IsPlain>(const_cast<void*>(is_plain));
  return reinterpret_cast<PyObject*>(self);
}
