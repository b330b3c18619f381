// SPDX-License-Identifier: Apache-2.0
#include "pto/launch/fiber.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace pto::fiber_test {

struct Story {
  Fiber fiber;
  std::string text;
  int rounds = 0;
};

void tell(void* given) {
  auto& story = *static_cast<Story*>(given);
  for (int i = 0; i < story.rounds; ++i) {
    story.text += std::to_string(i);
    Fiber::suspend(story.fiber);
  }
  story.text += "!";
}

TEST(Fiber, runs_until_it_suspends_and_goes_on_where_it_was) {
  Story story;
  story.rounds = 2;
  story.fiber.start(tell, &story);
  EXPECT_EQ(story.text, "") << "start() runs nothing";
  story.fiber.resume();
  EXPECT_EQ(story.text, "0");
  story.fiber.resume();
  EXPECT_EQ(story.text, "01");
  EXPECT_FALSE(story.fiber.has_ended());
  story.fiber.resume();
  EXPECT_EQ(story.text, "01!");
  EXPECT_TRUE(story.fiber.has_ended());
}

TEST(Fiber, starts_again_on_the_same_stack) {
  Story story;
  for (int i = 0; i < 1000; ++i) {
    story.fiber.start(tell, &story);
    story.fiber.resume();
  }
  EXPECT_EQ(story.text, std::string(1000, '!'));
}

TEST(Fiber, many_fibers_interleave_in_any_order) {
  std::vector<Story> stories(100);
  for (Story& story : stories) {
    story.rounds = 10;
    story.fiber.start(tell, &story);
  }
  unsigned seed = 1;
  for (size_t left = stories.size(); left > 0;) {
    seed = seed * 1664525 + 1013904223;
    Story& story = stories[(seed >> 16) % stories.size()];
    if (story.fiber.has_ended()) continue;
    story.fiber.resume();
    left -= story.fiber.has_ended();
  }
  for (const Story& story : stories) EXPECT_EQ(story.text, "0123456789!");
}

TEST(Fiber, a_fiber_resumes_another) {
  Story inner, outer;
  inner.rounds = 1;
  struct Both {
    Story &inner, &outer;
  } both{inner, outer};
  inner.fiber.start(tell, &inner);
  outer.fiber.start(
      [](void* given) {
        auto& [inner, outer] = *static_cast<Both*>(given);
        inner.fiber.resume();
        outer.text += inner.text;
        Fiber::suspend(outer.fiber);
        inner.fiber.resume();
        outer.text += inner.text;
      },
      &both);
  outer.fiber.resume();
  EXPECT_EQ(outer.text, "0");
  outer.fiber.resume();
  EXPECT_EQ(outer.text, "00!");
}

void handle_while_suspended(void* given) {
  auto& story = *static_cast<Story*>(given);
  try {
    throw std::runtime_error("of " + story.text);
  } catch (const std::exception& error) {
    Fiber::suspend(story.fiber);
    try {
      throw;  // what this fiber handles, whatever the others caught meanwhile
    } catch (const std::exception& again) {
      story.text += std::string(" got ") + again.what();
    }
  }
}

TEST(Fiber, each_handles_its_own_exceptions) {
  Story a, b;
  a.text = "a";
  b.text = "b";
  a.fiber.start(handle_while_suspended, &a);
  b.fiber.start(handle_while_suspended, &b);
  a.fiber.resume();
  b.fiber.resume();
  EXPECT_EQ(std::uncaught_exceptions(), 0);
  EXPECT_EQ(std::current_exception(), nullptr);
  a.fiber.resume();
  b.fiber.resume();
  EXPECT_EQ(a.text, "a got of a");
  EXPECT_EQ(b.text, "b got of b");
}

TEST(Fiber, a_stack_holds_what_a_thread_holds) {
  Story story;
  story.fiber.start(
      [](void* given) {
        volatile char large[6 << 20];
        for (size_t i = 0; i < sizeof(large); i += 4096) large[i] = 1;
        static_cast<Story*>(given)->rounds = large[4096];
      },
      &story);
  story.fiber.resume();
  EXPECT_EQ(story.rounds, 1);
}

TEST(Fiber, threads_have_their_own) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      Story story;
      story.rounds = 100;
      story.fiber.start(tell, &story);
      while (!story.fiber.has_ended()) story.fiber.resume();
      EXPECT_EQ(story.text.size(), 191u);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace pto::fiber_test
