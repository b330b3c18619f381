// SPDX-License-Identifier: Apache-2.0
// Numbers: scalars with their kinds, on their way to the parameters of kernels.
//
//     const Numbers numbers(bits, kinds);                       // a run's; kinds may be missing
//     uint64_t slot = slot_for(parameter, {bits[0], PTO_NUMBER_SIGNED}, {"scale", 0});
//
// An integer goes to a floating-point parameter that holds it exactly, a floating-point number to
// no integer; bits are taken as they are. A number that does not fit is a TypeError, or a
// ValueError where another number of its kind would fit.
//
// Thread safety: the table of exported kernels may be used from any thread, all else are values.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "pto/abi/parameter.h"

namespace pto {

struct ScalarNumber {
  uint64_t bits;
  uint8_t kind;  // PTO_NUMBER_...
};

// The numbers of a run or a task. Without kinds all are PTO_NUMBER_ANY.
class Numbers {
 public:
  Numbers() = default;
  Numbers(std::span<const uint64_t> bits, std::span<const uint8_t> kinds = {})
      : bits_(bits), kinds_(kinds) {}
  template <class Bits>
  requires std::convertible_to<const Bits&, std::span<const uint64_t>> Numbers(const Bits& bits)
      : bits_(bits) {}

  size_t size() const { return bits_.size(); }
  bool empty() const { return bits_.empty(); }
  ScalarNumber operator[](size_t i) const { return {bits_[i], kind(i)}; }
  uint8_t kind(size_t i) const { return i < kinds_.size() ? kinds_[i] : uint8_t(PTO_NUMBER_ANY); }
  std::span<const uint64_t> bits() const { return bits_; }

 private:
  std::span<const uint64_t> bits_;
  std::span<const uint8_t> kinds_;
};

// The subject of an error: "scale: scalar 0".
struct NumberPlace {
  const char* callee;
  size_t index;
};

// Converts the number to the slot of `parameter`, which must be no pointer.
uint64_t slot_for(const pto_parameter& parameter, ScalarNumber number, const NumberPlace& place);

// Reads a number of the run as an int64, or as the bits of a double (PTO_NUMBER_REAL), for the
// orchestration; `reader` is the function that it called.
uint64_t read_as(uint8_t kind, ScalarNumber number, size_t index, const char* reader);

// Print "4 (float64)", and "float64".
std::string text_of(ScalarNumber number);
const char* kind_name(uint8_t kind);

// Returns the parameters that are no pointers; nothing for a kernel that nobody exported.
std::optional<std::vector<pto_parameter>> exported_numbers(pto_kernel kernel);

// True where the floating-point type holds the integer.
bool holds_exactly(const pto_parameter& real_type, int64_t integer, bool is_unsigned);

bool is_integer_type(const pto_parameter& parameter);
double largest_real(const pto_parameter& real_type);
struct IntegerRange {
  int64_t least;
  uint64_t most;
};
IntegerRange range_of(const pto_parameter& integer_type);
std::string type_text(uint8_t code, uint8_t bits);  // "f32", or "void"

}  // namespace pto
