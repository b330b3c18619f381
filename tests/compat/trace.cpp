// SPDX-License-Identifier: Apache-2.0
// The trace mode notes the instructions that a kernel calls, with their tiles.
#define PTO_CPU_SIM_TRACE_MODE 1
#include <gtest/gtest.h>

#include <sstream>
#include <thread>

#include <pto/pto-inst.hpp>

using namespace pto;

TEST(Trace, notes_what_a_kernel_calls_and_not_what_an_instruction_calls) {
  ASSERT_TRUE(cpu_sim::kInstructionTraceEnabled);
  using Square = Tile<TileType::Vec, float, 8, 16>;
  Square a, b, c;
  float memory[128] = {};
  GlobalTensor<float, pto::Shape<1, 1, 1, 8, 16>, pto::Stride<128, 128, 128, 16, 1>> g(memory);
  TEXPANDS(a, 1.f);
  cpu_sim::ResetInstructionTrace();
  cpu_sim::ScopedExecutionContext core(3, 0, 1);
  TSYNC<Op::TADD>();
  TPREFETCH(b, a);  // a move underneath
  TADD(c, a, b);
  TSTORE(g, c);
  std::thread other([] { EXPECT_TRUE(cpu_sim::CopyInstructionTraceRecords().empty()); });
  other.join();
  const auto trace = cpu_sim::CopyInstructionTraceRecords();
  ASSERT_EQ(trace.size(), 4u);
  const char* names[] = {"TSYNC", "TPREFETCH", "TADD", "TSTORE"};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(trace[i].opcode, names[i]);
    EXPECT_EQ(trace[i].sequence_id, i);
    EXPECT_EQ(trace[i].block_idx, 3u);
  }
  EXPECT_TRUE(trace[0].input_tiles.empty() && trace[0].output_tiles.empty());
  ASSERT_EQ(trace[2].input_tiles.size(), 2u);
  EXPECT_EQ(trace[2].input_tiles[1].address, reinterpret_cast<std::uintptr_t>(b.data()));
  EXPECT_EQ(trace[2].output_tiles[0].address, reinterpret_cast<std::uintptr_t>(c.data()));
  EXPECT_EQ(trace[2].output_tiles[0].shape, (std::vector<int64_t>{8, 16}));
  std::ostringstream lines;
  cpu_sim::DumpInstructionTraceJson(lines);
  EXPECT_NE(lines.str().find("{\"opcode\":\"TADD\",\"block_idx\":3,\"sequence_id\":2"),
            std::string::npos);
  cpu_sim::ResetInstructionTrace();
  EXPECT_TRUE(cpu_sim::CopyInstructionTraceRecords().empty());
}
