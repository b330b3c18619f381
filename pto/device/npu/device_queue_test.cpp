// SPDX-License-Identifier: Apache-2.0
// Tests launches on tensors of a device with streams: which reach the device's queue, and which are
// refused before.
#include "pto/abi/device_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "pto/abi/acl.h"
#include "pto/isa/kernel/launch.hpp"
#include "pto/launch/device_blocks.hpp"

namespace pto::device_queue_test {

using testing::HasSubstr;

// Has the members of at::Tensor that a launch reads.
struct FakeTensor {
  std::vector<float> values;
  int32_t device = 0;  // -1: the CPU
  std::vector<int64_t> shape = {static_cast<int64_t>(values.size())}, steps = {1};

  void* data_ptr() const { return const_cast<float*>(values.data()); }
  size_t nbytes() const { return values.size() * sizeof(float); }
  bool is_contiguous() const { return true; }
  const std::vector<int64_t>& sizes() const { return shape; }
  const std::vector<int64_t>& strides() const { return steps; }
  bool is_cpu() const { return device < 0; }
  bool is_privateuseone() const { return device >= 0; }
  int get_device() const { return device; }
};

void add_one(float* out, const float* x, int64_t length) {
  for (int64_t i = 0; i < length; ++i) out[i] = x[i] + 1;
}
void fail_always(float*) { throw std::runtime_error("the kernel gave up"); }

// A queue that runs its jobs when it is asked to wait.
struct FakeQueue {
  std::vector<pto_device_job> jobs;
  std::vector<std::pair<int32_t, const void*>> places;
  std::vector<int32_t> tensors;
} queue;
constexpr char kStreams[2] = {};  // of device 0 and 1

int32_t submit(int32_t device, const void* stream, const pto_device_job* job) {
  queue.jobs.push_back(*job);
  queue.places.emplace_back(device, stream);
  queue.tensors.push_back(job->n_tensors);
  return 0;
}
int32_t wait(const void*) {
  int32_t code = 0;
  for (const pto_device_job& job : queue.jobs) {
    if (job.run(job.context) != 0) {
      pto_set_last_error(job.error());
      code = 1;
    }
    job.release(job.context);
  }
  queue.jobs.clear();
  return code;
}
const void* current_stream(int32_t device) { return &kStreams[device]; }
int32_t device_of(const void* stream) {
  const auto* at = static_cast<const char*>(stream);
  return at >= kStreams && at < kStreams + 2 ? static_cast<int32_t>(at - kStreams) : -1;
}
constexpr pto_device_queue kQueue{submit, wait, current_stream, device_of};

class DeviceQueue : public testing::Test {
 protected:
  DeviceQueue() {
    queue = {};
    pto_set_device_queue(&kQueue);
  }
  ~DeviceQueue() override { pto_set_device_queue(nullptr); }

