// SPDX-License-Identifier: Apache-2.0
// Programs of tasks for Python.
//
//     pto_kernel add = functions.find("add");
//
// Invariant: the compiled code stays loaded while an object that names it lives.
// Thread safety: constant values.
#pragma once

#include <string>
#include <tuple>
#include <vector>

#include "pto/base/error.hpp"
#include "pto/compiler/compile.hpp"
#include "pto/compiler/load.hpp"
#include "pto/tasks/cores/orchestrate.hpp"

namespace pto::bindings {

// The functions of one source.
struct CompiledFunctions {
  std::string name;
  std::vector<std::string> functions;
  std::string target;  // "" for loaded code
  CompiledText code;

  pto_kernel find(const std::string& symbol) const {
    for (size_t i = 0; i < functions.size(); ++i)
      if (functions[i] == symbol) return code.functions[i];
    fail({name + ": has no function \"" + symbol + "\"",
          "a package has the functions that it was compiled for",
          "correct the name, or compile it for this function"});
  }
};

// Keeps the code of all its functions loaded.
struct ChipProgram {
  OrchestrationProgram program;
  std::vector<CompiledFunctions> code;  // the orchestration's, then each kernel's
  std::vector<std::tuple<std::vector<std::string>, std::string>> symbols;  // a kernel's: names,
                                                                           // function
};

}  // namespace pto::bindings
