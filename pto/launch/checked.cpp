// SPDX-License-Identifier: Apache-2.0
// Implements the questions of PTO_CHECKED kernels: see isa/kernel/checked.hpp.
#include "pto/abi/checks.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pto/base/error.hpp"
#include "pto/launch/block.hpp"
#include "pto/launch/launch.hpp"
#include "pto/launch/stores.hpp"
#include "pto/launch/wait.hpp"

namespace pto {

namespace {

// Identifies the running core; every core of every launch has its own.
using Run = std::pair<uint64_t, int32_t>;
Run this_run() {
  const Stores* stores = stores_of_launch();
  return stores == nullptr ? Run(0, 0) : Run(stores->serial(), t_block.position);
}

[[noreturn]] void failed(const std::string& what, const char* why, const char* fix) {
  const std::string where = t_block.launch == nullptr
                                ? std::string()
                                : text_of_core(*t_block.launch, t_block.position) + ": ";
  fail({where + what, why, fix}, ErrorKind::Runtime);
}

const char* name_of_location(int32_t location) {
  static constexpr const char* kNames[] = {"Vec",        "Mat",  "Left",    "Right",
                                           "Acc",        "Bias", "Scaling", "ScaleLeft",
                                           "ScaleRight", "Ctrl", "Reg"};
  return location >= 0 && location < 11 ? kNames[location] : "memory";
}

std::string count_of(int64_t n, const char* one) {
  return std::to_string(n) + " " + one + (n == 1 ? "" : "s");
}

// The memory of a location: the last writer of each unit.
constexpr uintptr_t kUnit = 32;
constexpr Run kNobody{UINT64_MAX, -1};
struct Shadow {
  uintptr_t bytes;
  std::vector<Run> writer;
};

// The memories that cores on this thread have used, by their first address.
std::map<uintptr_t, Shadow>& shadows() {
  static thread_local std::map<uintptr_t, Shadow> all;
  return all;
}

void add_shadow(uintptr_t start, uintptr_t bytes) {
  auto& all = shadows();
  const auto same = all.find(start);
  if (same != all.end() && same->second.bytes == bytes) return;
  auto at = all.lower_bound(start);
  if (at != all.begin() && std::prev(at)->first + std::prev(at)->second.bytes > start) --at;
  while (at != all.end() && at->first < start + bytes) at = all.erase(at);
  all[start] = {bytes, std::vector<Run>((bytes + kUnit - 1) / kUnit, kNobody)};
}

// Calls visit(writer) for the units of [start, start + bytes); stops at false and returns it.
template <class Visit>
bool for_units(uintptr_t start, uintptr_t bytes, const Visit& visit) {
  auto& all = shadows();
  const auto after = all.upper_bound(start);
  if (after == all.begin() || bytes == 0) return true;
  const auto& [base, shadow] = *std::prev(after);
  if (start - base >= shadow.bytes) return true;
  const uintptr_t last = std::min(start - base + bytes, shadow.bytes) - 1;
  for (uintptr_t unit = (start - base) / kUnit; unit <= last / kUnit; ++unit) {
    if (!visit(std::prev(after)->second.writer[unit])) return false;
  }
  return true;
}

void note_written(uintptr_t start, uintptr_t bytes) {
  const Run run = this_run();
  for_units(start, bytes, [&](Run& writer) {
    writer = run;
    return true;
  });
}

bool is_written(uintptr_t start, uintptr_t bytes) {
  const Run run = this_run();
  return for_units(start, bytes, [&](const Run& writer) { return writer == run; });
}

uintptr_t address_of(const void* data) { return reinterpret_cast<uintptr_t>(data); }

// Calls visit(start, bytes, row, col) for the contiguous pieces of rows x cols elements of a tile;
// stops at false and returns it.
template <class Visit>
bool for_pieces(const pto_operand& tile, int32_t rows, int32_t cols, const Visit& visit) {
  const auto base = address_of(tile.data), size = static_cast<uintptr_t>(tile.element_bytes);
  if (rows <= 0 || cols <= 0) return true;
  const auto at = [&](int32_t row, int32_t col) {
    return base + static_cast<uintptr_t>(tile.offset(row, col)) * size;
  };
  if (tile.is_boxed) {
    for (int32_t row = 0; row < rows; ++row)
      for (int32_t col = 0; col < cols; ++col)
        if (!visit(at(row, col), size, row, col)) return false;
    return true;
  }
  const int32_t lines = tile.is_row_major ? rows : cols, length = tile.is_row_major ? cols : rows;
  for (int32_t i = 0; i < lines; ++i) {
    const int32_t row = tile.is_row_major ? i : 0, col = tile.is_row_major ? 0 : i;
    for (int32_t done = 0; done < length;) {  // one unit at a time, so that a failure is exact
      const int32_t r = tile.is_row_major ? row : done, c = tile.is_row_major ? done : col;
      const uintptr_t start = at(r, c);
      const auto left = static_cast<uintptr_t>(length - done) * size;
      const uintptr_t bytes = std::min(left, kUnit - start % kUnit);
      if (!visit(start, bytes, r, c)) return false;
      done += static_cast<int32_t>(std::max<uintptr_t>(bytes / size, 1));
    }
  }
  return true;
}

pto_tile_state& owner_of(const pto_operand& tile) {
  return tile.state->shared != nullptr ? *tile.state->shared : *tile.state;
}

// Facts about instructions that their operands do not show.
// These read their sources at addresses that their operands do not bound.
constexpr std::string_view kReadPart[] = {"TEXTRACT", "TEXTRACT_FP", "TGATHER", "TGATHERB"};
// These read their destination too; products do so only when they take no tile to start from.
constexpr std::string_view kAccumulate[] = {"TAXPY", "TMULADDDST", "TFUSEDMULADD",
                                            "TFUSEDMULADDRELU"};
constexpr std::string_view kAccumulateProducts[] = {"TMATMUL_ACC", "TGEMV_ACC"};
// These write more of their destination than its valid region.
constexpr std::string_view kWriteAll[] = {
    "TLOAD",      "TPREFETCH", "TFILLPAD", "TFILLPAD_INPLACE", "TFILLPAD_EXPAND", "TPAIRREDUCESUM",
    "THISTOGRAM", "TGATHER",   "TPOP",     "TINTERLEAVE",      "TQUANT",          "TDEINTERLEAVE"};
constexpr std::string_view kShareStorage[] = {"TSUBVIEW", "TRESHAPE", "TGET_SCALE_ADDR"};
constexpr std::string_view kIgnoreViews[] = {"TALLOC", "TPUSH", "TPOP", "TFREE", "SYNCALL"};
constexpr std::string_view kTransfer[] = {"TLOAD", "TSTORE", "TSTORE_FP", "TPREFETCH"};
bool is_one_of(std::string_view name, std::span<const std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}
bool accumulates(std::string_view name, std::string_view form) {
  return is_one_of(name, kAccumulate) ||
         (is_one_of(name, kAccumulateProducts) && form == "c, a, b");
}

constexpr int kOperands = 16;

class Instruction {
 public:
  Instruction(const char* name, const char* form, const pto_operand_of* of, int32_t count)
      : name_(name), form_(form), count_(std::min(count, kOperands)) {
    for (int i = 0; i < count_; ++i) of[i].describe(of[i].object, &all_[static_cast<size_t>(i)]);
  }

