// SPDX-License-Identifier: Apache-2.0
// Arguments of a call as values of the library's table: tensors, numbers, lists, names, null.
//
//     kind_of<std::optional<double>>();            // 'f', see signature.h
//     const Held<Tensor> held(x);                  // held.value() lives as long as held and x
//
// Any type with data(), shape(), strides(), dtype() and device() is a tensor.
// Errors: pto::aten::Error for a tensor of another device than the CPU, and for null memory.
//
// Thread safety: values without shared state.
#pragma once

#include <optional>

#include "infini/context.h"
#include "infini/tensor_view.h"

namespace infini::ops {

using infini::rt::DataType;
using infini::rt::Device;
using infini::rt::kDataTypeToDesc;
using infini::rt::kDataTypeToSize;
using infini::rt::kStringToDataType;
using Tensor = infini::rt::TensorView;

// The table of the part for PyTorch, opened at the first use.
namespace detail {
const pto_aten_library& library();
}

// Random numbers of a seed, for operators that take a generator; a copy is the same generator.
class Generator {
 public:
  explicit Generator(std::uint64_t seed) : value_(detail::library().generator(seed)) {}
  Generator(const Generator& other) : value_(detail::library().share(&other.value_)) {}
  Generator& operator=(Generator other) { return std::swap(value_, other.value_), *this; }
  ~Generator() { detail::library().release(&value_); }
  const pto_aten_value& value() const { return value_; }

 private:
  pto_aten_value value_;
};

namespace detail {

template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};
template <class T>
struct IsVector : std::false_type {};
template <class T, class A>
struct IsVector<std::vector<T, A>> : std::true_type {};
template <class T, class = void>
struct IsComplex : std::false_type {};
template <class T>
struct IsComplex<T, std::void_t<decltype(std::declval<const T&>().real()),
                                decltype(std::declval<const T&>().imag())>> : std::true_type {};

// The letter of an argument; '?': no call takes it.
template <class T>
constexpr char kind_of() {
  if constexpr (IsOptional<T>::value) {
    return static_cast<char>(kind_of<typename T::value_type>() - 'A' + 'a');
  } else if constexpr (IsVector<T>::value) {
    using Item = typename T::value_type;
    constexpr char kItem = kind_of<Item>();
    return kItem == 'T'   ? 'L'
           : kItem == 't' ? 'P'
           : kItem == 'I' ? 'A'
           : kItem == 'F' ? 'D'
           : kItem == 'B' ? 'M'
                          : '?';
  } else if constexpr (rt::IsTensorLike<T>::value) {
    return 'T';
  } else if constexpr (std::is_same_v<T, std::nullopt_t> || std::is_same_v<T, std::nullptr_t>) {
    return '0';
  } else if constexpr (std::is_same_v<T, DataType>) {
    return 'Y';
  } else if constexpr (std::is_same_v<T, Device>) {
    return 'N';
  } else if constexpr (std::is_same_v<T, Generator>) {
    return 'G';
  } else if constexpr (std::is_convertible_v<T, std::string_view>) {
    return 'X';
  } else if constexpr (std::is_same_v<T, bool>) {
    return 'B';
  } else if constexpr (std::is_integral_v<T>) {
    return 'I';
  } else if constexpr (std::is_floating_point_v<T>) {
    return 'F';
  } else {
    return IsComplex<T>::value ? 'C' : '?';
  }
}

inline pto_aten_value value_of(std::int32_t kind) {
  pto_aten_value made = {};
  made.kind = kind;
  return made;
}
inline pto_aten_value value_of(const Tensor& tensor) {
  if (tensor.device().type() != Device::Type::kCpu)
    throw pto::aten::Error("a tensor of the device " + tensor.device().ToString(),
                           "no implementation is active there: kernels are the CPU's",
                           "copy it to memory of the host, and pass Device::Type::kCpu");
  if (!tensor.data() && tensor.numel())
    throw pto::aten::Error("a tensor of " + std::to_string(tensor.numel()) + " elements at null",
                           "its memory holds the elements", "pass where they lie");
  static_assert(sizeof(Tensor::Size) == sizeof(std::int64_t), "sizes are passed as they lie");
  const rt::DataTypeRow& row = rt::row_of(tensor.dtype());
  pto_aten_value made = value_of(PTO_ATEN_MEMORY);
  made.memory = {const_cast<void*>(tensor.data()),
                 reinterpret_cast<const std::int64_t*>(tensor.shape().data()),
                 reinterpret_cast<const std::int64_t*>(tensor.strides().data()),
                 static_cast<std::int32_t>(tensor.ndim()),
                 row.code,
                 static_cast<std::uint8_t>(8 * row.bytes),
                 0};
  return made;
}

// An argument with what its value points to.
template <class T>
class Held {
 public:
  explicit Held(const T& x) : value_(made(x)) {}
  const pto_aten_value& value() const { return value_; }

