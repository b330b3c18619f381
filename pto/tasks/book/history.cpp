// SPDX-License-Identifier: Apache-2.0
#include "pto/tasks/book/history.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "pto/abi/host.h"

namespace pto {
namespace {

// The number of grid places that are looked up; beyond it, all boxes of a kind are tried.
constexpr int64_t kMostPlaces = 64;

uint64_t mix(uint64_t hash, int64_t value) {
  hash = (hash ^ uint64_t(value)) * 0x9e3779b97f4a7c15u;
  return hash ^ hash >> 29;
}

// The extent of a box in dimension k of its Coordinates: its sizes, then the bytes of a run.
int64_t reach(const Box& box, int k) { return k < box.rank ? box.size[k] : box.item; }

int64_t floor_divide(int64_t a, int64_t b) { return a >= 0 ? a / b : -((b - 1 - a) / b); }

}  // namespace

bool History::same_kind(const Box& a, const Box& b) {
  if (a.item != b.item || a.rank != b.rank) return false;
  for (int k = 0; k < a.rank; ++k)
    if (a.size[k] != b.size[k] || a.stride[k] != b.stride[k]) return false;
  return true;
}

Box History::box_of(const Kind& kind, const Cell& cell) {
  Box box = kind.like;
  box.offset = cell.offset;
  return box;
}

bool History::is_regular(const Box& box) {
  if (box.rank == 0) return box.offset >= 0 && box.offset % box.item == 0;
  Coordinates at;
  if (!coordinates(box, &at)) return false;
  for (int k = 0; k <= box.rank; ++k)
    if (at.at[k] % reach(box, k) != 0) return false;
  return true;
}

// --- tables --------------------------------------------------------------------------------------

void History::FreeCells::operator()(Cell* cells) const { pto_free(cells); }

History::Table History::make_table(size_t places) {
  Table table(static_cast<Cell*>(pto_malloc(places * sizeof(Cell))));
  if (table == nullptr) throw std::bad_alloc();
  std::memset(static_cast<void*>(table.get()), 0x80, places * sizeof(Cell));  // kFree
  return table;
}

void History::grow_table(Kind& kind) {
  const size_t places = kind.mask + 1;
  const Table old = std::exchange(kind.table, make_table(places * 4));
  kind.mask = places * 4 - 1;
  for (size_t i = 0; i < places; ++i)
    if (old[i].offset != kFree) find(kind, old[i].offset) = old[i];
}

template <class F>
void History::each_cell(Kind& kind, const F& f) {
  for (size_t i = 0; i <= kind.mask; ++i)
    if (kind.table[i].offset != kFree) f(kind.table[i]);
}

History::Kind& History::find_kind(const Box& box) {
  for (const auto& kind : kinds_)
    if (same_kind(kind->like, box)) return *kind;
  auto kind = std::make_unique<Kind>();
  kind->like = box;
  kind->begin = box.offset;
  kind->end = box.offset;
  kind->shift = (box.item & (box.item - 1)) == 0 ? __builtin_ctzll(uint64_t(box.item)) : -1;
  kind->mask = 7;
  kind->table = make_table(8);
  kind->is_regular = true;
  kinds_.push_back(std::move(kind));
  return *kinds_.back();
}

int64_t History::bytes() const {
  size_t bytes = kinds_.capacity() * sizeof(void*) + crowds_.capacity() * sizeof(void*);
  for (const auto& kind : kinds_)
    bytes += sizeof(Kind) + (kind->mask + 1) * sizeof(Cell) + kind->grid.capacity() * sizeof(Spot) +
             kind->outside_grid.capacity() * sizeof(int64_t);
  for (const auto& crowd : crowds_)
    bytes += sizeof(Crowd) + crowd->neighbours.capacity() * sizeof(Neighbour) +
             crowd->readers.bytes() + crowd->reducers.bytes();
  return int64_t(bytes);
}

// --- crowds --------------------------------------------------------------------------------------

History::Crowd& History::add_crowd(Cell& cell) {
  auto crowd = std::make_unique<Crowd>();
  crowd->number = int64_t(crowds_.size());
  crowd->writer = cell.writer;
  if (cell.reader != 0) crowd->readers.add(cell.reader, [](TaskId) { return false; });
  crowds_.push_back(std::move(crowd));
  return *(cell.crowd = crowds_.back().get());
}

void History::enter_writer(Crowd& crowd, TaskId task) {
  crowd.writer = task;
  crowd.readers.clear();
  crowd.reducers.clear();
  for (const Neighbour& other : crowd.neighbours) {
    if (!other.is_covered) continue;  // the new writer follows all of its tasks
    other.crowd->writer = 0;
    other.crowd->readers.clear();
    other.crowd->reducers.clear();
  }
}

// --- neighbours ----------------------------------------------------------------------------------

void History::meet(Cell& a, const Box& left, Kind& kind, Cell& b) {
  const Box right = box_of(kind, b);
  const Overlap found = overlap(left, right);
  if (found == Overlap::None) return;
  if (found == Overlap::Unknown) ++unknown_;
  crowd_of(a).neighbours.push_back({&crowd_of(b), covers(left, right)});
  crowd_of(b).neighbours.push_back({&crowd_of(a), covers(right, left)});
}

void History::make_grid(Kind& kind, size_t places) {
  kind.grid.assign(places, {0, kFree});
  kind.outside_grid.clear();
  each_cell(kind, [&](Cell& cell) { enter_grid(kind, cell.offset); });
}

void History::enter_grid(Kind& kind, int64_t offset) {
  Box box = kind.like;
  box.offset = offset;
  Coordinates at;
  if (!coordinates(box, &at)) {
    kind.outside_grid.push_back(offset);
    return;
  }
  uint64_t key = 0;
  for (int k = 0; k <= box.rank; ++k) key = mix(key, floor_divide(at.at[k], reach(box, k)));
  size_t place = key & (kind.grid.size() - 1);
  while (kind.grid[place].offset != kFree) place = (place + 1) & (kind.grid.size() - 1);
  kind.grid[place] = {key, offset};
}

// The places of a kind's grid whose boxes can reach into a new box.
struct History::Places {
  int64_t first[PTO_MAX_RANK + 1], count[PTO_MAX_RANK + 1];
  int64_t all = 1;

