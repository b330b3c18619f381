// SPDX-License-Identifier: Apache-2.0
// One instruction on tiles that stay in the first cache: seconds a call, beside the time that the
// same loads and stores take alone (the L1 limit) and that the arithmetic takes in registers alone
// (the ALU limit); the ceiling is the larger of the two.
//
//     ./instructions [NAME...]        one JSON line a case, as pto/bench/runner.py writes them
//
// The results are laws of the tests, which run before; here each case is only timed.
#include <pto/pto-inst.hpp>

#include <cstring>
#include <string>

#include "samples.hpp"

using namespace bench;
using namespace pto::isa;

namespace {

using Bytes = Vec<uint8_t, kVectorBytes>;

// Measures the memory side of an instruction: the bytes of its tiles read and written, nothing
// computed, in the same places, since loads that follow a store to the same place of another page
// wait for it.
struct Traffic {
  const char* from[2];
  char* to;
  long in_bytes, out_bytes;  // of one source; of the destination

  PTO_INLINE static void touch(const char* p) {
    asm volatile("" ::"v"(*reinterpret_cast<const Bytes*>(p)));
  }
  void operator()() const {
    if (in_bytes == out_bytes && from[1])
      stream<2>(from[0], from[1], to, in_bytes);
    else if (in_bytes == out_bytes && from[0])
      stream<1>(from[0], from[0], to, in_bytes);
    else
      apart(from[0], from[1], to, in_bytes, out_bytes);
  }

