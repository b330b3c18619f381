// SPDX-License-Identifier: Apache-2.0
// Results: memory for the outputs of a call, and the arrays that own it afterwards.
//
//     void* memory = results.add(DType::F32, sizes);      // for the kernel to fill
//     Ref array = results.array(0);                       // of the caller's library
//
// Invariant: memory comes from the recycling allocator; the array takes it over and gives it back
// when it dies, on any thread.
// Thread safety: needs Python's lock, except add() and what a dying tensor calls.
#pragma once

#include <array>

#include "pto/abi/limits.h"
#include "pto/bindings/argument.hpp"

namespace pto::bindings {

class Results {
 public:
  Results(const ArgumentReader& reader, PyObject* policy) : reader_(reader), policy_(policy) {}
  ~Results();  // frees what no array has taken over
  Results(const Results&) = delete;
  Results& operator=(const Results&) = delete;

  // Allocates memory for one more result; null if there is none. Needs no lock.
  void* add(DType dtype, std::span<const int64_t> sizes);

  // Keeps the first rows of a result. Its memory stays if they use more than half of it; else the
  // rows move, so that a few do not hold room for all.
  void narrow(int result, int64_t rows);

  int count() const { return count_; }
  const pto_tensor_ref& tensor(int result) const { return tensors_[result]; }

  // Returns the result as an array of the arguments' library; throws PythonError.
  Ref array(int result);

 private:
  Ref exchange(const pto_tensor_ref& tensor);

  const ArgumentReader& reader_;
  PyObject* policy_;
  int count_ = 0;
  std::array<pto_tensor_ref, PTO_MAX_BUFFERS> tensors_;  // data is null once an array owns it
  std::array<int64_t[PTO_MAX_RANK], PTO_MAX_BUFFERS> sizes_, strides_;
};

// Raises MemoryError for a result without memory, and throws PythonError.
[[noreturn]] void fail_memory(const char* function, int result, int64_t bytes);

}  // namespace pto::bindings
