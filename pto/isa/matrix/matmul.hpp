// SPDX-License-Identifier: Apache-2.0
// Matmul: TMATMUL, TGEMV, and their forms that accumulate, add a bias, or scale by blocks.
//
//     TileLeft<half, 64, 128> a;
//     TileRight<half, 128, 32> b;
//     TileAcc<float, 64, 32> c;
//     TMATMUL(c, a, b);                        // c[i,j] = sum over k of a[i,k] b[k,j]
//     TMATMUL_ACC(c, a, b);                    // c += a b
//     TMATMUL_BIAS(c, a, b, bias);             // bias: TileType::Bias, one row
//     TMATMUL_MX(c, left, left_scale, right, right_scale);   // of e4m3, times
//                                // 2^(left_scale[i,k/32] + right_scale[k/32,j] - 254)
//
// Sizes are those of the valid regions: M = a's rows, K = a's columns, N = b's columns.
// Law: each output is one chain of fused multiply-adds in the order of k, which starts with 0 or
// with the accumulator; the bias is added last. Integers wrap. The same bits on every target.
//
// Invariant: the product writes M x N elements of the destination, which may be the accumulator but
// must not overlap another operand.
// Thread safety: a tile belongs to one thread.
#pragma once
#include "pto/isa/cpu/matmul_job.hpp"
#include "pto/isa/kernel/enter.hpp"
#include "pto/isa/matrix/fixpipe.hpp"
#include "pto/isa/tile/tile.hpp"

