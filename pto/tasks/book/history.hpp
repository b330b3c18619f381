// SPDX-License-Identifier: Apache-2.0
// History: which tasks touched each part of an allocation, and so which tasks a new one must
// follow.
//
//     history.record(tile, Access::Write, task,
//                    [&](TaskId earlier) { follow(task, earlier); },
//                    [&](TaskId earlier) { return is_done(earlier); });
//
// A cell keeps each distinct box once, with the boxes that it overlaps; a box that comes again
// costs only its own tasks and those of its neighbours, however many boxes there are. Boxes that
// differ only in their offset are of one kind; boxes on the grid of their own size share nothing,
// which is known without comparing them.
// Memory: at most 256 bytes a box (a 32-byte cell in a table at most half full; about 150 more if
// it has neighbours or several unfinished readers), 16 a pair of boxes that overlap, and 16 a box
// that an unfinished task reads.
// Invariant: for two recorded tasks that touch a common byte, one of them writing, a path of
// reported edges leads from the earlier to the later, unless is_done() held for a task on it.
// Reducing tasks of one box need no edges among themselves.
// Thread safety: none; only the submitting thread uses it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "pto/tasks/book/box.hpp"

namespace pto {

using TaskId = uint64_t;  // in the order of submission, from 1; 0: no task

enum class Access : uint8_t {
  Read,
  Write,   // every byte; the old ones are not read
  Update,  // reads and writes
  Reduce   // commutes with other Reduce of the same box: one at a time, in any order
};

// A list of task ids; a single id needs no allocation.
class TaskList {
 public:
  bool empty() const { return first_ == 0; }
  TaskId last() const { return more_.empty() ? first_ : more_.back(); }
  // Drops the tasks for which is_done(task) holds before it allocates.
  template <class Done>
  void add(TaskId task, const Done& is_done) {
    if (more_.size() == more_.capacity() && first_ != 0) {
      drop_if(is_done);
      if (2 * more_.size() > more_.capacity()) more_.reserve(2 * more_.capacity());
    }
    if (first_ == 0)
      first_ = task;
    else
      more_.push_back(task);
  }
  size_t bytes() const { return more_.capacity() * sizeof(TaskId); }
  void clear() {
    first_ = 0;
    more_.clear();
  }
  template <class F>
  void each(F&& f) const {
    if (first_ != 0) f(first_);
    for (TaskId task : more_) f(task);
  }

 private:
  template <class Done>
  void drop_if(const Done& is_done) {
    std::erase_if(more_, is_done);
    if (!is_done(first_)) return;
    first_ = more_.empty() ? 0 : more_.back();
    if (!more_.empty()) more_.pop_back();
  }

  TaskId first_ = 0;
  std::vector<TaskId> more_;
};

class History {
 public:
  // Calls edge(earlier) for each task that `task` must follow, possibly twice, then records it.
  // is_done(earlier) says that no task needs to follow it, now or later. Returns the box's number
  // in this history, from 0, for Reduce; -1 for other accesses and for an empty box.
  template <class Edge, class Done>
  int64_t record(const Box& box, Access access, TaskId task, const Edge& edge,
                 const Done& is_done) {
    if (box.is_empty()) return -1;
    Kind& kind = kind_of(box);
    Cell& cell = cell_of(kind, box);
    if (cell.crowd == nullptr && access != Access::Reduce) [[likely]] {
      if (access != Access::Read) {
        // The cell's reader already follows its writer.
        if (const TaskId last = cell.reader != 0 ? cell.reader : cell.writer) edge(last);
        cell.writer = task;
        cell.reader = 0;
        return -1;
      }
      if (cell.reader == 0 || cell.reader == task || is_done(cell.reader)) {
        if (cell.writer != 0) edge(cell.writer);
        cell.reader = task;
        return -1;
      }
    }
    return record_crowd(crowd_of(cell), access, task, edge, is_done);
  }

  // Calls edge(writer) for each task that a reader of the box must await; records nothing.
  template <class Edge>
  void writers(const Box& box, const Edge& edge) {
    if (box.is_empty()) return;
    Crowd& crowd = crowd_of(cell_of(kind_of(box), box));
    follow(crowd, Access::Read, edge);
    for (const Neighbour& other : crowd.neighbours) follow(*other.crowd, Access::Read, edge);
  }

  size_t boxes() const { return boxes_; }
  int64_t bytes() const;                                 // of this history's memory
  int64_t unknown_overlaps() const { return unknown_; }  // pairs of boxes, unproven

