// SPDX-License-Identifier: Apache-2.0
// DLPack 1.3: the layouts that cross between array libraries, declared here because the project
// needs no more of it. Source: the specification, https://dmlc.github.io/dlpack.
//
//     dlpack::Tensor tensor;
//     if (api->borrow_from_python(object, &tensor) != 0) throw PythonError{};
//
// Invariant: the layouts are those of the specification.
// Thread safety: plain values.
#pragma once

#include <cstdint>

namespace pto::dlpack {

enum DeviceType : int32_t { kCpu = 1, kCudaHost = 3 };

struct Version {
  uint32_t major, minor;
};

struct Tensor {
  void* data;
  int32_t device_type, device_id;
  int32_t rank;
  uint8_t type_code, type_bits;
  uint16_t type_lanes;
  int64_t* sizes;
  int64_t* strides;  // in elements; null means row-major and dense
  uint64_t byte_offset;
};

struct Managed {  // in a capsule named "dltensor"
  Tensor tensor;
  void* context;
  void (*deleter)(Managed*);
};

inline constexpr uint64_t kReadOnly = 1, kIsCopied = 2;  // bits of ManagedVersioned::flags

struct ManagedVersioned {  // in a capsule named "dltensor_versioned"
  Version version;
  void* context;
  void (*deleter)(ManagedVersioned*);
  uint64_t flags;
  Tensor tensor;
};

// Attribute __dlpack_c_exchange_api__ of a tensor type: a capsule named "dlpack_exchange_api".
struct ExchangeApi {
  Version version;
  ExchangeApi* previous;
  int (*allocate)(Tensor*, ManagedVersioned**, void*, void (*)(void*, const char*, const char*));
  int (*managed_from_python)(void* object, ManagedVersioned** out);
  int (*managed_to_python)(ManagedVersioned* tensor, void** out_object);
  int (*borrow_from_python)(void* object, Tensor* out);
  int (*current_stream)(int32_t device_type, int32_t device_id, void** out);
};

}  // namespace pto::dlpack
