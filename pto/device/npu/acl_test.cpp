// SPDX-License-Identifier: Apache-2.0
#include "pto/abi/acl.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pto/abi/host.h"

namespace pto::acl_test {

using testing::HasSubstr;

// Law: a block has its bytes rounded up to 32, plus 32 except from aclrtMallocAlign32; all are zero
// and usable.
TEST(Acl, a_block_knows_its_rounded_length_until_it_is_freed) {
  for (const size_t bytes : {1, 31, 32, 33, 64, 1001, 5 << 20}) {
    const auto rounded = static_cast<int64_t>((bytes + 31) / 32 * 32);
    for (const int more : {32, 0}) {
      void* block = nullptr;
      const auto call = more > 0 ? aclrtMalloc : aclrtMallocAlign32;
      ASSERT_EQ(call(&block, bytes, ACL_MEM_MALLOC_HUGE_FIRST), ACL_SUCCESS);
      auto* start = static_cast<char*>(block);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(start) % 64, 0U);
      EXPECT_EQ(pto_extent(start), rounded + more) << bytes;
      EXPECT_EQ(pto_extent(start + rounded + more), -1);
      EXPECT_EQ(start[rounded + more - 1], 0);
      start[rounded + more - 1] = 1;
      EXPECT_EQ(aclrtFree(block), ACL_SUCCESS);
      EXPECT_EQ(pto_extent(block), -1);
    }
  }
}

TEST(Acl, bytes_are_copied_there_and_back) {
  const int32_t host[3] = {1, 2, 3};
  int32_t back[3] = {};
  void* block = nullptr;
  ASSERT_EQ(aclrtMalloc(&block, sizeof(host), ACL_MEM_MALLOC_NORMAL_ONLY), ACL_SUCCESS);
  EXPECT_EQ(aclrtMemcpy(block, 12, host, 12, ACL_MEMCPY_HOST_TO_DEVICE), ACL_SUCCESS);
  EXPECT_EQ(aclrtSynchronizeStream(nullptr), ACL_SUCCESS);
  EXPECT_EQ(aclrtMemcpy(back, 12, block, 12, ACL_MEMCPY_DEVICE_TO_HOST), ACL_SUCCESS);
  EXPECT_THAT(back, testing::ElementsAre(1, 2, 3));
  aclrtFree(block);
}

TEST(Acl, what_cannot_be_done_is_refused_with_the_reason) {
  void* block = nullptr;
  EXPECT_EQ(aclrtMalloc(nullptr, 8, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(aclrtMalloc(&block, 0, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_INVALID_PARAM);
  EXPECT_THAT(pto_last_error(), HasSubstr("aclrtMalloc: 0 bytes"));
  EXPECT_EQ(aclrtMalloc(&block, SIZE_MAX, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_BAD_ALLOC);
  EXPECT_THAT(pto_last_error(), HasSubstr("no memory for 18446744073709551615 bytes"));
  EXPECT_EQ(aclrtFree(nullptr), ACL_ERROR_INVALID_PARAM);
  EXPECT_THAT(pto_last_error(), HasSubstr("a null pointer"));
  ASSERT_EQ(aclrtMalloc(&block, 8, ACL_MEM_MALLOC_HUGE_FIRST), ACL_SUCCESS);
  EXPECT_EQ(aclrtMemcpy(block, 8, "123456789", 9, ACL_MEMCPY_HOST_TO_DEVICE),
            ACL_ERROR_INVALID_PARAM);
  EXPECT_THAT(pto_last_error(), HasSubstr("9 bytes into a destination of 8"));
  EXPECT_EQ(aclrtMemcpy(block, 8, nullptr, 8, ACL_MEMCPY_HOST_TO_DEVICE), ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(aclrtFree(block), ACL_SUCCESS);
  EXPECT_EQ(aclrtFree(block), ACL_ERROR_INVALID_PARAM);
  EXPECT_THAT(pto_last_error(), HasSubstr("no live block of aclrtMalloc"));
}

TEST(Acl, memory_is_zero_and_can_be_set) {
  char* block = nullptr;
  for (int round = 0; round < 2; ++round) {  // what was written before is gone
    ASSERT_EQ(aclrtMallocHost(reinterpret_cast<void**>(&block), 9), ACL_SUCCESS);
    EXPECT_EQ(std::string(block, 9), std::string(9, '\0'));
    EXPECT_EQ(aclrtMemset(block, 9, 'x', 8), ACL_SUCCESS);
    EXPECT_EQ(std::string(block), "xxxxxxxx");
    EXPECT_EQ(aclrtMemset(block, 9, 0, 10), ACL_ERROR_INVALID_PARAM);
    EXPECT_THAT(pto_last_error(), HasSubstr("10 bytes of a block of 9"));
    EXPECT_EQ(aclrtFreeHost(block), ACL_SUCCESS);
  }
}

TEST(Acl, a_program_sets_up_and_ends) {
  aclrtStream one = nullptr, two = nullptr;
  EXPECT_EQ(aclInit(nullptr), ACL_SUCCESS);
  EXPECT_EQ(aclrtSetDevice(0), ACL_SUCCESS);
  EXPECT_EQ(aclrtSetDevice(-1), ACL_ERROR_INVALID_PARAM);
  EXPECT_THAT(pto_last_error(), HasSubstr("aclrtSetDevice: device -1"));
  EXPECT_EQ(aclrtCreateStream(&one), ACL_SUCCESS);
  EXPECT_EQ(aclrtCreateStream(&two), ACL_SUCCESS);
  EXPECT_NE(one, two);
  EXPECT_EQ(aclrtCreateStream(nullptr), ACL_ERROR_INVALID_PARAM);
  EXPECT_THAT(pto_last_error(), HasSubstr("aclrtCreateStream: a null pointer"));
  EXPECT_EQ(aclrtDestroyStream(one), ACL_SUCCESS);
  EXPECT_EQ(aclrtDestroyStream(two), ACL_SUCCESS);
  EXPECT_EQ(aclrtResetDevice(0), ACL_SUCCESS);
  EXPECT_EQ(aclFinalize(), ACL_SUCCESS);
}

}  // namespace pto::acl_test
