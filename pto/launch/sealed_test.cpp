// SPDX-License-Identifier: Apache-2.0
// Sealed programs read back as they were, and nothing else does.
#include "pto/launch/sealed.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pto/abi/program.h"
#include "pto/base/error.hpp"

namespace pto::sealed_test {

using testing::AllOf;
using testing::HasSubstr;

SealedProgram example() {
  const Dim s0 = Dim::symbol(0), s1 = Dim::symbol(1);
  ProgramSpec spec;
  spec.name = "attend";
  spec.inputs = {{"q", DType::BF16, {s0, 1, s1}, StrideClass::Any, -1, -1, false}};
  spec.outputs = {{"y", DType::F64, {floordiv(s0 * 3 + 2, s1), 7}, StrideClass::Contiguous, 0, 0}};
  spec.temporaries = {{"t", DType::I8, {min(s0, 9)}}};
  spec.scalars = {{"scale", DType::F32}};
  ProgramSpec::Guard guard;
  static_cast<SizeGuard&>(guard) = SizeGuard::nonempty(s1, "amax");
  guard.location = "model.py:3";
  spec.guards = {guard};
  LaunchSpec launch;
  launch.function = "attend_program";
  launch.tensors = {0, kAbsentTensor, 2};
  launch.items = s0 * s1;
  launch.bytes = s0 * 4096;
  launch.quantum = 16;
  launch.is_program = true;
  spec.launches = {launch};
  spec.packed = {{0, 2, 1, 3}};
  return {"x86_64",
          Target::Avx2,
          "attend(q: bf16[s0, 1, s1], k=2)",
          spec,
          {{}, {true, 2}},
          std::string("\x7f"
                      "ELF\0\xff",
                      6)};
}

SealedProgram read(const std::string& bytes) {
  const char* rest = bytes.data();
  SealedProgram found = unseal("f.pto", &rest, bytes.data() + bytes.size());
  EXPECT_EQ(rest, bytes.data() + bytes.size());
  return found;
}

TEST(SealedProgram, reads_back_with_every_field) {
  const std::string bytes = seal(example());
  const SealedProgram found = read(bytes);
  EXPECT_EQ(seal(found), bytes);
  EXPECT_EQ(text(found.spec.outputs[0].shape), text(example().spec.outputs[0].shape));
  EXPECT_EQ(found.spec.guards[0].kind, GuardKind::Nonempty);
  EXPECT_EQ(found.spec.launches[0].tensors, (std::vector<int>{0, kAbsentTensor, 2}));
  EXPECT_FALSE(found.spec.inputs[0].is_read);
  EXPECT_EQ(found.spec.packed, example().spec.packed);
  EXPECT_TRUE(!found.numbers[0].is_fixed && found.numbers[1].is_fixed);
  EXPECT_EQ(found.object.size(), 6u);
}

TEST(SealedProgram, is_refused_when_it_ends_early) {
  const std::string bytes = seal(example());
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_THROW(read(bytes.substr(0, size)), Error) << size;
}

TEST(SealedProgram, with_any_other_byte_is_refused_or_read_whole) {
  std::string bytes = seal(example());
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (const char bits : {'\x01', '\x80'}) {
      bytes[i] ^= bits;
      try {
        const char* rest = bytes.data();
        unseal("f.pto", &rest, bytes.data() + bytes.size());
      } catch (const Error&) {
      }
      bytes[i] ^= bits;
    }
  }
  EXPECT_EQ(seal(read(bytes)), bytes);
}

TEST(SealedProgram, of_another_version_is_refused_with_both_versions) {
  for (const size_t place : {0, 8, 16}) {
    std::string bytes = seal(example());
    bytes[place] = 9;
    try {
      read(bytes);
      FAIL();
    } catch (const Error& error) {
      EXPECT_THAT(error.what(),
                  AllOf(HasSubstr("f.pto holds a program of version"), HasSubstr("9"),
                        HasSubstr("this pto runs version " + std::to_string(kSealVersion) + ".1." +
                                  std::to_string(PTO_PROGRAM_VERSION))));
    }
  }
}

TEST(SealedProgram, is_refused_on_a_cpu_that_lacks_its_instructions) {
  const auto refusal = [](const std::string& machine, Target best) -> std::string {
    try {
      check_machine("f.pto", example(), machine, best);
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  };
  EXPECT_EQ(refusal("x86_64", Target::Avx2), "");
  EXPECT_EQ(refusal("x86_64", Target::Avx512), "");
  EXPECT_THAT(refusal("x86_64", Target::Portable),
              AllOf(HasSubstr("f.pto needs avx2"), HasSubstr("no more than portable"),
                    HasSubstr("PTO_TARGET=portable")));
  EXPECT_THAT(refusal("aarch64", Target::Portable),
              AllOf(HasSubstr("code for x86_64"), HasSubstr("is called aarch64")));
}

}  // namespace pto::sealed_test
