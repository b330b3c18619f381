// SPDX-License-Identifier: Apache-2.0
// Every instruction, by the public library's path.
//
// Thread safety: nothing to share.
#pragma once
#include <pto/pto-inst.hpp>
