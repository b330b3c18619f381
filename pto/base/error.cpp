// SPDX-License-Identifier: Apache-2.0
#include "pto/base/error.hpp"

namespace pto {
namespace {

std::string joined(const ErrorText& text, const std::string& location) {
  std::string all = location.empty() ? text.what : location + ": " + text.what;
  if (!text.why.empty()) all += "\n  why: " + text.why;
  if (!text.fix.empty()) all += "\n  fix: " + text.fix;
  return all;
}

}  // namespace

Error::Error(ErrorText text, ErrorKind kind)
    : std::runtime_error(joined(text, "")), text_(std::move(text)), kind_(kind) {}

Error Error::at(const std::string& location) const {
  const bool is_ours = location.rfind("<pto>", 0) == 0;
  if (!location_.empty() || location.empty() || is_ours) return *this;
  Error located = *this;
  static_cast<std::runtime_error&>(located) = std::runtime_error(joined(text_, location));
  located.location_ = location;
  return located;
}

void fail(ErrorText text, ErrorKind kind) { throw Error(std::move(text), kind); }

void assertion_failed(const char* expression, const char* file, int line) {
  throw std::logic_error(std::string("internal error: ") + expression + " does not hold at " +
                         file + ":" + std::to_string(line) + "; please report it");
}

}  // namespace pto
