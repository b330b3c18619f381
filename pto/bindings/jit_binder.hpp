// SPDX-License-Identifier: Apache-2.0
// JitBinder: binds calls to a function under @pto.jit. A warm call on 16 elements takes about a
// microsecond.
//
//     jit.bind_function("softmax", ("x",), (), policy)     # Python, of a _core.Callable
//
// A call binds arguments to parameters, reads the tensors, looks the signature up (the last one
// first) and runs. Only a miss goes to Python: `specialise(tensors, constants, numbers)` of
// language/jit.py traces and compiles, once a key even if several threads ask at once. A call that
// PyTorch must make (a tensor requires grad, a mode is active, ...) goes to `call_in_library`; one
// that prints what it computes, or any while interprets_calls(), to `call_interpreted`.
// Invariant: a float is a number of the call unless tracing shows that it steers the function. All
// other non-tensors, and the values that the function captures (captures.hpp), are part of the key
// and compared exactly: 1 and True are two keys, and so are 0.0 and -0.0 of a float that steers.
// Thread safety: Python's lock guards the state; large work and waiting release it.
#pragma once

#include <Python.h>

#include <array>
#include <unordered_map>
#include <vector>

#include "pto/bindings/callable.hpp"
#include "pto/bindings/captures.hpp"
#include "pto/bindings/results.hpp"
#include "pto/launch/call.hpp"
#include "pto/launch/executor.hpp"
#include "pto/launch/kernel_table.hpp"
#include "pto/launch/pool.hpp"
#include "pto/launch/staging.hpp"
#include "pto/operators/packed_constants.hpp"

namespace pto::bindings {

// The loop of the tensors' library, if it is used instead of our pool.
struct HostExecutor {
  ParallelFor run = nullptr;
  int (*threads)() = nullptr;  // the library's current setting
  // Says whether the library would only run the kernel in a call on this thread.
  int (*is_plain)() = nullptr;
};
HostExecutor& torch_executor();

// Runs work on torch tensors on the threads that PyTorch allows.
template <class Run>
void run_on_torch_threads(const Run& run) {
  const HostExecutor& host = torch_executor();
  if (host.threads == nullptr) return run();
  const ScopedThreadLimit limit(host.threads());
  if (host.run == nullptr) return run();
  const ScopedExecutor executor(host.run, nullptr);
  run();
}

// True while pto.config.interpret is: calls go to `call_interpreted`.
bool& interprets_calls();

class JitBinder final : public Binder {
 public:
  static constexpr int kMaxParameters = PTO_MAX_ARGUMENTS;

  // With `takes_object` the first parameter may be the object of a method: neither array nor
  // constant. The constant `state(object)` stands for all that the function reads of it.
  // With `in_any_mode` it runs plain tensors itself also where PyTorch would do more with the call.
  JitBinder(PyObject* self, PyObject* name, PyObject* parameters, PyObject* defaults,
            PyObject* policy, bool takes_object, bool in_any_mode);
  ~JitBinder() override;
  JitBinder(const JitBinder&) = delete;
  JitBinder& operator=(const JitBinder&) = delete;

  PyObject* call(const Passed& passed, const char** instead) override;
  PyObject* describe(const Passed& passed) override;
  PyObject* bound_call(const Passed& passed) override;
  void forget_kernels() override;
  int visit(visitproc visit, void* arg) const override;

 private:
  using Places = uint64_t;  // bit i: parameter i
  static_assert(kMaxParameters <= 64, "a set of parameters has a bit for each");

  struct Bound {
    PyObject* slots[kMaxParameters];
    PyObject* constants[kMaxParameters];  // the part of the key; null where the slot is a tensor
    PyObject* values[kMaxParameters];     // what the function gets for a constant
    double numbers[kMaxParameters];
    Places is_number = 0;  // parameters that are numbers of the call
    PyObject* out = nullptr;
    std::vector<Ref> made;  // constants made from arguments
    bool traced = false, has_constants = false;
  };
  struct Found {
    const KernelTable::Entry* entry = nullptr;
    PyObject* form = nullptr;   // None: one tensor; the type tuple; or what assembles the result
    bool wants_copies = false;  // of tensors with gaps, see copied()
  };
  struct Steered {  // thrown by specialise: these numbers have to be constants
    Places parameters;
  };

  struct Stepped {};  // thrown by specialise: the function runs step by step in the interpreter

  void bind(const Passed& passed, Bound* bound) const;
  [[noreturn]] void mismatch(const Passed& passed) const;
  void sort(ArgumentReader* reader, Bound* bound) const;
  void sort_one(Py_ssize_t place, TypeRecord record, ArgumentReader* reader, Bound* bound) const;
  void add_constant(Py_ssize_t place, PyObject* key, PyObject* value, Bound* bound) const;
  void take_numpy_numbers(Places places, ArgumentReader* reader, Bound* bound) const;
  void add_structure(Py_ssize_t place, const char* key, Bound* bound) const;
  bool is_plain(const ArgumentReader& reader, PyObject* name, PyObject* value, int depth = 0) const;
  uint64_t constants_key(const Bound& bound);
  uint64_t attributes_key(uint64_t constants) { return constants | captures_.key(self_) << 32; }
  Found find(Signature* signature, const Bound& bound);
  Found find_or_steer(Signature* signature, Bound* bound);
  PyObject* call_here(const ArgumentReader& reader, Bound* bound);
  std::shared_ptr<const Program> specialise(const Signature& signature, const Bound& bound);
  Ref described(const Signature& signature, const Bound& bound) const;
  static size_t take_numbers(const Bound& bound, uint64_t* scalars);
  PyObject* run(const Found& found, const ArgumentReader& reader, const Bound& bound);
  std::span<const pto_tensor_ref> copied(const Found& found, const ArgumentReader& reader,
                                         Staging* staging,
                                         std::array<pto_tensor_ref, PTO_MAX_TENSORS>* copies) const;
  Py_ssize_t parameter_of(int tensor, const Bound& bound) const;
  // Returns the array that an output becomes the elements of; without a tensor where it cannot be
  // computed there.
  ResultTarget target_of(const ProgramSpec& spec, size_t output, const ArgumentReader& reader,
                         const Bound& bound) const;
  Ref read_targets(ArgumentReader* targets, size_t count, PyObject* form,
                   const ArgumentReader& reader, PyObject* out) const;
  PackedConstants constants_of(const ProgramSpec& spec, const ArgumentReader& reader,
                               const Bound& bound) const;
  void execute(Call* call, const ArgumentReader& reader, std::span<void* const> outputs,
               PackedConstants* constants) const;

  PyObject* self_;  // borrowed: the Python object that holds this one
  PyObject *name_, *policy_;
  Parameters parameters_;
  const Py_ssize_t parameter_count_;
  const bool takes_object_, in_any_mode_;
  uint64_t owner_;
  std::vector<uint64_t> owners_before_;  // of forgotten kernels, which calls may still run
  Captures captures_;
  Places steering_ = 0;  // parameters that are constants also where they are floats
  Found last_;
  std::unordered_map<const Program*, PyObject*> forms_;
  std::vector<std::vector<PyObject*>> constants_;  // the key of row i is i + 1
  std::unordered_multimap<size_t, uint64_t> constant_keys_;
  uint64_t last_constants_ = 0;
  std::vector<unsigned long> specialising_;  // threads that trace this function now
};

}  // namespace pto::bindings