  void check(bool is_atomic) {
    if (is_one_of(name_, kShareStorage)) return share();
    int source = 0;
    for (const pto_operand& one : operands()) {
      source += !one.is_output;
      if (one.kind != PTO_OPERAND_TILE) continue;
      check_room(one);
      if (!one.is_output)
        check_written(one, "source " + std::to_string(source));
      else if (accumulates(name_, form_))
        check_written(one, "the destination, which is added to");
    }
    for (const pto_operand& one : operands())
      if (one.kind == PTO_OPERAND_VIEW && !is_one_of(name_, kIgnoreViews))
        check_view(one, is_atomic);
    for (const pto_operand& one : operands())
      if (one.is_output && one.state != nullptr) mark(one);
  }

 private:
  using Bytes = std::pair<int64_t, int64_t>;  // from, to

  std::span<const pto_operand> operands() const {
    return {all_.data(), static_cast<size_t>(count_)};
  }
  const pto_operand* first_tile() const {
    for (const pto_operand& one : operands())
      if (one.kind == PTO_OPERAND_TILE) return &one;
    return nullptr;
  }

  [[noreturn]] void failed(const std::string& what, const char* why, const char* fix) const {
    pto::failed(std::string(name_) + " (" + form_ + "): " + what, why, fix);
  }

  void share() {
    pto_tile_state& d = *all_[0].state;
    pto_tile_state& s = owner_of(all_[1]);
    d = {0, all_[1].state->is_placed, &s};
    if (d.is_placed) d.shared = nullptr;
  }

  void check_room(const pto_operand& tile) const {
    if (tile.valid_cols <= tile.cols) return;
    failed("the sizes of a convolution tile make " + count_of(tile.valid_cols, "element") +
               ", but its buffer has " + std::to_string(tile.cols),
           "the buffer of a tile holds all of its elements",
           "give ConvTile a buffer of enough bytes, or smaller sizes");
  }