  template <class F>
  static std::string error_of(F f) {
    try {
      f();
    } catch (const std::exception& error) {
      return error.what();
    }
    return "";
  }
};

TEST_F(DeviceQueue, a_launch_on_its_tensors_runs_later_on_the_current_stream) {
  const FakeTensor x{{1, 2, 3}, 1};
  const FakeTensor out{{0, 0, 0}, 1};
  EXEC_KERNEL_CMD(add_one, 1, out, x, 3);
  ASSERT_EQ(queue.places.size(), 1u);
  EXPECT_EQ(queue.places[0].first, 1);
  EXPECT_EQ(queue.places[0].second, &kStreams[1]);
  EXPECT_EQ(queue.tensors[0], 2);
  EXPECT_EQ(out.values[0], 0);
  EXPECT_EQ(aclrtSynchronizeStream(const_cast<char*>(&kStreams[1])), ACL_SUCCESS);
  EXPECT_THAT(out.values, testing::ElementsAre(2, 3, 4));
}

TEST_F(DeviceQueue, a_pointer_beside_tensors_makes_the_caller_wait) {
  const float x[] = {1, 2};
  const FakeTensor out{{0, 0}};
  EXEC_KERNEL_CMD(add_one, 1, out, x, 2);
  EXPECT_THAT(out.values, testing::ElementsAre(2, 3));
}

TEST_F(DeviceQueue, pointers_alone_go_to_the_stream_that_is_named) {
  const float x[] = {1};
  float out[] = {0};
  EXEC_KERNEL_ASYNC(add_one, 1, &kStreams[0], out, x, 1);
  EXPECT_EQ(out[0], 0);
  EXPECT_EQ(pto_device_wait(&kStreams[0]), 0);
  EXPECT_EQ(out[0], 2);
  EXEC_KERNEL_ASYNC(add_one, 1, nullptr, out, out, 1);
  EXPECT_EQ(out[0], 3);
}

void report_ends(int64_t* ends, const float* x) {
  ends[0] = pto_extent(x);
  ends[1] = pto_extent(ends);
}

TEST_F(DeviceQueue, a_pointer_into_a_device_s_memory_runs_there_and_is_bounded_by_its_block) {
  float x[10] = {};
  int64_t ends[3] = {};
  DeviceBlock floats{reinterpret_cast<uintptr_t>(x), sizeof(x), 1};
  DeviceBlock numbers{reinterpret_cast<uintptr_t>(ends), sizeof(ends), 1};
  process_device_blocks().add(&floats);
  process_device_blocks().add(&numbers);
  EXEC_KERNEL_CMD(report_ends, 1, ends, x + 3);
  EXPECT_THAT(queue.places, testing::ElementsAre(std::pair(1, &kStreams[1])));
  EXPECT_THAT(ends, testing::ElementsAre(28, 24, 0)) << "the call has waited";
  EXEC_KERNEL_ASYNC(report_ends, 1, &kStreams[1], ends, x + 4);
  EXPECT_EQ(ends[0], 28);
  EXPECT_EQ(pto_device_wait(&kStreams[1]), 0);
  EXPECT_EQ(ends[0], 24);
  EXPECT_THAT(error_of([&] {
                EXEC_KERNEL_CMD(report_ends, 1, FakeTensor{{1}, 0}, x);
              }),
              HasSubstr("argument 2 is on device 1, but the first tensor is on device 0\n  why:"));
  process_device_blocks().remove(&floats);
  process_device_blocks().remove(&numbers);
  EXPECT_EQ(pto_extent(x), -1);
}

TEST_F(DeviceQueue, a_plain_pointer_is_bounded_by_what_its_host_knows_of_it) {
  float x[10] = {};
  int64_t ends[2] = {};
  const auto bytes_from = [](void* all, const void* pointer) -> int64_t {
    const auto* base = static_cast<const char*>(all);
    const auto* at = static_cast<const char*>(pointer);
    return at >= base && at < base + 40 ? base + 40 - at : -1;
  };
  pto_pointer_scope outer{bytes_from, x, nullptr}, inner{bytes_from, &inner, nullptr};
  pto_enter_pointers(&outer);
  pto_enter_pointers(&inner);
  EXEC_KERNEL_CMD(report_ends, 1, ends, x + 3);
  EXPECT_THAT(ends, testing::ElementsAre(28, -1));
  pto_leave_pointers(&inner);
  pto_leave_pointers(&outer);
  EXEC_KERNEL_CMD(report_ends, 1, ends, x + 3);
  EXPECT_EQ(ends[0], -1);
  EXPECT_TRUE(queue.places.empty());
}

TEST_F(DeviceQueue, what_a_kernel_throws_comes_with_the_wait) {
  const FakeTensor out{{0}};
  EXEC_KERNEL_CMD(fail_always, 1, out);
  EXPECT_NE(aclrtSynchronizeStream(const_cast<char*>(&kStreams[0])), ACL_SUCCESS);
  EXPECT_THAT(pto_last_error(), HasSubstr("the kernel gave up"));
}

TEST_F(DeviceQueue, tensors_of_two_devices_are_refused_with_both_names) {
  const FakeTensor a{{1}, 0}, b{{1}, 1}, host{{1}, -1};
  EXPECT_THAT(error_of([&] { EXEC_KERNEL_CMD(add_one, 1, a, b, 1); }),
              HasSubstr("argument 2 is on device 1, but the first tensor is on device 0\n  why:"));
  EXPECT_THAT(error_of([&] { EXEC_KERNEL_CMD(add_one, 1, host, b, 1); }),
              HasSubstr("argument 2 is on device 1, but the first tensor is on the CPU"));
  EXPECT_THAT(error_of([&] { EXEC_KERNEL_ASYNC(add_one, 1, &kStreams[1], a, a, 1); }),
              HasSubstr("argument 1 is on device 0, but the stream is of device 1"));
  EXPECT_TRUE(queue.jobs.empty());
}

TEST_F(DeviceQueue, without_the_device_a_launch_says_what_to_load) {
  pto_set_device_queue(nullptr);
  const FakeTensor out{{0}};
  EXPECT_THAT(error_of([&] { EXEC_KERNEL_CMD(add_one, 1, out, out, 1); }),
              HasSubstr("there is no device with streams in this process\n  why:"));
  EXPECT_EQ(pto_device_current_stream(0), nullptr);
  EXPECT_NE(pto_device_wait(nullptr), 0);
}

}  // namespace pto::device_queue_test
