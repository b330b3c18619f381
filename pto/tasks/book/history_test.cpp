// SPDX-License-Identifier: Apache-2.0
// Compares histories of random boxes with all pairs of tasks.
#include "pto/tasks/book/history.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "tests/deep.hpp"

namespace pto::history_test {

// Draws a view of a matrix of 12 x 16 elements: tiles, rows, columns, steps, transposes, all of it.
Box random_box(std::mt19937& random) {
  const auto below = [&](int64_t n) { return int64_t(random() % uint64_t(n)); };
  const int64_t rows = 12, cols = 16, item = 4;
  if (below(8) == 0)
    return make_box(0, std::vector<int64_t>{rows * cols}, std::vector<int64_t>{1}, item);
  if (below(3) == 0) {  // of a regular grid
    const int64_t r = below(3) * 4, c = below(4) * 4;
    return make_box((r * cols + c) * item, std::vector<int64_t>{4, 4},
                    std::vector<int64_t>{cols, 1}, item);
  }
  const int64_t r = below(rows), c = below(cols), step = 1 + below(3);
  const int64_t height = below(rows - r + 1), width = below((cols - c - 1) / step + 2);
  return make_box((r * cols + c) * item, std::vector<int64_t>{width, height},
                  std::vector<int64_t>{step, cols}, item);
}

bool none_is_done(TaskId) { return false; }

struct Step {
  Box box;
  Access access;
};

bool conflict(const Step& a, const Step& b) {
  if (a.access == Access::Read && b.access == Access::Read) return false;
  if (a.access == Access::Reduce && b.access == Access::Reduce && a.box == b.box) return false;
  return overlap(a.box, b.box) == Overlap::Some;
}

TEST(History, orders_exactly_the_tasks_that_conflict) {
  std::mt19937 random(7);
  const int rounds = rounds_of(600, 20000);
  for (int round = 0; round < rounds; ++round) {
    const int tasks = 2 + int(random() % 40);
    History history;
    std::vector<Step> steps;
    std::vector<std::vector<bool>> after(size_t(tasks) + 1, std::vector<bool>(size_t(tasks) + 1));
    for (int task = 1; task <= tasks; ++task) {
      const int arguments = 1 + int(random() % 2);
      std::vector<Step> mine;
      for (int i = 0; i < arguments; ++i)
        mine.push_back({random_box(random), Access(random() % 4)});
      for (const Step& step : mine)
        history.record(
            step.box, step.access, TaskId(task),
            [&](TaskId earlier) {
              ASSERT_LE(earlier, TaskId(task));
              if (earlier == TaskId(task)) return;
              after[size_t(task)][earlier] = true;
              for (size_t k = 1; k < earlier; ++k)
                if (after[earlier][k]) after[size_t(task)][k] = true;
            },
            none_is_done);
      for (const Step& step : mine) steps.push_back({step.box, step.access});
      while (steps.size() < size_t(task) * 2) steps.push_back({Box{}, Access::Read});
    }
    // Every conflict is ordered, and every order comes from a chain of conflicts.
    std::vector<std::vector<bool>> wanted = after;
    for (auto& row : wanted) std::fill(row.begin(), row.end(), false);
    for (size_t b = 1; b <= size_t(tasks); ++b)
      for (size_t a = 1; a < b; ++a)
        for (size_t i = 0; i < 4; ++i)
          if (conflict(steps[2 * (a - 1) + i / 2], steps[2 * (b - 1) + i % 2])) {
            wanted[b][a] = true;
            for (size_t k = 1; k < a; ++k)
              if (wanted[a][k]) wanted[b][k] = true;
          }
    ASSERT_EQ(after, wanted) << "round " << round;
  }
}

// Draws a square of a matrix of 64 x 64 elements, on the grid of its size or off any grid.
Box random_square(std::mt19937& random, bool is_off_grid) {
  const int64_t size = 2 + int64_t(random() % 4);
  const auto place = [&] {
    const auto at = int64_t(random() % uint64_t(65 - size));
    return is_off_grid ? at : at / size * size;
  };
  const int64_t row = place(), col = place();
  return make_box((row * 64 + col) * 4, std::vector<int64_t>{size, size},
                  std::vector<int64_t>{64, 1}, 4);
}

TEST(History, finds_the_neighbours_of_a_box_among_hundreds) {
  std::mt19937 random(5);
  for (int round = 0; round < rounds_of(40, 1000); ++round) {
    History history;
    std::vector<Box> boxes;
    for (TaskId task = 1; task <= 600; ++task) {  // readers, so that all of them stay
      boxes.push_back(random_square(random, round % 2 == 0));
      history.record(
          boxes.back(), Access::Read, task, [](TaskId) {}, none_is_done);
    }
    const Box written = random_square(random, round % 4 < 2);
    std::vector<TaskId> found, wanted;
    history.record(
        written, Access::Write, 601, [&](TaskId earlier) { found.push_back(earlier); },
        none_is_done);
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    for (size_t i = 0; i < boxes.size(); ++i)
      if (overlap(boxes[i], written) == Overlap::Some) wanted.push_back(i + 1);
    ASSERT_EQ(found, wanted) << "round " << round;
  }
}

TEST(History, keeps_no_readers_that_are_done) {
  History history;
  const Box box = make_box(0, std::vector<int64_t>{8}, std::vector<int64_t>{1}, 4);
  int64_t bytes = 0;
  for (TaskId task = 1; task <= 100000; ++task) {
    history.record(
        box, Access::Read, task, [](TaskId) {},
        [&](TaskId earlier) { return earlier + 100 < task; });
    if (task == 1000) bytes = history.bytes();
  }
  EXPECT_EQ(history.bytes(), bytes);
  std::vector<TaskId> found;
  history.record(
      box, Access::Write, 100001, [&](TaskId earlier) { found.push_back(earlier); }, none_is_done);
  for (TaskId task = 100000; task > 99900; --task)
    EXPECT_NE(std::find(found.begin(), found.end(), task), found.end()) << task;
}

TEST(History, of_many_tiles_knows_each_ones_neighbours_alone) {
  History history;
  const int64_t cols = 4096;
  const auto tile = [&](int64_t r, int64_t c) {
    return make_box((r * 16 * cols + c * 16) * 4, std::vector<int64_t>{16, 16},
                    std::vector<int64_t>{cols, 1}, 4);
  };
  TaskId task = 0;
  for (int64_t r = 0; r < 64; ++r)
    for (int64_t c = 0; c < 256; ++c)
      history.record(
          tile(r, c), Access::Write, ++task, [](TaskId) { FAIL(); }, none_is_done);
  EXPECT_EQ(history.boxes(), 64u * 256);
  int found = 0;
  history.record(
      make_box(0, std::vector<int64_t>{1024, cols}, std::vector<int64_t>{cols, 1}, 4), Access::Read,
      ++task, [&](TaskId) { ++found; }, none_is_done);
  EXPECT_EQ(found, 64 * 256);
  EXPECT_EQ(history.unknown_overlaps(), 0);
}

}  // namespace pto::history_test
