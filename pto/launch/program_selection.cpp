// SPDX-License-Identifier: Apache-2.0
// pto_gather, pto_scatter (abi/program.h): elements at positions that an index holds.
//
// A Walk visits the elements that checked positions name, and copies at once a row that one
// position names as a whole.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

#include "pto/abi/program.h"
#include "pto/base/strided.hpp"
#include "pto/launch/asked_rows.hpp"
#include "pto/launch/joined_axes.hpp"
#include "pto/launch/positions.hpp"
#include "pto/launch/progressions.hpp"
#include "pto/launch/short_rows.hpp"
#include "pto/launch/strided_copy.hpp"

namespace pto {
namespace {

using Sizes = std::array<int64_t, PTO_MAX_RANK>;

// Calls f with a null pointer to an unsigned integer as wide as the elements.
template <class F>
void with_width(const pto_tensor& x, const F& f) {
  switch (x.type_bits) {
    case 8:
      return f(static_cast<uint8_t*>(nullptr));
    case 16:
      return f(static_cast<uint16_t*>(nullptr));
    case 32:
      return f(static_cast<uint32_t*>(nullptr));
    default:
      return f(static_cast<uint64_t*>(nullptr));
  }
}

// --- the elements that an index names ------------------------------------------------------------

// One loop of a walk. `near` steps in the tensor that has an element for each position, `far` in
// the other one, where the position adds `Walk::far_step` each.
struct Loop {
  int64_t size, near, far, index;
  bool is_axis;  // of the positions

  bool continues(const Loop& outer) const {
    return outer.near == near * size && outer.far == far * size && outer.index == index * size &&
           !is_axis && !outer.is_axis;
  }
};

struct Walk {
  std::vector<Loop> loops;  // sizes of 1 are left out
  const int64_t* positions;
  int64_t count;  // of positions
  int64_t far_step, items, item_bytes;
  bool is_far;  // whether `far` is larger than the caches of most CPUs

  Walk(const pto_tensor& near, const pto_tensor& far, const pto_tensor& index,
       const int64_t* positions, int axis)
      : positions(positions),
        count(elements_of(index)),
        far_step(far.strides[axis]),
        items(elements_of(near)),
        item_bytes(near.type_bits / 8),
        is_far(far.sizes[axis] * std::abs(far_step) * item_bytes > PTO_LARGEST_CACHE) {
    Sizes dense{};
    dense_strides(index.rank, index.sizes, dense.data());
    for (int d = 0; d < near.rank; ++d) {
      if (near.sizes[d] == 1) continue;
      const bool is_axis = d == axis;
      const Loop loop{near.sizes[d], near.strides[d], is_axis ? 0 : far.strides[d],
                      index.sizes[d] == 1 ? 0 : dense[static_cast<size_t>(d)], is_axis};
      if (!loops.empty() && loop.continues(loops.back()))
        loops.back() = {loop.size * loops.back().size, loop.near, loop.far, loop.index, false};
      else
        loops.push_back(loop);
    }
    if (loops.empty()) loops.push_back({1, 0, 0, 0, false});
  }

  // Calls row(loop, near, far, index) for all runs of the innermost loop, where loop `cut` takes
  // its values first .. last-1 alone.
  template <class Row>
  void run(size_t cut, int64_t first, int64_t last, const Row& row) const {
    if (first >= last) return;
    std::vector<Loop> own = loops;
    Loop& part = own[cut];
    part.size = last - first;
    const Loop inner = own.back();
    own.pop_back();
    int64_t near = first * part.near, far = first * part.far, index = first * part.index;
    Sizes at{};
    while (true) {
      row(inner, near, far, index);
      size_t d = own.size();
      for (; d > 0; --d) {
        const Loop& loop = own[d - 1];
        near += loop.near, far += loop.far, index += loop.index;
        if (++at[d - 1] < loop.size) break;
        near -= loop.size * loop.near, far -= loop.size * loop.far, index -= loop.size * loop.index;
        at[d - 1] = 0;
      }
      if (d == 0) return;
    }
  }