  // Returns false if there are too many places, or if the two boxes lie on different grids.
  bool find(const Box& box, const Box& like) {
    Coordinates at;
    if (!same_strides(box, like) || !coordinates(box, &at)) return false;
    for (int k = 0; k <= like.rank; ++k) {
      const int64_t step = reach(like, k);
      first[k] = floor_divide(at.at[k] - step + 1, step);
      count[k] = floor_divide(at.at[k] + reach(box, k) - 1, step) - first[k] + 1;
      all *= count[k];
      if (all > kMostPlaces) return false;
    }
    return true;
  }
};

void History::meet_at(Cell& cell, const Box& box, Kind& kind, const Places& places) {
  const Box& like = kind.like;
  for (int64_t place = 0; place < places.all; ++place) {
    uint64_t key = 0;
    int64_t rest = place, offset = 0;
    bool is_inside = true;  // within the rows
    for (int k = 0; k <= like.rank; ++k) {
      const int64_t at = places.first[k] + rest % places.count[k];
      const int64_t bytes = at * reach(like, k) * (k < like.rank ? like.stride[k] : 1);
      is_inside = is_inside && at >= 0 && (k == 0 || bytes < like.stride[k - 1]);
      key = mix(key, at);
      offset += bytes;
      rest /= places.count[k];
    }
    if (!is_inside) continue;
    if (kind.is_regular) {  // then its cells begin where the places do
      Cell& other = find(kind, offset);
      if (other.offset == offset && &other != &cell) meet(cell, box, kind, other);
      continue;
    }
    const size_t mask = kind.grid.size() - 1;
    for (size_t spot = key & mask; kind.grid[spot].offset != kFree; spot = (spot + 1) & mask)
      if (kind.grid[spot].key == key) {
        Cell& other = find(kind, kind.grid[spot].offset);
        if (&other != &cell) meet(cell, box, kind, other);
      }
  }
}

// Finds the new cell's neighbours of one kind: by grid place if the box has coordinates there, else
// one by one.
void History::meet_kind(Cell& cell, const Box& box, Kind& kind) {
  if (box.end() <= kind.begin || kind.end <= box.offset) return;
  Places places;
  if (kind.cells <= size_t(kMostPlaces) || !places.find(box, kind.like)) {
    each_cell(kind, [&](Cell& other) {
      if (&other != &cell) meet(cell, box, kind, other);
    });
    return;
  }
  if (!kind.is_regular) {
    if (kind.grid.empty()) make_grid(kind, kind.mask + 1);
    for (int64_t offset : kind.outside_grid) {
      Cell& other = find(kind, offset);
      if (&other != &cell) meet(cell, box, kind, other);
    }
  }
  meet_at(cell, box, kind, places);
}

History::Cell& History::add(Kind& kind, const Box& box) {
  if (2 * (kind.cells + 1) > kind.mask + 1) grow_table(kind);
  Cell& cell = find(kind, box.offset);
  cell = {box.offset, 0, 0, nullptr};
  ++kind.cells;
  ++boxes_;
  kind.is_regular = kind.is_regular && is_regular(box);
  const bool has_grid = !kind.grid.empty();  // else make_grid() enters this cell too
  for (const auto& other : kinds_)
    if (other.get() != &kind || !kind.is_regular) meet_kind(cell, box, *other);
  kind.begin = std::min(kind.begin, box.offset);
  kind.end = std::max(kind.end, box.end());
  if (has_grid && 2 * kind.cells > kind.grid.size())
    make_grid(kind, kind.mask + 1);
  else if (has_grid)
    enter_grid(kind, box.offset);
  return cell;
}

}  // namespace pto