  // A source with the destination's shape is read only where the destination is valid.
  void check_written(const pto_operand& tile, const std::string& role) const {
    int32_t rows = tile.valid_rows, cols = tile.valid_cols;
    const pto_operand& d = all_[0];
    if (d.kind == PTO_OPERAND_TILE && d.is_output && d.rows == tile.rows && d.cols == tile.cols) {
      rows = std::min(rows, d.valid_rows);
      cols = std::min(cols, d.valid_cols);
    }
    if (rows <= 0 || cols <= 0) return;
    const std::string text = role + ", a " + std::to_string(tile.rows) + " x " +
                             std::to_string(tile.cols) + " tile in " +
                             name_of_location(tile.location) + ", was ";
    const char* const why = "an instruction reads the valid regions of its sources";
    if (!tile.state->is_placed) {
      if (owner_of(tile).is_written) return;
      failed(text + "never written", why, "load or compute the tile first");
    }
    bool any = false;
    int32_t row = -1, col = -1;
    for_pieces(tile, rows, cols, [&](uintptr_t start, uintptr_t bytes, int32_t r, int32_t c) {
      const bool has = is_written(start, bytes);
      any |= has;
      if (!has && row < 0) row = r, col = c;
      return !(any && row >= 0);
    });
    if (row < 0 || (any && is_one_of(name_, kReadPart))) return;
    if (!any) failed(text + "never written", why, "load or compute the tile first");
    failed(text + "not written at row " + std::to_string(row) + ", column " + std::to_string(col),
           why, "load or compute all of its valid region first, or shrink it");
  }

  void mark(const pto_operand& tile) const {
    owner_of(tile).is_written = 1;
    tile.state->is_written = 1;
    if (!tile.state->is_placed) return;
    const auto all = static_cast<uintptr_t>(tile.stored * tile.element_bytes);
    if (tile.kind != PTO_OPERAND_TILE || is_one_of(name_, kWriteAll))
      return note_written(address_of(tile.data), all);
    for_pieces(tile, tile.valid_rows, tile.valid_cols,
               [](uintptr_t start, uintptr_t bytes, int32_t, int32_t) {
                 note_written(start, bytes);
                 return true;
               });
  }

  // Lists the bytes of a view that the instruction touches, from its pointer on, in pieces.
  std::vector<Bytes> touched(const pto_operand& view) const {
    std::vector<Bytes> pieces = touched_numbers(view);
    if (view.per_element == 2)
      for (auto& [from, to] : pieces) from = floor_half(from), to = -floor_half(-to);
    return pieces;
  }
  static int64_t floor_half(int64_t n) { return n >> 1; }

  // The same where each number is an element.
  std::vector<Bytes> touched_numbers(const pto_operand& view) const {
    const int64_t size = view.element_bytes;
    const pto_operand* tile = is_one_of(name_, kTransfer) ? first_tile() : nullptr;
    const int64_t rows = tile != nullptr ? tile->valid_rows : INT32_MAX;
    const int64_t cols = tile != nullptr ? tile->valid_cols : INT32_MAX;
    if (view.view == PTO_VIEW_PACKED) {
      const int64_t most = tile != nullptr ? rows * cols : view.count;
      return {{0, std::max<int64_t>(std::min(view.count, most), 0) * size}};
    }
    int64_t n[5];
    std::copy(view.shape, view.shape + 5, n);
    // ND: dimensions 0 to 3 are the row, 4 the column; DN: 0, 1, 2 and 4 the column, 3 the row.
    // NZ: 2 and 3 the row, 0, 1 and 4 the column.
    const bool is_nd = view.view == PTO_VIEW_ND, is_dn = view.view == PTO_VIEW_DN;
    const bool is_nz = view.view == PTO_VIEW_NZ;
    int64_t lines = INT64_MAX;
    const int inner = is_dn ? 4 : 3, along = is_dn ? 3 : 4;
    if (is_nd || is_dn) {
      n[along] = std::min(n[along], is_nd ? cols : rows);
      lines = is_nd ? rows : cols;
    }
    std::vector<Bytes> pieces;
    for (int64_t a = 0; a < n[0]; ++a)
      for (int64_t b = 0; b < n[1]; ++b)
        for (int64_t c = 0; c < n[2]; ++c)
          for (int64_t i = 0; i < (is_nz ? std::min(n[3], rows - c * n[3]) : n[inner]) && lines > 0;
               ++i, --lines)
            add_line(view,
                     (a * view.stride[0] + b * view.stride[1] + c * view.stride[2] +
                      i * view.stride[inner]) *
                         size,
                     is_nz ? std::min(n[4], cols - (a * n[1] + b) * n[4]) : n[along],
                     view.stride[along] * size, &pieces);
    return pieces;
  }
  static void add_line(const pto_operand& view, int64_t start, int64_t count, int64_t step,
                       std::vector<Bytes>* pieces) {
    const int64_t size = view.element_bytes;
    if (count <= 0) return;
    if (step == size) {
      if (!pieces->empty() && pieces->back().second == start)
        pieces->back().second += count * size;
      else
        pieces->emplace_back(start, start + count * size);
      return;
    }
    for (int64_t i = 0; i < count; ++i)
      pieces->emplace_back(start + i * step, start + i * step + size);
  }

