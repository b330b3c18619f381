// SPDX-License-Identifier: Apache-2.0
// The two ends of a pipe as one object of TPipe holds them: what its pushes and pops do.
//
//     pipe.prod.setRecordStatus(false);            // the next push does not complete its slot
//     const int slot = pipe.cons.getTileId() % 2;  // where the next pop lies in a buffer of two
//
// Thread safety: an object belongs to one core.
#pragma once
#include "pto/isa/kernel/kernel.hpp"

PTO_NAMESPACE_BEGIN

namespace pipes {

// The pushes or pops of an object so far, or what a source says instead. A pop's number tells its
// slot in the consumer's own buffer; the queue counts its turns itself.
struct Count {
  int tileIndex = 0, subTileIndex = 0;
  int64_t entryOffset = 0;  // bytes, of the next tile in its slot
  pto_slot* open = nullptr;
  PTO_INLINE void setTileId(int tile, int part) {
    tileIndex = tile;
    subTileIndex = part;
  }
  PTO_INLINE int getTileId() const { return tileIndex; }
  PTO_INLINE int getSubTileId() const { return subTileIndex; }
  PTO_INLINE void setEntryOffset(int64_t bytes) { entryOffset = bytes; }
};

// The steps of a core at one end of a pipe. Several pushes may fill one slot: all but the last
// without record, all but the first without allocate; pops likewise.
struct Producer : Count {
  bool allocates = true, records = true;
  PTO_INLINE void setAllocateStatus(bool does) { allocates = does; }
  PTO_INLINE void setRecordStatus(bool does) { records = does; }
  PTO_INLINE bool getAllocateStatus() const { return allocates; }
  PTO_INLINE bool getRecordStatus() const { return records; }
};
struct Consumer : Count {
  bool waits = true, frees = true;
  // The popped and not yet freed tiles, the oldest in bit 0: 1 towards the cube; a 1 ends the list.
  uint64_t popped = 1;
  PTO_INLINE void setWaitStatus(bool does) { waits = does; }
  PTO_INLINE void setFreeStatus(bool does) { frees = does; }
  PTO_INLINE void note_pop(bool to_vector) {
    const int count = 63 - __builtin_clzll(popped);
    if (waits && count < 63) popped += uint64_t(to_vector ? 1 : 2) << count;
  }
  // Takes the oldest one off the list and says whether it went to the vector cores, as those do
  // that another object popped.
  PTO_INLINE bool take_direction() {
    const bool to_vector = popped == 1 || (popped & 1) == 0;
    if (popped > 1) popped >>= 1;
    return to_vector;
  }
  PTO_INLINE bool getWaitStatus() const { return waits; }
  PTO_INLINE bool getFreeStatus() const { return frees; }
};

}  // namespace pipes

PTO_NAMESPACE_END
