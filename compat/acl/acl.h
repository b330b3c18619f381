// SPDX-License-Identifier: Apache-2.0
// acl: the acl host calls by their usual path; pto/abi/acl.h describes them.
//
//     #include "acl/acl.h"
//     aclInit(nullptr);
//     aclrtSetDevice(0);
//
// Thread safety: any thread.
#pragma once
#include <pto/abi/acl.h>

#if defined(__cplusplus)
#include <pto/isa/element/numeric.hpp>
using aclFloat16 = pto::isa::half;
#endif
