// SPDX-License-Identifier: Apache-2.0
// An operator of abi/aten.h: its handle at the dispatcher, and what its calls need of its schema.
//
// Thread safety: it does not change once it was found, but for `is_gone`.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <atomic>
#include <string>
#include <vector>

#include "pto/abi/aten.h"
#include "pto/adapters/torch/aten/thunks.hpp"

struct pto_aten_operator {
  c10::OperatorHandle handle;
  std::string schema;
  std::vector<size_t> outputs;  // arguments that are written and given by keyword
  bool writes = false;
  bool is_pointwise = false;  // PyTorch says that it works element by element
  bool has_place = false;     // its name has a form in place, which writes `self`
  // The typed call; null: there is none, or arguments get other sizes from it.
  const pto::torch_adapter::Thunk* thunk = nullptr;
  std::atomic<bool> is_gone = false;  // whoever registered it has taken it back
};

namespace pto::torch_adapter {

// Values in the order of the schema; those behind the last one are left out.
struct Call {
  const pto_aten_operator* op;
  const pto_aten_value* given;
  int32_t n;
};

}  // namespace pto::torch_adapter
