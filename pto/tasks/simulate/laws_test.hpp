// SPDX-License-Identifier: Apache-2.0
// The law of both engines: random tasks leave what they leave one after another, whatever order
// the simulation draws; what fails stops those that follow it and no others.
//
//     const std::vector<Work> works = random_works(seed);
//     Oracle oracle;
//     for (size_t i = 0; i < works.size(); ++i) oracle.step(works, i, fails(i));
//     oracle.cells;                                 // as the engine must leave them
//
// Thread safety: one thread; `g_watch` is what the kernel reports to.
#pragma once

#include <algorithm>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "pto/tasks/cores/engine.hpp"

namespace pto {

// --- tasks on boxes of arrays of 4 x 4 int64 -----------------------------------------------------

constexpr int64_t kSide = 4, kCells = kSide * kSide, kArrays = 3;
constexpr int64_t kStrides[] = {kSide, 1};
constexpr double kLimit = 2000;  // conditions: an element is less

struct Part {
  int64_t array, row, column, sizes[2];
  Access access;

  bool is_same_box(const Part& other) const {
    return array == other.array && row == other.row && column == other.column &&
           sizes[0] == other.sizes[0] && sizes[1] == other.sizes[1];
  }
  bool meets(const Part& other) const {
    return array == other.array && row < other.row + other.sizes[0] && other.row < row + sizes[0] &&
           column < other.column + other.sizes[1] && other.column < column + sizes[1];
  }
  bool orders(const Part& other) const {
    if (!meets(other) || (access == Access::Read && other.access == Access::Read)) return false;
    return access != Access::Reduce || other.access != Access::Reduce || !is_same_box(other);
  }
};

struct Work {
  std::vector<Part> parts;  // the last one is written
  std::vector<TaskId> after;
  int32_t blocks = 1;
  bool has_kernel = true, has_predicate = false, is_waited_for = false;
  Part looked_at{};
  int64_t seed = 0;
};

using Cells = std::vector<int64_t>;

inline int64_t* first_of(Cells& cells, const Part& part) {
  return cells.data() + part.array * kCells + part.row * kSide + part.column;
}

inline pto_tensor tensor_of(Cells& cells, const Part& part) {
  return {first_of(cells, part), part.sizes, kStrides, 2, 0, 64, 1, 0, -1};
}

inline Part random_part(std::mt19937_64& random) {
  const auto below = [&](int64_t n) { return int64_t(random() % uint64_t(n)); };
  Part part{below(kArrays), below(kSide), below(kSide), {1, 1}, Access::Read};
  if (below(2) == 0) {
    part.sizes[0] += below(kSide - part.row);
    part.sizes[1] += below(kSide - part.column);
  }
  return part;
}

inline std::vector<Work> random_works(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](int64_t n) { return int64_t(random() % uint64_t(n)); };
  std::vector<Work> works(size_t(1 + below(40)));
  const int64_t reduces = 1 + below(4);  // of a few boxes, so that they meet
  std::vector<Part> sums;
  for (int64_t i = 0; i < reduces; ++i) sums.push_back(random_part(random));
  for (size_t i = 0; i < works.size(); ++i) {
    Work& work = works[i];
    work.seed = below(1000);
    work.has_kernel = below(12) != 0;
    if (below(5) == 0) work.blocks = int32_t(2 + below(4));
    // Blocks of one task are not ordered, so they read nothing that the task writes.
    for (int64_t reads = work.blocks > 1 ? 0 : below(3); reads > 0; --reads)
      work.parts.push_back(random_part(random));
    const auto access = Access(1 + below(3));
    Part written = access == Access::Reduce ? sums[size_t(below(reduces))] : random_part(random);
    written.access = access;
    work.parts.push_back(written);
    if (i > 0 && below(6) == 0) work.after.push_back(TaskId(1 + below(int64_t(i))));
    if (below(8) == 0) {
      work.has_predicate = true;
      work.looked_at = random_part(random);
      work.looked_at.sizes[0] = work.looked_at.sizes[1] = 1;
    }
    work.is_waited_for = below(20) == 0;
  }
  return works;
}

