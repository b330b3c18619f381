// SPDX-License-Identifier: Apache-2.0
// Arguments of operators as the adapters in C++ ask for them, and the site of a caller's calls.
//
//     if (!is_tensor(op.arguments[i])) ...
//     const OwnedSite site(pto_operator_site_new());
//
// C++17: some are compiled beside a framework's headers.
// Thread safety: pure functions.
#pragma once
#include <memory>

#include "pto/abi/operator.h"

namespace pto {

// Says whether it is a tensor or a list of tensors.
inline bool is_tensor(const pto_operator_argument& argument) {
  return argument.kind <= PTO_KIND_TENSOR_LIST;
}

inline bool is_optional(const pto_operator_argument& argument) {
  return (argument.flags & PTO_ARGUMENT_OPTIONAL) != 0;
}

struct FreeSite {
  void operator()(pto_operator_site* site) const { pto_operator_site_free(site); }
};
using OwnedSite = std::unique_ptr<pto_operator_site, FreeSite>;

}  // namespace pto
