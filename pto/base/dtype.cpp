// SPDX-License-Identifier: Apache-2.0
#include "pto/base/dtype.hpp"

namespace pto {
namespace {

struct TypeRow {
  std::string_view name, cpp, numpy;
  const char* format;
  uint8_t code, bits;
};

constexpr uint8_t kInt = 0, kUnsigned = 1, kFloat = 2, kBfloat = 4;

constexpr TypeRow kRows[] = {
#define PTO_DTYPE(id, constant, name, code, bits, type, numpy, format) \
  {name, #type, #numpy, format, code, bits},
#include "pto/abi/dtypes.def"
};

const TypeRow& row(DType dtype) { return kRows[static_cast<size_t>(dtype)]; }

}  // namespace

std::string_view name(DType dtype) { return row(dtype).name; }
std::string_view cpp_name(DType dtype) { return row(dtype).cpp; }
std::string_view numpy_name(DType dtype) { return row(dtype).numpy; }
const char* buffer_format(DType dtype) { return row(dtype).format; }
int bytes(DType dtype) { return row(dtype).bits / 8; }
bool is_float(DType dtype) { return row(dtype).code == kFloat || row(dtype).code == kBfloat; }
bool is_signed(DType dtype) { return is_float(dtype) || row(dtype).code == kInt; }
bool is_integer(DType dtype) { return row(dtype).code == kInt || row(dtype).code == kUnsigned; }

std::optional<DType> parse_dtype(std::string_view name) {
  for (size_t i = 0; i < kDTypes; ++i)
    if (kRows[i].name == name) return static_cast<DType>(i);
  return std::nullopt;
}

DLPackType dlpack_type(DType dtype) { return {row(dtype).code, row(dtype).bits}; }

std::optional<DType> from_dlpack(uint8_t code, uint8_t bits, uint16_t lanes) {
  for (size_t i = 0; i < kDTypes && lanes == 1; ++i)
    if (kRows[i].code == code && kRows[i].bits == bits) return static_cast<DType>(i);
  return std::nullopt;
}

}  // namespace pto
