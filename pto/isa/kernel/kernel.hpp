// SPDX-License-Identifier: Apache-2.0
// Kernel: the parts of a kernel besides instructions: markers, its block, addresses of tiles.
//
//     __global__ __aicore__ void k(__gm__ float* x, uint32_t n) {
//       const int start = get_block_idx() * 256, end = min(start + 256, n);
//       Tile<TileType::Vec, float, 1, 256> tile;
//       TASSIGN(tile, 0x1000);                     // optional: bytes from the location's start
//     }
//
// The first TASSIGN makes a location's memory. Blocks that run on one thread without waiting share
// it one after another; a block that waits keeps its own.
//
// Invariant: a tile that TASSIGN bound lies in the running core's memory of its location; tiles
// overlap there exactly where their bytes do.
// Thread safety: everything belongs to the running core.
#pragma once
#include "pto/abi/host.h"
#include "pto/isa/elementwise/elementwise.hpp"
#include "pto/isa/kernel/enter.hpp"
#include "pto/isa/sync/event.hpp"
#include "pto/isa/tile/global_tensor.hpp"

#define AICORE
#define __global__
#define __aicore__
#define __gm__
#define __ubuf__
#define __cbuf__
#define __ca__
#define __cb__
#define __cc__
#define __fbuf__
#define __tf__
#define __in__
#define __out__

PTO_NAMESPACE_BEGIN

PTO_INLINE uint32_t get_block_idx() { return uint32_t(pto_block_index()); }
PTO_INLINE uint32_t get_block_num() { return uint32_t(pto_block_count()); }
#if defined(__CPU_SIM)
// A function of another runtime that returns the lane; null: the core knows it.
inline uint32_t (*lane_hook)() = nullptr;
PTO_INLINE uint32_t get_subblockid() {
  return lane_hook ? lane_hook() : uint32_t(pto_lane_index());
}
#else
PTO_INLINE uint32_t get_subblockid() { return uint32_t(pto_lane_index()); }
#endif
PTO_INLINE uint32_t get_subblockdim() { return uint32_t(pto_lane_count()); }
PTO_INLINE uint32_t get_coreid() { return get_block_idx(); }

// These read as the block's index and the number of blocks, and give way to local variables of the
// same names.
struct BlockIndex {
  PTO_INLINE operator uint32_t() const { return get_block_idx(); }
};
constexpr BlockIndex block_idx{};
struct BlockCount {
  PTO_INLINE operator uint32_t() const { return get_block_num(); }
};
constexpr BlockCount block_num{};

// Compares two integers of any types by value.
template <class A, class B>
constexpr PTO_INLINE bool is_less(A a, B b) {
  if constexpr ((A(-1) < A(0)) == (B(-1) < B(0)))
    return a < b;
  else if constexpr (A(-1) < A(0))
    return a < 0 || uint64_t(a) < uint64_t(b);
  else
    return b > 0 && uint64_t(a) < uint64_t(b);
}
template <class A, class B>
using Common = decltype(true ? A{} : B{});
template <class A, class B>
constexpr PTO_INLINE Common<A, B> min(A a, B b) {
  return is_less(b, a) ? Common<A, B>(b) : Common<A, B>(a);
}
template <class A, class B>
constexpr PTO_INLINE Common<A, B> max(A a, B b) {
  return is_less(a, b) ? Common<A, B>(b) : Common<A, B>(a);
}

namespace detail {

// The memories of a core, in the order of TileType. They are larger than a chip's, since a
// target's layout may pad.
constexpr int kLocations = int(TileType::Ctrl) + 1;
constexpr size_t kLocationBytes[kLocations] = {512u << 10, 1u << 20, 128u << 10, 128u << 10,
                                               512u << 10, 8u << 10, 8u << 10,   8u << 10,
                                               8u << 10,   8u << 10};

}  // namespace detail

// Binds a tile to the byte offset `address` of its location, or to a pointer (as an integer) into
// it. An address that does not fit leaves the tile automatic, so that nothing is overwritten.
template <class D, class Address, int = D::kStored>
inline void TASSIGN(D& tile, Address address) {
  static_assert(Address(1) / 2 == 0, "TASSIGN: a tile's address is an integer, in bytes; cast it");
  PTO_ENTER(TASSIGN, "tile, address", "-:");
  constexpr size_t kRoom = detail::kLocationBytes[int(D::Loc) % detail::kLocations];
  char* const start = static_cast<char*>(pto_block_memory(int(D::Loc), kRoom));
  const uintptr_t base = reinterpret_cast<uintptr_t>(start);
  uintptr_t offset = uintptr_t(address);
  if (offset >= base && offset < base + kRoom) offset -= base;
  PTO_IF_CHECKED(pto_check_assign(&tile.checked_state, int32_t(D::Loc), start, kRoom, offset,
                                  sizeof(typename D::DType) * D::kStored);)
  PTO_IF_CHIP(
      chip::check_place<int(D::Loc), int64_t(sizeof(typename D::DType)) * D::kStored>(offset);)
  const bool fits =
      start && offset <= kRoom && sizeof(typename D::DType) * D::kStored <= kRoom - offset;
  tile.bind(fits ? reinterpret_cast<typename D::DType*>(start + offset) : nullptr);
}

template <uintptr_t Address, class D>
inline void TASSIGN(D& tile) {
  static_assert(Address % 32 == 0,
                "TASSIGN: the address must be a multiple of 32 bytes; round it up");
  static_assert(Address + sizeof(typename D::DType) * D::kStored <=
                    detail::kLocationBytes[int(D::Loc) % detail::kLocations],
                "TASSIGN: the tile does not fit the memory of its location at this address; use a "
                "lower one or a smaller tile");
  PTO_IF_CHIP(
      static_assert(
          chip::BufferOfChip<int(D::Loc), int64_t(Address + sizeof(typename D::DType) * D::kStored),
                             chip::size_of(int(D::Loc))>::kFits);)
  PTO_ENTER(TASSIGN, "<address> tile", "-:");
  TASSIGN(tile, Address);
}

// Moves a view to another address.
template <class T, class S, class R, Layout O>
PTO_INLINE void TASSIGN(GlobalTensor<T, S, R, O>& view, T* pointer) {
  PTO_ENTER(TASSIGN, "gm, pointer", "-:");
  view.SetAddress(pointer);
}

PTO_NAMESPACE_END
