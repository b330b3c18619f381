// SPDX-License-Identifier: Apache-2.0
// TPipe: the slots between the cores of a block, and the copies of tiles into and out of them.
//
//     using Pipe = TPipe<0, Direction::DIR_C2V, 64 * 64 * sizeof(float), 4>;
//     Pipe pipe(nullptr, 0, 0);
//     pipes::push_tile<Pipe, TILE_UP_DOWN, void>(pipe, acc, -1, Here::now());   // see TPUSH
//
// Invariant: pipes of one type are one queue in every block of a launch, whatever object names
// them. A slot holds a matrix row by row, as large as its producers' tiles together.
// Thread safety: an object belongs to one core; the queue is shared.
#pragma once
#include "pto/isa/element/hifloat8.hpp"
#include "pto/isa/element/narrow_float.hpp"
#include "pto/isa/kernel/kernel.hpp"
#include "pto/isa/matrix/matrix_transfer.hpp"
#include "pto/isa/sync/pipe_ends.hpp"
#include "pto/isa/sync/pipe_state.hpp"

PTO_NAMESPACE_BEGIN

// The upper or left part is vector core 0's; in the odd forms it has one row or column more.
enum TileSplitAxis : uint8_t {
  TILE_NO_SPLIT,
  TILE_UP_DOWN,
  TILE_LEFT_RIGHT,
  TILE_UP_DOWN_ODD,
  TILE_LEFT_RIGHT_ODD
};
// CTRL: control data from vector to cube. GM: slots in memory, as all are here.
// clang-format off
enum Direction : uint8_t {
  UNDEFINED, DIR_C2V, DIR_V2C, DIR_BOTH, DIR_V2C_CTRL, DIR_C2V_GM, DIR_V2C_GM, DIR_BOTH_GM
};
// clang-format on

template <uint32_t SlotSize, uint32_t SlotNum, uint32_t LocalSlotNum>
struct RingFIFO {
  static constexpr uint32_t SLOT_SIZE = SlotSize, SLOT_NUM = SlotNum, LOCAL_SLOT_NUM = LocalSlotNum;
  void* GM_SLOT_BUFFER;
  uint32_t C2V_CONSUMER_BUF, V2C_CONSUMER_BUF;
};

template <uint8_t FlagID, uint8_t DirType, uint32_t SlotSize, uint32_t SlotNum,
          uint32_t LocalSlotNum = 2, bool IsNoSplit = false, bool EN_UNIT_FLAG = false>
struct TPipe : pipes::StateOf<
                   TPipe<FlagID, DirType, SlotSize, SlotNum, LocalSlotNum, IsNoSplit, EN_UNIT_FLAG>,
                   SlotNum> {
  static_assert(
      DirType > 0 && DirType <= DIR_BOTH_GM,
      "TPipe: the direction is not known; use DIR_C2V, DIR_V2C, DIR_BOTH or DIR_V2C_CTRL");
  static constexpr int kWays = DirType > DIR_V2C_CTRL ? DirType - DIR_V2C_CTRL : DirType;
  static_assert(SlotSize > 0 && SlotNum > 0 && SlotNum < 1u << 20,
                "TPipe: there must be 1 to 2^20 - 1 slots of at least one byte; give SlotSize in "
                "bytes and SlotNum in slots");
  using RingFiFo = RingFIFO<SlotSize, SlotNum, LocalSlotNum>;
  static constexpr bool is_c2v = kWays == DIR_C2V, is_v2c = kWays == DIR_V2C;
  static constexpr bool is_both = kWays == DIR_BOTH, is_v2c_ctrl = kWays == DIR_V2C_CTRL;
  static constexpr bool kIsNoSplit = IsNoSplit;

  // `slots`: memory for the GlobalTensor forms, or null; consumers need no buffers of their own.
  PTO_INLINE TPipe(void* slots, uint32_t c2v_buffer, uint32_t v2c_buffer)
      : fifo{slots, c2v_buffer, v2c_buffer} {}

  // Names the queue in the objects of all kernels of a task, which no address does.
  static PTO_INLINE const void* key(uint64_t to_vector) {
    return reinterpret_cast<const void*>(uint64_t(FlagID) << 56 | uint64_t(DirType) << 53 |
                                         to_vector << 52 | uint64_t(SlotNum) << 32 | SlotSize);
  }
  // Forgets, outside launches, pushed tiles that nobody freed.
  static void reset_for_cpu_sim() {
    pto_ring_reset(key(0)), pto_ring_reset(key(1));
    TPipe::note_progress();
  }

  RingFiFo fifo;
  pipes::Producer prod;
  pipes::Consumer cons;
};

