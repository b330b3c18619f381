// SPDX-License-Identifier: Apache-2.0
#include "pto/codegen/print_program.hpp"

#include <algorithm>
#include <map>

#include "pto/codegen/graph_printer.hpp"
#include "pto/ir/infer.hpp"
#include "pto/ir/operations/operation.hpp"
#include "pto/ir/rebuild.hpp"

namespace pto {
namespace {

// Finds for each output the input whose memory it may take: the one that it continues. An input
// serves one output.
std::vector<Given> givens_of(const Graph& graph) {
  std::vector<Given> givens(graph.outputs().size(), {true, -1, true});
  std::vector<Value> taken;
  for (size_t k = 0; k < givens.size(); ++k) {
    Value v = reshaped_from(graph, graph.outputs()[k]);
    while (!graph[v].is_parameter()) {
      const Made made = made_by(graph, v);
      const int start = made.node < 0 ? -1 : start_of(graph, made);
      if (start < 0) break;
      v = reshaped_from(graph, graph[made.node].operands[static_cast<size_t>(start)]);
    }
    const bool is_new = std::find(taken.begin(), taken.end(), v) == taken.end();
    if (graph[v].op != Opcode::input || !(graph[v].type == graph[graph.outputs()[k]].type))
      continue;
    if (is_new && graph.outputs()[k] != v) givens[k].holder = v, taken.push_back(v);
  }
  return givens;
}

}  // namespace

void GraphPrinter::print() {
  print_guards({});
  for (const size_t k : storage_.continued)  // elsewhere in the root, where the caller says so
    if (is_root_) copy(*outputs_[k], places_.at(holders_[k]), true);
  for (Value v = 0; v < static_cast<Value>(graph_.nodes().size()); ++v)
    if (!graph_[v].is_parameter()) {
      text_.outline.begin_step(v);
      where_ = where(graph_[v]);
      if (text_.is_recorded)
        print_recorded(v);
      else
        print_node(v);
      text_.outline.end_step();
    }
  copy_outputs();
}

// Prints a statement between calls that record it; numbers and addresses stay as they are.
void GraphPrinter::print_recorded(Value v) {
  if (!makes_tensors(graph_[v].op)) return print_node(v);
  const int step = text_.outline.step();
  w_.line("pto_record_begin(" + std::to_string(step) + ", " + text_.trips.back() + ");");
  print_node(v);
  w_.line("pto_record_end();");
}

void GraphPrinter::print_node(Value v) {
  const Node& node = graph_[v];
  switch (node.op) {
    case Opcode::constant:
      return print_number(v);
    case Opcode::size:
      return print_size(v);
    case Opcode::view:
      return print_view(v);
    case Opcode::update:
      return print_update(v);
    case Opcode::concat:
      return print_concat(v);
    case Opcode::matmul:
      return print_matmul(v);
    case Opcode::empty:
      places_[v] = home_of({v, 0}, node.type);
      return;
    case Opcode::gather:
      return print_gather(v);
    case Opcode::scatter:
    case Opcode::scatter_add:
      return print_scatter(v);
    case Opcode::sort:
    case Opcode::sort_descending:
      return print_sort(v);
    case Opcode::cumsum:
    case Opcode::cumprod:
    case Opcode::cummax:
    case Opcode::cummin:
      return print_scan(v);
    case Opcode::fused:
      print_fused(v);
      break;
    case Opcode::loop:
      print_loop(v);
      break;
    case Opcode::repeat:
      print_repeat(v);
      break;
    case Opcode::branch:
      print_branch(v);
      break;
    case Opcode::result:
      break;
    default:
      return is_number(node.type) ? print_number(v) : print_move(v);
  }
  const Made made = made_by(graph_, v);
  if (const auto number = made_numbers_.find(made); number != made_numbers_.end())
    numbers_[v] = number->second;
  else
    places_[v] = made_.at(made);
}

namespace {

// Estimates what a graph costs; sizes that it gets from data are not known in front of it.
class Cost {
 public:
  std::string of(const Graph& graph) {
    for (const Node& node : graph.nodes())
      if (node.op == Opcode::size) note_size(graph, node);
    std::string sum = "64.0";
    for (const Node& node : graph.nodes())
      if (const std::string term = of(graph, node); !term.empty()) sum += " + " + term;
    return sum;
  }

 private:
  static constexpr const char* kUsualSize = "64";
  static constexpr const char* kUsualTrips = "16";

