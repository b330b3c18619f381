// SPDX-License-Identifier: Apache-2.0
#include "pto/compiler/interpreted.hpp"

#include <algorithm>
#include <cstring>
#include <exception>

#include "pto/base/file.hpp"
#include "pto/base/sha256.hpp"
#include "pto/base/text.hpp"
#include "pto/codegen/emit.hpp"
#include "pto/compiler/noted.hpp"
#include "pto/compiler/settings.hpp"
#include "pto/compiler/target.hpp"
#include "pto/ir/axis_map.hpp"
#include "pto/ir/interpret.hpp"
#include "pto/ir/operations/operation.hpp"
#include "pto/ir/print.hpp"
#include "pto/ir/verify.hpp"

namespace pto {
namespace {

// --- the kernel: one block that reads all inputs, interprets, writes all outputs -----------------

Array array_of(const pto_tensor& tensor, DType dtype) {
  const auto rank = static_cast<size_t>(tensor.rank);
  Array array(dtype, {tensor.sizes, tensor.sizes + rank});
  const auto where = places(array.shape, {tensor.strides, tensor.strides + rank});
  const auto size = static_cast<int64_t>(bytes(dtype));
  const auto* const data = static_cast<const char*>(tensor.data);
  for (size_t i = 0; i < array.size(); ++i) {
    uint64_t bits = 0;
    std::memcpy(&bits, data + static_cast<int64_t>(where[i]) * size, static_cast<size_t>(size));
    array.set(i, element_from_bits(dtype, bits));
  }
  return array;
}

Array array_of(uint64_t scalar, DType dtype) {
  Array array(dtype, {});
  ElementNumber number{0, static_cast<int64_t>(scalar)};
  if (is_float(dtype)) std::memcpy(&number.real, &scalar, sizeof(scalar));
  array.set(0, number);
  array.normalize();
  return array;
}

void store(const Array& array, void* data) {
  const auto size = static_cast<size_t>(bytes(array.dtype));
  for (size_t i = 0; i < array.size(); ++i) {
    const uint64_t bits = element_bits(array.dtype, array.at(i));
    std::memcpy(static_cast<char*>(data) + i * size, &bits, size);
  }
}

void interpret_call(const Graph& graph, const pto_args& args) {
  std::vector<Array> inputs;
  const pto_tensor* tensor = args.tensors;
  const uint64_t* scalar = args.scalars;
  for (const Value v : graph.inputs()) {
    const DType dtype = graph[v].type.dtype;
    inputs.push_back(graph[v].op == Opcode::scalar ? array_of(*scalar++, dtype)
                                                   : array_of(*tensor++, dtype));
  }
  for (const Array& output : interpret(graph, inputs)) store(output, (tensor++)->data);
}

int32_t run_interpreted(const pto_args* args) {
  try {
    interpret_call(*static_cast<const Graph*>(args->params), *args);
    return 0;
  } catch (const Error& error) {  // a line each: what, why, fix
    const std::string at = error.location().empty() ? "" : error.location() + ": ";
    const ErrorText& text = error.text();
    return args->services->fail(args->services,
                                (at + text.what + "\n" + text.why + "\n" + text.fix).c_str());
  } catch (const std::exception& error) {
    return args->services->fail(args->services, error.what());
  }
}

std::shared_ptr<const Program> program_of(const Graph& graph, ProgramSpec spec) {
  LaunchSpec launch;
  launch.function = spec.name + "_interpreted";
  launch.items = launch.bytes = 1;
  const auto owned = std::make_shared<Graph>(graph);
  launch.params = owned.get();
  for (TensorSpec& output : spec.outputs) output.replaces = output.writes;  // all is read first
  for (size_t t = 0; t < spec.inputs.size() + spec.outputs.size(); ++t)
    launch.tensors.push_back(static_cast<int>(t));
  spec.temporaries.clear();
  spec.launches = {launch};
  return std::make_shared<Program>(std::move(spec), std::vector<pto_kernel>{run_interpreted},
                                   owned);
}

// --- the warning to the user --------------------------------------------------------------------

std::string strides_of(const CompileOptions& options) {
  return "[" +
         joined(options.strides, ", ",
                [](StrideClass c) { return text(static_cast<int64_t>(c)); }) +
         "]";
}

// Prints the graph below comments that say what happened and how to see it again.
std::string report(const Graph& graph, const CompileOptions& options, const std::string& file,
                   const std::string& what) {
  std::string comments;
  const auto add = [&comments](const std::string& lines) {
    for (size_t begin = 0, end = 0; end != lines.npos; begin = end + 1) {
      end = lines.find('\n', begin);
      comments += "# " + lines.substr(begin, end - begin) + "\n";
    }
  };
  add(what);
  add("To see it again:");
  add("  python -c \"from pto import _core; _core.compile(_core.Graph.parse(open('" + file +
      "').read()), " + strides_of(options) + ", target='" + std::string(name(target_of(options))) +
      "')\"");
  return comments + print(graph);
}

// Writes the report and returns its path; "" where no folder can hold it.
std::string keep(const Graph& graph, const CompileOptions& options, const std::string& what,
                 const std::string& digest) {
  for (const std::string& folder : {settings().cache_directory, temporary_directory()}) {
    const std::string path =
        folder + "/failed-" + file_name_of(graph.name()) + "-" + digest.substr(0, 16) + ".txt";
    if (replace_file(path, report(graph, options, path, what))) return path;
  }
  return "";
}

// Warns once for a graph, which may come with several layouts of its tensors.
void warn_of(const Graph& graph, const CompileOptions& options, const ErrorText& text) {
  static Noted told;
  const std::string digest = hex(Sha256().field(print(graph)).digest());
  if (told.add(digest) > 1) return;
  const std::string kept = keep(graph, options, text.what, digest);
  warn(error_message(text) + (kept.empty() ? "" : "; send " + kept + ", the graph as text") +
       "\n  Until then this function is interpreted: its results are right, and slow.");
}

}  // namespace

void note_writes(const CompileOptions& options, ProgramSpec* spec) {
  const auto inputs = static_cast<int>(spec->inputs.size());
  const auto is_known = [&](int input) { return input >= -1 && input < inputs; };
  if (options.writes.size() > spec->outputs.size() ||
      !std::all_of(options.writes.begin(), options.writes.end(), is_known))
    fail({spec->name + ": writes are [" +
              joined(options.writes, ", ", [](int input) { return std::to_string(input); }) + "]",
          "each output names the input that it becomes, or -1; outputs: " +
              std::to_string(spec->outputs.size()) + ", inputs: " + std::to_string(inputs),
          "pass a number for each output, or none at all"});
  for (size_t k = 0; k < options.writes.size(); ++k) spec->outputs[k].writes = options.writes[k];
}

std::optional<ErrorText> reason_to_interpret(const Graph& graph) {
  for (const Node& node : graph.nodes()) {
    for (const auto& body : node.attributes.bodies)
      if (auto reason = reason_to_interpret(*body)) return reason;
    if (operation(node.op).kernel != KernelForm::None) continue;
    const std::string at = node.locations.empty() ? "" : text(node.locations[0]) + ": ";
    return ErrorText{at + "'" + std::string(info(node.op).name) + "' has no compiled form yet",
                     "a graph is compiled as a whole, or interpreted as a whole",
                     "keep it out of functions whose time counts"};
  }
  return std::nullopt;
}

std::shared_ptr<const Program> interpreted_program(const Graph& graph,
                                                   const CompileOptions& options,
                                                   const ErrorText& reason) {
  verify(graph);
  ProgramSpec spec = describe(graph, options.strides);
  note_writes(options, &spec);
  keep_sizes_of_call(graph, &spec);  // the interpreter checks all guards
  static Noted told;
  if (told.add(graph.name() + reason.what) == 1)
    warn(graph.name() + ": is interpreted, which is right, and slow: " + error_message(reason));
  return program_of(graph, std::move(spec));
}

std::shared_ptr<const Program> interpreted_program(const Graph& graph, ProgramSpec spec,
                                                   const CompileOptions& options,
                                                   const RefusedCode& error) {
  warn_of(graph, options, error.text());
  return program_of(graph, std::move(spec));
}

}  // namespace pto
