// SPDX-License-Identifier: Apache-2.0
// The public runtime library's calls for the CPU: memory of the host, and streams that are done
// when a call returns.
//
//     namespace rt = infini::rt::runtime;
//     infini::rt::set_runtime_device_type(infini::rt::Device::Type::kCpu);
//     void* memory = nullptr;
//     if (rt::Malloc(&memory, 1024) == rt::kSuccess) rt::Free(memory);
//
// Sizes count bytes. A call that cannot be done returns another status than kSuccess.
//
// Thread safety: every function may be called from any thread.
#pragma once

#include "infini/tensor_view.h"

namespace infini::rt {

// Chooses the device of runtime's calls; it has to be the CPU.
inline void set_runtime_device_type(Device::Type type) {
  if (type != Device::Type::kCpu)
    throw pto::aten::Error(
        "the runtime of device " + std::string(Device::StringFromType(type)),
        "kernels and memory of this library are the CPU's", "choose Device::Type::kCpu");
}
inline Device::Type runtime_device_type() { return Device::Type::kCpu; }

namespace runtime {

using Error = int;
using Stream = void*;
enum MemcpyKind {
  kMemcpyHostToHost,
  kMemcpyHostToDevice,
  kMemcpyDeviceToHost,
  kMemcpyDeviceToDevice
};
inline constexpr Error kSuccess = 0, kInvalidValue = 1, kOutOfMemory = 2;

inline Error SetDevice(int device) { return device == 0 ? kSuccess : kInvalidValue; }
inline Error GetDevice(int* device) { return *device = 0, kSuccess; }
inline Error GetDeviceCount(int* count) { return *count = 1, kSuccess; }
inline Error DeviceSynchronize() { return kSuccess; }

inline Error Malloc(void** memory, std::size_t bytes) {
  *memory = std::malloc(bytes ? bytes : 1);
  return *memory ? kSuccess : kOutOfMemory;
}
inline Error Free(void* memory) { return std::free(memory), kSuccess; }
inline Error Memcpy(void* to, const void* from, std::size_t bytes, MemcpyKind) {
  if (bytes && (!to || !from)) return kInvalidValue;
  if (bytes) std::memmove(to, from, bytes);
  return kSuccess;
}
inline Error Memset(void* memory, int value, std::size_t bytes) {
  if (bytes && !memory) return kInvalidValue;
  if (bytes) std::memset(memory, value, bytes);
  return kSuccess;
}
inline Error MallocHost(void** memory, std::size_t bytes) { return Malloc(memory, bytes); }
inline Error MallocAsync(void** memory, std::size_t bytes, Stream) { return Malloc(memory, bytes); }
inline Error FreeHost(void* memory) { return Free(memory); }
inline Error FreeAsync(void* memory, Stream) { return Free(memory); }
inline Error MemcpyAsync(void* to, const void* from, std::size_t bytes, MemcpyKind kind, Stream) {
  return Memcpy(to, from, bytes, kind);
}
inline Error MemsetAsync(void* memory, int value, std::size_t bytes, Stream) {
  return Memset(memory, value, bytes);
}

inline Error StreamCreate(Stream* stream) { return *stream = nullptr, kSuccess; }
inline Error StreamDestroy(Stream) { return kSuccess; }
inline Error StreamSynchronize(Stream) { return kSuccess; }

}  // namespace runtime
}  // namespace infini::rt
