// SPDX-License-Identifier: Apache-2.0
#include "pto/bindings/operator_run.hpp"

#include <algorithm>

#include "pto/base/dims.hpp"
#include "pto/base/strided.hpp"
#include "pto/bindings/python_lock.hpp"
#include "pto/launch/strided_copy.hpp"
#include "pto/operators/last_error.hpp"

namespace pto::bindings {
namespace {

constexpr int64_t kKeepLockBytes = 64 << 10;  // for less work Python's lock is kept

std::string about(DType dtype, std::span<const int64_t> sizes) {
  return std::string(name(dtype)) + text(Dims(sizes.begin(), sizes.end()));
}

}  // namespace

void OperatorRun::replace(int output, const pto_tensor_ref& tensor, PyObject* object) {
  const std::string here = std::string(op_.name) + ": output " + op_.outputs[output].name;
  if (!is_injective(tensor.rank, tensor.sizes, tensor.strides)) {
    fail({here + " would be written to an array whose elements share memory",
          "an element would get the values of several", "pass a copy of the array"});
  }
  for (const Target& other : targets()) {
    if (other.tensor && overlap(address_range(*other.tensor), address_range(tensor))) {
      fail({here + " would be written to memory that another output is written to",
            "one of them would be lost", "pass memory of its own"});
    }
  }
  targets_[static_cast<size_t>(output)] = {&tensor, object, -1};
  has_targets_ = true;
}

void OperatorRun::release_lock() {
  if (released_ == nullptr) released_ = PyEval_SaveThread();
}

bool OperatorRun::fits(int output, DType dtype, std::span<const int64_t> sizes) {
  const pto_tensor_ref& tensor = *targets_[static_cast<size_t>(output)].tensor;
  const std::span<const int64_t> have(tensor.sizes, static_cast<size_t>(tensor.rank));
  if (dtype_of(tensor) == dtype && std::equal(have.begin(), have.end(), sizes.begin(), sizes.end()))
    return true;
  misfit_ = std::string(op_.name) + ": output " + op_.outputs[output].name + " is " +
            about(dtype, sizes) + ", but it would be written to " + about(dtype_of(tensor), have);
  return false;
}

void* OperatorRun::memory(int output, DType dtype, std::span<const int64_t> sizes) {
  static char empty;
  Target& target = targets_[static_cast<size_t>(output)];
  if (target.tensor != nullptr) {
    if (!fits(output, dtype, sizes)) return nullptr;
    if (is_contiguous(target.tensor->rank, target.tensor->sizes, target.tensor->strides))
      return target.tensor->data ? target.tensor->data : &empty;
    target.fresh = results_.count();
  }
  int64_t bytes = pto::bytes(dtype);
  for (const int64_t size : sizes) bytes *= size;
  if (bytes > kKeepLockBytes) release_lock();
  void* made = results_.add(dtype, sizes);
  if (made == nullptr) missing_bytes_ = bytes;
  ++counts_[static_cast<size_t>(output)];
  return made;
}

void* OperatorRun::allocate(void* self, int32_t output, int32_t, const int64_t* sizes, int32_t rank,
                            int32_t dtype) {
  return static_cast<OperatorRun*>(self)->memory(output, static_cast<DType>(dtype),
                                                 {sizes, static_cast<size_t>(rank)});
}

// Fresh tensors stand in the order of outputs; bounded outputs are never lists.
void OperatorRun::narrow(void* self, int32_t output, int64_t rows) {
  auto& run = *static_cast<OperatorRun*>(self);
  int result = 0;
  for (int32_t i = 0; i < output; ++i) result += run.counts_[static_cast<size_t>(i)];
  run.results_.narrow(result, rows);
}

void OperatorRun::run() {
  pto_operator_call call{
      &op_, nullptr, nullptr, nullptr, &OperatorRun::allocate, this, &OperatorRun::narrow};
  arguments_.describe(&call);
  int64_t bytes = 0;
  for (const pto_tensor_ref& tensor : reader_.tensors()) bytes += element_bytes(tensor);
  if (bytes > kKeepLockBytes) release_lock();
  const bool failed = pto_operator_run(&call) != 0;
  if (released_ != nullptr) take_python_lock(std::exchange(released_, nullptr));
  if (missing_bytes_ >= 0) fail_memory(op_.name, results_.count(), missing_bytes_);
  if (!misfit_.empty()) {
    fail({misfit_, "results are written without conversion",
          "pass an array of that type and shape"});
  }
  if (failed) throw last_operator_error();
  if (has_targets_) copy_to_targets();
}

// Copies the results that could not be made in their targets.
void OperatorRun::copy_to_targets() {
  for (const Target& target : targets()) {
    if (target.tensor == nullptr || target.fresh < 0) continue;
    const pto_tensor_ref& from = results_.tensor(target.fresh);
    copy_strided(target.tensor->data, target.tensor->strides, from.data, from.strides, from.sizes,
                 from.rank, bytes(dtype_of(from)));
  }
}

// Returns output `output`; `next` is the first result not yet taken.
Ref OperatorRun::returned(int output, int* next) {
  const auto place = static_cast<size_t>(output);
  const int first = std::exchange(*next, *next + counts_[place]);
  if (targets_[place].tensor != nullptr) return Ref(Py_NewRef(targets_[place].object));
  if (op_.outputs[output].is_list == 0) return results_.array(first);
  Ref list = checked(PyList_New(counts_[place]));
  for (int i = 0; i < counts_[place]; ++i)
    PyList_SET_ITEM(list.get(), i, results_.array(first + i).release());
  return list;
}

PyObject* OperatorRun::results() {
  int next = 0;
  if (op_.n_returns == 1) return returned(0, &next).release();
  if (op_.n_returns == 0) Py_RETURN_NONE;
  Ref all = checked(PyTuple_New(op_.n_returns));
  for (int i = 0; i < op_.n_returns; ++i)
    PyTuple_SET_ITEM(all.get(), i, returned(i, &next).release());
  return all.release();
}

}  // namespace pto::bindings
