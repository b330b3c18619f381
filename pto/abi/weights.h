// SPDX-License-Identifier: Apache-2.0
// Weights: a framework tells who owns a tensor's memory, so that packed weights notice a change.
//
//     pto_weight_owner owner = {storage, writes, hold, release, is_alive};   // the framework's
//
// Invariant: only POD crosses this header.
// Thread safety: the functions may be called from any thread.
#pragma once
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// A version that tells nothing: the framework does not count the writes.
#define PTO_WEIGHT_UNCOUNTED UINT64_MAX

typedef struct pto_weight_owner {
  void* object;
  uint64_t version;  // another after each write that the framework notices
  // From hold to release no other owner gets this address; the memory itself may be freed.
  void (*hold)(void* object);
  void (*release)(void* object);
  int32_t (*is_alive)(void* object);  // asked while it is held
} pto_weight_owner;

#ifdef __cplusplus
}
#endif
