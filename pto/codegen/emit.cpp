// SPDX-License-Identifier: Apache-2.0
#include "pto/codegen/emit.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "pto/codegen/code_writer.hpp"
#include "pto/codegen/memref.hpp"
#include "pto/codegen/print_program.hpp"
#include "pto/codegen/print_region.hpp"
#include "pto/codegen/region_plan.hpp"
#include "pto/ir/operations/operation.hpp"
#include "pto/ir/rebuild.hpp"
#include "pto/ir/tile_operation.hpp"
#include "pto/ir/uses.hpp"

namespace pto {
namespace {

std::string identifier(const std::string& name) {
  std::string id;
  for (char c : name) id += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return id.empty() || std::isdigit(static_cast<unsigned char>(id[0])) ? "kernel_" + id : id;
}

// The sizes that a call knows before it runs.
bool is_known_at_call(const Dim& dim, const ProgramSpec& spec) {
  bool all = true;
  each_symbol(dim, [&](int64_t symbol) {
    const auto has = [&](const TensorSpec& input) {
      return std::any_of(input.shape.begin(), input.shape.end(), [&](const Dim& size) {
        return size.is_symbol() && size.value() == symbol;
      });
    };
    all = all && std::any_of(spec.inputs.begin(), spec.inputs.end(), has);
  });
  return all;
}

class Emitter {
 public:
  Emitter(const Graph& graph, const std::vector<StrideClass>& strides, bool is_recorded = false)
      : graph_(graph), uses_(graph), is_recorded_(is_recorded) {
    spec_.name = identifier(graph.name());
    declare_inputs(strides);
    declare_outputs();
    for (const Guard& guard : graph.guards())
      spec_.guards.push_back({guard, guard.location.file.empty() ? "" : pto::text(guard.location)});
    guard_quotients();
  }

  ProgramSpec spec() { return std::move(spec_); }

  Emitted run() {
    writer_.line("// " + spec_.name + ": compiled from a graph of tile operations.");
    const bool is_program = has_steps(graph_) || has_limits(graph_);
    writer_.line(std::string(is_program ? kProgramInclude : kKernelInclude));
    writer_.line("using namespace pto::isa;");
    writer_.line("using namespace pto::isa::region;");
    for (const std::string& name : tile_codes_of(graph_)) print_tile_code(tile_code(name));
    if (is_program) {
      std::string text = program();
      return {std::move(text), std::move(spec_), std::move(outline_)};
    }
    for (Value v = 0; v < static_cast<Value>(graph_.nodes().size()); ++v) {
      if (graph_[v].is_parameter()) continue;
      outline_.begin_step(v);
      if (graph_[v].op == Opcode::fused) emit_region(v);
      outline_.end_step();
    }
    return {writer_.text(), std::move(spec_), std::move(outline_)};
  }

 private:
  // Prints a function around the user's text, whose lines keep their place in the user's file.
  void print_tile_code(const TileCode& code) {
    std::string types = "class Dst", parameters = "Dst& dst";
    for (size_t i = 0; i < code.parameters.size(); ++i) {
      const std::string type = "X" + std::to_string(i);
      types += ", class " + type;
      parameters += ", const " + type + "& " + code.parameters[i];
    }
    writer_.line("template <" + types + ">");
    writer_.line("PTO_INLINE void user_" + code.name + "(" + parameters + ") {");
    const std::string before = writer_.text();
    writer_.block("#line " + std::to_string(code.location.line) + " " +
                  cpp_string(code.location.file) + "\n" + code.text + "\n#line " +
                  std::to_string(std::count(before.begin(), before.end(), '\n') +
                                 std::count(code.text.begin(), code.text.end(), '\n') + 4) +
                  " " + cpp_string(spec_.name + ".cpp") + "\n}\n");
  }

  std::string program() {
    writer_.line("using namespace pto::isa::program;");
    keep_sizes_of_call(graph_, &spec_);
    LaunchSpec launch;
    launch.function = spec_.name + "_program";
    launch.items = launch.bytes = 1;
    launch.is_program = true;
    for (int t = 0; t < next_temporary_; ++t) launch.tensors.push_back(t);
    outline_ = print_program(graph_, launch.function, &spec_, &writer_, is_recorded_);
    spec_.launches = {launch};
    return writer_.text();
  }

  // Lets the call evaluate each quotient of sizes whose divisor may be 0, which fails where it is.
  void guard_quotients() {
    std::vector<Dim> quotients;
    for (const Node& node : graph_.nodes()) {
      const size_t known = quotients.size();
      collect_quotients(node, &quotients);
      for (size_t i = known; i < quotients.size(); ++i)
        spec_.guards.push_back({{quotients[i], quotients[i], std::string(info(node.op).name)},
                                node.locations.empty() ? "" : pto::text(node.locations[0])});
    }
  }

