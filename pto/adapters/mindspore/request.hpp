// SPDX-License-Identifier: Apache-2.0
// Request: the operator of a call, its tensors and its attributes, read from the two texts that the
// Python side made (call_text in primitive.py).
//
//     const Request request("gelu", "1,;s4:tanh;");
//
// Grammar of a call: the counts of pto_operator_call, each with a comma; a semicolon; then each
// attribute with a semicolon: n (None), i and an integer, f and a hexadecimal float, s, a number of
// bytes, a colon and the bytes, or l, a number of elements, a colon and integers, each with a
// comma.
// Invariant: the values point into the request, which therefore is not copied.
// Thread safety: constant after its construction.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "pto/abi/operator.h"

namespace pto::mindspore_adapter {

// Throws std::runtime_error with a text of three lines.
[[noreturn]] void fail(const std::string& what, const std::string& why, const std::string& fix);

class Request {
 public:
  // Throws std::runtime_error for an unknown operator, for a text that is no call, and where the
  // operator has another schema than the one that the call was written for, if that is known.
  Request(const std::string& name, std::string text, const std::string& schema = {});
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;

  const pto_operator& op() const { return *op_; }
  const std::string& text() const { return text_; }
  size_t n_tensors() const { return n_tensors_; }  // those given, lists one by one

  // Returns the call without tensors' memory and `allocate`, which the caller adds.
  pto_operator_call call(const pto_tensor_ref* tensors) const;

  // Returns the tensor argument to which given tensor `i` belongs.
  const pto_operator_argument& argument(size_t i) const { return *owners_[i]; }

  // Returns the index of the first byte after the counts.
  size_t attributes_at() const { return attributes_at_; }

 private:
  void read_counts(const char*& at);
  pto_operator_value read_value(const char*& at);
  [[noreturn]] void refuse(const char* at) const;

  const pto_operator* op_ = nullptr;
  std::string text_;
  size_t n_tensors_ = 0, attributes_at_ = 0;
  std::vector<int32_t> counts_;
  std::vector<const pto_operator_argument*> owners_;
  std::vector<pto_operator_value> values_;
  std::deque<std::vector<int64_t>> lists_;
};

}  // namespace pto::mindspore_adapter
