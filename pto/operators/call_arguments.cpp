// SPDX-License-Identifier: Apache-2.0
#include "pto/operators/call_arguments.hpp"

#include <bit>
#include <cstring>
#include <map>
#include <mutex>
#include <shared_mutex>

#include "pto/abi/limits.h"
#include "pto/base/error.hpp"

namespace pto {
namespace {

constexpr int64_t kOne = 1;

// Numbers the attribute values that a kernel is specialised on. Not a hash: equal numbers mean
// equal values.
uint64_t number_of(const std::string& values) {
  static std::shared_mutex mutex;
  static auto* const numbers = new std::map<std::string, uint64_t>;
  {
    const std::shared_lock lock(mutex);
    if (const auto found = numbers->find(values); found != numbers->end()) return found->second;
  }
  const std::unique_lock lock(mutex);
  return numbers->emplace(values, numbers->size() + 1).first->second;
}

void append(std::string& bytes, int64_t value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

bool is_tensor(const pto_operator_argument& argument) {
  return argument.kind <= PTO_KIND_TENSOR_LIST;
}

// Appends the part of an attribute that a kernel is specialised on.
void specialise(std::string& bytes, const pto_operator_argument& argument,
                const pto_operator_value& value) {
  if (argument.flags & PTO_ARGUMENT_OPTIONAL) append(bytes, value.count < 0);
  switch (argument.kind) {
    case PTO_KIND_FLOAT:
    case PTO_KIND_SYMINT:
      return;
    case PTO_KIND_STRING:
      append(bytes, value.count);
      if (value.count > 0) bytes.append(value.text, static_cast<size_t>(value.count));
      return;
    case PTO_KIND_INT_LIST:
      append(bytes, value.count);
      for (int64_t i = 0; i < value.count; ++i) append(bytes, value.integers[i]);
      return;
    default:
      append(bytes, value.count < 0 ? 0 : value.integer);
  }
}

AttributeValue attribute(const pto_operator_argument& argument, const pto_operator_value& value) {
  if (value.count < 0) return std::monostate();
  switch (argument.kind) {
    case PTO_KIND_FLOAT:
      return 0.0;
    case PTO_KIND_SYMINT:
      return int64_t{0};
    case PTO_KIND_STRING:
      return std::string(value.text, static_cast<size_t>(value.count));
    case PTO_KIND_INT_LIST:
      return std::vector<int64_t>(value.integers, value.integers + value.count);
    case PTO_KIND_BOOL:
      return value.integer != 0;
    default:
      return value.integer;
  }
}

}  // namespace

CallArguments::CallArguments(const pto_operator_call& call, Reads reads)
    : call_(call), self_(operator_at(call.op->index)) {
  take_tensors(reads);
  take_attributes(reads);
}

void CallArguments::take_tensors(Reads reads) {
  const pto_operator& op = *call_.op;
  n_counts_ = static_cast<size_t>(op.n_tensors);
  bool all_one = true;
  for (size_t i = 0; i < n_counts_; ++i) {
    counts_[i] = call_.counts ? call_.counts[i] : 1;
    n_given_ += static_cast<size_t>(counts_[i]);
    all_one = all_one && counts_[i] == 1;
  }
  if (n_given_ > PTO_MAX_TENSORS) {
    fail({std::string(op.name) + ": called with " + std::to_string(n_given_) + " tensors",
          "a call takes at most " + std::to_string(PTO_MAX_TENSORS) + ", those of lists included",
          "join some of them, or call it several times"});
  }
  for (size_t i = 0; i < n_given_; ++i) {
    tensors_[i] = call_.tensors[i];
    if (reads == Reads::Values) signature_.add(tensors_[i]);
  }
  n_tensors_ = n_given_;
  if (all_one) return;
  for (size_t i = 0; i < n_counts_; ++i) append(specialised_, counts_[i]);
}

void CallArguments::take_attributes(Reads reads) {
  const pto_operator& op = *call_.op;
  for (int i = 0, t = 0, a = 0; i < op.n_arguments; ++i) {
    const pto_operator_argument& argument = op.arguments[i];
    if (is_tensor(argument)) {
      const auto count = static_cast<uint64_t>(counts_[static_cast<size_t>(t++)]);
      if (self_.is_native && argument.kind == PTO_KIND_TENSOR_LIST) scalars_[n_scalars_++] = count;
      continue;
    }
    const pto_operator_value& value = call_.attributes[a++];
    specialise(specialised_, argument, value);
    if (reads == Reads::Kinds) continue;
    if (self_.is_native) {
      add_native_scalar(argument, value);
    } else if (argument.kind == PTO_KIND_FLOAT && value.count >= 0) {
      scalars_[n_scalars_++] = std::bit_cast<uint64_t>(value.real);
    }
    if (argument.kind == PTO_KIND_SYMINT && value.count >= 0) take_symint(argument, value);
  }
  if (!specialised_.empty() && reads == Reads::Values) {
    signature_.attributes = number_of(specialised_);
  }
}

// A SymInt is a size that no tensor has: it enters as the size of a tensor without memory.
void CallArguments::take_symint(const pto_operator_argument& argument,
                                const pto_operator_value& value) {
  if (value.integer < 0) {
    fail({std::string(call_.op->name) + ": " + argument.name + " is " +
              std::to_string(value.integer),
          "a SymInt is a size, and sizes are not negative", "pass a number of at least 0"});
  }
  symints_[n_symints_] = value.integer;
  if (n_tensors_ < tensors_.size()) {
    tensors_[n_tensors_] = {nullptr, &symints_[n_symints_], &kOne, 1,
                            static_cast<int32_t>(DType::Bool)};
    signature_.add(tensors_[n_tensors_]);
  }
  ++n_symints_;
  if (++n_tensors_ <= tensors_.size()) return;
  fail({std::string(call_.op->name) + ": more than " + std::to_string(PTO_MAX_TENSORS) +
            " tensors and SymInt attributes",
        "each of them is one input of the kernel", "split the operator"});
}

void CallArguments::add_native_scalar(const pto_operator_argument& argument,
                                      const pto_operator_value& value) {
  uint64_t scalar = static_cast<uint64_t>(value.integer);
  if (argument.kind == PTO_KIND_STRING) {
    scalar = in_params(value.text, value.count, 1);
  } else if (argument.kind == PTO_KIND_INT_LIST) {
    scalar = in_params(value.integers, value.count, sizeof(int64_t));
  } else if (argument.flags & PTO_ARGUMENT_OPTIONAL) {
    scalar = in_params(&value.integer, value.count < 0 ? -1 : 1, sizeof(int64_t));
  }
  scalars_[n_scalars_++] = scalar;
}

uint64_t CallArguments::in_params(const void* data, int64_t count, size_t bytes) {
  const size_t at = params_.size(), size = count < 0 ? 0 : static_cast<size_t>(count) * bytes;
  params_.resize(at + sizeof count + (size + 7) / 8 * 8);
  std::memcpy(&params_[at], &count, sizeof count);
  if (size) std::memcpy(&params_[at + sizeof count], data, size);
  return at;
}

std::vector<TensorKind> CallArguments::kinds() const {
  std::vector<TensorKind> kinds;
  for (size_t i = 0; i < n_given_; ++i) kinds.push_back({dtype_of(tensors_[i]), tensors_[i].rank});
  return kinds;
}

std::vector<AttributeValue> CallArguments::attributes() const {
  std::vector<AttributeValue> values;
  const pto_operator& op = *call_.op;
  for (int i = 0, a = 0; i < op.n_arguments; ++i) {
    if (!is_tensor(op.arguments[i])) {
      values.push_back(attribute(op.arguments[i], call_.attributes[a++]));
    }
  }
  return values;
}

void CallArguments::check_types() const {
  const pto_operator& op = *call_.op;
  const TypeRule& rule = operator_at(op.index).types;
  std::array<std::string, PTO_MAX_TENSORS> first;
  std::array<DType, PTO_MAX_TENSORS> chosen{};
  for (int i = 0, t = 0, tensor = 0; i < op.n_arguments; ++i) {
    const pto_operator_argument& argument = op.arguments[i];
    if (!is_tensor(argument)) continue;
    const int32_t count = counts_[static_cast<size_t>(t++)];
    for (int32_t n = 0; n < count; ++n) {
      const DType dtype = dtype_of(tensors_[static_cast<size_t>(tensor++)]);
      const auto variable = static_cast<size_t>(argument.type);
      const bool is_list = argument.kind == PTO_KIND_TENSOR_LIST;
      const std::string own =
          std::string(argument.name) + (is_list ? "[" + std::to_string(n) + "]" : "");
      const std::string what =
          std::string(op.name) + ": " + own + " is " + std::string(name(dtype));
      if ((rule.sets[variable] >> static_cast<int>(dtype) & 1) == 0) {
        fail({what, std::string(argument.name) + " may be " + names_of(rule.sets[variable]),
              "convert it first"},
             ErrorKind::Type);
      }
      if (!first[variable].empty() && chosen[variable] != dtype) {
        fail({what + " but " + first[variable] + " is " + std::string(name(chosen[variable])),
              "both have one element type; nothing is cast silently", "convert one of them"},
             ErrorKind::Type);
      }
      first[variable] = own;
      chosen[variable] = dtype;
    }
  }
}

}  // namespace pto