  // Locals, since the barrier makes the compiler read members anew.
  template <int Sources>
  PTO_INLINE static void stream(const char* a, const char* b, char* d, long bytes) {
    const Bytes value{};
    for (const char* end = a + bytes; a != end;
         a += 4 * kVectorBytes, b += 4 * kVectorBytes, d += 4 * kVectorBytes)
      for (int k = 0; k < 4 * kVectorBytes; k += kVectorBytes) {
        touch(a + k);
        if (Sources == 2) touch(b + k);
        *reinterpret_cast<Bytes*>(d + k) = value;
        asm volatile("" ::: "memory");
      }
  }
  PTO_INLINE static void apart(const char* a, const char* b, char* d, long in, long out) {
    const Bytes value{};
    for (; a; a = b, b = nullptr)
      for (long i = 0; i < in; i += 4 * kVectorBytes)
        for (int k = 0; k < 4 * kVectorBytes; k += kVectorBytes) touch(a + i + k);
    for (long i = 0; i + kVectorBytes <= out; i += kVectorBytes) {
      *reinterpret_cast<Bytes*>(d + i) = value;
      asm volatile("" ::: "memory");
    }
  }
};

// The sources of an instruction: none, one, or two of one size.
struct Sources {
  const void *first = nullptr, *second = nullptr;
  long bytes = 0;  // of each
};
template <class T>
Sources from(const T& a) {
  return {a.data(), nullptr, long(sizeof(typename T::DType)) * T::Numel};
}
template <class T>
Sources from(const T& a, const T& b) {
  return {a.data(), b.data(), from(a).bytes};
}
template <class D>
Traffic traffic_of(const Sources& s, D& d) {
  return {{static_cast<const char*>(s.first), static_cast<const char*>(s.second)},
          reinterpret_cast<char*>(d.data()),
          s.bytes,
          long(sizeof(typename D::DType)) * D::ValidRow * D::ValidCol};
}

template <class R>
PTO_INLINE void keep(R result) {
  if constexpr (sizeof(R) >= 16)
    asm volatile("" ::"v"(result));
  else
    asm volatile("" ::"r"(result));
}

// The arithmetic of a row on registers, eight independent vectors of `V` at a time.
template <class V, class F>
struct Arithmetic {
  F f;
  long vectors;
  void operator()() const {
    const F g = f;
    V v[8];
    PTO_UNROLL
    for (int k = 0; k < 8; ++k) v[k] = lanes::splat<V>(LaneOf<V>(1));
    for (long i = 0; i < vectors; i += 8) {
      PTO_UNROLL
      for (int k = 0; k < 8; ++k) {
        asm volatile("" : "+v"(v[k]));  // else it is computed once
        const auto result = g(v[k]);
        keep(result);
      }
    }
  }
};

std::vector<std::string> chosen;

bool is_chosen(const char* name) {
  return chosen.empty() || std::find(chosen.begin(), chosen.end(), name) != chosen.end();
}

// 8 KB a tile, so that two sources and a destination fit a first cache of 32 KB.
constexpr int kRows = 32;
template <class T>
constexpr int kCols = 256 / int(sizeof(T));
template <class T>
using TileOf = Tile<TileType::Vec, T, kRows, kCols<T>>;
using Half = TileOf<half>;

template <class T>
std::string size_of() {
  return std::to_string(T::Rows) + ", " + std::to_string(T::Cols);
}

// `f` runs an instruction that only moves elements.
template <class D, class F>
void moving(const char* name, const char* dtype, const Sources& sources, D& d, F f) {
  if (!is_chosen(name)) return;
  Traffic traffic = traffic_of(sources, d);
  report({name, dtype, size_of<D>()}, {contender(f), contender(traffic)});
}

// `f` runs an instruction; `g` is its value on a register of its source.
template <class S, class D, class F, class G>
void computing(const char* name, const char* dtype, const Sources& sources, D& d, F f, G g) {
  if (!is_chosen(name)) return;
  using T = typename S::DType;
  constexpr int N = kLanes<T>;
  Traffic traffic = traffic_of(sources, d);
  Arithmetic<Vec<Raw<T>, N>, G> arithmetic{g, S::Numel / N};
  report({name, dtype, size_of<S>()}, {contender(f), contender(traffic), contender(arithmetic)});
}

// An instruction of one source and destination type; `g` is its value on registers of Compute<T>.
template <class D, class F, class G>
void instruction(const char* name, const char* dtype, const Sources& sources, D& d, F f, G g) {
  using T = typename D::DType;
  constexpr int N = kLanes<T>;
  const bool two = sources.second;
  computing<D>(name, dtype, sources, d, f, [g, two](Vec<Raw<T>, N> raw) {
    const auto value = g(lanes::widen<T, N>(raw));
    if (two && !kSame<T, Raw<T>>) {
      asm volatile("" : "+v"(raw));
      asm volatile("" ::"v"(lanes::widen<T, N>(raw)));
    }
    return lanes::narrow<T, N>(value);
  });
}
template <class D, class F>
void instruction(const char* name, const char* dtype, const Sources& sources, D& d, F f) {
  instruction(name, dtype, sources, d, f, [](auto v) { return v; });
}

// A reduction of `s`: every vector is widened and combined by g.
template <class D, class S, class F, class G>
void reduction(const char* name, const char* dtype, D& d, const S& s, F f, G g) {
  using T = typename S::DType;
  constexpr int N = kLanes<T>;
  computing<S>(name, dtype, from(s), d, f, [g, total = Vec<Compute<T>, N>{}](Vec<Raw<T>, N> raw) {
    return g(lanes::widen<T, N>(raw), total);
  });
}

// A comparison: both operands are widened.
template <class D, class S, class F>
void comparison(const char* name, const char* dtype, D& d, const S& a, const S& b, F f) {
  using T = typename S::DType;
  constexpr int N = kLanes<T>;
  computing<S>(name, dtype, from(a, b), d, f, [](Vec<Raw<T>, N> raw) {
    const auto wide = lanes::widen<T, N>(raw);
    asm volatile("" : "+v"(raw));
    return lanes::pack_mask(wide < lanes::widen<T, N>(raw));
  });
}

struct LowerHalves {
  static constexpr int at(int i, int n) { return i < n / 2 ? i : i + n / 2; }
};
// A shuffle for every vector, of it and another, in each of the log2(lanes) steps of a
// transposition: those within 16 bytes, then those of whole 16 bytes.
template <class T>
void transposition(const char* dtype) {
  if (!is_chosen("TTRANS")) return;
  constexpr int N = kVectorBytes / int(sizeof(T)), L = 16 / int(sizeof(T));
  using V = Vec<Raw<T>, N>;
  static TileOf<T> s;
  static Tile<TileType::Vec, T, kCols<T>, kRows> d;
  auto work = [&] { TTRANS(d, s, s); };
  V other{};
  asm volatile("" : "+v"(other));
  auto shuffles = [other](V v) {
    PTO_UNROLL
    for (int step = 1; step < N; step *= 2) {
      if (step < L)
        v = moves::zip<false, L>(v, other, typename IndicesTo<N>::type());
      else
        v = lanes::shuffle<LowerHalves>(v, other);
      asm volatile("" : "+v"(v));
    }
    return v;
  };
  Traffic traffic = traffic_of(from(s), d);
  Arithmetic<V, decltype(shuffles)> arithmetic{shuffles, s.Numel / N};
  report({"TTRANS", dtype, size_of<TileOf<T>>()},
         {contender(work), contender(traffic), contender(arithmetic)});
}

template <class T>
struct Tiles {
  TileOf<T> a, b, d;
  Tile<TileType::Vec, T, kRows, 32 / int(sizeof(T)), BLayout::RowMajor, kRows, 1> column;
  Tile<TileType::Vec, T, 1, kCols<T>> row;
  Tile<TileType::Vec, mask32, kRows, kCols<T>> mask;
  Tile<TileType::Vec, uint8_t, kRows, (kCols<T> / 8 + 31) / 32 * 32, BLayout::RowMajor, kRows,
       kCols<T> / 8>
      bits;
  Tiles() {
    for (int i = 0; i < TileOf<T>::Numel; ++i) {
      a.SetValue(i, T(float(i % 13 + 1)));
      b.SetValue(i, T(float(i % 7 + 1)));
    }
    TROWMAX(column, a);
    TCOLMAX(row, a);
    TCMP(mask, a, b, CmpMode::LT);
    TCMP(bits, a, b, CmpMode::LT);
  }
};

#define ROW(M, dtype, sources, ...) instruction(#M, dtype, sources, t.d, [&] { M(__VA_ARGS__); })
#define MOVE(M, dtype, sources, ...) moving(#M, dtype, sources, t.d, [&] { M(__VA_ARGS__); })
#define COSTLY(M, dtype, ...)                             \
  instruction(                                            \
      #M, dtype, from(t.a), t.d, [&] { M(__VA_ARGS__); }, \
      [](auto v) { return lanes::M##_value::apply(v); })
#define REDUCTION(M, dtype, d, value) \
  reduction(                          \
      #M, dtype, d, t.a, [&] { M(d, t.a); }, [](auto a, auto b) { return value; })

template <class T>
void of_any_type(const char* dtype) {
  static Tiles<T> t;
  const Sources none, one = from(t.a), both = from(t.a, t.b);
  ROW(TADD, dtype, both, t.d, t.a, t.b);
  ROW(TMUL, dtype, both, t.d, t.a, t.b);
  ROW(TMAX, dtype, both, t.d, t.a, t.b);
  ROW(TADDS, dtype, one, t.d, t.a, T(2.0f));
  ROW(TMULS, dtype, one, t.d, t.a, T(2.0f));
  ROW(TABS, dtype, one, t.d, t.a);
  ROW(TNEG, dtype, one, t.d, t.a);
  ROW(TRELU, dtype, one, t.d, t.a);
  MOVE(TEXPANDS, dtype, none, t.d, T(2.0f));
  MOVE(TROWEXPAND, dtype, none, t.d, t.column);
  MOVE(TCOLEXPAND, dtype, none, t.d, t.row);
  ROW(TROWEXPANDMUL, dtype, one, t.d, t.a, t.column);
  ROW(TCOLEXPANDADD, dtype, one, t.d, t.a, t.row);
  MOVE(TSEL, dtype, both, t.d, t.bits, t.a, t.b);
  comparison("TCMP", dtype, t.bits, t.a, t.b, [&] { TCMP(t.bits, t.a, t.b, CmpMode::LT); });
  REDUCTION(TROWSUM, dtype, t.column, a + b);
  REDUCTION(TROWMAX, dtype, t.column, lanes::max_or_second(a, b));
  REDUCTION(TCOLSUM, dtype, t.row, a + b);
  REDUCTION(TCOLMAX, dtype, t.row, lanes::max_or_second(a, b));
}

template <class T>
void of_floats(const char* dtype) {
  static Tiles<T> t;
  COSTLY(TSQRT, dtype, t.d, t.a);
  COSTLY(TRECIP, dtype, t.d, t.a);
  COSTLY(TEXP, dtype, t.d, t.a);
  COSTLY(TLOG, dtype, t.d, t.a);
  COSTLY(TTANH, dtype, t.d, t.a);
  COSTLY(TSIGMOID, dtype, t.d, t.a);
  COSTLY(TERF, dtype, t.d, t.a);
  COSTLY(TRSQRT, dtype, t.d, t.a);
  COSTLY(TSIN, dtype, t.d, t.a);
  instruction(
      "TDIV", dtype, from(t.a, t.b), t.d, [&] { TDIV(t.d, t.a, t.b); },
      [](auto v) { return lanes::TDIV_value::apply(v, v); });
}

template <class D, class S>
void conversion(const char* name, const char* dtype) {
  static Tile<TileType::Vec, D, kRows, 64> d;
  static Tile<TileType::Vec, S, kRows, 64> s;
  constexpr int N = kLanes<float>;
  for (int i = 0; i < s.Numel; ++i) s.SetValue(i, S(float(i % 100)));
  computing<decltype(s)>(
      name, dtype, from(s), d, [&] { TCVT(d, s, RoundMode::CAST_RINT, SaturationMode::ON); },
      [](Vec<Raw<S>, N> raw) {
        const auto v = lanes::widen<S, N>(raw);
        if constexpr (kIsFloat<S> && kIsFloat<D>)
          return lanes::narrow<D, N>(lanes::clamped<S, D>(v));
        else if constexpr (kIsFloat<S>)
          return lanes::saturated<D>(lanes::rint(v));
        else
          return lanes::convert<Compute<D>>(v);
      });
}

}  // namespace

int main(int count, char** names) {
  chosen.assign(names + 1, names + count);
  of_any_type<float>("f32");
  of_any_type<half>("f16");
  of_any_type<bfloat16_t>("bf16");
  of_any_type<int32_t>("i32");
  of_any_type<int16_t>("i16");
  of_any_type<int8_t>("i8");
  transposition<float>("f32");
  transposition<half>("f16");
  of_floats<float>("f32");
  of_floats<half>("f16");
  conversion<half, float>("TCVT", "f32:f16");
  conversion<float, half>("TCVT", "f16:f32");
  conversion<bfloat16_t, float>("TCVT", "f32:bf16");
  conversion<float, bfloat16_t>("TCVT", "bf16:f32");
  conversion<int32_t, float>("TCVT", "f32:i32");
  conversion<float, int32_t>("TCVT", "i32:f32");
  conversion<int8_t, float>("TCVT", "f32:i8");
  conversion<float, int8_t>("TCVT", "i8:f32");
  return 0;
}
