// SPDX-License-Identifier: Apache-2.0
// interpreted_program(): a program that runs the interpreter in place of compiled code.
//
//     try {
//       return compile(graph, options);
//     } catch (const RefusedCode& error) {
//       return interpreted_program(graph, spec, options, error);
//     }
//
// It serves graphs without a compiled form, and those whose generated code a compiler refuses:
// right, and some thousand times slower.
//
// Thread safety: may be called from any thread.
#pragma once

#include <memory>
#include <optional>

#include "pto/compiler/compile.hpp"
#include "pto/compiler/toolchain.hpp"

namespace pto {

// Notes in a specification which inputs its outputs become, as options.writes says. Throws
// pto::Error where the graph does not have such an output or input.
void note_writes(const CompileOptions& options, ProgramSpec* spec);

// Says which node of a graph keeps it from being compiled, and its user's line; nothing where all
// have a compiled form.
std::optional<ErrorText> reason_to_interpret(const Graph& graph);

// Warns once for a graph. Throws pto::Error where the size of an output depends on data.
std::shared_ptr<const Program> interpreted_program(const Graph& graph,
                                                   const CompileOptions& options,
                                                   const ErrorText& reason);

// emit() makes `spec` from the graph. Keeps the graph as text in the cache folder, or in the
// temporary one where that cannot be written, and warns once for a graph, naming the file.
std::shared_ptr<const Program> interpreted_program(const Graph& graph, ProgramSpec spec,
                                                   const CompileOptions& options,
                                                   const RefusedCode& error);

}  // namespace pto