  // True where each position, one behind another, names a whole row, and a CPU alone does not see
  // the next one early.
  bool has_rows() const {
    const Loop& row = loops.back();
    return loops.size() > 1 && loops[loops.size() - 2].is_axis && row.index == 0 && row.near == 1 &&
           row.far == 1;
  }
  AskedRows asked_rows() const {
    const int64_t step = has_rows() ? loops[loops.size() - 2].index : 1;
    return {positions, count, step, loops.back().size * item_bytes, far_step * item_bytes};
  }

  // The largest loop; other than that over the positions where they may not be cut. -1: none.
  int largest(bool may_cut_axis) const {
    int found = -1;
    for (size_t d = 0; d < loops.size(); ++d)
      if ((may_cut_axis || !loops[d].is_axis) &&
          (found < 0 || loops[d].size > loops[static_cast<size_t>(found)].size))
        found = static_cast<int>(d);
    return found;
  }
};

template <class T>
void copy_row(T* to, int64_t to_step, const T* from, int64_t from_step, int64_t count) {
  if (to_step == 1 && from_step == 1) {
    auto bytes = static_cast<size_t>(count) * sizeof(T);
    asm("" : "+r"(bytes));  // where g++ knows that they are few, it repeats a slow instruction
    std::memcpy(to, from, bytes);
    return;
  }
  for (int64_t i = 0; i < count; ++i) to[i * to_step] = from[i * from_step];
}

// Copies the short rows of a walk in a loop over their positions, each by `copy`. Out of a table
// that is larger than the second cache it asks for later rows early.
template <class Copy>
void gather_rows(const Walk& walk, char* out, const char* x, int32_t threads, const Copy& copy) {
  constexpr int64_t kLine = 64, kAhead = 2048;
  Walk rows = walk;
  const int64_t item = walk.item_bytes, bytes = rows.loops.back().size * item;
  const int64_t step = rows.far_step * item;
  rows.loops.pop_back();
  const int64_t ahead = walk.is_far ? kAhead / bytes + 1 : 0;
  const auto cut = static_cast<size_t>(rows.largest(true));
  const auto copy_rows = [&](const Loop& row, int64_t near, int64_t far, int64_t index) {
    const int64_t* at = rows.positions + index;
    const char* const from = x + far * item;
    char* to = out + near * item;
    const int64_t count = row.size, next = row.near * item, by = row.index;
    for (int64_t i = 0; i < count; ++i, to += next, at += by) {
      if (ahead > 0 && i + ahead < count)
        for (int64_t k = 0; k < bytes; k += kLine)
          __builtin_prefetch(from + at[ahead * by] * step + k, 0, 2);
      copy(to, from + *at * step, bytes);
    }
  };
  for_blocks(rows.loops[cut].size, walk.items * item * 2, threads,
             [&](int32_t, int64_t first, int64_t last) { rows.run(cut, first, last, copy_rows); });
}
void gather_rows(const Walk& walk, char* out, const char* x, int32_t threads) {
  with_copy_of(walk.loops.back().size * walk.item_bytes,
               [&](const auto& copy) { gather_rows(walk, out, x, threads, copy); });
}

template <class T>
void gather(const Walk& walk, T* out, const T* x, int32_t threads) {
  constexpr int64_t kShort = 4096;  // bytes of a row
  if (walk.has_rows() && walk.loops.back().size * walk.item_bytes <= kShort)
    return gather_rows(walk, reinterpret_cast<char*>(out), reinterpret_cast<const char*>(x),
                       threads);
  const auto cut = static_cast<size_t>(walk.largest(true));
  const int64_t count = walk.loops[cut].size, bytes = walk.items * walk.item_bytes * 2;
  for_blocks(count, bytes, threads, [&](int32_t, int64_t first, int64_t last) {
    AskedRows asked = walk.asked_rows();
    walk.run(cut, first, last, [&](const Loop& row, int64_t near, int64_t far, int64_t index) {
      const int64_t* const at = walk.positions + index;
      if (walk.has_rows()) {
        const auto piece = AskedRows::kPiece / int64_t(sizeof(T));
        for (int64_t i = 0, size; i < row.size; i += size) {
          size = std::min(row.size - i, piece);
          asked.take_turn(reinterpret_cast<const char*>(x + far), index, size * int64_t(sizeof(T)));
          copy_row(out + near + i, 1, x + far + *at * walk.far_step + i, 1, size);
        }
        return;
      }
      if (row.index == 0)
        return copy_row(out + near, row.near, x + far + *at * walk.far_step, row.far, row.size);
      if (row.near == 1 && row.far == 0 && row.index == 1 && walk.far_step == 1)
        for (int64_t i = 0; i < row.size; ++i) out[near + i] = x[far + at[i]];
      else
        for (int64_t i = 0; i < row.size; ++i)
          out[near + i * row.near] = x[far + i * row.far + at[i * row.index] * walk.far_step];
    });
  });
}

// Spreads positions over blocks; distances have the factors of their rows.
inline int64_t block_of(int64_t position, int32_t blocks) {
  return int64_t((uint64_t(position) * 0x9e3779b97f4a7c15 >> 33) % uint32_t(blocks));
}

// Copies what positions in equal steps name along the innermost axis, if they are few such runs.
bool copy_progressions(const Walk& walk, const pto_tensor& out, const pto_tensor& x, int axis) {
  constexpr int64_t kShort = 8;  // below, on the average, the loop over positions is as fast
  const bool is_vector = walk.count == out.sizes[axis] && walk.loops.back().is_axis;
  if (!is_vector || walk.count < kShort || walk.far_step == 0) return false;
  const auto all = progressions_of(walk.positions, walk.count, size_t(walk.count / kShort));
  const int64_t item = out.type_bits / 8;
  Sizes sizes{}, strides{};
  std::copy_n(out.sizes, out.rank, sizes.begin());
  std::copy_n(x.strides, out.rank, strides.begin());
  for (const auto& [first, count, start, step] : all) {
    sizes[size_t(axis)] = count;
    strides[size_t(axis)] = step * walk.far_step;
    copy_strided(static_cast<char*>(out.data) + first * out.strides[axis] * item, out.strides,
                 static_cast<const char*>(x.data) + start * walk.far_step * item, strides.data(),
                 sizes.data(), out.rank, int(item));
  }
  return !all.empty();
}

// Whole rows belong to the block that their position names, others to that of their line: no two
// blocks write to one place.
template <class T>
void scatter(const Walk& walk, T* out, const T* part, int32_t threads) {
  const Loop inner = walk.loops.back();
  const bool by_rows = inner.index == 0 && inner.size * walk.item_bytes >= 64;
  const int largest = walk.largest(false);
  const bool by_position = by_rows || largest < 0;
  const auto cut = static_cast<size_t>(by_position ? 0 : largest);
  const int64_t whole = walk.loops[cut].size, bytes = walk.items * walk.item_bytes * 2;
  const int64_t count = by_position ? walk.items / inner.size : whole;
  const int32_t blocks = threads > 1 && (by_rows || !by_position) ? pto_blocks_of(count, bytes) : 1;
  const auto write = [&](int32_t block) {
    const int64_t first = by_position ? 0 : whole * block / blocks,
                  last = by_position ? whole : whole * (block + 1) / blocks;
    walk.run(cut, first, last, [&](const Loop& row, int64_t near, int64_t far, int64_t index) {
      const int64_t* const at = walk.positions + index;
      if (row.index == 0) {
        if (*at < 0 || (by_position && blocks > 1 && block_of(*at, blocks) != block)) return;
        return copy_row(out + far + *at * walk.far_step, row.far, part + near, row.near, row.size);
      }
      for (int64_t i = 0; i < row.size; ++i)
        if (at[i * row.index] >= 0)
          out[far + i * row.far + at[i * row.index] * walk.far_step] = part[near + i * row.near];
    });
  };
  for_blocks(blocks, blocks > 1 ? INT64_MAX : 0, blocks, [&](int32_t, int64_t first, int64_t last) {
    for (int64_t block = first; block < last; ++block) write(static_cast<int32_t>(block));
  });
}

}  // namespace
}  // namespace pto

