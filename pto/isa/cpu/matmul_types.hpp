// SPDX-License-Identifier: Apache-2.0
// Matmul types: chooses the loops for the types of a job.
//
//     matmul::run(job, false);   // the best way of this target; true: the CPU has VNNI
//
// libpto compiles them once for each target (matmul_avx2.cpp, ...), so that no kernel pays for
// compiling them.
//
// Thread safety: any thread.
#pragma once
#include "pto/isa/cpu/loops.hpp"
#include "pto/isa/cpu/matmul_apart.hpp"
#include "pto/isa/cpu/matmul_coded_loops.hpp"
#include "pto/isa/cpu/matmul_coded_rows.hpp"
#include "pto/isa/cpu/matmul_loops.hpp"
#include "pto/isa/cpu/matmul_many.hpp"
#include "pto/isa/cpu/matmul_pack_bytes.hpp"
#include "pto/isa/cpu/matmul_pack_rounded.hpp"
#include "pto/isa/cpu/matmul_pack_whole.hpp"
#include "pto/isa/cpu/matmul_patches.hpp"
#include "pto/isa/cpu/matmul_stream_packed.hpp"
#include "pto/isa/cpu/matmul_tiny.hpp"

PTO_NAMESPACE_BEGIN
namespace matmul {

// Runs b's columns of T against the rows of a type that Dot's packers take.
template <class Dot, class T>
void run_bytes(const pto_matmul_job& job) {
  const bool is_signed = job.a.type == PTO_MATMUL_I8;
  // Quads multiply unsigned by signed: a takes the sign that b has not.
  const int excess = Dot::kPerUnit < 4 || is_signed != kSame<T, int8_t> ? 0
                     : is_signed                                        ? -128
                                                                        : 128;
  Product<Dot>(job, is_signed ? pack_left_bytes<Dot, int8_t, T> : pack_left_bytes<Dot, uint8_t, T>,
               pack_right_bytes<Dot, T>, excess)
      .run();
}
// For floats a, or pairs of bf16, and codes b; the packers are those of a, and of rows of b.
template <class Dot, class Code>
void run_coded(const pto_matmul_job& job, bool quads, Pack left, Pack right_rows) {
  if (job.packs) return pack_words<Code>(job);
  if (CodedRows<Code>::fit(job)) return Product<Dot>(job, left, right_rows).run();
  BlockPanels& panels = of_thread<BlockPanels>();
  static_assert(sizeof panels.right >= sizeof(CodedPanel));
  auto& panel = reinterpret_cast<CodedPanel&>(panels.right);
  CodedProduct<Dot, Code>(unpacked(job), quads, left, panels.left, panel).run();
}
template <class Code>
void run_coded(const pto_matmul_job& job, bool quads) {
  run_coded<FloatDot, Code>(job, quads, floats(job.a.type).left, pack_right_coded_rows<Code>);
}
// For bf16, both, or with codes; or floats, which are rounded.
template <class Pairs>
void run_pairs(const pto_matmul_job& job) {
  using Dot = Bf16Dot<Pairs>;
  const Pack left = pack_left_bytes<Dot, int16_t, int16_t>;
  if (job.a.type != PTO_MATMUL_F32 && run_apart<Dot>(job)) return;
  if (job.b.type == PTO_MATMUL_I8)
    return run_coded<Dot, ByteCode>(job, true, left, pack_right_coded_pairs);
  if (job.b.type == PTO_MATMUL_I4X2)  // whose rows are left to floats: engine.cpp
    return run_coded<Dot, NibbleCode>(job, true, left, pack_right_coded_pairs);
  if (job.a.type == PTO_MATMUL_F32)
    return Product<Dot>(job, pack_left_rounded, pack_right_rounded).run();
  if (PackedStream<Dot, uint16_t>(job, left).run()) return;
  Product<Dot>(job, left, pack_right_bytes<Dot, int16_t>).run();
}
template <class Dot>
void run_whole(const pto_matmul_job& job) {
  Product<Dot>(
      job, pack_whole_left<typename Dot::Unit>,
      job.b_patches ? pack_right_patches_of(job.b.type) : pack_whole_right<typename Dot::Unit>)
      .run();
}

// Multiplies a few rows by signed bytes that are read once; false: nothing was written.
inline bool run_few_by_bytes(const pto_matmul_job& job, bool quads) {
  if (job.b.type != PTO_MATMUL_I8) return false;
  static_cast<void>(quads);
#if defined(PTO_TARGET_AVX512)
  if (quads) {
    using Dot = QuadDot<uint8_t>;
    return PackedStream<Dot, uint8_t>(job, pack_left_bytes<Dot, int8_t, uint8_t>).run();
  }
#endif
  using Dot = PairDot<int8_t>;
  return PackedStream<Dot, int8_t>(job, job.a.type == PTO_MATMUL_I8
                                            ? pack_left_bytes<Dot, int8_t, int8_t>
                                            : pack_left_bytes<Dot, uint8_t, int8_t>)
      .run();
}

// Multiplies a few rows by a b in pages; false: nothing was written.
inline bool run_pages(const pto_matmul_job& job) {
  const bool has_floats = job.a.type == PTO_MATMUL_F32 || job.a.type == PTO_MATMUL_BF16;
  const bool is_read = job.b.type == job.a.type || job.b.type == PTO_MATMUL_I8;
  return has_floats && is_read && run_apart<FloatDot>(job);
}

// `quads`: the CPU multiplies quads of bytes.
inline void run(const pto_matmul_job& job, bool quads) {
  static_cast<void>(quads);
  switch (job.a.type) {
    case PTO_MATMUL_I8:
    case PTO_MATMUL_U8:
      if (run_few_by_bytes(job, quads)) return;
#if defined(PTO_TARGET_AVX512)
      if (quads)
        return job.b.type == PTO_MATMUL_I8 ? run_bytes<QuadDot<int8_t>, int8_t>(job)
                                           : run_bytes<QuadDot<uint8_t>, uint8_t>(job);
#endif
      return job.b.type == PTO_MATMUL_I8 ? run_bytes<PairDot<int8_t>, int8_t>(job)
                                         : run_bytes<PairDot<uint8_t>, uint8_t>(job);
    case PTO_MATMUL_I16:
      return Product<PairDot<int16_t>>(job, pack_left_bytes<PairDot<int16_t>, int16_t, int16_t>,
                                       pack_right_bytes<PairDot<int16_t>, int16_t>)
          .run();
    case PTO_MATMUL_I32:
      return run_whole<WrappingDot<int32_t>>(job);
    case PTO_MATMUL_I64:
      return run_whole<WrappingDot<int64_t>>(job);
    case PTO_MATMUL_F64:
      if (run_tiny<DoubleDot, double>(job)) return;
      return run_whole<DoubleDot>(job);
    default:
      if (job.b.type == PTO_MATMUL_I8)
        return run_apart<FloatDot>(job) ? void() : run_coded<ByteCode>(job, quads);
      if (job.b.type == PTO_MATMUL_I4X2) return run_coded<NibbleCode>(job, quads);
      if (job.b.type == PTO_MATMUL_F32 && run_tiny<FloatDot, float>(job)) return;
      if (run_apart<FloatDot>(job)) return;
      if (!job.b_patches && Stream::pays(job) && Stream(job).run()) return;
      Product<FloatDot>(
          job, floats(job.a.type).left,
          job.b_patches ? pack_right_patches_of(job.b.type) : floats(job.b.type).right)
          .run();
  }
}

inline constexpr MatmulLoops kLoops = {[](const pto_matmul_job& job) { run(job, false); },
                                       run_pages, run_many};

}  // namespace matmul
PTO_NAMESPACE_END
