// SPDX-License-Identifier: Apache-2.0
// pto_sort (abi/program.h): sorts rows by integer keys that have the order of the elements. Each
// key stands beside its position, so no two entries are equal and any sort keeps the order of equal
// elements. Where the caller wants few elements of a row, a sample of the row gives a limit, and
// only elements within it are sorted.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <type_traits>

#include "pto/abi/program.h"
#include "pto/base/dtype.hpp"

namespace pto {
namespace {

constexpr int64_t kLeastOfRadix = 256;  // elements for which counting beats comparing
constexpr int64_t kFew = 4;             // elements of a row for each wanted one, to select first
constexpr int64_t kMostOfHeap = 64;     // wanted elements that a heap selects, else a limit
constexpr int64_t kBetweenSamples = 32;
constexpr int64_t kLine = 64;         // bytes of a cache line
constexpr int64_t kCopies = 1 << 20;  // bytes of rows that are copied at once

// Returns an integer in the order of the elements, from their bits.
template <class U>
U key_of(U bits, uint8_t code) {
  constexpr U kSign = static_cast<U>(U(1) << (8 * sizeof(U) - 1));
  if (code == 0) return bits ^ kSign;
  if (code != 2 && code != 4) return bits;
  constexpr int kWide = sizeof(U) == 8 ? 11 : sizeof(U) == 4 ? 8 : 5;
  const int exponent_bits = code == 4 ? 8 : kWide;
  const auto infinity = static_cast<U>(((U(1) << exponent_bits) - 1)
                                       << (8 * sizeof(U) - 1 - static_cast<size_t>(exponent_bits)));
  const auto size = static_cast<U>(bits & ~kSign);
  const U is_below = size != 0 ? static_cast<U>(bits >> (8 * sizeof(U) - 1)) : U(0);  // zero
  const U is_nan = size > infinity;
  const auto turned = static_cast<U>((bits & ~kSign) ^ static_cast<U>(U(0) - is_below));
  return static_cast<U>((turned ^ kSign) | static_cast<U>(U(0) - is_nan));
}

// An element on its way: a key of at most 32 bits shares one integer with its position.
struct Short {
  static constexpr int kLowest = 4;  // byte of the key
  uint64_t bits;
  Short() = default;
  Short(uint64_t key, int64_t place) : bits(key << 32 | static_cast<uint64_t>(place)) {}
  int64_t place() const { return static_cast<int64_t>(bits & 0xffffffffu); }
  uint64_t key() const { return bits; }
  uint64_t short_key() const { return bits >> 32; }
  friend bool operator<(Short a, Short b) { return a.bits < b.bits; }
};
struct Long {
  static constexpr int kLowest = 0;
  uint64_t whole;
  int64_t at;
  Long() = default;
  Long(uint64_t key, int64_t place) : whole(key), at(place) {}
  int64_t place() const { return at; }
  uint64_t key() const { return whole; }
  uint64_t short_key() const { return whole; }
  friend bool operator<(const Long& a, const Long& b) {
    return a.whole != b.whole ? a.whole < b.whole : a.at < b.at;
  }
};

// Sorts `count` entries by the bytes of their keys, from the lowest on; returns where they lie.
template <class Entry>
Entry* sort_by_bytes(Entry* from, Entry* to, int64_t count, int key_bytes) {
  int64_t counts[8][256] = {};
  for (int64_t i = 0; i < count; ++i)
    for (int b = 0; b < key_bytes; ++b)
      ++counts[b][from[i].key() >> (8 * (Entry::kLowest + b)) & 255];
  for (int b = 0; b < key_bytes; ++b) {
    const int shift = 8 * (Entry::kLowest + b);
    if (counts[b][from[0].key() >> shift & 255] == count) continue;  // the same in all
    int64_t next = 0, starts[256];
    for (int value = 0; value < 256; ++value) starts[value] = next, next += counts[b][value];
    for (int64_t i = 0; i < count; ++i) to[starts[from[i].key() >> shift & 255]++] = from[i];
    std::swap(from, to);
  }
  return from;
}

// The keys of one row.
template <class U>
class Keys {
 public:
  static constexpr int64_t kBlock = 256;

  Keys(const U* from, int64_t step, uint8_t code, U turn)
      : from_(from), step_(step), code_(code), turn_(turn) {}

  U operator()(int64_t i) const { return static_cast<U>(key_of(from_[i * step_], code_) ^ turn_); }

