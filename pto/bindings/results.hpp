// SPDX-License-Identifier: Apache-2.0
// Results: memory for the outputs of a call, and the arrays that own it afterwards.
//
// Memory comes from the recycling allocator; the array of the caller's library takes it over and
// gives it back when it dies, from any thread.
// Thread safety: needs Python's lock, except what a dying tensor calls.
#pragma once

#include <array>

#include "pto/bindings/argument.hpp"

namespace pto::bindings {

class Results {
 public:
  Results(const ArgumentReader& reader, PyObject* policy) : reader_(reader), policy_(policy) {}
  ~Results();  // frees what no array has taken over
  Results(const Results&) = delete;
  Results& operator=(const Results&) = delete;

  // Memory for all outputs of the call. Throws PythonError (MemoryError).
  void allocate(const Program& program, const Call& call);

  std::span<void* const> pointers() const { return {pointers_.data(), size_t(count_)}; }

  // The outputs as the library's arrays: one array, or a tuple. A new reference, or PythonError.
  PyObject* arrays(const Program& program, const Call& call, bool single);

 private:
  Ref array(int output, DType dtype, std::span<const int64_t> sizes, int64_t bytes);
  Ref exchange(int output, DType dtype, std::span<const int64_t> sizes);
  Ref buffer(int output, DType dtype, std::span<const int64_t> sizes, int64_t bytes);

  const ArgumentReader& reader_;
  PyObject* policy_;
  int count_ = 0;
  std::array<void*, Program::kMaxTensors> pointers_{};
};

// Creates the type of the objects that own memory for NumPy. False with a Python error set.
bool prepare_result_type();

}  // namespace pto::bindings
