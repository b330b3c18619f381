// SPDX-License-Identifier: Apache-2.0
#include "pto/codegen/region_plan.hpp"

#include <gtest/gtest.h>

#include "pto/ir/parse.hpp"
#include "pto/ir/print.hpp"

namespace pto::region_plan_test {

constexpr StrideClass kDense = StrideClass::Contiguous, kRows = StrideClass::Rows;

// Prints "axes; sweeps; buffers; items", inner axes in parentheses.
std::string plan(const char* text, const std::vector<RegionLayout>& layouts) {
  const RegionPlan p = plan_region(parse(text), layouts);
  std::string all;
  for (const RegionAxis& axis : p.axes) {
    const std::string size = pto::text(axis.size);
    all += (all.empty() ? "" : " ") + (axis.inner ? "(" + size + ")" : size);
  }
  return all + "; " + std::to_string(p.sweeps) + "; " + std::to_string(p.buffers.size()) + "; " +
         pto::text(p.items());
}

constexpr const char* kSoftmax = R"(graph softmax(%x: f32[s0, s1, s2]) -> (f32[s0, s1, s2]) {
  %0 = amax(%x) {axes=[2]} : f32[s0, s1, 1]
  %1 = broadcast(%0) : f32[s0, s1, s2]
  %2 = sub(%x, %1) : f32[s0, s1, s2]
  %3 = exp(%2) : f32[s0, s1, s2]
  %4 = sum(%3) {axes=[2]} : f32[s0, s1, 1]
  %5 = broadcast(%4) : f32[s0, s1, s2]
  %6 = div(%3, %5) : f32[s0, s1, s2]
  return %6
})";

TEST(RegionPlan, softmax_has_three_sweeps_and_keeps_exp_in_a_buffer) {
  EXPECT_EQ(plan(kSoftmax, {kDense}), "s0*s1 (s2); 3; 1; s0*s1");
}

TEST(RegionPlan, axes_merge_only_where_every_tensor_is_dense) {
  EXPECT_EQ(plan(kSoftmax, {kRows}), "s0 s1 (s2); 3; 1; s0*s1");
}

// A chain of blocks x + exp(x - max(x)), each of a value that the one before it computes.
Graph chain(int blocks) {
  GraphBuilder b("chain");
  Value x = b.input("x", DType::F32, {Dim::symbol(0), Dim::symbol(1)});
  for (int i = 0; i < blocks; ++i) {
    const Value top = b.reduce(Opcode::amax, x, {1});
    x = b.binary(Opcode::add, x, b.unary(Opcode::exp, b.binary(Opcode::sub, x, top)));
  }
  b.output(x);
  return b.build();
}

TEST(RegionPlan, buffers_share_a_row_once_its_last_reader_has_come) {
  const RegionPlan p = plan_region(chain(8), {kDense});
  EXPECT_GE(p.buffers.size(), 7u);
  EXPECT_LE(p.rows_of_scratch.size(), 2u);
  for (const RowBuffer& a : p.buffers)
    for (const RowBuffer& b : p.buffers) {
      if (a.row != b.row || a.from >= b.from) continue;
      // Nothing that is computed behind b's sweep reads a.
      for (int sweep = b.from + 1; sweep < p.sweeps; ++sweep) {
        const auto is_kept = [&](int i) {
          for (const RowBuffer& c : p.buffers)
            if (c.instance == i && c.from < sweep) return true;
          return false;
        };
        for (const int i : p.needed(p.roots(sweep), is_kept)) EXPECT_NE(i, a.instance);
      }
    }
}

TEST(RegionPlan, only_a_chain_that_would_be_computed_often_needs_its_buffers) {
  EXPECT_FALSE(plan_region(parse(kSoftmax), {kDense}).needs_buffers);
  EXPECT_FALSE(plan_region(chain(2), {kDense}).needs_buffers);
  EXPECT_TRUE(plan_region(chain(12), {kDense}).needs_buffers);
}

