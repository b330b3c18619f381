// SPDX-License-Identifier: Apache-2.0
// Control flow of a program: loops, repetitions, branches, and the graphs that are their bodies.
#include <algorithm>

#include "pto/codegen/graph_printer.hpp"
#include "pto/codegen/task_limits.hpp"
#include "pto/ir/infer.hpp"
#include "pto/ir/parallel_loop.hpp"

namespace pto {

// Makes the memory and the variables of a node's results; those that go on from an operand have its
// value.
GraphPrinter::Results GraphPrinter::results_of(Value v) {
  const Node& node = graph_[v];
  const Graph& body = *node.attributes.bodies.back();
  Results results;
  for (size_t k = 0; k < body.outputs().size(); ++k) {
    const Made made{v, static_cast<int>(k)};
    const Type& type = body[body.outputs()[k]].type;
    Result& result = results.emplace_back();
    if (is_number(type)) {
      const bool is_carried = node.op != Opcode::branch;
      const std::string first =
          is_carried ? " = " + number(node.operands[first_carried(node) + k]) : "";
      result.number = text_.variable("v");
      w_.line(std::string(cpp_name(type.dtype)) + " " + result.number + first + ";");
      made_numbers_[made] = result.number;
      continue;
    }
    result.start = start_of(graph_, made);
    result.memory = home_of(made, type);
    made_[made] = *result.memory;
    const auto start = static_cast<size_t>(result.start);
    if (result.start >= 0 && storage_.copies.count({v, start}))
      copy(*result.memory, place(node.operands[start]), true);
  }
  for (size_t i = operands_ahead(node); i < node.operands.size(); ++i)  // in front of the bodies
    if (is_number(graph_[node.operands[i]].type))
      number(node.operands[i]);
    else
      place(node.operands[i]);
  return results;
}

// Makes the printer of a body, which computes into the memory of the results. `index`: that of a
// loop; `computes`: false for a condition.
GraphPrinter GraphPrinter::printer_of(Value v, const Graph& body, const Results& results,
                                      const std::string& index, bool computes) {
  const Node& node = graph_[v];
  const size_t ahead = operands_ahead(node);
  std::vector<Given> given(body.outputs().size());
  std::vector<std::optional<MemRef>> outputs(body.outputs().size());
  for (size_t k = 0; computes && k < results.size(); ++k) {
    if (!results[k].memory) continue;
    given[k].is_given = true;
    if (results[k].start >= 0)
      given[k].holder = body.inputs()[static_cast<size_t>(results[k].start) - ahead];
    outputs[k] = results[k].memory;
  }
  GraphPrinter inner(text_, body, false, std::move(outputs), plan_storage(body, given));
  for (const Given& one : given) inner.held_.insert(one.holder);
  for (size_t i = 0; i < body.inputs().size(); ++i) {
    const Value input = body.inputs()[i], outer = node.operands[i + ahead];
    if (node.op == Opcode::loop && i == 0)
      inner.set_number(input, index);
    else if (finds_next_ && !has_made(outer))
      continue;  // which no address needs
    else if (is_number(body[input].type) || body[input].op == Opcode::scalar)
      inner.set_number(input, number(outer));
    else
      inner.set_place(input, place(outer));
  }
  if (const auto step = steps_.find(v); step != steps_.end())
    inner.set_number(body.inputs().back(), step->second);
  for (size_t k = 0; k < results.size(); ++k) {  // the values that change
    if (results[k].memory && results[k].start >= 0)
      inner.set_place(body.inputs()[static_cast<size_t>(results[k].start) - ahead],
                      *results[k].memory);
    else if (!results[k].memory && node.op != Opcode::branch)
      inner.set_number(body.inputs()[first_carried(node) - ahead + k], results[k].number);
  }
  return inner;
}

// Prints a body, and gives the variables of numbers their next values, all at once.
void GraphPrinter::print_body(Value v, const Graph& body, const Results& results,
                              const std::string& index, const Ahead& ahead) {
  GraphPrinter inner = printer_of(v, body, results, index, true);
  inner.next_ = ahead.next;
  inner.rows_ = ahead.rows;
  inner.trip_ = ahead.trip;
  inner.shares_ = ahead.shares;
  const auto& bodies = graph_[v].attributes.bodies;
  int place = 0;
  while (bodies[static_cast<size_t>(place)].get() != &body) ++place;
  text_.outline.begin_block(place);
  inner.print();
  std::vector<std::pair<std::string, std::string>> next;
  for (size_t k = 0; k < results.size(); ++k) {
    if (results[k].memory) continue;
    const Value out = body.outputs()[k];
    const std::string value = inner.number(out);
    if (value == results[k].number) continue;
    const std::string name = text_.variable("v");
    w_.line("const " + std::string(cpp_name(body[out].type.dtype)) + " " + name + " = " + value +
            ";");
    next.emplace_back(results[k].number, name);
  }
  for (const auto& [variable, value] : next) w_.line(variable + " = " + value + ";");
  text_.outline.end_block();
}

std::string GraphPrinter::index_definition(const std::string& index, const std::string& start,
                                           const std::string& k, const std::string& step) {
  return "[[maybe_unused]] const int64_t " + index + " = number::add<int64_t>(" + start +
         ", number::mul<int64_t>(" + k + ", " + step + "));";
}

namespace {

// Says whether a body only computes with numbers, so that an iteration takes no time to speak of.
bool is_light(const Graph& body) {
  return std::all_of(body.nodes().begin(), body.nodes().end(), [](const Node& node) {
    const auto& bodies = node.attributes.bodies;
    if (node.op == Opcode::loop || node.op == Opcode::repeat || node.op == Opcode::fused)
      return false;
    return (node.is_parameter() || node.op == Opcode::view || is_number(node.type)) &&
           std::all_of(bodies.begin(), bodies.end(),
                       [](const auto& one) { return is_light(*one); });
  });
}

}  // namespace

// Opens a loop from iteration k on within a loop without an own step: between such stretches the
// program may be interrupted. One of light iterations has many, for which it costs nothing.
void GraphPrinter::open_stretch(const Graph& body, const std::string& k, const std::string& count) {
  const std::string end = text_.variable("end");
  must("interrupted(frame)");
  w_.line("const int64_t " + end + " = stretch(" + k + ", " + count + ", " +
          (is_light(body) ? "1024" : "1") + ");");
  w_.open("for (; " + k + " < " + end + "; ++" + k + ") {");
}

std::string GraphPrinter::print_step(Value v, const std::string& stop) {
  const Node& node = graph_[v];
  std::string kept = "0";
  for (const Node& inner : node.body().nodes())
    if (inner.op == Opcode::empty)
      kept += " + bytes_of(" +
              element_count({inner.type.shape.begin() + 1, inner.type.shape.end()}) + ", " +
              std::to_string(bytes(inner.type.dtype)) + ")";
  const std::string step = text_.variable("step");
  w_.line("const int64_t " + step + " = group_of(frame, " + stop + ", work(" +
          cost_of(node.body()) + "), " + kept + limits_of(node).text() + ");");
  return steps_[v] = step;
}

void GraphPrinter::print_loop(Value v) {
  const Node& node = graph_[v];
  const Results results = results_of(v);
  const bool takes_any_step = find_hint(node, "any_step") != nullptr;
  const std::string start = number(node.operands[0]), stop = number(node.operands[1]),
                    step = takes_any_step ? print_step(v, stop) : number(node.operands[2]);
  if (!takes_any_step && (graph_[node.operands[2]].op != Opcode::constant || step == "0"))
    w_.line("if (" + step + " == 0) return pto_fail_step(frame.args->services, " + where(node) +
            ");");
  const std::string count = text_.variable("count"), k = text_.variable("k"),
                    index = text_.variable("i");
  w_.line("const int64_t " + count + " = trips(" + start + ", " + stop + ", " + step + ");");
  const std::string define_index = index_definition(index, start, k, step);
  LoopObstacle obstacle;
  const bool is_parallel = takes_any_step || writes_apart(graph_, v, &obstacle);
  Outline::Step& step_of = text_.outline.steps[static_cast<size_t>(text_.outline.step())];
  step_of.is_parallel = is_parallel;
  step_of.obstacle = obstacle;
  TaskLimits limits = is_parallel ? limits_of(node) : TaskLimits{};
  step_of.limits = limits;
  if (takes_any_step && limits.tiles > 0) limits.tiles = 1;  // which the step holds
  Ahead ahead;
  ahead.rows = print_rows(v, results, count, start, step);
  ahead.trip = k;
  for (const RowsFunction& rows : rows_)
    if (rows.loop == v)
      ahead.shares[rows.product] = "share_of(" + k + ", " + count + ", [&](int64_t one) { return " +
                                   rows.function + "(" + trip_ + (rows.is_next ? " + 1" : "") +
                                   ", one); })";
  if (ahead.shares.empty())
    if (const std::string next = print_next(v, results, count, start, step); !next.empty())
      ahead.next = next + "(" + k + " + 1)";
  if (is_parallel) {
    const std::string name = text_.variable("body");
    w_.open("const auto " + name + " = [&](const Frame& frame, int64_t " + k +
            ") __attribute__((noinline)) -> int32_t {");
    w_.line(define_index);
    text_.trips.push_back(k);
    print_body(v, node.body(), results, index, ahead);
    text_.trips.pop_back();
    w_.line("return 0;");
    w_.close("};");
    const std::string times = takes_any_step ? "" : "double(" + count + ") * ";
    const bool may_idle = !limits.any() && !takes_any_step && writes_segments(graph_, v);
    must("for_each(frame, " + count + ", work(" + times + "(" + cost_of(node.body()) + ")), " +
         name + (may_idle ? ", {}, kMayIdle" : limits.text()) + ")");
    return;
  }
  w_.open("for (int64_t " + k + " = 0; " + k + " < " + count + ";) {");
  open_stretch(node.body(), k, count);
  w_.line(define_index);
  text_.trips.push_back(k);
  print_body(v, node.body(), results, index, ahead);
  text_.trips.pop_back();
  w_.close("}");
  w_.close("}");
}

void GraphPrinter::print_repeat(Value v) {
  const Node& node = graph_[v];
  const Results results = results_of(v);
  const std::string k = text_.variable("k"), goes = text_.variable("goes");
  w_.line("bool " + goes + " = true;");
  w_.open("for (int64_t " + k + " = 0; " + goes + ";) {");
  open_stretch(node.body(1), k, "INT64_MAX");
  text_.trips.push_back(k);
  GraphPrinter condition = printer_of(v, node.body(0), results, "", false);
  text_.outline.begin_block(0);
  condition.print();
  text_.outline.end_block();
  w_.line(goes + " = " + condition.number(node.body(0).outputs()[0]) + ";");
  w_.line("if (!" + goes + ") break;");
  w_.line("if (" + k + " >= kMostRounds) return pto_fail_rounds(frame.args->services, " +
          where(node) + ", " + k + ");");
  print_body(v, node.body(1), results, "");
  text_.trips.pop_back();
  w_.close("}");
  w_.close("}");
}

void GraphPrinter::print_branch(Value v) {
  const Node& node = graph_[v];
  const Results results = results_of(v);
  const std::string condition = number(node.operands[0]);
  for (const size_t i : {0, 1}) {
    w_.open(i == 0 ? "if (" + condition + ") {" : "else {");
    print_body(v, node.body(i), results, "");
    w_.close("}");
  }
}

}  // namespace pto
