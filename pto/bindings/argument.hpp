// SPDX-License-Identifier: Apache-2.0
// ArgumentReader: reads the tensors of a call where they lie, without copies.
//
//     ArgumentReader reader(policy, function);
//     reader.read(object, name, reader.record(object));
//     reader.tensors();   // what a Call takes
//
// Torch tensors come through the adapter's reader where it is loaded, else through DLPack's C
// exchange API, NumPy arrays through the buffer protocol, all else with __dlpack__ through its
// capsule. A tensor on another device, without memory, of an unknown element type or misaligned is
// refused with a text. A torch tensor that PyTorch itself must handle throws ForLibrary.
// Invariant: sizes, strides and data stay valid while the reader lives.
// Thread safety: needs Python's lock; one reader belongs to one call.
#pragma once

#include <Python.h>

#include <array>
#include <functional>
#include <span>
#include <string>
#include <utility>

#include "pto/abi/limits.h"
#include "pto/bindings/dlpack.hpp"
#include "pto/launch/signature.hpp"

namespace pto::bindings {

// How objects of a type are taken; the policy's classify(type) returns the number.
enum class Kind : int {
  Unknown,      // refused
  Constant,     // bool, int, float, str, None and tuples of them: part of the compilation key
  Traced,       // the call happens inside another traced function
  Torch,        // exchange API, with PyTorch's flags to check
  Exchange,     // exchange API
  Numpy,        // buffer protocol
  Dlpack,       // __dlpack__
  Library,      // only its library can compute with it: a call goes through the library's operator
  NumpyNumber,  // beside arrays a constant, its item(); else as an array
  Structure     // a dataclass of constants
};

// A Python error is set; unwinds to the entry point.
struct PythonError {};

// Thrown for a tensor that makes PyTorch itself call the operator: it requires grad, lies on
// another device or at no multiple of its element size, stands for other tensors, ...
struct ForLibrary {};

// An owned reference.
class Ref {
 public:
  Ref() = default;
  explicit Ref(PyObject* owned) : object_(owned) {}
  Ref(Ref&& other) noexcept : object_(other.release()) {}
  Ref& operator=(Ref&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() { Py_XDECREF(object_); }

  PyObject* get() const { return object_; }
  PyObject* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_ = nullptr;
};

// Returns the object, or throws PythonError for null.
inline Ref checked(PyObject* owned) {
  if (owned == nullptr) throw PythonError{};
  return Ref(owned);
}

// The kind of a type; looked up once and kept.
struct TypeRecord {
  Kind kind;
  const dlpack::ExchangeApi* api;
};

// Returns the name "out".
PyObject* out_label();

// Sets *read and returns 1 for a torch tensor of which PyTorch asks nothing but its memory.
using TorchReader = int32_t (*)(PyObject* tensor, pto_tensor_ref* read);
void set_torch_reader(TorchReader reader);

class ArgumentReader {
 public:
  // `policy` is the Python object that decides, and words refusals: classify(type),
  // refuse(function, name, value, reason, detail), convert(value), numpy_ndarray(),
  // numpy_type(name).
  ArgumentReader(PyObject* policy, PyObject* function) : policy_(policy), function_(function) {}
  ~ArgumentReader();
  ArgumentReader(const ArgumentReader&) = delete;
  ArgumentReader& operator=(const ArgumentReader&) = delete;

  TypeRecord record(PyObject* object) const;

  // Says whether a framework's adapter takes calls with this object, by policy.adapter(type).
  bool has_adapter(PyObject* object) const;

  // Adds a tensor; `name` is that of the parameter, for texts. Throws PythonError; for a torch
  // tensor also ForLibrary.
  void read(PyObject* object, PyObject* name, TypeRecord record, bool writable = false);

  // Reads the arrays that `out=` names: a tuple of `count`, which the caller keeps, of the library
  // of `inputs`.
  void read_targets(PyObject* arrays, size_t count, PyObject* out, const ArgumentReader& inputs);

  // Refuses an array to write to, if its elements share memory with each other or with `others`,
  // which name_of names by their places.
  void check_target(const pto_tensor_ref& target, PyObject* name, PyObject* object,
                    std::span<const pto_tensor_ref> others,
                    const std::function<std::string(size_t)>& name_of) const;

  // Says whether the elements of a tensor that was read may be changed: not where that is unknown.
  bool may_write(size_t tensor) const;

  std::span<const pto_tensor_ref> tensors() const { return {tensors_.data(), size_t(count_)}; }

  // Says whether arrays of this kind belong to the library of those read so far.
  bool same_library(TypeRecord record) const {
    const auto of = [](Kind kind) { return kind == Kind::NumpyNumber ? Kind::Numpy : kind; };
    return of(record.kind) == of(origin_.kind) && record.api == origin_.api;
  }

  // Returns the kind of the first tensor read: results go to its library.
  TypeRecord origin() const { return origin_; }
  PyObject* first() const { return first_; }

  // Raises the policy's text for a reason and throws PythonError.
  [[noreturn]] void refuse(PyObject* name, PyObject* value, const char* reason,
                           const char* detail = "") const;

 private:
  void read_torch(PyObject* object, PyObject* name, const dlpack::ExchangeApi* api);
  void read_exchange(PyObject* object, PyObject* name, const dlpack::ExchangeApi* api);
  void read_buffer(PyObject* object, PyObject* name, bool writable);
  void read_capsule(PyObject* object, PyObject* name, bool writable);
  void check_torch(PyObject* object) const;
  void take(const dlpack::Tensor& tensor, PyObject* name, PyObject* object);
  void finish(PyObject* name, PyObject* object);
  void keep(PyObject* owned) { kept_[kept_count_++] = owned; }

  PyObject* policy_;
  PyObject* function_;
  TypeRecord origin_{Kind::Unknown, nullptr};
  PyObject* first_ = nullptr;
  int count_ = 0, buffer_count_ = 0, kept_count_ = 0;
  std::array<pto_tensor_ref, PTO_MAX_TENSORS> tensors_;
  std::array<int64_t[PTO_MAX_RANK], PTO_MAX_TENSORS> sizes_, strides_;
  std::array<Py_buffer, PTO_MAX_TENSORS> buffers_;
  std::array<PyObject*, 2 * PTO_MAX_TENSORS> kept_;
};

}  // namespace pto::bindings
