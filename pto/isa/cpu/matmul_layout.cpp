// SPDX-License-Identifier: Apache-2.0
// Names the ways in which engines arrange a packed b.
#include "pto/isa/cpu/engine.hpp"
#include "pto/isa/cpu/matmul_job.hpp"

namespace {

enum Layout {
  kNone,
  kFloatsPortable,
  kFloatsAvx2,
  kFloatsAvx512,
  kPairs,
  kTiles,
  kParts,  // of PTO_MATMUL_HIGHEST to PTO_MATMUL_MEDIUM
  kBytes = kParts + 3,
  kNibbles,
  kPortableBytes,  // of products of bytes by bytes, one an engine
  kAvx2Bytes,
  kAvx512Bytes,
  kVnniBytes,
  kAmxBytes,
  kLayouts  // at most 16: the type of the elements stands above them
};
constexpr const char* kLayoutNames[kLayouts] = {"nothing",
                                                "floats for any CPU",
                                                "floats for AVX2",
                                                "floats for AVX-512",
                                                "pairs of bf16 for AVX512_BF16",
                                                "tiles of bf16 for AMX",
                                                "three parts of bf16 for AMX",
                                                "two parts of bf16 for AMX",
                                                "one part of bf16 for AMX",
                                                "words of bytes for any CPU",
                                                "words of 4 bits for any CPU",
                                                "bytes by bytes for any CPU",
                                                "bytes by bytes for AVX2",
                                                "bytes by bytes for AVX-512",
                                                "bytes by bytes for AVX512_VNNI",
                                                "bytes by bytes for AMX"};
constexpr int kTypeStep = 16;

bool is_float(int type) {
  return type == PTO_MATMUL_F32 || type == PTO_MATMUL_F16 || type == PTO_MATMUL_BF16;
}

int layout_of_floats(const pto_matmul_job& job) {
  const int engine = pto::engine_of(job);
  if (engine == PTO_MATMUL_AMX)
    return job.b.type == PTO_MATMUL_F32 ? kParts + job.precision - PTO_MATMUL_HIGHEST : kTiles;
  if (engine == PTO_MATMUL_AVX512_BF16) return kPairs;
  if (engine >= PTO_MATMUL_AVX512) return kFloatsAvx512;
  return engine == PTO_MATMUL_AVX2       ? kFloatsAvx2
         : engine == PTO_MATMUL_PORTABLE ? kFloatsPortable
                                         : kNone;
}

int layout_of_bytes(const pto_matmul_job& job) {
  switch (pto::engine_of(job)) {
    case PTO_MATMUL_BEST:
      return kNone;
    case PTO_MATMUL_PORTABLE:
      return kPortableBytes;
    case PTO_MATMUL_AVX2:
      return kAvx2Bytes;
    case PTO_MATMUL_AVX512:
      return kAvx512Bytes;
    case PTO_MATMUL_AMX:
      return kAmxBytes;
    default:
      return kVnniBytes;
  }
}

}  // namespace

int32_t pto_matmul_layout(const pto_matmul_job* job) {
  if (job->a.type == PTO_MATMUL_I8 && job->b.type == PTO_MATMUL_I8) return layout_of_bytes(*job);
  if (!is_float(job->a.type)) return kNone;
  if (job->b.type == PTO_MATMUL_I8) return kBytes;
  if (job->b.type == PTO_MATMUL_I4X2) return kNibbles;
  if (!is_float(job->b.type)) return kNone;
  const int layout = layout_of_floats(*job);
  return layout == kNone ? kNone : layout + kTypeStep * (job->b.type - PTO_MATMUL_F32);
}

const char* pto_matmul_layout_name(int32_t layout) {
  const int place = layout % kTypeStep;
  const bool is_known = layout > 0 && place < kLayouts && (place < kBytes || layout == place);
  return kLayoutNames[is_known ? place : kNone];
}
