// SPDX-License-Identifier: Apache-2.0
#include "pto/base/dtype.hpp"

#include <array>

namespace pto {
namespace {

struct Row {
  std::string_view name, cpp;
  uint8_t code, bits;
};

constexpr uint8_t kInt = 0, kUnsigned = 1, kFloat = 2, kBfloat = 4, kBool = 6;

// Rows stand in the order of the enumeration.
constexpr std::array<Row, kDTypes> kRows{{{"bool", "bool", kBool, 8},
                                          {"i8", "int8_t", kInt, 8},
                                          {"i16", "int16_t", kInt, 16},
                                          {"i32", "int32_t", kInt, 32},
                                          {"i64", "int64_t", kInt, 64},
                                          {"u8", "uint8_t", kUnsigned, 8},
                                          {"u16", "uint16_t", kUnsigned, 16},
                                          {"u32", "uint32_t", kUnsigned, 32},
                                          {"u64", "uint64_t", kUnsigned, 64},
                                          {"f16", "half", kFloat, 16},
                                          {"bf16", "bfloat16_t", kBfloat, 16},
                                          {"f32", "float", kFloat, 32},
                                          {"f64", "double", kFloat, 64}}};

const Row& row(DType dtype) { return kRows[static_cast<size_t>(dtype)]; }

}  // namespace

std::string_view name(DType dtype) { return row(dtype).name; }
std::string_view cpp_name(DType dtype) { return row(dtype).cpp; }
int bytes(DType dtype) { return row(dtype).bits / 8; }
bool is_float(DType dtype) { return row(dtype).code == kFloat || row(dtype).code == kBfloat; }
bool is_signed(DType dtype) { return is_float(dtype) || row(dtype).code == kInt; }
bool is_integer(DType dtype) { return row(dtype).code == kInt || row(dtype).code == kUnsigned; }

std::optional<DType> parse_dtype(std::string_view name) {
  for (size_t i = 0; i < kRows.size(); ++i)
    if (kRows[i].name == name) return static_cast<DType>(i);
  return std::nullopt;
}

DLPackType dlpack_type(DType dtype) { return {row(dtype).code, row(dtype).bits}; }

std::optional<DType> from_dlpack(uint8_t code, uint8_t bits, uint16_t lanes) {
  for (size_t i = 0; i < kRows.size() && lanes == 1; ++i)
    if (kRows[i].code == code && kRows[i].bits == bits) return static_cast<DType>(i);
  return std::nullopt;
}

}  // namespace pto
