// SPDX-License-Identifier: Apache-2.0
// PTO_CHIP: the buffers of a chip's core, which a kernel's tiles must fit.
//
//     #define PTO_CHIP 1         // 1: A2 and A3, 2: A5
//     #define PTO_CHIP_CORE 2    // 1: a cube core, 2: a vector core, 3: both
//     #include <pto/pto-inst.hpp>
//
// A tile larger than its buffer, or at a constant address beyond it, does not compile. Nor does one
// of a buffer that the core does not have, where something uses its elements; it may be declared,
// since one source often serves both kinds of core. The name of the type that refuses says
// location, wanted bytes and available bytes. When the kernel runs, the automatic tiles that live
// at the same time must fit together, and TASSIGN's addresses too.
// Source of the sizes: the public library's table of buffer limits. Scales and registers are not
// checked.
//
// Invariant: a core's memory counts the core's tiles, and each is counted off when it ends or is
// bound, by an exception too; so the count between kernels is zero.
// Thread safety: everything belongs to the running core.
#pragma once
#ifndef PTO_CHIP
#define PTO_IF_CHIP(...)
#else
#define PTO_IF_CHIP(...) __VA_ARGS__
#include "pto/abi/host.h"
#include "pto/isa/cpu/of_thread.hpp"
#include "pto/isa/tile/types.hpp"

PTO_NAMESPACE_BEGIN
namespace chip {

constexpr bool kIsA5 = PTO_CHIP == 2, kHasCube = (PTO_CHIP_CORE & 1) != 0,
               kHasVector = (PTO_CHIP_CORE & 2) != 0;
constexpr int kBuffers = 7;  // the first of TileType
constexpr const char* kNames[kBuffers] = {"Vec (UB)",  "Mat (L1)",  "Left (L0A)",  "Right (L0B)",
                                          "Acc (L0C)", "Bias (BT)", "Scaling (FB)"};
constexpr size_t kKilobytes[2][kBuffers] = {{192, 512, 64, 64, 128, 1, 2},
                                            {256, 512, 64, 64, 256, 4, 4}};

// Returns the bytes of the chip's buffer, whichever core has it; -1: not checked.
constexpr int64_t size_of(int location) {
  return location >= kBuffers ? -1 : int64_t(kKilobytes[kIsA5][location] << 10);
}
// Returns the bytes of the running core's buffer; -1: not checked.
constexpr int64_t capacity(int location) {
  const bool is_there = location == int(TileType::Vec) ? kHasVector : kHasCube;
  return location >= kBuffers || is_there ? size_of(location) : 0;
}

// The compiler prints this name with its arguments, and pto.compile() makes a sentence of it.
template <int Location, int64_t Bytes, int64_t Capacity>
struct BufferOfChip {
  static_assert(Capacity < 0 || Bytes <= Capacity,
                "a tile is larger than the chip's buffer; use a smaller one, or a lower address");
  static constexpr bool kFits = true;
};

// Elements of a tile that something uses: the core must have the buffer.
template <int Location, int64_t Bytes>
using Used = BufferOfChip<Location, Bytes, capacity(Location)>;

inline char* append(char* at, const char* text) {
  while (*text) *at++ = *text++;
  *at = 0;
  return at;
}
inline char* append(char* at, int64_t number) {
  char digits[24] = "";
  int n = 0;
  do digits[n++] = char('0' + number % 10);
  while ((number /= 10) > 0);
  while (n > 0) *at++ = digits[--n];
  *at = 0;
  return at;
}

[[noreturn]] inline void fail(int location, int64_t bytes, const char* what, const char* why,
                              const char* fix) {
  char text[200], *at = append(text, what);
  at = append(append(at, bytes), " bytes of ");
  at = append(append(at, kNames[location]), ", ");
  at = append(append(at, kIsA5 ? "a5 has " : "a2a3 has "), capacity(location));
  pto_fail(text, why, fix, nullptr, 0);
  __builtin_unreachable();
}

// Counts the bytes of the automatic tiles that live on the running core, whose memory nobody
// clears.
struct Live {
  static constexpr int kPlace = 13;  // behind the locations; see quant_entries() for 14 and 15
  static constexpr uint64_t kMark = 0x70746f2063686970;
  uint64_t mark;
  int64_t bytes[kBuffers];

  static int64_t& of(int location) {
    Live* const live = static_cast<Live*>(needed_block_memory(kPlace, sizeof(Live)));
    if (live->mark != kMark) {
      live->mark = kMark;
      for (int64_t& count : live->bytes) count = 0;
    }
    return live->bytes[location];
  }
};

// Holds a tile's share of its buffer while the tile is automatic.
template <int Location, int64_t Bytes>
class Room {
  static_assert(BufferOfChip<Location, Bytes, size_of(Location)>::kFits);
  static constexpr bool kIsCounted = capacity(Location) > 0;

 public:
  Room() { set(true); }
  Room(const Room& other) { set(other.is_held_); }
  Room& operator=(const Room& other) {
    set(other.is_held_);
    return *this;
  }
  ~Room() { set(false); }

  void set(bool is_held) {
    if (!kIsCounted || is_held == is_held_) return;
    int64_t& live = Live::of(Location);
    if (is_held && live + Bytes > capacity(Location))
      fail(Location, live + Bytes, "automatic tiles that live at the same time ask for ",
           "a core's tiles share its buffer, each as long as its scope",
           "use smaller tiles, end their scopes earlier, or place them with TASSIGN");
    live += is_held ? Bytes : -Bytes;
    is_held_ = is_held;
  }

 private:
  bool is_held_ = false;
};

// Checks an address of TASSIGN that is known only at run time.
template <int Location, int64_t Bytes>
void check_place(uint64_t offset) {
  constexpr int64_t kCapacity = capacity(Location);
  if (kCapacity <= 0 || offset <= uint64_t(kCapacity - Bytes)) return;
  const bool is_known = offset < uint64_t(1) << 40;  // else it would overflow the sum
  fail(Location, is_known ? int64_t(offset) + Bytes : INT64_MAX, "TASSIGN: a tile needs ",
       "its address and its size must lie in the buffer", "use a lower address or a smaller tile");
}

}  // namespace chip
PTO_NAMESPACE_END
#endif