  // Calls f(first, count, keys) for runs of at most kBlock of the first `size` keys.
  template <class F>
  void each_run(int64_t size, const F& f) const {
    U keys[kBlock];
    for (int64_t first = 0; first < size; first += kBlock) {
      const int64_t count = std::min(kBlock, size - first);
      switch (code_) {  // for each a loop without branches
        case 0:
          make<0>(first, count, keys);
          break;
        case 2:
          make<2>(first, count, keys);
          break;
        case 4:
          make<4>(first, count, keys);
          break;
        default:
          make<1>(first, count, keys);
      }
      f(first, count, keys);
    }
  }
  template <class F>
  void each(int64_t size, const F& f) const {
    each_run(size, [&](int64_t first, int64_t count, const U* keys) {
      for (int64_t i = 0; i < count; ++i) f(first + i, keys[i]);
    });
  }

 private:
  template <uint8_t code>
  void make(int64_t first, int64_t count, U* keys) const {
    const U* const from = from_ + first * step_;
    if (step_ == 1)
      for (int64_t i = 0; i < count; ++i) keys[i] = static_cast<U>(key_of(from[i], code) ^ turn_);
    else
      for (int64_t i = 0; i < count; ++i)
        keys[i] = static_cast<U>(key_of(from[i * step_], code) ^ turn_);
  }

  const U* const from_;
  const int64_t step_;
  const uint8_t code_;
  const U turn_;
};

// Selects the entries of the `most` least keys in their order: a heap of the least so far, whose
// largest one most keys are not below.
template <class U, class Entry>
void select_least(const Keys<U>& keys, int64_t size, int64_t most, Entry* heap) {
  constexpr int64_t kAtOnce = 16;
  int64_t held = 0;
  U limit = 0;
  const auto take = [&](int64_t place, U key) {
    if (held < most) {
      heap[held++] = Entry(key, place);
      if (held < most) return;
      std::make_heap(heap, heap + most);
    } else if (key < limit) {  // equal ones stay, since their places are lower
      std::pop_heap(heap, heap + most);
      heap[most - 1] = Entry(key, place);
      std::push_heap(heap, heap + most);
    } else {
      return;
    }
    limit = static_cast<U>(heap[0].short_key());
  };
  keys.each_run(size, [&](int64_t first, int64_t count, const U* run) {
    for (int64_t i = 0; i < count; i += kAtOnce) {
      const int64_t end = std::min(i + kAtOnce, count);
      bool is_any = held < most;
      for (int64_t j = i; j < end; ++j) is_any |= run[j] < limit;
      for (int64_t j = i; is_any && j < end; ++j) take(first + j, run[j]);
    }
  });
  std::sort_heap(heap, heap + held);
}

// Collects the entries of the `most` least keys and few others: those within a limit that a sample
// of the keys gives, or all where that limit was too low. Returns their number.
template <class U, class Entry>
int64_t collect_least(const Keys<U>& key, int64_t size, int64_t most, Entry* entries) {
  U* const sample = reinterpret_cast<U*>(entries);
  const int64_t sampled = size / kBetweenSamples;
  const double expected = static_cast<double>(most) / kBetweenSamples;
  const int64_t beyond = static_cast<int64_t>(expected + 4 * std::sqrt(expected)) + 1;
  if (beyond < sampled) {
    for (int64_t i = 0; i < sampled; ++i) sample[i] = key(i * kBetweenSamples);
    std::nth_element(sample, sample + beyond, sample + sampled);
    const U limit = sample[beyond];
    int64_t found = 0;
    key.each(size, [&](int64_t i, U one) {
      entries[found] = Entry(one, i);
      found += one <= limit;
    });
    if (found >= most) return found;
  }
  key.each(size, [&](int64_t i, U one) { entries[i] = Entry(one, i); });
  return size;
}

struct RowsInOrder {
  const pto_tensor *values, *positions, *x;
  bool is_descending;
  int64_t count = 1, size, most;
  int32_t blocks;

  const char* element(const pto_tensor& of, int64_t row) const {
    int64_t place = 0;
    for (int axis = of.rank - 2; axis >= 0; --axis) {
      place += row % x->sizes[axis] * of.strides[axis];
      row /= x->sizes[axis];
    }
    return static_cast<const char*>(of.data) + place * (of.type_bits / 8);
  }

  // Sorts all entries of a row, or few that contain the wanted ones; returns where they lie.
  template <class U, class Entry>
  Entry* sorted(const Keys<U>& keys, bool are_few, Entry* entries) const {
    const int64_t found = collect_least(keys, size, are_few ? most : size, entries);
    if (found >= kLeastOfRadix) return sort_by_bytes(entries, entries + found, found, sizeof(U));
    std::sort(entries, entries + found);
    return entries;
  }

