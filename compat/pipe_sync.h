// SPDX-License-Identifier: Apache-2.0
// Pipe sync: the wait of a kernel of the public form for its last stores. Instructions run in order
// here, and a task ends after its stores, so there is nothing to wait for.
//
// Thread safety: nothing to share.
#pragma once

static inline void pipe_sync() {}
