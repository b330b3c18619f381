// SPDX-License-Identifier: Apache-2.0
#include "pto/base/machine.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "pto/base/error.hpp"

namespace pto::machine_test {

using testing::HasSubstr;

Machine derived(MachineFacts facts, const std::map<std::string, std::string>& variables = {}) {
  return derive_machine(facts, [&](const char* variable) -> const char* {
    const auto found = variables.find(variable);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

MachineFacts facts() {
  MachineFacts some;
  some.best_target = Target::Avx2;
  some.cores = 4;
  some.l2_bytes = 1 << 20;
  some.llc_bytes = 32 << 20;
  return some;
}

std::string error_of(const std::map<std::string, std::string>& variables) {
  try {
    derived(facts(), variables);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Machine, cut_offs_follow_from_the_caches) {
  MachineFacts some = facts();
  EXPECT_EQ(derived(some).stream_bytes, 16 << 20);
  some.llc_bytes = int64_t{480} << 20;
  EXPECT_EQ(derived(some).stream_bytes, 64 << 20);
  EXPECT_EQ(derived(some).row_buffer_bytes, 512 << 10);
  EXPECT_EQ(derived(some).grain_bytes, 256 << 10);
}

TEST(Machine, the_environment_overrides_single_values) {
  const Machine made = derived(facts(), {{"PTO_STREAM_BYTES", "4096"},
                                         {"PTO_GRAIN_BYTES", "0"},
                                         {"PTO_NUM_THREADS", "3"},
                                         {"PTO_SPIN_US", "7"},
                                         {"PTO_POOL_BYTES", "99"},
                                         {"PTO_TARGET", "portable"}});
  EXPECT_EQ(made.stream_bytes, 4096);
  EXPECT_EQ(made.grain_bytes, 0);
  EXPECT_EQ(made.threads, 3);
  EXPECT_EQ(made.spin_us, 7);
  EXPECT_EQ(made.pool_bytes, 99);
  EXPECT_EQ(made.target, Target::Portable);
  EXPECT_EQ(made.best_target, Target::Avx2);
}

TEST(Machine, there_are_never_more_threads_than_cores) {
  EXPECT_EQ(derived(facts(), {{"PTO_NUM_THREADS", "64"}}).threads, 4);
  EXPECT_EQ(derived(facts()).threads, 4);
}

TEST(Machine, a_target_that_the_cpu_lacks_is_refused_with_both_names) {
  const std::string text = error_of({{"PTO_TARGET", "avx512"}});
  EXPECT_THAT(text, HasSubstr("PTO_TARGET is avx512, but this CPU supports at most avx2"));
  EXPECT_THAT(text, HasSubstr("fix: unset PTO_TARGET or set it to avx2"));
}

TEST(Machine, an_unknown_target_is_refused_with_the_known_ones) {
  EXPECT_THAT(error_of({{"PTO_TARGET", "sse9"}}), HasSubstr("set it to portable, avx2 or avx512"));
}

TEST(Machine, a_variable_that_is_no_number_of_its_range_is_refused) {
  for (const char* value : {"abc", "0", "-1", "2x", "99999999999999999999"}) {
    EXPECT_THAT(error_of({{"PTO_NUM_THREADS", value}}),
                HasSubstr(std::string("PTO_NUM_THREADS is \"") + value + "\""));
  }
  EXPECT_THAT(error_of({{"PTO_SPIN_US", "-1"}}), HasSubstr("at least 0"));
}

TEST(Machine, an_empty_variable_counts_as_unset) {
  EXPECT_EQ(derived(facts(), {{"PTO_NUM_THREADS", ""}, {"PTO_TARGET", ""}}).threads, 4);
}

TEST(Machine, a_cpu_quota_counts_in_whole_cores_rounded_up) {
  EXPECT_EQ(cores_of_quota("200000 100000\n"), 2);
  EXPECT_EQ(cores_of_quota("150000 100000"), 2);
  EXPECT_EQ(cores_of_quota("10000 100000"), 1);
  EXPECT_EQ(cores_of_quota("max 100000"), 0);
  EXPECT_EQ(cores_of_quota(""), 0);
}

TEST(Machine, this_computer_is_described_with_sizes_and_flags) {
  const std::string text = describe(machine());
  EXPECT_THAT(text, HasSubstr("target: " + std::string(name(machine().target))));
  for (const char* line : {"cpu: ", "cores: ", "L2: ", "stream from: ", "parallel from: "}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_GE(machine().cores, 1);
  EXPECT_GT(machine().l1d_bytes, 0);
  EXPECT_GE(machine().llc_bytes, machine().l2_bytes);
}

TEST(Machine, a_lower_target_is_said_to_be_one) {
  EXPECT_THAT(describe(derived(facts(), {{"PTO_TARGET", "portable"}})),
              HasSubstr("target: portable (the CPU has avx2)"));
}

TEST(Machine, bytes_are_printed_in_the_largest_unit) {
  EXPECT_EQ(text_bytes(384), "384 B");
  EXPECT_EQ(text_bytes(48 << 10), "48 KB");
  EXPECT_EQ(text_bytes(3 << 19), "1.5 MB");
}

}  // namespace pto::machine_test
