// SPDX-License-Identifier: Apache-2.0
// compile(): a graph becomes a program that runs.
//
//     auto program = compile(graph, {.strides = {StrideClass::Contiguous}});
//
// Runs the pipeline of passes, prints C++, calls the toolchain unless the cache holds the result,
// loads the object. Throws pto::Error: an unsupported graph, no compiler, a compiler that fails.
// compile_or_interpret() is what calls of users run.
// Thread safety: may be called from any thread; equal compilations at once run once.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "pto/abi/host.h"
#include "pto/ir/graph.hpp"
#include "pto/launch/program.hpp"

namespace pto {

class Library;

struct CompileOptions {
  std::vector<StrideClass> strides;  // one a tensor input; empty: all contiguous
  std::vector<std::string> disabled_passes;
  bool verify = true;  // after each pass
  std::string target;  // "", "portable", "avx2", "avx512"; "" is this machine's
  // Called after each stage with its name and text: the graph, each pass, the C++ text.
  std::function<void(const std::string& stage, const std::string& text)> dump;
  // True between slices of waiting: stop and throw (Ctrl-C).
  std::function<bool()> interrupted;
  std::string object;              // of compile_text(): what Source::object says
  std::string standard = "c++17";  // of compile_text(): what Source::standard says
};

// Interrupted (toolchain.hpp) where options.interrupted said stop.
std::shared_ptr<const Program> compile(const Graph& graph, const CompileOptions& options = {});

// compile(); where the compiler has errors in the generated code, which is always a defect of ours,
// the program interprets the graph instead, and one warning names the file that reproduces it.
std::shared_ptr<const Program> compile_or_interpret(const Graph& graph,
                                                    const CompileOptions& options = {});

// C++ text as it is, with the functions that it defines: int32_t name(const pto_args*), declared
// here as extern "C"; the name kernel_entry is the public form void kernel_entry(int64_t*), see
// pto_slot_kernel in abi/host.h. It may include pto/pto-inst.hpp and the standard library; its
// own headers are no part of the cache's key. Throws as compile() does; the compiler's lines name
// `name`.
// Orchestration: functions of pto/runtime.h, int32_t name(const pto_runtime_api*, const pto_args*);
// to be cast to that.
enum class TextForm { Kernels, Orchestration };
struct CompiledText {
  std::vector<pto_kernel> functions;       // in the order asked for
  std::shared_ptr<const Library> library;  // keeps them loaded
};
CompiledText compile_text(const std::string& name, const std::string& text,
                          const std::vector<std::string>& functions,
                          const CompileOptions& options = {}, TextForm form = TextForm::Kernels);

// The same of an object that compile_text() made, library->object(), perhaps on another machine.
// Throws pto::Error where it cannot be loaded or lacks a function.
CompiledText load_text(const std::string& name, const std::string& object,
                       const std::vector<std::string>& functions);

// The stages' texts only: nothing is compiled or loaded.
void explain(const Graph& graph, const CompileOptions& options);

}  // namespace pto
