// SPDX-License-Identifier: Apache-2.0
#include "pto/launch/launch.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cfenv>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <vector>

#include "pto/launch/pool.hpp"

namespace pto::launch_test {

using testing::HasSubstr;

pto_args no_arguments() {
  pto_args args{};
  args.abi_version = PTO_ABI_VERSION;
  return args;
}

int32_t launch(pto_kernel kernel, int32_t blocks) {
  const pto_args args = no_arguments();
  return pto_launch(kernel, &args, blocks);
}

TEST(Launch, every_block_sees_its_index_and_the_count) {
  std::vector<std::atomic<int>> seen(37);
  pto_args args = no_arguments();
  args.params = &seen;
  const auto kernel = [](const pto_args* args) -> int32_t {
    auto* seen = static_cast<std::vector<std::atomic<int>>*>(const_cast<void*>(args->params));
    if (args->block != pto_block_index() || args->blocks != pto_block_count()) return 1;
    (*seen)[static_cast<size_t>(args->block)].fetch_add(1);
    return args->blocks == 37 ? 0 : 2;
  };
  EXPECT_EQ(pto_launch(kernel, &args, 37), 0);
  for (const auto& count : seen) EXPECT_EQ(count.load(), 1);
  EXPECT_EQ(pto_block_index(), 0);
  EXPECT_EQ(pto_block_count(), 1);
}

TEST(Launch, no_blocks_is_no_work) {
  EXPECT_EQ(launch([](const pto_args*) -> int32_t { return 1; }, 0), 0);
}

TEST(Launch, the_text_of_the_first_error_is_kept) {
  const auto kernel = [](const pto_args* args) -> int32_t {
    if (args->block != 5) return 0;
    args->services->fail(args->services, "row 5 is bad");
    return args->services->fail(args->services, "this comes too late");
  };
  EXPECT_NE(launch(kernel, 64), 0);
  EXPECT_STREQ(pto_last_error(), "row 5 is bad");
  std::thread([] { EXPECT_STREQ(pto_last_error(), ""); }).join();
}

TEST(Launch, a_code_without_a_text_gets_one) {
  const auto kernel = [](const pto_args* args) -> int32_t { return args->block == 3 ? 7 : 0; };
  EXPECT_EQ(launch(kernel, 4), 7);
  EXPECT_STREQ(pto_last_error(), "the kernel returned 7 in block 3 of 4");
}

TEST(Launch, what_a_kernel_throws_becomes_the_error) {
  EXPECT_NE(launch([](const pto_args*) -> int32_t { throw std::runtime_error("thrown text"); }, 9),
            0);
  EXPECT_STREQ(pto_last_error(), "thrown text");
  EXPECT_NE(launch([](const pto_args*) -> int32_t { throw 5; }, 1), 0);
  EXPECT_THAT(pto_last_error(), HasSubstr("no std::exception"));
  EXPECT_FALSE(inside_block());
}

TEST(Launch, what_a_program_throws_becomes_the_error) {
  const pto_args args = no_arguments();
  const auto texted = [](const pto_args*) -> int32_t { throw std::runtime_error("thrown text"); };
  EXPECT_NE(run_program(texted, args), 0);
  EXPECT_STREQ(pto_last_error(), "thrown text");
  EXPECT_NE(run_program([](const pto_args*) -> int32_t { throw 5; }, args), 0);
  EXPECT_THAT(pto_last_error(), HasSubstr("no std::exception"));
}

TEST(Launch, bad_arguments_are_refused_with_the_reason) {
  pto_args args = no_arguments();
  const auto kernel = [](const pto_args*) -> int32_t { return 0; };
  EXPECT_NE(pto_launch(nullptr, &args, 1), 0);
  EXPECT_THAT(pto_last_error(), HasSubstr("no kernel or no arguments"));
  EXPECT_NE(pto_launch(kernel, nullptr, 1), 0);
  EXPECT_NE(pto_launch(kernel, &args, -2), 0);
  EXPECT_THAT(pto_last_error(), HasSubstr("a launch over -2 blocks"));
  args.abi_version = 99;
  EXPECT_NE(pto_launch(kernel, &args, 1), 0);
  EXPECT_THAT(pto_last_error(), HasSubstr("ABI version 99, but this runtime has 1"));
}

TEST(Launch, a_launch_in_a_block_runs_inline_and_gives_the_outer_block_back) {
  const auto inner = [](const pto_args* args) -> int32_t {
    return args->blocks == 3 && pto_block_count() == 3 ? 0 : 1;
  };
  static constexpr pto_kernel kInner = inner;
  const auto outer = [](const pto_args* args) -> int32_t {
    void* before = args->services->scratch(args->services, 100);
    std::memset(before, 0x11, 100);
    if (launch(kInner, 3) != 0) return 1;
    void* after = args->services->scratch(args->services, 100);
    std::memset(after, 0x22, 100);
    if (before == after || *static_cast<char*>(before) != 0x11) return 3;
    return pto_block_index() == args->block && pto_block_count() == 8 ? 0 : 2;
  };
  EXPECT_EQ(launch(outer, 8), 0) << pto_last_error();
}

TEST(Launch, scratch_is_aligned_disjoint_and_the_same_for_the_next_block) {
  static void* first = nullptr;
  first = nullptr;
  const auto kernel = [](const pto_args* args) -> int32_t {
    void* got[3] = {};
    for (const size_t bytes : {size_t{1}, size_t{100000}, size_t{3000000}}) {
      void* given = args->services->scratch(args->services, bytes);
      if (reinterpret_cast<uintptr_t>(given) % 64 != 0) return 1;
      std::memset(given, 1, bytes);
      for (void*& other : got) {
        if (other == given) return 2;
        if (other == nullptr) {
          other = given;
          break;
        }
      }
    }
    if (args->services->scratch(args->services, SIZE_MAX) != nullptr) return 3;
    if (first == nullptr) first = got[0];
    return first == got[0] ? 0 : 4;
  };
  const ScopedThreadLimit one(1);
  EXPECT_EQ(launch(kernel, 5), 0) << pto_last_error();
}

#if defined(__x86_64__)
TEST(Launch, kernels_keep_subnormals_and_round_to_nearest_whatever_the_host_has_set) {
  const unsigned before = __builtin_ia32_stmxcsr();
  constexpr unsigned kFlushToZero = 0x8000, kSubnormalsAreZero = 0x40, kRoundUp = 0x4000;
  const unsigned host = before | kFlushToZero | kSubnormalsAreZero | kRoundUp;
  const auto kernel = [](const pto_args* args) -> int32_t {
    volatile float tiny = 1e-40f, third = 1.0f, three = 3.0f;
    third = third / three;
    if (args->block == 1) throw std::runtime_error("an error restores it too");
    return tiny * 0.5f > 0.0f && third == 0x1.555556p-2f ? 0 : 1;
  };
  __builtin_ia32_ldmxcsr(host);
  const int32_t good = launch(kernel, 1);
  const unsigned after_good = __builtin_ia32_stmxcsr();
  const int32_t bad = launch(kernel, 2);
  const unsigned after_bad = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(before);
  EXPECT_EQ(good, 0);
  EXPECT_NE(bad, 0);
  EXPECT_EQ(after_good, host);
  EXPECT_EQ(after_bad, host);
}
#endif

TEST(Launch, a_tensor_of_the_launch_has_its_extent_on_every_thread) {
  float data[100] = {};
  pto_tensor tensors[2] = {};
  tensors[0].data = data;
  tensors[0].extent_bytes = 400;
  tensors[1].data = data + 10;
  tensors[1].extent_bytes = -1;
  pto_args args = no_arguments();
  args.n_tensors = 2;
  args.tensors = tensors;
  const auto kernel = [](const pto_args* args) -> int32_t {
    const auto* data = static_cast<const float*>(args->tensors[0].data);
    if (pto_extent(data + 30) != 280 || pto_extent(data + 99) != 4) return 1;
    return pto_extent(data + 100) == -1 && pto_extent(data - 1) == -1 ? 0 : 2;
  };
  EXPECT_EQ(pto_launch(kernel, &args, 16), 0) << pto_last_error();
  EXPECT_EQ(pto_extent(data + 30), -1) << "outside the launch nothing is known";
}

TEST(Launch, of_a_tensor_and_a_registered_range_the_nearer_end_counts) {
  float data[100] = {};
  pto_tensor tensor{};
  tensor.data = data;
  tensor.extent_bytes = 200;
  pto_args args = no_arguments();
  args.n_tensors = 1;
  args.tensors = &tensor;
  const auto kernel = [](const pto_args* args) -> int32_t {
    return static_cast<int32_t>(pto_extent(static_cast<const float*>(args->tensors[0].data) + 10));
  };
  pto_register_range(data, 400);
  EXPECT_EQ(pto_extent(data + 10), 360);
  EXPECT_EQ(pto_launch(kernel, &args, 1), 160);
  tensor.extent_bytes = 400;
  pto_register_range(data + 5, 100);
  EXPECT_EQ(pto_launch(kernel, &args, 1), 80);
  pto_unregister_range(data + 5);
  pto_unregister_range(data);
  EXPECT_EQ(pto_extent(data + 10), -1);
}

TEST(Launch, overlapping_inputs_reach_to_the_furthest_end_and_outputs_to_the_nearest) {
  float data[100] = {};
  pto_tensor tensors[3] = {};
  for (pto_tensor& tensor : tensors) tensor.extent_bytes = 200;
  tensors[0].data = data;
  tensors[1].data = data + 10;
  tensors[2].data = data + 20;
  pto_args args = no_arguments();
  args.n_tensors = 3;
  args.tensors = tensors;
  const auto extent = [](const pto_args* args) -> int32_t {
    return static_cast<int32_t>(pto_extent(static_cast<const float*>(args->tensors[0].data) + 30));
  };
  for (pto_tensor& tensor : tensors) tensor.flags = PTO_TENSOR_READ_ONLY;
  EXPECT_EQ(pto_launch(extent, &args, 1), 160);
  tensors[1].flags = 0;
  EXPECT_EQ(pto_launch(extent, &args, 1), 120);
  tensors[0].flags = 0;
  EXPECT_EQ(pto_launch(extent, &args, 1), 80);
}

TEST(Launch, pto_parallel_refuses_no_function) {
  EXPECT_NE(pto_parallel(2, nullptr, nullptr), 0);
  EXPECT_THAT(pto_last_error(), testing::HasSubstr("pto_parallel: the function is null"));
  EXPECT_EQ(pto_block_memory(-1, 64), nullptr);
  EXPECT_EQ(pto_block_memory(16, 64), nullptr);
}

TEST(Launch, pto_parallel_runs_blocks_and_returns_the_first_code) {
  std::atomic<int> sum{0};
  const auto add = [](void* sum, int32_t block) -> int32_t {
    static_cast<std::atomic<int>*>(sum)->fetch_add(block);
    return 0;
  };
  EXPECT_EQ(pto_parallel(10, add, &sum), 0);
  EXPECT_EQ(sum.load(), 45);
  EXPECT_EQ(pto_parallel(
                10, [](void*, int32_t) -> int32_t { return 4; }, nullptr),
            4);
}

TEST(Launch, several_threads_launch_at_once_and_keep_their_own_errors) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int id = 0; id < 4; ++id) {
    threads.emplace_back([id, &wrong] {
      for (int round = 0; round < 200; ++round) {
        pto_args args = no_arguments();
        args.params = &id;
        const auto kernel = [](const pto_args* args) -> int32_t {
          const int id = *static_cast<const int*>(args->params);
          const std::string text = "thread " + std::to_string(id);
          return args->services->fail(args->services, text.c_str());
        };
        if (pto_launch(kernel, &args, 5) == 0) wrong.fetch_add(1);
        if (pto_last_error() != "thread " + std::to_string(id)) wrong.fetch_add(1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
}

}  // namespace pto::launch_test
