// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "pto/abi/host.h"

namespace pto::slots_test {

using testing::AllOf;
using testing::HasSubstr;

// Computes out[block] = x[block] * factor + first, or just first where x is absent.
void kernel_entry(int64_t* slots) {
  auto* out = reinterpret_cast<float*>(slots[0]);
  const auto* x = reinterpret_cast<const float*>(slots[1]);
  double factor;
  std::memcpy(&factor, &slots[2], sizeof(factor));
  const int32_t i = pto_block_index();
  out[i] = (x ? x[i] * static_cast<float>(factor) : 0.0f) + static_cast<float>(slots[3]);
}

int32_t kernel(const pto_args* args) { return pto_enter_slots(kernel_entry, args); }

struct SlotCall {
  float out[3] = {}, x[3] = {1, 2, 3};
  int64_t sizes[1] = {3}, strides[1] = {1};
  pto_tensor tensors[2] = {};
  uint64_t scalars[2] = {0x4000000000000000, static_cast<uint64_t>(int64_t{-1})};  // 2.0, -1
  pto_args args{};
  SlotCall() {
    tensors[0].data = out;
    tensors[1].data = x;
    for (pto_tensor& tensor : tensors) {
      tensor.sizes = sizes;
      tensor.strides = strides;
      tensor.rank = 1;
    }
    args.abi_version = PTO_ABI_VERSION;
    args.n_tensors = 2;
    args.tensors = tensors;
    args.n_scalars = 2;
    args.scalars = scalars;
  }
  std::string run() { return pto_launch(kernel, &args, 3) == 0 ? "" : pto_last_error(); }
};

TEST(Slots, addresses_come_first_then_scalars_and_every_block_runs) {
  SlotCall call;
  EXPECT_EQ(call.run(), "");
  EXPECT_THAT(call.out, testing::ElementsAre(1, 3, 5));
}

TEST(Slots, an_absent_tensor_is_a_null_address) {
  SlotCall call;
  call.tensors[1].flags = PTO_TENSOR_ABSENT;
  EXPECT_EQ(call.run(), "");
  EXPECT_THAT(call.out, testing::ElementsAre(-1, -1, -1));
}

TEST(Slots, what_a_slot_cannot_carry_is_refused) {
  SlotCall gaps;
  gaps.strides[0] = 2;
  EXPECT_THAT(gaps.run(), AllOf(HasSubstr("kernel_entry: tensor 1 has gaps"),
                                HasSubstr("fix: pass a contiguous copy")));
  SlotCall params;
  params.args.params = "text";
  params.args.params_bytes = 4;
  EXPECT_THAT(params.run(), AllOf(HasSubstr("called with 4 bytes of params"),
                                  HasSubstr("take const pto_args* in the kernel")));
  EXPECT_THAT(params.out, testing::Each(0));
}

}  // namespace pto::slots_test
