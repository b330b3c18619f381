// SPDX-License-Identifier: Apache-2.0
// Rules: how instructions treat operands that their documentation leaves open, in one struct.
//
//     if constexpr (Rules::kTakesOtherShapes) pair_lines(d, s);
//
// A kernel gets the rules below, which refuse what the documentation refuses. A source that defines
// PTO_RULES before the first header of the instruction set gets that struct instead; pto-inst.hpp
// includes the definition of compat/ for sources of the public simulator.
//
// Invariant: every translation unit of a kernel has one definition. Both structs have the same
// members; a rule that is true takes more sources and changes the meaning of none that both take,
// except where it says so.
// Thread safety: constants only.
#pragma once
#include "pto/isa/tile/types.hpp"

PTO_NAMESPACE_BEGIN

struct DocumentedRules {
  // Operands may have other Rows x Cols or another order; their lines pair up.
  static constexpr bool kTakesOtherShapes = false;
  // Tiles other than accumulators change their type, and are quantised, by TMOV and TSTORE too.
  static constexpr bool kConvertsAllTiles = false;
  // Scales of columns may lie in any tile of 64-bit entries.
  static constexpr bool kTakesScalesAnywhere = false;
  // The scales of a column-major tile on its way to memory run along its lines. (Changes meaning.)
  static constexpr bool kScalesRunAlongLines = false;
  // Where only the other order of a view's dimensions fits a plain tile, that order is taken.
  static constexpr bool kFitsViewsToTiles = false;
  // TMATMUL_MX of floats with float scales ignores the scales. (Changes meaning.)
  static constexpr bool kIgnoresFloatScales = false;
  // TPARTARG... of integers takes its operands in pairs: value, index, value, index.
  static constexpr bool kTakesPairs = false;
  // TSEL takes a temporary tile before its last operand.
  static constexpr bool kTakesTemporaryBeforeLast = false;
  // Tiles keep SetKAligned's value, and data() of boxed ones can be assigned to.
  static constexpr bool kKeepsTileState = false;
  // A thread has a control register; else it reads 0.
  static constexpr bool kHasControlRegister = false;
  // TPRINT writes the header and the lines of the public simulator.
  static constexpr bool kPrintsAsSimulator = false;
};

#ifdef PTO_RULES
using Rules = PTO_RULES;
#else
using Rules = DocumentedRules;
#endif

PTO_NAMESPACE_END
