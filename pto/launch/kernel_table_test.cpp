// SPDX-License-Identifier: Apache-2.0
#include "pto/launch/kernel_table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

namespace pto::kernel_table_test {

constexpr auto kF32 = static_cast<int32_t>(DType::F32);

Signature signature_of(int64_t rank) {
  const int64_t sizes[8] = {2, 2, 2, 2, 2, 2, 2, 2};
  Signature signature;
  signature.add({nullptr, sizes, sizes, static_cast<int32_t>(rank), kF32});
  return signature;
}

std::shared_ptr<const Program> empty_program() {
  return std::make_shared<Program>(ProgramSpec{}, std::vector<pto_kernel>{}, nullptr);
}

TEST(KernelTable, makes_a_program_once_for_each_owner_and_signature) {
  KernelTable table;
  const uint64_t a = table.new_owner("a"), b = table.new_owner("b");
  int made = 0;
  const auto make = [&made] { return ++made, empty_program(); };
  const auto first = table.entry(a, signature_of(1), make).program;
  EXPECT_EQ(table.entry(a, signature_of(1), make).program, first);
  EXPECT_EQ(made, 1);
  EXPECT_NE(table.entry(a, signature_of(2), make).program, first);
  EXPECT_NE(table.entry(b, signature_of(1), make).program, first);
  EXPECT_EQ(made, 3);
  EXPECT_EQ(table.size(), 3u);
  EXPECT_THAT(table.describe(), testing::ElementsAre("a: 2", "b: 1"));
  EXPECT_EQ(table.find(b, signature_of(2)), nullptr);
}

TEST(KernelTable, forgets_an_erased_owner_and_refuses_it) {
  KernelTable table;
  const uint64_t a = table.new_owner("a");
  const std::weak_ptr<const Program> program =
      table.entry(a, signature_of(1), empty_program).program;
  EXPECT_FALSE(program.expired());
  table.erase_owner(a);
  EXPECT_TRUE(program.expired());
  EXPECT_EQ(table.find(a, signature_of(1)), nullptr);
  EXPECT_THROW(table.entry(a, signature_of(1), empty_program).program, Error);
}

TEST(KernelTable, tries_again_after_a_make_that_threw) {
  KernelTable table;
  const uint64_t a = table.new_owner("a");
  const auto fails = []() -> std::shared_ptr<const Program> { fail({"no", "", ""}); };
  EXPECT_THROW(table.entry(a, signature_of(1), fails).program, Error);
  EXPECT_EQ(table.size(), 0u);
  EXPECT_NE(table.entry(a, signature_of(1), empty_program).program, nullptr);
}

TEST(KernelTable, threads_that_ask_at_once_share_one_make) {
  KernelTable table;
  const uint64_t a = table.new_owner("a");
  std::atomic<int> made{0};
  const auto make = [&made] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ++made;
    return empty_program();
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back(
        [&] { EXPECT_NE(table.entry(a, signature_of(1), make).program, nullptr); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(made, 1);
}

TEST(KernelTable, a_caller_keeps_its_last_kernel) {
  const uint64_t owner = kernel_table().new_owner("last");
  LastKernel last;
  const Program& first = last.get(owner, signature_of(1), empty_program);
  EXPECT_EQ(&last.get(owner, signature_of(1), empty_program), &first);
  EXPECT_NE(&last.get(owner, signature_of(2), empty_program), &first);
  EXPECT_EQ(&last.get(owner, signature_of(1), empty_program), &first);
  const uint64_t renewed = kernel_table().new_owner("last");
  EXPECT_NE(&last.get(renewed, signature_of(1), empty_program), &first);
  for (const uint64_t one : {owner, renewed}) kernel_table().erase_owner(one);
}

}  // namespace pto::kernel_table_test