  static bool has_bytes(const std::vector<Bytes>& pieces) {
    return std::any_of(pieces.begin(), pieces.end(),
                       [](const Bytes& piece) { return piece.first < piece.second; });
  }

  void check_view(const pto_operand& view, bool is_atomic) const {
    const uintptr_t base = address_of(view.data), size = static_cast<uintptr_t>(view.element_bytes);
    if (base % size != 0)
      failed("the view's pointer is " + count_of(static_cast<int64_t>(base % size), "byte") +
                 " behind a multiple of " + std::to_string(size),
             "a pointer to elements is a multiple of their size",
             "view the memory as its elements");
    const int64_t extent = known_extent(view.data);
    if (view.view == PTO_VIEW_PACKED && view.count == INT64_MAX && extent < 0)
      failed("nothing is known about the memory of GlobalTensor(pointer)",
             "the one-argument form ends where the registered memory of its pointer does",
             "pass a tensor or aclrtMalloc's memory to the kernel, or give the view a count");
    const std::vector<Bytes> pieces = touched(view);
    if (view.data == nullptr && has_bytes(pieces))
      failed("the view's pointer is null", "an instruction reads or writes the memory of its view",
             "point the view at memory, or give it no elements");
    if (extent >= 0) check_extent(view, pieces, extent);
    if (view.is_output && is_one_of(name_, kTransfer)) check_stores(base, pieces, is_atomic);
  }

  void check_extent(const pto_operand& view, const std::vector<Bytes>& pieces,
                    int64_t extent) const {
    int64_t first = 0, last = 0;
    for (const auto& [from, to] : pieces) {
      first = std::min(first, from);
      last = std::max(last, to);
    }
    const char* const why = "a view lies within the memory that its pointer belongs to";
    const char* const fix =
        "bound it: GlobalTensor(pointer, count), a smaller Shape, or fewer "
        "valid rows and columns";
    if (last > extent)
      failed("the view reaches " + count_of(last - extent, "byte") +
                 " beyond its memory, which has " + count_of(extent, "byte") +
                 " from the pointer on",
             why, fix);
    const auto* start = static_cast<const char*>(view.data) + first;
    if (first < 0 && known_extent(start) != extent - first)
      failed("the view begins " + count_of(-first, "byte") +
                 " before its pointer, where its memory does not",
             why, fix);
  }

  void check_stores(uintptr_t base, const std::vector<Bytes>& pieces, bool adds) const {
    Stores* const stores = stores_of_launch();
    if (stores == nullptr) return;
    for (const auto& [from, to] : pieces) {
      int32_t other = -1;
      const uintptr_t end = base + static_cast<uintptr_t>(to);
      const uintptr_t at = stores->add(base + static_cast<uintptr_t>(from), end, t_block.index,
                                       t_block.position, adds, &other);
      if (at == end) continue;
      const std::string by =
          other == Stores::kSeveral ? "other blocks" : "block " + std::to_string(other);
      failed("byte " + std::to_string(static_cast<int64_t>(at - base)) +
                 " of the view was stored by " + by + " too",
             "blocks run in any order, so that either value may remain",
             "give each block elements of its own, wait between the stores, or add with "
             "AtomicType::AtomicAdd");
    }
  }

  std::string_view name_;
  const char* form_;
  int count_;
  std::array<pto_operand, kOperands> all_;
};

}  // namespace
}  // namespace pto

using pto::address_of;

void pto_check_instruction(const char* name, const char* form, const pto_operand_of* operands,
                           int32_t count, int32_t is_atomic) {
  pto::Instruction(name, form, operands, count).check(is_atomic != 0);
}

