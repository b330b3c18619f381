// SPDX-License-Identifier: Apache-2.0
// Units: the parts of a generated text that compilers take side by side.
//
//     for (const Unit& unit : units_of(text, 2)) compile(unit.text, unit.is_root);
//
// A unit has everything in front of the text's first function, a declaration of each function that
// units share, and some of the functions. Those that were static are hidden functions of the
// library then.
//
// Invariant: the units together define what the text defines; a text that one compiler takes in
// about half a second is one unit.
// Thread safety: pure function.
#pragma once

#include <string>
#include <vector>

namespace pto {

struct Unit {
  std::string text;
  bool is_root = false;  // only calls others: long, and run once a call
};

// Returns the text itself, or at most `most` + 1 units: the largest first, of about equal cost.
std::vector<Unit> units_of(const std::string& text, int most);

}  // namespace pto
