// SPDX-License-Identifier: Apache-2.0
#include "pto/bindings/results.hpp"

#include <string>

namespace pto::bindings {
namespace {

// For NumPy: an object that exports its memory through the buffer protocol.
struct OwnedBuffer {
  PyObject_HEAD void* data;
  const char* format;
  Py_ssize_t rank, item_bytes, bytes;
  Py_ssize_t sizes[Program::kMaxRank], strides[Program::kMaxRank];
};

PyTypeObject* owned_buffer_type = nullptr;

void buffer_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  pto_free(reinterpret_cast<OwnedBuffer*>(self)->data);
  type->tp_free(self);
  Py_DECREF(type);
}

int buffer_get(PyObject* self, Py_buffer* view, int) {
  auto* owner = reinterpret_cast<OwnedBuffer*>(self);
  *view = {};
  view->obj = Py_NewRef(self);
  view->buf = owner->data;
  view->len = owner->bytes;
  view->itemsize = owner->item_bytes;
  view->ndim = static_cast<int>(owner->rank);
  view->format = const_cast<char*>(owner->format);
  view->shape = owner->sizes;
  view->strides = owner->strides;
  return 0;
}

PyType_Slot kBufferSlots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(&buffer_dealloc)},
                              {Py_bf_getbuffer, reinterpret_cast<void*>(&buffer_get)},
                              {0, nullptr}};
PyType_Spec kBufferSpec = {"pto._core.OwnedBuffer", sizeof(OwnedBuffer), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, kBufferSlots};

// bf16 travels as its 16 bits; the policy gives it its type.
const char* format_of(DType dtype) {
  static constexpr const char* kFormats[kDTypes] = {"?", "b", "h", "i", "q", "B", "H",
                                                    "I", "Q", "e", "H", "f", "d"};
  return kFormats[static_cast<int>(dtype)];
}

// For DLPack: the tensor with its sizes and strides in one allocation.
struct OwnedTensor {
  dlpack::ManagedVersioned managed;
  int64_t sizes[Program::kMaxRank], strides[Program::kMaxRank];
};

void delete_tensor(dlpack::ManagedVersioned* managed) {
  pto_free(managed->tensor.data);
  delete static_cast<OwnedTensor*>(managed->context);
}

template <class T>
void dense_strides(std::span<const int64_t> sizes, int64_t unit, T* strides) {
  int64_t step = unit;
  for (size_t axis = sizes.size(); axis-- > 0; step *= std::max<int64_t>(sizes[axis], 1))
    strides[axis] = static_cast<T>(step);
}

}  // namespace

Results::~Results() {
  for (int i = 0; i < count_; ++i) pto_free(pointers_[i]);
}

void Results::allocate(const Program& program, const Call& call) {
  int outputs = static_cast<int>(program.spec().outputs.size());
  for (; count_ < outputs; ++count_) {
    int64_t bytes = call.output_bytes(count_);
    pointers_[count_] = pto_malloc(static_cast<size_t>(std::max<int64_t>(bytes, 1)));
    if (pointers_[count_] == nullptr) {
      PyErr_Format(PyExc_MemoryError, "%s: output %d needs %lld bytes and there is no memory left",
                   program.spec().name.c_str(), count_, static_cast<long long>(bytes));
      throw PythonError{};
    }
  }
}

PyObject* Results::arrays(const Program& program, const Call& call, bool single) {
  const auto& outputs = program.spec().outputs;
  auto one = [&](int i) {
    return array(i, outputs[static_cast<size_t>(i)].dtype, call.output_sizes(i),
                 call.output_bytes(i));
  };
  if (single) return one(0).release();
  Ref all = checked(PyTuple_New(count_));
  for (int i = 0; i < count_; ++i) PyTuple_SET_ITEM(all.get(), i, one(i).release());
  return all.release();
}

Ref Results::array(int output, DType dtype, std::span<const int64_t> sizes, int64_t bytes) {
  if (reader_.origin().api != nullptr) return exchange(output, dtype, sizes);
  Ref made = buffer(output, dtype, sizes, bytes);
  if (reader_.origin().kind != Kind::Dlpack) return made;
  return checked(PyObject_CallMethod(policy_, "as_library", "OO", made.get(), reader_.first()));
}

Ref Results::exchange(int output, DType dtype, std::span<const int64_t> sizes) {
  auto* owned = new OwnedTensor{};
  DLPackType type = dlpack_type(dtype);
  std::copy(sizes.begin(), sizes.end(), owned->sizes);
  dense_strides(sizes, 1, owned->strides);
  owned->managed = {{1, 0},
                    owned,
                    &delete_tensor,
                    0,
                    {pointers_[output], dlpack::kCpu, 0, static_cast<int32_t>(sizes.size()),
                     type.code, type.bits, 1, owned->sizes, owned->strides, 0}};
  void* object = nullptr;
  int failed = reader_.origin().api->managed_to_python(&owned->managed, &object);
  pointers_[output] = nullptr;  // the library's, which also where it failed may have freed it
  if (failed != 0) throw PythonError{};
  return Ref(static_cast<PyObject*>(object));
}

Ref Results::buffer(int output, DType dtype, std::span<const int64_t> sizes, int64_t bytes) {
  Ref owner = checked(owned_buffer_type->tp_alloc(owned_buffer_type, 0));
  auto* buffer = reinterpret_cast<OwnedBuffer*>(owner.get());
  buffer->data = std::exchange(pointers_[output], nullptr);
  buffer->format = format_of(dtype);
  buffer->rank = static_cast<Py_ssize_t>(sizes.size());
  buffer->item_bytes = pto::bytes(dtype);
  buffer->bytes = bytes;
  std::copy(sizes.begin(), sizes.end(), buffer->sizes);
  dense_strides(sizes, buffer->item_bytes, buffer->strides);
  static PyObject* const asarray = PyUnicode_InternFromString("asarray");
  static PyObject* const typed = PyUnicode_InternFromString("typed");
  if (dtype == DType::BF16) return checked(PyObject_CallMethodOneArg(policy_, typed, owner.get()));
  return checked(PyObject_CallMethodOneArg(policy_, asarray, owner.get()));
}

bool prepare_result_type() {
  owned_buffer_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&kBufferSpec));
  return owned_buffer_type != nullptr;
}

}  // namespace pto::bindings
