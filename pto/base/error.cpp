// SPDX-License-Identifier: Apache-2.0
#include "pto/base/error.hpp"

namespace pto {

std::optional<ErrorText> read_error_message(const std::string& message) {
  static const std::string kWhy = "\n  why: ", kFix = "\n  fix: ";
  const size_t why = message.find(kWhy), fix = message.find(kFix);
  if (why == std::string::npos || fix == std::string::npos || fix < why) return std::nullopt;
  const size_t from = why + kWhy.size();
  return ErrorText{message.substr(0, why), message.substr(from, fix - from),
                   message.substr(fix + kFix.size())};
}

Error::Error(ErrorText text, ErrorKind kind)
    : std::runtime_error(error_message(text)), text_(std::move(text)), kind_(kind) {}

Error Error::at(const std::string& location) const {
  const bool is_ours = location.rfind("<pto>", 0) == 0;
  if (!location_.empty() || location.empty() || is_ours) return *this;
  Error located = *this;
  static_cast<std::runtime_error&>(located) =
      std::runtime_error(location + ": " + error_message(text_));
  located.location_ = location;
  return located;
}

void fail(ErrorText text, ErrorKind kind) { throw Error(std::move(text), kind); }

void assertion_failed(const char* expression, const char* file, int line) {
  throw std::logic_error(std::string("internal error: ") + expression + " does not hold at " +
                         file + ":" + std::to_string(line) + "; please report it");
}

}  // namespace pto
