// SPDX-License-Identifier: Apache-2.0
// Random programs of cores that wait for each other, right ones and broken ones, against a plain
// simulation of what each must end with.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <set>
#include <stdexcept>
#include <vector>

#include "pto/abi/host.h"
#include "pto/launch/pool.hpp"

namespace pto::misuse_test {

// clang-format off
enum class Do { OwnSet, OwnWait, PairSet, PairWait, BlockSet, BlockWait, AllSet, AllWait, Barrier,
                Push, Pop, Throw };
const char* const kNames[] = {"OwnSet", "OwnWait", "PairSet", "PairWait", "BlockSet", "BlockWait",
                              "AllSet", "AllWait", "Barrier", "Push", "Pop", "Throw"};
// clang-format on

struct Op {
  Do what;
  int flag = 0;
};

struct Case {
  int blocks, lanes;
  std::vector<std::vector<Op>> programs;  // of every core: cube, lanes, cube, ...

  int cores() const { return lanes + 1; }
  int cube_of(int core) const { return core / cores() * cores(); }
  bool is_cube(int core) const { return core % cores() == 0; }
  int lane_of(int core) const { return core % cores() - 1; }
  int count() const { return blocks * cores(); }
  std::string name(int core) const {
    return "block " + std::to_string(core / cores()) +
           (is_cube(core) ? " (cube)" : " (vector " + std::to_string(lane_of(core)) + ")");
  }
};

std::string text(const Case& one) {
  std::string all;
  for (int core = 0; core < one.count(); ++core) {
    all += one.name(core) + ":";
    for (const Op& op : one.programs[core]) {
      all += std::string(" ") + kNames[int(op.what)] + std::to_string(op.flag);
    }
    all += "\n";
  }
  return all;
}

constexpr int kSlots = 2;

// Expects errors of single cores, any of which may come first; else the cores that wait.
class Simulation {
 public:
  explicit Simulation(const Case& one)
      : case_(one),
        at_(one.count()),
        own_(one.count()),
        pair_(one.count()),
        block_(one.count()),
        all_(one.count()),
        block_sets_(one.count()),
        all_sets_(one.count()),
        pushed_(one.count()),
        popped_(one.count()),
        barrier_(one.count()) {
    for (bool moved = true; moved;) {
      moved = false;
      for (int core = 0; core < one.count(); ++core) {
        while (step(core)) moved = true;
      }
    }
    for (int core = 0; core < one.count(); ++core) finish(core);
  }

  std::set<std::string> errors;    // texts
  std::vector<std::string> waits;  // texts
  bool has_left = false;

 private:
  bool step(int core) {
    const auto& program = case_.programs[core];
    if (at_[core] >= program.size()) return false;
    const Op& op = program[at_[core]];
    if (!run(core, op)) return false;
    ++at_[core];
    return true;
  }

  bool take(int& count) {
    if (count == 0) return false;
    --count;
    return true;
  }

  bool run(int core, const Op& op) {
    const int cube = case_.cube_of(core), first = cube + 1, lanes = case_.lanes;
    switch (op.what) {
      case Do::OwnSet:
        return ++own_[core];
      case Do::OwnWait:
        if (take(own_[core])) return true;
        return fail(core, case_.name(core) + " waits for flag (PIPE_V, PIPE_S, EVENT_ID0) at " +
                              place(core) + ", which it has not set");
      case Do::Throw:
        return fail(core, "thrown by " + case_.name(core));
      case Do::PairSet:
        if (!case_.is_cube(core))
          ++pair_[cube][case_.lane_of(core)];
        else if (op.flag / 16 < lanes)
          ++pair_[first + op.flag / 16][0];
        return true;
      case Do::PairWait:
        return take(pair_[core][op.flag / 16]);
      case Do::BlockSet:
        if (case_.is_cube(core)) {
          for (int lane = 0; lane < lanes; ++lane) ++block_[first + lane];
          return true;
        }
        ++block_sets_[core];
        block_[cube] += collect(block_sets_, first, first + lanes, 1);
        return true;
      case Do::BlockWait:
        return take(block_[core]);
      case Do::AllSet:
        return set_all(core);
      case Do::AllWait:
        return take(all_[core]);
      case Do::Barrier:
        return pass_barrier(core);
      case Do::Push:
        if (pushed_[cube] >= *std::min_element(&popped_[first], &popped_[first] + lanes) + kSlots)
          return false;
        return ++pushed_[cube];
      case Do::Pop:
        if (popped_[core] >= pushed_[cube]) return false;
        return ++popped_[core];
    }
    return false;
  }

