// SPDX-License-Identifier: Apache-2.0
// Matmul job: a matrix product as plain C, which TMATMUL and its relatives hand to libpto. libpto
// holds the loops once for each target and takes the best one that the CPU has.
//
//     pto_matmul_job job = {};                 // c = start + a b + bias, all in place
//     job.rows = 16, job.depth = 64, job.cols = 32;
//     job.a = {data, PTO_MATMUL_F32, 16, 8, 128, 256, 8, 1};   // likewise b, c, start, bias
//     pto_matmul(&job);
//
// Law: c[i,j] = (start[i,j] + a[i,0] b[0,j] + a[i,1] b[1,j] + ...) + bias[j]. Integers wrap: every
// engine gives the same bits. Floats: each product is added with one rounding, in the order of k,
// and the bias with another, so every engine gives the same bits (but for the payload and sign of a
// NaN). AVX512_BF16 and AMX are exceptions: both add products of bf16, and the first also those of
// bf16 by codes (matmul_coded_kernel.hpp), in an order of their own, and take subnormal numbers for
// zeros. They differ from the sum of the others by at most
// (depth + 2) * 2^-23 * (|start| + |a| |b|) + depth * 2^-125, by I4X2 by about a tenth more with
// |factor b| + |zero| as |b|. abi/precision.h tells more of products of f32. On one engine an
// element has the same bits however the work is cut, in any layout, whatever other rows and columns
// there are, packed or not. An element of a and b counts as a[i,k] * 2^(scale[i,k/32] - 127) where
// scales are given, rounded to f32; one of I4X2 as b[k,j] * factor[k/group,j] + zero[k/group,j],
// rounded once, or as b[k,j] * factor[j/group,k] + zero[j/group,k] where groups are of columns,
// which all engines take as floats.
// Without terms c is start, or zeros, plus bias.
//
// Types: c is f32 for floats of up to 32 bits, where b may be I8 (without boxes) or I4X2, and i32
// for bytes, each operand with or without a sign, and for two of i16; or all are i32, i64 or f64.
// Up to pto_matmul_narrow_depth c may be f16 or bf16 as a and b are: its sums are rounded once.
//
// Thread safety: any thread; pto_matmul writes c, or packed, and only reads everything else.
#pragma once
#include <stdint.h>

#include "pto/abi/precision.h"
#include "pto/abi/runs.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {  // pto_matmul_matrix::type; PTO_MATMUL_UNKNOWN is refused by the instruction
  PTO_MATMUL_UNKNOWN,
  PTO_MATMUL_F32,
  PTO_MATMUL_F16,
  PTO_MATMUL_BF16,
  PTO_MATMUL_I8,
  PTO_MATMUL_I32,
  PTO_MATMUL_E4M3,
  PTO_MATMUL_E5M2,
  PTO_MATMUL_HIF8,
  PTO_MATMUL_E2M1X2,
  PTO_MATMUL_E1M2X2,
  PTO_MATMUL_E8M0,
  PTO_MATMUL_U8,
  PTO_MATMUL_I16,
  PTO_MATMUL_I64,
  PTO_MATMUL_F64,
  PTO_MATMUL_I4X2  // signed; of b alone, without boxes: row_stride or else col_stride is 1
};

// Element [r, c] lies at (r / box_rows) * box_row_stride + r % box_rows * row_stride, and the same
// for c; strides in elements. Boxes are powers of two; a matrix without boxes is one huge box. A
// byte with two elements counts as two, the first in the low half.
typedef struct pto_matmul_matrix {
  void* data;  // null: absent
  int32_t type;
  int32_t box_rows, box_cols;
  int64_t box_row_stride, box_col_stride;
  int64_t row_stride, col_stride;
} pto_matmul_matrix;

enum { PTO_MATMUL_UNBOXED = 1 << 30 };

// Returns a matrix without boxes. Static: each file compiles it with its own flags.
static inline pto_matmul_matrix pto_matmul_plain(const void* data, int32_t type, int64_t row_stride,
                                                 int64_t col_stride) {
  const int32_t box = PTO_MATMUL_UNBOXED;
  const pto_matmul_matrix m = {(void*)data, type, box, box, 0, 0, row_stride, col_stride};
  return m;
}

// A b that is gathered from images while it is packed, so that a product is a convolution. Images
// have channels of height x width pixels; those of a row lie together. Column p of b is place
// `first` + p of the filter, counted along rows of results, then by rows, then by images. Element
// k of a column is a pixel of channel k / (filter_h filter_w), under the element of the filter that
// the rest of k counts along its rows. Outside an image pixels are zero.
typedef struct pto_matmul_patches {
  int64_t image_stride, channel_stride;  // in elements
  int64_t height, width, filter_h, filter_w, out_h, out_w;
  int64_t stride_h, stride_w, padding_h, padding_w, dilation_h, dilation_w;
  int64_t first;
} pto_matmul_patches;

