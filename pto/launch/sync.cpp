// SPDX-License-Identifier: Apache-2.0
#include "pto/launch/sync.hpp"

#include <algorithm>

#include "pto/base/error.hpp"

namespace pto {
namespace {

constexpr int32_t kPairLane = 16;   // flags of the second lane, as the cube core counts
constexpr int32_t kPairFlags = 64;  // pair flags have numbers of their own, from here on

const char* name_of_pipe(int32_t pipe) {
  static constexpr const char* kNames[] = {"PIPE_S",    "PIPE_V",    "PIPE_M",   "PIPE_MTE1",
                                           "PIPE_MTE2", "PIPE_MTE3", "PIPE_FIX", "PIPE_ALL"};
  return pipe >= 0 && pipe < 8 ? kNames[pipe] : "another pipe";
}

int32_t index_of(int32_t source, int32_t destination, int32_t id, Place place) {
  constexpr int kPipes = BlockFlags::kPipes, kIds = BlockFlags::kIds;
  const auto is_below = [](int32_t number, int count) { return number >= 0 && number < count; };
  if (is_below(source, kPipes) && is_below(destination, kPipes) && is_below(id, kIds))
    return (source * kPipes + destination) * kIds + id;
  fail({text_of_core(*t_block.launch, t_block.position) + " names flag (" + name_of_pipe(source) +
            ", " + name_of_pipe(destination) + ", event " + std::to_string(id) + ") at " +
            text(place),
        "pipes are numbers of pipe_t, events 0 to " + std::to_string(kIds - 1),
        "use PIPE_S to PIPE_ALL and EVENT_ID0 to EVENT_ID7"},
       ErrorKind::Value);
}

std::string text_of_flag(int32_t index) {
  constexpr int kPipes = BlockFlags::kPipes, kIds = BlockFlags::kIds;
  const std::string pipes = std::string("(") + name_of_pipe(index / kIds / kPipes) + ", " +
                            name_of_pipe(index / kIds % kPipes);
  if (index % kIds == PTO_FLAG_OF_EVENT) return pipes + ") of an Event";
  return pipes + ", EVENT_ID" + std::to_string(index % kIds) + ")";
}

std::string times(int32_t count) { return count == 1 ? "once" : std::to_string(count) + " times"; }

// Returns the flags of the running block; a thread and its fibers recycle them.
BlockFlags& own_flags() {
  static thread_local std::vector<std::unique_ptr<BlockFlags>> all;
  if (t_block.flags != nullptr) return *t_block.flags;
  for (auto& flags : all) {
    if (flags->is_taken) continue;
    t_block.flags = flags.get();
    break;
  }
  if (t_block.flags == nullptr) {
    all.push_back(std::make_unique<BlockFlags>());
    t_block.flags = all.back().get();
  }
  t_block.flags->is_taken = true;
  return *t_block.flags;
}

}  // namespace

void BlockFlags::set(int32_t index, Place place) {
  Flag& flag = flags[index];
  if (!flag.is_listed) used.push_back(index);
  flag.is_listed = true;
  ++flag.count;
  flag.place = place;
}

void BlockFlags::clear() {
  for (const int32_t index : used) flags[index] = {};
  used.clear();
  is_taken = false;
}

std::string BlockFlags::left() const {
  for (const int32_t index : used) {
    const Flag& flag = flags[index];
    if (flag.count == 0) continue;
    return Error({text_of_core(*t_block.launch, t_block.position) + " ended with flag " +
                      text_of_flag(index) + " set " + times(flag.count) +
                      " more than awaited, the last time at " + text(flag.place),
                  "every set_flag needs its wait_flag, else the next kernel finds the flag set",
                  "wait for it before the block ends, or do not set it"})
        .what();
  }
  return "";
}

int32_t Sync::kind_at(int32_t core) const {
  if (!launch_->has_roles) return PTO_CORE_ANY;
  return launch_->has_cube && core == 0 ? PTO_CORE_CUBE : PTO_CORE_VECTOR;
}

// Lists, by position, the cores that must all set a flag before it counts.
std::vector<int32_t> Sync::group_of(int32_t mode) const {
  if (mode == PTO_SYNC_PAIR || (mode == PTO_SYNC_BLOCK && t_block.core == PTO_CORE_CUBE)) {
    return {t_block.position};
  }
  const int32_t cores = launch_->cores_per_block();
  std::vector<int32_t> group;
  for (int32_t position = 0; position < launch_->positions(); ++position) {
    if (mode != PTO_SYNC_ALL && position / cores != t_block.index) continue;
    const int32_t kind = kind_at(position % cores);
    if (kind == (mode == PTO_SYNC_LANES && kind != PTO_CORE_ANY ? PTO_CORE_VECTOR : t_block.core)) {
      group.push_back(position);
    }
  }
  return group;
}

// Lists the receivers and, for each, the flag that it sees.
std::vector<std::pair<int32_t, int32_t>> Sync::receivers_of(int32_t mode, int32_t flag) const {
  const int32_t cores = launch_->cores_per_block(), first = t_block.index * cores;
  const int32_t lanes = launch_->lanes, vectors = first + launch_->has_cube;
  std::vector<std::pair<int32_t, int32_t>> all;
  if (mode == PTO_SYNC_PAIR) {
    const int32_t lane = flag / kPairLane, id = kPairFlags + flag % kPairLane;
    if (t_block.core == PTO_CORE_CUBE) {
      if (lane < lanes) all.emplace_back(vectors + lane, id);
    } else if (launch_->has_cube) {
      all.emplace_back(first, id + kPairLane * t_block.lane);
    } else if (lane < lanes) {
      all.emplace_back(vectors + lane, id);
    }
    return all;
  }
  if (mode == PTO_SYNC_BLOCK && t_block.core == PTO_CORE_VECTOR && launch_->has_cube) {
    return {{first, flag}};
  }
  if (mode == PTO_SYNC_BLOCK) {
    for (int32_t lane = 0; lane < lanes; ++lane) all.emplace_back(vectors + lane, flag);
    return all;
  }
  for (const int32_t position : group_of(mode)) all.emplace_back(position, flag);
  return all;
}

void Sync::cross_set(int32_t mode, int32_t flag, Place place) {
  const std::lock_guard lock(waits.mutex());
  const std::vector<int32_t> group = group_of(mode);
  if (group.size() <= 1) return deliver(mode, flag, place);
  const auto set_by = [&](int32_t position) -> int32_t& {
    return sets_[{mode, flag, group.front(), position}];
  };
  ++set_by(t_block.position);
  for (const int32_t position : group) {
    if (set_by(position) == 0) return;
  }
  for (const int32_t position : group) --set_by(position);
  deliver(mode, flag, place);
}

void Sync::deliver(int32_t mode, int32_t flag, Place place) {
  for (const auto& receiver : receivers_of(mode, flag)) {
    Flag& received = flags_[receiver];
    ++received.count;
    received.place = place;
    waits.wake(received.channel);
  }
}

void Sync::cross_wait(int32_t mode, int32_t flag, Place place) {
  const bool is_pair = mode == PTO_SYNC_PAIR;
  if (is_pair && t_block.core == PTO_CORE_ANY && flag / kPairLane >= launch_->lanes) return;
  const bool is_cube = t_block.core == PTO_CORE_CUBE;
  const int32_t number = is_pair ? kPairFlags + (is_cube ? flag : flag % kPairLane) : flag;
  std::unique_lock lock(waits.mutex());
  Flag& awaited = flags_[{t_block.position, number}];
  waits.wait(
      lock, awaited.channel, place, [&] { return awaited.count > 0; },
      [&] {
        return "for flag " + std::to_string(flag) +
               (is_pair ? " (wait_intra_block)" : " (wait_flag_dev)");
      });
  --awaited.count;
}

void Sync::barrier(int32_t core, const void* counter, int32_t expected, Place place) {
  if (expected <= 0) {
    const int32_t cores = launch_->cores_per_block();
    for (int32_t i = 0; i < cores; ++i) {
      const int32_t kind = kind_at(i);
      if (core == PTO_CORE_ANY || kind == PTO_CORE_ANY || kind == core) expected += launch_->blocks;
    }
  }
  std::unique_lock lock(waits.mutex());
  Barrier& barrier = barriers_[{core, counter}];
  const int64_t round = barrier.round;
  if (++barrier.arrived >= expected) {
    barrier.arrived = 0;
    ++barrier.round;
    waits.wake(barrier.channel);
    return;
  }
  waits.wait(
      lock, barrier.channel, place, [&] { return barrier.round != round; },
      [&] {
        return "in SYNCALL, where " + std::to_string(barrier.arrived) + " of " +
               std::to_string(expected) + " have arrived,";
      });
}

int64_t Sync::Ring::full_turns() const {
  return *std::min_element(pushed, pushed + std::max(producers, 1));
}

int64_t Sync::Ring::freed_turns() const {
  return *std::min_element(released, released + std::max(consumers, 1));
}

Sync::Ring& Sync::ring_of(const pto_ring& facts) {
  Ring& ring = rings_[{facts.key, t_block.index}];
  if (ring.slots.empty()) {
    for (int32_t i = 0; i < facts.slots; ++i) {
      ring.memory.push_back(std::make_unique<char[]>(static_cast<size_t>(facts.slot_bytes) + 64));
      auto address = reinterpret_cast<uintptr_t>(ring.memory.back().get());
      address = (address + 63) / 64 * 64;
      ring.slots.push_back({reinterpret_cast<void*>(address), 0, {0, 0}});
    }
  }
  return ring;
}

pto_slot* Sync::push(const pto_ring& facts, Place place) {
  std::unique_lock lock(waits.mutex());
  Ring& ring = ring_of(facts);
  if (facts.lanes > ring.producers) ring.pushed[1] = ring.pushed[0];
  ring.producers = facts.lanes;
  const int64_t turn = ring.pushed[facts.lane];
  waits.wait(
      lock, ring.free, place, [&] { return turn < ring.freed_turns() + facts.slots; },
      [&] {
        return std::string("in ") + facts.name +
               " for a free slot: " + std::to_string(facts.slots) + " are pushed and not freed,";
      });
  pto_slot& slot = ring.slots[static_cast<size_t>(turn % facts.slots)];
  slot.turn = turn;
  return &slot;
}

void Sync::done(const pto_ring& facts) {
  const std::lock_guard lock(waits.mutex());
  Ring& ring = ring_of(facts);
  ++ring.pushed[facts.lane];
  waits.wake(ring.full);
}

pto_slot* Sync::pop(const pto_ring& facts, Place place) {
  std::unique_lock lock(waits.mutex());
  Ring& ring = ring_of(facts);
  if (facts.lanes > ring.consumers) {
    ring.popped[1] = ring.popped[0];
    ring.released[1] = ring.released[0];
  }
  ring.consumers = facts.lanes;
  const int64_t turn = ring.popped[facts.lane];
  waits.wait(
      lock, ring.full, place, [&] { return turn < ring.full_turns(); },
      [&] {
        return std::string("in ") + facts.name +
               " for a push: " + std::to_string(ring.full_turns()) + " were made and popped,";
      });
  ++ring.popped[facts.lane];
  return &ring.slots[static_cast<size_t>(turn % facts.slots)];
}

pto_slot* Sync::peek(const pto_ring& facts) {
  const std::lock_guard lock(waits.mutex());
  Ring& ring = ring_of(facts);
  return &ring.slots[static_cast<size_t>(ring.popped[facts.lane] % facts.slots)];
}

void Sync::release(const pto_ring& facts) {
  const std::lock_guard lock(waits.mutex());
  Ring& ring = ring_of(facts);
  if (ring.released[facts.lane] >= ring.popped[facts.lane]) return;
  ++ring.released[facts.lane];
  waits.wake(ring.free);
}

void Sync::progress(const void* key, int64_t turns[8]) {
  const std::lock_guard lock(waits.mutex());
  std::fill(turns, turns + 8, 0);
  const auto found = rings_.find({key, t_block.index});
  if (found == rings_.end()) return;
  const Ring& ring = found->second;
  for (int lane = 0; lane < Ring::kLanes; ++lane) {
    turns[lane] = ring.pushed[lane];
    turns[2 + lane] = ring.popped[lane];
    turns[4 + lane] = ring.released[lane];
  }
  turns[6] = ring.full_turns();
  turns[7] = ring.freed_turns();
}

void Sync::reset(const void* key) {
  const std::lock_guard lock(waits.mutex());
  std::erase_if(rings_, [key](const auto& entry) { return entry.first.first == key; });
}

std::string Sync::left() {
  const std::lock_guard lock(waits.mutex());
  for (const auto& [receiver, flag] : flags_) {
    if (flag.count == 0) continue;
    const int32_t id = receiver.second;
    return Error({"flag " + std::to_string(id < kPairFlags ? id : id - kPairFlags) + " of " +
                      text_of_core(*launch_, receiver.first) + " was set " + times(flag.count) +
                      " more than awaited, the last time at " + text(flag.place),
                  "every set of a flag needs a wait in its receiver, else the next kernel finds "
                  "it set",
                  "wait for it there, or do not set it"})
        .what();
  }
  for (const auto& [key, ring] : rings_) {
    const int64_t popped = *std::max_element(ring.popped, ring.popped + Ring::kLanes);
    if (popped >= ring.pushed[0]) continue;
    return Error({"block " + std::to_string(key.second) + " pushed " +
                      std::to_string(ring.pushed[0]) + " times into a pipe and popped " +
                      std::to_string(popped) + " times",
                  "a tile that is not popped is lost, and the next kernel finds the pipe full",
                  "pop as often as is pushed"})
        .what();
  }
  for (const auto& [key, count] : sets_) {
    if (count == 0) continue;
    return Error({text_of_core(*launch_, std::get<3>(key)) + " set flag " +
                      std::to_string(std::get<1>(key)) + " " + times(count) +
                      " more than the others of its group",
                  "such a flag counts when all cores of the group have set it",
                  "set it equally often in all of them"})
        .what();
  }
  return "";
}

Sync& current_sync() {
  static Sync& outside = *new Sync(nullptr);  // never destroyed: threads may wait to the end
  return t_block.launch == nullptr ? outside : t_block.launch->sync();
}

}  // namespace pto

