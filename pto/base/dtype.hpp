// SPDX-License-Identifier: Apache-2.0
// DType: the element types, with their names, sizes and DLPack codes; abi/dtypes.def lists them.
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

enum class DType : uint8_t {
#define PTO_DTYPE(id, ...) id,
#include "pto/abi/dtypes.def"
};

inline constexpr int kDTypes = 0
#define PTO_DTYPE(...) +1
#include "pto/abi/dtypes.def"
    ;

inline DType dtype_of(const pto_tensor_ref& tensor) { return static_cast<DType>(tensor.dtype); }

// Prints "bool", "i8" ... "f64"; parse_dtype() reads the same names, else returns nothing.
std::string_view name(DType dtype);
std::optional<DType> parse_dtype(std::string_view name);

// Returns the C++ element type in generated code: "float", "half", "int64_t", "bool".
std::string_view cpp_name(DType dtype);

// Returns the name in NumPy and the frameworks, "float32", and the letter of Python's buffers, "f".
std::string_view numpy_name(DType dtype);
const char* buffer_format(DType dtype);

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

// A framework's numbers of the element types, given in the order of DType. Mapped both ways.
class FrameworkTypes {
 public:
  template <class... Number>
  constexpr explicit FrameworkTypes(Number... theirs) : theirs_{static_cast<int32_t>(theirs)...} {
    static_assert(sizeof...(theirs) == kDTypes, "one number for each row of abi/dtypes.def");
    for (int8_t& one : ours_) one = -1;
    for (int i = 0; i < kDTypes; ++i) ours_[theirs_[i]] = static_cast<int8_t>(i);
  }

  // Returns a DType, or -1: no kernels for it.
  constexpr int32_t ours(int64_t theirs) const {
    return theirs >= 0 && theirs < kLimit ? ours_[theirs] : -1;
  }
  constexpr int32_t theirs(int32_t dtype) const { return theirs_[dtype]; }

 private:
  static constexpr int kLimit = 64;  // frameworks count their types from 0, and have fewer
  int32_t theirs_[kDTypes];
  int8_t ours_[kLimit] = {};
};

}  // namespace pto
