// SPDX-License-Identifier: Apache-2.0
// Sort: sorts blocks of 32, and merges sorted lists.
//
//     TSORT32(records, values, indices);              // each block of 32, descending
//     TMRGSORT(records2, records, 64);                // groups of four blocks of 64 floats
//     TMRGSORT<D, T, S, S, S, S, false>(d, counts, tmp, s0, s1, s2, s3);
//
// A record has 8 bytes: a float and its index, or a half, a zero half and the index.
//
// Invariant: the order is total and the same everywhere: NaN first (the negative ones before the
// others), then values descending with +0 before -0, equal values by ascending index. Every output
// is a permutation of its input.
// Thread safety: a tile belongs to one thread.
#pragma once
#include "pto/isa/cpu/sort_network.hpp"
#include "pto/isa/elementwise/elementwise.hpp"

PTO_NAMESPACE_BEGIN

// Counts the records of each list that a merge has taken.
struct MrgSortExecutedNumList {
  uint16_t mrgSortList0, mrgSortList1, mrgSortList2, mrgSortList3;
};

namespace detail {

using Keys = Vec<int64_t, lanes::kSortLanes>;
constexpr int kKeyLanes = lanes::kSortLanes;

// A value's bits, those of a half above 16 zeros, and the numbers of NaN of one sign among them.
template <class T>
using SortBits = typename Choose<kSame<T, half>, uint16_t, uint32_t>::type;
template <class T>
constexpr int kSortShift = 32 - 8 * int(sizeof(T));
template <class T>
constexpr uint32_t kNanBits = kSame<T, half> ? 0x3ffffffu : 0x7fffffu;

// Makes keys. Above: the value's bits as a signed integer that grows with it, moved so that NaN of
// both signs wraps to the top; below: the complement of the index.
template <class T, int N>
PTO_INLINE Vec<int64_t, N> make_keys(Vec<uint32_t, N> values, Vec<uint32_t, N> indices) {
  using I = Vec<int32_t, N>;
  using U = Vec<uint32_t, N>;
  const I bits = bit_cast<I>(values << kSortShift<T>);
  const I ordered = bit_cast<I>(bit_cast<U>(bits ^ ((bits >> 31) & 0x7fffffff)) - kNanBits<T>);
  return (lanes::convert<int64_t>(ordered) << 32) | lanes::convert<int64_t>(~indices);
}
template <class T, int N>
PTO_INLINE Vec<uint32_t, N> key_values(Vec<int64_t, N> keys) {
  using I = Vec<int32_t, N>;
  using U = Vec<uint32_t, N>;
  const I ordered = lanes::convert<int32_t>(keys >> 32);
  const I moved = bit_cast<I>(bit_cast<U>(ordered) + kNanBits<T>);
  return bit_cast<U>(moved ^ ((moved >> 31) & 0x7fffffff)) >> kSortShift<T>;
}

// Converts records and keys, N at a time. A record's value is its low half (float) or quarter
// (half).
template <class T, int N>
PTO_INLINE Vec<int64_t, N> keys_of_records(Vec<int64_t, N> records) {
  const auto indices = lanes::convert<uint32_t>(bit_cast<Vec<uint64_t, N>>(records) >> 32);
  return make_keys<T, N>(lanes::convert<uint32_t>(records), indices);
}
template <class T, int N>
PTO_INLINE Vec<int64_t, N> records_of_keys(Vec<int64_t, N> keys) {
  using U = Vec<uint64_t, N>;
  const U index = bit_cast<U>(~keys) << 32;
  return bit_cast<Vec<int64_t, N>>(lanes::convert<uint64_t>(key_values<T, N>(keys)) | index);
}

template <class T>
constexpr int kRecordElements = 8 / int(sizeof(T));

template <class D, class S>
constexpr bool check_records() {
  using T = typename D::DType;
  static_assert(kSame<T, float> || kSame<T, half>,
                "TSORT32, TMRGSORT: values must be float or half; convert with TCVT");
  static_assert(kSame<T, typename S::DType>,
                "TSORT32, TMRGSORT: source and destination must have the same element type; "
                "convert with TCVT");
  static_assert(kIsRows<D, S>,
                "TSORT32, TMRGSORT: tiles must be row-major and unboxed; transpose with TTRANS");
  return true;
}

// Up to 32 elements that sort together: their place, and the place of their records.
template <class T>
struct SortBlock {
  const T* values;
  const uint32_t* indices;
  T* records;
  int count, room;  // elements; records that fit
};

// Sorts L blocks at once, a lane for each: load, transpose, sort 32 vectors, transpose, store.
template <class T>
__attribute__((noinline)) void sort_blocks(const SortBlock<T>* blocks, int n) {
  constexpr int L = kKeyLanes;
  Keys v[32];
  const Keys lowest_key = lanes::splat<Keys>(lowest<int64_t>());
  for (int i = 0; i < 32; i += L) {
    for (int b = 0; b < L; ++b) {
      const int left = b < n ? blocks[b].count - i : 0;
      const auto* values = reinterpret_cast<const SortBits<T>*>(blocks[b].values) + i;
      if (left >= L)
        v[i + b] = make_keys<T, L>(lanes::convert<uint32_t>(lanes::load<L>(values)),
                                   lanes::load<L>(blocks[b].indices + i));
      else if (left > 0)
        v[i + b] = lanes::select(
            lanes::first<Keys>(left),
            make_keys<T, L>(lanes::convert<uint32_t>(lanes::load_part<L>(values, left)),
                            lanes::load_part<L>(blocks[b].indices + i, left)),
            lowest_key);
      else
        v[i + b] = lowest_key;
    }
    lanes::transpose(v + i);
  }
  lanes::sort_descending_32(v);
  for (int i = 0; i < 32; i += L) {
    lanes::transpose(v + i);
    for (int b = 0; b < n; ++b) {
      const int left = (blocks[b].count < blocks[b].room ? blocks[b].count : blocks[b].room) - i;
      auto* to = reinterpret_cast<int64_t*>(blocks[b].records) + i;
      if (left >= L)
        lanes::store<L>(to, records_of_keys<T, L>(v[i + b]));
      else if (left > 0)
        lanes::store_part<L>(to, records_of_keys<T, L>(v[i + b]), left);
    }
  }
}

template <class D, class S, class I>
PTO_INLINE void sort_rows(D& d, const S& s, const I& indices) {
  using T = typename S::DType;
  constexpr int L = kKeyLanes;
  SortBlock<T> blocks[L];
  int n = 0;
  const int cols = s.GetValidCol();
  for (int r = 0; r < s.GetValidRow(); ++r)
    for (int c = 0; c < cols; c += 32) {
      const int row = indices.GetValidRow() > 1 ? r : 0;
      blocks[n++] = {s.data() + S::Offset(r, c), indices.data() + I::Offset(row, c),
                     d.data() + D::Offset(r, c * kRecordElements<T>), cols - c < 32 ? cols - c : 32,
                     D::Cols / kRecordElements<T> - c};
      if (n == L) sort_blocks(blocks, n), n = 0;
    }
  if (n) sort_blocks(blocks, n);
}

// --- merges ------------------------------------------------------------------------------------

// Lists stand in buffers of their own with this much room behind them.
constexpr int kMergeStep = lanes::kMergeStep;
constexpr PTO_INLINE int list_room(int keys) {
  return (keys + 2 * kMergeStep - 1) / kMergeStep * kMergeStep;
}

template <class T>
__attribute__((noinline)) void load_list(int64_t* keys, const T* records, int count) {
  constexpr int L = kKeyLanes;
  const auto* from = reinterpret_cast<const int64_t*>(records);
  int i = 0;
  for (; i + L <= count; i += L)
    lanes::store<L>(keys + i, keys_of_records<T, L>(lanes::load<L>(from + i)));
  if (i < count)
    lanes::store<L>(keys + i, keys_of_records<T, L>(lanes::load_part<L>(from + i, count - i)));
  lanes::end_list(keys, count);
}
template <class T>
__attribute__((noinline)) void store_list(T* records, const int64_t* keys, int count) {
  constexpr int L = kKeyLanes;
  auto* to = reinterpret_cast<int64_t*>(records);
  int i = 0;
  for (; i + L <= count; i += L)
    lanes::store<L>(to + i, records_of_keys<T, L>(lanes::load<L>(keys + i)));
  if (i < count)
    lanes::store_part<L>(to + i, records_of_keys<T, L>(lanes::load<L>(keys + i)), count - i);
}

// Sorted lists of records; lists beyond the last have count 0.
template <class T>
struct SortedLists {
  const T* records[4];
  int count[4];
  PTO_INLINE int total() const { return count[0] + count[1] + count[2] + count[3]; }
};

// Writes the first `most` records of the merge of up to four lists. It reads all before it writes.
template <class T>
void merge_lists(T* d, const SortedLists<T>& lists, int most) {
  int count[4], start[5] = {0}, total = 0;
  for (int i = 0; i < 4; ++i) {
    count[i] = lists.count[i] < most ? lists.count[i] : most;
    start[i + 1] = start[i] + list_room(count[i]);
    total += count[i];
  }
  if (total < most) most = total;
  if (most <= 0) return;
  const int pair01 = count[0] + count[1] < most ? count[0] + count[1] : most;
  const int pair23 = count[2] + count[3] < most ? count[2] + count[3] : most;
  const int room01 = list_room(pair01), room23 = list_room(pair23);
  const Room<int64_t> buffer(size_t(start[4] + room01 + room23 + list_room(most)));
  int64_t* const keys = buffer.get();
  for (int i = 0; i < 4; ++i) load_list(keys + start[i], lists.records[i], count[i]);
  int64_t *left = keys + start[4], *right = left + room01, *merged = right + room23;
  if (pair23 == 0) {
    lanes::merge_descending({left, pair01, keys, count[0], keys + start[1], count[1]});
    merged = left;
  } else {
    lanes::merge_both({left, pair01, keys, count[0], keys + start[1], count[1]},
                      {right, pair23, keys + start[2], count[2], keys + start[3], count[3]});
    lanes::end_list(left, pair01);
    lanes::end_list(right, pair23);
    lanes::merge_descending({merged, most, left, pair01, right, pair23});
  }
  store_list(d, merged, most);
}

// Returns the key of record i.
template <class T>
PTO_INLINE int64_t record_key(const T* records, int i) {
  using One = Vec<int64_t, 2>;
  int64_t record;
  __builtin_memcpy(&record, records + i * kRecordElements<T>, sizeof(record));
  return keys_of_records<T, 2>(lanes::splat<One>(record))[0];
}
template <class T>
int records_from(const T* records, int count, int64_t key) {
  int low = 0, high = count;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (record_key(records, middle) >= key)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

// Finds the part of each list that a stopped merge takes: all keys at or above the last one taken.
// Equal keys (the same value and index) go to the lower list first.
template <class T>
void cut_lists(SortedLists<T>& lists, int64_t last_key, int taken) {
  int excess = -taken;
  for (int i = 0; i < 4; ++i) {
    lists.count[i] = records_from(lists.records[i], lists.count[i], last_key);
    excess += lists.count[i];
  }
  for (int i = 3; i >= 0 && excess > 0; --i)
    while (excess > 0 && lists.count[i] > 0 &&
           record_key(lists.records[i], lists.count[i] - 1) == last_key)
      --lists.count[i], --excess;
}

// Stops at the first list that ends: the one whose last record comes first.
template <class T>
void stop_at_exhausted(SortedLists<T>& lists, int n) {
  int64_t last = lowest<int64_t>();
  int which = -1;
  for (int i = 0; i < n; ++i) {
    if (lists.count[i] == 0) {  // it has ended before the start
      for (int k = 0; k < n; ++k) lists.count[k] = 0;
      return;
    }
    const int64_t key = record_key(lists.records[i], lists.count[i] - 1);
    if (which < 0 || key > last) last = key, which = i;
  }
  for (int i = 0; i < n; ++i) {
    if (i == which) continue;
    const int from = records_from(lists.records[i], lists.count[i], last);
    // Lists behind that one wait with keys that equal its last.
    lists.count[i] = i < which || last == highest<int64_t>()
                         ? from
                         : records_from(lists.records[i], lists.count[i], last + 1);
  }
}

template <bool Exhausted, class D, class... S>
PTO_INLINE void merge_tiles(D& d, MrgSortExecutedNumList& executed, const S&... s) {
  using T = typename D::DType;
  static_assert((check_records<D, S>() && ...));
  static_assert(D::Rows == 1 && ((S::Rows == 1) && ...),
                "TMRGSORT: a sorted list is a tile of one row; take one with TSUBVIEW");
  constexpr int E = kRecordElements<T>;
  SortedLists<T> lists = {{s.data()...}, {(s.GetValidCol() / E)...}};
  const int room = D::Cols / E;
  if (Exhausted) stop_at_exhausted(lists, int(sizeof...(S)));
  const bool is_cut = lists.total() > room;
  const SortedLists<T> all = lists;
  if (is_cut) {  // the counts first: the destination may be one of the lists
    const Room<int64_t> merged{size_t(room)};
    merge_lists(reinterpret_cast<T*>(merged.get()), all, room);
    const T* records = reinterpret_cast<const T*>(merged.get());
    cut_lists(lists, record_key(records, room - 1), room);
    __builtin_memcpy(static_cast<void*>(d.data()), records, size_t(room) * 8);
  } else {
    merge_lists(d.data(), all, room);
  }
  executed = {uint16_t(lists.count[0]), uint16_t(lists.count[1]), uint16_t(lists.count[2]),
              uint16_t(lists.count[3])};
}

}  // namespace detail

// d's row r gets the records of s's row r, each block of 32 sorted. One row of indices serves all
// rows. Where the number of s's columns is known at run time alone, d takes as many records as fit.
template <class D, class S, class I, class... Tmp>
PTO_INLINE RecordEvent TSORT32(D& d, const S& s, const I& idx, const Tmp&...) {
  static_assert(detail::check_records<D, S>());
  static_assert(check_trailing<Tmp...>());
  static_assert(kSame<typename I::DType, uint32_t> && I::isRowMajor,
                "TSORT32: the indices must be a row-major tile of uint32_t; make them with TCI");
  constexpr bool kSharesRow = I::Rows == 1 || I::ValidRow == 1;
  static_assert(check_rows<S, D>() && check_columns<S, I>() &&
                check_rows<typename Choose<kSharesRow, I, S>::type, I>());
  static_assert(D::Cols >= S::ValidCol * detail::kRecordElements<typename S::DType>,
                "TSORT32: the destination must hold 8 bytes for each element; "
                "give it twice the columns for float, four times for half");
  PTO_ENTER(TSORT32, "d, s, idx, [tmp]", out(d), in(s, idx));
  PTO_IF_CHECKED(const int cols = s.GetValidCol() * detail::kRecordElements<typename S::DType>;
                 checked::require_filled("TSORT32", "d, s, idx, [tmp]", 1, d, s.GetValidRow(),
                                         cols < D::Cols ? cols : D::Cols);
                 checked::require_valid("TSORT32", "d, s, idx, [tmp]", 2,
                                        idx.GetValidRow() == 1 ? 1 : s.GetValidRow(),
                                        s.GetValidCol(), idx);)
  detail::sort_rows(d, s, idx);
  return {};
}

// Merges each group of four consecutive blocks of blockLen elements; a last group may be smaller.
template <class D, class S, class... X>
PTO_INLINE RecordEvent TMRGSORT(D& d, const S& s, uint32_t blockLen, const X&...) {
  static_assert(detail::check_records<D, S>());
  static_assert(D::Rows == 1 && S::Rows == 1,
                "TMRGSORT: blocks lie in a tile of one row; take one with TSUBVIEW");
  static_assert(D::Cols >= S::Cols,
                "TMRGSORT: the destination must hold the source; give it as many Cols");
  PTO_INSTRUCTION(TMRGSORT, "d, s, blockLen", out(d), in(s));
  PTO_IF_CHECKED(checked::require_filled("TMRGSORT", "d, s, blockLen", 1, d, 1, s.GetValidCol());)
  using T = typename D::DType;
  const int cols = s.GetValidCol();
  const int length = blockLen < uint32_t(cols) ? int(blockLen) : cols;  // 4 * length is an int
  for (int start = 0; length > 0 && start < cols; start += 4 * length) {
    detail::SortedLists<T> lists = {};
    for (int i = 0; i < 4; ++i) {
      const int from = start + i * length, left = cols - from;
      lists.records[i] = s.data() + (left > 0 ? from : 0);
      lists.count[i] = (left <= 0 ? 0 : left < length ? left : length) / detail::kRecordElements<T>;
    }
    detail::merge_lists(d.data() + start, lists, lists.total());
  }
  return {};
}

// Merges two, three or four sorted lists into one. Exhausted: stops when one list ends. A
// destination that is too small takes the first records.
template <class D, class Tmp, class S0, class S1, class S2, class S3, bool Exhausted, class... X>
PTO_INLINE RecordEvent TMRGSORT(D& d, MrgSortExecutedNumList& executed, Tmp&, const S0& s0,
                                const S1& s1, const S2& s2, const S3& s3, const X&...) {
  PTO_INSTRUCTION(TMRGSORT, "d, executed, tmp, s0, s1, s2, s3", out(d), in(s0, s1, s2, s3));
  detail::merge_tiles<Exhausted>(d, executed, s0, s1, s2, s3);
  return {};
}
template <class D, class Tmp, class S0, class S1, class S2, bool Exhausted, class... X>
PTO_INLINE RecordEvent TMRGSORT(D& d, MrgSortExecutedNumList& executed, Tmp&, const S0& s0,
                                const S1& s1, const S2& s2, const X&...) {
  PTO_INSTRUCTION(TMRGSORT, "d, executed, tmp, s0, s1, s2", out(d), in(s0, s1, s2));
  detail::merge_tiles<Exhausted>(d, executed, s0, s1, s2);
  return {};
}
template <class D, class Tmp, class S0, class S1, bool Exhausted, class... X>
PTO_INLINE RecordEvent TMRGSORT(D& d, MrgSortExecutedNumList& executed, Tmp&, const S0& s0,
                                const S1& s1, const X&...) {
  PTO_INSTRUCTION(TMRGSORT, "d, executed, tmp, s0, s1", out(d), in(s0, s1));
  detail::merge_tiles<Exhausted>(d, executed, s0, s1);
  return {};
}

// Returns the columns of the temporary tile that the merge of these lists takes on hardware.
template <class... S>
constexpr PTO_INLINE uint32_t GETMRGSORTTMPSIZE() {
  return uint32_t((S::Cols + ... + 0));
}

PTO_NAMESPACE_END
