// SPDX-License-Identifier: Apache-2.0
// ATen's operators in C++ without PyTorch's headers and without Python.
//
//     #include <pto/aten.hpp>                              // link with -ldl
//     pto::aten::Library torch("/path/to/site-packages/torch/lib");   // or Library(): it is loaded
//     float x[6] = {}, out[6];
//     pto::aten::Tensor a(x, {2, 3}), b(out, {2, 3});
//     torch.call("add.out", {a, a, 2, b});                 // out = a + 2 a
//     pto::aten::add_out(torch, a, a, 2, b);               // with <pto/aten/functions.hpp>
//     pto::aten::Tensor made = torch.call("randn", {{2, 3}})[0].tensor();
//     const float* numbers = made.data<float>();
//
// Values stand in the order of the schema; those left out at the end, and `left_out`, are its
// defaults. Sizes and strides count elements. A tensor over memory owns nothing: the memory has to
// live as long as the tensor and what PyTorch returns of it (views, `out`).
// The calls are made by a part that `python -m pto adapters build torch` builds for one PyTorch.
// Results that PyTorch keeps as conjugates or negatives to be computed later come back computed.
// PTO_ATEN_NAMES, a file with a name a line, restricts the operators to these.
// Errors: pto::aten::Error with what, why and fix; a refused call has written nothing.
//
// Thread safety: a Library and its operators may be used by any thread; a Tensor as PyTorch's.
#pragma once

#include <complex>
#include <initializer_list>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "pto/aten/part.hpp"

namespace pto::aten {

// An element type: DLPack's code (0 int, 1 unsigned, 2 float, 4 bfloat, 5 complex, 6 bool), bits.
struct Type {
  uint8_t code = 2, bits = 32;
  bool operator==(const Type& other) const { return code == other.code && bits == other.bits; }
};

template <class T>
struct IsComplex : std::false_type {};
template <class T>
struct IsComplex<std::complex<T>> : std::true_type {};

template <class T>
constexpr Type type_of() {
  const uint8_t code = std::is_same_v<T, bool>       ? 6
                       : IsComplex<T>::value         ? 5
                       : std::is_floating_point_v<T> ? 2
                       : std::is_unsigned_v<T>       ? 1
                                                     : 0;
  return {code, static_cast<uint8_t>(8 * sizeof(T))};
}

// A tensor or generator of the library, given back when its last user is gone.
using Owned = std::shared_ptr<const pto_aten_value>;

class Tensor {
 public:
  // A tensor over memory: row-major, or with strides. No call writes into const memory.
  template <class T>
  Tensor(T* data, std::vector<int64_t> sizes, std::vector<int64_t> strides = {})
      : Tensor(const_cast<std::remove_const_t<T>*>(data), type_of<std::remove_const_t<T>>(),
               std::move(sizes), std::move(strides)) {
    is_read_only_ = std::is_const_v<T>;
  }
  Tensor(void* data, Type type, std::vector<int64_t> sizes, std::vector<int64_t> strides = {})
      : data_(data), type_(type), sizes_(std::move(sizes)), strides_(std::move(strides)) {
    if (!strides_.empty() && strides_.size() != sizes_.size())
      throw Error("a tensor of " + std::to_string(sizes_.size()) + " sizes has " +
                      std::to_string(strides_.size()) + " strides",
                  "each axis has one", "pass as many, or none for row-major memory");
  }
  explicit Tensor(const pto_aten_memory& memory)  // copies the sizes
      : Tensor(memory.data, Type{memory.type_code, memory.type_bits},
               {memory.sizes, memory.sizes + memory.rank}) {
    if (memory.strides) strides_.assign(memory.strides, memory.strides + memory.rank);
    is_read_only_ = memory.is_read_only != 0;
  }
  Tensor(const pto_aten_library& library, Owned owned)
      : library_(&library), owned_(std::move(owned)) {}

  const std::vector<int64_t>& sizes() const { return read(), sizes_; }
  const std::vector<int64_t>& strides() const { return read(), strides_; }  // empty: row-major
  Type type() const { return read(), type_; }
  template <class T>
  T* data() const {
    if (!(type() == type_of<T>()))
      throw Error("data() of a tensor of type " + std::to_string(type_.code) + ", " +
                      std::to_string(type_.bits) + " bits, as " +
                      std::to_string(type_of<T>().code) + ", " + std::to_string(type_of<T>().bits) +
                      " bits",
                  "codes are DLPack's", "ask for its own type, or convert it");
    return static_cast<T*>(data_);
  }

  pto_aten_value value() const {  // borrowed
    if (owned_) return *owned_;
    pto_aten_value made = {};
    made.kind = PTO_ATEN_MEMORY;
    made.memory = {data_,
                   sizes_.data(),
                   strides_.empty() ? nullptr : strides_.data(),
                   static_cast<int32_t>(sizes_.size()),
                   type_.code,
                   type_.bits,
                   is_read_only_};
    return made;
  }

