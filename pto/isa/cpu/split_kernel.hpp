// SPDX-License-Identifier: Apache-2.0
// Split kernel: 32 x 32 sums of the products of parts of bf16 that stand for floats, and which of
// their products count.
//
//     SplitKernel<Way, ThreeParts, 2, 2>::run(in, from, to, sums);   // 2 x 2 tiles
//
// Law: per 32 of depth the products of parts follow each other in one order.
// Invariant: stores the sums in `to`, and nothing else.
// Thread safety: the tiles are the thread's.
#pragma once
#include "pto/isa/cpu/tile_product.hpp"

PTO_NAMESPACE_BEGIN
namespace matmul {

// Which parts are multiplied, in this order, the small ones first: their sum is rounded where it is
// small. A part is loaded where it is another than before.
struct ThreeParts {
  static constexpr int kParts = 3, kTerms = 6;
  static constexpr int a[] = {0, 0, 1, 1, 2, 0}, b[] = {2, 1, 1, 0, 0, 0};
};
struct TwoParts {
  static constexpr int kParts = 2, kTerms = 3;
  static constexpr int a[] = {0, 1, 0}, b[] = {1, 0, 0};
};
struct OnePart {
  static constexpr int kParts = 1, kTerms = 1;
  static constexpr int a[] = {0}, b[] = {0};
};
// The same for the transposed product.
template <class Terms>
struct TurnedTerms {
  static constexpr int kParts = Terms::kParts, kTerms = Terms::kTerms;
  static constexpr const int *a = Terms::b, *b = Terms::a;
};

// Parts of a, [steps][part][tiles], and of b.
struct SplitOperands {
  const char *a, *b;
  int64_t a_part, b_part, ahead;
  int steps;
};

template <class Way, class Terms, int Rows, int Cols>
struct SplitKernel {
  using Ends = TileEnds<Way, Rows, Cols>;

  // The tiles of a step, and those that it asks for meanwhile.
  struct Step {
    const char *a, *b, *next_a, *next_b;
  };
  template <int Product>
  static PTO_INLINE void ask(const Step& at) {
    constexpr int kProducts = Terms::kTerms * Rows * Cols, kLines = Terms::kParts * kTileRows;
    ask_part<Product, kProducts, Rows * kLines>(at.next_a);
    ask_part<Product, kProducts, Cols * kLines>(at.next_b);
  }

  template <int I>
  static PTO_INLINE void term(const Step& at, int64_t a_part, int64_t b_part) {
    constexpr bool kNewA = I == 0 || Terms::a[I] != Terms::a[I > 0 ? I - 1 : 0];
    constexpr bool kNewB = I == 0 || Terms::b[I] != Terms::b[I > 0 ? I - 1 : 0];
    constexpr int kFirst = I * Rows * Cols;
    const char *const a = at.a + Terms::a[I] * a_part, *const b = at.b + Terms::b[I] * b_part;
    if constexpr (kNewA) Way::template load<4>(a, kTileRowBytes);
    if constexpr (kNewA && Rows == 2) Way::template load<5>(a + kTileBytes, kTileRowBytes);
    if constexpr (kNewB) Way::template load<6>(b, kTileRowBytes);
    if constexpr (kNewB && Cols == 2) Way::template load<7>(b + kTileBytes, kTileRowBytes);
    Way::template add<0, 4, 6>();
    ask<kFirst>(at);
    if constexpr (Cols == 2) {
      Way::template add<1, 4, 7>();
      ask<kFirst + 1>(at);
    }
    if constexpr (Rows == 2) {
      Way::template add<2, 5, 6>();
      ask<kFirst + Cols>(at);
    }
    if constexpr (Rows == 2 && Cols == 2) {
      Way::template add<3, 5, 7>();
      ask<kFirst + 3>(at);
    }
  }
  template <int... I>
  static PTO_INLINE void step(Indices<I...>, const Step& at, const SplitOperands& in) {
    (term<I>(at, in.a_part, in.b_part), ...);
  }

  static void run(const SplitOperands& in, const TilePlace& from, const TilePlace& to,
                  TileSums<Way>& sums) {
    Ends::begin(from);
    const bool has_copy = sums.has_copy();
    const int64_t a_step = Terms::kParts * in.a_part, b_step = Terms::kParts * in.b_part;
    for (int s = 0; s < in.steps; ++s) {
      const char *const a = in.a + s * a_step, *const b = in.b + s * b_step;
      step(typename IndicesTo<Terms::kTerms>::type(),
           {a, b, a + a_step, b + (in.ahead ? in.ahead : b_step)}, in);
      if (has_copy) sums.write_some();
    }
    Ends::end(to);
  }
};

}  // namespace matmul
PTO_NAMESPACE_END
