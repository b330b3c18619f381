// SPDX-License-Identifier: Apache-2.0
// Results: memory for the outputs of a call, and the arrays that own it afterwards.
//
// Memory comes from the recycling allocator; the array of the caller's library takes it over and
// gives it back when it dies, from any thread.
// Thread safety: needs Python's lock, except what a dying tensor calls.
#pragma once

#include <array>

#include "pto/abi/limits.h"
#include "pto/bindings/argument.hpp"

namespace pto::bindings {

class Results {
 public:
  // More than a program has: outputs and temporaries.

  Results(const ArgumentReader& reader, PyObject* policy) : reader_(reader), policy_(policy) {}
  ~Results();  // frees what no array has taken over
  Results(const Results&) = delete;
  Results& operator=(const Results&) = delete;

  // Memory for one more result, or null where there is none left. Needs no lock.
  void* add(DType dtype, std::span<const int64_t> sizes);

  // Leaves the first rows of a result. Its memory stays where that uses more than half of it; else
  // the rows move to memory of their own, so that a few do not keep the room for all.
  void narrow(int result, int64_t rows);

  int count() const { return count_; }
  const TensorArgument& tensor(int result) const { return tensors_[result]; }

  // The result as an array of the library that the arguments belong to; throws PythonError.
  Ref array(int result);

 private:
  Ref exchange(const TensorArgument& tensor);

  const ArgumentReader& reader_;
  PyObject* policy_;
  int count_ = 0;
  std::array<TensorArgument, PTO_MAX_BUFFERS> tensors_;  // data is null where an array took it over
  std::array<int64_t[PTO_MAX_RANK], PTO_MAX_BUFFERS> sizes_, strides_;
};

// Raises MemoryError for a result that no memory was found for, and throws PythonError.
[[noreturn]] void fail_memory(const char* function, int result, int64_t bytes);

}  // namespace pto::bindings
