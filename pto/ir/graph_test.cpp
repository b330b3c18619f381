// SPDX-License-Identifier: Apache-2.0
#include "pto/ir/graph.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "pto/base/error.hpp"
#include "pto/ir/interpret.hpp"
#include "pto/ir/parse.hpp"
#include "pto/ir/print.hpp"
#include "pto/ir/rebuild.hpp"

namespace pto::graph_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Dim s0 = Dim::symbol(0), s1 = Dim::symbol(1), s2 = Dim::symbol(2);

std::string what_of(const std::function<void(GraphBuilder&)>& f) {
  GraphBuilder b("g");
  b.set_location({"user.py", 7});
  try {
    f(b);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Opcode, names_read_back_and_come_from_the_instruction_table) {
  EXPECT_EQ(parse_opcode("exp"), Opcode::exp);
  EXPECT_EQ(info(Opcode::exp).mnemonic, "TEXP");
  EXPECT_EQ(info(Opcode::lt).mnemonic, "LT");
  EXPECT_EQ(info(Opcode::sum).mnemonic, "TROWSUM");
  EXPECT_EQ(info(Opcode::fused).name, "fused");
  EXPECT_FALSE(parse_opcode("TEXP"));
  EXPECT_TRUE(is_elementwise(Opcode::where));
  EXPECT_FALSE(is_elementwise(Opcode::sum));
  EXPECT_FALSE(is_elementwise(Opcode::broadcast));
}

TEST(Builder, merges_equal_nodes_and_keeps_all_locations) {
  GraphBuilder b("g");
  const Value x = b.input("x", DType::F32, {s0});
  b.set_location({"a.py", 1});
  const Value first = b.unary(Opcode::exp, x);
  b.set_location({"a.py", 2});
  EXPECT_EQ(b.unary(Opcode::exp, x), first);
  EXPECT_EQ(b.unary(Opcode::exp, x), first);
  EXPECT_NE(b.unary(Opcode::log, x), first);
  EXPECT_THAT(b.node(first).locations, ElementsAre(Location{"a.py", 1}, Location{"a.py", 2}));
}

TEST(Builder, tells_constants_apart_by_their_bits) {
  GraphBuilder b("g");
  EXPECT_EQ(b.constant(0.1, DType::F32), b.constant(double(0.1f), DType::F32));
  EXPECT_NE(b.constant(0.0, DType::F32), b.constant(-0.0, DType::F32));
  EXPECT_EQ(b.constant(NAN, DType::F32), b.constant(-NAN, DType::F32));
  EXPECT_EQ(b.constant(2.0, DType::I32), b.constant(int64_t(2), DType::I32));
  EXPECT_NE(b.constant(2.0, DType::I32), b.constant(2.0, DType::F32));
}

TEST(Builder, broadcasts_operands_and_guards_sizes_that_must_be_equal) {
  GraphBuilder b("g");
  const Value x = b.input("x", DType::F32, {s0, s1}), y = b.input("y", DType::F32, {s2});
  const Value sum = b.binary(Opcode::add, x, y);
  EXPECT_EQ(b.type(sum), (Type{DType::F32, {s0, s1}}));
  EXPECT_EQ(b.node(b.node(sum).operands[1]).op, Opcode::broadcast);
  EXPECT_EQ(b.binary(Opcode::lt, y, x), b.binary(Opcode::lt, y, x));
  b.output(sum);
  const Graph g = b.build();
  ASSERT_EQ(g.guards().size(), 1u);
  EXPECT_EQ(g.guards()[0], (Guard{{s1, s2, "add"}, {}}));
}

TEST(Builder, guards_that_a_size_is_not_0) {
  GraphBuilder b("g");
  const Value x = b.input("x", DType::F32, {s0, 4});
  b.guard_nonempty(s0, "amax");
  b.guard_nonempty(4, "amax");
  EXPECT_THROW(b.guard_nonempty(0, "amax"), Error);
  b.output(b.reduce(Opcode::amax, x, {0, 1}));
  const Graph g = b.build();
  ASSERT_EQ(g.guards().size(), 1u);
  EXPECT_EQ(g.guards()[0], (Guard{SizeGuard::nonempty(s0, "amax"), {}}));
}

TEST(Builder, infers_types) {
  GraphBuilder b("g");
  const Value x = b.input("x", DType::F32, {s0, s1, 4});
  EXPECT_EQ(text(b.type(b.reduce(Opcode::sum, x, {-1, 0}))), "f32[1, s1, 1]");
  EXPECT_EQ(text(b.type(b.cast(x, DType::BF16))), "bf16[s0, s1, 4]");
  EXPECT_EQ(text(b.type(b.binary(Opcode::lt, x, b.constant(0.0, DType::F32)))), "bool[s0, s1, 4]");
  EXPECT_EQ(text(b.type(b.transpose(x, {2, 0, -2}))), "f32[4, s0, s1]");
  EXPECT_EQ(text(b.type(b.reshape(x, {s0 * 4, s1}))), "f32[s0*4, s1]");
  EXPECT_EQ(text(b.type(b.matmul(x, b.input("w", DType::F32, {4, 8})))), "f32[s0, s1, 8]");
  const Value zero = b.constant(int64_t(0), DType::I64);
  EXPECT_EQ(text(b.type(b.view(x, {zero, zero, zero}, {1, s1, 2}))), "f32[1, s1, 2]");
}

TEST(Builder, puts_inputs_first) {
  GraphBuilder b("g");
  const Value x = b.input("x", DType::F32, {s0});
  const Value e = b.unary(Opcode::exp, x);
  const Value y = b.input("y", DType::F32, {s0});
  b.output(b.binary(Opcode::add, e, y));
  const Graph g = b.build();
  EXPECT_THAT(g.inputs(), ElementsAre(0, 1));
  EXPECT_EQ(g[1].attributes.name, "y");
  EXPECT_EQ(g[2].op, Opcode::exp);
}

TEST(Graph, equality_ignores_locations_only) {
  const auto make = [](int line, Opcode op, const char* name) {
    GraphBuilder b("g");
    b.set_location({"a.py", line});
    b.output(b.unary(op, b.input(name, DType::F32, {s0})));
    return b.build();
  };
  EXPECT_EQ(make(1, Opcode::exp, "x"), make(2, Opcode::exp, "x"));
  EXPECT_NE(print(make(1, Opcode::exp, "x")), print(make(2, Opcode::exp, "x")));
  EXPECT_FALSE(make(1, Opcode::exp, "x") == make(1, Opcode::log, "x"));
  EXPECT_FALSE(make(1, Opcode::exp, "x") == make(1, Opcode::exp, "y"));
}

struct Mistake {
  const char* name;
  std::function<void(GraphBuilder&)> make;
  const char* what;
};

class EachMistake : public ::testing::TestWithParam<Mistake> {};

TEST_P(EachMistake, names_the_users_line_both_values_and_a_fix) {
  EXPECT_THAT(what_of(GetParam().make),
              AllOf(HasSubstr(std::string("user.py:7: ") + GetParam().what), HasSubstr("\n  why: "),
                    HasSubstr("\n  fix: ")));
}

Value f32(GraphBuilder& b, const char* name, Dims shape) {
  return b.input(name, DType::F32, std::move(shape));
}
Value i64(GraphBuilder& b, int64_t value) { return b.constant(value, DType::I64); }

Graph body(DType carried) {
  GraphBuilder b("body");
  b.input("i", DType::I64, {});
  b.output(b.unary(Opcode::neg, b.input("c", carried, {2})));
  return b.build();
}

INSTANTIATE_TEST_SUITE_P(
    Builder, EachMistake,
    ::testing::Values(
        Mistake{"shapes",
                [](auto& b) {
                  b.binary(Opcode::add, f32(b, "x", {2, 3}), f32(b, "y", {4}));
                },
                "add: shapes [2, 3] and [4] do not broadcast: 3 and 4 differ"},
        Mistake{
            "dtypes",
            [](auto& b) { b.binary(Opcode::add, f32(b, "x", {2}), b.input("y", DType::I32, {2})); },
            "add: left is f32 but right is i32"},
        Mistake{"undefined", [](auto& b) { b.unary(Opcode::exp, b.input("x", DType::I32, {2})); },
                "exp: not defined on i32"},
        Mistake{"condition",
                [](auto& b) { b.where(f32(b, "x", {2}), f32(b, "y", {2}), f32(b, "z", {2})); },
                "where: the condition is f32"},
        Mistake{"axis",
                [](auto& b) {
                  b.reduce(Opcode::sum, f32(b, "x", {2, 3}), {2});
                },
                "sum: axis 2 of a tensor of rank 2"},
        Mistake{"axis_twice",
                [](auto& b) {
                  b.reduce(Opcode::sum, f32(b, "x", {2, 3}), {1, -1});
                },
                "sum: an axis is named twice in [1, 1]"},
        Mistake{"broadcast",
                [](auto& b) {
                  b.broadcast(f32(b, "x", {2, 3}), {3, 3});
                },
                "broadcast: shape [2, 3] does not broadcast to [3, 3]"},
        Mistake{"reshape",
                [](auto& b) {
                  b.reshape(f32(b, "x", {2, 3}), {5});
                },
                "reshape: shape [2, 3] has 6 elements but [5] has 5"},
        Mistake{"transpose",
                [](auto& b) {
                  b.transpose(f32(b, "x", {2, 3}), {0, 0});
                },
                "transpose: axes [0, 0] on shape [2, 3]"},
        Mistake{"view_offsets",
                [](auto& b) {
                  b.view(f32(b, "x", {2, 3}), {i64(b, 0)}, {1, 1});
                },
                "view: shape [2, 3], view [1, 1], 1 offsets"},
        Mistake{"view_size",
                [](auto& b) {
                  b.view(f32(b, "x", {2, 3}), {i64(b, 0), i64(b, 0)}, {3, 1});
                },
                "view: axis 0 of shape [2, 3] cannot hold [3, 1]"},
        Mistake{"view_offset_type",
                [](auto& b) { b.view(f32(b, "x", {2}), {b.constant(0.0, DType::F32)}, {1}); },
                "view: an offset is f32[] instead of i64[]"},
        Mistake{"matmul",
                [](auto& b) {
                  b.matmul(f32(b, "x", {2, 3}), f32(b, "y", {4, 5}));
                },
                "matmul: left has shape [2, 3] but right has shape [4, 5]"},
        Mistake{"constant", [](auto& b) { b.constant(1.5, DType::I32); },
                "constant: the value 1.5 is not a value of i32[]"},
        Mistake{"wide_constant", [](auto& b) { b.constant(int64_t(300), DType::U8); },
                "constant: the value 300 is not a value of u8[]"},
        Mistake{"name_twice", [](auto& b) { f32(b, "x", {2}), f32(b, "x", {3}); },
                "input: the name \"x\" is used twice"},
        Mistake{"guard", [](auto& b) { b.guard_equal(3, 4, "add"); },
                "add: sizes 3 and 4 must be equal"},
        Mistake{"no_output", [](auto& b) { b.build(); }, "graph \"g\" has no output"},
        Mistake{"result", [](auto& b) { b.result(f32(b, "x", {2}), 0); },
                "result: index 0 of input"},
        Mistake{"result_index",
                [](auto& b) {
                  const Value loop =
                      b.loop(i64(b, 0), i64(b, 3), i64(b, 1), {f32(b, "x", {2})}, body(DType::F32));
                  b.result(loop, 1);
                },
                "result: index 1 of loop"},
        Mistake{"loop_carried",
                [](auto& b) {
                  b.loop(i64(b, 0), i64(b, 3), i64(b, 1), {f32(b, "x", {2})}, body(DType::F64));
                },
                "loop: operand 3 is f32[2] but the body expects f64[2]"},
        Mistake{"loop_bound",
                [](auto& b) {
                  b.loop(i64(b, 0), f32(b, "n", {}), i64(b, 1), {f32(b, "x", {2})},
                         body(DType::F32));
                },
                "loop: a bound is f32[] instead of i64[]"},
        Mistake{"fused", [](auto& b) { b.fused({f32(b, "x", {2})}, body(DType::F32)); },
                "fused: the body takes 2 inputs but gets 1"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(Graph, nodes_carry_hints_that_are_no_part_of_them) {
  const auto graph_with = [](std::vector<Hint> hints) {
    GraphBuilder b("hinted");
    const Value x = b.input("x", DType::F32, {8});
    b.set_hints(std::make_shared<const std::vector<Hint>>(std::move(hints)));
    const Value y = b.unary(Opcode::exp, x);
    b.set_hints({});
    EXPECT_EQ(b.unary(Opcode::exp, x), y);
    b.output(b.unary(Opcode::neg, y));
    return b.build();
  };
  const Graph graph = graph_with({{"label", {}, "a \"b\""}, {"vec_tile", {1, 64}, ""}});
  const std::string line = R"(exp(%x) : f32[8] !label="a \"b\"" !vec_tile=[1, 64])";
  EXPECT_NE(print(graph).find(line + "\n"), std::string::npos) << print(graph);
  EXPECT_EQ(print(parse(print(graph))), print(graph));
  EXPECT_EQ(graph, graph_with({{"leaf", {}, "q"}}));
  const auto copy = [](GraphBuilder& b, const Node& node, Value) {
    return std::optional(b.copy(node, node.operands));
  };
  EXPECT_EQ(print(rebuild(graph, graph.outputs(), copy)), print(graph));
}

TEST(Graph, an_inlined_guard_keeps_its_line) {
  GraphBuilder inner("inner");
  const Value a = inner.input("a", DType::F32, {s0}), c = inner.input("c", DType::F32, {s1});
  inner.set_location({"a.py", 3});
  const Value sum = inner.binary(Opcode::add, a, c);
  inner.set_location({"a.py", 9});
  inner.output(inner.unary(Opcode::exp, sum));
  const Graph graph = inner.build();
  GraphBuilder b("outer");
  const Value x = b.input("x", DType::F32, {s0}), y = b.input("y", DType::F32, {s1});
  int free_symbol = 2;
  b.output(inline_graph(b, graph, {x, y}, &free_symbol)[0]);
  const Graph outer = b.build();
  ASSERT_EQ(outer.guards().size(), 1u);
  EXPECT_EQ(outer.guards()[0].location, (Location{"a.py", 3}));
}

TEST(Graph, a_guard_that_a_size_has_a_value_survives_each_copy) {
  GraphBuilder inner("inner");
  inner.let_sizes_be_one();
  const Value a = inner.input("a", DType::F32, {s0}), c = inner.input("c", DType::F32, {s1});
  inner.set_location({"a.py", 3});
  inner.output(inner.reduce(Opcode::sum, inner.binary(Opcode::add, a, c), {0}));
  const Graph graph = inner.build();
  const Dim size = broadcast(s0, s1);
  ASSERT_EQ(graph.guards(), (std::vector<Guard>{{{size, size, "add"}, {}}}));

  const auto copy = [](GraphBuilder& b, const Node& node, Value) {
    return std::optional(b.copy(node, node.operands));
  };
  EXPECT_EQ(print(rebuild(graph, graph.outputs(), copy)), print(graph));
  EXPECT_EQ(print(parse(print(graph))), print(graph));
  GraphBuilder b("outer");
  const Value x = b.input("x", DType::F32, {s0}), y = b.input("y", DType::F32, {s1});
  int free_symbol = 2;
  b.output(inline_graph(b, graph, {x, y}, &free_symbol)[0]);
  const Graph outer = b.build();
  ASSERT_EQ(outer.guards(), graph.guards());
  EXPECT_EQ(outer.guards()[0].location, (Location{"a.py", 3}));
  EXPECT_NO_THROW(check_guards(outer, {1, 5}));
  EXPECT_THROW(check_guards(outer, {3, 4}), Error);
}

}  // namespace pto::graph_test
