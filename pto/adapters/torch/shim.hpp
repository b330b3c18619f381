// SPDX-License-Identifier: Apache-2.0
// PyTorch's C shims, as far as the adapter uses them, declared by hand.
//
//     int64_t rank = 0;
//     check(aoti_torch_get_dim(tensor, &rank));
//
// They are PyTorch's stable ABI: libtorch_cpu.so of 2.13 or later has them, and nothing of PyTorch
// is needed to build against them. Source: the documentation of the stable ABI and the shim headers
// (torch/csrc/inductor/aoti_torch/c, torch/csrc/stable/c) of 2.13.
// Errors: a non-zero int32_t; torch_exception_get_what_without_backtrace() is its text on this
// thread.
// Invariant: a boxed kernel owns the tensors, strings and optionals of its stack and replaces them
// by its results.
// Thread safety: PyTorch's own.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pto::torch_adapter {

struct TensorObject;
struct LibraryObject;
struct StringObject;
struct ListObject;
using Boxed = uint64_t;  // a value of the stack
using BoxedKernel = void (*)(Boxed* stack, uint64_t inputs, uint64_t outputs);

// The version whose encoding of values we speak: major << 56 | minor << 48.
inline constexpr uint64_t kShimVersion = 0x020D000000000000;

}  // namespace pto::torch_adapter

extern "C" {
using pto::torch_adapter::Boxed;
using pto::torch_adapter::BoxedKernel;
using pto::torch_adapter::LibraryObject;
using pto::torch_adapter::ListObject;
using pto::torch_adapter::StringObject;
using pto::torch_adapter::TensorObject;

int32_t aoti_torch_library_init_fragment(const char* space, const char* file, uint32_t line,
                                         LibraryObject** library);
int32_t aoti_torch_library_init_impl(const char* space, const char* key, const char* file,
                                     uint32_t line, LibraryObject** library);
int32_t torch_library_def_with_tags(LibraryObject* library, const char* schema, const int32_t* tags,
                                    int32_t n_tags);
int32_t torch_library_impl(LibraryObject* library, const char* name, BoxedKernel kernel,
                           uint64_t version);

int32_t aoti_torch_get_dim(TensorObject* tensor, int64_t* rank);
int32_t aoti_torch_get_sizes(TensorObject* tensor, int64_t** sizes);
int32_t aoti_torch_get_strides(TensorObject* tensor, int64_t** strides);
int32_t aoti_torch_get_dtype(TensorObject* tensor, int32_t* dtype);
int32_t aoti_torch_get_device_type(TensorObject* tensor, int32_t* type);
int32_t aoti_torch_get_device_index(TensorObject* tensor, int32_t* index);
int32_t aoti_torch_new_tensor_handle(TensorObject* tensor, TensorObject** same);
int32_t torch_get_const_data_ptr(TensorObject* tensor, const void** data);
int32_t torch_get_mutable_data_ptr(TensorObject* tensor, void** data);
int32_t aoti_torch_delete_tensor_object(TensorObject* tensor);

int32_t aoti_torch_empty_strided(int64_t rank, const int64_t* sizes, const int64_t* strides,
                                 int32_t dtype, int32_t device_type, int32_t device_index,
                                 TensorObject** tensor);
int32_t torch_from_blob(void* data, int64_t rank, const int64_t* sizes, const int64_t* strides,
                        int64_t storage_offset, int32_t dtype, int32_t device_type,
                        int32_t device_index, TensorObject** tensor, int32_t layout,
                        const uint8_t* metadata, int64_t metadata_bytes,
                        void (*deleter)(void* data, void* context), void* context);

int32_t torch_new_string_handle(const char* text, size_t bytes, StringObject** string);
int32_t torch_string_length(StringObject* string, size_t* bytes);
int32_t torch_string_c_str(StringObject* string, const char** text);
int32_t torch_delete_string(StringObject* string);
int32_t torch_new_list_reserve_size(size_t size, ListObject** list);
int32_t torch_list_size(ListObject* list, size_t* size);
int32_t torch_list_get_item(ListObject* list, size_t index, Boxed* item);
int32_t torch_list_push_back(ListObject* list, Boxed item);
int32_t torch_delete_list(ListObject* list);
int32_t torch_delete_stable_ivalue(Boxed* value);

int32_t torch_call_dispatcher(const char* name, const char* overload, Boxed* stack,
                              uint64_t version);

int32_t torch_parallel_for(int64_t begin, int64_t end, int64_t grain,
                           void (*run)(int64_t begin, int64_t end, void* context), void* context);
int32_t torch_get_num_threads(uint32_t* threads);

const char* torch_exception_get_what_without_backtrace();

int32_t aoti_torch_device_type_cpu();
int32_t aoti_torch_device_type_cuda();
int32_t aoti_torch_device_type_meta();
int32_t aoti_torch_device_type_mps();
int32_t aoti_torch_device_type_xpu();
int32_t aoti_torch_device_type_privateuse1();
int32_t aoti_torch_layout_strided();
int32_t aoti_torch_dtype_bool();
int32_t aoti_torch_dtype_int8();
int32_t aoti_torch_dtype_int16();
int32_t aoti_torch_dtype_int32();
int32_t aoti_torch_dtype_int64();
int32_t aoti_torch_dtype_uint8();
int32_t aoti_torch_dtype_uint16();
int32_t aoti_torch_dtype_uint32();
int32_t aoti_torch_dtype_uint64();
int32_t aoti_torch_dtype_float16();
int32_t aoti_torch_dtype_bfloat16();
int32_t aoti_torch_dtype_float32();
int32_t aoti_torch_dtype_float64();
}
