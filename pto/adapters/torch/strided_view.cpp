// SPDX-License-Identifier: Apache-2.0
// strided_view(x, sizes, strides, offset): x.as_strided() of plain tensors, for the steps of
// compiled graphs that only read. PyTorch's method parses its arguments and goes through its
// dispatcher, which takes five times as long.
//
// Errors: those of as_strided, which takes all else.
// Thread safety: any thread that holds Python's lock.
#include <torch/csrc/autograd/python_variable.h>

#include <array>
#include <cstdint>
#include <optional>
#include <utility>

#include "pto/abi/limits.h"
#include "pto/adapters/torch/plain_tensor.hpp"

namespace pto::torch_adapter {
namespace {

struct Numbers {
  std::array<int64_t, PTO_MAX_RANK> all;
  size_t count = 0;
  c10::IntArrayRef span() const { return {all.data(), count}; }
};

// Returns nothing unless it is a tuple of few numbers that are not negative.
std::optional<Numbers> numbers_of(PyObject* tuple) {
  Numbers found;
  if (!PyTuple_CheckExact(tuple) || PyTuple_GET_SIZE(tuple) > PTO_MAX_RANK) return std::nullopt;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
    PyObject* const one = PyTuple_GET_ITEM(tuple, i);
    int overflow = 0;
    const int64_t number =
        PyLong_CheckExact(one) ? PyLong_AsLongLongAndOverflow(one, &overflow) : -1;
    if (number < 0 || overflow != 0) return std::nullopt;
    found.all[found.count++] = number;
  }
  return found;
}

// Says whether all elements lie in the memory of the tensor.
bool is_inside(const c10::TensorImpl& one, const Numbers& sizes, const Numbers& strides,
               int64_t offset) {
  int64_t last = offset;
  for (size_t axis = 0; axis < sizes.count; ++axis) {
    int64_t step = 0;
    if (sizes.all[axis] == 0) return false;  // as_strided knows what is allowed
    if (__builtin_mul_overflow(sizes.all[axis] - 1, strides.all[axis], &step) ||
        __builtin_add_overflow(last, step, &last))
      return false;
  }
  const auto bytes = one.unsafe_storage().nbytes();
  return static_cast<uint64_t>(last) < bytes / one.itemsize();
}

PyObject* view_of(PyObject* const* args) {
  if (!THPVariable_CheckExact(args[0]) || !PyLong_CheckExact(args[3])) return nullptr;
  const at::Tensor& tensor = THPVariable_Unpack(args[0]);
  const auto sizes = numbers_of(args[1]), strides = numbers_of(args[2]);
  int overflow = 0;
  const int64_t offset = PyLong_AsLongLongAndOverflow(args[3], &overflow);
  if (!sizes || !strides || sizes->count != strides->count || overflow != 0 || offset < 0)
    return nullptr;
  c10::TensorImpl& one = *tensor.unsafeGetTensorImpl();
  if (!is_plain_tensor(tensor) || !one.has_storage() || !is_inside(one, *sizes, *strides, offset))
    return nullptr;
  auto made = c10::make_intrusive<c10::TensorImpl>(c10::Storage(one.unsafe_storage()),
                                                   one.key_set(), one.dtype());
  made->set_sizes_and_strides(sizes->span(), strides->span(), offset);
  if (!one.is_inference()) made->set_version_counter(one.version_counter());
  return THPVariable_Wrap(at::Tensor(std::move(made)));
}

PyObject* strided_view(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count != 4) {
    PyErr_Format(PyExc_TypeError, "strided_view takes 4 arguments, not %zd", count);
    return nullptr;
  }
  if (PyObject* const view = view_of(args)) return view;
  if (PyErr_Occurred()) return nullptr;
  return PyObject_CallMethod(args[0], "as_strided", "OOO", args[1], args[2], args[3]);
}

}  // namespace
}  // namespace pto::torch_adapter

extern "C" PyObject* pto_torch_strided_view() {
  static PyMethodDef method = {
      "strided_view",
      reinterpret_cast<PyCFunction>(
          reinterpret_cast<void (*)()>(&pto::torch_adapter::strided_view)),
      METH_FASTCALL, "strided_view(x, sizes, strides, offset): as_strided of what is only read."};
  return PyCFunction_New(&method, nullptr);
}
