// SPDX-License-Identifier: Apache-2.0
// TPUSH, TPOP, TALLOC, TFREE: pass tiles between the cube core and the vector cores of a block.
//
//     using Pipe = TPipe<0, Direction::DIR_C2V, 64 * 64 * sizeof(float), 4>;
//     Pipe pipe(nullptr, 0, 0);
//     TPUSH<Pipe, AccT, TileSplitAxis::TILE_UP_DOWN>(pipe, acc);   // cube core
//     TPOP<Pipe, VecT, TileSplitAxis::TILE_UP_DOWN>(pipe, half);   // each of two vector cores
//     TFREE<Pipe, TileSplitAxis::TILE_UP_DOWN>(pipe);
//
// With a split, each vector core pops (or pushes) its half of the rows or columns; a slot is full
// when all its producers have pushed and free when all its consumers have freed it. Without a
// split, vector core 0 alone takes part: the other one pops zeros and its pushes do nothing, unless
// the pipe's IsNoSplit says that both pop the whole tile. With a GlobalTensor the slot itself is
// used: TALLOC, write, TPUSH; TPOP, read, TFREE.
// Errors: a tile larger than the slot, popped as another element size, or popped as a second part
// larger than what was pushed, fails the block; a push that finds no free slot and a pop that finds
// no full one wait, see sync.hpp.
//
// Invariant: a tile is copied in and out, so that it may change after TPUSH and after TFREE.
// Thread safety: a pipe object belongs to one core.
#pragma once
#include "pto/isa/sync/pipe_queue.hpp"

PTO_NAMESPACE_BEGIN

namespace pipes {
template <class E>
constexpr bool kIsEvent = __is_class(E) && !kSame<E, Here> && !kIsTile<E>;
}  // namespace pipes

#define PTO_IF(condition) typename Enable<(condition)>::type = 0

template <class Pipe, class D, TileSplitAxis Split = TILE_NO_SPLIT,
          PTO_IF(pipes::kIsPipe<Pipe>&& kIsTile<D>)>
PTO_INLINE RecordEvent TPUSH(Pipe& pipe, const D& tile, Here here = Here::now()) {
  PTO_ENTER(TPUSH, "<Pipe, Tile, TileSplitAxis> pipe, tile", in(tile));
  pipes::push_tile<Pipe, Split, void>(pipe, tile, -1, here);
  return {};
}
// Pushes as the vector core `sub_block`.
template <class Pipe, class D, TileSplitAxis Split = TILE_NO_SPLIT,
          PTO_IF(pipes::kIsPipe<Pipe>&& kIsTile<D>)>
PTO_INLINE RecordEvent TPUSH(Pipe& pipe, const D& tile, int sub_block, Here here = Here::now()) {
  PTO_ENTER(TPUSH, "<Pipe, Tile, TileSplitAxis> pipe, tile, subBlockId", in(tile));
  pipes::push_tile<Pipe, Split, void>(pipe, tile, sub_block, here);
  return {};
}
template <class D, class Pipe, PTO_IF(pipes::kIsPipe<Pipe>&& kIsTile<D>)>
PTO_INLINE RecordEvent TPUSH(const D& tile, Pipe& pipe, Here here = Here::now()) {
  PTO_ENTER(TPUSH, "tile, pipe", in(tile));
  pipes::push_tile<Pipe, TILE_NO_SPLIT, void>(pipe, tile, -1, here);
  return {};
}
// Pushes an accumulator, which Config = FixpipeParams<...> changes on its way; its entries are
// those of the last SET_QUANT_SCALAR or SET_QUANT_VECTOR of this core.
template <class Pipe, class D, class Config, TileSplitAxis Split = TILE_NO_SPLIT,
          PTO_IF(pipes::kIsPipe<Pipe>&& kIsTile<D>)>
PTO_INLINE RecordEvent TPUSH(Pipe& pipe, const D& tile, Here here = Here::now()) {
  PTO_ENTER(TPUSH, "<Pipe, Tile, FixpipeParams> pipe, tile", in(tile));
  pipes::push_tile<Pipe, Split, Config>(pipe, tile, -1, here);
  return {};
}
template <class Pipe, class G, TileSplitAxis Split = TILE_NO_SPLIT,
          PTO_IF(pipes::kIsPipe<Pipe>&& kIsGlobal<G>)>
PTO_INLINE RecordEvent TPUSH(Pipe& pipe, const G& view, Here here = Here::now()) {
  PTO_ENTER(TPUSH, "<Pipe, GlobalTensor, TileSplitAxis> pipe, gm", in(view));
  pipes::push_view<Pipe, Split>(pipe, view, here);
  return {};
}

template <class Pipe, class D, TileSplitAxis Split = TILE_NO_SPLIT,
          PTO_IF(pipes::kIsPipe<Pipe>&& kIsTile<D>)>
