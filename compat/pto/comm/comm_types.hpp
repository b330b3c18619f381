// SPDX-License-Identifier: Apache-2.0
// Groups of ranks, signals and their words, by the public library's path.
//
// Thread safety: nothing to share.
#pragma once
#include <pto/pto-inst.hpp>
