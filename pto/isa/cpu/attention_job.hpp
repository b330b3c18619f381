// SPDX-License-Identifier: Apache-2.0
// Attention job: softmax(scale q k^T + bias) v for queries that share their keys, as plain C.
// libpto holds the loops once for each target and takes the best one that the CPU has.
//
//     pto_attention_job job = {};                       // one head, 100 queries, 300 keys
//     job.heads = 1, job.queries = 100, job.keys = 300, job.width = 64, job.value_width = 64;
//     job.row = 0, job.rows = 100;                      // all; threads share them
//     job.first = -PTO_ATTENTION_UNBOUNDED, job.last = PTO_ATTENTION_UNBOUNDED;
//     job.type = PTO_MATMUL_F32, job.scale = 0.125f;
//     job.q = {q, 0, 64, 1}, job.k = {k, 0, 64, 1}, job.v = {v, 0, 64, 1};
//     job.out = {out, 0, 64, 1};
//     job.workspace = pto_malloc(pto_attention_bytes(&job));
//     pto_attention(&job);
//
// Query i of each head counts as position i + job.position among the keys. It sees the keys
// position + first .. position + last, cut to 0 .. keys - 1, except those that the mask hides. Its
// score for key j is scale q_i k_j, then softcap tanh(score / softcap) where softcap is not 0, then
// minus slope |position - j|, then plus the mask's number. Dropout clears a share of the weights
// and multiplies the others by 1 / (1 - dropout), after their sum is taken; attention_dropout.hpp
// says which.
//
// Law: scores are chains of multiply-adds in the order of the width; the weights
// 2^(score - largest so far) are summed, and multiplied by v, in blocks of keys whose places depend
// on the widths only. On PTO_MATMUL_AMX and PTO_MATMUL_AVX512_BF16 bf16 is multiplied in that
// engine's order, and weights are rounded to bf16 after they are summed.
// So the outputs of a query have the same bits whatever other queries and heads are computed with
// it, on one engine, where v is finite. A query that sees no key has zeros, and -infinity as the
// logarithm of its sum.
//
// Thread safety: any thread; pto_attention writes out, log_sums and workspace, and
// pto_attention_backward d_q, d_k, d_v and workspace, pto_attention_add_scores sums and workspace.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "pto/isa/cpu/matmul_job.hpp"

#ifdef __cplusplus
extern "C" {
#endif

// Element [h, i, c] lies at h * head_stride + i * row_stride + c * col_stride, in elements. An
// operand without rows or columns ignores their strides.
typedef struct pto_attention_operand {
  void* data;  // null: absent
  int64_t head_stride, row_stride, col_stride;
} pto_attention_operand;

enum { PTO_ATTENTION_UNBOUNDED = 1 << 30 };  // no bound: -this as first, this as last

// The operands that the same thread reads in its next call, with the strides and sizes of this one.
typedef struct pto_attention_soon {
  const void *q, *k, *v;  // null: not known
} pto_attention_soon;

typedef struct pto_attention_job {
  int32_t engine;  // PTO_MATMUL_BEST and others; AVX512_VNNI runs as AVX512
  int32_t type;    // of q, k, v and out, and of a mask of numbers: PTO_MATMUL_F32, F16 or BF16
  int32_t heads, queries, keys, width, value_width;
  int32_t row, rows;  // this call computes rows row .. row + rows - 1 of heads x queries
  int32_t position, first, last;
  float scale, softcap;
  pto_attention_operand q, k, v, out;  // k and v have one head; no out: the sums alone
  pto_attention_operand mask;          // rows: queries, columns: keys
  int32_t mask_hides;                  // the mask has bytes: 0 hides the key
  pto_attention_operand slopes;        // floats, one for each head; or absent
  pto_attention_operand log_sums;      // floats, natural logarithms of rows; or absent
  float dropout;                       // 0 to 1, none to all
  uint64_t seed, first_head;           // of dropout; heads count over all batches
  void* workspace;                     // pto_attention_bytes, of this call alone
  pto_attention_soon soon;             // asked for during this call; or absent
} pto_attention_job;

// Return the bytes of the workspace and the rows for which keys and values are packed once: a call
// for fewer is slower. Both depend on the engine and the widths only; 0: the CPU lacks the engine.
size_t pto_attention_bytes(const pto_attention_job* job);
int32_t pto_attention_rows(const pto_attention_job* job);

// Returns 0, or 1 where the CPU lacks the wanted engine; then nothing is written.
int32_t pto_attention(const pto_attention_job* job);

// The gradients of a job with all its rows, from those of its results.
typedef struct pto_attention_gradients {
  pto_attention_job of;  // with its results, out and log_sums
  pto_attention_operand d_out;
  pto_attention_operand d_log_sums;     // or absent
  pto_attention_operand d_q, d_k, d_v;  // each may be absent
} pto_attention_gradients;

size_t pto_attention_gradients_bytes(const pto_attention_gradients* job);
int32_t pto_attention_backward(const pto_attention_gradients* job);

// Adds the gradients of scores behind softcap, which are those of numbers in a mask, to `sums`,
// rows of PTO_ATTENTION_SCORE_KEYS floats: for the rows of the job, at most
// PTO_ATTENTION_SCORE_ROWS, and so many keys from `key` on, a multiple of their number.
enum { PTO_ATTENTION_SCORE_ROWS = 96, PTO_ATTENTION_SCORE_KEYS = 128 };
int32_t pto_attention_add_scores(const pto_attention_gradients* job, int32_t key, float* sums);

#ifdef __cplusplus
}
#endif
