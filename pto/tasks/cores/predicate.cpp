// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "pto/isa/element/numeric.hpp"
#include "pto/tasks/cores/task.hpp"

namespace pto {
namespace {

template <class T>
bool compared(const Predicate& predicate) {
  T element;
  __builtin_memcpy(&element, predicate.element, sizeof(T));
  // It holds any i64 and u64, which a double rounds.
  const auto value = static_cast<long double>(isa::Compute<T>(element));
  const auto than = static_cast<long double>(predicate.value);
  switch (predicate.compare) {
    case Compare::Equal:
      return value == than;
    case Compare::NotEqual:
      return value != than;
    case Compare::Less:
      return value < than;
    case Compare::LessEqual:
      return value <= than;
    case Compare::Greater:
      return value > than;
    default:
      return value >= than;
  }
}

}  // namespace

bool holds(const Predicate& predicate) {
  if (predicate.element == nullptr) return true;
  const bool is_float = predicate.type_code == 2;
  switch (predicate.type_bits) {
    case 8:
      return predicate.type_code == 0 ? compared<int8_t>(predicate) : compared<uint8_t>(predicate);
    case 16:
      if (is_float) return compared<isa::half>(predicate);
      if (predicate.type_code == 4) return compared<isa::bfloat16_t>(predicate);
      return predicate.type_code == 0 ? compared<int16_t>(predicate)
                                      : compared<uint16_t>(predicate);
    case 32:
      return is_float                   ? compared<float>(predicate)
             : predicate.type_code == 0 ? compared<int32_t>(predicate)
                                        : compared<uint32_t>(predicate);
    default:
      return is_float                   ? compared<double>(predicate)
             : predicate.type_code == 0 ? compared<int64_t>(predicate)
                                        : compared<uint64_t>(predicate);
  }
}

}  // namespace pto