// pto_matmul_job::engine. Each has what those before it have: where it has no loops of its own for
// the types of a job, theirs run.
enum {
  PTO_MATMUL_BEST,
  PTO_MATMUL_PORTABLE,
  PTO_MATMUL_AVX2,
  PTO_MATMUL_AVX512,
  PTO_MATMUL_AVX512_VNNI,  // 8-bit integers by vpdpbusd
  PTO_MATMUL_AVX512_BF16,  // pairs of bf16, also by codes, by vdpbf16ps; f32 at precision medium
  PTO_MATMUL_AMX           // bf16, 8-bit integers and f32 by tiles
};

typedef struct pto_matmul_job {
  int32_t engine;
  int32_t precision;          // of f32: PTO_MATMUL_CHAIN and others
  int32_t rows, depth, cols;  // c is rows x cols, a is rows x depth
  pto_matmul_matrix c, start, a, b, bias, a_scale, b_scale;
  // Tells that this is the transposed product of the one that is meant: a, b and c are its b', a'
  // and c'. An engine whose bits depend on that gives those of the product that is meant.
  int32_t is_turned;
  // b as the engine reads it, pto_matmul_packed_bytes of it, so that a caller that multiplies by
  // one b again and again arranges it once. A job with `packs` writes it from b and writes nothing
  // else; others of the same engine, precision, types, depth and cols read it in place of b, which
  // may be given too.
  void* packed;
  int32_t packs;
  // Where `packed` has more columns than the job, at most PTO_MATMUL_PACKED_COLS: how many, and the
  // first one of the job, a multiple of 32; so is the number of its columns, unless they are the
  // last ones. 0 and 0: they are the job's.
  int32_t packed_cols, packed_first;
  // The groups of a b of I4X2: 32, 64 or 128 of the depth, which is a multiple of them. Factors and
  // zeros (data null: none) are f32, f16 or bf16, groups x cols, each row's together. Where b's
  // col_stride is 1, groups are of the columns: groups x depth; such a b is not packed.
  int32_t b_group;
  pto_matmul_matrix b_factor, b_zero;
  // How b is gathered from images, or null. b has their first pixel and type, f32, f16, bf16 or
  // f64; neither strides nor boxes of b count. AMX and AVX512_BF16 leave it to those before them.
  const pto_matmul_patches* b_patches;
  // Memory that the caller reads next, or null: a product whose time is that of reading b asks for
  // it meanwhile, and leaves the runs it has not asked for. Where the caller's next products share
  // it, `soon_parts` counts them, with this one. `is_asked`: it was done for b.
  pto_runs* soon;
  int32_t soon_parts, is_asked;
  // Where rows of b, or its columns, lie while nothing lies at b's data, a place in `copy`; or
  // null. Loops that do not read pages have them copied first.
  pto_pages* b_pages;
} pto_matmul_job;

enum { PTO_MATMUL_PACKED_COLS = 1024 };
enum { PTO_MATMUL_FEW_ROWS = 16 };  // for which f32 is not packed where its parts are larger

// Returns the bytes of `packed`, a multiple of 32, for the engine, depth, cols and types of a job.
int64_t pto_matmul_packed_bytes(const pto_matmul_job* job);

// Raised when an engine arranges `packed` in another way; matmul_layout_test.cpp notices.
enum { PTO_MATMUL_LAYOUT_VERSION = 4 };

// Returns a number up to 127 for the way in which `packed` is arranged for a job of floats of up to
// 32 bits, of floats by codes, or of I8 by I8: jobs of one number, depth and cols read what each
// other packed. 0: the CPU lacks the wanted engine, or other types. A name: "floats for AVX2".
int32_t pto_matmul_layout(const pto_matmul_job* job);
const char* pto_matmul_layout_name(int32_t layout);

// Units of the depth that pass before sums are stored: of the loops for AVX-512, of those of tiles,
// and of the others.
enum { PTO_MATMUL_WIDE_BLOCK = 1024, PTO_MATMUL_TILE_BLOCK = 1056, PTO_MATMUL_BLOCK = 512 };

// Returns the largest depth at which c may be of the type of a and b, f16 or bf16, in rows without
// boxes, and without `start`; -1: at none, not even 0.
int32_t pto_matmul_narrow_depth(const pto_matmul_job* job);

// Copies a tensor in pages to where it belongs.
void pto_copy_pages(pto_pages* pages);

// Returns 0; or, having written nothing, 1 where the CPU lacks the wanted engine, and 2 where the
// columns of a job are not those that may be read from, or written to, `packed`.
int32_t pto_matmul(const pto_matmul_job* job);

// Multiplies `count` matrices at once, of which the job has the first, and of which those of each
// operand lie so many elements apart. Returns false, having written nothing, where pto_matmul() for
// one after the other takes no longer.
bool pto_matmul_many(const pto_matmul_job* job, int64_t count, int64_t a_step, int64_t b_step,
                     int64_t c_step);

#ifdef __cplusplus
}
#endif