 private:
  template <class U>
  pto_aten_value made(const U& x) {
    constexpr char kKind = kind_of<U>();
    static_assert(kKind != '?', "no operator takes an argument of this type; see signature.h");
    if constexpr (IsOptional<U>::value) {
      return x ? made(*x) : value_of(PTO_ATEN_NONE);
    } else if constexpr (IsVector<U>::value) {
      return list(x);
    } else if constexpr (std::is_same_v<U, Tensor>) {
      return value_of(x);
    } else if constexpr (kKind == 'T') {
      tensors_.push_back(std::make_unique<Tensor>(x));
      return value_of(*tensors_.back());
    } else if constexpr (kKind == 'G') {
      return x.value();
    } else if constexpr (kKind == 'X') {
      return text(x);
    } else if constexpr (kKind == 'N') {
      return text(Device::StringFromType(x.type()));
    } else {
      return plain(x);
    }
  }
  template <class U>
  static pto_aten_value plain(const U& x) {
    constexpr char kKind = kind_of<U>();
    pto_aten_value one = value_of(PTO_ATEN_NONE);
    if constexpr (kKind == 'B' || kKind == 'I') {
      one.kind = kKind == 'B' ? PTO_ATEN_BOOL : PTO_ATEN_INT;
      one.integer = static_cast<std::int64_t>(x);
    } else if constexpr (kKind == 'F') {
      one.kind = PTO_ATEN_DOUBLE, one.real = static_cast<double>(x);
    } else if constexpr (kKind == 'C') {
      one.kind = PTO_ATEN_COMPLEX, one.parts[0] = x.real(), one.parts[1] = x.imag();
    } else if constexpr (kKind == 'Y') {
      const rt::DataTypeRow& row = rt::row_of(x);
      one.kind = PTO_ATEN_TYPE;
      one.type = {row.code, static_cast<std::uint8_t>(8 * row.bytes)};
    }
    return one;
  }
  static pto_aten_value text(std::string_view x) {
    pto_aten_value one = value_of(PTO_ATEN_STRING);
    one.text = x.data(), one.count = static_cast<std::int64_t>(x.size());
    return one;
  }
  template <class U>
  pto_aten_value list(const U& x) {
    std::vector<pto_aten_value> items;
    for (auto&& item : x) {
      if constexpr (std::is_same_v<typename U::value_type, bool>)
        items.push_back(plain(static_cast<bool>(item)));
      else
        items.push_back(made(item));
    }
    items_ = std::move(items);
    pto_aten_value one = value_of(PTO_ATEN_LIST);
    one.items = items_.data(), one.count = static_cast<std::int64_t>(items_.size());
    return one;
  }

  std::vector<std::unique_ptr<Tensor>> tensors_;  // of other types, as Tensor
  std::vector<pto_aten_value> items_;
  pto_aten_value value_;  // refers to both
};

}  // namespace detail
}  // namespace infini::ops
