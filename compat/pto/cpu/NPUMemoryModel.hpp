// SPDX-License-Identifier: Apache-2.0
// NPUMemoryModel and NPUArch, by the public library's path.
//
// Thread safety: nothing to share.
#pragma once
#include <pto/pto-inst.hpp>
