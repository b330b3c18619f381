// SPDX-License-Identifier: Apache-2.0
// CallArguments: sorts the arguments of one call by their use: signature, specialisation, scalars.
//
//     CallArguments arguments(call, CallArguments::Reads::Values);
//     arguments.check_types();
//     arguments.signature();        // with specialised(), the key of a kernel
//
// Invariant: it points into the call that it was made from.
// Thread safety: belongs to one thread.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "pto/abi/limits.h"
#include "pto/operators/operator.hpp"

namespace pto {

class CallArguments {
 public:
  // Kinds reads only what shapes depend on; Values also reads tensors, SymInt and float attributes.
  // Throws pto::Error.
  enum class Reads { Kinds, Values };
  CallArguments(const pto_operator_call& call, Reads reads);

  std::span<const pto_tensor_ref> tensors() const { return {tensors_.data(), n_tensors_}; }
  pto_tensor_ref& tensor(size_t i) { return tensors_[i]; }
  size_t given() const { return n_given_; }  // of them; SymInt attributes follow
  std::span<const int32_t> counts() const { return {counts_.data(), n_counts_}; }
  const Signature& signature() const { return signature_; }
  std::vector<TensorKind> kinds() const;
  std::vector<AttributeValue> attributes() const;

  // Equal bytes mean equal int, bool, str and list attributes and equal counts.
  const std::string& specialised() const { return specialised_; }

  // Float attributes for a traced kernel; for a native one see abi/define_operator.h.
  std::span<const uint64_t> scalars() const { return {scalars_.data(), n_scalars_}; }
  std::vector<std::byte> take_params() { return std::move(params_); }

  // Throws pto::Error if the dtypes do not fit the operator's types.
  void check_types() const;

 private:
  void take_tensors(Reads reads);
  void take_attributes(Reads reads);
  void take_symint(const pto_operator_argument& argument, const pto_operator_value& value);
  void add_native_scalar(const pto_operator_argument& argument, const pto_operator_value& value);
  uint64_t in_params(const void* data, int64_t count, size_t bytes);

  const pto_operator_call& call_;
  const Operator& self_;
  size_t n_tensors_ = 0, n_given_ = 0, n_counts_ = 0, n_scalars_ = 0, n_symints_ = 0;
  Signature signature_;
  std::string specialised_;
  std::array<int32_t, PTO_MAX_TENSORS> counts_;
  std::array<pto_tensor_ref, PTO_MAX_TENSORS> tensors_;
  std::array<uint64_t, PTO_MAX_ARGUMENTS> scalars_;  // one an argument at most
  std::array<int64_t, PTO_MAX_ARGUMENTS> symints_;
  std::vector<std::byte> params_;
};

}  // namespace pto
