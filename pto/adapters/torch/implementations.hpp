// SPDX-License-Identifier: Apache-2.0
// library_of(): the library that registers kernels of an operator with PyTorch at a dispatch key.
//
//     library_of(op, c10::DispatchKey::Autograd).impl(...);
//
// Thread safety: one thread at a time registers.
#pragma once

#include <torch/library.h>

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "pto/adapters/torch/operator_name.hpp"

namespace pto::torch_adapter {

// Returns the library for kernels of an operator at a key; it lives as long as the process.
inline torch::Library& library_of(const pto_operator& op, c10::DispatchKey key) {
  static auto* const all =
      new std::map<std::pair<std::string, c10::DispatchKey>, std::unique_ptr<torch::Library>>;
  auto& library = (*all)[{space_of(op), key}];
  if (!library) {
    library = std::make_unique<torch::Library>(torch::Library::IMPL, space_of(op), key, __FILE__,
                                               __LINE__);
  }
  return *library;
}

}  // namespace pto::torch_adapter
