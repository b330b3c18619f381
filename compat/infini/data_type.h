// SPDX-License-Identifier: Apache-2.0
// Devices and element types in the spelling of the public runtime library.
//
//     infini::rt::Device device{infini::rt::Device::Type::kCpu, 0};
//     device.ToString();                                          // "cpu:0"
//     infini::rt::kDataTypeToSize.at(infini::rt::DataType::kBFloat16);   // 2, bytes
//
// All its devices have names; kernels are there for the CPU. Element types behind kFloat64 are
// beyond that library: PyTorch has them.
// Errors: pto::aten::Error for a name or a value that is none.
//
// Thread safety: values without shared state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "pto/aten/part.hpp"

namespace infini::rt {

// A constant table from keys to values, searched from its first row.
template <class Key, class Value, std::size_t n>
struct ConstexprMap {
  struct Row {
    Key key;
    Value value;
  };
  Row rows[n];
  constexpr const Value* find(const Key& key) const {
    for (const Row& row : rows)
      if (row.key == key) return &row.value;
    return nullptr;
  }
  constexpr const Value& at(const Key& key) const {
    if (const Value* value = find(key)) return *value;
    throw pto::aten::Error("a name or a value that no row has", "this table has others",
                           "see infini/data_type.h");
  }
};

class Device {
 public:
  enum class Type {
    kCpu,
    kNvidia,
    kCambricon,
    kAscend,
    kMetax,
    kMoore,
    kIluvatar,
    kHygon,
    kThead,
    kMars,
    kCount
  };

  Device() = default;
  Device(Type type, int index = 0) : type_(type), index_(index) {}

  static std::string_view StringFromType(Type type) {
    const auto i = static_cast<std::size_t>(type);
    if (i < static_cast<std::size_t>(Type::kCount)) return kNames[i];
    throw pto::aten::Error("device type " + std::to_string(i), "there is no such type",
                           "take one of Device::Type");
  }
  static Type TypeFromString(std::string_view name) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(Type::kCount); ++i)
      if (name == kNames[i]) return static_cast<Type>(i);
    throw pto::aten::Error("unknown device '" + std::string(name) + "'",
                           "devices have the names of Device::Type", "write \"cpu\"");
  }

  const Type& type() const { return type_; }
  const int& index() const { return index_; }
  std::string ToString() const {
    return std::string(StringFromType(type_)) + ":" + std::to_string(index_);
  }
  bool operator==(const Device& other) const {
    return type_ == other.type_ && index_ == other.index_;
  }
  bool operator!=(const Device& other) const { return !(*this == other); }

 private:
  static constexpr std::string_view kNames[] = {"cpu",   "nvidia",   "cambricon", "ascend", "metax",
                                                "moore", "iluvatar", "hygon",     "thead",  "mars"};
  Type type_ = Type::kCpu;
  int index_ = 0;
};

enum class DataType : std::int8_t {
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kUInt8,
  kUInt16,
  kUInt32,
  kUInt64,
  kFloat16,
  kBFloat16,
  kFloat32,
  kFloat64,
  kBool,
  kComplex32,
  kComplex64,
  kComplex128,
  kFloat8E4M3Fn,
  kFloat8E5M2
};

// An element type: its name, bytes of an element, and DLPack's code (pto/abi/aten.h).
struct DataTypeRow {
  DataType type;
  std::string_view name;
  std::uint8_t bytes, code;
};
inline constexpr DataTypeRow kDataTypes[] = {
    {DataType::kInt8, "int8", 1, 0},
    {DataType::kInt16, "int16", 2, 0},
    {DataType::kInt32, "int32", 4, 0},
    {DataType::kInt64, "int64", 8, 0},
    {DataType::kUInt8, "uint8", 1, 1},
    {DataType::kUInt16, "uint16", 2, 1},
    {DataType::kUInt32, "uint32", 4, 1},
    {DataType::kUInt64, "uint64", 8, 1},
    {DataType::kFloat16, "float16", 2, 2},
    {DataType::kBFloat16, "bfloat16", 2, 4},
    {DataType::kFloat32, "float32", 4, 2},
    {DataType::kFloat64, "float64", 8, 2},
    {DataType::kBool, "bool", 1, 6},
    {DataType::kComplex32, "complex32", 4, 5},
    {DataType::kComplex64, "complex64", 8, 5},
    {DataType::kComplex128, "complex128", 16, 5},
    {DataType::kFloat8E4M3Fn, "float8_e4m3fn", 1, 10},
    {DataType::kFloat8E5M2, "float8_e5m2", 1, 12},
};
inline constexpr std::size_t kDataTypeCount = sizeof kDataTypes / sizeof kDataTypes[0];

inline constexpr const DataTypeRow& row_of(DataType type) {
  const auto i = static_cast<std::size_t>(type);
  if (i < kDataTypeCount) return kDataTypes[i];
  throw pto::aten::Error("element type " + std::to_string(i), "there is no such type",
                         "take one of DataType");
}
inline DataType data_type_of(std::uint8_t code, std::uint8_t bits) {
  for (const DataTypeRow& row : kDataTypes)
    if (row.code == code && 8 * row.bytes == bits) return row.type;
  throw pto::aten::Error("an element type of code " + std::to_string(code) + " and " +
                             std::to_string(bits) + " bits",
                         "DataType has no such type", "ask for a result of another type");
}

namespace detail {

template <class Map, class Make>
constexpr Map table_of(Make make) {
  Map map{};
  for (std::size_t i = 0; i < kDataTypeCount; ++i) map.rows[i] = make(kDataTypes[i]);
  return map;
}
using Sizes = ConstexprMap<DataType, std::size_t, kDataTypeCount>;
using Names = ConstexprMap<DataType, std::string_view, kDataTypeCount>;
using Types = ConstexprMap<std::string_view, DataType, kDataTypeCount>;

}  // namespace detail

inline constexpr auto kDataTypeToSize = detail::table_of<detail::Sizes>(
    [](const DataTypeRow& row) { return detail::Sizes::Row{row.type, row.bytes}; });
inline constexpr auto kDataTypeToDesc = detail::table_of<detail::Names>(
    [](const DataTypeRow& row) { return detail::Names::Row{row.type, row.name}; });
inline constexpr auto kStringToDataType = detail::table_of<detail::Types>(
    [](const DataTypeRow& row) { return detail::Types::Row{row.name, row.type}; });

}  // namespace infini::rt
