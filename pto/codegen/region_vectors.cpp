// SPDX-License-Identifier: Apache-2.0
// Pieces of short kernels, whose time is that of memory: a vector of each input in turn.
#include <algorithm>

#include "pto/codegen/region_body.hpp"

namespace pto {
namespace {

// Says whether an operation takes an instruction or two.
bool is_short(Opcode op) {
  constexpr Opcode kShort[] = {Opcode::add,  Opcode::sub,       Opcode::mul,     Opcode::div,
                               Opcode::neg,  Opcode::abs,       Opcode::minimum, Opcode::maximum,
                               Opcode::sqrt, Opcode::reciprocal};
  const Family family = info(op).family;
  return family == Family::Compare || family == Family::Select || family == Family::Structure ||
         std::find(std::begin(kShort), std::end(kShort), op) != std::end(kShort);
}

}  // namespace

// Says whether memory decides how long the elements of a piece take, and vectors of all are alike.
bool RegionBody::takes_vectors() const {
  if (plan_.reduces() || prefetch_bytes()) return false;
  int loads = 0;
  const int along = static_cast<int>(plan_.axes.size()) - 1;
  const auto is_ahead = [&](int i) { return is_invariant(i, along); };
  for (const int place : plan_.needed(plan_.roots(0), is_ahead)) {
    const Instance& i = plan_.at(place);
    const Node& node = body_[i.value];
    if (is_ahead(place) && node.type.dtype == DType::F32) continue;
    const bool is_condition = node.type.dtype == DType::Bool && i.input < 0;
    if (!is_short(node.op) || !(is_condition || node.type.dtype == DType::F32)) return false;
    const bool is_read = i.input >= 0 && !i.accesses.empty();
    if (is_read && i.accesses.back().step != AxisStep::Unit &&
        i.accesses.back().step != AxisStep::None)
      return false;
    loads += is_read && i.accesses.back().step == AxisStep::Unit;
  }
  for (const RegionOutput& o : plan_.outputs)
    if (node(o.instance).type.dtype != DType::F32 || o.accesses.empty() ||
        o.accesses.back().step != AxisStep::Unit)
      return false;
  return loads > 0;
}

// A vector of each input in turn, and the stores of a step behind all of them.
void RegionBody::print_vectors() {
  w_.open("for_each_tile<kStep>(begin, end, [&](int64_t first, auto step) PTO_LAMBDA_INLINE {");
  for (size_t o = 0; o < plan_.outputs.size(); ++o)
    w_.line("auto " + numbered("step", static_cast<int64_t>(o)) + " = make<" +
            type_of(plan_.outputs[o].instance) + ">(step);");
  w_.open("for_each_vector(step, [&](int place, auto w) PTO_LAMBDA_INLINE {");
  w_.line("const int64_t j = first + place;");
  scopes_.emplace_back();
  width_ = "w";
  by_vector_ = true;
  std::vector<std::string> puts;
  for (size_t o = 0; o < plan_.outputs.size(); ++o)
    puts.push_back("put(" + numbered("step", static_cast<int64_t>(o)) + ", place, " +
                   tile(plan_.outputs[o].instance) + ");");
  for (const std::string& put : puts) w_.line(put);
  by_vector_ = false;
  scopes_.pop_back();
  w_.close("});");
  for (size_t o = 0; o < plan_.outputs.size(); ++o)
    w_.line("store(step, " + output_pointer(o) + " + first, " +
            numbered("step", static_cast<int64_t>(o)) + ", stream);");
  w_.close("});");
}

}  // namespace pto
