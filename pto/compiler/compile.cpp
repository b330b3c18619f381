// SPDX-License-Identifier: Apache-2.0
#include "pto/compiler/compile.hpp"

#include "pto/codegen/emit.hpp"
#include "pto/compiler/interpreted.hpp"
#include "pto/compiler/load.hpp"
#include "pto/compiler/target.hpp"
#include "pto/ir/print.hpp"
#include "pto/ir/tile_operation.hpp"
#include "pto/ir/verify.hpp"
#include "pto/passes/pipeline.hpp"

namespace pto {
namespace {

// Returns the graph behind the last pass; options.dump gets every stage on the way.
Graph run_stages(const Graph& graph, const CompileOptions& options) {
  if (options.dump) options.dump("graph", print(graph));
  if (options.verify) verify(graph);
  PipelineOptions passes;
  passes.disabled = options.disabled_passes;
  passes.verify = options.verify;
  passes.dump = options.dump;
  passes.unfinished = [](const ErrorText& text) { warn(error_message(text)); };
  return run_pipeline(graph, passes);
}

// Returns the program's C++ text.
Emitted emit_text(const Graph& fused, const CompileOptions& options) {
  Emitted emitted = emit(fused, options.strides, options.is_recorded);
  note_writes(options, &emitted.spec);
  if (options.dump) options.dump("C++", emitted.text);
  return emitted;
}

Emitted emit_stages(const Graph& graph, const CompileOptions& options) {
  return emit_text(run_stages(graph, options), options);
}

void explain_interpreted(const Graph& graph, const ErrorText& reason,
                         const CompileOptions& options) {
  if (!options.dump) return;
  options.dump("graph", print(graph));
  options.dump("interpreter", "No kernel is compiled, the interpreter runs this graph: " +
                                  error_message(reason.what, reason.why, ""));
}

// Throws the error of a user whose C++ text the compiler refused; returns where its lines name
// none.
void refuse_tile_code(const Emitted& emitted, const ErrorText& refused) {
  for (const std::string& name : emitted.tile_codes) {
    const Location line = tile_code(name).location;
    if (refused.what.find(line.file + ":") == refused.what.npos) continue;
    throw Error({name + ": the C++ compiler refused its text" +
                     refused.what.substr(std::min(refused.what.find('\n'), refused.what.size())),
                 "the text is compiled into each kernel that uses the operation, on tiles of a "
                 "few vectors",
                 "correct it, with instructions of pto/isa: docs/isa_quick.md"},
                ErrorKind::Runtime)
        .at(text(line));
  }
}

// Calls load() or build_object().
template <class Make>
auto code_of(const Emitted& emitted, Target target, const CompileOptions& options, Make make) {
  try {
    return make({emitted.spec.name, emitted.text, target}, options.interrupted,
                options.cache_directory);
  } catch (const RefusedCode& error) {
    refuse_tile_code(emitted, error.text());
    throw;
  }
}

std::shared_ptr<const Program> compile_emitted(Emitted emitted, const CompileOptions& options) {
  const Target target = target_of(options);
  std::vector<pto_kernel> functions;
  std::shared_ptr<const Library> library;
  if (!emitted.spec.launches.empty()) {  // a graph without outputs launches nothing
    library = code_of(emitted, target, options, load);
    for (const LaunchSpec& launch : emitted.spec.launches) {
      functions.push_back(library->function(launch.function));
    }
  }
  return std::make_shared<Program>(std::move(emitted.spec), std::move(functions),
                                   std::const_pointer_cast<Library>(library));
}

}  // namespace

std::shared_ptr<const Program> compile(const Graph& graph, const CompileOptions& options) {
  target_of(options);
  return compile_emitted(emit_stages(graph, options), options);
}

std::shared_ptr<const Program> compile_or_interpret(const Graph& graph,
                                                    const CompileOptions& options) {
  target_of(options);
  if (const auto reason = reason_to_interpret(graph)) {
    explain_interpreted(graph, *reason, options);
    return interpreted_program(graph, options, *reason);
  }
  const Emitted emitted = emit_stages(graph, options);
  try {
    return compile_emitted(emitted, options);
  } catch (const RefusedCode& error) {
    return interpreted_program(graph, emitted.spec, options, error);
  }
}

SealedProgram compile_sealed(const Graph& graph, const CompileOptions& options) {
  const Target target = named_target(options.target);
  Emitted emitted = emit_stages(graph, options);
  std::string object;
  if (!emitted.spec.launches.empty()) object = code_of(emitted, target, options, build_object);
  return {machine_name(), target, "", std::move(emitted.spec), {}, std::move(object)};
}

Explained explain(const Graph& graph, const CompileOptions& options) {
  target_of(options);
  if (const auto reason = reason_to_interpret(graph)) {
    explain_interpreted(graph, *reason, options);
    return {graph, {}, {}, reason->what};
  }
  Graph fused = run_stages(graph, options);
  Emitted emitted = emit_text(fused, options);
  return {std::move(fused), std::move(emitted.spec), std::move(emitted.outline), ""};
}

}  // namespace pto
