// SPDX-License-Identifier: Apache-2.0
// XLA's foreign function interface: the part of its C API, version 0.x, that the handler uses.
//
//     extern "C" xla_ffi::Error* pto_xla_call(xla_ffi::CallFrame* frame);   // null: done
//
// Declared here, so that nothing of JAX or TensorFlow is needed to build; tests/test_jax_ops.py
// compares it with jaxlib's header. Source: https://openxla.org/xla/custom_call.
// Invariant: the layouts are those of versions 0.2 and 0.3, which agree on everything used here
// except StateArguments.
// Thread safety: plain values; any thread may call the functions of Api.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pto::xla_ffi {

inline constexpr int kMajorVersion = 0;
inline constexpr int kMinorVersion = 2;       // the lowest with all that is used
inline constexpr int kStateMinorVersion = 3;  // with StateArguments

struct Error;             // opaque; null is success
struct ExecutionContext;  // opaque

// xla::PrimitiveType
enum DataType : int32_t {
  kPred = 1,
  kS8 = 2,
  kS16 = 3,
  kS32 = 4,
  kS64 = 5,
  kU8 = 6,
  kU16 = 7,
  kU32 = 8,
  kU64 = 9,
  kF16 = 10,
  kF32 = 11,
  kF64 = 12,
  kBF16 = 16
};

enum ErrorCode : int32_t { kInvalidArgument = 3, kInternal = 13 };

struct Extension {
  size_t struct_size;
  int32_t type;
  Extension* next;
};
inline constexpr int32_t kMetadataExtension = 1;

struct Version {
  size_t struct_size;
  Extension* extensions;
  int32_t major, minor;
};

struct TypeId {
  int64_t number;  // 0: XLA assigns it
};

struct TypeInfo {
  size_t struct_size;
  Extension* extensions;
  void (*deleter)(void* object);
};

struct Metadata {
  size_t struct_size;
  Version version;
  uint32_t traits;
};

struct MetadataExtension {
  Extension base;
  Metadata* metadata;
};

struct Buffer {  // dense, row-major
  size_t struct_size;
  Extension* extensions;
  DataType dtype;
  void* data;
  int64_t rank;
  int64_t* sizes;
};

// Operands or results; type 1 is a Buffer, the only type.
struct Buffers {
  size_t struct_size;
  Extension* extensions;
  int64_t size;
  int32_t* types;
  Buffer** items;
};
inline constexpr int32_t kBufferType = 1;

struct Text {
  const char* data;
  size_t bytes;
};

struct Scalar {
  DataType dtype;
  const void* value;
};

struct Array {
  DataType dtype;
  size_t size;
  const void* data;
};

// The type of the value to which an attribute's void* points.
enum AttributeType : int32_t { kArray = 1, kDictionary = 2, kScalar = 3, kString = 4 };

struct Attributes {
  size_t struct_size;
  Extension* extensions;
  int64_t size;
  int32_t* types;
  Text** names;
  void** items;
};

struct CallFrame;

enum Stage : int32_t { kInstantiate = 0, kPrepare = 1, kInitialize = 2, kExecute = 3 };

struct CreateErrorArguments {
  size_t struct_size;
  Extension* extensions;
  const char* message;  // copied
  ErrorCode code;
};

struct DestroyErrorArguments {
  size_t struct_size;
  Extension* extensions;
  Error* error;
};

struct RegisterTypeArguments {
  size_t struct_size;
  Extension* extensions;
  Text name;
  TypeId* type;  // in and out
  const TypeInfo* info;
};

// Since version 0.3. `state` is what a call site keeps; the stage that makes the site sets it.
struct StateArguments {
  size_t struct_size;
  Extension* extensions;
  ExecutionContext* context;
  Stage stage;
  TypeId* type;
  void* state;  // in, or out
};

struct ScheduleArguments {
  size_t struct_size;
  Extension* extensions;
  ExecutionContext* context;
  void (*task)(void* data);
  void* data;
};

struct NumThreadsArguments {
  size_t struct_size;
  Extension* extensions;
  ExecutionContext* context;
  int64_t* threads;  // out
};

struct Api {
  size_t struct_size;
  Extension* extensions;
  Version version;
  const void* internal;
  Error* (*create_error)(CreateErrorArguments*);
  void* get_message;
  void (*destroy_error)(DestroyErrorArguments*);
  void* register_handler;
  void* stream;
  Error* (*register_type)(RegisterTypeArguments*);
  void* context_value;
  Error* (*set_state)(StateArguments*);
  Error* (*get_state)(StateArguments*);
  void* memory[2];
  Error* (*schedule)(ScheduleArguments*);
  Error* (*num_threads)(NumThreadsArguments*);
};

struct CallFrame {
  size_t struct_size;
  Extension* extensions;
  const Api* api;
  ExecutionContext* context;
  Stage stage;
  Buffers arguments;
  Buffers results;
  Attributes attributes;
};

}  // namespace pto::xla_ffi
