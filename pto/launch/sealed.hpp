// SPDX-License-Identifier: Apache-2.0
// SealedProgram: a compiled program as bytes, to run where there is no compiler.
//
//     std::string bytes = seal(program);
//     const char* rest = bytes.data();
//     SealedProgram same = unseal("f.pto", &rest, rest + bytes.size());
//
// Invariant: one list of fields (sealed.cpp) serves writing and reading. kSealVersion is raised
// with each change of it.
// Thread safety: plain values and pure functions.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "pto/base/machine.hpp"
#include "pto/base/program_spec.hpp"
#include "pto/launch/program.hpp"

namespace pto {

inline constexpr uint32_t kSealVersion = 2;

// A parameter that is a number: an argument of each call, or fixed by the compilation. Integers are
// an int64, floats the bits of a double.
struct SealedNumber {
  bool is_fixed = false;
  uint64_t bits = 0;
};

struct SealedProgram {
  std::string machine;  // uname's
  Target target = Target::Portable;
  std::string text;  // for people: "attend(q: f32[s0, s1], k=2)"
  ProgramSpec spec;
  std::vector<SealedNumber> numbers;
  std::string object;  // a shared object; empty where nothing is launched
};

// Returns uname's name of this machine, "x86_64".
std::string machine_name();

std::string seal(const SealedProgram& program);

// Reads the program at *rest and moves behind it. Throws pto::Error, which begins with `shown`,
// where the bytes are no program, or one of another version.
SealedProgram unseal(const std::string& shown, const char** rest, const char* end);

// Throws pto::Error where a machine of this name, with no more instructions than `best`, cannot run
// the program.
void check_machine(const std::string& shown, const SealedProgram& program,
                   const std::string& machine, Target best);

// Loads the code. Throws as load_object() and Program do.
std::shared_ptr<const Program> load_program(const SealedProgram& program);

}  // namespace pto
