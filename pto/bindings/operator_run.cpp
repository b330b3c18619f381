// SPDX-License-Identifier: Apache-2.0
#include "pto/bindings/operator_run.hpp"

#include <vector>

#include "pto/base/strided.hpp"
#include "pto/bindings/python_lock.hpp"
#include "pto/launch/write_order.hpp"
#include "pto/operators/last_error.hpp"

namespace pto::bindings {
void OperatorRun::replace(int output, const ResultTarget& target) {
  std::vector<pto_tensor_ref> others;
  std::vector<PyObject*> names;
  for (int i = 0; i < op_.n_outputs; ++i) {
    const ResultTarget& other = targets_[static_cast<size_t>(i)];
    if (other.tensor == nullptr) continue;
    others.push_back(*other.tensor);
    names.push_back(other.name);
  }
  reader_.check_target(*target.tensor, target.name, target.object, others,
                       [&](size_t i) { return std::string(PyUnicode_AsUTF8(names[i])); });
  targets_[static_cast<size_t>(output)] = target;
}

void OperatorRun::release_lock() {
  if (released_ == nullptr) released_ = PyEval_SaveThread();
}

void* OperatorRun::allocate(void* self, int32_t output, int32_t, const int64_t* sizes, int32_t rank,
                            int32_t dtype) {
  auto& run = *static_cast<OperatorRun*>(self);
  const auto place = static_cast<size_t>(output);
  const pto_tensor_ref about{nullptr, sizes, nullptr, rank, dtype};
  if (element_bytes(about) > kKeepLockBytes) run.release_lock();
  ++run.counts_[place];
  return run.results_.add(dtype_of(about), {sizes, static_cast<size_t>(rank)}, run.targets_[place]);
}

void* OperatorRun::in_place(void* self, int32_t output) {
  auto& run = *static_cast<OperatorRun*>(self);
  const auto place = static_cast<size_t>(output);
  ResultTarget& target = run.targets_[place];
  const pto_tensor_ref& to = *target.tensor;
  target.as_it_lies = true;
  ++run.counts_[place];
  return run.results_.add(dtype_of(to), {to.sizes, static_cast<size_t>(to.rank)}, target);
}

// Results stand in the order of outputs; bounded outputs are never lists.
void OperatorRun::narrow(void* self, int32_t output, int64_t rows) {
  auto& run = *static_cast<OperatorRun*>(self);
  int result = 0;
  for (int32_t i = 0; i < output; ++i) result += run.counts_[static_cast<size_t>(i)];
  run.results_.narrow(result, rows);
}

void OperatorRun::run() {
  pto_operator_call call{&op_, nullptr, nullptr, nullptr, &allocate, this, &narrow, &in_place};
  arguments_.describe(&call);
  int64_t bytes = 0;
  for (const pto_tensor_ref& tensor : reader_.tensors()) bytes += element_bytes(tensor);
  if (bytes > kKeepLockBytes) release_lock();
  std::vector<AddressRange> written;  // while other threads of Python run
  for (int i = 0; released_ != nullptr && i < op_.n_outputs; ++i)
    if (const auto* tensor = targets_[static_cast<size_t>(i)].tensor)
      written.push_back(address_range(*tensor));
  const WriteOrder order(written);
  const bool failed = pto_operator_run(&call) != 0;
  if (released_ != nullptr) take_python_lock(std::exchange(released_, nullptr));
  if (results_.has_failed()) results_.fail();
  if (failed) throw last_operator_error();
  results_.finish();
}

// Returns output `output`; `next` is the first result not yet taken.
Ref OperatorRun::returned(int output, int* next) {
  const auto place = static_cast<size_t>(output);
  const int first = std::exchange(*next, *next + counts_[place]);
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
