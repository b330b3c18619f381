// SPDX-License-Identifier: Apache-2.0
#include "pto/base/strided.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <set>

#include "pto/base/meeting.hpp"

namespace pto::strided_test {

struct View {
  void* data;
  int32_t rank;
  int64_t sizes[4], strides[4];

  pto_tensor_ref ref() const {
    return {data, sizes, strides, rank, static_cast<int32_t>(DType::I16)};
  }
  pto_tensor tensor(uint32_t flags = 0) const {
    return {data, sizes, strides, rank, 0, 16, 1, flags, -1};
  }
};

View random_view(std::mt19937* random) {
  const auto pick = [random](int low, int high) {
    return std::uniform_int_distribution<int64_t>(low, high)(*random);
  };
  View view{};
  view.data = reinterpret_cast<void*>(uintptr_t(4096 + 2 * pick(0, 20)));
  view.rank = static_cast<int32_t>(pick(0, 4));
  for (int axis = 0; axis < view.rank; ++axis) view.sizes[axis] = pick(0, 9) == 0 ? 0 : pick(1, 4);
  dense_strides(view.rank, view.sizes, view.strides);
  for (int axis = 0; axis < view.rank; ++axis)
    if (pick(0, 2) == 0) view.strides[axis] = pick(-20, 20);
  return view;
}

// Returns the address of each element, in row-major order.
std::vector<uintptr_t> addresses_of(const View& view) {
  std::vector<int64_t> offsets{0};
  for (int axis = 0; axis < view.rank; ++axis) {
    std::vector<int64_t> next;
    for (const int64_t offset : offsets)
      for (int64_t i = 0; i < view.sizes[axis]; ++i)
        next.push_back(offset + i * view.strides[axis] * 2);
    offsets = std::move(next);
  }
  std::vector<uintptr_t> addresses;
  for (const int64_t offset : offsets)
    addresses.push_back(reinterpret_cast<uintptr_t>(view.data) + static_cast<uintptr_t>(offset));
  return addresses;
}

TEST(Strided, is_contiguous_where_addresses_follow_one_another) {
  std::mt19937 random(7);
  int contiguous = 0;
  for (int i = 0; i < 20000; ++i) {
    const View view = random_view(&random);
    const auto addresses = addresses_of(view);
    bool follow = true;
    for (size_t k = 1; k < addresses.size(); ++k)
      follow = follow && addresses[k] == addresses[k - 1] + 2;
    follow = follow && (addresses.empty() || addresses[0] == uintptr_t(view.data));
    ASSERT_EQ(is_contiguous(view.rank, view.sizes, view.strides), follow);
    ASSERT_EQ(has_gaps(view.tensor()), !follow);
    contiguous += follow;
  }
  EXPECT_GT(contiguous, 4000);
  EXPECT_LT(contiguous, 16000);
}

TEST(Strided, an_absent_tensor_and_one_marked_contiguous_have_no_gaps) {
  View view{nullptr, 1, {3}, {2}};
  EXPECT_TRUE(has_gaps(view.tensor()));
  EXPECT_FALSE(has_gaps(view.tensor(PTO_TENSOR_CONTIGUOUS)));
  EXPECT_FALSE(has_gaps(view.tensor(PTO_TENSOR_ABSENT)));
  EXPECT_FALSE(has_gaps({}));
  const std::vector<int64_t> huge{int64_t{1} << 40, int64_t{1} << 40, 2};  // the product wraps
  EXPECT_TRUE(is_contiguous(3, huge.data(), dense_strides(huge).data()));
}

TEST(Strided, ranges_hold_every_element_and_end_at_elements) {
  std::mt19937 random(8);
  for (int i = 0; i < 20000; ++i) {
    const View view = random_view(&random);
    const AddressRange range = address_range(view.ref());
    const auto addresses = addresses_of(view);
    const std::set<uintptr_t> taken(addresses.begin(), addresses.end());
    if (taken.empty()) {
      ASSERT_EQ(range.first, range.end);
      continue;
    }
    ASSERT_EQ(range.first, *taken.begin());
    ASSERT_EQ(range.end, *taken.rbegin() + 2);
  }
}

TEST(Strided, ranges_that_do_not_overlap_share_no_element) {
  std::mt19937 random(9);
  int apart = 0;
  for (int i = 0; i < 20000; ++i) {
    const View a = random_view(&random), b = random_view(&random);
    if (overlap(address_range(a.ref()), address_range(b.ref()))) continue;
    ++apart;
    const auto of_a = addresses_of(a);
    const std::set<uintptr_t> taken(of_a.begin(), of_a.end());
    for (const uintptr_t address : addresses_of(b)) ASSERT_EQ(taken.count(address), 0u);
  }
  EXPECT_GT(apart, 2000);
}

TEST(Strided, injective_tensors_have_an_address_for_each_element) {
  std::mt19937 random(10);
  int injective = 0, unproven = 0;
  for (int i = 0; i < 20000; ++i) {
    const View view = random_view(&random);
    const auto addresses = addresses_of(view);
    const std::set<uintptr_t> taken(addresses.begin(), addresses.end());
    const bool is_proven = is_injective(view.rank, view.sizes, view.strides);
    if (is_proven) {
      ASSERT_EQ(taken.size(), addresses.size());
    }
    injective += is_proven;
    unproven += !is_proven && taken.size() == addresses.size();
  }
  EXPECT_GT(injective, 4000);
  EXPECT_LT(unproven, injective / 4);  // axes that interleave
}

// The products leave 64 bits, which UndefinedBehaviorSanitizer sees.
TEST(Strided, huge_extents_and_strides_are_counted_or_refused) {
  constexpr int64_t kHuge = int64_t(1) << 40, kLeast = std::numeric_limits<int64_t>::min();
  const View none{nullptr, 3, {0, kHuge, kHuge}, {kLeast, kLeast, kHuge}};
  EXPECT_EQ(element_bytes(none.ref()), 0);
  EXPECT_FALSE(overlap(address_range(none.ref()), address_range(none.ref())));
  pto_tensor_ref dense = none.ref();
  dense.strides = nullptr;
  EXPECT_EQ(address_range(dense).end, 0u);
  const View many{nullptr, 3, {kHuge, kHuge, 2}, {kLeast, kHuge, 1}};
  EXPECT_EQ(element_bytes(many.ref()), std::numeric_limits<int64_t>::max());
  EXPECT_FALSE(is_injective(3, many.sizes, many.strides)) << "the second axis reaches the third";
  EXPECT_TRUE(is_injective(2, many.sizes + 1, many.strides + 1));
}

TEST(Strided, tensors_that_do_not_meet_share_no_byte) {
  std::mt19937 random(6);
  int apart = 0;  // of tensors with a common range
  for (int i = 0; i < 20'000; ++i) {
    const View a = random_view(&random), b = random_view(&random);
    if (may_meet(a.ref(), b.ref())) continue;
    apart += overlap(address_range(a.ref()), address_range(b.ref()));
    std::set<uintptr_t> taken;
    for (const uintptr_t at : addresses_of(a)) taken.insert({at, at + 1});
    for (const uintptr_t at : addresses_of(b)) EXPECT_EQ(taken.count(at) + taken.count(at + 1), 0);
  }
  EXPECT_GT(apart, 100);
}

TEST(Strided, caches_that_alternate_in_one_buffer_do_not_meet) {
  const auto at = [](int element) {
    return reinterpret_cast<void*>(uintptr_t(4096 + 2 * element));
  };
  const View keys{at(0), 3, {5, 3, 8}, {48, 8, 1}}, values{at(24), 3, {5, 3, 8}, {48, 8, 1}};
  EXPECT_FALSE(may_meet(keys.ref(), values.ref()));
  const View columns{at(0), 2, {5, 2}, {-4, 1}}, others{at(2), 2, {5, 2}, {-4, 1}};
  EXPECT_FALSE(may_meet(columns.ref(), others.ref()));
  const View late{at(23), 3, {5, 3, 8}, {48, 8, 1}};
  EXPECT_TRUE(may_meet(keys.ref(), late.ref()));
}

}  // namespace pto::strided_test
