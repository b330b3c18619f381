// SPDX-License-Identifier: Apache-2.0
// Writes one float beyond a block of aclrtMalloc, which has 32 bytes more than a multiple of 32:
// AddressSanitizer must see it.
#include <pto/pto-inst.hpp>

int main() {
  void* memory = nullptr;
  if (aclrtMalloc(&memory, 7 * sizeof(float), ACL_MEM_MALLOC_HUGE_FIRST) != ACL_SUCCESS) return 1;
  static_cast<volatile float*>(memory)[16] = 1.0f;
  return 0;
}
