// SPDX-License-Identifier: Apache-2.0
#include "pto/launch/number.hpp"

#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <shared_mutex>

#include "pto/base/dtype.hpp"
#include "pto/base/error.hpp"

namespace pto {
namespace {

constexpr uint8_t kUnsignedCode = 1, kBfloatCode = 4, kBoolCode = 6;

// The kernels of loaded code, by their address.
struct ExportedKernels {
  std::shared_mutex mutex;
  std::map<pto_kernel, std::vector<pto_parameter>> numbers;
};

ExportedKernels& exported() {
  static ExportedKernels* const it = new ExportedKernels;  // kernels are withdrawn at exit
  return *it;
}

bool is_real(uint8_t kind) { return kind == PTO_NUMBER_REAL || kind == PTO_NUMBER_FLOAT64; }

std::string text_of_real(double value) {
  char digits[40];
  std::snprintf(digits, sizeof digits, "%.9g", value);
  return digits;
}

[[noreturn]] void refuse(const pto_parameter& parameter, ScalarNumber number,
                         const NumberPlace& place, const std::string& why, const std::string& fix,
                         ErrorKind kind) {
  fail({std::string(place.callee) + ": scalar " + std::to_string(place.index) + " is " +
            text_of(number) + ", its parameter is " +
            type_text(parameter.type_code, parameter.type_bits),
        why, fix},
       kind);
}

// Reads the bits by which a caller names a floating-point number: a float32, or a float64 whose
// upper half is not 0.
double real_of_bits(uint64_t bits) {
  if (bits >> 32 != 0) return std::bit_cast<double>(bits);
  return double(std::bit_cast<float>(uint32_t(bits)));
}

uint64_t real_slot(const pto_parameter& parameter, ScalarNumber number, const NumberPlace& place) {
  double value = std::bit_cast<double>(number.bits);
  if (number.kind == PTO_NUMBER_BITS) value = real_of_bits(number.bits);
  if (number.kind == PTO_NUMBER_SIGNED || number.kind == PTO_NUMBER_UNSIGNED) {
    const bool is_unsigned = number.kind == PTO_NUMBER_UNSIGNED;
    if (!holds_exactly(parameter, int64_t(number.bits), is_unsigned))
      refuse(parameter, number, place,
             "an integer goes to a floating-point parameter where that holds it exactly",
             "pass a floating-point number if rounding is meant: double(x), float(x) in Python",
             ErrorKind::Type);
    value = is_unsigned ? double(number.bits) : double(int64_t(number.bits));
  }
  if (std::isfinite(value) && std::fabs(value) > largest_real(parameter))
    refuse(parameter, number, place,
           "the largest " + type_text(parameter.type_code, parameter.type_bits) + " is " +
               text_of_real(largest_real(parameter)),
           "pass a smaller number, or widen the parameter", ErrorKind::Value);
  return std::bit_cast<uint64_t>(value);
}

uint64_t integer_slot(const pto_parameter& parameter, ScalarNumber number,
                      const NumberPlace& place) {
  if (is_real(number.kind))
    refuse(parameter, number, place, "a floating-point number is not converted to an integer",
           "pass an integer: int64_t(x), int(x) in Python; or declare the parameter as a float",
           ErrorKind::Type);
  const IntegerRange range = range_of(parameter);
  const auto value = int64_t(number.bits);
  const bool is_signed = number.kind != PTO_NUMBER_UNSIGNED &&
                         !(number.kind == PTO_NUMBER_BITS && parameter.type_code == kUnsignedCode);
  const bool fits = is_signed && value < 0 ? value >= range.least : number.bits <= range.most;
  if (!fits)
    refuse(parameter, number, place,
           "the parameter is a whole number from " + std::to_string(range.least) + " to " +
               std::to_string(range.most),
           "pass a number of that range, or widen the parameter", ErrorKind::Value);
  return number.bits;
}

}  // namespace

std::string type_text(uint8_t code, uint8_t bits) {
  constexpr uint8_t kComplex = 5;  // of DLPack
  const auto dtype = from_dlpack(code, bits);
  if (dtype) return std::string(name(*dtype));
  return code == kComplex ? "complex" + std::to_string(bits) : "void";
}

const char* kind_name(uint8_t kind) {
  const char* const names[] = {"bits",    "int64",   "uint64",
                               "float64", "float64", "bits, passed as a uint64"};
  return kind < std::size(names) ? names[kind] : "of no kind";
}

std::string text_of(ScalarNumber number) {
  std::string digits = std::to_string(number.bits);
  if (is_real(number.kind)) digits = text_of_real(std::bit_cast<double>(number.bits));
  if (number.kind == PTO_NUMBER_SIGNED) digits = std::to_string(int64_t(number.bits));
  return digits + " (" + kind_name(number.kind) + ")";
}

bool is_integer_type(const pto_parameter& parameter) {
  return parameter.type_code <= kUnsignedCode || parameter.type_code == kBoolCode;
}

IntegerRange range_of(const pto_parameter& type) {
  if (type.type_code == kBoolCode) return {0, 1};
  const int unused = 64 - type.type_bits;
  if (type.type_code == kUnsignedCode) return {0, UINT64_MAX >> unused};
  return {INT64_MIN >> unused, uint64_t(INT64_MAX >> unused)};
}

double largest_real(const pto_parameter& type) {
  if (type.type_bits == 64) return std::numeric_limits<double>::max();
  if (type.type_bits == 16) return type.type_code == kBfloatCode ? 0x1.FEp127 : 65504.0;
  return double(std::numeric_limits<float>::max());
}

bool holds_exactly(const pto_parameter& type, int64_t integer, bool is_unsigned) {
  const bool is_negative = !is_unsigned && integer < 0;
  const uint64_t size = is_negative ? 0 - uint64_t(integer) : uint64_t(integer);
  if (size == 0) return true;
  const int precision = type.type_bits == 64            ? 53
                        : type.type_bits == 32          ? 24
                        : type.type_code == kBfloatCode ? 8
                                                        : 11;
  const uint64_t odd = size >> std::countr_zero(size);
  return odd >> precision == 0 && double(size) <= largest_real(type);
}

uint64_t slot_for(const pto_parameter& parameter, ScalarNumber number, const NumberPlace& place) {
  if (number.kind == PTO_NUMBER_ANY) return number.bits;
  return is_integer_type(parameter) ? integer_slot(parameter, number, place)
                                    : real_slot(parameter, number, place);
}

uint64_t read_as(uint8_t kind, ScalarNumber number, size_t index, const char* reader) {
  if (number.kind == PTO_NUMBER_ANY) return number.bits;
  const bool wants_real = kind == PTO_NUMBER_REAL;
  if (wants_real == is_real(number.kind)) {
    if (wants_real || number.kind != PTO_NUMBER_UNSIGNED || int64_t(number.bits) >= 0)
      return number.bits;
  } else if (wants_real) {
    const pto_parameter wide{0, 0, 2, 64};
    const bool is_unsigned = number.kind == PTO_NUMBER_UNSIGNED;
    if (holds_exactly(wide, int64_t(number.bits), is_unsigned))
      return std::bit_cast<uint64_t>(is_unsigned ? double(number.bits)
                                                 : double(int64_t(number.bits)));
  }
  fail({std::string(reader) + " of scalar " + std::to_string(index) + ", which is " +
            text_of(number),
        wants_real ? "a double holds integers up to 2^53 exactly"
                   : "an int64 is read of an integer that it holds",
        wants_real ? "pass a float to run(), or read it as an integer"
                   : "pass an int to run(), or read it as a floating-point number"},
       ErrorKind::Type);
}

std::optional<std::vector<pto_parameter>> exported_numbers(pto_kernel kernel) {
  const std::shared_lock lock(exported().mutex);
  const auto it = exported().numbers.find(kernel);
  if (it == exported().numbers.end()) return std::nullopt;
  return it->second;
}

}  // namespace pto

void pto_export_kernel(pto_kernel kernel, const pto_signature* signature) {
  using namespace pto;
  const std::unique_lock lock(exported().mutex);
  if (signature == nullptr) {
    exported().numbers.erase(kernel);
    return;
  }
  std::vector<pto_parameter>& numbers = exported().numbers[kernel];
  numbers.clear();
  for (int32_t i = 0; i < signature->n_parameters; ++i)
    if (!signature->parameters[i].is_pointer) numbers.push_back(signature->parameters[i]);
}
