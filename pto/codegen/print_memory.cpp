// SPDX-License-Identifier: Apache-2.0
// Memory of a program's tensors: parts, writes, copies.
#include "pto/codegen/graph_printer.hpp"
#include "pto/ir/infer.hpp"
#include "pto/ir/operations/operation.hpp"

namespace pto {

std::string GraphPrinter::where(const Node& node) const {
  const bool is_region = node.locations.empty() && node.op == Opcode::fused;
  return cpp_line((is_region ? node.body()[node.body().outputs().back()] : node).locations);
}

void GraphPrinter::must(const std::string& call) {
  const std::string code = text_.variable("code");
  w_.line("if (const int32_t " + code + " = " + call + ") return " + code + ";");
}

MemRef GraphPrinter::fresh(const Type& type) {
  const std::string name = text_.variable("v"), count = element_count(type.shape);
  text_.outline.memory.push_back({name, text_.outline.block(), text_.outline.step(), type});
  if (!std::exchange(has_scope_, true))
    w_.line("const Scope " + text_.variable("scope") + "(frame.arena);");
  const std::string element = "Stored<" + std::string(cpp_name(type.dtype)) + ">";
  w_.line(element + "* const " + name + " = take<" + element + ">(frame, " + count + ", " + where_ +
          ");");
  w_.line("if (__builtin_expect(!" + name + ", 0)) return kNoMemory;");
  return dense_memref(name, type);
}

const MemRef& GraphPrinter::place(Value v) {
  if (const auto known = places_.find(v); known != places_.end()) return known->second;
  const MemRef made = fresh(graph_[v].type);
  w_.line("*" + made.data + " = Stored<" + std::string(cpp_name(made.type.dtype)) + ">(" +
          numbers_.at(v) + ");");
  return places_[v] = made;
}

MemRef GraphPrinter::whole_of(int buffer, const Type& type) {
  auto& memory = buffers_[static_cast<size_t>(buffer)];
  const int output = storage_.given[static_cast<size_t>(buffer)];
  if (!memory) memory = output >= 0 ? *outputs_[static_cast<size_t>(output)] : fresh(type);
  return memory->type.shape == type.shape ? *memory : with_shape(*memory, type.shape);
}

MemRef GraphPrinter::home_of(Made made, const Type& type) {
  const Home home = storage_.homes.at(made);
  auto& places = text_.outline.steps[static_cast<size_t>(text_.outline.step())].places;
  if (home.part_of < 0) {
    const MemRef whole = whole_of(home.buffer, type);
    places.push_back(text_.outline.base_of(whole.data));
    return whole;
  }
  const Node& update = graph_[home.part_of];
  const MemRef whole = whole_of(home.buffer, update.type);
  places.push_back(text_.outline.base_of(whole.data));
  if (update.op == Opcode::concat) {
    size_t at = 0;
    while (joined_by(graph_, update.operands[at]) != made) ++at;
    return with_shape(joined_part(whole, update, at), type.shape);
  }
  const auto offsets = offsets_of(update, 2);
  check_part(update, offsets, whole.type.shape, type.shape);
  return part_of(whole, offsets, type.shape, update.attributes.axes);
}

void GraphPrinter::copy(const MemRef& to, const MemRef& from, bool may_be_same) {
  text_.outline.copies.push_back(
      {text_.outline.block(), text_.outline.step(), to.type, may_be_same});
  w_.open("{");
  const std::string a = tensor_argument(to), b = tensor_argument(from);
  w_.line("const pto_tensor to = " + a + ", from = " + b + ";");
  w_.line(std::string(may_be_same ? "if (to.data != from.data) " : "") +
          "pto_copy_tensor(&to, &from);");
  w_.close("}");
}

std::vector<std::string> GraphPrinter::offsets_of(const Node& node, size_t first) {
  std::vector<std::string> offsets;
  for (size_t i = first; i < node.operands.size(); ++i) offsets.push_back(number(node.operands[i]));
  return offsets;
}

void GraphPrinter::check_part(const Node& node, const std::vector<std::string>& offsets,
                              const Dims& whole, const Dims& shape) {
  const Dims part = span_of(shape, node.attributes.axes);
  for (size_t i = 0; i < offsets.size(); ++i) {
    if (offsets[i] == "0" && part[i] == whole[i]) continue;
    const std::string size = cpp_size(part[i]), all = cpp_size(whole[i]);
    const bool may_be_negative = !shape[i].is_constant();
    refuse(offsets[i] + " < 0 || " + (may_be_negative ? cpp_size(shape[i]) + " < 0 || " : "") +
               offsets[i] + " > " + all + " - " + size,
           "pto_fail_part(frame.args->services, " + where(node) + ", \"" +
               std::string(info(node.op).name) + "\", " + std::to_string(i) + ", " + offsets[i] +
               ", " + size + ", " + all + ")");
  }
}

void GraphPrinter::print_view(Value v) {
  const Node& node = graph_[v];
  const MemRef whole = place(node.operands[0]);
  const auto offsets = offsets_of(node, 1);
  check_part(node, offsets, graph_[node.operands[0]].type.shape, node.type.shape);
  places_[v] = part_of(whole, offsets, node.type.shape, node.attributes.axes);
  print_move(v);
}

// Gives the elements a variable, or copies them where their memory changes before they are read.
void GraphPrinter::print_move(Value v) {
  const Node& node = graph_[v];
  if (node.op != Opcode::view) {
    const MemRef from = place(node.operands[0]);
    std::optional<MemRef> moved;
    if (node.op == Opcode::reshape)
      moved = reshaped(from, node.type.shape);
    else if (node.op == Opcode::transpose)
      moved = transposed(from, node.attributes.axes);
    else
      moved = broadcast_to(from, node.type.shape);
    if (!moved) {
      const MemRef dense = fresh(from.type);
      copy(dense, from);
      places_[v] = with_shape(dense, node.type.shape);
      return;
    }
    places_[v] = *moved;
  }
  MemRef& moved = places_.at(v);
  if (storage_.copied_moves.count(v)) {
    const MemRef kept = fresh(node.type);
    copy(kept, moved);
    moved = kept;
    return;
  }
  if (moved.data.find(' ') == std::string::npos) return;
  const std::string name = text_.variable("v");
  w_.line("auto* const " + name + " = " + moved.data + ";");
  text_.outline.aliases[name] = text_.outline.base_of(moved.data);
  moved.data = name;
}

void GraphPrinter::print_update(Value v) {
  const Node& node = graph_[v];
  const MemRef whole = home_of({v, 0}, node.type);
  if (storage_.copies.count({v, 0})) copy(whole, place(node.operands[0]), true);
  const Made part = made_by(graph_, node.operands[1]);
  if (part.node < 0 || storage_.homes.at(part).part_of != v) {
    const Dims& shape = graph_[node.operands[1]].type.shape;
    const auto offsets = offsets_of(node, 2);
    check_part(node, offsets, node.type.shape, shape);
    const MemRef to = part_of(whole, offsets, shape, node.attributes.axes);
    if (const auto known = numbers_.find(node.operands[1]); known != numbers_.end())
      w_.line("*(" + to.data + ") = " + known->second + ";");
    else
      copy(to, place(node.operands[1]));
  }
  places_[v] = whole;
}

// Returns where the operand of a concat at this place belongs.
MemRef GraphPrinter::joined_part(const MemRef& whole, const Node& concat, size_t place) const {
  const auto axis = static_cast<size_t>(concat.attributes.axes[0]);
  std::string offset = "0";
  for (size_t i = 0; i < place; ++i)
    offset = "(" + offset + " + " + cpp_size(graph_[concat.operands[i]].type.shape[axis]) + ")";
  Dims sizes = concat.type.shape;
  sizes[axis] = graph_[concat.operands[place]].type.shape[axis];
  std::vector<std::string> offsets(sizes.size(), "0");
  offsets[axis] = offset;
  return part_of(whole, offsets, sizes);
}

void GraphPrinter::print_concat(Value v) {
  const Node& node = graph_[v];
  const MemRef whole = home_of({v, 0}, node.type);
  for (size_t i = 0; i < node.operands.size(); ++i) {
    const Made part = joined_by(graph_, node.operands[i]);
    if (part.node < 0 || storage_.homes.at(part).part_of != v)
      copy(joined_part(whole, node, i), place(node.operands[i]));
  }
  places_[v] = whole;
}

// Copies what the graph returns and did not compute in its place. In a loop's body first away from
// the memory of what is carried, which the copies overwrite.
void GraphPrinter::copy_outputs() {
  std::map<size_t, MemRef> from;
  for (const size_t k : storage_.copied_outputs) {
    const Value v = graph_.outputs()[k];
    if (const auto known = numbers_.find(v); known != numbers_.end()) {
      w_.line("*" + outputs_[k]->data + " = " + known->second + ";");
      continue;
    }
    from[k] = place(v);
    const Made made = made_by(graph_, v);
    Value base = v;
    while (only_moves(graph_[base].op)) base = graph_[base].operands[0];
    const bool is_apart =
        made.node < 0 ? graph_[base].is_parameter() && !held_.count(base)
                      : storage_.homes.at(made).part_of < 0 &&
                            storage_.given[static_cast<size_t>(storage_.homes.at(made).buffer)] < 0;
    if (is_apart || is_root_) continue;
    from[k] = fresh(graph_[v].type);
    copy(from[k], place(v));
  }
  for (const auto& [k, place] : from) copy(*outputs_[k], place);
}

}  // namespace pto