  void declare_inputs(const std::vector<StrideClass>& strides) {
    for (Value v : graph_.inputs()) {
      const Node& node = graph_[v];
      if (node.op == Opcode::scalar) {
        scalar_[v] = static_cast<int>(spec_.scalars.size());
        spec_.scalars.push_back({node.attributes.name, node.type.dtype});
        continue;
      }
      const size_t i = spec_.inputs.size();
      tensor_[v] = static_cast<int>(i);
      spec_.inputs.push_back({node.attributes.name, node.type.dtype, node.type.shape,
                              i < strides.size() ? strides[i] : StrideClass::Contiguous});
      spec_.inputs.back().is_read = uses_.is_read(v);
    }
  }

  void declare_outputs() {
    const int first = static_cast<int>(spec_.inputs.size());
    for (size_t i = 0; i < graph_.outputs().size(); ++i) {
      const Value v = graph_.outputs()[i];
      const Type& type = graph_[v].type;
      spec_.outputs.push_back({"output " + std::to_string(i), type.dtype, type.shape});
      output_[v].push_back(first + static_cast<int>(i));
    }
    next_temporary_ = first + static_cast<int>(graph_.outputs().size());
  }

  // Lists the results of a fused node by index; -1 where a result is not used.
  std::vector<Value> results_of(Value fused) const {
    std::vector<Value> results(graph_[fused].body().outputs().size(), -1);
    for (size_t v = 0; v < graph_.nodes().size(); ++v) {
      const Node& node = graph_.nodes()[v];
      if (node.op == Opcode::result && node.operands[0] == fused)
        results[static_cast<size_t>(node.attributes.index)] = static_cast<Value>(v);
    }
    return results;
  }

  // True where element i of each result needs element i of its operands alone. Broadcast operands
  // do not count: they have another size than the result.
  static bool is_elementwise_body(const Graph& body) {
    return std::all_of(body.nodes().begin(), body.nodes().end(), [](const Node& node) {
      return is_elementwise(node.op) || node.op == Opcode::input || node.op == Opcode::scalar ||
             node.op == Opcode::constant || node.op == Opcode::broadcast;
    });
  }

  void emit_region(Value fused) {
    const Node& node = graph_[fused];
    const Graph& body = node.body();
    RegionRequest request;
    request.function = spec_.name + "_" + std::to_string(spec_.launches.size());
    request.program_scalars = static_cast<int>(spec_.scalars.size());
    LaunchSpec launch;
    launch.function = request.function;
    for (Value operand : node.operands) {
      if (scalar_.count(operand)) {
        request.scalars.push_back(scalar_.at(operand));
        continue;
      }
      const int tensor = tensor_.at(operand);
      launch.tensors.push_back(tensor);
      const bool given = tensor < static_cast<int>(spec_.inputs.size());
      const StrideClass layout =
          given ? spec_.inputs[static_cast<size_t>(tensor)].strides : StrideClass::Contiguous;
      MemRef place = dense_memref("", graph_[operand].type);
      if (layout != StrideClass::Contiguous) place.strides.assign(place.strides.size(), "read");
      request.strides.push_back(known_strides(place));
      request.layouts.push_back(layout);
    }
    std::vector<Value> stored;
    const std::vector<Value> results = results_of(fused);
    for (size_t i = 0; i < results.size(); ++i)
      for (int tensor : places_of(results[i], body[body.outputs()[i]].type)) {
        launch.tensors.push_back(tensor);
        stored.push_back(body.outputs()[i]);
      }
    // Where the program returns a result twice, it is stored twice.
    const Graph written = rebuild(body, stored, copy_node);
    Outline::Step& step = outline_.steps.back();
    step.function = request.function;
    for (const RegionAxis& axis : plan_region(written, request.layouts).axes)
      step.axes.push_back({axis.size, axis.inner});
    for (size_t i = launch.tensors.size() - stored.size(); i < launch.tensors.size(); ++i)
      step.places.push_back("p" + std::to_string(launch.tensors[i]));
    const RegionText region = print_region(written, request, &writer_);
    launch.items = region.items;
    launch.bytes = region.bytes;
    launch.is_elementwise = is_elementwise_body(body);
    if (is_only_launch()) find_replaced(written, launch);
    spec_.launches.push_back(std::move(launch));
  }

  bool is_only_launch() const {
    const auto& nodes = graph_.nodes();
    return std::count_if(nodes.begin(), nodes.end(),
                         [](const Node& node) { return node.op == Opcode::fused; }) == 1;
  }

