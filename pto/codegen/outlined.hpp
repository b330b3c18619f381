// SPDX-License-Identifier: Apache-2.0
// outlined(): makes statements the body of a function of their own, the same for statements that
// differ in the numbers of their names alone.
//
//     const Outlined one = outlined("r7 = v3 + v5;", type_of);
//     one.parameters;    // "float& r0, const float v0, const float v1"
//     one.arguments;     // "r7, v3, v5"
//     one.text;          // "r0 = v0 + v1;"
//
// Numbered names are those that region_body.hpp lists, and r<k>.
//
// Thread safety: pure function.
#pragma once

#include <functional>
#include <string>

namespace pto {

struct Outlined {
  std::string parameters, arguments, text;
};

// `type_of` returns the type of the parameter for a name from around the statements; "" for a name
// that they define, or that is known everywhere.
Outlined outlined(const std::string& text,
                  const std::function<std::string(const std::string& name)>& type_of);

}  // namespace pto