namespace pipes {

template <class A>
constexpr bool kIsPipe = false;
template <uint8_t F, uint8_t D, uint32_t S, uint32_t N, uint32_t L, bool I, bool U>
constexpr bool kIsPipe<TPipe<F, D, S, N, L, I, U>> = true;
template <class A>
constexpr bool kIsPipe<const A> = kIsPipe<A>;

constexpr bool splits_rows(TileSplitAxis split) {
  return split == TILE_UP_DOWN || split == TILE_UP_DOWN_ODD;
}
constexpr bool is_odd(TileSplitAxis split) {
  return split == TILE_UP_DOWN_ODD || split == TILE_LEFT_RIGHT_ODD;
}

// Returns the direction of a tile's push or pop: Vec tiles belong to the vector cores. Views do not
// tell; there the core does.
template <class Pipe, class D, bool IsPush>
PTO_INLINE bool is_to_vector() {
  if constexpr (!Pipe::is_both)
    return Pipe::is_c2v;
  else if constexpr (kIsTile<D>)
    return (D::Loc == TileType::Vec) != IsPush;
  else
    return (pto_core() == PTO_CORE_VECTOR) != IsPush;
}

// One end of a queue, for the running core.
struct End {
  pto_ring ring;
  bool takes_part;
};
template <class Pipe>
PTO_INLINE End end_of(bool to_vector, bool is_vector, TileSplitAxis split, const char* name,
                      int lane_of_caller = -1) {
  const bool shares = split != TILE_NO_SPLIT || (to_vector && Pipe::kIsNoSplit);
  const int lane = !is_vector ? 0 : lane_of_caller >= 0 ? lane_of_caller : int(get_subblockid());
  const int lanes = is_vector && shares ? pto_lane_count() : 1;
  // Two tiles of a slot's size fit: each half of a split one counts by itself.
  End end = {{Pipe::key(to_vector), name, lane < lanes ? lane : 0, lanes,
              int32_t(Pipe::RingFiFo::SLOT_NUM), int64_t(Pipe::RingFiFo::SLOT_SIZE) * 2},
             !is_vector || lane < lanes};
  return end;
}

// The running core's part of a slot: rows x cols elements of a matrix row by row.
struct Part {
  int64_t offset, stride, end;  // in elements
};
// The size of the matrix whose part, of rows x cols elements, is a core's.
struct Total {
  int64_t rows, cols;
};
PTO_INLINE Total total_of(TileSplitAxis split, bool is_half, int64_t lane, int64_t rows,
                          int64_t cols) {
  const int64_t odd = is_odd(split) ? (lane > 0 ? 1 : -1) : 0;
  if (is_half && splits_rows(split)) return {2 * rows + odd, cols};
  return {rows, is_half && split != TILE_NO_SPLIT ? 2 * cols + odd : cols};
}
PTO_INLINE Part part_of(TileSplitAxis split, bool is_half, int64_t lane, int64_t rows, int64_t cols,
                        int64_t total_rows, int64_t total_cols) {
  Part part = {0, cols, 0};
  if (is_half && splits_rows(split)) {
    part.offset = lane > 0 ? (total_rows - rows) * cols : 0;
  } else if (is_half && split != TILE_NO_SPLIT) {
    part.stride = total_cols;
    part.offset = lane > 0 ? total_cols - cols : 0;
  }
  part.end = part.offset + (rows > 0 ? (rows - 1) * part.stride + cols : 0);
  return part;
}

template <class T>
using SlotView = GlobalTensor<T, Shape<1, 1, 1, DYNAMIC, DYNAMIC>, Stride<1, 1, 1, DYNAMIC, 1>>;
template <class T>
PTO_INLINE SlotView<T> view_of(char* memory, const Part& part, int64_t rows, int64_t cols) {
  T* data = reinterpret_cast<T*>(memory) + part.offset;
  return {data, Shape<1, 1, 1, DYNAMIC, DYNAMIC>(rows, cols),
          Stride<1, 1, 1, DYNAMIC, 1>(part.stride)};
}

inline void check_room(bool fits, const char* what, Here here) {
  if (fits) return;
  pto_fail(what, "a slot has SlotSize bytes for each vector core",
           "give the TPipe a SlotSize of the whole tile", here.file, here.line);
}

// The entries that the next TPUSH with a configuration uses, kept with the core's memory: one for
// all columns, and one for each.
constexpr int kQuantScalar = 14, kQuantVector = 15, kQuantColumns = 4096;
PTO_INLINE uint64_t* quant_entries(int place, size_t count) {
  return static_cast<uint64_t*>(needed_block_memory(place, count * sizeof(uint64_t)));
}

// The element type that a configuration makes of an accumulator's.
template <QuantMode_t Mode, class same>
struct Quantised;
#define PTO_QUANT_MODE(name, number, entries, element) \
  template <class same>                                \
  struct Quantised<name, same> : TypeIs<element> {};
#include "pto/isa/matrix/quant_modes.def"

template <class Config, class T>
struct Stored : Quantised<Config::QuantPre, T> {};
template <class T>
struct Stored<void, T> : TypeIs<T> {};

template <class Config, class G, class D>
PTO_INLINE void store(const G& slot, const D& tile) {
  constexpr auto kNone = AtomicType::AtomicNone;
  if constexpr (kSame<Config, void>) {
    moves::store_form<ReluPreMode::NoRelu, kNone>(slot, tile);
  } else {
    constexpr fixpipe::Quant kQuant = fixpipe::quant_of(Config::QuantPre);
    constexpr bool kIsColumns = kQuant == fixpipe::Quant::Columns;
    if constexpr (kQuant == fixpipe::Quant::None)
      moves::store_form<Config::ReluMode, kNone>(slot, tile);
    else
      moves::store_changed<Config::ReluMode, kQuant, kNone>(
          slot, tile,
          kIsColumns ? quant_entries(kQuantVector, kQuantColumns) : quant_entries(kQuantScalar, 1));
  }
}

template <class Pipe, TileSplitAxis Split, class Config, class D>
void push_tile(Pipe& pipe, const D& tile, int lane, Here here) {
  const bool to_vector = is_to_vector<Pipe, D, true>(), is_vector = !to_vector;
  const End end = end_of<Pipe>(to_vector, is_vector, Split, "TPUSH", lane);
  if (!end.takes_part) return;
  using T = typename Stored<Config, typename D::DType>::type;
  const int64_t rows = tile.GetValidRow(), cols = tile.GetValidCol(), mine = end.ring.lane;
  const bool is_half = is_vector && end.ring.lanes > 1;
  const Total total = total_of(Split, is_half, mine, rows, cols);
  const Part part = part_of(Split, is_half, mine, rows, cols, total.rows, total.cols);
  const int64_t offset = pipe.prod.entryOffset;
  check_room(offset + part.end * int64_t(sizeof(T)) <= end.ring.slot_bytes,
             "TPUSH: the tile is larger than a slot", here);
  pto_slot* slot = pipe.prod.allocates ? nullptr : pipe.prod.open;
  if (!slot) slot = pto_ring_push(&end.ring, here.file, here.line);
  pipe.prod.open = slot;
  store<Config>(view_of<T>(static_cast<char*>(slot->data) + offset, part, rows, cols), tile);
  if (mine == 0) {  // one writer; consumers look when the slot is full
    slot->facts[0] = total.rows << 32 | total.cols;
    slot->facts[1] = int64_t(sizeof(T));
  }
  ++pipe.prod.tileIndex;
  if (!pipe.prod.records) return;
  pipe.prod.open = nullptr;
  pto_ring_done(&end.ring);
  Pipe::note_progress();
}

template <class D>
PTO_INLINE void fill_with_zero(D& tile) {
  typename D::DType* data = tile.data();
  __builtin_memset(static_cast<void*>(data), 0, sizeof(typename D::DType) * D::Numel);
}

template <class Pipe>
PTO_INLINE void release_slot(Pipe& pipe, const End& end) {
  pipe.cons.open = nullptr;
  pto_ring_release(&end.ring);
  Pipe::note_progress();
}

template <class Pipe>
PTO_INLINE pto_slot* take_slot(Pipe& pipe, const End& end, Here here) {
  if (!pipe.cons.waits) return pipe.cons.open ? pipe.cons.open : pto_ring_peek(&end.ring);
  pipe.cons.open = pto_ring_pop(&end.ring, here.file, here.line);
  Pipe::note_progress();
  return pipe.cons.open;
}

// An automatic tile comes to lie in the consumer's own buffer, of which kernels know the addresses,
// where the pipe has slots in memory. One that TASSIGN placed elsewhere stays there.
template <class Pipe, class D>
PTO_INLINE void place_in_buffer(const Pipe& pipe, D& tile, bool to_vector) {
  if constexpr (D::Loc == TileType::Vec || D::Loc == TileType::Mat) {
    using Fifo = typename Pipe::RingFiFo;
    if (!pipe.fifo.GM_SLOT_BUFFER) return;
    constexpr uint32_t kBytes = Fifo::LOCAL_SLOT_NUM * Fifo::SLOT_SIZE;
    const uint32_t first = to_vector ? pipe.fifo.C2V_CONSUMER_BUF : pipe.fifo.V2C_CONSUMER_BUF;
    const auto base = reinterpret_cast<uintptr_t>(
        needed_block_memory(int(D::Loc), detail::kLocationBytes[int(D::Loc)]));
    const auto place = reinterpret_cast<uintptr_t>(tile.place());
    if (place != 0 && place - base - first >= kBytes) return;
    const uint32_t slot = uint32_t(pipe.cons.tileIndex) % Fifo::LOCAL_SLOT_NUM;
    TASSIGN(tile, first + slot * Fifo::SLOT_SIZE);
  }
}

// Returns what GlobalTensors write of a slot: in the memory that the pipe was given, where that
// serves one direction.
template <class Pipe>
PTO_INLINE char* memory_of(const Pipe& pipe, const pto_slot* slot) {
  if (!pipe.fifo.GM_SLOT_BUFFER || Pipe::is_both) return static_cast<char*>(slot->data);
  return static_cast<char*>(pipe.fifo.GM_SLOT_BUFFER) +
         slot->turn % int64_t(Pipe::RingFiFo::SLOT_NUM) * int64_t(Pipe::RingFiFo::SLOT_SIZE);
}

template <class Pipe, TileSplitAxis Split, class D>
void pop_tile(Pipe& pipe, D& tile, Here here) {
  const bool to_vector = is_to_vector<Pipe, D, false>();
  const End end = end_of<Pipe>(to_vector, to_vector, Split, "TPOP");
  if (!end.takes_part) return fill_with_zero(tile);
  using T = typename D::DType;
  const pto_slot* slot = take_slot(pipe, end, here);
  const bool frees = pipe.fifo.GM_SLOT_BUFFER && pipe.cons.frees && pipe.cons.open;
  if (!frees) pipe.cons.note_pop(to_vector);
  const int64_t rows = tile.GetValidRow(), cols = tile.GetValidCol();
  const bool is_half = to_vector && Split != TILE_NO_SPLIT;
  const bool is_known = slot->facts[1] != 0;  // not for what TPUSH of a view left
  const Total own = total_of(Split, is_half, end.ring.lane, rows, cols);
  const int64_t total_rows = is_known ? slot->facts[0] >> 32 : own.rows;
  const int64_t total_cols = is_known ? slot->facts[0] & 0xffffffff : own.cols;
  if (is_known && slot->facts[1] != int64_t(sizeof(T)))
    pto_fail("TPOP: the tile's elements have another size than the pushed ones",
             "a slot keeps the elements that were pushed", "pop into a tile of the pushed type",
             here.file, here.line);
  Part part = part_of(Split, is_half, end.ring.lane, rows, cols, total_rows, total_cols);
  if (!is_half || splits_rows(Split)) {  // rows of the pushed matrix, not of this tile
    part.offset = is_half && end.ring.lane > 0 ? (total_rows - rows) * total_cols : 0;
    part.stride = total_cols;
    part.end = part.offset + (rows > 0 ? (rows - 1) * part.stride + cols : 0);
  }
  if (part.offset < 0)
    pto_fail("TPOP: the tile is larger than the pushed one",
             "its rows or columns end with those of the pushed tile",
             "give it as many valid rows and columns as its part has", here.file, here.line);
  char* const memory = is_known ? static_cast<char*>(slot->data) : memory_of(pipe, slot);
  const int64_t room =
      memory == slot->data ? end.ring.slot_bytes : int64_t(Pipe::RingFiFo::SLOT_SIZE);
  check_room(pipe.cons.entryOffset + part.end * int64_t(sizeof(T)) <= room,
             "TPOP: the tile is larger than a slot", here);
  place_in_buffer(pipe, tile, to_vector);
  ++pipe.cons.tileIndex;
  TLOAD(tile, view_of<T>(memory + pipe.cons.entryOffset, part, rows, cols));
  if (frees) release_slot(pipe, end);
}

template <class Pipe, TileSplitAxis Split, class G>
void alloc_view(Pipe& pipe, G& view, Here here) {
  const bool to_vector = is_to_vector<Pipe, G, true>();
  const End end = end_of<Pipe>(to_vector, !to_vector, Split, "TALLOC");
  if (!end.takes_part) return;
  pipe.prod.open = pto_ring_push(&end.ring, here.file, here.line);
  char* const data = memory_of(pipe, pipe.prod.open) + pipe.prod.entryOffset;
  view.SetAddress(reinterpret_cast<typename G::DType*>(data));
}

template <class Pipe, TileSplitAxis Split, class G>
void push_view(Pipe& pipe, const G&, Here here) {
  const bool to_vector = is_to_vector<Pipe, G, true>();
  const End end = end_of<Pipe>(to_vector, !to_vector, Split, "TPUSH");
  if (!end.takes_part) return;
  if (!pipe.prod.open)
    pto_fail("TPUSH: no slot is allocated",
             "TALLOC gives the view its slot, TPUSH ends the writing",
             "call TALLOC with the same pipe and view before", here.file, here.line);
  if (end.ring.lane == 0) pipe.prod.open->facts[1] = 0;
  ++pipe.prod.tileIndex;
  pipe.prod.open = nullptr;
  pto_ring_done(&end.ring);
  Pipe::note_progress();
}

template <class Pipe, TileSplitAxis Split, class G>
void pop_view(Pipe& pipe, G& view, Here here) {
  const bool to_vector = is_to_vector<Pipe, G, false>();
  const End end = end_of<Pipe>(to_vector, to_vector, Split, "TPOP");
  if (!end.takes_part) return;
  pipe.cons.note_pop(to_vector);
  ++pipe.cons.tileIndex;
  const pto_slot* slot = take_slot(pipe, end, here);
  const bool is_tile = slot->facts[1] != 0;  // whatever pushed it
  char* const data = is_tile ? static_cast<char*>(slot->data) : memory_of(pipe, slot);
  view.SetAddress(reinterpret_cast<typename G::DType*>(data + pipe.cons.entryOffset));
}

// Frees the slot of the oldest popped tile. With slots in memory the pop of a tile has freed its
// slot already, as on chips: its copy is elsewhere.
template <class Pipe, TileSplitAxis Split, bool IsView = false>
void free_slot(Pipe& pipe) {
  if (!pipe.cons.frees) return;
  if (!IsView && pipe.fifo.GM_SLOT_BUFFER && pipe.cons.popped == 1) return;
  const bool oldest = pipe.cons.take_direction();
  bool to_vector = Pipe::is_c2v;
  if constexpr (Pipe::is_both) {
    const int core = pto_core();
    to_vector = core == PTO_CORE_ANY ? oldest : core == PTO_CORE_VECTOR;
  }
  const End end = end_of<Pipe>(to_vector, to_vector, Split, "TFREE");
  if (end.takes_part) release_slot(pipe, end);
}

}  // namespace pipes

PTO_NAMESPACE_END