  // Finds for each output an input that it may be written over: the one that it becomes, where that
  // is possible.
  void find_replaced(const Graph& body, const LaunchSpec& launch) {
    std::vector<size_t> inputs;  // the body's, by tensor
    for (size_t i = 0; i < body.inputs().size(); ++i)
      if (body[body.inputs()[i]].op == Opcode::input) inputs.push_back(i);
    for (size_t o = 0; o < body.outputs().size(); ++o) {
      const auto place = static_cast<size_t>(launch.tensors[inputs.size() + o]);
      if (place >= spec_.inputs.size() + spec_.outputs.size()) continue;  // nobody uses it
      TensorSpec& output = spec_.outputs[place - spec_.inputs.size()];
      for (size_t t = 0; t < inputs.size(); ++t) {
        const TensorSpec& input = spec_.inputs[static_cast<size_t>(launch.tensors[t])];
        const bool is_better = output.replaces < 0 || launch.tensors[t] == output.writes;
        if (is_better && input.dtype == output.dtype && may_write_over(body, inputs[t], o))
          output.replaces = launch.tensors[t];
      }
    }
  }

  // Lists the places of a result: outputs of the program, else a temporary.
  std::vector<int> places_of(Value result, const Type& type) {
    if (result >= 0 && output_.count(result)) {
      tensor_[result] = output_.at(result).front();
      return output_.at(result);
    }
    if (result >= 0) tensor_[result] = next_temporary_;
    spec_.temporaries.push_back(
        {"temporary " + std::to_string(spec_.temporaries.size()), type.dtype, type.shape});
    outline_.memory.push_back(
        {"p" + std::to_string(next_temporary_), outline_.block(), outline_.step(), type});
    return {next_temporary_++};
  }

  const Graph& graph_;
  const Uses uses_;
  const bool is_recorded_;
  ProgramSpec spec_;
  CodeWriter writer_;
  Outline outline_;
  std::map<Value, int> tensor_, scalar_;
  std::map<Value, std::vector<int>> output_;
  int next_temporary_ = 0;
};

}  // namespace

ProgramSpec describe(const Graph& graph, const std::vector<StrideClass>& strides) {
  return Emitter(graph, strides).spec();
}

bool has_steps(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const Node& node) {
    const KernelForm form = operation(node.op).kernel;
    return form != KernelForm::Parameter && form != KernelForm::Region;
  });
}

namespace {

// Adds the sizes that a graph, or a body in it, gets from data.
void add_sizes_from_data(const Graph& graph, std::set<int64_t>* symbols) {
  for (const Node& node : graph.nodes()) {
    if (node.op == Opcode::size) symbols->insert(node.attributes.size.value());
    for (const auto& body : node.attributes.bodies) add_sizes_from_data(*body, symbols);
  }
}

void require_known_sizes(const Graph& graph, const ProgramSpec& spec) {
  std::set<int64_t> from_data;
  add_sizes_from_data(graph, &from_data);
  for (const Node& node : graph.nodes())
    for (const int64_t symbol : symbols_of(node))
      if (!from_data.count(symbol) &&
          !is_known_at_call(Dim::symbol(static_cast<int>(symbol)), spec))
        fail({graph.name() + ": size s" + std::to_string(symbol) + " of '" +
                  std::string(info(node.op).name) + "' is the size of no input",
              "each symbol gets its value from an axis of an input, or from data",
              "use the sizes of the function's tensor arguments"});
}

}  // namespace

void keep_sizes_of_call(const Graph& graph, ProgramSpec* spec) {
  require_known_sizes(graph, *spec);
  for (const Value v : graph.outputs())
    for (const Dim& dim : graph[v].type.shape) {
      if (is_known_at_call(dim, *spec)) continue;
      const auto& locations = graph[v].locations;
      throw Error({graph.name() + ": an output has the shape " + text(graph[v].type.shape) +
                       ", and " + text(dim) + " depends on data",
                   "the memory of outputs is made before the function runs",
                   "write into a tensor of the largest size: out[:n] = value"})
          .at(locations.empty() ? "" : text(locations[0]));
    }
  std::erase_if(spec->guards, [&](const ProgramSpec::Guard& guard) {
    return !is_known_at_call(guard.a, *spec) || !is_known_at_call(guard.b, *spec);
  });
}

Emitted emit(const Graph& graph, const std::vector<StrideClass>& strides, bool is_recorded) {
  Emitted emitted = Emitter(graph, strides, is_recorded).run();
  emitted.tile_codes = tile_codes_of(graph);
  return emitted;
}

}  // namespace pto
