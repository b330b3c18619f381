// SPDX-License-Identifier: Apache-2.0
// Defines operators in C++: schema, shapes over symbolic sizes, kernels and gradient in one file.
//
//     int32_t reverse(const pto_args* args);                 // see kernel_arguments.hpp
//
//     void infer_reverse(pto::op::Infer& call) { call.output(call.tensor("x")); }
//
//     static const pto::op::Defined kReverse = pto::op::define({
//         .schema = "reverse(Tensor x) -> Tensor",
//         .infer = infer_reverse,
//         .kernels = {{"cpu", pto::op::kAny, reverse}},
//         .gradient = "reverse_backward", .saved = "", .wanted = "x"});
//
// The definition runs when the shared object is loaded. Errors: std::runtime_error with what / why
// / fix. Everything is inline over the plain C of abi/define_operator.h, so another compiler than
// libpto's may build the object.
// Invariant: a gradient is defined before the operator that names it.
// Thread safety: one thread at a time defines operators.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "pto/abi/define_operator.h"
#include "pto/base/dtype.hpp"

namespace pto::op {

inline constexpr int32_t kAny = -1;  // a kernel for every element type

// A size of the call. + - * / (floors) %, size_min, size_max and size_broadcast make more.
class Size {
 public:
  Size(pto_infer* context, int32_t index) : context_(context), index_(index) {}
  int32_t index() const { return index_; }

  friend Size operator+(Size a, Size b) { return a.with(PTO_DIM_ADD, b); }
  friend Size operator-(Size a, Size b) { return a.with(PTO_DIM_SUB, b); }
  friend Size operator*(Size a, Size b) { return a.with(PTO_DIM_MUL, b); }
  friend Size operator/(Size a, Size b) { return a.with(PTO_DIM_FLOORDIV, b); }
  friend Size operator%(Size a, Size b) { return a.with(PTO_DIM_MOD, b); }
  friend Size operator+(Size a, int64_t b) { return a + a.constant(b); }
  friend Size operator-(Size a, int64_t b) { return a - a.constant(b); }
  friend Size operator*(Size a, int64_t b) { return a * a.constant(b); }
  friend Size operator/(Size a, int64_t b) { return a / a.constant(b); }
  friend Size operator%(Size a, int64_t b) { return a % a.constant(b); }
  friend Size size_min(Size a, Size b) { return a.with(PTO_DIM_MIN, b); }
  friend Size size_max(Size a, Size b) { return a.with(PTO_DIM_MAX, b); }
  friend Size size_broadcast(Size a, Size b) { return a.with(PTO_DIM_BROADCAST, b); }

 private:
  Size with(int32_t op, Size b) const {
    return {context_, pto_infer_dim(context_, op, index_, b.index_)};
  }
  Size constant(int64_t value) const { return {context_, pto_infer_constant(context_, value)}; }

  pto_infer* context_;
  int32_t index_;
};

// Element type and shape of a tensor.
struct TensorSpec {
  DType dtype;
  std::vector<Size> sizes;

  int rank() const { return static_cast<int>(sizes.size()); }
};

// One call of an operator's infer: arguments by name, outputs in schema order.
class Infer {
 public:
  explicit Infer(pto_infer* context) : context_(context) {}

  bool has(const char* argument) { return pto_infer_count(context_, place(argument)) > 0; }
  TensorSpec tensor(const char* argument) {
    return spec(pto_infer_first(context_, place(argument)));
  }
  std::vector<TensorSpec> tensors(const char* argument) {
    std::vector<TensorSpec> all;
    const int32_t first = pto_infer_first(context_, place(argument));
    for (int32_t i = 0; i < pto_infer_count(context_, place(argument)); ++i) {
      all.push_back(spec(first + i));
    }
    return all;
  }