int32_t pto_gather(pto_services* services, const char* where, const pto_tensor* out,
                   const pto_tensor* x, const pto_tensor* index, int32_t axis, int32_t joined,
                   int32_t threads) try {
  if (pto::elements_of(*out) == 0) return 0;
  const pto::JoinedAxes axes(*x, axis, joined);
  const pto_tensor from = axes.tensor();
  const int64_t size = from.sizes[axis];
  pto::Positions positions(*index, threads, !axes.is_dense());
  if (!positions.has_memory()) return pto_fail_memory(services, where, positions.bytes());
  const int64_t bad = positions.read(0, size);
  if (bad < positions.count())
    return pto_fail_position(services, where, "gather", axis, positions.data()[bad], size, 0);
  if (!axes.is_dense()) positions.change([&](int64_t at) { return axes.distance(at); });
  const pto::Walk walk(*out, from, *index, positions.data(), axis);
  if (pto::copy_progressions(walk, *out, from, axis)) return 0;
  pto::with_width(*out, [&]([[maybe_unused]] auto* type) {
    using T = decltype(type);
    pto::gather(walk, static_cast<T>(out->data), static_cast<T>(from.data), threads);
  });
  return 0;
} catch (const std::bad_alloc&) {
  return pto_fail_memory(services, where, pto::elements_of(*index) * 8);
}