  std::string of(const Graph& graph, const Node& node) {
    if (node.op == Opcode::matmul)
      return count(node.type.shape) + " * " + count({graph[node.operands[0]].type.shape.back()}) +
             " * 0.25";
    if (node.op == Opcode::loop) {
      const Node& stop = graph[node.operands[1]];
      const std::string trips =
          stop.op == Opcode::extent ? size(stop.attributes.size) : kUsualTrips;
      if (find_hint(node, "any_step")) return "(" + of(node.body()) + ")";  // in one step
      return trips + " * (" + of(node.body()) + ")";
    }
    if (node.op == Opcode::repeat) return kUsualTrips + (" * (" + of(node.body(1)) + ")");
    if (node.op == Opcode::branch) return "(" + of(node.body(0)) + " + " + of(node.body(1)) + ")";
    if (node.op == Opcode::sort || node.op == Opcode::sort_descending)
      return count(node.type.shape) + " * 64";
    if (const KernelForm form = operation(node.op).kernel;
        form == KernelForm::Step || form == KernelForm::Number)
      return count(node.type.shape) + " * 8";
    if (node.op != Opcode::fused) return "";
    std::string sum;
    for (const Value out : node.body().outputs())
      sum += (sum.empty() ? "" : " + ") + count(node.body()[out].type.shape) + " * 8";
    return sum;
  }

  // A part of a size that is known counts as all of it.
  void note_size(const Graph& graph, const Node& node) {
    const int64_t symbol = node.attributes.size.value();
    const Node& number = graph[node.operands[0]];
    from_data_[symbol] = kUsualSize;
    if (number.op != Opcode::minimum) return;
    for (const Value v : number.operands)
      if (graph[v].op == Opcode::extent) from_data_[symbol] = size(graph[v].attributes.size);
  }

  std::string count(const Dims& shape) const {
    std::string all = "1.0";
    for (const Dim& dim : shape)
      if (!is_one(dim)) all += " * " + size(dim);
    return all;
  }

  std::string size(const Dim& dim) const {
    if (dim.is_symbol() && from_data_.count(dim.value())) return from_data_.at(dim.value());
    bool is_known = true;
    each_symbol(dim, [&](int64_t symbol) { is_known = is_known && !from_data_.count(symbol); });
    return is_known ? cpp_size(dim) : kUsualSize;
  }

  std::map<int64_t, std::string> from_data_;  // symbols with what they count as
};

}  // namespace

std::string cost_of(const Graph& graph) { return Cost().of(graph); }

namespace {

bool has_loop(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const Node& node) {
    const auto& bodies = node.attributes.bodies;
    return node.op == Opcode::loop || node.op == Opcode::repeat ||
           (node.op == Opcode::branch &&
            std::any_of(bodies.begin(), bodies.end(), [](const auto& b) { return has_loop(*b); }));
  });
}

// Prints the function of a program, from its arguments to its return.
class RootPrinter {
 public:
  RootPrinter(const Graph& graph, const std::string& function, ProgramSpec* spec, bool is_recorded)
      : graph_(graph), spec_(*spec), w_(text_.statements) {
    text_.name = function;
    text_.is_recorded = is_recorded;
  }

  Outline print(CodeWriter* writer) {
    w_.open("extern \"C\" PTO_EXPORT int32_t " + text_.name + "(const pto_args* args) {");
    w_.line("Arena arena(args->services, true);");
    w_.line("const Frame frame{args, arena, true};");
    w_.line("[[maybe_unused]] const pto_packed_right* const packed = packed_right(args);");
    if (has_loop(graph_)) w_.line("const Watched watched;");
    print_sizes();
    print_inputs();
    print_graph();
    spec_.packed = text_.packed;
    w_.line("return 0;");
    w_.close("}");
    writer->block(text_.functions.text());
    writer->line("");
    writer->block(w_.text());
    return std::move(text_.outline);
  }

 private:
  void print_sizes() {
    std::vector<int> symbols;
    for (const TensorSpec& input : spec_.inputs)
      for (const Dim& dim : input.shape) collect_symbols(dim, &symbols);
    for (const int s : symbols)
      w_.line("[[maybe_unused]] const int64_t s" + std::to_string(s) + " = size_argument(args, " +
              std::to_string(spec_.scalars.size() + 2 + static_cast<size_t>(s)) + ");");
  }