  // Takes one set of each in [from, to), every `step`, and returns 1, when all have one.
  static int collect(std::vector<int>& sets, int from, int to, int step) {
    for (int i = from; i < to; i += step) {
      if (sets[i] == 0) return 0;
    }
    for (int i = from; i < to; i += step) --sets[i];
    return 1;
  }

  bool set_all(int core) {
    ++all_sets_[core];
    std::vector<int> kind;
    for (int i = 0; i < case_.count(); ++i) {
      if (case_.is_cube(i) == case_.is_cube(core)) kind.push_back(i);
    }
    for (const int i : kind) {
      if (all_sets_[i] == 0) return true;
    }
    for (const int i : kind) {
      --all_sets_[i];
      ++all_[i];
    }
    return true;
  }

  // barrier_ counts arrivals; a core passes when all have come as often as it has.
  bool pass_barrier(int core) {
    if (!arrived_.count(core)) {
      arrived_.insert(core);
      ++barrier_[core];
    }
    if (*std::min_element(barrier_.begin(), barrier_.end()) < barrier_[core]) return false;
    arrived_.erase(core);
    return true;
  }

  std::string place(int core) const { return "case:" + std::to_string(at_[core] + 1); }

  bool fail(int core, const std::string& error) {
    errors.insert(error);
    has_failed_.insert(core);
    return false;
  }

  void finish(int core) {
    if (has_failed_.count(core)) return;
    if (at_[core] < case_.programs[core].size()) {
      waits.push_back(case_.name(core) + " waits ");
      waits.push_back(" at " + place(core));
      return;
    }
    if (own_[core] > 0) errors.insert(case_.name(core) + " ended with flag");
    const int cube = case_.cube_of(core);
    has_left |= pair_[core][0] + pair_[core][1] + block_[core] + all_[core] > 0;
    has_left |= block_sets_[core] + all_sets_[core] > 0;
    has_left |=
        case_.is_cube(core) &&
        *std::max_element(&popped_[cube + 1], &popped_[cube + 1] + case_.lanes) < pushed_[cube];
  }

  const Case& case_;
  std::vector<size_t> at_;
  std::vector<int> own_;
  struct Pair {
    int counts[2] = {};
    int& operator[](int i) { return counts[i]; }
  };
  std::vector<Pair> pair_;
  std::vector<int> block_, all_, block_sets_, all_sets_, pushed_, popped_, barrier_;
  std::set<int> arrived_, has_failed_;
};

class Maker {
 public:
  explicit Maker(unsigned seed) : random_(seed) {}

  Case make() {
    case_ = {below(4) + 1, below(2) + 1, {}};
    case_.programs.resize(case_.count());
    for (int i = below(12); i >= 0; --i) add_event();
    if (below(3) > 0) {
      for (int i = below(3); i >= 0; --i) spoil();
    }
    return case_;
  }

 private:
  int below(int n) { return int(random_() % unsigned(n)); }
  void add(int core, Do what, int flag = 0) { case_.programs[core].push_back({what, flag}); }

  // Adds operations that match, in an order in which they can run.
  void add_event() {
    const int cube = below(case_.blocks) * case_.cores(), lane = below(case_.lanes);
    const int vector = cube + 1 + lane, any = below(case_.count());
    switch (below(8)) {
      case 0:
        add(any, Do::OwnSet);
        return add(any, Do::OwnWait);
      case 1:
        add(cube, Do::PairSet, 16 * lane);
        return add(vector, Do::PairWait);
      case 2:
        add(vector, Do::PairSet);
        return add(cube, Do::PairWait, 16 * lane);
      case 3:
        add(cube, Do::BlockSet);
        for (int i = 0; i < case_.lanes; ++i) add(cube + 1 + i, Do::BlockWait);
        return;
      case 4:
        for (int i = 0; i < case_.lanes; ++i) add(cube + 1 + i, Do::BlockSet);
        return add(cube, Do::BlockWait);
      case 5:
        for (const Do what : {Do::AllSet, Do::AllWait}) {
          for (int i = 0; i < case_.count(); ++i) {
            if (case_.is_cube(i) == case_.is_cube(any)) add(i, what);
          }
        }
        return;
      case 6:
        for (int i = 0; i < case_.count(); ++i) add(i, Do::Barrier);
        return;
      default:
        for (int times = below(4); times >= 0; --times) {
          add(cube, Do::Push);
          for (int i = 0; i < case_.lanes; ++i) add(cube + 1 + i, Do::Pop);
        }
    }
  }

