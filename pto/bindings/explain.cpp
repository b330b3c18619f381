// SPDX-License-Identifier: Apache-2.0
// explain() for Python: the stages of a compilation, its steps and memory, and nodes of graphs.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "pto/bindings/module.hpp"
#include "pto/bindings/options.hpp"
#include "pto/compiler/compile.hpp"
#include "pto/ir/operations/operation.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace pto::bindings {
namespace {

nb::tuple type_from(const Type& type) {
  return nb::make_tuple(std::string(name(type.dtype)), tuple_from(type.shape));
}

nb::list lines_of(const Node& node) {
  nb::list lines;
  for (const Location& line : node.locations) lines.append(pto::text(line));
  return lines;
}

nb::list hints_of(const Node& node) {
  nb::list hints;
  if (node.hints != nullptr)
    for (const Hint& hint : *node.hints)
      hints.append(nb::make_tuple(hint.name, nb::cast(hint.numbers), hint.text));
  return hints;
}

// Says how code generation sees a node: as one of the names of KernelForm.
const char* form_of(const Node& node) {
  static constexpr const char* kNames[] = {"none",      "step",      "part",     "number",
                                           "parameter", "constant",  "position", "moved",
                                           "element",   "reduction", "region"};
  static_assert(std::size(kNames) == static_cast<size_t>(KernelForm::Region) + 1);
  return kNames[static_cast<int>(operation(node.op).kernel)];
}

nb::dict node_dict(const Node& node) {
  nb::dict made;
  made["op"] = std::string(info(node.op).name);
  made["form"] = form_of(node);
  made["operands"] = nb::cast(node.operands);
  made["type"] = type_from(node.type);
  made["name"] = node.attributes.name;
  made["index"] = node.attributes.index;
  made["lines"] = lines_of(node);
  made["hints"] = hints_of(node);
  nb::list bodies;
  for (const auto& body : node.attributes.bodies) bodies.append(nb::cast(*body));
  made["bodies"] = bodies;
  made["size"] = tuple_from({node.attributes.size})[0];
  made["value"] = std::holds_alternative<double>(node.attributes.value)
                      ? nb::object(nb::float_(std::get<double>(node.attributes.value)))
                      : nb::object(nb::int_(std::get<int64_t>(node.attributes.value)));
  return made;
}

nb::list nodes_of(const Graph& graph) {
  nb::list nodes;
  for (const Node& node : graph.nodes()) nodes.append(node_dict(node));
  return nodes;
}

nb::list steps_from(const Outline& outline) {
  nb::list steps;
  for (const Outline::Step& step : outline.steps) {
    nb::list axes;
    for (const Outline::LoopAxis& axis : step.axes)
      axes.append(nb::make_tuple(tuple_from({axis.size})[0], axis.is_reduced));
    nb::dict made;
    made["block"] = step.block;
    made["value"] = step.value;
    made["function"] = step.function;
    made["axes"] = axes;
    made["places"] = nb::cast(step.places);
    made["is_parallel"] = step.is_parallel;
    made["workers"] = step.limits.workers;
    made["tiles_per_task"] = step.limits.tiles;
    made["why"] = step.obstacle.why;
    made["why_line"] = step.obstacle.why.empty() || step.obstacle.line.file.empty()
                           ? std::string()
                           : pto::text(step.obstacle.line);
    steps.append(made);
  }
  return steps;
}

nb::dict outline_from(const Explained& found) {
  nb::list blocks, memory, copies, replaces;
  for (const Outline::Block& block : found.outline.blocks)
    blocks.append(nb::make_tuple(block.step, block.body));
  for (const Outline::Memory& one : found.outline.memory)
    memory.append(nb::make_tuple(one.name, one.block, one.step, type_from(one.type)));
  for (const Outline::Copy& one : found.outline.copies)
    copies.append(nb::make_tuple(one.block, one.step, type_from(one.type), one.may_be_none));
  for (const TensorSpec& output : found.spec.outputs) replaces.append(output.replaces);
  nb::list constants;
  for (const auto& [input, one] : found.outline.constants)
    constants.append(nb::make_tuple(one.name, one.is_packed, one.why));
  nb::dict made;
  made["graph"] = nb::cast(found.graph);
  made["reason"] = found.reason;
  made["is_program"] = !found.spec.launches.empty() && found.spec.launches[0].is_program;
  made["blocks"] = blocks;
  made["steps"] = steps_from(found.outline);
  made["memory"] = memory;
  made["copies"] = copies;
  made["replaces"] = replaces;
  made["constants"] = constants;
  return made;
}

nb::dict explain_graph(const Graph& graph, nb::object dump, const std::vector<int>& strides,
                       const std::vector<std::string>& disabled, const std::string& target) {
  return outline_from(explain(graph, options_from(strides, dump, disabled, target)));
}

}  // namespace

void bind_explain(nb::module_& m) {
  m.def(
      "loop_conflict",
      [](const Graph& body, int64_t step) -> nb::object {
        LoopObstacle obstacle;
        if (body_writes_apart(body, {step, true, {}}, &obstacle) || !obstacle.is_certain)
          return nb::none();
        const Location& line = obstacle.line;
        return nb::make_tuple(obstacle.why, line.file.empty() ? std::string() : pto::text(line));
      },
      "body"_a, "step"_a,
      "(why, line) where iterations of a loop with this body, so far apart, write one place for "
      "certain, else None.");
  m.def("nodes_of", &nodes_of, "graph"_a, "Each node of a graph, as a dict.");
  m.def("explain", &explain_graph, "graph"_a, "dump"_a, "strides"_a = std::vector<int>{},
        "disabled"_a = std::vector<std::string>{}, "target"_a = "",
        "Calls dump(stage, text) for every stage, compiles nothing, and returns what the program "
        "does: the steps, the memory and the copies of codegen/outline.hpp, as a dict.");
}

}  // namespace pto::bindings
