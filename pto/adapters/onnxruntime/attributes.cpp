// SPDX-License-Identifier: Apache-2.0
#include "pto/adapters/onnxruntime/attributes.hpp"

#include <charconv>
#include <cmath>
#include <iterator>
#include <optional>

#include "pto/adapters/onnxruntime/status.hpp"
#include "pto/base/error.hpp"

namespace pto::ort {
namespace {

// Returns the shortest decimal number that a 32-bit attribute can stand for: 1e-5 in a model is the
// 1e-5 that other frameworks pass, also to an operator on doubles.
double as_written(float value) {
  if (!std::isfinite(value)) return value;
  char digits[32];
  const char* end = std::to_chars(digits, std::end(digits), value).ptr;
  double written = 0;
  std::from_chars(digits, end, written);
  return written;
}

// Reads attributes of a kernel; each function returns nothing if there is none of that name and
// type.
struct OfKernel {
  const KernelInfo* info;

  std::optional<int64_t> integer(const char* name) const {
    int64_t value = 0;
    if (!succeeded(api::KernelInfoGetAttribute_int64(info, name, &value))) return {};
    return value;
  }
  std::optional<double> real(const char* name) const {
    float value = 0;
    if (!succeeded(api::KernelInfoGetAttribute_float(info, name, &value))) return {};
    return as_written(value);
  }
  std::optional<std::string> text(const char* name) const {
    size_t bytes = 0;
    if (!succeeded(api::KernelInfoGetAttribute_string(info, name, nullptr, &bytes))) return {};
    std::string value(bytes, '\0');
    if (!succeeded(api::KernelInfoGetAttribute_string(info, name, value.data(), &bytes))) return {};
    value.resize(bytes > 0 ? bytes - 1 : 0);  // the last one ends it
    return value;
  }
  std::optional<std::vector<int64_t>> integers(const char* name) const {
    size_t count = 0;
    if (!succeeded(api::KernelInfoGetAttributeArray_int64(info, name, nullptr, &count))) return {};
    std::vector<int64_t> values(count);
    if (count == 0) return values;
    if (!succeeded(api::KernelInfoGetAttributeArray_int64(info, name, values.data(), &count))) {
      return {};
    }
    return values;
  }
  bool has_reals(const char* name) const {
    size_t count = 0;
    return succeeded(api::KernelInfoGetAttributeArray_float(info, name, nullptr, &count));
  }
};

struct OfShape {
  const ShapeContext* context;

  std::optional<std::vector<char>> bytes(const char* name, int type) const {
    const Attribute* attribute = nullptr;
    int own = 0;
    if (!succeeded(api::ShapeInferContext_GetAttribute(context, name, &attribute)) || !attribute ||
        !succeeded(api::OpAttr_GetType(attribute, &own)) || own != type) {
      return {};
    }
    size_t count = 0;
    succeeded(api::ReadOpAttr(attribute, type, nullptr, 0, &count));  // fails, and says the size
    std::vector<char> found(count);
    if (count > 0) check(api::ReadOpAttr(attribute, type, found.data(), count, &count));
    return found;
  }
  template <class T>
  std::optional<T> one(const char* name, int type) const {
    const auto found = bytes(name, type);
    if (!found || found->size() < sizeof(T)) return {};
    return *reinterpret_cast<const T*>(found->data());
  }
  std::optional<int64_t> integer(const char* name) const { return one<int64_t>(name, kInt); }
  std::optional<double> real(const char* name) const {
    const auto value = one<float>(name, kFloat);
    if (!value) return {};
    return as_written(*value);
  }
  std::optional<std::string> text(const char* name) const {
    const auto found = bytes(name, kString);
    if (!found) return {};
    return std::string(found->begin(), found->end());
  }
  std::optional<std::vector<int64_t>> integers(const char* name) const {
    const auto found = bytes(name, kInts);
    if (!found) return {};
    const auto* first = reinterpret_cast<const int64_t*>(found->data());
    return std::vector<int64_t>(first, first + found->size() / sizeof(int64_t));
  }
  bool has_reals(const char* name) const { return bytes(name, kFloats).has_value(); }
};

constexpr const char* kTypeNames[] = {"", "", "INT", "INT", "FLOAT", "INT", "STRING", "INTS"};

template <class Source>
bool has_any(const Source& source, const char* name) {
  return source.integer(name) || source.real(name) || source.text(name) || source.integers(name) ||
         source.has_reals(name);
}

// Adds the attribute if the node has it with this type.
template <class Source>
bool add_given(AttributeValues& values, const Source& source, const pto_operator_argument& a) {
  pto_operator_value value{};
  switch (a.kind) {
    case PTO_KIND_FLOAT:
      if (const auto found = source.real(a.name)) {
        value.real = *found;
        values.add(value, a.kind);
        return true;
      }
      return false;
    case PTO_KIND_STRING:
      if (const auto found = source.text(a.name)) {
        value.text = found->data();
        value.count = static_cast<int64_t>(found->size());
        values.add(value, a.kind);
        return true;
      }
      return false;
    case PTO_KIND_INT_LIST:
      if (const auto found = source.integers(a.name)) {
        value.integers = found->data();
        value.count = static_cast<int64_t>(found->size());
        values.add(value, a.kind);
        return true;
      }
      return false;
    default:
      if (const auto found = source.integer(a.name)) {
        value.integer = a.kind == PTO_KIND_BOOL ? *found != 0 : *found;
        values.add(value, a.kind);
        return true;
      }
      return false;
  }
}

template <class Source>
AttributeValues read(const pto_operator& op, const Source& source) {
  AttributeValues values;
  for (int32_t i = 0; i < op.n_arguments; ++i) {
    const pto_operator_argument& a = op.arguments[i];
    if (is_tensor(a) || add_given(values, source, a)) continue;
    const std::string here = std::string(op.name) + ": the attribute " + a.name;
    if (has_any(source, a.name)) {
      fail({here + " has another type than " + kTypeNames[a.kind],
            "attributes are those of " + std::string(op.schema),
            "write it into the model with that type"},
           ErrorKind::Type);
    }
    if (a.default_value) {
      values.add(*a.default_value, a.kind);
    } else if (is_optional(a)) {
      pto_operator_value none{};
      none.count = -1;
      values.add(none, a.kind);
    } else {
      fail({here + " is missing", "it has no default: " + std::string(op.schema),
            "give the node this attribute"},
           ErrorKind::Type);
    }
  }
  return values;
}

}  // namespace

AttributeValues attributes_of(const pto_operator& op, const KernelInfo* info) {
  return read(op, OfKernel{info});
}

AttributeValues attributes_of(const pto_operator& op, const ShapeContext* context) {
  return read(op, OfShape{context});
}

}  // namespace pto::ort
