// SPDX-License-Identifier: Apache-2.0
// Region: the vocabulary of compiled regions: steps over micro-tiles and loads that convert.
//
//     for_each_tile<kStep>(0, n, [&](int64_t j, auto w) PTO_LAMBDA_INLINE {
//       auto v0 = load<float>(w, x + j);          // a tile of w.count() elements
//       auto v1 = make<float>(w);
//       TEXP(v1, v0);
//       store(w, out + j, v1, false);
//     });
//
// region_values.hpp has the tiles and the widths `w`, region_transfer.hpp their loads and stores.
//
// Thread safety: a region runs on one thread; several may share tensors that they only read.
#pragma once
#include "pto/abi/program.h"
#include "pto/isa/region_transfer.hpp"

#define PTO_EXPORT __attribute__((visibility("default")))

PTO_NAMESPACE_BEGIN
namespace region {

// A region with at least this many bytes of traffic prefetches, since its data exceed the first
// cache.
constexpr int64_t kFarBytes = 32 << 10;

// Arithmetic on sizes. Division floors; x / 0 is 0, and calls and programs refuse it before they
// use it. It is out of line and const, so that a compiler computes equal quotients once: a program
// names hundreds.
[[maybe_unused]] __attribute__((noinline, const)) static int64_t floor_div(int64_t a, int64_t b) {
  if (b == 0) return 0;
  if (b == -1) return int64_t(0 - uint64_t(a));  // INT64_MIN / -1 traps
  return a / b - (a % b != 0 && (a ^ b) < 0);
}
PTO_INLINE int64_t floor_mod(int64_t a, int64_t b) {
  return b == 0 || b == -1 ? 0 : a - floor_div(a, b) * b;
}

// Sums and products of sizes that decide how much memory is taken. What leaves 64 bits is
// kHugeSize, more than any memory has.
constexpr int64_t kHugeSize = INT64_MAX - 256;
PTO_INLINE int64_t add_sizes(int64_t a, int64_t b) {
  int64_t sum;
  return __builtin_add_overflow(a, b, &sum) ? kHugeSize : sum;
}
PTO_INLINE int64_t multiply_sizes(int64_t a, int64_t b) {
  int64_t product;
  return __builtin_mul_overflow(a, b, &product) ? kHugeSize : product;
}

// The items of one block: equal shares, in multiples of the quantum. The launch passes items and
// quantum behind the program's scalars.
struct Range {
  int64_t begin, end;
  PTO_INLINE Range(const pto_args* args, int first) {
    const int64_t items = int64_t(args->scalars[first]),
                  quantum = int64_t(args->scalars[first + 1]);
    begin = 0, end = items;
    if (args->blocks == 1) return;
    const int64_t shares = (items + quantum - 1) / quantum;
    begin = min_size(items, shares * args->block / args->blocks * quantum);
    end = min_size(items, shares * (args->block + 1) / args->blocks * quantum);
  }
};

PTO_INLINE int64_t size_argument(const pto_args* args, int i) { return int64_t(args->scalars[i]); }

// Reads a runtime scalar: floats travel as the bits of a double, the rest as int64.
template <class T>
PTO_INLINE T scalar(const pto_args* args, int i) {
  if constexpr (kSame<T, float> || kSame<T, double>)
    return T(bit_cast<double>(args->scalars[i]));
  else if constexpr (kSame<T, mask32>)
    return mask32(args->scalars[i] != 0);
  else
    return T(args->scalars[i]);
}

// True where stores of whole micro-tiles are aligned in every row of `pitch` elements.
template <class T>
PTO_INLINE bool starts_lines(const T* p, int64_t pitch) {
  return (uintptr_t(p) | uintptr_t(pitch * int64_t(sizeof(T)))) % 64 == 0;
}

// --- memory ------------------------------------------------------------------------------------

// Returns a loaded tile as one of the compute type.
template <class C, class W, class D>
PTO_INLINE auto converted(W w, D t) {
  if constexpr (kSame<C, typename D::DType>)
    return t;
  else
    return convert<C>(w, t);
}

template <class C, class W, class S>
PTO_INLINE auto load(W w, const S* p) {
  auto t = make<Stored<S>>(w);
  load_elements(w, t, reinterpret_cast<const Stored<S>*>(p));
  return converted<C>(w, t);
}

// Loads a vector of a step (for_each_vector). On Zen 4, those of 64 bytes as two halves: it reads
// the next lines earlier for them (machine.hpp).
template <class C, class W, class S>
PTO_INLINE auto load_vector(W w, const S* p) {
  return load<C>(w, p);
}
#if defined(PTO_ZEN4) && defined(PTO_TARGET_AVX512)
template <class C, class S>
PTO_INLINE auto load_vector(Whole<kTail> w, const S* p) {
  static_assert(kSame<C, S> && sizeof(S) * kTail == 64);
  using Half = int64_t __attribute__((vector_size(32), aligned(1), may_alias));
  using Full = int64_t __attribute__((vector_size(64), may_alias));
  const Half* const halves = reinterpret_cast<const Half*>(p);
  auto t = make<S>(w);
  *reinterpret_cast<Full*>(t.data()) =
      __builtin_shufflevector(halves[0], halves[1], 0, 1, 2, 3, 4, 5, 6, 7);
  return t;
}
#endif

template <class C, class W, class S>
PTO_INLINE auto load_one(W w, const S* p) {
  return converted<C>(w, spread(w, *reinterpret_cast<const Stored<S>*>(p)));
}

// Loads elements that lie Step apart without a way through memory.
template <int Step, class M, class W>
PTO_INLINE auto load_steps(W w, const M* p) {
  using Word = typename WordOf<sizeof(M)>::Unsigned;
  constexpr int kMost = kVectorBytes / int(sizeof(Word)), N = kTail < kMost ? kTail : kMost;
  auto t = make<M>(w);
  for (int i = 0; i < w.elements(); i += N) {
    const auto words = lanes::Steps<Step>::template load<N>(
        reinterpret_cast<const Word*>(p) + Step * i, int(min_size(w.elements() - i, N)));
    __builtin_memcpy(t.data() + i, &words, sizeof words);
  }
  return t;
}
template <class M, class W>
PTO_INLINE auto load_steps_by_memory(W w, const M* p, int64_t stride) {
  alignas(64) M beside[kStep];
  lanes::gather_steps(beside, p, stride, w.elements(), kStep);
  return load<M>(w, beside);
}

template <class C, class W, class S>
PTO_INLINE auto load_strided(W w, const S* p, int64_t stride) {
  using M = Stored<S>;
  const M* const from = reinterpret_cast<const M*>(p);
  if (__builtin_constant_p(stride) && stride == 2) return converted<C>(w, load_steps<2>(w, from));
  if (__builtin_constant_p(stride) && stride == 3) return converted<C>(w, load_steps<3>(w, from));
  if (__builtin_constant_p(stride) && stride == 4) return converted<C>(w, load_steps<4>(w, from));
  return converted<C>(w, load_steps_by_memory(w, from, stride));
}

// The places of a vector's elements among those of memory, where position j is the first one: lane
// i holds element (j % Period + i) / Period behind that of j, or (j + i) % Period.
template <int Period, bool Repeats, int N, class Word>
struct PeriodPlaces {
  alignas(N * sizeof(Word)) Word of[Period][N];
  constexpr PeriodPlaces() : of() {
    for (int j = 0; j < Period; ++j)
      for (int i = 0; i < N; ++i) of[j][i] = Word(Repeats ? (j + i) / Period : (j + i) % Period);
  }
};
template <int Period, bool Repeats, int N, class Word>
constexpr PeriodPlaces<Period, Repeats, N, Word> kPeriodPlaces{};

// Loads positions j, j + 1, ... of an axis on which each of the `count` elements at p serves for
// Period positions, or, Repeats = false, the Period elements at p come again and again.
template <int Period, bool Repeats, class M, class W>
PTO_INLINE auto load_period(W w, const M* p, int64_t j, int64_t count) {
  using Word = typename WordOf<sizeof(M)>::Unsigned;
  constexpr int kMost = kVectorBytes / int(sizeof(Word)), N = kTail < kMost ? kTail : kMost;
  auto t = make<M>(w);
  if constexpr (!Repeats && Period > N) {
    for (int i = 0; i < w.elements(); ++i) t.data()[i] = p[uint64_t(j + i) % Period];
    return t;
  }
  for (int i = 0; i < w.elements(); i += N) {
    const uint64_t at = uint64_t(j + i), first = Repeats ? at / Period : 0;
    const Word* const from = reinterpret_cast<const Word*>(p) + first;
    const int64_t left = count - int64_t(first);
    const Vec<Word, N> some =
        left >= N ? lanes::load<N>(from) : lanes::load_part<N>(from, int(left));
    const Vec<Word, N> places =
        lanes::load<N>(kPeriodPlaces<Period, Repeats, N, Word>.of[at % Period]);
    const Vec<Word, N> words = lanes::permuted(some, places);
    __builtin_memcpy(t.data() + i, &words, sizeof words);
  }
  return t;
}
template <int Period, class C, class W, class S>
PTO_INLINE auto load_repeated(W w, const S* p, int64_t j, int64_t count) {
  using M = Stored<S>;
  return converted<C>(w, load_period<Period, true>(w, reinterpret_cast<const M*>(p), j, count));
}
template <int Period, class C, class W, class S>
PTO_INLINE auto load_periodic(W w, const S* p, int64_t j) {
  using M = Stored<S>;
  return converted<C>(w, load_period<Period, false>(w, reinterpret_cast<const M*>(p), j, Period));
}

// Several axes of a tensor that are one axis of the region, the outermost first; strides count
// elements. It keeps its place: a row of the last axis.
template <int N>
struct Folded {
  int64_t sizes[N], strides[N];
  int64_t index[N - 1] = {};     // the row's place in the other axes
  int64_t begin = -1, end = -1;  // the row's positions on the merged axis
  int64_t base = 0;              // the row's offset in memory

