// SPDX-License-Identifier: Apache-2.0
// The rules of the public simulator, which takes more than the documentation says: see
// pto/isa/tile/rules.hpp for each. pto/pto-inst.hpp includes this first where __CPU_SIM is defined.
//
//     #define __CPU_SIM          // or -D__CPU_SIM -I compat
//     #include <pto/pto-inst.hpp>
//
// Thread safety: constants only.
#pragma once

namespace pto {

struct SimulatorRules {
  static constexpr bool kTakesOtherShapes = true;
  static constexpr bool kConvertsAllTiles = true;
  static constexpr bool kTakesScalesAnywhere = true;
  static constexpr bool kScalesRunAlongLines = true;
  static constexpr bool kFitsViewsToTiles = true;
  static constexpr bool kIgnoresFloatScales = true;
  static constexpr bool kTakesPairs = true;
  static constexpr bool kTakesTemporaryBeforeLast = true;
  static constexpr bool kKeepsTileState = true;
  static constexpr bool kHasControlRegister = true;
  static constexpr bool kPrintsAsSimulator = true;
};

}  // namespace pto

#define PTO_RULES ::pto::SimulatorRules
