// SPDX-License-Identifier: Apache-2.0
// Instructions over arrays, and the same functions of glibc's vector library, as C functions for
// bench/tiles.py.
#include <pto/pto-inst.hpp>

using namespace pto::isa;

namespace {

constexpr int kChunk = 2048;
using Chunk = Tile<TileType::Vec, float, 1, kChunk, BLayout::RowMajor, 1, DYNAMIC>;

template <class F>
void over_chunks(float* d, const float* s, long n, F f) {
  for (long i = 0; i < n; i += kChunk) {
    const int count = int(min(n - i, kChunk));
    Chunk tile(count);
    TLOAD(tile, GlobalTensor(s + i, count));
    f(tile);
    TSTORE(GlobalTensor(d + i, count), tile);
  }
}

#if defined(PTO_TARGET_AVX512)
#define PTO_LIBMVEC(name) _ZGVeN16v_##name##f
#elif defined(PTO_TARGET_AVX2)
#define PTO_LIBMVEC(name) _ZGVdN8v_##name##f
#else
#define PTO_LIBMVEC(name) _ZGVbN4v_##name##f
#endif
constexpr int kWidth = kVectorBytes / 4;
using Floats = Vec<float, kWidth>;

}  // namespace

#define FUNCTION(name, instruction)                                               \
  extern "C" Floats PTO_LIBMVEC(name)(Floats);                                    \
  extern "C" void mvec_##name(float* d, const float* s, long n) {                 \
    for (long i = 0; i + kWidth <= n; i += kWidth)                                \
      lanes::store<kWidth>(d + i, PTO_LIBMVEC(name)(lanes::load<kWidth>(s + i))); \
  }                                                                               \
  extern "C" void pto_##name(float* d, const float* s, long n) {                  \
    over_chunks(d, s, n, [](auto& tile) { instruction(tile, tile); });            \
  }
FUNCTION(exp, TEXP)
FUNCTION(log, TLOG)
FUNCTION(tanh, TTANH)
FUNCTION(erf, TERF)
FUNCTION(sin, TSIN)
FUNCTION(cos, TCOS)

extern "C" void pto_sigmoid(float* d, const float* s, long n) {
  over_chunks(d, s, n, [](auto& tile) { TSIGMOID(tile, tile); });
}
extern "C" void pto_rsqrt(float* d, const float* s, long n) {
  over_chunks(d, s, n, [](auto& tile) { TRSQRT(tile, tile); });
}
extern "C" void pto_pow(float* d, const float* s, long n) {
  over_chunks(d, s, n, [](auto& tile) { TPOWS(tile, tile, 2.3f, tile); });
}