  // Returns the offset of position j; quick where its place is j's row or the row before.
  PTO_INLINE int64_t offset(int64_t j) {
    if (__builtin_expect(j < begin || j >= end, 0)) j == end ? step() : move_to(j);
    return base + (j - begin) * strides[N - 1];
  }
  PTO_INLINE void move_to(int64_t j) {
    int64_t row = j / sizes[N - 1];
    begin = row * sizes[N - 1];
    for (int k = N - 1; k-- > 1; row /= sizes[k]) index[k] = row % sizes[k];
    index[0] = row;
    find_row();
  }
  PTO_INLINE void step() {
    begin = end;
    for (int k = N - 1; k-- > 0 && ++index[k] == sizes[k] && k > 0;) index[k] = 0;
    find_row();
  }
  PTO_INLINE void find_row() {
    end = begin + sizes[N - 1];
    base = 0;
    for (int k = 0; k < N - 1; ++k) base += index[k] * strides[k];
  }
  // Copies the elements at positions j, j + 1, ...
  template <class M>
  __attribute__((noinline)) void gather(const M* p, int64_t j, int count, M* to) {
    const int64_t stride = strides[N - 1];
    for (const int64_t stop = j + count; j < stop;) {
      const M* from = p + offset(j);
      const int64_t run = min_size(end, stop) - j;
      if (stride == 1)
        __builtin_memcpy(to, from, size_t(run) * sizeof(M));
      else
        lanes::gather_steps(to, from, stride, run, run);
      to += run;
      j += run;
    }
  }
};

// Loads elements j, j + 1, ... of an axis that the tensor at p has folded.
template <class C, class W, class S, int N>
PTO_INLINE auto load_folded(W w, const S* p, int64_t j, Folded<N>& axis) {
  const int64_t offset = axis.offset(j);
  if (j + w.elements() <= axis.end && axis.strides[N - 1] == 1) return load<C>(w, p + offset);
  using M = Stored<S>;
  alignas(64) M gathered[kStep];
  axis.gather(reinterpret_cast<const M*>(p), j, w.elements(), gathered);
  return load<C>(w, gathered);
}

template <class W, class S, class Source>
PTO_INLINE void store(W w, S* p, Source& s, bool stream) {
  auto t = convert<Stored<S>>(w, s);
  store_elements(w, reinterpret_cast<Stored<S>*>(p), t, stream);
}
// Stores what round_to<Half> gave.
template <class W, class Half, class Source>
PTO_INLINE void store_rounded(W w, Half* p, Source& s, bool stream) {
  auto t = rounded<Half>(w, s);
  store_elements(w, reinterpret_cast<typename decltype(t)::DType*>(p), t, stream);
}
// Stores elements some steps apart.
template <class W, class S, class Source>
PTO_INLINE void store_strided(W w, S* p, int64_t stride, Source& s) {
  auto t = convert<Stored<S>>(w, s);
  for (int i = 0; i < w.elements(); ++i)
    lanes::store_element(reinterpret_cast<Stored<S>*>(p) + i * stride, t.data()[i]);
}
// Stores two tiles so: at once where their elements lie in turn.
template <class W, class P, class A, class Q, class B>
PTO_INLINE void store_strided(W w, P* p, int64_t stride, A& a, Q* q, int64_t other, B& b) {
  if constexpr (kSame<P, Q>)
    if (__builtin_expect(stride == 2 && other == 2 && q == p + 1, 1)) {
      using M = Stored<P>;
      using Word = typename WordOf<sizeof(M)>::Unsigned;
      auto t = convert<M>(w, a), u = convert<M>(w, b);
      Word both[2][kStep];
      __builtin_memcpy(both[0], t.data(), sizeof(M) * size_t(w.elements()));
      __builtin_memcpy(both[1], u.data(), sizeof(M) * size_t(w.elements()));
      return lanes::join_rows(reinterpret_cast<Word*>(p), both[0], kStep, 2, w.elements());
    }
  store_strided(w, p, stride, a);
  store_strided(w, q, other, b);
}
// Stores one element, a row's own value.
template <class S, class Source>
PTO_INLINE void store_one(S* p, Source& s) {
  auto t = convert<Stored<S>>(Row{}, s);
  *reinterpret_cast<Stored<S>*>(p) = own(t);
}

template <int W, class T>
PTO_INLINE void prefetch(Whole<W>, const T* p) {
  prefetch_lines<W * sizeof(T)>(p);
}
template <class T>
PTO_INLINE void prefetch(Rest, const T*) {}

// Counts the rows from one to that which is asked for with it: some lines ahead, also of short
// ones.
PTO_INLINE int64_t rows_ahead(int64_t row_bytes) {
  constexpr int64_t kAheadBytes = 2048;
  return row_bytes >= kAheadBytes ? 1 : kAheadBytes / max_size(row_bytes, 1);
}

// An axis of a tensor at places that an index says: its size, and how many places ahead rows are
// asked for, 0 for none. The first place that is none is kept.
struct Chosen {
  int64_t size, ahead;
  int64_t bad = 0;
  bool is_bad = false;