  void spoil() {
    auto& program = case_.programs[below(case_.count())];
    if (program.empty()) return;
    const auto at = program.begin() + below(int(program.size()));
    switch (below(8)) {
      case 0:
        program.insert(at, Op(*at));
        break;
      case 1:
        program.insert(at, {Do::Throw, 0});
        break;
      case 2:
      case 3:
        std::iter_swap(at, program.begin() + below(int(program.size())));
        break;
      default:
        program.erase(at);
    }
  }

  std::mt19937 random_;
  Case case_;
};

void run_op(const Case& one, int core, const Op& op, int line) {
  static const int kKey = 0;
  const pto_ring ring{&kKey, "TPUSH", pto_lane_index(), pto_lane_count(), kSlots, 64};
  const char* file = "case";
  switch (op.what) {
    case Do::OwnSet:
      return pto_set_flag(1, 0, 0, file, line);
    case Do::OwnWait:
      return pto_wait_flag(1, 0, 0, file, line);
    case Do::PairSet:
      return pto_cross_set(PTO_SYNC_PAIR, op.flag, file, line);
    case Do::PairWait:
      return pto_cross_wait(PTO_SYNC_PAIR, op.flag, file, line);
    case Do::BlockSet:
      return pto_cross_set(PTO_SYNC_BLOCK, 2, file, line);
    case Do::BlockWait:
      return pto_cross_wait(PTO_SYNC_BLOCK, 2, file, line);
    case Do::AllSet:
      return pto_cross_set(PTO_SYNC_ALL, 4, file, line);
    case Do::AllWait:
      return pto_cross_wait(PTO_SYNC_ALL, 4, file, line);
    case Do::Barrier:
      return pto_barrier(PTO_CORE_ANY, nullptr, 0, file, line);
    case Do::Push:
      pto_ring_push(&ring, file, line);
      return pto_ring_done(&ring);
    case Do::Pop:
      pto_ring_pop(&ring, file, line);
      return pto_ring_release(&ring);
    case Do::Throw:
      throw std::runtime_error("thrown by " + one.name(core));
  }
}

std::string run(const Case& one) {
  const auto core = [](void* context) -> int32_t {
    const Case& one = *static_cast<const Case*>(context);
    const int lane = pto_core() == PTO_CORE_CUBE ? 0 : 1 + pto_lane_index();
    const int core = pto_block_index() * one.cores() + lane;
    const auto& program = one.programs[core];
    for (size_t i = 0; i < program.size(); ++i) run_op(one, core, program[i], int(i) + 1);
    return 0;
  };
  void* context = const_cast<Case*>(&one);
  return pto_launch_cores(one.blocks, one.lanes, 1, core, context) == 0 ? "" : pto_last_error();
}

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

void check(const Case& one, const std::string& error) {
  const Simulation expected(one);
  if (!expected.errors.empty()) {
    for (const std::string& text : expected.errors) {
      if (error.find(text) != error.npos) return;
    }
    FAIL() << error << "\nis none of the " << expected.errors.size() << " possible, such as\n"
           << *expected.errors.begin();
  }
  if (!expected.waits.empty()) {
    EXPECT_EQ(error.rfind("deadlock: ", 0), 0u) << error;
    for (const std::string& text : expected.waits) EXPECT_THAT(error, testing::HasSubstr(text));
    EXPECT_EQ(count_of(error, " waits "), expected.waits.size() / 2) << error;
  } else if (expected.has_left) {
    EXPECT_TRUE(count_of(error, "more than") + count_of(error, "pushed ") > 0) << error;
  } else {
    EXPECT_EQ(error, "");
  }
}

TEST(Misuse, a_thousand_random_programs_end_as_they_must) {
  const char* deep = std::getenv("PTO_DEEP");
  const unsigned cases = deep != nullptr && *deep == '1' ? 20'000 : 1'000;
  int right = 0;
  for (unsigned seed = 0; seed < cases && !testing::Test::HasFailure(); ++seed) {
    const Case one = Maker(seed).make();
    const ScopedThreadLimit threads(1 + int(seed % 3));
    const std::string error = run(one);
    right += error.empty();
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + text(one));
    check(one, error);
  }
  EXPECT_GT(right, int(cases) / 5) << "programs without a mistake are under test too";
  EXPECT_LT(right, int(cases) * 4 / 5);
}

}  // namespace pto::misuse_test
