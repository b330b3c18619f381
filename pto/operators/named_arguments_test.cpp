// SPDX-License-Identifier: Apache-2.0
// Tests the places that names of attributes have, against the parsed schema.
#include "pto/operators/named_arguments.hpp"

#include <gtest/gtest.h>

#include "pto/operators/schema.hpp"

namespace pto::named_arguments_test {

TEST(NamedArguments, have_the_places_that_the_parsed_schema_gives_them) {
  for (const char* schema : {
           "f(Tensor x) -> Tensor",
           "a::f(Tensor(a!) x, Tensor? m, Tensor[] xs, int n) -> (Tensor(a!) y, Tensor[] zs)",
           "f(Tensor x, *, str s='a, (b', int[2] l=[1, 2], float? r=None, bool b=True) -> ()",
           "f(int needs, Tensor[] tensors, int needs_=-1, Tensor? x, Tensor[] more, SymInt? n=None,"
           " Tensor last, Scalar a=1.0) -> (Tensor needs__, Tensor y)",
       }) {
    const Schema parsed = parse_schema(schema);
    const std::string printed = text(parsed, /*names_outputs=*/true);
    int attribute = 0, singles = 0;
    std::vector<int> lists;
    const auto expect = [&](const std::string& name, bool is_tensor, bool is_list, bool is_output) {
      const schema_text::Place found = schema_text::place_of(printed.c_str(), name.c_str());
      const bool counts = !is_output && (!is_tensor || is_list);
      EXPECT_EQ(found.attribute, counts ? attribute : -1) << name << " of " << printed;
      EXPECT_EQ(found.singles, is_tensor ? singles : -1) << name << " of " << printed;
      EXPECT_EQ(found.is_list, is_list);
      EXPECT_EQ(std::vector<int>(found.lists, found.lists + found.n_lists), lists);
      if (is_list && !is_output) lists.push_back(attribute);
      attribute += counts;
      singles += is_tensor && !is_list;
    };
    for (const Argument& argument : parsed.arguments) {
      expect(argument.name, is_tensor(argument), argument.kind == ArgumentKind::TensorList, false);
    }
    for (const Return& one : parsed.returns) {
      if (one.alias.empty())
        expect(one.name, true, one.is_list, true);
      else
        ++singles;  // prints without its name
    }
    EXPECT_EQ(schema_text::place_of(printed.c_str(), "need").attribute, -1);
    EXPECT_EQ(schema_text::place_of(printed.c_str(), "f").singles, -1);
  }
}

struct Cut {
  static constexpr char text[] =
      "cut(Tensor x, Tensor[] xs, Tensor? y, int[] sizes, float factor=1.0) -> (Tensor[] result)";
};

TEST(NamedArguments, read_what_stands_at_the_place) {
  // The length of xs, the offset of sizes, the bits of 2.0.
  const uint64_t scalars[] = {3, 0, 0x4000000000000000};
  const int64_t params[] = {2, 3, 4};
  pto_tensor tensors[7] = {};  // x, xs, y, the results
  tensors[4].flags = PTO_TENSOR_ABSENT;
  pto_args args{};
  args.scalars = scalars, args.params = params, args.tensors = tensors, args.n_tensors = 7;
  const NamedArguments<Cut> in(&args);
  EXPECT_EQ(in.integers("sizes"_arg)[1], 4);
  EXPECT_EQ(in.real("factor"_arg), 2.0);
  EXPECT_EQ(&in.tensor("xs"_arg, 2), tensors + 3);
  EXPECT_TRUE(in.is_absent("y"_arg));
  EXPECT_EQ(&in.tensor("result"_arg, 1), tensors + 6);
}

}  // namespace pto::named_arguments_test
