// SPDX-License-Identifier: Apache-2.0
// The sizes of a chip's memories, in bytes: A2 and A3, or A5 where __NPU_ARCH__ is 3101 or 3510.
//
//     static_assert(64 * 256 * sizeof(float) <= PTO_UBUF_SIZE_BYTES);
//
// Thread safety: constants.
#pragma once

#if defined(__NPU_ARCH__) && (__NPU_ARCH__ == 3101 || __NPU_ARCH__ == 3510)
#define PTO_UBUF_SIZE_BYTES (256u * 1024u)
#define PTO_L0C_SIZE_BYTES (256u * 1024u)
#define PTO_BIAS_SIZE_BYTES (4u * 1024u)
#define PTO_FBUF_SIZE_BYTES (4u * 1024u)
#else
#define PTO_UBUF_SIZE_BYTES (192u * 1024u)
#define PTO_L0C_SIZE_BYTES (128u * 1024u)
#define PTO_BIAS_SIZE_BYTES (1u * 1024u)
#define PTO_FBUF_SIZE_BYTES (2u * 1024u)
#endif
#define PTO_CBUF_SIZE_BYTES (512u * 1024u)
#define PTO_L0A_SIZE_BYTES (64u * 1024u)
#define PTO_L0B_SIZE_BYTES (64u * 1024u)
#define PTO_UBUF_ALIGN_BYTES 32u
#define PTO_CBUF_ALIGN_BYTES 32u
#define PTO_L0A_ALIGN_BYTES 32u
#define PTO_L0B_ALIGN_BYTES 32u
#define PTO_L0C_ALIGN_BYTES 32u
#define PTO_BIAS_ALIGN_BYTES 32u
#define PTO_FBUF_ALIGN_BYTES 32u
