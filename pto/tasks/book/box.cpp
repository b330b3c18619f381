// SPDX-License-Identifier: Apache-2.0
#include "pto/tasks/book/box.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace pto {
namespace {

// The number of runs of one box that overlap() looks up in the other before it answers Unknown.
constexpr int64_t kMostRuns = 4096;

int64_t span_of(const Box& box, int from) {  // bytes from the first byte to one past the last
  int64_t span = box.item;
  for (int k = from; k < box.rank; ++k) span += (box.size[k] - 1) * box.stride[k];
  return span;
}

int64_t runs_of(const Box& box) {
  int64_t runs = 1;
  for (int k = 0; k < box.rank && runs <= kMostRuns; ++k) runs *= box.size[k];
  return runs;
}

// Says whether the box's dimensions from `k` on, shifted to `offset`, touch [begin, end).
bool touches(const Box& box, int k, int64_t offset, int64_t begin, int64_t end) {
  const int64_t last = offset + span_of(box, k);
  if (last <= begin || end <= offset) return false;
  if (k == box.rank) return true;
  if (begin <= offset && last <= end) return true;
  const int64_t stride = box.stride[k], inner = span_of(box, k + 1);
  // Rows i with offset + i * stride < end and offset + i * stride + inner > begin.
  const int64_t low = begin - offset - inner;
  const int64_t first = low < 0 ? 0 : low / stride + 1;
  const int64_t behind = std::min(box.size[k], (end - offset + stride - 1) / stride);
  for (int64_t i = first; i < behind; ++i) {
    if (touches(box, k + 1, offset + i * stride, begin, end)) return true;
    // If rows do not overlap each other, the interval contains every candidate between the first
    // and the last, so one of them is enough.
    if (inner <= stride && i == first && behind - first > 3) i = behind - 3;
  }
  return false;
}

// Calls f(begin) for the runs of the box until it returns true.
template <class F>
bool any_run(const Box& box, int k, int64_t offset, const F& f) {
  if (k == box.rank) return f(offset);
  for (int64_t i = 0; i < box.size[k]; ++i)
    if (any_run(box, k + 1, offset + i * box.stride[k], f)) return true;
  return false;
}

// Both boxes lie on one lattice, apart by less than its smallest step allows.
bool lattices_miss(const Box& a, const Box& b) {
  int64_t step = 0;
  for (int k = 0; k < a.rank; ++k) step = std::gcd(step, a.stride[k]);
  for (int k = 0; k < b.rank; ++k) step = std::gcd(step, b.stride[k]);
  if (step == 0) return false;
  const int64_t apart = ((b.offset - a.offset) % step + step) % step;  // of the runs' starts
  return apart >= a.item && step - apart >= b.item;
}

}  // namespace

bool coordinates(const Box& box, Coordinates* out) {
  int64_t rest = box.offset;
  for (int k = 0; k <= box.rank; ++k) {
    if (k > 0 && rest + span_of(box, k) > box.stride[k - 1]) return false;
    out->at[k] = k < box.rank ? rest / box.stride[k] : rest;
    if (k < box.rank) rest %= box.stride[k];
  }
  return true;
}

bool same_strides(const Box& a, const Box& b) {
  return a.rank == b.rank && std::equal(a.stride, a.stride + a.rank, b.stride);
}

int64_t Box::end() const { return offset + span_of(*this, 0); }

bool Box::operator==(const Box& other) const {
  return offset == other.offset && item == other.item && same_strides(*this, other) &&
         std::equal(size, size + rank, other.size);
}

Box make_box(int64_t offset_bytes, std::span<const int64_t> sizes, std::span<const int64_t> strides,
             int64_t item_bytes) {
  struct Dim {
    int64_t size, stride;
  } dims[PTO_MAX_RANK];
  int rank = 0;
  Box box;
  box.offset = offset_bytes;
  box.item = item_bytes;
  for (size_t k = 0; k < sizes.size(); ++k) {
    if (sizes[k] == 0) return Box{};
    int64_t stride = strides[k] * item_bytes;
    if (sizes[k] == 1 || stride == 0) continue;
    if (stride < 0) {
      box.offset += (sizes[k] - 1) * stride;
      stride = -stride;
    }
    dims[rank++] = {sizes[k], stride};
  }
  if (rank == 0) return box;
  for (int k = 1; k < rank; ++k)  // insertion sort beats std::sort on so few
    for (int j = k; j > 0 && dims[j - 1].stride < dims[j].stride; --j)
      std::swap(dims[j - 1], dims[j]);
  while (rank > 0 && dims[rank - 1].stride <= box.item) {  // contiguous, or overlapping itself
    box.item += (dims[rank - 1].size - 1) * dims[rank - 1].stride;
    --rank;
  }
  for (int k = 0; k < rank; ++k) {
    // Merges a dimension whose rows follow those of the next one without a gap.
    if (box.rank > 0 && box.stride[box.rank - 1] == dims[k].size * dims[k].stride) {
      box.size[box.rank - 1] *= dims[k].size;
      box.stride[box.rank - 1] = dims[k].stride;
    } else {
      box.size[box.rank] = dims[k].size;
      box.stride[box.rank++] = dims[k].stride;
    }
  }
  return box;
}

Overlap overlap(const Box& a, const Box& b) {
  if (a.is_empty() || b.is_empty() || a.end() <= b.offset || b.end() <= a.offset)
    return Overlap::None;
  if (a.rank == 0 && b.rank == 0) return Overlap::Some;
  Coordinates left, right;
  if (same_strides(a, b) && coordinates(a, &left) && coordinates(b, &right)) {
    for (int k = 0; k <= a.rank; ++k) {
      const int64_t apart = right.at[k] - left.at[k];
      const int64_t reach = k < a.rank ? a.size[k] : a.item, back = k < a.rank ? b.size[k] : b.item;
      if (apart >= reach || -apart >= back) return Overlap::None;
    }
    return Overlap::Some;
  }
  if (lattices_miss(a, b)) return Overlap::None;
  const bool is_a_smaller = runs_of(a) <= runs_of(b);
  const Box &small = is_a_smaller ? a : b, &large = is_a_smaller ? b : a;
  if (runs_of(small) > kMostRuns) return Overlap::Unknown;
  const bool is_met = any_run(small, 0, small.offset, [&](int64_t begin) {
    return touches(large, 0, large.offset, begin, begin + small.item);
  });
  return is_met ? Overlap::Some : Overlap::None;
}

bool covers(const Box& a, const Box& b) {
  if (b.is_empty() || a == b) return true;
  if (a.rank == 0) return a.offset <= b.offset && b.end() <= a.offset + a.item;
  Coordinates left, right;
  if (!same_strides(a, b) || !coordinates(a, &left) || !coordinates(b, &right)) return false;
  for (int k = 0; k <= a.rank; ++k) {
    const int64_t inside = right.at[k] - left.at[k];
    const int64_t have = k < a.rank ? a.size[k] : a.item, need = k < a.rank ? b.size[k] : b.item;
    if (inside < 0 || inside + need > have) return false;
  }
  return true;
}

}  // namespace pto
