// SPDX-License-Identifier: Apache-2.0
// Events and the instructions that they name, by the public library's path.
//
// Thread safety: nothing to share.
#pragma once
#include <pto/pto-inst.hpp>