  template <class U, class Entry>
  void sort_row(int64_t row, const U* from, int64_t step, Entry* entries) const {
    const auto turn = static_cast<U>(is_descending ? ~U(0) : U(0));
    const Keys<U> keys(from, step, x->type_code, turn);
    const bool are_few = most <= size / kFew;
    if (are_few && most <= kMostOfHeap)
      select_least(keys, size, most, entries);
    else
      entries = sorted<U>(keys, are_few, entries);
    if (values != nullptr) {
      auto* const to = const_cast<U*>(reinterpret_cast<const U*>(element(*values, row)));
      const int64_t by = values->strides[x->rank - 1];
      for (int64_t i = 0; i < most; ++i) to[i * by] = from[entries[i].place() * step];
    }
    if (positions != nullptr) {
      auto* const to =
          const_cast<int64_t*>(reinterpret_cast<const int64_t*>(element(*positions, row)));
      const int64_t by = positions->strides[x->rank - 1];
      for (int64_t i = 0; i < most; ++i) to[i * by] = entries[i].place();
    }
  }

  template <class U, class Entry>
  int32_t sort_rows(int64_t first, int64_t last) const {
    const std::unique_ptr<void, void (*)(void*)> memory(
        pto_malloc(static_cast<size_t>(memory_bytes())), pto_free);
    if (memory == nullptr) return 1;
    auto* const entries = static_cast<Entry*>(memory.get());
    auto* const copies = reinterpret_cast<U*>(static_cast<char*>(memory.get()) + entry_bytes());
    const int64_t step = x->strides[x->rank - 1], many = copied_rows();
    for (int64_t row = first; row < last;) {
      const auto* const from = reinterpret_cast<const U*>(element(*x, row));
      if (many == 0) {
        sort_row<U>(row++, from, step, entries);
        continue;
      }
      const int64_t beside = x->sizes[x->rank - 2], apart = row_elements(),
                    now = std::min({many, last - row, beside - row % beside});
      for (int64_t i = 0; i < size; ++i)
        for (int64_t k = 0; k < now; ++k) copies[k * apart + i] = from[i * step + k];
      for (int64_t k = 0; k < now; ++k) sort_row<U>(row++, copies + k * apart, 1, entries);
    }
    return 0;
  }

  // The number of neighbouring rows that are copied before they are sorted, since their elements
  // share cache lines; 0: rows are read where they lie.
  int64_t copied_rows() const {
    const int rank = x->rank;
    if (rank < 2 || x->strides[rank - 2] != 1 || std::abs(x->strides[rank - 1]) <= 1) return 0;
    const int64_t many = std::min(kLine / item_bytes(), kCopies / (row_elements() * item_bytes()));
    return many < 4 ? 0 : many;
  }
  // Copies of rows do not lie a power of two apart, where they would share few places of a cache.
  int64_t row_elements() const { return size + kLine / item_bytes(); }
  int64_t item_bytes() const { return x->type_bits / 8; }

  int64_t entry_bytes() const { return size * 2 * static_cast<int64_t>(sizeof(Long)); }
  int64_t memory_bytes() const {
    return entry_bytes() + copied_rows() * row_elements() * item_bytes();
  }

  int32_t sort_block(int32_t block) const {
    const int64_t first = count * block / blocks, last = count * (block + 1) / blocks;
    const bool is_long = size > UINT32_MAX;
    switch (x->type_bits) {
      case 8:
        return is_long ? sort_rows<uint8_t, Long>(first, last)
                       : sort_rows<uint8_t, Short>(first, last);
      case 16:
        return is_long ? sort_rows<uint16_t, Long>(first, last)
                       : sort_rows<uint16_t, Short>(first, last);
      case 32:
        return is_long ? sort_rows<uint32_t, Long>(first, last)
                       : sort_rows<uint32_t, Short>(first, last);
      default:
        return sort_rows<uint64_t, Long>(first, last);
    }
  }
};

}  // namespace
}  // namespace pto

int32_t pto_sort(pto_services* services, const char* where, const pto_tensor* values,
                 const pto_tensor* positions, const pto_tensor* x, int64_t most, int32_t descending,
                 int32_t threads) {
  constexpr int64_t kWork = 64;  // of an element, in bytes of traffic
  pto::RowsInOrder rows{.values = values,
                        .positions = positions,
                        .x = x,
                        .is_descending = descending != 0,
                        .size = x->sizes[x->rank - 1],
                        .most = std::min(most, x->sizes[x->rank - 1]),
                        .blocks = 1};
  for (int axis = 0; axis + 1 < x->rank; ++axis) rows.count *= x->sizes[axis];
  if (rows.count == 0 || rows.most == 0) return 0;
  if (threads > 1) rows.blocks = pto_blocks_of(rows.count, rows.count * rows.size * kWork);
  const auto run = [](void* self, int32_t block) -> int32_t {
    return static_cast<const pto::RowsInOrder*>(self)->sort_block(block);
  };
  if (pto_parallel(rows.blocks, run, &rows) == 0) return 0;
  return pto_fail_memory(services, where, rows.memory_bytes());
}
