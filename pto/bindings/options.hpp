// SPDX-License-Identifier: Apache-2.0
// options_from(): what Python says of a compilation, as CompileOptions.
//
//     CompileOptions options = options_from({0, 1}, nb::none(), {}, "avx2");
//
// Thread safety: needs Python's lock; the options' dump takes it.
#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <vector>

#include "pto/compiler/compile.hpp"

namespace pto::bindings {

// `strides`: a StrideClass for each tensor input; `dump`: None, or a function of stage and text.
CompileOptions options_from(const std::vector<int>& strides, nanobind::handle dump,
                            const std::vector<std::string>& disabled, const std::string& target);

}  // namespace pto::bindings
