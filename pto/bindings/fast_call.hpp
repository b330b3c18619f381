// SPDX-License-Identifier: Apache-2.0
// FastCall: the callable behind @pto.jit. A warm call on 16 elements takes about a microsecond.
//
//     class Jit(_core.FastCall): ...      # Python: Jit("softmax", ("x",), (), policy)
//
// A call binds arguments to parameters, reads the tensors, looks the signature up (the last one
// first) and runs. Only a miss goes to Python: `specialise(tensors, constants, numbers)` of
// language/jit.py traces and compiles, once a key even if several threads ask at once. A call that
// PyTorch must make (a tensor requires grad, a mode is active, ...) goes to `call_in_library`.
// Invariant: a float is a number of the call unless tracing shows that it steers the function. All
// other non-tensors, and the values that the function captures (captures.hpp), are part of the key
// and compared exactly: 1 and True are two keys, and so are 0.0 and -0.0 of a float that steers.
// Thread safety: Python's lock guards the state; large work and waiting release it.
#pragma once

#include <Python.h>

#include <unordered_map>
#include <vector>

#include "pto/bindings/argument.hpp"
#include "pto/bindings/captures.hpp"
#include "pto/launch/call.hpp"
#include "pto/launch/kernel_table.hpp"
#include "pto/launch/pool.hpp"

namespace pto::bindings {

// The loop of the tensors' library, if it is used instead of our pool.
struct HostExecutor {
  ParallelFor run = nullptr;
  int (*threads)() = nullptr;  // the library's current setting
  // Says whether the library would only run the kernel in a call on this thread.
  int (*is_plain)() = nullptr;
};
HostExecutor& torch_executor();

class FastCall {
 public:
  static constexpr int kMaxParameters = 32;

  FastCall(PyObject* self, PyObject* name, PyObject* parameters, PyObject* defaults,
           PyObject* policy);
  ~FastCall();
  FastCall(const FastCall&) = delete;
  FastCall& operator=(const FastCall&) = delete;

  // Returns the result of the call, or throws PythonError or pto::Error.
  PyObject* call(PyObject* const* args, Py_ssize_t count, PyObject* keywords);

  // Returns (tensors, constants, numbers) as `specialise` gets them.
  PyObject* describe(PyObject* const* args, Py_ssize_t count, PyObject* keywords);

  // Makes the first parameter the object of a method: neither array nor constant. What the function
  // reads of it is the constant `state(object)`.
  void take_object() { takes_object_ = true; }

  int visit(visitproc visit, void* arg) const;

 private:
  struct Bound {
    PyObject* slots[kMaxParameters];
    PyObject* constants[kMaxParameters];  // the part of the key; null where the slot is a tensor
    PyObject* values[kMaxParameters];     // what the function gets for a constant
    double numbers[kMaxParameters];
    uint32_t is_number = 0;  // bit i: parameter i is a number of the call
    PyObject* out = nullptr;
    std::vector<Ref> made;  // constants made from arguments
    bool traced = false, has_constants = false;
  };
  struct Found {
    const KernelTable::Entry* entry = nullptr;
    PyObject* form = nullptr;  // None: one tensor; the type tuple; or what assembles the result
  };
  struct Steered {  // thrown by specialise: these numbers have to be constants
    uint32_t parameters;
  };

  void bind(PyObject* const* args, Py_ssize_t count, PyObject* keywords, Bound* bound) const;
  void bind_keyword(PyObject* name, PyObject* value, Bound* bound) const;
  [[noreturn]] void mismatch(PyObject* const* args, Py_ssize_t count, PyObject* keywords) const;
  void sort(ArgumentReader* reader, Bound* bound) const;
  void sort_one(Py_ssize_t place, TypeRecord record, ArgumentReader* reader, Bound* bound) const;
  void add_constant(Py_ssize_t place, PyObject* key, PyObject* value, Bound* bound) const;
  void take_numpy_numbers(uint32_t places, ArgumentReader* reader, Bound* bound) const;
  void check_constant(const ArgumentReader& reader, PyObject* name, PyObject* value,
                      int depth = 0) const;
  uint64_t constants_key(const ArgumentReader& reader, const Bound& bound);
  uint64_t attributes_key(uint64_t constants) { return constants | captures_.key(self_) << 32; }
  Found find(Signature* signature, const Bound& bound);
  Found find_or_steer(const ArgumentReader& reader, Signature* signature, Bound* bound);
  PyObject* call_here(const ArgumentReader& reader, Bound* bound);
  std::shared_ptr<const Program> specialise(const Signature& signature, const Bound& bound);
  Ref described(const Signature& signature, const Bound& bound) const;
  PyObject* run(const Program& program, PyObject* form, const ArgumentReader& reader,
                const Bound& bound);
  PyObject* run_into(Call* call, const Program& program, PyObject* form,
                     const ArgumentReader& reader, PyObject* out);
  void check_target(const pto_tensor_ref& target, PyObject* object, const ArgumentReader& reader,
                    std::span<const pto_tensor_ref> others) const;
  void execute(Call* call, const ArgumentReader& reader, std::span<void* const> outputs) const;

  PyObject* self_;  // borrowed: the Python object that holds this one
  PyObject *name_, *parameters_, *defaults_, *policy_;
  Py_ssize_t parameter_count_, first_default_;
  bool takes_out_;  // `out=` is ours, not a parameter of the function
  uint64_t owner_;
  Captures captures_;
  bool takes_object_ = false;
  uint32_t steering_ = 0;  // bit i: parameter i is a constant also where it is a float
  Found last_;
  std::unordered_map<const Program*, PyObject*> forms_;
  std::vector<std::vector<PyObject*>> constants_;  // the key of row i is i + 1
  std::unordered_multimap<size_t, uint64_t> constant_keys_;
  uint64_t last_constants_ = 0;
  std::vector<unsigned long> specialising_;  // threads that trace this function now
};

}  // namespace pto::bindings
