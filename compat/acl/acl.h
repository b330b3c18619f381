// SPDX-License-Identifier: Apache-2.0
// The acl host calls by their usual path; pto/isa/acl.hpp describes them.
//
//     #include "acl/acl.h"
//     aclInit(nullptr);
//     aclrtSetDevice(0);
//
// Thread safety: any thread.
#pragma once
#include <pto/isa/acl.hpp>

#if defined(__cplusplus)
#include <pto/isa/numeric.hpp>
using aclFloat16 = pto::isa::half;
#endif