  void print_inputs() {
    size_t scalar = 0;
    for (const Value v : graph_.inputs()) {
      const Node& node = graph_[v];
      if (node.op == Opcode::input) {
        const int place = next_;
        inputs_[v] = tensor(node.type, spec_.inputs[static_cast<size_t>(place)].strides);
        if (find_hint(node, "constant")) mark_constant(place, node, &inputs_[v]);
        continue;
      }
      const std::string type(is_float(node.type.dtype) ? "double" : cpp_name(node.type.dtype));
      numbers_[v] = text_.variable("v");
      w_.line("const " + type + " " + numbers_[v] + " = scalar<" + type + ">(args, " +
              std::to_string(scalar++) + ");");
    }
  }

  // The memory of an output that goes on from an input may be that of the input, gaps and all.
  void print_outputs(const std::vector<Given>& givens) {
    for (size_t k = 0; k < givens.size(); ++k) {
      TensorSpec& output = spec_.outputs[k];
      if (const Value holder = givens[k].holder; holder >= 0) {
        output.replaces = tensor_index(holder);
        output.strides = inputs_.at(holder).layout;
      }
      outputs_.push_back(tensor({output.dtype, output.shape}, output.strides));
    }
  }

  void mark_constant(int place, const Node& node, MemRef* memory) {
    memory->constant = place;
    for (size_t axis = 0; axis < node.type.shape.size(); ++axis)
      memory->axes.push_back(static_cast<int>(axis));
    text_.constants[place] = {node.attributes.name, node.type};
  }

  // Prints the next tensor of the call.
  MemRef tensor(const Type& type, StrideClass layout) {
    const std::string at = std::to_string(next_), name = "p" + std::to_string(next_++);
    w_.line("[[maybe_unused]] auto* const " + name + " = static_cast<Stored<" +
            std::string(cpp_name(type.dtype)) + ">*>(args->tensors[" + at + "].data);");
    MemRef found = dense_memref(name, type);
    found.layout = layout;
    if (layout == StrideClass::Contiguous) return found;
    found.gaps = AxisGaps::everywhere();
    for (size_t d = 0; d < type.shape.size(); ++d) {
      const bool is_unit = layout == StrideClass::Rows && d + 1 == type.shape.size();
      found.strides[d] = is_unit ? "1" : name + "_" + std::to_string(d);
      if (!is_unit)
        w_.line("[[maybe_unused]] const int64_t " + found.strides[d] + " = args->tensors[" + at +
                "].strides[" + std::to_string(d) + "];");
    }
    return found;
  }

  void print_graph() {
    std::vector<Given> givens = givens_of(graph_);
    for (Given& given : givens)
      if (given.holder >= 0)
        given.is_dense = inputs_.at(given.holder).layout == StrideClass::Contiguous;
    Storage storage = plan_storage(graph_, givens);
    for (size_t k = 0; k < givens.size(); ++k) {
      if (givens[k].holder < 0 || !storage.copied_outputs.count(k)) continue;
      givens[k] = {true, -1, true};  // the input is read after its place is written
      storage = plan_storage(graph_, givens);
    }
    print_outputs(givens);
    GraphPrinter root(text_, graph_, true, outputs_, std::move(storage));
    for (const auto& [v, input] : inputs_) root.set_place(v, input);
    for (const auto& [v, name] : numbers_) root.set_number(v, name);
    for (const Given& given : givens) root.add_holder(given.holder);
    root.print();
  }

  // Returns the place of an input among the tensors.
  int tensor_index(Value input) const {
    const auto last = std::find(graph_.inputs().begin(), graph_.inputs().end(), input);
    return static_cast<int>(std::count_if(graph_.inputs().begin(), last,
                                          [&](Value v) { return graph_[v].op == Opcode::input; }));
  }

  const Graph& graph_;
  ProgramSpec& spec_;
  ProgramText text_;
  CodeWriter& w_;
  int next_ = 0;  // tensor of the call
  std::map<Value, MemRef> inputs_;
  std::map<Value, std::string> numbers_;
  std::vector<std::optional<MemRef>> outputs_;
};

}  // namespace

Outline print_program(const Graph& graph, const std::string& function, ProgramSpec* spec,
                      CodeWriter* writer, bool is_recorded) {
  return RootPrinter(graph, function, spec, is_recorded).print(writer);
}

}  // namespace pto