using pto::Place;
using pto::t_block;

void pto_set_flag(int32_t source, int32_t destination, int32_t id, const char* file, int32_t line) {
  if (t_block.launch == nullptr) return;
  const pto::Place place{file, line};
  pto::own_flags().set(pto::index_of(source, destination, id, place), place);
}

void pto_wait_flag(int32_t source, int32_t destination, int32_t id, const char* file,
                   int32_t line) {
  if (t_block.launch == nullptr) return;
  const int32_t index = pto::index_of(source, destination, id, {file, line});
  int32_t& count = pto::own_flags().flags[index].count;
  if (count > 0) {
    --count;
    return;
  }
  pto::fail({pto::text_of_core(*t_block.launch, t_block.position) + " waits for flag " +
                 pto::text_of_flag(index) + " at " + pto::text(Place{file, line}) +
                 ", which it has not set",
             "only the block itself sets such a flag, so the wait would never end",
             "set_flag with the same pipes and event before this line"},
            pto::ErrorKind::Runtime);
}

void pto_cross_set(int32_t mode, int32_t flag, const char* file, int32_t line) {
  if (t_block.launch == nullptr) return;
  pto::current_sync().cross_set(mode, flag, {file, line});
}

void pto_cross_wait(int32_t mode, int32_t flag, const char* file, int32_t line) {
  if (t_block.launch == nullptr) return;
  pto::current_sync().cross_wait(mode, flag, {file, line});
  pto::note_wait();
}