 private:
  // Asks where an owned tensor lies now: a call may have resized it.
  void read() const {
    if (!owned_) return;
    pto_aten_memory memory;
    if (library_->describe(owned_->object, &memory) != 0) throw Error(library_->error());
    data_ = memory.data, type_ = {memory.type_code, memory.type_bits};
    sizes_.assign(memory.sizes, memory.sizes + memory.rank);
    strides_.assign(memory.strides, memory.strides + memory.rank);
  }
  const pto_aten_library* library_ = nullptr;
  Owned owned_;
  bool is_read_only_ = false;
  mutable void* data_ = nullptr;
  mutable Type type_;
  mutable std::vector<int64_t> sizes_, strides_;
};

struct LeftOut {};
inline constexpr LeftOut left_out;

struct Generator {
  Owned owned;
};

// A value of a call or a result.
class Value {
 public:
  Value(LeftOut) : value_(kind(PTO_ATEN_LEFT_OUT)) {}
  Value(std::nullptr_t) : value_(kind(PTO_ATEN_NONE)) {}
  Value(bool x) : value_(kind(PTO_ATEN_BOOL)) { value_.integer = x; }
  template <class T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>, int> = 0>
  Value(T x) : value_(kind(PTO_ATEN_INT)) {
    value_.integer = static_cast<int64_t>(x);
  }
  Value(double x) : value_(kind(PTO_ATEN_DOUBLE)) { value_.real = x; }
  Value(std::complex<double> x) : value_(kind(PTO_ATEN_COMPLEX)) {
    value_.parts[0] = x.real(), value_.parts[1] = x.imag();
  }
  Value(const char* text) : value_(kind(PTO_ATEN_STRING)), held_(std::string(text)) {}
  Value(std::string text) : value_(kind(PTO_ATEN_STRING)), held_(std::move(text)) {}
  Value(Type type) : value_(kind(PTO_ATEN_TYPE)) { value_.type = {type.code, type.bits}; }
  Value(Tensor tensor) : value_(kind(PTO_ATEN_TENSOR)), held_(std::move(tensor)) {}
  Value(Generator one) : value_(kind(PTO_ATEN_GENERATOR)), held_(std::move(one)) {}
  Value(std::initializer_list<Value> items) : Value(std::vector<Value>(items)) {}
  Value(std::vector<Value> items) : value_(kind(PTO_ATEN_LIST)), held_(std::move(items)) {}

  // Results. Each throws where the value is of another kind.
  const Tensor& tensor() const { return held<Tensor>("a tensor"); }
  const std::vector<Value>& list() const { return held<std::vector<Value>>("a list"); }
  int64_t integer() const { return expect(PTO_ATEN_INT, "an int"), value_.integer; }
  double real() const { return expect(PTO_ATEN_DOUBLE, "a float"), value_.real; }
  bool boolean() const { return expect(PTO_ATEN_BOOL, "a bool"), value_.integer != 0; }
  bool is_none() const { return value_.kind == PTO_ATEN_NONE; }

  // The value as plain C, borrowed; `items` holds those of lists.
  pto_aten_value plain(std::vector<std::unique_ptr<std::vector<pto_aten_value>>>& items) const {
    pto_aten_value made = value_;
    if (const auto* text = std::get_if<std::string>(&held_)) {
      made.text = text->c_str(), made.count = static_cast<int64_t>(text->size());
    } else if (const auto* tensor = std::get_if<Tensor>(&held_)) {
      made = tensor->value();
    } else if (const auto* generator = std::get_if<Generator>(&held_)) {
      made = *generator->owned;
    } else if (const auto* list = std::get_if<std::vector<Value>>(&held_)) {
      auto all = std::make_unique<std::vector<pto_aten_value>>();
      for (const Value& one : *list) all->push_back(one.plain(items));
      made.items = all->data(), made.count = static_cast<int64_t>(all->size());
      items.push_back(std::move(all));
    }
    return made;
  }

  // Takes a result over.
  static Value result(const pto_aten_library& library, const pto_aten_value& value) {
    if (value.kind == PTO_ATEN_TENSOR) return Tensor(library, owned(library, value));
    if (value.kind == PTO_ATEN_MEMORY) return Tensor(value.memory);
    Value made(left_out);
    made.value_ = value;
    if (value.kind == PTO_ATEN_LIST) {
      std::vector<Value> items;
      for (int64_t i = 0; i < value.count; ++i)
        items.push_back(result(library, library.share(&value.items[i])));
      made = Value(std::move(items));
      pto_aten_value done = value;
      library.release(&done);
    }
    return made;
  }
  static Owned owned(const pto_aten_library& library, const pto_aten_value& value) {
    return Owned(new pto_aten_value(value), [&library](const pto_aten_value* one) {
      pto_aten_value done = *one;
      library.release(&done);
      delete one;
    });
  }

