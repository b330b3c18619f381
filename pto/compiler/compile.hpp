// SPDX-License-Identifier: Apache-2.0
// compile(): a graph becomes a program that runs.
//
//     auto program = compile(graph, {.strides = {StrideClass::Contiguous}});
//
// Runs the pipeline of passes, prints C++, calls the toolchain unless the cache holds the result,
// loads the object. Throws pto::Error: an unsupported graph, no compiler, a compiler that fails.
// Thread safety: may be called from any thread; equal compilations at once run once.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "pto/ir/graph.hpp"
#include "pto/runtime/program.hpp"

namespace pto {

struct CompileOptions {
  std::vector<StrideClass> strides;  // one a tensor input; empty: all contiguous
  std::vector<std::string> disabled_passes;
  bool verify = true;  // after each pass
  std::string target;  // "", "portable", "avx2", "avx512"; "" is this machine's
  // Called after each stage with its name and text: the graph, each pass, the C++ text.
  std::function<void(const std::string& stage, const std::string& text)> dump;
  // True between slices of waiting: stop and throw (Ctrl-C).
  std::function<bool()> interrupted;
};

std::shared_ptr<const Program> compile(const Graph& graph, const CompileOptions& options = {});

// The stages' texts only: nothing is compiled or loaded.
void explain(const Graph& graph, const CompileOptions& options);

}  // namespace pto
