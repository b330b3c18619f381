// SPDX-License-Identifier: Apache-2.0
#include "pto/ir/tile_operation.hpp"

#include <algorithm>
#include <map>
#include <mutex>

#include "pto/base/text.hpp"
#include "pto/ir/operations/operation.hpp"

namespace pto {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::string, TileCode> codes;  // whose entries stay where they are
};

Registry& registry() {
  static Registry* const all = new Registry;  // as long as the process: it holds Python functions
  return *all;
}

void add_codes(const Graph& graph, std::vector<std::string>* names) {
  for (const Node& node : graph.nodes()) {
    for (const auto& body : node.attributes.bodies) add_codes(*body, names);
    if (node.op != Opcode::tile || node.has_body()) continue;
    if (std::find(names->begin(), names->end(), node.attributes.name) == names->end())
      names->push_back(node.attributes.name);
  }
}

}  // namespace

void register_tile_code(TileCode code) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  const std::string name = code.name;
  if (!all.codes.emplace(name, std::move(code)).second)
    fail({"tile operation " + in_quotes(name) + ": is defined already",
          "graphs know its C++ text by this name", "choose another name"});
}

const TileCode& tile_code(const std::string& name) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  const auto found = all.codes.find(name);
  if (found == all.codes.end())
    fail({"tile: no operation " + in_quotes(name) + " is defined in this process",
          "one without a body is C++ text, which is known by its name",
          "import the module that defines it with @pto.tile_op"});
  return found->second;
}

std::vector<std::string> tile_codes_of(const Graph& graph) {
  std::vector<std::string> names;
  add_codes(graph, &names);
  return names;
}

Value inline_tile(GraphBuilder& b, const Graph& body, const std::vector<Value>& operands) {
  const Dims shape = b.type(operands[0]).shape;
  std::vector<Value> made;
  for (Value v = 0; static_cast<size_t>(v) < body.nodes().size(); ++v) {
    const Node& node = body[v];
    if (node.is_parameter()) {
      const auto& all = body.inputs();
      made.push_back(
          operands[static_cast<size_t>(std::find(all.begin(), all.end(), v) - all.begin())]);
      continue;
    }
    std::vector<Value> mapped;
    for (const Value operand : node.operands) mapped.push_back(made[static_cast<size_t>(operand)]);
    Node twin = node;
    twin.hints = nullptr;  // those of the builder
    const Value value = b.copy(twin, std::move(mapped));
    made.push_back(node.op == Opcode::constant ? b.broadcast(value, shape) : value);
  }
  return made[static_cast<size_t>(body.outputs()[0])];
}

}  // namespace pto