  // Asks ahead in tensors that no cache holds.
  PTO_INLINE Chosen(int64_t size_, int64_t stride_bytes, int64_t row_bytes)
      : size(size_),
        ahead(multiply_sizes(size, stride_bytes) > PTO_LARGEST_CACHE ? 2 * rows_ahead(row_bytes)
                                                                     : 0) {}
  PTO_INLINE bool has(int64_t place) const { return uint64_t(place) < uint64_t(size); }
  // Return the place, or the first one where there is none.
  PTO_INLINE int64_t near(int64_t place) const { return has(place) ? place : 0; }
  PTO_INLINE int64_t at(int64_t place) {
    if (__builtin_expect(!has(place), 0)) {
      if (!is_bad) bad = place;
      is_bad = true;
    }
    return near(place);
  }
};
template <class T>
PTO_INLINE void prefetch_row(const T* p, int64_t count) {
  for (int64_t i = 0; i < count; i += 64 / int64_t(sizeof(T))) __builtin_prefetch(p + i, 0, 2);
}

// Asks for what follows of streams that are read once, which Zen 4 does by itself (machine.hpp).
template <class W, class T>
PTO_INLINE void prefetch_stream([[maybe_unused]] W w, [[maybe_unused]] const T* p) {
#if !defined(PTO_ZEN4)
  prefetch(w, p);
#endif
}

PTO_INLINE int64_t padded_row(int64_t row) { return (row + kStep - 1) / kStep * kStep; }

// Takes scratch memory for a row of values, `bytes` for each element of the row; null where there
// is none, or, unless it is needed, where that is more than 64 KB.
PTO_INLINE char* row_buffer(const pto_args* args, int64_t row, int64_t bytes,
                            bool is_needed = false) {
  constexpr int64_t kMostBytes = 64 << 10;
  const bool is_huge = row > kHugeSize / 2 / bytes;
  const int64_t needed = is_huge ? kHugeSize : padded_row(row) * bytes;
  if (needed > kMostBytes && !is_needed) return nullptr;
  return static_cast<char*>(args->services->scratch(args->services, size_t(needed)));
}

}  // namespace region
PTO_NAMESPACE_END
