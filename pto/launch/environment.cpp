// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <cstdlib>

#include "pto/abi/host.h"

uint32_t pto_environment_number(const char* name, uint32_t otherwise) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text < '0' || *text > '9') return otherwise;
  char* end = nullptr;
  errno = 0;
  const unsigned long value = std::strtoul(text, &end, 10);
  const bool is_number = *end == '\0' && errno == 0 && value > 0 && value <= UINT32_MAX;
  return is_number ? static_cast<uint32_t>(value) : otherwise;
}
