// SPDX-License-Identifier: Apache-2.0
// Tests the places that names of attributes have, against the parsed schema.
#include "pto/operators/named_arguments.hpp"

#include <gtest/gtest.h>

#include "pto/operators/schema.hpp"

namespace pto {
namespace {

TEST(NamedArguments, count_attributes_and_lists_of_tensors_as_the_parsed_schema_has_them) {
  for (const char* schema : {
           "f(Tensor x) -> Tensor",
           "a::f(Tensor(a!) x, Tensor? m, Tensor[] xs, int n) -> Tensor(a!)",
           "f(Tensor x, *, str s='a, (b', int[2] l=[1, 2], float? r=None, bool b=True) -> ()",
           "f(int needs, Tensor[] tensors, int needs_=-1, SymInt? n=None, Scalar a=1.0) -> Tensor",
       }) {
    int place = 0;
    const Schema parsed = parse_schema(schema);
    for (const Argument& argument : parsed.arguments) {
      const bool counts = argument.kind != ArgumentKind::Tensor;
      EXPECT_EQ(schema_text::place_of(text(parsed).c_str(), argument.name.c_str()),
                counts ? place++ : -1)
          << argument.name << " of " << schema;
    }
    EXPECT_EQ(schema_text::place_of(text(parsed).c_str(), "need"), -1);
    EXPECT_EQ(schema_text::place_of(text(parsed).c_str(), "f"), -1);
  }
}

struct Cut {
  static constexpr char text[] = "cut(Tensor x, int[] sizes, float factor=1.0) -> Tensor[]";
};

TEST(NamedArguments, read_what_stands_at_the_place) {
  const uint64_t scalars[] = {0, 0x4000000000000000};  // the offset of sizes, the bits of 2.0
  const int64_t params[] = {2, 3, 4};
  pto_args args{};
  args.scalars = scalars, args.params = params;
  const KernelArguments in(&args);
  const NamedArguments<Cut> named(in);
  EXPECT_EQ(named.integers("sizes"_arg)[1], 4);
  EXPECT_EQ(named.real("factor"_arg), 2.0);
}

}  // namespace
}  // namespace pto
