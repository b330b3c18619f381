// SPDX-License-Identifier: Apache-2.0
// Stores: records the stores of a launch, for kernels that check themselves
// (isa/kernel/checked.hpp).
//
//     int32_t other;
//     stores.add(start, end, block, position, false, &other);   // end, or a byte of `other`
//     stores.note_wait(position);                         // it follows earlier stores of others
//
// Invariant: the last store to each byte is kept. Two stores are in order where one block made
// both, the core of the later one has waited since the earlier one, or both add.
// Thread safety: any thread.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

namespace pto {

class Stores {
 public:
  explicit Stores(int32_t positions);

  static constexpr int32_t kSeveral = -2;  // blocks, that have added to a byte

  // Returns the first byte of [start, end) with an unordered store of another block, or `end`.
  uintptr_t add(uintptr_t start, uintptr_t end, int32_t block, int32_t position, bool adds,
                int32_t* other);

  void note_wait(int32_t position);

  uint64_t serial() const { return serial_; }  // the launch's, from 1 on

 private:
  struct Store {
    uintptr_t end;
    int32_t block;
    uint64_t time;
    bool adds;
  };

  void put(uintptr_t start, Store store);

  const uint64_t serial_;
  std::mutex mutex_;
  uint64_t time_ = 0;             // counts the waits that have ended
  std::vector<uint64_t> waited_;  // the time of each core's last wait
  std::map<uintptr_t, Store> all_;
};

// Returns the Stores of the running launch, made on the first call; null outside launches.
Stores* stores_of_launch();

}  // namespace pto
