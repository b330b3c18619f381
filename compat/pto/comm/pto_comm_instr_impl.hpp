// SPDX-License-Identifier: Apache-2.0
// Communication between ranks, by an inner path of the public library.
//
// Thread safety: nothing to share.
#pragma once
#include <pto/pto-inst.hpp>
