// SPDX-License-Identifier: Apache-2.0
// Positions: the elements of an index, checked, as i64 in row-major order.
//
//     Positions positions(index, threads);
//     if (positions.read(0, size) < positions.count()) ...   // the first one that does not exist
//     positions.data()[k];
//
// Thread safety: an object belongs to one thread; it reads on the threads that it is given.
#pragma once
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <new>

#include "pto/abi/program.h"
#include "pto/base/strided.hpp"

namespace pto {

// Cuts [0, count) into blocks and runs f(block, first, last), on other threads where that pays.
// Throws std::bad_alloc where a block found no memory.
template <class F>
void for_blocks(int64_t count, int64_t bytes, int32_t threads, const F& f) {
  struct Job {
    const F& f;
    int64_t count;
    int32_t blocks;
  } job{f, count, threads > 1 ? pto_blocks_of(count, bytes) : 1};
  const int32_t code = pto_parallel(
      job.blocks,
      [](void* self, int32_t block) -> int32_t {
        const Job& all = *static_cast<const Job*>(self);
        all.f(block, all.count * block / all.blocks, all.count * (block + 1) / all.blocks);
        return 0;
      },
      &job);
  if (code != 0) throw std::bad_alloc();
}

// Calls f with a pointer of the type of an index.
template <class F>
void with_index(const pto_tensor& index, const F& f) {
  const bool is_signed = index.type_code == 0;
  const void* const p = index.data;
  switch (index.type_bits) {
    case 8:
      return is_signed ? f(static_cast<const int8_t*>(p)) : f(static_cast<const uint8_t*>(p));
    case 16:
      return is_signed ? f(static_cast<const int16_t*>(p)) : f(static_cast<const uint16_t*>(p));
    case 32:
      return is_signed ? f(static_cast<const int32_t*>(p)) : f(static_cast<const uint32_t*>(p));
    default:
      return f(static_cast<const int64_t*>(p));
  }
}

inline int64_t elements_of(const pto_tensor& x) {
  int64_t count = 1;
  for (int axis = 0; axis < x.rank; ++axis) count *= x.sizes[axis];
  return count;
}

// The elements of an index as i64 in row-major order: its own memory, or a copy.
class Positions {
 public:
  static constexpr int64_t kRun = 4096;  // positions that are checked, then copied

  // `is_changed`: they are a copy in each case.
  Positions(const pto_tensor& index, int32_t threads, bool is_changed = false)
      : index_(index), count_(elements_of(index)), threads_(threads) {
    const bool lies_so = !is_changed && index.type_code == 0 && index.type_bits == 64 &&
                         is_contiguous(index.rank, index.sizes, index.strides);
    dense_strides(index.rank, index.sizes, strides_.data());
    if (lies_so) return;
    copy_ = static_cast<int64_t*>(pto_malloc(static_cast<size_t>(std::max<int64_t>(bytes(), 8))));
    has_memory_ = copy_ != nullptr;
  }
  Positions(const Positions&) = delete;
  Positions& operator=(const Positions&) = delete;
  ~Positions() { pto_free(copy_); }

  bool has_memory() const { return has_memory_; }
  int64_t bytes() const { return count_ * 8; }
  const int64_t* data() const {
    return copy_ != nullptr ? copy_ : static_cast<const int64_t*>(index_.data);
  }

  // Reads the positions, and returns the first one outside of [least, size) and where it stands in
  // the index, or `count`.
  int64_t read(int64_t least, int64_t size) {
    std::atomic<int64_t> bad{count_};
    with_index(index_, [&](auto* from) {
      for_blocks(count_, count_ * 16, threads_, [&](int32_t, int64_t first, int64_t last) {
        const int64_t found = read_range(from, first, last, least, size);
        int64_t known = bad.load();
        while (found < known && !bad.compare_exchange_weak(known, found)) continue;
      });
    });
    return bad.load();
  }
  // Changes those that are at least 0.
  template <class F>
  void change(const F& changed) {
    for (int64_t k = 0; k < count_; ++k)
      if (copy_[k] >= 0) copy_[k] = changed(copy_[k]);
  }
  int64_t count() const { return count_; }
  // As long as this object lives.
  pto_tensor tensor() const {
    pto_tensor all = index_;
    all.data = const_cast<int64_t*>(data());
    all.strides = strides_.data();
    return all;
  }

 private:
  template <class T>
  int64_t read_range(const T* from, int64_t first, int64_t last, int64_t least, int64_t size) {
    int rank = index_.rank;
    while (rank > 1 && index_.sizes[rank - 1] == 1) --rank;
    const int64_t inner = index_.sizes[rank - 1], step = index_.strides[rank - 1];
    int64_t bad = count_;
    for (int64_t i = first; i < last;) {
      int64_t row = i / inner, place = i % inner * step;
      for (int axis = rank - 2; axis >= 0; --axis) {
        place += row % index_.sizes[axis] * index_.strides[axis];
        row /= index_.sizes[axis];
      }
      const int64_t end = std::min({last, i - i % inner + inner, i + kRun});
      if (is_outside(from + place, step, end - i, least, size))
        for (int64_t k = i; k < end && bad == count_; ++k) {
          const auto at = static_cast<int64_t>(from[place + (k - i) * step]);
          if (at < least || at >= size) bad = k;
        }
      for (int64_t k = i; copy_ != nullptr && k < end; ++k)
        copy_[k] = static_cast<int64_t>(from[place + (k - i) * step]);
      i = end;
    }
    return bad;
  }

  // A position outside has the sign in one of the two differences, which may wrap.
  template <class T>
  static bool is_outside(const T* from, int64_t step, int64_t count, int64_t least, int64_t size) {
    const auto first = static_cast<uint64_t>(least), last = static_cast<uint64_t>(size) - 1;
    uint64_t signs = 0;
    const auto look = [&](int64_t place) {
      const auto at = static_cast<uint64_t>(static_cast<int64_t>(from[place]));
      signs |= (at - first) | (last - at);
    };
    if (step == 1)
      for (int64_t k = 0; k < count; ++k) look(k);
    else
      for (int64_t k = 0; k < count; ++k) look(k * step);
    return static_cast<int64_t>(signs) < 0;
  }

  const pto_tensor& index_;
  const int64_t count_;
  const int32_t threads_;
  std::array<int64_t, PTO_MAX_RANK> strides_{};
  int64_t* copy_ = nullptr;
  bool has_memory_ = true;
};

}  // namespace pto