 private:
  struct Crowd;
  struct Neighbour {
    Crowd* crowd;
    bool is_covered;  // by the cell that holds this
  };
  // The state of a cell that has neighbours, reducers or several readers.
  struct Crowd {
    int64_t number;
    TaskId writer;
    TaskList readers, reducers;  // since the last write
    std::vector<Neighbour> neighbours;
  };
  static constexpr int64_t kFree = int64_t(0x8080808080808080);  // the offset of an empty place
  struct Cell {
    int64_t offset;
    TaskId writer, reader;  // 0: none, or in the crowd
    Crowd* crowd;           // null: none
  };
  static constexpr size_t kGroup = 128;
  struct FreeCells {
    void operator()(Cell* cells) const;
  };
  using Table = std::unique_ptr<Cell[], FreeCells>;  // open addressing, a power of two
  struct Spot {                                      // a cell by its place in the kind's grid
    uint64_t key;
    int64_t offset;
  };
  struct Kind {
    Box like;
    int64_t begin, end;
    int shift;           // log2 of a run's bytes; -1 if they are no power of two
    size_t mask, cells;  // of the table
    Table table;         // by offset
    bool is_regular;     // all its cells lie on the grid of its size
    // Irregular kinds only, made when the first neighbour is looked for: `grid` holds cells by the
    // place of their first byte (open addressing, a power of two, at most half full),
    // `outside_grid` the others.
    std::vector<Spot> grid;
    std::vector<int64_t> outside_grid;
  };

  template <class Edge>
  static void follow(const Crowd& crowd, Access access, const Edge& edge) {
    bool is_after_writer = false;  // those since the last write follow the writer
    if (access != Access::Read && !crowd.readers.empty()) {
      crowd.readers.each(edge);
      is_after_writer = true;
    }
    if (access != Access::Reduce && !crowd.reducers.empty()) {
      crowd.reducers.each(edge);
      is_after_writer = true;
    }
    if (!is_after_writer && crowd.writer != 0) edge(crowd.writer);
  }

  template <class Edge, class Done>
  int64_t record_crowd(Crowd& crowd, Access access, TaskId task, const Edge& edge,
                       const Done& is_done) {
    follow(crowd, access, edge);
    for (const Neighbour& other : crowd.neighbours) {
      follow(*other.crowd, access, edge);
      if (access == Access::Reduce)  // only reducers of one box take turns
        other.crowd->reducers.each(edge);
    }
    if (access == Access::Read) {
      if (crowd.readers.last() != task) crowd.readers.add(task, is_done);
      return -1;
    }
    if (access == Access::Reduce) {
      if (crowd.reducers.last() != task) crowd.reducers.add(task, is_done);
      return crowd.number;
    }
    enter_writer(crowd, task);
    return -1;
  }

  // Puts adjacent runs side by side, in groups of a page.
  static size_t place_of(const Kind& kind, int64_t offset) {
    const int64_t run = kind.shift >= 0 ? offset >> kind.shift : offset / kind.like.item;
    const auto within = uint64_t(offset - run * kind.like.item);
    const uint64_t group = uint64_t(run) / kGroup + within * 0xff51afd7ed558ccdu;
    const uint64_t hash = group * 0x9e3779b97f4a7c15u >> 28;
    return size_t(hash * kGroup + uint64_t(run) % kGroup) & kind.mask;
  }
  // Returns the cell at the offset, or the free place for it.
  static Cell& find(const Kind& kind, int64_t offset) {
    Cell* const table = kind.table.get();
    // The step leaves a full group and reaches every place.
    for (size_t at = place_of(kind, offset);; at = (at + kGroup + 1) & kind.mask) {
      Cell& cell = table[at];
      if (cell.offset == offset || cell.offset == kFree) return cell;
    }
  }
  Cell& cell_of(Kind& kind, const Box& box) {
    Cell& cell = find(kind, box.offset);
    return cell.offset == kFree ? add(kind, box) : cell;
  }
  Kind& kind_of(const Box& box) {
    if (last_kind_ != nullptr && same_kind(last_kind_->like, box)) return *last_kind_;
    return *(last_kind_ = &find_kind(box));
  }
  Crowd& crowd_of(Cell& cell) { return cell.crowd != nullptr ? *cell.crowd : add_crowd(cell); }

  static bool same_kind(const Box& a, const Box& b);
  static Box box_of(const Kind& kind, const Cell& cell);
  static bool is_regular(const Box& box);
  static Table make_table(size_t places);
  static void grow_table(Kind& kind);
  static void enter_grid(Kind& kind, int64_t offset);
  static void make_grid(Kind& kind, size_t places);
  static void enter_writer(Crowd& crowd, TaskId task);
  Crowd& add_crowd(Cell& cell);
  Kind& find_kind(const Box& box);
  Cell& add(Kind& kind, const Box& box);
  void meet(Cell& a, const Box& left, Kind& kind, Cell& b);
  void meet_kind(Cell& cell, const Box& box, Kind& kind);
  template <class F>
  static void each_cell(Kind& kind, const F& f);
  struct Places;
  void meet_at(Cell& cell, const Box& box, Kind& kind, const Places& places);

  std::vector<std::unique_ptr<Kind>> kinds_;
  std::vector<std::unique_ptr<Crowd>> crowds_;
  Kind* last_kind_ = nullptr;
  size_t boxes_ = 0;
  int64_t unknown_ = 0;
};

}  // namespace pto
