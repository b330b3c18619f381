// SPDX-License-Identifier: Apache-2.0
// Floats of 8 and 4 bits, by the public library's path.
//
// Thread safety: nothing to share.
#pragma once
#include <pto/pto-inst.hpp>