// --- the kernel, which lets others go on between what it reads and what it writes ----------------

struct Watch {
  std::function<void(uint64_t ns)> pass;  // null: one task after another
  std::vector<int> calls;                 // of block 0 of each task
};
inline Watch* g_watch = nullptr;

inline void pass(uint64_t ns) {
  if (g_watch->pass) g_watch->pass(ns);
}

inline int32_t run_work(const pto_args* args) {
  const auto& work = *reinterpret_cast<const Work*>(args->scalars[0]);
  if (args->block == 0) ++g_watch->calls[size_t(args->scalars[1])];
  uint64_t sum = uint64_t(work.seed);
  const auto each = [&](int32_t i, const auto& f) {
    const pto_tensor& t = args->tensors[i];
    for (int64_t r = 0; r < t.sizes[0]; ++r)
      for (int64_t c = 0; c < t.sizes[1]; ++c)
        f(static_cast<int64_t*>(t.data)[r * t.strides[0] + c], r * t.sizes[1] + c);
  };
  for (int32_t i = 0; i + 1 < args->n_tensors; ++i)
    each(i, [&](int64_t& v, int64_t) { sum = sum * 31 + uint64_t(v); });
  const Access access = work.parts.back().access;
  pass(uint64_t(work.seed) * 3 % 700);
  each(args->n_tensors - 1, [&](int64_t& v, int64_t i) {
    if (i % args->blocks != args->block) return;
    const auto old = uint64_t(v);
    if (access != Access::Write && i == args->block) pass(100);
    v = int64_t(access == Access::Write    ? sum + uint64_t(i)
                : access == Access::Update ? old * 7 + sum
                                           : old + sum);
  });
  return 0;
}
inline const TaskKernel kWork{run_work, "work"};

// --- one after another ---------------------------------------------------------------------------

// Whether task i must wait for an earlier task k. An element that a condition reads counts as read.
inline bool follows(const std::vector<Work>& works, size_t i, size_t k) {
  const Work &later = works[i], &earlier = works[k];
  const auto orders = [](const std::vector<Part>& parts, const Part& with) {
    return std::any_of(parts.begin(), parts.end(),
                       [&](const Part& part) { return part.orders(with); });
  };
  return std::any_of(later.parts.begin(), later.parts.end(),
                     [&](const Part& part) { return orders(earlier.parts, part); }) ||
         (later.has_predicate && orders(earlier.parts, later.looked_at)) ||
         (earlier.has_predicate && orders(later.parts, earlier.looked_at)) ||
         std::count(later.after.begin(), later.after.end(), TaskId(k) + 1) > 0;
}

struct Oracle {
  Cells cells = Cells(kArrays * kCells);
  std::vector<char> is_bad;  // failed, or follows one that is

  void step(const std::vector<Work>& works, size_t i, bool fails) {
    const Work& work = works[i];
    bool bad = false;
    for (size_t k = 0; k < i; ++k) bad = bad || (is_bad[k] && follows(works, i, k));
    const bool runs = !work.has_predicate || double(*first_of(cells, work.looked_at)) < kLimit;
    if (!bad && work.has_kernel && runs) {
      if (!fails) call(work, i);
      bad = fails;
    }
    is_bad.push_back(bad);
  }
  void call(const Work& work, size_t i) {
    std::vector<pto_tensor> tensors;
    for (const Part& part : work.parts) tensors.push_back(tensor_of(cells, part));
    const uint64_t scalars[] = {reinterpret_cast<uint64_t>(&work), i};
    pto_args args{};
    args.tensors = tensors.data();
    args.n_tensors = int32_t(tensors.size());
    args.scalars = scalars;
    args.blocks = work.blocks;
    for (args.block = 0; args.block < work.blocks; ++args.block) run_work(&args);
  }
};

}  // namespace pto