TEST(RegionPlan, dense_elementwise_operands_of_one_shape_are_one_axis) {
  constexpr const char* kAdd = R"(graph add(%x: f32[s0, s1], %y: f32[s0, s1]) -> (f32[s0, s1]) {
    %0 = add(%x, %y) : f32[s0, s1]
    return %0
  })";
  EXPECT_EQ(plan(kAdd, {kDense, kDense}), "s0*s1; 1; 0; (s0*s1+4095)//4096");
  EXPECT_EQ(plan(kAdd, {kDense, kRows}), "s0 s1; 1; 0; s0*((s1+4095)//4096)");
  EXPECT_EQ(plan(kAdd, {kDense, {kRows, AxisGaps{1, 1}}}), "s0 s1; 1; 0; s0*((s1+4095)//4096)");
  EXPECT_EQ(plan(kAdd, {kDense, {kRows, AxisGaps()}}), plan(kAdd, {kDense, kDense}));
}

TEST(RegionPlan, pieces_are_whole_tiles_of_the_hint) {
  const auto of = [](const std::string& hints) {
    const std::string text = "graph exp(%x: f32[s0]) -> (f32[s0]) {\n  %0 = exp(%x) : f32[s0]" +
                             hints + "\n  return %0 }";
    return plan_region(parse(text), {kDense}).piece();
  };
  EXPECT_EQ(of(""), 4096);
  EXPECT_EQ(of(" !vec_tile=[2, 100]"), 4000);
  EXPECT_EQ(of(" !vec_tile=[5000]"), 5000);
  EXPECT_EQ(of(" !vec_tile=[100] !tiles_per_task=[2]"), 100);
  EXPECT_EQ(of(" !tiles_per_task=[2]"), 4096);
}

TEST(RegionPlan, any_number_of_dense_axes_are_one_axis) {
  EXPECT_EQ(plan(R"(graph exp(%x: f32[s0, s1, s2, s3]) -> (f32[s0, s1, s2, s3]) {
    %0 = exp(%x) : f32[s0, s1, s2, s3]
    return %0
  })",
                 {kDense}),
            "s0*s1*s2*s3; 1; 0; (s0*s1*s2*s3+4095)//4096");
}

TEST(RegionPlan, axes_around_a_gap_merge_with_each_other) {
  constexpr const char* kExp = R"(graph exp(%x: f32[s0, s1, s2, s3]) -> (f32[s0, s1, s2, s3]) {
    %0 = exp(%x) : f32[s0, s1, s2, s3]
    return %0
  })";
  const Dims whole = {Dim::symbol(0), Dim::symbol(1), Dim::symbol(2) * 2, Dim::symbol(3)},
             part = {whole[0], whole[1], Dim::symbol(2), whole[3]};
  const auto of = [&](const std::vector<int64_t>& steps, const Dims& sizes) {
    const MemRef x =
        part_of(dense_memref("x", {DType::F32, whole}), {"0", "0", "0", "0"}, sizes, steps);
    return plan(kExp, {RegionLayout(x.layout, x.gaps)});
  };
  EXPECT_EQ(of({}, part), "s0*s1 s2*s3; 1; 0; s0*s1*((s2*s3+4095)//4096)");
  EXPECT_EQ(of({1, 1, 2, 1}, part), "s0*s1*s2 s3; 1; 0; s0*s1*s2*((s3+4095)//4096)");
}

TEST(RegionPlan, inner_axes_merge_whatever_the_strides) {
  constexpr const char* kSum = R"(graph sum(%x: f32[s0, s1, s2]) -> (f32[1, 1, 1]) {
    %0 = sum(%x) {axes=[0, 1, 2]} : f32[1, 1, 1]
    return %0
  })";
  for (StrideClass strides : {kDense, kRows, StrideClass::Any})
    EXPECT_EQ(plan(kSum, {strides}), "(s0*s1*s2); 1; 0; 1");
}

TEST(RegionPlan, a_broadcast_row_keeps_the_axes_apart) {
  EXPECT_EQ(plan(R"(graph bias(%x: f32[s0, s1], %b: f32[s1]) -> (f32[s0, s1]) {
    %0 = broadcast(%b) : f32[s0, s1]
    %1 = add(%x, %0) : f32[s0, s1]
    return %1
  })",
                 {kDense, kDense}),
            "s0 s1; 1; 0; s0*((s1+4095)//4096)");
}

