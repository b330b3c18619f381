// SPDX-License-Identifier: Apache-2.0
// The catalog: operators of PyTorch's dispatcher by name, each found once.
//
//     const pto_aten_operator* add = find_operator("add.out");   // null: why_unknown("add.out")
//
// PTO_ATEN_NAMES names a file, with a name without its overload a line, that restricts it. copy_ is
// there always: faces of the table write results with it.
//
// Invariant: an operator lives as long as the process, also where PyTorch has it no longer.
// Thread safety: any thread may ask; a fork waits until no thread searches.
#pragma once

#include "pto/adapters/torch/aten/operators.hpp"

namespace pto::torch_adapter {

// Finds "add.out", "neg" for the overload without a name, or "space::name"; null: there is none.
const pto_aten_operator* find_operator(const char* name);

// Returns what, why and fix of a name that find_operator() does not find, with the nearest one.
std::string why_unknown(const std::string& name);

// Lets PyTorch compute with one thread in a process that was forked: its others did not survive,
// and its kernels would wait for them for ever.
void keep_to_own_threads();

// Returns the full names of all overloads of ATen that are not restricted away.
const std::vector<std::string>& operator_names();

}  // namespace pto::torch_adapter