  bool is_none(const char* argument) { return value(argument).count < 0; }
  int64_t integer(const char* argument) { return value(argument).integer; }
  bool boolean(const char* argument) { return value(argument).integer != 0; }
  std::string text(const char* argument) {
    const pto_operator_value& v = value(argument);
    return v.count < 0 ? std::string() : std::string(v.text, static_cast<size_t>(v.count));
  }
  std::vector<int64_t> integers(const char* argument) {
    const pto_operator_value& v = value(argument);
    return v.count <= 0 ? std::vector<int64_t>()
                        : std::vector<int64_t>(v.integers, v.integers + v.count);
  }
  Size symint(const char* argument) {
    return {context_, pto_infer_symint(context_, place(argument))};
  }
  Size constant(int64_t value) { return {context_, pto_infer_constant(context_, value)}; }

  void require_equal(Size a, Size b, const char* because) {
    pto_infer_require_equal(context_, a.index(), b.index(), because);
  }
  void fail(const std::string& what, const std::string& why, const std::string& fix) {
    pto_infer_fail(context_, what.c_str(), why.c_str(), fix.c_str());
  }

  void output(const TensorSpec& spec) { output(spec.dtype, spec.sizes); }
  void output(DType dtype, const std::vector<Size>& sizes) {
    std::vector<int32_t> indices;
    for (const Size& size : sizes) indices.push_back(size.index());
    pto_infer_output(context_, static_cast<int32_t>(dtype), static_cast<int32_t>(indices.size()),
                     indices.data());
  }
  void end_list() { pto_infer_end_list(context_); }

  // Independent items, and bytes read and written in all; the runtime splits the work by them.
  void work(Size items, Size bytes) { pto_infer_work(context_, items.index(), bytes.index()); }

 private:
  TensorSpec spec(int32_t tensor) {
    TensorSpec result{static_cast<DType>(pto_infer_dtype(context_, tensor)), {}};
    for (int32_t axis = 0; axis < pto_infer_rank(context_, tensor); ++axis) {
      result.sizes.push_back({context_, pto_infer_size(context_, tensor, axis)});
    }
    return result;
  }

  const pto_operator_value& value(const char* argument) {
    return *pto_infer_attribute(context_, place(argument));
  }

  int32_t place(const char* argument) { return pto_infer_argument(context_, argument); }

  pto_infer* context_;
};

struct Definition {
  const char* schema;
  const char* types = nullptr;  // see type_rule.hpp
  const char* document = nullptr;
  void (*infer)(Infer&) = nullptr;
  std::vector<pto_operator_kernel> kernels = {};
  const char* gradient = nullptr;  // an operator that is defined already
  const char* saved = nullptr;
  const char* wanted = nullptr;
  const char* bounded = nullptr;  // outputs; see abi/define_operator.h
  bool takes_strides = false;     // the kernels; else inputs are made dense
};

struct Defined {
  int32_t index;
};

// Throws std::runtime_error with what / why / fix.
inline Defined define(const Definition& given) {
  pto_operator_definition plain{};
  plain.abi_version = PTO_OPERATOR_ABI_VERSION;
  plain.schema = given.schema;
  plain.types = given.types;
  plain.document = given.document;
  const auto infer = [](pto_infer* context, void* user) {
    try {
      Infer call(context);
      reinterpret_cast<void (*)(Infer&)>(user)(call);
    } catch (const std::exception& error) {
      pto_infer_fail(context, error.what(), "infer threw an exception", "correct infer");
    }
  };
  if (given.infer) plain.infer = infer;
  plain.user = reinterpret_cast<void*>(given.infer);
  plain.kernels = given.kernels.data();
  plain.n_kernels = static_cast<int32_t>(given.kernels.size());
  plain.flags = given.takes_strides ? PTO_OPERATOR_TAKES_STRIDES : 0;
  plain.gradient = given.gradient;
  plain.saved = given.saved;
  plain.wanted = given.wanted;
  plain.bounded = given.bounded;
  const int32_t index = pto_operator_define(&plain);
  if (index < 0) throw std::runtime_error(pto_operator_error());
  return {index};
}

}  // namespace pto::op
