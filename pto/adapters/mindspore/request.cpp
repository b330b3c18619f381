// SPDX-License-Identifier: Apache-2.0
#include "pto/adapters/mindspore/request.hpp"

#include <charconv>
#include <cstdlib>
#include <stdexcept>
#include <utility>

#include "pto/adapters/operator.hpp"
#include "pto/base/error_message.hpp"

namespace pto::mindspore_adapter {
namespace {

// Reads Python's float.hex() or "inf", "-inf", "nan", whatever the locale; returns its end.
const char* read_real(const char* at, const char* end, double& value) {
  const bool is_negative = *at == '-';
  const char* digits = at + is_negative;
  if (end - digits > 2 && digits[0] == '0' && digits[1] == 'x') digits += 2;
  const char* const stop = std::from_chars(digits, end, value, std::chars_format::hex).ptr;
  if (is_negative) value = -value;
  return stop;
}

}  // namespace

void fail(const std::string& what, const std::string& why, const std::string& fix) {
  throw std::runtime_error(error_message(what, why, fix));
}

Request::Request(const std::string& name, std::string text, const std::string& schema)
    : op_(pto_operator_find(name.c_str())), text_(std::move(text)) {
  if (!op_) {
    fail("the graph calls the operator " + name + ", which this process does not know",
         "a graph names operators; they are defined by the code that made the graph",
         "import pto.mindspore and what defines " + name + " first");
  }
  if (!schema.empty() && schema != op_->schema) {
    fail(name + ": the graph calls " + schema + ", but the operator is " + op_->schema,
         "a graph keeps the arguments of one signature, which mean something else in another",
         "export the graph again with this version of the operator");
  }
  const char* at = text_.c_str();
  read_counts(at);
  for (int32_t i = 0; i < op_->n_arguments; ++i) {
    if (!is_tensor(op_->arguments[i])) values_.push_back(read_value(at));
  }
  if (at != text_.c_str() + text_.size()) refuse(at);
}

pto_operator_call Request::call(const pto_tensor_ref* tensors) const {
  pto_operator_call call = {};
  call.op = op_;
  call.tensors = tensors;
  call.counts = counts_.data();
  call.attributes = values_.data();
  return call;
}

void Request::read_counts(const char*& at) {
  for (int32_t i = 0; i < op_->n_arguments; ++i) {
    if (!is_tensor(op_->arguments[i])) continue;
    char* end = nullptr;
    const long count = std::strtol(at, &end, 10);
    if (end == at || count < 0 || count > 4096 || *end != ',') refuse(at);
    counts_.push_back(static_cast<int32_t>(count));
    owners_.insert(owners_.end(), static_cast<size_t>(count), &op_->arguments[i]);
    at = end + 1;
  }
  if (*at++ != ';') refuse(at - 1);
  n_tensors_ = owners_.size();
  attributes_at_ = static_cast<size_t>(at - text_.c_str());
}

pto_operator_value Request::read_value(const char*& at) {
  pto_operator_value value = {};
  const char* const start = at;
  const char kind = *at++;
  char* end = const_cast<char*>(at);
  if (kind == 'n') {
    value.count = -1;
  } else if (kind == 'i') {
    value.integer = std::strtoll(at, &end, 10);
  } else if (kind == 'f') {
    end = const_cast<char*>(read_real(at, text_.c_str() + text_.size(), value.real));
  } else if (kind == 's' || kind == 'l') {
    value.count = std::strtoll(at, &end, 10);
    const auto left = text_.c_str() + text_.size() - end;
    if (*end != ':' || value.count < 0 || value.count >= left) refuse(start);
    ++end;
    if (kind == 's') {
      value.text = end;
      end += value.count;
    } else {
      auto& list = lists_.emplace_back();
      for (int64_t i = 0; i < value.count; ++i) {
        list.push_back(std::strtoll(end, &end, 10));
        if (*end++ != ',') refuse(start);
      }
      value.integers = list.data();
    }
  } else {
    refuse(start);
  }
  if (*end != ';') refuse(start);
  at = end + 1;
  return value;
}

void Request::refuse(const char* at) const {
  fail(std::string(op_->name) + ": the call " + text_ + " of a graph cannot be read at byte " +
           std::to_string(at - text_.c_str()),
       std::string("it was written for another signature than ") + op_->schema,
       "export the graph again with this version of the operator");
}

}  // namespace pto::mindspore_adapter