PTO_NAMESPACE_BEGIN
namespace detail {

constexpr bool same_text(const char* a, const char* b) {
  while (*a && *a == *b) ++a, ++b;
  return *a == *b;
}

// Classes say their own name, so that this header needs none of theirs.
template <class T>
constexpr auto matmul_type(int) -> decltype(T::kElementName, int()) {
  constexpr const char* name = T::kElementName;
  return same_text(name, "f16")      ? PTO_MATMUL_F16
         : same_text(name, "bf16")   ? PTO_MATMUL_BF16
         : same_text(name, "e4m3")   ? PTO_MATMUL_E4M3
         : same_text(name, "e5m2")   ? PTO_MATMUL_E5M2
         : same_text(name, "hif8")   ? PTO_MATMUL_HIF8
         : same_text(name, "e2m1x2") ? PTO_MATMUL_E2M1X2
         : same_text(name, "e1m2x2") ? PTO_MATMUL_E1M2X2
         : same_text(name, "e8m0")   ? PTO_MATMUL_E8M0
                                     : PTO_MATMUL_UNKNOWN;
}
template <class T>
constexpr int matmul_type(long) {
  return kSame<T, float>     ? PTO_MATMUL_F32
         : kSame<T, int8_t>  ? PTO_MATMUL_I8
         : kSame<T, int32_t> ? PTO_MATMUL_I32
                             : PTO_MATMUL_UNKNOWN;
}
template <class D>
constexpr int kMatmulType = matmul_type<typename D::DType>(0);

// The most columns that a left operand's valid region has.
template <class A>
constexpr int kMostDepth = A::ValidCol == DYNAMIC ? A::Cols : A::ValidCol;

// Checks the rules, as sentences. A vector on the left may be padded further than the others.
template <class C, class A, class B>
constexpr bool check_product() {
  static_assert(C::Loc == TileType::Acc,
                "TMATMUL: the destination must be an accumulator; declare it as TileAcc");
  static_assert(A::Loc == TileType::Left,
                "TMATMUL: the first operand must be at TileType::Left; declare it as TileLeft and "
                "TMOV or TEXTRACT into it");
  static_assert(B::Loc == TileType::Right,
                "TMATMUL: the second operand must be at TileType::Right; declare it as TileRight "
                "and TMOV or TEXTRACT into it");
  static_assert(A::Rows == C::Rows || A::Rows == 1,
                "TMATMUL: the left operand and the accumulator must have the same Rows; limit the "
                "valid region instead");
  static_assert(A::Cols == B::Rows || (A::Rows == 1 && kMostDepth<A> <= B::Rows),
                "TMATMUL: the left operand's Cols must equal the right operand's Rows; limit the "
                "valid region instead");
  static_assert(B::Cols == C::Cols,
                "TMATMUL: the right operand and the accumulator must have the same Cols; limit the "
                "valid region instead");
  return true;
}

constexpr bool is_fp8(int type) { return type == PTO_MATMUL_E4M3 || type == PTO_MATMUL_E5M2; }
constexpr bool is_fp4(int type) { return type == PTO_MATMUL_E2M1X2 || type == PTO_MATMUL_E1M2X2; }

template <class C, class A, class B>
constexpr bool check_product_types() {
  constexpr int a = kMatmulType<A>, b = kMatmulType<B>, c = kMatmulType<C>;
  constexpr bool is_same = a == b && (a == PTO_MATMUL_F32 || a == PTO_MATMUL_F16 ||
                                      a == PTO_MATMUL_BF16 || a == PTO_MATMUL_HIF8);
  static_assert((c == PTO_MATMUL_I32 && a == PTO_MATMUL_I8 && b == PTO_MATMUL_I8) ||
                    (c == PTO_MATMUL_F32 && (is_same || (is_fp8(a) && is_fp8(b)))),
                "TMATMUL: the types must be (i32, i8, i8) or f32 with two operands of f32, f16, "
                "bf16, hif8, or of e4m3 and e5m2; convert with TCVT");
  return true;
}

template <class C, class A, class AS, class B, class BS>
constexpr bool check_scaled_types() {
  constexpr int a = kMatmulType<A>, b = kMatmulType<B>;
  static_assert(
      kMatmulType<C> == PTO_MATMUL_F32 && ((is_fp8(a) && is_fp8(b)) || (is_fp4(a) && is_fp4(b))),
      "TMATMUL_MX: the types must be f32 with two operands of e4m3 and e5m2, or of "
      "e2m1x2 and e1m2x2; make them with TQUANT");
  static_assert(kMatmulType<AS> == PTO_MATMUL_E8M0 && kMatmulType<BS> == PTO_MATMUL_E8M0,
                "TMATMUL_MX: scales must be e8m0 exponents; declare their tiles with "
                "float8_e8m0_t");
  static_assert(AS::Loc == TileType::ScaleLeft && BS::Loc == TileType::ScaleRight,
                "TMATMUL_MX: the scales must be at ScaleLeft and ScaleRight; declare them as "
                "TileLeftScale and TileRightScale");
  static_assert(A::Cols % 64 == 0,
                "TMATMUL_MX: Cols of the left operand must be a multiple of 64; limit the valid "
                "region instead");
  static_assert(AS::Rows >= A::Rows && AS::Cols * 32 >= kMostDepth<A> && BS::Cols >= B::Cols &&
                    BS::Rows * 32 >= kMostDepth<A>,
                "TMATMUL_MX: there must be a scale for each row and each 32 elements of K; give "
                "the left scales K / 32 Cols, the right ones K / 32 Rows");
  return true;
}

template <class C, class Bias>
constexpr bool check_bias() {
  static_assert(Bias::Loc == TileType::Bias && Bias::Rows == 1 && kIsRows<Bias>,
                "TMATMUL_BIAS: the bias must be one row-major row at TileType::Bias; declare it as "
                "Tile<TileType::Bias, T, 1, N>");
  static_assert(
      kSame<typename Bias::DType, typename C::DType>,
      "TMATMUL_BIAS: the bias must have the accumulator's element type; TMOV into a bias converts");
  static_assert(Bias::Cols >= C::Cols,
                "TMATMUL_BIAS: the bias must have an element for each column of the accumulator; "
                "give it as many Cols");
  return true;
}

template <class C, class In>
constexpr bool check_accumulator() {
  static_assert(In::Loc == TileType::Acc && kSame<typename In::DType, typename C::DType> &&
                    In::Rows == C::Rows && In::Cols == C::Cols,
                "TMATMUL_ACC: the accumulator that is added to must have the destination's "
                "location, element type, Rows and Cols; declare both with one type");
  return true;
}

struct NoTile {};

// Checks what is added to the product.
template <class C, class In, class Bias>
constexpr bool check_terms() {
  if constexpr (!kSame<In, NoTile>) static_assert(check_accumulator<C, In>());
  if constexpr (!kSame<Bias, NoTile>) static_assert(check_bias<C, Bias>());
  return true;
}

// Describes a tile as the loops see it.
template <class D>
PTO_INLINE pto_matmul_matrix matrix_of(const D& d) {
  void* const data = const_cast<typename D::DType*>(d.data());
  constexpr int type = kMatmulType<D>, box = D::InnerNumel;
  if constexpr (!D::isBoxedLayout)
    return pto_matmul_plain(data, type, D::RowStride, D::ColStride);
  else
    return {data,
            type,
            D::InnerRows,
            D::InnerCols,
            D::isRowMajor ? D::kBoxCols * box : box,
            D::isRowMajor ? box : D::kBoxRows * box,
            D::isInnerRowMajor ? D::InnerCols : 1,
            D::isInnerRowMajor ? 1 : D::InnerRows};
}

PTO_INLINE pto_matmul_matrix matrix_of(NoTile) { return {}; }

#ifdef PTO_CHECKED
// Requires that operands are valid in what a product of m x k by k x n takes of them.
template <class C, class A, class B, class In, class Bias, class AS, class BS>
PTO_INLINE void require_product(const C& c, const A& a, const B& b, [[maybe_unused]] const In& in,
                                [[maybe_unused]] const Bias& bias,
                                [[maybe_unused]] const AS& a_scale,
                                [[maybe_unused]] const BS& b_scale) {
  using checked::require_valid;
  const int m = a.GetValidRow(), k = a.GetValidCol(), n = b.GetValidCol();
  require_valid("TMATMUL", "c, a, b", 2, k, n, b);
  checked::require_filled("TMATMUL", "c, a, b", 1, c, m, n);
  if constexpr (!kSame<In, NoTile>) require_valid("TMATMUL_ACC", "c, start, a, b", 1, m, n, in);
  if constexpr (!kSame<Bias, NoTile>)
    require_valid("TMATMUL_BIAS", "c, a, b, bias", 3, m > 0, n, bias);
  if constexpr (!kSame<AS, NoTile>) {
    const int groups = (k + 31) / 32;
    require_valid("TMATMUL_MX", "c, a, a_scale, b, b_scale", 2, m, groups, a_scale);
    require_valid("TMATMUL_MX", "c, a, a_scale, b, b_scale", 4, groups, n, b_scale);
  }
}
#endif

template <class C, class A, class B, class In, class Bias, class AS, class BS>
PTO_INLINE pto_matmul_job matmul_job(const C& c, const A& a, const B& b, const In& in,
                                     const Bias& bias, const AS& a_scale, const BS& b_scale) {
  static_assert(check_product<C, A, B>());
  static_assert(check_terms<C, In, Bias>());
  PTO_IF_CHECKED(require_product(c, a, b, in, bias, a_scale, b_scale);)
  pto_matmul_job job = {};
  job.rows = a.GetValidRow(), job.depth = a.GetValidCol(), job.cols = b.GetValidCol();
  job.c = matrix_of(c), job.start = matrix_of(in), job.bias = matrix_of(bias);
  job.a = matrix_of(a), job.b = matrix_of(b);
  job.a_scale = matrix_of(a_scale), job.b_scale = matrix_of(b_scale);
  return job;
}

template <class C, class A, class B, class In = NoTile, class Bias = NoTile>
PTO_INLINE void multiply(C& c, const A& a, const B& b, const In& in = {}, const Bias& bias = {}) {
  static_assert(check_product_types<C, A, B>());
  const pto_matmul_job job = matmul_job(c, a, b, in, bias, NoTile(), NoTile());
  pto_matmul(&job);
}

template <class C, class A, class AS, class B, class BS, class In = NoTile, class Bias = NoTile>
PTO_INLINE void multiply_scaled(C& c, const A& a, const AS& a_scale, const B& b, const BS& b_scale,
                                const In& in = {}, const Bias& bias = {}) {
  if constexpr (Rules::kIgnoresFloatScales && kMatmulType<A> == PTO_MATMUL_F32 &&
                kMatmulType<AS> == PTO_MATMUL_F32) {
    multiply(c, a, b, in, bias);  // as it tests them: numbers without a scale
  } else {
    static_assert(check_scaled_types<C, A, AS, B, BS>());
    const pto_matmul_job job = matmul_job(c, a, b, in, bias, a_scale, b_scale);
    pto_matmul(&job);
  }
}

// The forms of one mnemonic differ in the number and the locations of their tiles.
template <class D>
constexpr bool kIsBias = false;
template <class T, int R, int C, BLayout B, int VR, int VC, SLayout S, int F, auto P, CompactMode M>
constexpr bool kIsBias<Tile<TileType::Bias, T, R, C, B, VR, VC, S, F, P, M>> = true;
template <class D>
constexpr bool kIsAcc = false;
template <class T, int R, int C, BLayout B, int VR, int VC, SLayout S, int F, auto P, CompactMode M>
constexpr bool kIsAcc<Tile<TileType::Acc, T, R, C, B, VR, VC, S, F, P, M>> = true;

template <class... X>
constexpr bool check_events() {
  static_assert((!kIsTile<X> && ...),
                "TMATMUL: too many tiles; TMATMUL_ACC takes (c, a, b) or (c, in, a, b), "
                "TMATMUL_BIAS (c, a, b, bias)");
  return true;
}

}  // namespace detail

