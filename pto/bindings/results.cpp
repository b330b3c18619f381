// SPDX-License-Identifier: Apache-2.0
#include "pto/bindings/results.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "pto/abi/limits.h"
#include "pto/base/dims.hpp"
#include "pto/base/error.hpp"
#include "pto/base/strided.hpp"
#include "pto/bindings/owned_buffer.hpp"

namespace pto::bindings {
namespace {

TorchResizer torch_resizer = nullptr;

// A tensor for DLPack, with its sizes and strides in one allocation.
struct OwnedTensor {
  dlpack::ManagedVersioned managed;
  int64_t sizes[PTO_MAX_RANK], strides[PTO_MAX_RANK];
};

void delete_tensor(dlpack::ManagedVersioned* managed) {
  pto_free(managed->tensor.data);
  delete static_cast<OwnedTensor*>(managed->context);
}

// Returns NumPy's ndarray class, or an element type. Kept for good: a look-up takes as long as a
// call.
PyObject* of_numpy(PyObject* policy, std::optional<DType> dtype) {
  static std::array<PyObject*, kDTypes + 1> kept{};
  PyObject*& found = kept[dtype ? static_cast<size_t>(*dtype) : kDTypes];
  if (found != nullptr) return found;
  const std::string name(dtype ? pto::name(*dtype) : "");
  found = (dtype ? checked(PyObject_CallMethod(policy, "numpy_type", "s", name.c_str()))
                 : checked(PyObject_CallMethod(policy, "numpy_ndarray", nullptr)))
              .release();
  return found;
}

// Makes a NumPy array over the memory of `owner` with the constructor: asarray would ask the buffer
// for what is known here.
Ref numpy_array(PyObject* policy, const pto_tensor_ref& tensor, PyObject* owner) {
  const Ref shape = checked(PyTuple_New(tensor.rank));
  for (int axis = 0; axis < tensor.rank; ++axis) {
    PyObject* const size = checked(PyLong_FromLongLong(tensor.sizes[axis])).release();
    PyTuple_SET_ITEM(shape.get(), axis, size);
  }
  PyObject* const arguments[] = {shape.get(), of_numpy(policy, dtype_of(tensor)), owner};
  return checked(PyObject_Vectorcall(of_numpy(policy, {}), arguments, 3, nullptr));
}

}  // namespace

void set_torch_resizer(TorchResizer function) { torch_resizer = function; }

Results::~Results() {
  for (int i = 0; i < count_; ++i) pto_free(tensors_[i].data);
}

void* Results::add(DType dtype, std::span<const int64_t> sizes, const ResultTarget& target) {
  static char nothing;  // the memory of an array without elements
  if (count_ == PTO_MAX_BUFFERS || sizes.size() > PTO_MAX_RANK) return nullptr;
  const auto rank = static_cast<int32_t>(sizes.size());
  pto_tensor_ref& result = tensors_[count_];
  result = {nullptr, sizes_[count_], strides_[count_], rank, static_cast<int32_t>(dtype)};
  targets_[count_] = target;
  std::copy(sizes.begin(), sizes.end(), sizes_[count_]);
  has_failed_ = true;
  if (target.tensor != nullptr) {
    const pto_tensor_ref& to = *target.tensor;
    if (dtype_of(to) != dtype ||
        !std::equal(sizes.begin(), sizes.end(), to.sizes, to.sizes + to.rank))
      return nullptr;
    has_failed_ = false;
    ++count_;
    if (!target.as_it_lies && !is_contiguous(to.rank, to.sizes, to.strides))
      return staging_.in_place_of(to);
    return to.data != nullptr ? to.data : &nothing;
  }
  int64_t bytes = pto::bytes(dtype);
  for (size_t axis = sizes.size(); axis-- > 0;) {
    strides_[count_][axis] = bytes / pto::bytes(dtype);
    if (__builtin_mul_overflow(bytes, sizes[axis], &bytes)) return nullptr;
  }
  result.data = pto_malloc(static_cast<size_t>(std::max<int64_t>(bytes, 1)));
  if (result.data == nullptr) return nullptr;
  has_failed_ = false;
  ++count_;
  return result.data;
}

void Results::fail() const {
  const pto_tensor_ref& wanted = tensors_[count_];
  const ResultTarget& target = targets_[count_];
  if (target.tensor != nullptr) {
    const std::string text = std::string(name(dtype_of(wanted))) +
                             pto::text(Dims(wanted.sizes, wanted.sizes + wanted.rank));
    reader_.refuse(target.name, target.object, "out type", text.c_str());
  }
  pto::fail({std::string(function_) + ": output " + std::to_string(count_) + " needs " +
                 std::to_string(element_bytes(wanted)) + " bytes",
             "the system has no memory left for them", "use smaller tensors, or free memory"},
            ErrorKind::Runtime);
}

void Results::check_targets() const {
  const std::span<const ResultTarget> all(targets_.data(), static_cast<size_t>(count_));
  const auto comes_later = [](auto& one) { return !one.tensor && one.object; };
  if (std::none_of(all.begin(), all.end(), comes_later)) return;
  const Ref named = checked(PyDict_New());
  for (const ResultTarget& one : all)
    if (one.object != nullptr && PyDict_SetItem(named.get(), one.name, one.object) != 0)
      throw PythonError{};
  const Ref written = checked(PyImport_ImportModule("pto.language.written"));
  checked(PyObject_CallMethod(written.get(), "check", "sO", function_, named.get()));
}

void Results::finish() { staging_.finish(); }

void Results::narrow(int result, int64_t rows) {
  pto_tensor_ref& tensor = tensors_[result];
  const int64_t room = sizes_[result][0], row = strides_[result][0] * bytes(dtype_of(tensor));
  sizes_[result][0] = rows;
  if (rows > room / 2 || room == 0) return;
  const auto used = static_cast<size_t>(rows * row);
  void* fitting = pto_malloc(std::max<size_t>(used, 1));
  if (fitting == nullptr) return;
  std::memcpy(fitting, tensor.data, used);
  pto_free(std::exchange(tensor.data, fitting));
}

bool Results::are_in_targets() const {
  const auto is_in_target = [](const ResultTarget& one) { return one.tensor != nullptr; };
  return count_ > 0 && std::all_of(targets_.begin(), targets_.begin() + count_, is_in_target);
}

void Results::count_changes() const {
  if (reader_.origin().kind != Kind::Torch) return;
  const Ref all = checked(PyTuple_New(count_));
  for (int i = 0; i < count_; ++i)
    PyTuple_SET_ITEM(all.get(), i, Py_NewRef(targets_[static_cast<size_t>(i)].object));
  static PyObject* const count =  // a look-up takes as long as the call
      checked(PyObject_CallMethod(policy_, "version_counter", nullptr)).release();
  checked(PyObject_CallOneArg(count, all.get()));
}

Ref Results::array(int result) {
  if (targets_[result].tensor != nullptr) return Ref(Py_NewRef(targets_[result].object));
  pto_tensor_ref tensor = tensors_[result];
  tensors_[result].data = nullptr;
  if (reader_.origin().api != nullptr) return exchange(tensor);
  const Ref owner = owned_buffer(tensor);
  if (reader_.origin().kind == Kind::Dlpack) {
    Ref made =
        checked(PyObject_CallMethod(policy_, "as_library", "OO", owner.get(), reader_.first()));
    if (made.get() != Py_None) return made;
  }
  return numpy_array(policy_, tensor, owner.get());
}

Ref Results::exchange(const pto_tensor_ref& tensor) {
  auto* owned = new OwnedTensor{};
  const DLPackType type = dlpack_type(dtype_of(tensor));
  std::copy_n(tensor.sizes, tensor.rank, owned->sizes);
  std::copy_n(tensor.strides, tensor.rank, owned->strides);
  owned->managed = {{1, 0},
                    owned,
                    &delete_tensor,
                    0,
                    {tensor.data, dlpack::kCpu, 0, tensor.rank, type.code, type.bits, 1,
                     owned->sizes, owned->strides, 0}};
  void* object = nullptr;
  // The library owns the memory now; it may have freed it even if this fails.
  if (reader_.origin().api->managed_to_python(&owned->managed, &object) != 0) throw PythonError{};
  Ref made(static_cast<PyObject*>(object));
  if (reader_.origin().kind == Kind::Torch && torch_resizer != nullptr) torch_resizer(made.get());
  return made;
}

}  // namespace pto::bindings
