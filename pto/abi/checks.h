// SPDX-License-Identifier: Apache-2.0
// Checks: the questions of checked kernels (isa/kernel/checked.hpp) before each instruction, as
// plain C.
//
//     pto_check_instruction("TADD", "d, a, b", operands, 3, 0);   // ends the launch if it objects
//
// Invariant: only POD crosses this header.
// Thread safety: any thread; each call reads and changes the calling core's own state.
#pragma once

#include "pto/abi/host.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pto_tile_state {
  uint8_t is_written;             // an instruction or a raw pointer has written it
  uint8_t is_placed;              // TASSIGN has bound it: addresses tell which bytes are written
  struct pto_tile_state* shared;  // the tile whose storage this one shares
} pto_tile_state;

enum { PTO_OPERAND_OTHER, PTO_OPERAND_TILE, PTO_OPERAND_VIEW };
enum { PTO_VIEW_ND, PTO_VIEW_DN, PTO_VIEW_OTHER, PTO_VIEW_PACKED, PTO_VIEW_NZ };

typedef struct pto_operand {
  uint8_t kind, is_output;
  uint8_t is_row_major, is_boxed;  // for tiles
  int32_t view;                    // PTO_VIEW_*, the layout of a view
  int32_t element_bytes;
  int32_t per_element;  // numbers of an element: views count numbers
  const void* data;
  pto_tile_state* state;
  int32_t location, rows, cols, valid_rows, valid_cols;
  int64_t stored;  // elements of storage
  int32_t (*offset)(int32_t row, int32_t col);
  int64_t count;  // elements of a packed view; INT64_MAX where the bound is unknown
  int64_t shape[5], stride[5];
} pto_operand;

typedef struct pto_operand_of {
  const void* object;
  void (*describe)(const void* object, pto_operand* operand);
} pto_operand_of;

// Called before an instruction: checks its sources and notes its destinations.
void pto_check_instruction(const char* name, const char* form, const pto_operand_of* operands,
                           int32_t count, int32_t is_atomic);
void pto_check_assign(pto_tile_state* state, int32_t location, const void* start, size_t room,
                      uintptr_t offset, size_t bytes);
// Called when a tile hands out a pointer to its elements: they count as written.
void pto_check_raw(pto_tile_state* state, void* data, size_t bytes);

// Called after a wait for a signal: the running core follows the stores that others made before.
void pto_check_waited(void);

// Requires that a source is valid where the destination is; `source` counts from 1.
void pto_check_covered(const char* name, const char* form, int32_t source, int32_t valid_rows,
                       int32_t valid_cols, int32_t rows, int32_t cols);

// `row`, `col`: an element of a window that is stored `in_window` elements behind its first one,
// while its source stores that element `in_source` behind.
__attribute__((noreturn)) void pto_check_failed_window(int32_t row, int32_t col, int32_t in_window,
                                                       int32_t in_source);
// The valid rows (axis 0) or columns are `fixed` in a tile's type and were to become `valid`.
__attribute__((noreturn)) void pto_check_failed_fixed(int32_t valid, int32_t fixed, int32_t axis);
// `block`: the elements of 32 bytes.
__attribute__((noreturn)) void pto_check_failed_expanded(int32_t cols, int32_t block);
__attribute__((noreturn)) void pto_check_failed_stream(size_t misplaced, size_t vector);
__attribute__((noreturn)) void pto_check_failed_offset(int32_t offset, int32_t stored);
__attribute__((noreturn)) void pto_check_failed_element(int32_t row, int32_t col, int32_t rows,
                                                        int32_t cols);

#ifdef __cplusplus
}
#endif
