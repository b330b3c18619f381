// SPDX-License-Identifier: Apache-2.0
// DType: the element types, with their names, sizes and DLPack codes.
//
//     name(DType::F32) == "f32";
//     bytes(DType::F16) == 2;
//     parse_dtype("bf16") == DType::BF16;
//
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "pto/abi/tensor.h"

namespace pto {

enum class DType : uint8_t { Bool, I8, I16, I32, I64, U8, U16, U32, U64, F16, BF16, F32, F64 };

inline constexpr int kDTypes = 13;

inline DType dtype_of(const pto_tensor_ref& tensor) { return static_cast<DType>(tensor.dtype); }

// Prints "bool", "i8" ... "f64"; parse_dtype() reads the same names, else returns nothing.
std::string_view name(DType dtype);
std::optional<DType> parse_dtype(std::string_view name);

// Returns the C++ element type in generated code: "float", "half", "int64_t", "bool".
std::string_view cpp_name(DType dtype);

int bytes(DType dtype);
bool is_float(DType dtype);
bool is_signed(DType dtype);   // floating-point types and signed integers
bool is_integer(DType dtype);  // false for bool

// DLPack's type code (0 int, 1 unsigned, 2 float, 4 bfloat, 6 bool) and bits.
struct DLPackType {
  uint8_t code;
  uint8_t bits;
};
DLPackType dlpack_type(DType dtype);
std::optional<DType> from_dlpack(uint8_t code, uint8_t bits, uint16_t lanes = 1);

}  // namespace pto
