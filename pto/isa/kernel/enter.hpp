// SPDX-License-Identifier: Apache-2.0
// PTO_ENTER: the first line of every instruction: its name, its form, and the tiles that it writes
// and reads.
//
//     PTO_ENTER(TSORT32, "d, s, idx", out(d), in(s, idx));
//     PTO_ENTER(TSCATTER, "d, s, index", out(PTO_PART(d)), in(s, index));   // writes some of d
//     PTO_IF_CHECKED(check(d);)     // code of checked builds alone
//
// The form is the operands as the row in forms.def (or the kind of the row in instructions.def)
// writes them. The line does nothing here. PTO_CHECKED gives it the checks of checked.hpp; a build
// that notes what runs defines the macro before (tests/isa_coverage.hpp does), or here (the
// simulator's trace mode).
//
// PTO_INSTRUCTION is PTO_ENTER in an instruction whose last operands are a pack X: temporary tiles
// and events.
//
// Thread safety: nothing to share.
#pragma once
#ifdef PTO_CHECKED
#include "pto/isa/kernel/checked.hpp"
#endif
#if defined(__CPU_SIM) && defined(PTO_CPU_SIM_TRACE_MODE) && __has_include(<pto/cpu/trace.hpp>)
#include <pto/cpu/trace.hpp>
#endif
#ifndef PTO_ENTER
#define PTO_ENTER(...)
#endif
#define PTO_INSTRUCTION(...)             \
  static_assert(check_trailing<X...>()); \
  PTO_ENTER(__VA_ARGS__)
#ifndef PTO_IF_CHECKED
#define PTO_IF_CHECKED(...)
#define PTO_PART(d) d
#endif