 private:
  static pto_aten_value kind(int32_t kind) {
    pto_aten_value made = {};
    made.kind = kind;
    return made;
  }
  void expect(int32_t kind, const char* name) const {
    if (value_.kind != kind)
      throw Error("a result is not " + std::string(name), "the schema has another type there",
                  "print Library::schema of the operator");
  }
  template <class T>
  const T& held(const char* name) const {
    const T* found = std::get_if<T>(&held_);
    if (!found) expect(-1, name);
    return *found;
  }
  pto_aten_value value_;
  std::variant<std::monostate, std::string, Tensor, Generator, std::vector<Value>> held_;
};

// An argument of a call, borrowed: what a Value can be, without a copy of the tensor.
class Argument {
 public:
  Argument(const Tensor& x) : value_(x.value()) {}
  Argument(const Value& x) : value_(x.plain(items_)) {}
  Argument(std::initializer_list<Value> items) : Argument(std::make_shared<Value>(items)) {}
  Argument(std::nullptr_t) { value_.kind = PTO_ATEN_NONE; }
  Argument(LeftOut) {}
  template <class T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>
  Argument(T x) {
    constexpr bool is_real = std::is_floating_point_v<T>, is_bool = std::is_same_v<T, bool>;
    value_.kind = is_real ? PTO_ATEN_DOUBLE : is_bool ? PTO_ATEN_BOOL : PTO_ATEN_INT;
    is_real ? void(value_.real = double(x)) : void(value_.integer = int64_t(x));
  }
  template <class T,
            std::enable_if_t<std::is_convertible_v<T, Value> && !std::is_arithmetic_v<T>, int> = 0>
  Argument(const T& x) : Argument(std::make_shared<Value>(x)) {}
  const pto_aten_value& value() const { return value_; }

 private:
  explicit Argument(std::shared_ptr<const Value> kept)
      : kept_(std::move(kept)), value_(kept_->plain(items_)) {}
  std::shared_ptr<const Value> kept_;
  std::vector<std::unique_ptr<std::vector<pto_aten_value>>> items_;
  pto_aten_value value_ = {};
};

inline Value scalar(double x) { return x; }
inline Value scalar(int64_t x) { return x; }
inline Value scalar(int x) { return x; }
inline Value scalar(bool x) { return x; }

class Library {
 public:
  // The PyTorch in this folder, or, where it is empty, the one that the process has loaded.
  explicit Library(const std::string& folder = {}) : table_(open_part(folder)) {}

  // Calls an operator, "add.out" or "neg", and returns its results.
  std::vector<Value> call(const std::string& name, std::initializer_list<Argument> all) const {
    std::vector<pto_aten_value> plain;
    plain.reserve(all.size());
    for (const Argument& one : all) plain.push_back(one.value());
    return results(find(name.c_str()), plain.data(), plain.size());
  }
  std::vector<Value> call(const std::string& name, const std::vector<Value>& arguments) const {
    std::vector<std::unique_ptr<std::vector<pto_aten_value>>> items;
    std::vector<pto_aten_value> plain;
    for (const Value& one : arguments) plain.push_back(one.plain(items));
    return results(find(name.c_str()), plain.data(), plain.size());
  }

  // Calls an operator that was found once; run() drops the results.
  std::vector<Value> results(const pto_aten_operator* op, const pto_aten_value* values,
                             size_t n) const {
    constexpr int kRoom = 16;
    pto_aten_value results[kRoom];
    const int32_t count = table_->call(op, values, static_cast<int32_t>(n), results, kRoom);
    if (count < 0) throw Error(table_->error());
    std::vector<Value> made;
    made.reserve(static_cast<size_t>(count));
    for (int32_t i = 0; i < count; ++i) made.push_back(Value::result(*table_, results[i]));
    return made;
  }
  void run(const pto_aten_operator* op, const pto_aten_value* values, size_t n) const {
    if (table_->call(op, values, static_cast<int32_t>(n), nullptr, 0) < 0)
      throw Error(table_->error());
  }
  // Finds an operator, which lives as long as the process.
  const pto_aten_operator* find(const char* name) const {
    if (const pto_aten_operator* op = table_->find(name)) return op;
    throw Error(table_->error());
  }

  bool has(const std::string& name) const { return table_->find(name.c_str()) != nullptr; }
  bool has_kernel(const std::string& name) const {
    return table_->has_kernel(find(name.c_str())) != 0;
  }
  std::string schema(const std::string& name) const { return table_->schema(find(name.c_str())); }
  std::string version() const { return table_->torch_version; }
  int count() const { return table_->count(); }  // overloads of ATen
  Generator generator(uint64_t seed) const {
    return {Value::owned(*table_, table_->generator(seed))};
  }

 private:
  const pto_aten_library* table_;
};

}  // namespace pto::aten