void pto_check_assign(pto_tile_state* state, int32_t location, const void* start, size_t room,
                      uintptr_t offset, size_t bytes) {
  *state = {};
  if (start == nullptr) return;
  const std::string what = "TASSIGN: address " + std::to_string(offset) + " of a tile of " +
                           pto::count_of(static_cast<int64_t>(bytes), "byte") + " in " +
                           pto::name_of_location(location);
  if (offset % 32 != 0)
    pto::failed(what + " is no multiple of 32", "tiles begin at multiples of 32 bytes",
                "round the address up");
  if (offset > room || bytes > room - offset)
    pto::failed(what + ", which has " + std::to_string(room),
                "a tile lies within the memory of its location",
                "use a lower address or a smaller tile");
  pto::add_shadow(address_of(start), room);
  state->is_placed = 1;
}

void pto_check_raw(pto_tile_state* state, void* data, size_t bytes) {
  state->is_written = 1;
  if (state->shared != nullptr) state->shared->is_written = 1;
  if (state->is_placed) pto::note_written(address_of(data), bytes);
}

void pto_check_covered(const char* name, const char* form, int32_t source, int32_t valid_rows,
                       int32_t valid_cols, int32_t rows, int32_t cols) {
  if (rows <= 0 || cols <= 0 || (valid_rows >= rows && valid_cols >= cols)) return;
  const bool lacks_rows = valid_rows < rows;
  pto::failed(std::string(name) + " (" + form + "): source " + std::to_string(source) + " has " +
                  pto::count_of(lacks_rows ? valid_rows : valid_cols,
                                lacks_rows ? "valid row" : "valid column") +
                  " of the " + std::to_string(lacks_rows ? rows : cols) + " over which it runs",
              "an instruction runs over the valid region of its destination, some over that of a "
              "source",
              "shrink that region, or widen the valid one of the source");
}

void pto_check_failed_window(int32_t row, int32_t col, int32_t in_window, int32_t in_source) {
  pto::failed("TSUBVIEW (d, s, r, c): element (" + std::to_string(row) + ", " +
                  std::to_string(col) + ") lies " + pto::count_of(in_window, "element") +
                  " behind the first one in the window, but " + std::to_string(in_source) +
                  " in its source",
              "a window is a part of its source's storage, in the same layout",
              "give the window the layout and the Cols of its source (the Rows of a column-major "
              "one), and limit its valid region");
}

void pto_check_failed_expanded(int32_t cols, int32_t block) {
  pto::failed("TROWEXPAND... (d, a, b): the operand that is expanded has " + std::to_string(cols) +
                  " valid columns, not 1 or the " + std::to_string(block) + " of 32 bytes",
              "one column goes to all of a row, 32 bytes go to it over and over",
              "limit its valid columns, or give the other operand those of the destination");
}

void pto_check_waited(void) { pto::note_wait(); }

void pto_check_failed_stream(size_t misplaced, size_t vector) {
  pto::failed("TSTORE (gm, tile): CacheHint::Stream, but the pointer is " +
                  pto::count_of(static_cast<int64_t>(misplaced), "byte") +
                  " behind a multiple of " + std::to_string(vector),
              "vectors bypass the cache only where they are aligned",
              "store to aligned memory, or with CacheHint::Plain");
}

void pto_check_failed_valid(int32_t valid, int32_t full, int32_t axis) {
  const char* const line = axis == 0 ? "row" : "column";
  pto::failed(
      std::to_string(valid) + " valid " + line + "s in a tile of " + pto::count_of(full, line),
      "a valid region lies within its tile",
      "limit it: min(n, Tile::Rows) or min(n, Tile::Cols), 0 at least");
}

void pto_check_failed_fixed(int32_t valid, int32_t fixed, int32_t axis) {
  const char* const line = axis == 0 ? "row" : "column";
  pto::failed(std::to_string(valid) + " valid " + line + "s for a tile whose type has " +
                  std::to_string(fixed),
              "a number in the type of a tile stays",
              axis == 0 ? "declare the tile with RowValid DYNAMIC"
                        : "declare the tile with ColValid DYNAMIC");
}

void pto_check_failed_offset(int32_t offset, int32_t stored) {
  pto::failed("element " + std::to_string(offset) + " of a tile that stores " +
                  pto::count_of(stored, "element"),
              "GetValue and SetValue count the stored elements from 0 on",
              "use a smaller position");
}

void pto_check_failed_element(int32_t row, int32_t col, int32_t rows, int32_t cols) {
  pto::failed("element (" + std::to_string(row) + ", " + std::to_string(col) + ") of a " +
                  std::to_string(rows) + " x " + std::to_string(cols) + " tile",
              "rows and columns count from 0 on and lie within the tile",
              "use GetElement, SetElement and TSUBVIEW within Tile::Rows and Tile::Cols");
}