#define PTO_TILES template <AccPhase Phase = AccPhase::Unspecified, class C, class A, class B
#define PTO_WHERE(condition) class... X, typename Enable<condition>::type = 0

// The phase tells an accelerator whether more products follow; each is complete here.
#define PTO_PRODUCTS(plain, acc, with_bias, scaled)                                                \
  PTO_TILES,                                                                                       \
      class... X > PTO_INLINE RecordEvent plain(C& c, const A& a, const B& b, const X&...) {       \
    static_assert(detail::check_events<X...>());                                                   \
    PTO_ENTER(plain, "c, a, b", out(c), in(a, b));                                                 \
    detail::multiply(c, a, b);                                                                     \
    return {};                                                                                     \
  }                                                                                                \
  PTO_TILES, PTO_WHERE(!detail::kIsAcc<A>) >                                                       \
                 PTO_INLINE RecordEvent acc(C& c, const A& a, const B& b, const X&...) {           \
    static_assert(detail::check_events<X...>());                                                   \
    PTO_ENTER(acc, "c, a, b", out(c), in(a, b));                                                   \
    detail::multiply(c, a, b, c);                                                                  \
    return {};                                                                                     \
  }                                                                                                \
  PTO_TILES, class In,                                                                             \
      PTO_WHERE(detail::kIsAcc<In>) >                                                              \
          PTO_INLINE RecordEvent acc(C& c, const In& start, const A& a, const B& b, const X&...) { \
    static_assert(detail::check_events<X...>());                                                   \
    PTO_ENTER(acc, "c, start, a, b", out(c), in(start, a, b));                                     \
    detail::multiply(c, a, b, start);                                                              \
    return {};                                                                                     \
  }                                                                                                \
  PTO_TILES, class Bias,                                                                           \
      class... X > PTO_INLINE RecordEvent with_bias(C& c, const A& a, const B& b,                  \
                                                    const Bias& bias, const X&...) {               \
    static_assert(detail::check_events<X...>());                                                   \
    PTO_ENTER(with_bias, "c, a, b, bias", out(c), in(a, b, bias));                                 \
    detail::multiply(c, a, b, detail::NoTile(), bias);                                             \
    return {};                                                                                     \
  }                                                                                                \
  PTO_TILES, class AS, class BS,                                                                   \
      PTO_WHERE(!detail::kIsAcc<A>) >                                                              \
          PTO_INLINE RecordEvent scaled(C& c, const A& a, const AS& a_scale, const B& b,           \
                                        const BS& b_scale, const X&...) {                          \
    static_assert(detail::check_events<X...>());                                                   \
    PTO_ENTER(scaled, "c, a, a_scale, b, b_scale", out(c), in(a, a_scale, b, b_scale));            \
    detail::multiply_scaled(c, a, a_scale, b, b_scale);                                            \
    return {};                                                                                     \
  }                                                                                                \
  PTO_TILES, class AS, class BS, class In,                                                         \
      PTO_WHERE(detail::kIsAcc<In>) >                                                              \
          PTO_INLINE RecordEvent scaled(C& c, const In& start, const A& a, const AS& a_scale,      \
                                        const B& b, const BS& b_scale, const X&...) {              \
    static_assert(detail::check_events<X...>());                                                   \
    PTO_ENTER(scaled, "c, start, a, a_scale, b, b_scale", out(c),                                  \
              in(start, a, a_scale, b, b_scale));                                                  \
    detail::multiply_scaled(c, a, a_scale, b, b_scale, start);                                     \
    return {};                                                                                     \
  }                                                                                                \
  PTO_TILES, class AS, class BS, class Bias,                                                       \
      PTO_WHERE(!detail::kIsAcc<A> && detail::kIsBias<Bias>) >                                     \
          PTO_INLINE RecordEvent scaled(C& c, const A& a, const AS& a_scale, const B& b,           \
                                        const BS& b_scale, const Bias& bias, const X&...) {        \
    static_assert(detail::check_events<X...>());                                                   \
    PTO_ENTER(scaled, "c, a, a_scale, b, b_scale, bias", out(c),                                   \
              in(a, a_scale, b, b_scale, bias));                                                   \
    detail::multiply_scaled(c, a, a_scale, b, b_scale, detail::NoTile(), bias);                    \
    return {};                                                                                     \
  }

PTO_PRODUCTS(TMATMUL, TMATMUL_ACC, TMATMUL_BIAS, TMATMUL_MX)
PTO_PRODUCTS(TGEMV, TGEMV_ACC, TGEMV_BIAS, TGEMV_MX)  // a has one row
#undef PTO_PRODUCTS
#undef PTO_WHERE
#undef PTO_TILES

PTO_NAMESPACE_END
