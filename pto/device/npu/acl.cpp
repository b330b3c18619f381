// SPDX-License-Identifier: Apache-2.0
#include "pto/abi/acl.h"

#include <cstdint>
#include <cstring>
#include <new>
#include <string>

#include "pto/abi/device_queue.h"
#include "pto/abi/host.h"
#include "pto/base/error.hpp"
#include "pto/launch/extents.hpp"
#include "pto/launch/launch.hpp"

namespace pto {
namespace {

aclError refuse(aclError code, ErrorText text) {
  set_last_error(Error(std::move(text)).what());
  return code;
}

aclError check_device(const char* call, int device) {
  if (device >= 0) return ACL_SUCCESS;
  return refuse(ACL_ERROR_INVALID_PARAM, {std::string(call) + ": device " + std::to_string(device),
                                          "devices are numbered from 0", "pass 0"});
}

constexpr size_t kAclUnit = 32;

// Allocates zeroed memory: `bytes` rounded up to the unit, plus `more`.
aclError allocate(const char* call, void** pointer, size_t bytes, size_t more) {
  if (pointer == nullptr || bytes == 0) {
    return refuse(ACL_ERROR_INVALID_PARAM,
                  {std::string(call) + ": " + std::to_string(bytes) + " bytes" +
                       (pointer == nullptr ? " for a null pointer" : ""),
                   "the call stores the address of at least one byte", "pass &pointer and a size"});
  }
  const bool is_possible = bytes <= SIZE_MAX - 2 * kAclUnit;
  const size_t all = is_possible ? (bytes + kAclUnit - 1) / kAclUnit * kAclUnit + more : 0;
  *pointer = is_possible ? pto_malloc(all) : nullptr;
  if (*pointer == nullptr) {
    return refuse(
        ACL_ERROR_BAD_ALLOC,
        {std::string(call) + ": no memory for " + std::to_string(bytes) + " bytes",
         "the system has no free block of that size", "free some memory, or ask for less"});
  }
  std::memset(*pointer, 0, all);
  pto_register_range(*pointer, all);
  return ACL_SUCCESS;
}

}  // namespace
}  // namespace pto

aclError aclInit(const char*) { return ACL_SUCCESS; }
aclError aclFinalize(void) { return ACL_SUCCESS; }
aclError aclrtSetDevice(int device) { return pto::check_device("aclrtSetDevice", device); }
aclError aclrtResetDevice(int device) { return pto::check_device("aclrtResetDevice", device); }

aclError aclrtMalloc(void** pointer, size_t bytes, aclrtMemMallocPolicy) {
  return pto::allocate("aclrtMalloc", pointer, bytes, pto::kAclUnit);
}

aclError aclrtMallocAlign32(void** pointer, size_t bytes, aclrtMemMallocPolicy) {
  return pto::allocate("aclrtMallocAlign32", pointer, bytes, 0);
}

aclError aclrtMallocHost(void** pointer, size_t bytes) {
  return aclrtMalloc(pointer, bytes, ACL_MEM_MALLOC_NORMAL_ONLY);
}

aclError aclrtFree(void* pointer) {
  if (pointer == nullptr || !pto::process_extents().remove(pointer)) {
    return pto::refuse(
        ACL_ERROR_INVALID_PARAM,
        {pointer == nullptr ? "aclrtFree: a null pointer"
                            : "aclrtFree: this is no live block of aclrtMalloc",
         "aclrtFree frees what aclrtMalloc returned, and only once", "free each block once"});
  }
  pto_free(pointer);
  return ACL_SUCCESS;
}

aclError aclrtFreeHost(void* pointer) { return aclrtFree(pointer); }

aclError aclrtMemcpy(void* destination, size_t capacity, const void* source, size_t bytes,
                     aclrtMemcpyKind) {
  if (bytes > capacity) {
    return pto::refuse(ACL_ERROR_INVALID_PARAM,
                       {"aclrtMemcpy: " + std::to_string(bytes) + " bytes into a destination of " +
                            std::to_string(capacity),
                        "the copy would run over the end of the destination",
                        "copy at most what the destination holds"});
  }
  if (bytes > 0 && (destination == nullptr || source == nullptr)) {
    return pto::refuse(ACL_ERROR_INVALID_PARAM,
                       {"aclrtMemcpy: a null pointer", "the call copies between two blocks",
                        "allocate both with aclrtMalloc"});
  }
  if (bytes > 0) std::memmove(destination, source, bytes);
  return ACL_SUCCESS;
}

aclError aclrtMemset(void* block, size_t capacity, int value, size_t bytes) {
  if (bytes > capacity || (bytes > 0 && block == nullptr)) {
    return pto::refuse(
        ACL_ERROR_INVALID_PARAM,
        {"aclrtMemset: " + std::to_string(bytes) + " bytes of a block of " +
             std::to_string(capacity) + (block == nullptr ? ", a null pointer" : ""),
         "the call would run over the end of the block", "set at most what the block holds"});
  }
  if (bytes > 0) std::memset(block, value, bytes);
  return ACL_SUCCESS;
}

// A stream's handle is the address of a byte of its own; only its identity matters.
aclError aclrtCreateStream(aclrtStream* stream) {
  if (stream == nullptr) {
    return pto::refuse(ACL_ERROR_INVALID_PARAM, {"aclrtCreateStream: a null pointer",
                                                 "the call stores the stream at the address",
                                                 "pass the address of an aclrtStream"});
  }
  *stream = new (std::nothrow) char;
  return *stream != nullptr ? ACL_SUCCESS : ACL_ERROR_BAD_ALLOC;
}

aclError aclrtDestroyStream(aclrtStream stream) {
  if (pto_device_of_stream(stream) >= 0) return ACL_SUCCESS;  // belongs to its device
  delete static_cast<char*>(stream);
  return ACL_SUCCESS;
}

aclError aclrtSynchronizeStream(aclrtStream stream) {
  if (pto_device_of_stream(stream) < 0) return ACL_SUCCESS;  // every launch has run
  return pto_device_wait(stream) == 0 ? ACL_SUCCESS : ACL_ERROR_RT_FAILURE;
}