TEST(RegionPlan, a_short_last_axis_joins_the_one_before) {
  const auto joined = [](const std::string& row, const std::string& column, StrideClass x) {
    return plan(("graph g(%x: f32[s0, 3], %row: f32[" + row + "], %column: f32[" + column +
                 "]) -> (f32[s0, 3]) {\n  %0 = broadcast(%row) : f32[s0, 3]\n"
                 "  %1 = broadcast(%column) : f32[s0, 3]\n  %2 = add(%x, %0) : f32[s0, 3]\n"
                 "  %3 = add(%2, %1) : f32[s0, 3]\n  return %3\n}")
                    .c_str(),
                {x, kDense, kDense});
  };
  EXPECT_EQ(joined("3", "s0, 1", kDense), "s0*3; 1; 0; (s0*3+4095)//4096");
  EXPECT_EQ(joined("1", "s0, 3", kDense), "s0*3; 1; 0; (s0*3+4095)//4096");
  EXPECT_EQ(joined("3", "s0, 1", kRows), "s0 3; 1; 0; s0") << "rows of x have gaps";
}

TEST(RegionPlan, vectors_run_across_short_rows_that_are_reduced) {
  const auto summed = [](Dims shape, std::vector<int64_t> axes, StrideClass layout) {
    GraphBuilder b("g");
    b.output(b.reduce(Opcode::sum, b.input("x", DType::F32, std::move(shape)), std::move(axes)));
    return plan(print(b.build()).c_str(), {layout});
  };
  const Dim s0 = Dim::symbol(0), s1 = Dim::symbol(1);
  EXPECT_EQ(summed({s0, 4}, {1}, kDense), "(4) s0; 1; 0; (s0+4095)//4096");
  EXPECT_EQ(summed({s0, s1, 4}, {0, 2}, kDense), "(s0) (4) s1; 1; 0; (s1+4095)//4096");
  EXPECT_EQ(summed({s0, 2, 2}, {1, 2}, StrideClass::Any), "(4) s0; 1; 0; (s0+4095)//4096");
  EXPECT_EQ(summed({1, 4}, {1}, kDense), "(4) 1; 1; 0; 1") << "one row has the bits of many";
  EXPECT_EQ(summed({s0, 5}, {1}, kDense), "s0 (5); 1; 0; s0");
}

TEST(RegionPlan, cheap_values_are_computed_again_instead_of_buffered) {
  EXPECT_EQ(plan(R"(graph centre(%x: f32[s0, s1], %y: f32[s0, s1]) -> (f32[s0, s1]) {
    %0 = add(%x, %y) : f32[s0, s1]
    %1 = amax(%0) {axes=[1]} : f32[s0, 1]
    %2 = broadcast(%1) : f32[s0, s1]
    %3 = sub(%0, %2) : f32[s0, s1]
    return %3
  })",
                 {kDense, kDense}),
            "s0 (s1); 2; 0; s0");
}

TEST(RegionPlan, the_number_of_elements_of_a_mean_needs_no_sweep) {
  const RegionPlan p = plan_region(parse(R"(graph mean(%x: f32[s0, s1]) -> (f32[s0, 1]) {
    %0 = sum(%x) {axes=[1]} : f32[s0, 1]
    %1 = constant() {value=1} : f32[]
    %2 = broadcast(%1) : f32[s0, s1]
    %3 = sum(%2) {axes=[1]} : f32[s0, 1]
    %4 = div(%0, %3) : f32[s0, 1]
    return %4
  })"),
                                   {kDense});
  int counts = 0;
  for (const Instance& i : p.instances)
    if (i.count) counts += pto::text(*i.count) == "s1";
  EXPECT_EQ(counts, 1);
}

TEST(RegionPlan, a_column_reduction_runs_its_vectors_along_the_columns) {
  EXPECT_EQ(plan(R"(graph columns(%x: f32[s0, s1, s2]) -> (f32[1, s1, s2]) {
    %0 = sum(%x) {axes=[0]} : f32[1, s1, s2]
    return %0
  })",
                 {kDense}),
            "(s0) s1*s2; 1; 0; (s1*s2+127)//128");
}

}  // namespace pto::region_plan_test
