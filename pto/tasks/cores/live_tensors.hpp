// SPDX-License-Identifier: Apache-2.0
// LiveTensors: the memory that an orchestration may name, and whether a view lies inside it.
//
//     live.add(allocation);
//     live.check(view, "argument 0 of a task");     // throws Error, before anything is read
//     live.remove(allocation);                      // its scope has ended
//
// Invariant: no field of a view is used before it is checked; a view may hold any bits.
// Thread safety: none; only the orchestrating thread uses it.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_set>

#include "pto/abi/runtime_api.h"
#include "pto/tasks/cores/engine.hpp"

namespace pto {

class LiveTensors {
 public:
  // A copy of the fields of an allocation that every check reads.
  struct Known {
    const Allocation* allocation = nullptr;
    uintptr_t base = 0;
    int64_t bytes = 0;
  };

  void add(const Allocation* allocation) { all_.insert(allocation); }
  void remove(const Allocation* allocation) {
    all_.erase(allocation);
    recent(allocation) = {};
  }

  // Throws Error for a view outside all added memory; the text names it as `what`, or argument
  // `index`.
  const Known& check(const pto_view* view, const char* what, int32_t index = -1) {
    if (view == nullptr) [[unlikely]]
      fail_unknown(what, index);
    const auto* const allocation = static_cast<const Allocation*>(view->allocation);
    if (!is_live(allocation)) [[unlikely]]
      fail_unknown(what, index);
    const Known& known = recent(allocation);
    if (!is_inside(*view, known)) [[unlikely]]
      fail_outside(*view, known, what, index);
    return known;
  }
  bool is_live(const Allocation* allocation) {
    return (recent(allocation).allocation == allocation && allocation != nullptr) ||
           look_up(allocation);
  }

 private:
  static bool is_element_type(uint8_t bits) { return bits >= 8 && bits % 8 == 0 && bits <= 128; }
  static bool is_inside(const pto_view& view, const Known& known) {
    if (uint32_t(view.rank) > PTO_MAX_RANK || !is_element_type(view.type_bits)) return false;
    const int64_t item = view.type_bits / 8;
    int64_t low = 0, high = item;
    bool is_empty = false, is_wrong = false;
    for (int32_t k = 0; k < view.rank; ++k) {
      if (view.sizes[k] < 0) return false;
      is_empty |= view.sizes[k] == 0;
      int64_t reach = 0;
      is_wrong |= __builtin_mul_overflow(view.sizes[k] - 1, view.strides[k], &reach);
      is_wrong |= __builtin_mul_overflow(reach, item, &reach);
      int64_t& end = reach < 0 ? low : high;
      is_wrong |= __builtin_add_overflow(end, reach, &end);
    }
    if (is_empty || is_wrong) return is_empty;  // an empty view may begin anywhere
    const auto offset = int64_t(reinterpret_cast<uintptr_t>(view.data) - known.base);
    return offset >= 0 && offset <= known.bytes && low + offset >= 0 &&
           high <= known.bytes - offset;
  }
  bool look_up(const Allocation* allocation);
  [[noreturn]] static void fail_unknown(const char* what, int32_t index);
  [[noreturn]] static void fail_outside(const pto_view& view, const Known& known, const char* what,
                                        int32_t index);
  Known& recent(const Allocation* allocation) {
    return recent_[(reinterpret_cast<uintptr_t>(allocation) >> 6) % kRecent];
  }
  friend void check_element_type(uint8_t code, uint8_t bits);

  static constexpr size_t kRecent = 64;
  Known recent_[kRecent];  // a cache of the look-up
  std::unordered_set<const Allocation*> all_;
};

// Throws Error for an element type that is no whole number of bytes, or too large.
void check_element_type(uint8_t code, uint8_t bits);

}  // namespace pto
