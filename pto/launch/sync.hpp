// SPDX-License-Identifier: Apache-2.0
// Sync: the flags, barriers and rings that the blocks of a launch wait for; implements the part of
// abi/host.h that makes cores wait.
//
//     pto_barrier(PTO_CORE_ANY, nullptr, 0, "k.cpp", 12);   // a barrier of the running launch
//
// Invariant: every change happens under the mutex of Waits. Threads outside launches share one Sync
// of the process.
// Thread safety: any thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "pto/launch/wait.hpp"

namespace pto {

// The flags between pipes that one block has set: counts, and the place of each last set.
struct BlockFlags {
  static constexpr int kPipes = 16, kIds = 32;
  struct Flag {
    int32_t count = 0;
    bool is_listed = false;
    Place place = {};
  };
  Flag flags[kPipes * kPipes * kIds];
  std::vector<int32_t> used;  // indices that may be set
  bool is_taken = false;      // by a block that has not ended

  void set(int32_t index, Place place);
  void clear();
  std::string left() const;  // the first flag that is set, or ""
};

class Sync {
 public:
  explicit Sync(Launch* launch) : waits(launch), launch_(launch) {}

  void barrier(int32_t core, const void* counter, int32_t expected, Place place);
  void cross_set(int32_t mode, int32_t flag, Place place);
  void cross_wait(int32_t mode, int32_t flag, Place place);
  pto_slot* push(const pto_ring& ring, Place place);
  void done(const pto_ring& ring);
  pto_slot* pop(const pto_ring& ring, Place place);
  pto_slot* peek(const pto_ring& ring);
  void release(const pto_ring& ring);
  void reset(const void* key);
  void progress(const void* key, int64_t turns[8]);

  // Returns, at the end of a launch, the first flag that was set and not awaited, or "".
  std::string left();

  Waits waits;

 private:
  struct Barrier {
    int32_t arrived = 0;
    int64_t round = 0;
    Channel channel;
  };
  struct Flag {
    int32_t count = 0;
    Place place = {};
    Channel channel;
  };
  struct Ring {
    static constexpr int kLanes = 2;
    std::vector<std::unique_ptr<char[]>> memory;
    std::vector<pto_slot> slots;
    int32_t producers = 1, consumers = 1;
    int64_t pushed[kLanes] = {}, popped[kLanes] = {}, released[kLanes] = {};
    Channel free, full;

    int64_t full_turns() const;   // turns that all producers have ended
    int64_t freed_turns() const;  // turns that all consumers have ended
  };

  Ring& ring_of(const pto_ring& ring);
  void deliver(int32_t mode, int32_t flag, Place place);
  int32_t kind_at(int32_t core) const;
  std::vector<int32_t> group_of(int32_t mode) const;
  std::vector<std::pair<int32_t, int32_t>> receivers_of(int32_t mode, int32_t flag) const;

  Launch* const launch_;
  std::map<std::pair<int32_t, const void*>, Barrier> barriers_;
  std::map<std::pair<int32_t, int32_t>, Flag> flags_;  // receiving core, flag
  // Sets that wait for the rest of their group: mode, flag, first core of the group, core.
  std::map<std::tuple<int32_t, int32_t, int32_t, int32_t>, int32_t> sets_;
  std::map<std::pair<const void*, int32_t>, Ring> rings_;  // key, block
};

// Returns the Sync of the running launch, or that of the threads outside launches.
Sync& current_sync();

}  // namespace pto
