// SPDX-License-Identifier: Apache-2.0
#include "pto/runtime/tasks/history.hpp"

#include <algorithm>

namespace pto {
namespace {

// Places of a grid that are looked up before all boxes of a kind are.
constexpr int64_t kMostPlaces = 64;

uint64_t mix(uint64_t hash, int64_t value) {
  hash = (hash ^ uint64_t(value)) * 0x9e3779b97f4a7c15u;
  return hash ^ hash >> 29;
}

// Extents of a kind by the dimensions of Coordinates: its sizes, then the bytes of a run.
int64_t reach(const Box& box, int k) { return k < box.rank ? box.size[k] : box.item; }

int64_t floor_divide(int64_t a, int64_t b) { return a >= 0 ? a / b : -((b - 1 - a) / b); }

}  // namespace

bool History::same_kind(const Box& a, const Box& b) {
  return a.item == b.item && a.rank == b.rank && std::equal(a.size, a.size + a.rank, b.size) &&
         std::equal(a.stride, a.stride + a.rank, b.stride);
}

Box History::box_of(const Cell& cell) {
  Box box = cell.kind->like;
  box.offset = cell.offset;
  return box;
}

bool History::is_regular(const Box& box) {
  Coordinates at;
  if (!coordinates(box, &at)) return false;
  for (int k = 0; k <= box.rank; ++k)
    if (at.at[k] % reach(box, k) != 0) return false;
  return true;
}

History::Kind& History::find_kind(const Box& box) {
  for (Kind& kind : kinds_)
    if (same_kind(kind.like, box)) return kind;
  kinds_.emplace_back();
  Kind& kind = kinds_.back();
  kind.like = box;
  kind.begin = box.offset;
  kind.end = box.end();
  kind.table.resize(8);
  return kind;
}

void History::enter(Cell& cell, Access access, TaskId task) {
  if (access == Access::Read) {
    if (cell.readers.last() != task) cell.readers.add(task);
  } else if (access == Access::Reduce) {
    if (cell.reducers.last() != task) cell.reducers.add(task);
  } else {
    cell.writer = task;
    cell.readers.clear();
    cell.reducers.clear();
    if (cell.neighbours == nullptr) return;
    for (const Neighbour& other : *cell.neighbours) {
      if (!other.is_covered) continue;  // the new writer follows them all
      other.cell->writer = 0;
      other.cell->readers.clear();
      other.cell->reducers.clear();
    }
  }
}

void History::meet(Cell& a, Cell& b) {
  const Box left = box_of(a), right = box_of(b);
  const Overlap found = overlap(left, right);
  if (found == Overlap::None) return;
  if (found == Overlap::Unknown) ++unknown_;
  const auto add = [](Cell& to, Neighbour neighbour) {
    if (to.neighbours == nullptr) to.neighbours = std::make_unique<std::vector<Neighbour>>();
    to.neighbours->push_back(neighbour);
  };
  add(a, {&b, covers(left, right)});
  add(b, {&a, covers(right, left)});
}

void History::enter_grid(Kind& kind, Cell& cell) {
  Coordinates at;
  if (!coordinates(box_of(cell), &at)) {
    kind.outside_grid.push_back(&cell);
    return;
  }
  uint64_t key = 0;
  for (int k = 0; k <= kind.like.rank; ++k)
    key = mix(key, floor_divide(at.at[k], reach(kind.like, k)));
  kind.grid.emplace(key, &cell);
}

// The new cell against all of one kind: by places of the kind's grid where it has coordinates in
// it, else one by one.
void History::meet_kind(Cell& cell, Kind& kind) {
  const Box box = box_of(cell);
  if (box.end() <= kind.begin || kind.end <= box.offset) return;
  if (&kind == cell.kind && kind.is_regular) return;
  Coordinates at;
  int64_t first[kBoxRank + 1], count[kBoxRank + 1], places = 1;
  bool by_places = same_strides(box, kind.like) && coordinates(box, &at);
  for (int k = 0; by_places && k <= kind.like.rank; ++k) {
    const int64_t step = reach(kind.like, k);
    first[k] = floor_divide(at.at[k] - step + 1, step);
    count[k] = floor_divide(at.at[k] + reach(box, k) - 1, step) - first[k] + 1;
    places *= count[k];
    by_places = places <= kMostPlaces;
  }
  if (!by_places || kind.cells.size() < size_t(kMostPlaces)) {
    for (Cell* other : kind.cells) meet(cell, *other);
    return;
  }
  if (!kind.has_grid) {
    kind.has_grid = true;
    for (Cell* one : kind.cells) enter_grid(kind, *one);
  }
  for (Cell* other : kind.outside_grid) meet(cell, *other);
  for (int64_t place = 0; place < places; ++place) {
    uint64_t key = 0;
    int64_t rest = place;
    for (int k = 0; k <= kind.like.rank; ++k) {
      key = mix(key, first[k] + rest % count[k]);
      rest /= count[k];
    }
    const auto [begin, end] = kind.grid.equal_range(key);
    for (auto it = begin; it != end; ++it) meet(cell, *it->second);
  }
}

History::Cell& History::add(Kind& kind, const Box& box) {
  cells_.emplace_back();
  Cell& cell = cells_.back();
  cell.offset = box.offset;
  cell.kind = &kind;
  cell.number = int64_t(cells_.size()) - 1;
  kind.is_regular = kind.is_regular && is_regular(box);
  for (Kind& other : kinds_) meet_kind(cell, other);
  kind.begin = std::min(kind.begin, box.offset);
  kind.end = std::max(kind.end, box.end());
  kind.cells.push_back(&cell);
  if (kind.has_grid) enter_grid(kind, cell);
  if (2 * kind.cells.size() > kind.table.size()) {
    grow_table(kind);
  } else {
    size_t at = place_of(kind, box.offset);
    while (kind.table[at].cell != nullptr) at = (at + 1) & (kind.table.size() - 1);
    kind.table[at] = {box.offset, &cell};
  }
  return cell;
}

void History::grow_table(Kind& kind) {
  kind.table.assign(kind.table.size() * 4, {});
  for (Cell* cell : kind.cells) {
    size_t at = place_of(kind, cell->offset);
    while (kind.table[at].cell != nullptr) at = (at + 1) & (kind.table.size() - 1);
    kind.table[at] = {cell->offset, cell};
  }
}

}  // namespace pto
