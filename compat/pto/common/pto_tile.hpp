// SPDX-License-Identifier: Apache-2.0
// Tiles, views of memory and their shapes, by the public library's path.
//
// Thread safety: nothing to share.
#pragma once
#include <pto/pto-inst.hpp>