void pto_barrier(int32_t core, const void* counter, int32_t expected, const char* file,
                 int32_t line) {
  if (t_block.launch == nullptr) return;
  pto::current_sync().barrier(core, counter, expected, {file, line});
  pto::note_wait();
}

void pto_fail(const char* what, const char* why, const char* fix, const char* file, int32_t line) {
  const std::string where = t_block.launch == nullptr
                                ? std::string()
                                : pto::text_of_core(*t_block.launch, t_block.position) + ": ";
  const std::string at = file == nullptr ? "" : " at " + pto::text(Place{file, line});
  pto::fail({where + what + at, why, fix}, pto::ErrorKind::Runtime);
}

void pto_wait_memory(int32_t (*holds)(const void*), const void* condition, const char* text,
                     const char* file, int32_t line) {
  if (!holds(condition)) {
    pto::Waits& waits = pto::current_sync().waits;
    std::unique_lock lock(waits.mutex());
    waits.wait(
        lock, waits.memory(), {file, line}, [&] { return holds(condition) != 0; },
        [&] { return std::string(text); });
  }
  pto::note_wait();
}

pto_slot* pto_ring_push(const pto_ring* ring, const char* file, int32_t line) {
  pto_slot* const slot = pto::current_sync().push(*ring, {file, line});
  pto::note_wait();
  return slot;
}

void pto_ring_done(const pto_ring* ring) { pto::current_sync().done(*ring); }

pto_slot* pto_ring_pop(const pto_ring* ring, const char* file, int32_t line) {
  pto_slot* const slot = pto::current_sync().pop(*ring, {file, line});
  pto::note_wait();
  return slot;
}

pto_slot* pto_ring_peek(const pto_ring* ring) { return pto::current_sync().peek(*ring); }

void pto_ring_release(const pto_ring* ring) { pto::current_sync().release(*ring); }

void pto_ring_reset(const void* key) { pto::current_sync().reset(key); }
void pto_ring_progress(const void* key, int64_t turns[8]) {
  pto::current_sync().progress(key, turns);
}
