// SPDX-License-Identifier: Apache-2.0
// Steps: brings elements that lie some steps apart beside each other.
//
//     lanes::gather_steps(to, x + 1, 2, 100, 128);   // to[i] = x[1 + 2 i], 100 elements
//     lanes::join_rows(to, x, 300, 3, 100);          // to[3 i + j] = x[300 j + i], 300 elements
//
// Elements 2, 3 or 4 steps apart, and those that lie backwards, pass a vector at a time: the
// vectors of memory that hold them are loaded and shuffled. libpto compiles the loops once for each
// target.
//
// Invariant: nothing before the first or behind the last of the elements is read.
// Thread safety: pure functions on memory of the caller.
#pragma once
#include "pto/isa/cpu/access.hpp"

PTO_NAMESPACE_BEGIN
namespace lanes {

// Words that lie Step apart.
template <int Step>
struct Steps {
  // Loads the first n of N words (0 <= n <= N); the other lanes are zero.
  template <int N, class Word>
  static PTO_INLINE Vec<Word, N> load(const Word* from, int n) {
    using All = typename IndicesTo<N>::type;
    if (n == N) return joined<kLast, N, true>(from, n, All());
    if constexpr (kHasMaskedAccess<Vec<Word, N>>)
      return joined<kLast, N, false>(from, n, All());
    else
      return gather<N>(from, Step, n);
  }

 private:
  static constexpr int kLast = Step < 0 ? 0 : Step - 1;  // of the vectors of memory

  // Where a vector of memory begins: the last one of a whole vector ends with its last word.
  static constexpr int begin_of(int vector, int lanes, bool is_whole) {
    const int last = kLast * (lanes - 1);
    return Step < 0 ? 1 - lanes : is_whole && vector * lanes > last ? last : vector * lanes;
  }
  // The lane of word i once the vectors up to `upto` are joined; -1: of no matter yet.
  static constexpr int lane_of(int i, int upto, int lanes, bool is_whole) {
    const int vector = Step < 0 ? 0 : Step * i / lanes;
    const int lane = Step * i - begin_of(vector, lanes, is_whole);
    return vector > upto ? -1 : vector < upto ? i : upto == 0 ? lane : lanes + lane;
  }
  template <int Vector, int N, bool Whole, class Word>
  static PTO_INLINE Vec<Word, N> load_vector(const Word* from, int n) {
    const Word* const begin = from + begin_of(Vector, N, Whole);
    if constexpr (Whole) return lanes::load<N>(begin);
    const int left = n > 0 ? Step * (n - 1) + 1 - Vector * N : 0;
    const int last = Step < 0 ? N : left < 0 ? 0 : left < N ? left : N;
    return load_range<N>(begin, LaneRange<Vec<Word, N>>{Step < 0 ? N - n : 0, last});
  }
  template <int Upto, int N, bool Whole, class Word, int... I>
  static PTO_INLINE Vec<Word, N> joined(const Word* from, int n, Indices<I...> all) {
    const auto last = load_vector<Upto, N, Whole>(from, n);
    if constexpr (Upto == 0)
      return __builtin_shufflevector(last, last, lane_of(I, 0, N, Whole)...);
    else
      return __builtin_shufflevector(joined<Upto - 1, N, Whole>(from, n, all), last,
                                     lane_of(I, Upto, N, Whole)...);
  }
};

// Copies so many words beside each other as whole vectors, then a part of one; lanes behind the
// last word are written where `to` has room.
template <int Step, int N, class Word>
void gather_vectors(Word* to, const Word* from, int64_t count, int64_t room) {
  int64_t i = 0;
  for (; i + N <= count; i += N)
    store<N>(to + i, Steps<Step>::template load<N>(from + Step * i, N));
  if (i == count) return;
  const auto last = Steps<Step>::template load<N>(from + Step * i, int(count - i));
  if (i + N <= room)
    store<N>(to + i, last);
  else
    store_part<N>(to + i, last, int(count - i));
}

template <class Word>
void gather_words(Word* to, const Word* from, int64_t step, int64_t count, int64_t room) {
  constexpr int N = (sizeof(Word) > 1 ? kVectorBytes : 16) / int(sizeof(Word));
  switch (step) {
    case 2:
      return gather_vectors<2, N>(to, from, count, room);
    case 3:
      return gather_vectors<3, N>(to, from, count, room);
    case 4:
      return gather_vectors<4, N>(to, from, count, room);
    case -1:
      return gather_vectors<-1, N>(to, from, count, room);
  }
  for (int64_t i = 0; i < count; ++i) __builtin_memcpy(to + i, from + i * step, sizeof(Word));
}

// Vectors of so many rows, whose words come in turn.
template <int Rows, int N>
struct Turns {
  // Stores vector Part of the result, which has as many as there are rows.
  template <int Part, class Word, int... I>
  static PTO_INLINE void store_parts(Word* to, const Vec<Word, N>* rows, Indices<I...> all) {
    auto joined = __builtin_shufflevector(rows[0], rows[1], lane_of<Part>(I, 1)...);
    if constexpr (Rows > 2)
      joined = __builtin_shufflevector(joined, rows[2], lane_of<Part>(I, 2)...);
    if constexpr (Rows > 3)
      joined = __builtin_shufflevector(joined, rows[3], lane_of<Part>(I, 3)...);
    store<N>(to + Part * N, joined);
    if constexpr (Part + 1 < Rows) store_parts<Part + 1>(to, rows, all);
  }

