// SPDX-License-Identifier: Apache-2.0
// What an orchestration gets of the runtime, as plain C; pto/runtime.h is its face in C++.
//
//     int32_t pto_orchestrate(const pto_runtime_api* rt, const pto_args* args);
//
// Invariant: only POD crosses this header, in both directions; sizes and strides count elements.
// Thread safety: everything belongs to the thread that runs the orchestration.
#pragma once
#include "pto/abi/parameter.h"

enum { PTO_RUNTIME_ABI_VERSION = 3 };

#ifdef __cplusplus
extern "C" {
#endif

// A view of memory that the run knows.
typedef struct pto_view {
  void* allocation;  // the runtime's
  void* data;
  int64_t sizes[PTO_MAX_RANK];
  int64_t strides[PTO_MAX_RANK];
  int32_t rank;
  uint8_t type_code;  // as in pto_tensor
  uint8_t type_bits;
  uint16_t flags;  // PTO_TENSOR_READ_ONLY
} pto_view;

enum {
  PTO_ARG_SCALAR,
  PTO_ARG_INPUT,
  PTO_ARG_OUTPUT,  // every element is written
  PTO_ARG_INOUT,
  PTO_ARG_REDUCE,  // accumulates; tasks that reduce into the same view run in any order, one by one
  PTO_ARG_NO_DEP   // kept alive, and nobody waits for it
};
// An expression over the run's scalars: operands before operations.
enum {
  PTO_STEP_CONSTANT,
  PTO_STEP_SCALAR,   // number `value` of the run's
  PTO_STEP_TO_REAL,  // of an int64
  PTO_STEP_ADD,
  PTO_STEP_SUBTRACT,
  PTO_STEP_MULTIPLY,
  PTO_STEP_DIVIDE,
  PTO_STEP_REMAINDER,
  PTO_STEP_MIN,
  PTO_STEP_MAX
};
typedef struct pto_step {
  int32_t operation;
  int32_t is_real;  // of doubles, else of int64
  uint64_t value;
} pto_step;

typedef struct pto_task_argument {
  int32_t kind;
  int32_t n_steps;        // of an expression that gives the scalar; 0: `scalar` is it
  const pto_view* view;   // null: a scalar
  uint64_t scalar;        // its bits
  const pto_step* steps;  // read at the submission
  int32_t number;         // of a scalar without steps: PTO_NUMBER_..., what its bits are
} pto_task_argument;

// The kernels of a mixed task: each block has a cube core and one or two vector cores, which run
// side by side and may wait for each other; null: no such core. One kernel may be on both vector
// cores, which get_subblockid() tells apart.
typedef struct pto_cores {
  const char *cube, *vector0, *vector1;
} pto_cores;

enum { PTO_IF_EQ, PTO_IF_NE, PTO_IF_LT, PTO_IF_LE, PTO_IF_GT, PTO_IF_GE };
enum {
  PTO_SUBMIT_TOGETHER = 1,  // the blocks start together and may wait for each other
  PTO_SUBMIT_MANUAL = 2     // nothing is inferred: the task follows `after` alone
};
typedef struct pto_submission {
  const char* kernel;  // null: no kernel, for the edges
  const pto_task_argument* args;
  int32_t n_args;
  int32_t n_after;
  const uint64_t* after;  // tasks that it follows besides
  int32_t blocks;
  uint32_t flags;
  const pto_view* condition;  // one element; null: none
  int32_t compare;            // PTO_IF_...
  int32_t line;
  double value;
  const char* file;  // of the submission; kept as a pointer
  pto_cores cores;   // of a mixed task, whose `kernel` is null
} pto_submission;

// Each function gives 0, or not and a text in last_error.
typedef struct pto_runtime_api {
  uint32_t abi_version;
  void* run;
  int32_t (*argument)(void* run, int32_t index, pto_view* view);
  int32_t (*allocate)(void* run, pto_view* view);  // from its sizes and type
  void (*let_go)(void* run, const pto_view* view);
  int32_t (*submit)(void* run, const pto_submission* submission, uint64_t* task);
  int32_t (*wait)(void* run, const pto_view* view);  // for those that write it
  // A scalar of the run as a number, an int64 (PTO_NUMBER_SIGNED) or the bits of a double
  // (PTO_NUMBER_REAL): a captured graph keeps to it, as to those that are never part of a task's
  // steps. pto_args has its bits as they were passed.
  int32_t (*scalar)(void* run, int32_t index, int32_t number, uint64_t* bits);
  int32_t (*scalar_kind)(void* run, int32_t index);  // PTO_NUMBER_...; -1: the run has none
  const char* (*last_error)(void* run);
} pto_runtime_api;

#ifdef __cplusplus
}
#endif
