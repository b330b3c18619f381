// SPDX-License-Identifier: Apache-2.0
// Runtime API: the functions that an orchestration gets, as plain C; pto/runtime.h wraps them.
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
  void* allocation;  // the runtime's handle
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
  PTO_ARG_NO_DEP   // kept alive; no task waits for it
};
// An expression over the run's scalars: operands before operations.
enum {
  PTO_STEP_CONSTANT,
  PTO_STEP_SCALAR,   // number `value` of the run's
  PTO_STEP_TO_REAL,  // converts an int64
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
  int32_t is_real;  // 1: of doubles; 0: of int64
  uint64_t value;   // the bits of a constant, or the number of a scalar
} pto_step;

typedef struct pto_task_argument {
  int32_t kind;
  int32_t n_steps;        // steps of an expression that gives the scalar; 0: `scalar` holds it
  const pto_view* view;   // null: a scalar
  uint64_t scalar;        // its bits
  const pto_step* steps;  // read at the submission
  int32_t number;         // PTO_NUMBER_..., the kind of a scalar without steps
} pto_task_argument;

// The kernels of a mixed task. Each block has a cube core and one or two vector cores, which run
// side by side and may wait for each other; null: no such core. Both vector cores may run the same
// kernel, where get_subblockid() tells them apart.
typedef struct pto_cores {
  const char *cube, *vector0, *vector1;
} pto_cores;

enum { PTO_IF_EQ, PTO_IF_NE, PTO_IF_LT, PTO_IF_LE, PTO_IF_GT, PTO_IF_GE };
enum {
  PTO_SUBMIT_TOGETHER = 1,  // the blocks start together and may wait for each other
  PTO_SUBMIT_MANUAL = 2     // the task follows `after` alone; nothing is inferred
};
typedef struct pto_submission {
  const char* kernel;  // null: no kernel, only edges
  const pto_task_argument* args;
  int32_t n_args;
  int32_t n_after;
  const uint64_t* after;  // further tasks that it follows
  int32_t blocks;
  uint32_t flags;
  const pto_view* condition;  // its first element is compared, as a double; null: none
  int32_t compare;            // PTO_IF_...
  int32_t line;
  double value;
  const char* file;  // where the task was submitted; the pointer is kept
  pto_cores cores;   // a mixed task's, whose `kernel` is null
} pto_submission;

// Each function returns 0, or non-zero with a text in last_error.
typedef struct pto_runtime_api {
  uint32_t abi_version;
  void* run;
  int32_t (*argument)(void* run, int32_t index, pto_view* view);
  int32_t (*allocate)(void* run, pto_view* view);  // makes memory for its sizes and type
  void (*let_go)(void* run, const pto_view* view);
  int32_t (*submit)(void* run, const pto_submission* submission, uint64_t* task);
  int32_t (*wait)(void* run, const pto_view* view);  // waits for the tasks that write the view
  // Reads a scalar of the run as an int64 (PTO_NUMBER_SIGNED) or the bits of a double
  // (PTO_NUMBER_REAL). A captured graph then holds for this number alone, as for scalars that no
  // step uses. pto_args has the bits as the caller passed them.
  int32_t (*scalar)(void* run, int32_t index, int32_t number, uint64_t* bits);
  int32_t (*scalar_kind)(void* run, int32_t index);  // PTO_NUMBER_...; -1: none such
  const char* (*last_error)(void* run);
} pto_runtime_api;

#ifdef __cplusplus
}
#endif
