// SPDX-License-Identifier: Apache-2.0
// Errors: pto::Error reports the user's mistake, PTO_ASSERT ours.
//
//     fail({"add: left has shape [2, 3] but right has shape [4]",
//           "shapes must broadcast: sizes are equal or one of them is 1",
//           "reshape an operand"});
//
// Thread safety: all functions may be called from any thread.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>

#include "pto/base/error_message.hpp"

namespace pto {

struct ErrorText {
  std::string what;  // the fact, with both values
  std::string why;   // the rule
  std::string fix;   // the user's next step
};

inline std::string error_message(const ErrorText& text) {
  return error_message(text.what, text.why, text.fix);
}

// Reads a message again; nullopt where it lacks why or fix.
std::optional<ErrorText> read_error_message(const std::string& message);

// Names the Python exception that an Error also is.
enum class ErrorKind { Value, Type, Index, Runtime, Position };

class Error : public std::runtime_error {
 public:
  Error(ErrorText text, ErrorKind kind = ErrorKind::Value);

  const ErrorText& text() const { return text_; }
  ErrorKind kind() const { return kind_; }
  const std::string& location() const { return location_; }  // "" where unknown

  // Returns the same error with the user's source line, "file.py:12", in front. It stays unchanged
  // where it has a line already, and for "" and lines of our own files, which begin with "<pto>".
  Error at(const std::string& location) const;

 private:
  ErrorText text_;
  ErrorKind kind_;
  std::string location_;
};

[[noreturn]] void fail(ErrorText text, ErrorKind kind = ErrorKind::Value);

[[noreturn]] void assertion_failed(const char* expression, const char* file, int line);

}  // namespace pto

// Checks an invariant of ours, never a user's input: throws std::logic_error in every build.
#define PTO_ASSERT(condition) \
  ((condition) ? void() : ::pto::assertion_failed(#condition, __FILE__, __LINE__))
