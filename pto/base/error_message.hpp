// SPDX-License-Identifier: Apache-2.0
// error_message() joins what is wrong, why it is and how to fix it, as users read them.
//
//     throw std::runtime_error(error_message("two is not three", "they differ", "use three"));
//
// Headers that users compile include this file too: it needs C++11 and no library of ours.
// Invariant: its names hold no type of ours, so libraries with either ABI of std::string may meet.
// Thread safety: pure function.
#pragma once

#include <string>

namespace pto {

// Leaves out the line of an empty `why` or `fix`.
inline std::string error_message(const std::string& what, const std::string& why,
                                 const std::string& fix) {
  std::string message = what;
  if (!why.empty()) message += "\n  why: " + why;
  if (!fix.empty()) message += "\n  fix: " + fix;
  return message;
}

}  // namespace pto
