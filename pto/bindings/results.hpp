// SPDX-License-Identifier: Apache-2.0
// Results: memory for the outputs of a call, and the arrays that own it afterwards.
//
//     void* memory = results.add(DType::F32, sizes);      // for the kernel to fill
//     results.finish();
//     Ref array = results.array(0);                       // of the caller's library
//
// A result may go to an array that the caller names: to its memory, or, if that has gaps, to fresh
// memory that finish() copies.
// Invariant: memory comes from the recycling allocator; the array takes it over and gives it back
// when it dies, on any thread.
// Thread safety: needs Python's lock, except add() and what a dying tensor calls.
#pragma once

#include <array>

#include "pto/abi/limits.h"
#include "pto/bindings/argument.hpp"
#include "pto/launch/staging.hpp"

namespace pto::bindings {

// The array that a result goes to; without a tensor a fresh one, whose elements the `object`, where
// there is one, gets after the call. `object` and its `name` are borrowed. No member has a value by
// default: calls hold arrays of them, and would clear all of each.
struct ResultTarget {
  const pto_tensor_ref* tensor;
  PyObject *object, *name;
  bool as_it_lies;  // the code follows its strides: no copy is needed for its gaps
};

// Sets the function that lets PyTorch resize a result, which is a tensor over our memory.
using TorchResizer = void (*)(PyObject* tensor);
void set_torch_resizer(TorchResizer function);

class Results {
 public:
  // `function` is for errors.
  Results(const ArgumentReader& reader, PyObject* policy, const char* function)
      : reader_(reader), policy_(policy), function_(function), staging_(function) {}
  ~Results();  // frees what no array has taken over
  Results(const Results&) = delete;
  Results& operator=(const Results&) = delete;

  // Returns memory for one more result; null where there is none, or if the target is of another
  // type or shape: then fail() says so. Needs no lock.
  void* add(DType dtype, std::span<const int64_t> sizes, const ResultTarget& target);
  bool has_failed() const { return has_failed_; }
  [[noreturn]] void fail() const;

  // Refuses objects that cannot get what is computed elsewhere, while nothing is written yet.
  void check_targets() const;

  void finish();

  // Keeps the first rows of a result. Its memory stays if they use more than half of it; else the
  // rows move, so that a few do not hold room for all.
  void narrow(int result, int64_t rows);

  int count() const { return count_; }

  // Says whether there are results, and each was written to a target.
  bool are_in_targets() const;

  // Lets PyTorch know that the elements of targets have changed, if they are its tensors; throws
  // PythonError.
  void count_changes() const;

  // Returns the result as an array of the arguments' library; throws PythonError.
  Ref array(int result);

 private:
  Ref exchange(const pto_tensor_ref& tensor);

  const ArgumentReader& reader_;
  PyObject* policy_;
  const char* function_;
  Staging staging_;
  bool has_failed_ = false;
  int count_ = 0;
  std::array<ResultTarget, PTO_MAX_BUFFERS> targets_;
  std::array<pto_tensor_ref, PTO_MAX_BUFFERS> tensors_;  // data: the owned memory, else null
  std::array<int64_t[PTO_MAX_RANK], PTO_MAX_BUFFERS> sizes_, strides_;
};

}  // namespace pto::bindings
