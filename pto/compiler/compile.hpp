// SPDX-License-Identifier: Apache-2.0
// compile(): turns a graph into a program that runs.
//
//     auto program = compile(graph, {.strides = {StrideClass::Contiguous}});
//
// It runs the pipeline of passes, prints C++, calls the toolchain unless the cache holds the
// result, and loads the object. Throws pto::Error: an unsupported graph, no compiler, a compiler
// that fails. Calls of users run compile_or_interpret().
//
// Thread safety: may be called from any thread; equal compilations at once run once.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "pto/abi/host.h"
#include "pto/codegen/outline.hpp"
#include "pto/ir/graph.hpp"
#include "pto/launch/program.hpp"
#include "pto/launch/sealed.hpp"

namespace pto {

class Library;

struct CompileOptions {
  std::vector<StrideClass> strides;  // one per tensor input; empty: all contiguous
  std::vector<int> writes;           // one per output: TensorSpec::writes; empty: none
  std::vector<std::string> disabled_passes;
  bool verify = true;        // after each pass
  bool is_recorded = false;  // the program tells a recording of its statements: codegen/emit.hpp
  std::string target;        // "", "portable", "avx2", "avx512"; "" is this machine's
  // Called after each stage with its name and text: the graph, each pass, the C++ text.
  std::function<void(const std::string& stage, const std::string& text)> dump;
  // Polled while compile() waits; true stops it with an Interrupted (Ctrl-C).
  std::function<bool()> interrupted;
  std::string cache_directory;     // "": that of the settings
  std::string object;              // for compile_text(): see Source::object
  std::string standard = "c++17";  // for compile_text(): see Source::standard
};

// Throws Interrupted (toolchain.hpp) when options.interrupted returns true.
std::shared_ptr<const Program> compile(const Graph& graph, const CompileOptions& options = {});

// Runs compile(). The program interprets a graph without a compiled form, with one warning; so it
// does where the compiler finds errors in the generated code, always a defect of ours, and the
// warning names the file that reproduces it.
std::shared_ptr<const Program> compile_or_interpret(const Graph& graph,
                                                    const CompileOptions& options = {});

// Returns the program of a graph with its object, to be saved: pto/launch/sealed.hpp. The target
// may be that of another CPU. Throws as compile() does.
SealedProgram compile_sealed(const Graph& graph, const CompileOptions& options = {});

// Returns a program whose launches are functions of a C++ text, as in compile_text().
SealedProgram compile_sealed(ProgramSpec spec, const std::string& text,
                             const CompileOptions& options = {});

// Compiles C++ text as it is, with the functions that it defines: int32_t name(const pto_args*),
// declared here as extern "C"; the name kernel_entry has the public form void
// kernel_entry(int64_t*), see pto_slot_kernel in abi/host.h. The text may include pto/pto-inst.hpp
// and the standard library; its own headers are no part of the cache's key. Throws as compile()
// does; the compiler's lines name `name`. TextForm::Orchestration: functions of pto/runtime.h,
// int32_t name(const pto_runtime_api*, const pto_args*); the caller casts them to that.
enum class TextForm { Kernels, Orchestration };
struct CompiledText {
  std::vector<pto_kernel> functions;       // in the order asked for
  std::shared_ptr<const Library> library;  // keeps them loaded
};
CompiledText compile_text(const std::string& name, const std::string& text,
                          const std::vector<std::string>& functions,
                          const CompileOptions& options = {}, TextForm form = TextForm::Kernels);

// Loads an object that compile_text() made, library->object(), perhaps on another machine. Throws
// pto::Error where it cannot be loaded or lacks a function.
CompiledText load_text(const std::string& name, const std::string& object,
                       const std::vector<std::string>& functions);

// Dumps the texts of the stages, and returns what the program does; compiles and loads nothing.
struct Explained {
  Graph graph;         // as the last pass leaves it; as given where the interpreter runs it
  ProgramSpec spec;    // empty there
  Outline outline;     // of the C++ text; empty there
  std::string reason;  // why the interpreter runs the graph; ""
};
Explained explain(const Graph& graph, const CompileOptions& options);

}  // namespace pto