PTO_INLINE RecordEvent TPOP(Pipe& pipe, D& tile, Here here = Here::now()) {
  PTO_ENTER(TPOP, "<Pipe, Tile, TileSplitAxis> pipe, tile", out(tile));
  pipes::pop_tile<Pipe, Split>(pipe, tile, here);
  return {};
}
template <class D, class Pipe, PTO_IF(pipes::kIsPipe<Pipe>&& kIsTile<D>)>
PTO_INLINE RecordEvent TPOP(D& tile, Pipe& pipe, Here here = Here::now()) {
  PTO_ENTER(TPOP, "tile, pipe", out(tile));
  pipes::pop_tile<Pipe, TILE_NO_SPLIT>(pipe, tile, here);
  return {};
}
template <class Pipe, class G, TileSplitAxis Split = TILE_NO_SPLIT,
          PTO_IF(pipes::kIsPipe<Pipe>&& kIsGlobal<G>)>
PTO_INLINE RecordEvent TPOP(Pipe& pipe, G& view, Here here = Here::now()) {
  PTO_ENTER(TPOP, "<Pipe, GlobalTensor, TileSplitAxis> pipe, gm", out(view));
  pipes::pop_view<Pipe, Split>(pipe, view, here);
  return {};
}

template <class Pipe, class G, TileSplitAxis Split = TILE_NO_SPLIT,
          PTO_IF(pipes::kIsPipe<Pipe>&& kIsGlobal<G>)>
PTO_INLINE RecordEvent TALLOC(Pipe& pipe, G& view, Here here = Here::now()) {
  PTO_ENTER(TALLOC, "<Pipe, GlobalTensor, TileSplitAxis> pipe, gm", out(view));
  pipes::alloc_view<Pipe, Split>(pipe, view, here);
  return {};
}

template <class Pipe, TileSplitAxis Split = TILE_NO_SPLIT, PTO_IF(pipes::kIsPipe<Pipe>)>
PTO_INLINE RecordEvent TFREE(Pipe& pipe) {
  PTO_ENTER(TFREE, "<Pipe, TileSplitAxis> pipe", "-:");
  pipes::free_slot<Pipe, Split>(pipe);
  return {};
}
template <class Pipe, class G, TileSplitAxis Split = TILE_NO_SPLIT,
          PTO_IF(pipes::kIsPipe<Pipe>&& kIsGlobal<G>)>
PTO_INLINE RecordEvent TFREE(Pipe& pipe, [[maybe_unused]] const G& view) {
  PTO_ENTER(TFREE, "<Pipe, GlobalTensor, TileSplitAxis> pipe, gm", in(view));
  pipes::free_slot<Pipe, Split, true>(pipe);
  return {};
}

// The same instructions after other instructions' events.
#define PTO_AFTER_EVENTS(mnemonic, constness)                                              \
  template <class Pipe, class A, TileSplitAxis Split = TILE_NO_SPLIT, class E, class... F, \
            PTO_IF(pipes::kIsPipe<Pipe>&& pipes::kIsEvent<E>)>                             \
  PTO_INLINE RecordEvent mnemonic(Pipe& pipe, constness A& a, E& event, F&... events) {    \
    TSYNC(event, events...);                                                               \
    return mnemonic<Pipe, A, Split>(pipe, a, Here{nullptr, 0});                            \
  }
PTO_AFTER_EVENTS(TPUSH, const)
PTO_AFTER_EVENTS(TPOP, )
PTO_AFTER_EVENTS(TALLOC, )
#undef PTO_AFTER_EVENTS
#undef PTO_IF

// Sets the entry of all columns for the next pushes of this core: a scale, whose low 13 bits are
// cut, for results of type Out.
template <class Out>
PTO_INLINE void SET_QUANT_SCALAR(float scale) {
  PTO_ENTER(SET_QUANT_SCALAR, "<Out> scale", "-:");
  uint32_t bits;
  __builtin_memcpy(&bits, &scale, sizeof(bits));
  const bool is_signed = sizeof(Out) == 1 && Out(-1) < Out(0);
  *pipes::quant_entries(pipes::kQuantScalar, 1) = (bits & 0xffffe000u) | uint64_t(is_signed) << 46;
}

// Sets an entry for each column.
template <class F>
PTO_INLINE void SET_QUANT_VECTOR(const F& fp) {
  static_assert(moves::check_entries<F>());
  static_assert(F::Numel <= pipes::kQuantColumns,
                "SET_QUANT_VECTOR: a vector must have at most 4096 entries; push the "
                "accumulator in parts");
  PTO_ENTER(SET_QUANT_VECTOR, "fp", in(fp));
  __builtin_memcpy(pipes::quant_entries(pipes::kQuantVector, pipes::kQuantColumns),
                   moves::entries_of(fp), sizeof(uint64_t) * F::Numel);
}

PTO_NAMESPACE_END