pto_runs pto_runs_of_pages(const pto_tensor* out, const pto_tensor* x, const pto_tensor* index,
                           int32_t joined) {
  const pto::JoinedAxes axes(*x, 0, joined);
  if (!axes.is_dense()) return {};
  const pto_tensor from = axes.tensor();
  int64_t elements = 1;
  for (int axis = from.rank - 1; axis > 0; --axis) {
    if (index->sizes[axis] != 1 || (from.sizes[axis] != 1 && from.strides[axis] != elements))
      return {};
    elements *= from.sizes[axis];
  }
  const int64_t item = from.type_bits / 8, places = index->type_bits / 8, count = out->sizes[0];
  // Who walks the runs reads their places as signed.
  const bool is_plain =
      index->type_code == 0 && places >= 4 && (count <= 1 || index->strides[0] == 1);
  if (!is_plain || from.sizes[0] == 0) return {};
  return {from.data, from.strides[0] * item, elements * item, count, index->data, places, 0};
}

int32_t pto_find_pages(pto_services* services, const char* where, const pto_tensor* out,
                       const pto_tensor* x, const pto_tensor* index, int32_t joined,
                       int32_t threads, pto_pages* pages) {
  const pto_runs runs = pto_runs_of_pages(out, x, index, joined);
  *pages = {out->data, {}};
  if (!runs.data || threads > 1)
    return pto_gather(services, where, out, x, index, 0, joined, threads);
  int64_t size = 1;
  for (int axis = 0; axis < joined; ++axis) size *= x->sizes[axis];
  for (int64_t i = 0; i < runs.count; ++i) {
    const int64_t position = runs.place_bytes == 4 ? static_cast<const int32_t*>(runs.places)[i]
                                                   : static_cast<const int64_t*>(runs.places)[i];
    if (position < 0 || position >= size)
      return pto_fail_position(services, where, "gather", 0, position, size, 0);
  }
  pages->runs = runs;
  return 0;
}

int32_t pto_scatter(pto_services* services, const char* where, const pto_tensor* out,
                    const pto_tensor* index, const pto_tensor* part, int32_t axis, int32_t joined,
                    int32_t adds, int32_t threads) try {
  if (pto::elements_of(*part) == 0) return 0;
  const pto::JoinedAxes axes(*out, axis, joined);
  const pto_tensor to = axes.tensor();
  const int64_t size = to.sizes[axis];
  pto::Positions positions(*index, threads, !axes.is_dense());
  if (!positions.has_memory()) return pto_fail_memory(services, where, positions.bytes());
  const int64_t bad = positions.read(-1, size);
  if (bad < positions.count())
    return pto_fail_position(services, where, adds ? "scatter_add" : "scatter", axis,
                             positions.data()[bad], size, 1);
  if (adds) {
    const pto_tensor at = positions.tensor();
    if (pto_add_at(out, part, &at, axis, threads) == 0) return 0;
    return pto_fail_memory(services, where, pto::elements_of(*out) * 8);
  }
  if (!axes.is_dense()) positions.change([&](int64_t at) { return axes.distance(at); });
  const pto::Walk walk(*part, to, *index, positions.data(), axis);
  pto::with_width(to, [&]([[maybe_unused]] auto* type) {
    using T = decltype(type);
    pto::scatter(walk, static_cast<T>(to.data), static_cast<T>(part->data), threads);
  });
  return 0;
} catch (const std::bad_alloc&) {
  return pto_fail_memory(services, where, pto::elements_of(*index) * 8);
}
