// SPDX-License-Identifier: Apache-2.0
#include "pto/isa/acl.hpp"

#include <cstring>
#include <string>

#include "pto/base/error.hpp"
#include "pto/isa/host.hpp"
#include "pto/runtime/extents.hpp"
#include "pto/runtime/launch.hpp"

namespace pto {
namespace {

aclError refuse(aclError code, ErrorText text) {
  set_last_error(Error(std::move(text)).what());
  return code;
}

}  // namespace
}  // namespace pto

aclError aclrtMalloc(void** pointer, size_t bytes, aclrtMemMallocPolicy) {
  if (pointer == nullptr || bytes == 0) {
    return pto::refuse(ACL_ERROR_INVALID_PARAM,
                       {"aclrtMalloc: " + std::to_string(bytes) + " bytes" +
                            (pointer == nullptr ? " for a null pointer" : ""),
                        "it stores the address of at least one byte", "pass &pointer and a size"});
  }
  *pointer = pto_malloc(bytes);
  if (*pointer == nullptr) {
    return pto::refuse(ACL_ERROR_BAD_ALLOC,
                       {"aclrtMalloc: no memory for " + std::to_string(bytes) + " bytes",
                        "the system has no such block", "free some memory"});
  }
  pto_register_range(*pointer, bytes);
  return ACL_SUCCESS;
}

aclError aclrtFree(void* pointer) {
  if (pointer == nullptr || !pto::process_extents().remove(pointer)) {
    return pto::refuse(
        ACL_ERROR_INVALID_PARAM,
        {pointer == nullptr ? "aclrtFree: a null pointer"
                            : "aclrtFree: this is no live block of aclrtMalloc",
         "only what aclrtMalloc gave can be freed, and once", "free each block once"});
  }
  pto_free(pointer);
  return ACL_SUCCESS;
}

aclError aclrtMemcpy(void* destination, size_t capacity, const void* source, size_t bytes,
                     aclrtMemcpyKind) {
  if (bytes > capacity) {
    return pto::refuse(ACL_ERROR_INVALID_PARAM,
                       {"aclrtMemcpy: " + std::to_string(bytes) + " bytes into a destination of " +
                            std::to_string(capacity),
                        "the copy would run over its end", "copy at most what it holds"});
  }
  if (bytes > 0 && (destination == nullptr || source == nullptr)) {
    return pto::refuse(ACL_ERROR_INVALID_PARAM,
                       {"aclrtMemcpy: a null pointer", "it copies between two blocks",
                        "allocate both with aclrtMalloc"});
  }
  if (bytes > 0) std::memmove(destination, source, bytes);
  return ACL_SUCCESS;
}

aclError aclrtSynchronizeStream(aclrtStream) { return ACL_SUCCESS; }
