// SPDX-License-Identifier: Apache-2.0
// One instruction on tiles that stay in the first cache: seconds a call, beside the time that the
// same loads and stores take alone (the L1 limit) and that the arithmetic takes in registers alone
// (the ALU limit); the ceiling is the larger of the two.
//
//     ./instructions [NAME...]        one JSON line a case, as bench/runner.py writes them
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

// What the memory side of an instruction costs: `In` arrays read, one written, nothing computed.
struct Traffic {
  char *first, *second, *to;
  long in_bytes, out_bytes;  // of one source; of the destination
  int sources;

  PTO_INLINE static void touch(const char* p) {
    asm volatile("" ::"x"(*reinterpret_cast<const Bytes*>(p)));
  }
  void operator()() const {
    if (in_bytes == out_bytes && sources == 2)
      stream<2>(first, second, to, in_bytes);
    else if (in_bytes == out_bytes && sources == 1)
      stream<1>(first, second, to, in_bytes);
    else
      apart(first, second, to, in_bytes, out_bytes, sources);
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
  PTO_INLINE static void apart(const char* a, const char* b, char* d, long in, long out, int n) {
    const Bytes value{};
    for (; n-- > 0; a = b)
      for (long i = 0; i < in; i += 4 * kVectorBytes)
        for (int k = 0; k < 4 * kVectorBytes; k += kVectorBytes) touch(a + i + k);
    for (long i = 0; i < out; i += kVectorBytes) {
      *reinterpret_cast<Bytes*>(d + i) = value;
      asm volatile("" ::: "memory");
    }
  }
};

// The arithmetic of a row on registers, eight independent vectors of `V` at a time.
template <class V, class F>
struct Arithmetic {
  F f;
  long vectors;
  void operator()() const {
    V v[8];
    for (V& one : v) one = lanes::splat<V>(LaneOf<V>(1));
    for (long i = 0; i < vectors; i += 8)
      for (V& one : v) {
        asm volatile("" : "+x"(one));  // else it is computed once
        V result = f(one);
        asm volatile("" ::"x"(result));
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

alignas(64) char memory[3][16384];

// What a row costs besides its own arithmetic: narrow floats compute as float.
template <class T, int N>
Vec<Compute<T>, N> converted(Vec<Compute<T>, N> v, int sources) {
  if constexpr (kSame<T, Raw<T>>) {
    return v;
  } else {
    Vec<Raw<T>, N> raw = lanes::narrow<T, N>(v);
    for (int i = 1; i < sources; ++i) {
      asm volatile("" : "+x"(raw));
      asm volatile("" ::"x"(lanes::widen<T, N>(raw)));
    }
    asm volatile("" : "+x"(raw));
    return lanes::widen<T, N>(raw);
  }
}

// `f` runs the instruction; `g` is the row's value on registers of Compute<T>.
template <class D, class F, class G>
void instruction(const char* name, const char* dtype, int sources, D& d, long in_bytes, F f, G g) {
  if (!is_chosen(name)) return;
  using T = typename D::DType;
  constexpr int N = kLanes<T>;
  using V = Vec<Compute<T>, N>;
  const auto value = [&](V v) { return converted<T, N>(g(v), sources); };
  Traffic traffic{memory[0], memory[1], memory[2], in_bytes, long(sizeof(T)) * D::Numel, sources};
  Arithmetic<V, decltype(value)> arithmetic{value, D::Numel / N};
  std::vector<Contender> all = {contender(f), contender(traffic), contender(arithmetic)};
  report({name, dtype, std::to_string(D::Rows) + ", " + std::to_string(D::Cols)}, all);
  (void)d;
}
template <class D, class F>
void instruction(const char* name, const char* dtype, int sources, D& d, long in_bytes, F f) {
  instruction(name, dtype, sources, d, in_bytes, f, [](auto v) { return v; });
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

#define ROW(M, dtype, sources, ...) \
  instruction(#M, dtype, sources, t.d, kBytes, [&] { M(__VA_ARGS__); })
#define COSTLY(M, dtype, ...)                             \
  instruction(                                            \
      #M, dtype, 1, t.d, kBytes, [&] { M(__VA_ARGS__); }, \
      [](auto v) { return lanes::M##_value::apply(v); })

template <class T>
void of_any_type(const char* dtype) {
  static Tiles<T> t;
  constexpr long kBytes = sizeof(T) * TileOf<T>::Numel;
  ROW(TADD, dtype, 2, t.d, t.a, t.b);
  ROW(TMUL, dtype, 2, t.d, t.a, t.b);
  ROW(TMAX, dtype, 2, t.d, t.a, t.b);
  ROW(TADDS, dtype, 1, t.d, t.a, T(2.0f));
  ROW(TMULS, dtype, 1, t.d, t.a, T(2.0f));
  ROW(TABS, dtype, 1, t.d, t.a);
  ROW(TNEG, dtype, 1, t.d, t.a);
  ROW(TRELU, dtype, 1, t.d, t.a);
  ROW(TEXPANDS, dtype, 0, t.d, T(2.0f));
  ROW(TROWEXPAND, dtype, 0, t.d, t.column);
  ROW(TCOLEXPAND, dtype, 0, t.d, t.row);
  ROW(TROWEXPANDMUL, dtype, 1, t.d, t.a, t.column);
  ROW(TCOLEXPANDADD, dtype, 1, t.d, t.a, t.row);
  ROW(TSEL, dtype, 2, t.d, t.bits, t.a, t.b);
  instruction("TCMP", dtype, 2, t.bits, kBytes, [&] { TCMP(t.bits, t.a, t.b, CmpMode::LT); });
  instruction("TROWSUM", dtype, 1, t.column, kBytes, [&] { TROWSUM(t.column, t.a); });
  instruction("TROWMAX", dtype, 1, t.column, kBytes, [&] { TROWMAX(t.column, t.a); });
  instruction("TCOLSUM", dtype, 1, t.row, kBytes, [&] { TCOLSUM(t.row, t.a); });
  instruction("TCOLMAX", dtype, 1, t.row, kBytes, [&] { TCOLMAX(t.row, t.a); });
}

template <class T>
void of_floats(const char* dtype) {
  static Tiles<T> t;
  constexpr long kBytes = sizeof(T) * TileOf<T>::Numel;
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
      "TDIV", dtype, 2, t.d, kBytes, [&] { TDIV(t.d, t.a, t.b); },
      [](auto v) { return lanes::TDIV_value::apply(v, v); });
}

template <class D, class S>
void conversion(const char* name, const char* dtype) {
  static Tile<TileType::Vec, D, kRows, 64> d;
  static Tile<TileType::Vec, S, kRows, 64> s;
  for (int i = 0; i < s.Numel; ++i) s.SetValue(i, S(float(i % 100)));
  instruction(name, dtype, 1, d, long(sizeof(S)) * s.Numel,
              [&] { TCVT(d, s, RoundMode::CAST_RINT, SaturationMode::ON); });
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
