// SPDX-License-Identifier: Apache-2.0
// OperatorRun: runs a described call, makes its results, and writes mutable arguments in place.
//
//     OperatorRun run(op, &arguments, reader, policy);
//     run.replace(0, tensor, object);      // output 0 goes there
//     run.run();
//     return run.results();
//
// Invariant: a target gets its elements only after the call has read all its inputs.
// Thread safety: needs Python's lock, which it releases for large work and for compilation.
#pragma once

#include <algorithm>
#include <array>
#include <string>

#include "pto/abi/limits.h"
#include "pto/bindings/operator_arguments.hpp"
#include "pto/bindings/results.hpp"

namespace pto::bindings {

class OperatorRun {
 public:
  OperatorRun(const pto_operator& op, OperatorArguments* arguments, const ArgumentReader& reader,
              PyObject* policy)
      : op_(op), arguments_(*arguments), reader_(reader), results_(reader, policy) {
    const auto outputs = static_cast<size_t>(op.n_outputs);
    std::fill_n(targets_.begin(), outputs, Target{nullptr, nullptr, -1});
    std::fill_n(counts_.begin(), outputs, 0);
  }

  // Makes output `output` go to this tensor; `object`, a borrowed reference, is the result. Throws
  // pto::Error if elements of the tensor share memory with each other or with another target.
  void replace(int output, const pto_tensor_ref& tensor, PyObject* object);

  // Throws pto::Error or PythonError.
  void run();

  // Returns what the schema returns, as a new reference.
  PyObject* results();

 private:
  struct Target {
    const pto_tensor_ref* tensor;  // null: a fresh array
    PyObject* object;
    int fresh;  // the result copied to it, or -1
  };

  std::span<const Target> targets() const {
    return {targets_.data(), static_cast<size_t>(op_.n_outputs)};
  }
  static void* allocate(void* self, int32_t output, int32_t member, const int64_t* sizes,
                        int32_t rank, int32_t dtype);
  static void narrow(void* self, int32_t output, int64_t rows);
  void* memory(int output, DType dtype, std::span<const int64_t> sizes);
  bool fits(int output, DType dtype, std::span<const int64_t> sizes);
  void release_lock();
  void copy_to_targets();
  Ref returned(int output, int* next);

  const pto_operator& op_;
  OperatorArguments& arguments_;
  const ArgumentReader& reader_;
  Results results_;
  bool has_targets_ = false;
  std::array<Target, PTO_MAX_BUFFERS> targets_;  // by output, as many as the operator has
  std::array<int, PTO_MAX_BUFFERS> counts_;      // fresh tensors of each output
  PyThreadState* released_ = nullptr;
  int64_t missing_bytes_ = -1;  // of an output without memory
  std::string misfit_;
};

}  // namespace pto::bindings
