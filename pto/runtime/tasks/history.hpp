// SPDX-License-Identifier: Apache-2.0
// History: which tasks touched the parts of an allocation, and so whom a new task must follow.
//
//     history.record(tile, Access::Write, task, [&](TaskId earlier) { follow(task, earlier); });
//
// Every box that tasks name is kept once, with the other boxes that it overlaps; so a box that
// comes again costs its own tasks and those of its neighbours, however many boxes there are. Boxes
// that differ in their place only are of one kind; those on the grid of their own size share
// nothing, which is known without a look at the others.
// Invariant: for any two recorded tasks that touch a common byte, one of them writing, a path of
// reported edges leads from the earlier to the later. Reducing tasks of one box need none among
// themselves.
// Thread safety: none; of one thread, which submits.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "pto/runtime/tasks/box.hpp"

namespace pto {

using TaskId = uint64_t;  // in the order of submission, from 1; 0 is nobody

enum class Access : uint8_t {
  Read,
  Write,   // of every byte, without a look at the old ones
  Update,  // reads and writes
  Reduce   // commutes with other Reduce of the same box: one at a time, in any order
};

// Ids of tasks; one needs no memory of its own.
class TaskList {
 public:
  bool empty() const { return first_ == 0; }
  TaskId last() const { return more_.empty() ? first_ : more_.back(); }
  void add(TaskId task) {
    if (first_ == 0)
      first_ = task;
    else
      more_.push_back(task);
  }
  void clear() {
    first_ = 0;
    more_.clear();
  }
  template <class F>
  void each(F&& f) const {
    if (first_ != 0) f(first_);
    for (TaskId task : more_) f(task);
  }
  template <class F>
  void drop_if(F&& is_done) {
    std::erase_if(more_, is_done);
    if (first_ == 0 || !is_done(first_)) return;
    first_ = more_.empty() ? 0 : more_.back();
    if (!more_.empty()) more_.pop_back();
  }

 private:
  TaskId first_ = 0;
  std::vector<TaskId> more_;
};

class History {
 public:
  // Calls edge(earlier) for each task that `task` must follow, possibly twice, then records it.
  // Returns the box's number in this history, from 0; -1 where it is empty.
  template <class Edge>
  int64_t record(const Box& box, Access access, TaskId task, Edge edge) {
    if (box.is_empty()) return -1;
    Cell& cell = cell_of(box);
    follow(cell, access, edge);
    if (cell.neighbours != nullptr)
      for (const Neighbour& other : *cell.neighbours) {
        follow(*other.cell, access, edge);
        if (access == Access::Reduce)  // only those of one box know to take turns
          other.cell->reducers.each(edge);
      }
    enter(cell, access, task);
    return cell.number;
  }

  // Calls edge(writer) for the tasks that a reader of the box must await; records nothing.
  template <class Edge>
  void writers(const Box& box, Edge edge) {
    if (box.is_empty()) return;
    Cell& cell = cell_of(box);
    follow(cell, Access::Read, edge);
    if (cell.neighbours != nullptr)
      for (const Neighbour& other : *cell.neighbours) follow(*other.cell, Access::Read, edge);
  }

  // Lets go of readers and reducers of which is_done(task) holds.
  template <class Done>
  void forget(Done is_done) {
    for (Cell& cell : cells_) {
      cell.readers.drop_if(is_done);
      cell.reducers.drop_if(is_done);
    }
  }

  size_t boxes() const { return cells_.size(); }
  int64_t unknown_overlaps() const { return unknown_; }  // pairs of boxes, taken as overlapping

 private:
  struct Cell;
  struct Kind;
  struct Neighbour {
    Cell* cell;
    bool is_covered;  // by the cell that holds this
  };
  struct Cell {
    int64_t offset;
    Kind* kind;
    int64_t number;
    TaskId writer = 0;
    TaskList readers, reducers;  // since the last write
    std::unique_ptr<std::vector<Neighbour>> neighbours;
  };
  struct Place {  // of the table; free where cell is null
    int64_t offset;
    Cell* cell = nullptr;
  };
  struct Kind {
    Box like;
    int64_t begin, end;
    std::vector<Cell*> cells;
    std::vector<Place> table;  // by offset: open addressing, a power of two, at most half full
    bool is_regular = true;    // all its cells lie on the grid of its size
    // By their place in that grid, and those that have none; made when a neighbour is looked for.
    bool has_grid = false;
    std::unordered_multimap<uint64_t, Cell*> grid;
    std::vector<Cell*> outside_grid;
  };

  template <class Edge>
  static void follow(const Cell& cell, Access access, Edge& edge) {
    if (cell.writer != 0) edge(cell.writer);
    if (access != Access::Read) cell.readers.each(edge);
    if (access != Access::Reduce) cell.reducers.each(edge);
  }

  static size_t place_of(const Kind& kind, int64_t offset) {
    return (uint64_t(offset) * 0x9e3779b97f4a7c15u >> 20) & (kind.table.size() - 1);
  }
  Cell& cell_of(const Box& box) {
    Kind& kind = kind_of(box);
    for (size_t at = place_of(kind, box.offset); kind.table[at].cell != nullptr;
         at = (at + 1) & (kind.table.size() - 1))
      if (kind.table[at].offset == box.offset) return *kind.table[at].cell;
    return add(kind, box);
  }
  Kind& kind_of(const Box& box) {
    if (last_kind_ != nullptr && same_kind(last_kind_->like, box)) return *last_kind_;
    return *(last_kind_ = &find_kind(box));
  }

  static bool same_kind(const Box& a, const Box& b);
  static Box box_of(const Cell& cell);
  static bool is_regular(const Box& box);
  static void enter(Cell& cell, Access access, TaskId task);
  static void enter_grid(Kind& kind, Cell& cell);
  Kind& find_kind(const Box& box);
  Cell& add(Kind& kind, const Box& box);
  void meet(Cell& a, Cell& b);
  void meet_kind(Cell& cell, Kind& kind);
  static void grow_table(Kind& kind);

  std::deque<Cell> cells_;
  std::deque<Kind> kinds_;
  Kind* last_kind_ = nullptr;
  int64_t unknown_ = 0;
};

}  // namespace pto
