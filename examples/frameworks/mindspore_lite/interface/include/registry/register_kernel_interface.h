// SPDX-License-Identifier: Apache-2.0
// See register_kernel.h.
#pragma once

#include "include/registry/register_kernel.h"