 private:
  // Where word i of a part is when row `upto` joins those before it; -1: of no matter yet.
  template <int Part>
  static constexpr int lane_of(int i, int upto) {
    const int row = (Part * N + i) % Rows, at = (Part * N + i) / Rows;
    return row > upto ? -1 : row == upto ? N + at : upto == 1 ? at : i;
  }
};

template <int Rows, class Word>
void join_vectors(Word* to, const Word* from, int64_t stride, int64_t count) {
  constexpr int N = (sizeof(Word) > 1 ? kVectorBytes : 16) / int(sizeof(Word));
  int64_t i = 0;
  for (; i + N <= count; i += N) {
    Vec<Word, N> rows[Rows];
    for (int row = 0; row < Rows; ++row) rows[row] = load<N>(from + row * stride + i);
    Turns<Rows, N>::template store_parts<0>(to + Rows * i, rows, typename IndicesTo<N>::type());
  }
  for (; i < count; ++i)
    for (int row = 0; row < Rows; ++row) to[Rows * i + row] = from[row * stride + i];
}

template <class Word>
void join_rows(Word* to, const Word* from, int64_t stride, int64_t rows, int64_t count) {
  if (rows == 2) return join_vectors<2>(to, from, stride, count);
  if (rows == 3) return join_vectors<3>(to, from, stride, count);
  if (rows == 4) return join_vectors<4>(to, from, stride, count);
  for (int64_t i = 0; i < count; ++i)
    for (int64_t row = 0; row < rows; ++row) to[rows * i + row] = from[row * stride + i];
}

#define PTO_STEPS_OF(storage, Word)                                                  \
  storage template void gather_words(Word*, const Word*, int64_t, int64_t, int64_t); \
  storage template void join_rows(Word*, const Word*, int64_t, int64_t, int64_t);
#define PTO_GATHER_WORDS(storage) \
  PTO_STEPS_OF(storage, uint8_t)  \
  PTO_STEPS_OF(storage, uint16_t) \
  PTO_STEPS_OF(storage, uint32_t) \
  PTO_STEPS_OF(storage, uint64_t)
#ifndef PTO_CHECKED
PTO_GATHER_WORDS(extern)
#endif

// Copies `count` elements, `step` apart, beside each other to memory of its own, which has room for
// so many: those behind the elements may be written.
template <class T>
PTO_INLINE void gather_steps(T* to, const T* from, int64_t step, int64_t count, int64_t room) {
  using Word = typename WordOf<sizeof(T)>::Unsigned;
  static_assert(sizeof(T) == sizeof(Word));
  gather_words(reinterpret_cast<Word*>(to), reinterpret_cast<const Word*>(from), step, count, room);
}

}  // namespace lanes
PTO_NAMESPACE_END