namespace {

constexpr int kPiece = 1024, kRoom = 8192;
using Piece = Tile<TileType::Vec, float, 1, kPiece>;
using Records = Tile<TileType::Vec, float, 1, 2 * kRoom>;

// Sorts `count` candidates, a power of four times 32, into records; returns where they are.
template <int Count>
Records* sort(Records& a, Records& b, const float* values, const uint32_t* places) {
  Tile<TileType::Vec, float, 1, Count> numbers;
  Tile<TileType::Vec, uint32_t, 1, Count> indices;
  TLOAD(numbers, GlobalTensor(values, Count));
  TLOAD(indices, GlobalTensor(places, Count));
  Tile<TileType::Vec, float, 1, 2 * Count> from, to;
  TSUBVIEW(from, a, 0, 0);
  TSUBVIEW(to, b, 0, 0);
  TSORT32(from, numbers, indices);
  bool is_in_a = true;
  for (int block = 64; block < 2 * Count; block *= 4, is_in_a = !is_in_a) {
    if (is_in_a)
      TMRGSORT(to, from, uint32_t(block));
    else
      TMRGSORT(from, to, uint32_t(block));
  }
  return is_in_a ? &a : &b;
}

struct Candidates {
  alignas(64) float values[kRoom + kPiece];
  alignas(64) uint32_t places[kRoom + kPiece];
  int count = 0;
};

// The best k of the candidates, sorted, replace them; the k-th value is returned.
float keep(Candidates& c, Records& a, Records& b, int k) {
  int room = 128;
  while (room < c.count) room *= 4;
  for (int i = c.count; i < room && i < kRoom; ++i)
    c.values[i] = -__builtin_inff(), c.places[i] = 0xffffffffu;
  Records* sorted = room <= 128    ? sort<128>(a, b, c.values, c.places)
                    : room <= 512  ? sort<512>(a, b, c.values, c.places)
                    : room <= 2048 ? sort<2048>(a, b, c.values, c.places)
                                   : sort<8192>(a, b, c.values, c.places);
  Tile<TileType::Vec, float, 1, 2 * kPiece, BLayout::RowMajor, 1, DYNAMIC> records(2 * k);
  Tile<TileType::Vec, float, 1, kPiece, BLayout::RowMajor, 1, DYNAMIC> values(k), places(k);
  TSUBVIEW(records, *sorted, 0, 0);
  TGATHER<decltype(values), decltype(records), MaskPattern::P0101>(values, records);
  TGATHER<decltype(places), decltype(records), MaskPattern::P1010>(places, records);
  TSTORE(GlobalTensor(c.values, k), values);
  TSTORE(GlobalTensor(reinterpret_cast<float*>(c.places), k), places);
  c.count = k;
  return c.values[k - 1];
}

// A limit that at least k of the n numbers reach: the k-th of the largest numbers of `Groups`
// groups, n a multiple of that.
template <int Groups>
float limit_of(const float* x, long n, int k, Candidates& c, Records& a, Records& b) {
  static thread_local Tile<TileType::Vec, float, 1, Groups> most, next;
  TLOAD(most, GlobalTensor(x, Groups));
  for (long i = Groups; i < n; i += Groups) {
    TLOAD(next, GlobalTensor(x + i, Groups));
    TMAX(most, most, next);
  }
  TSTORE(GlobalTensor(c.values, Groups), most);
  c.count = Groups;
  return keep(c, a, b, k);
}

}  // namespace

// The k <= 1024 largest of n numbers, n a multiple of 1024, in descending order. Each piece of 1024
// leaves what is not below a limit, which rises when many have come together.
extern "C" void pto_top_k(float* values, int64_t* places, const float* x, long n, long k) {
  static thread_local Candidates c;
  static thread_local Records a, b;
  float limit = -__builtin_inff();
  if (k <= 64)
    limit = limit_of<128>(x, n, int(k), c, a, b);
  else if (n % 2048 == 0)
    limit = limit_of<2048>(x, n, int(k), c, a, b);
  c.count = 0;
  Tile<TileType::Vec, float, 1, 8, BLayout::RowMajor, 1, 1> best;
  Tile<TileType::Vec, int32_t, 1, 8, BLayout::RowMajor, 1, 1> found;
  Tile<TileType::Vec, uint32_t, 1, kPiece> where;
  Piece piece;
  for (long i = 0; i < n; i += kPiece) {
    TLOAD(piece, GlobalTensor(x + i, kPiece));
    best.SetValue(0, limit);
    TGATHER<decltype(where), Piece, decltype(best), decltype(found), Piece, CmpMode::GE>(
        where, piece, best, found, piece, 0);
    const int count = found.GetValue(0);
    for (int j = 0; j < count; ++j) {
      const uint32_t at = where.GetValue(j);
      c.values[c.count + j] = piece.GetValue(int(at));
      c.places[c.count + j] = uint32_t(i) + at;
    }
    c.count += count;
    if (c.count > kRoom - kPiece) limit = keep(c, a, b, int(k));
  }
  keep(c, a, b, int(k));
  for (long i = 0; i < k; ++i) values[i] = c.values[i], places[i] = c.places[i];
}
