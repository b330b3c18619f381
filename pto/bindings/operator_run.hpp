// SPDX-License-Identifier: Apache-2.0
// OperatorRun: runs a described call, makes its results, and writes mutable arguments in place.
//
//     OperatorRun run(op, &arguments, reader, policy);
//     run.replace(0, {&tensor, object, name});      // output 0 goes there
//     run.run();
//     return run.results();
//
// Invariant: a target gets its elements only after the call has read all its inputs.
// Thread safety: needs Python's lock, which it releases for large work and for compilation.
#pragma once

#include <algorithm>
#include <array>

#include "pto/abi/limits.h"
#include "pto/bindings/operator_arguments.hpp"
#include "pto/bindings/results.hpp"

namespace pto::bindings {

class OperatorRun {
 public:
  OperatorRun(const pto_operator& op, OperatorArguments* arguments, const ArgumentReader& reader,
              PyObject* policy)
      : op_(op), arguments_(*arguments), reader_(reader), results_(reader, policy, op.name) {
    for (size_t i = 0; i < static_cast<size_t>(op.n_outputs); ++i) {
      targets_[i] = {};
      counts_[i] = 0;
    }
  }

  // Makes output `output` go to this array. Refuses one whose elements share memory with each other
  // or with another target.
  void replace(int output, const ResultTarget& target);

  // Throws pto::Error or PythonError.
  void run();

  // Returns what the schema returns, as a new reference.
  PyObject* results();

 private:
  static void* allocate(void* self, int32_t output, int32_t member, const int64_t* sizes,
                        int32_t rank, int32_t dtype);
  static void narrow(void* self, int32_t output, int64_t rows);
  static void* in_place(void* self, int32_t output);
  void release_lock();
  Ref returned(int output, int* next);

  const pto_operator& op_;
  OperatorArguments& arguments_;
  const ArgumentReader& reader_;
  Results results_;
  std::array<ResultTarget, PTO_MAX_BUFFERS> targets_;  // by output, as many as the operator has
  std::array<int, PTO_MAX_BUFFERS> counts_;            // tensors of each output
  PyThreadState* released_ = nullptr;
};

}  // namespace pto::bindings
