// SPDX-License-Identifier: Apache-2.0
// Loads of the inputs of a region, positions of its loops, and lines asked for ahead.
#include <algorithm>

#include "pto/codegen/region_body.hpp"

namespace pto {

void RegionBody::define_load(int i, const std::string& name) {
  const Instance& instance = plan_.at(i);
  const int tensor = tensor_of_input_[static_cast<size_t>(instance.input)];
  const AxisAccess access = instance.accesses.empty() ? AxisAccess{} : instance.accesses.back();
  if (instance.chosen_dim && placed_.count(i) == 0) define_place_of_step(i);
  const std::string place = instance.chosen_dim ? " + " + numbered("g", i) : "",
                    from = width_ + ", " + offset(tensor, instance.accesses) + place;
  const std::string head = "auto " + name + " = load";
  const std::string type = "<" + type_of(i) + ">(";
  if (access.step == AxisStep::None)
    w_.line(head + "_one" + type + from + ");");
  else if (access.step == AxisStep::Unit)
    w_.line(head + (by_vector_ ? "_vector" : "") + type + from + " + j);");
  else if (access.step == AxisStep::Repeated || access.step == AxisStep::Periodic) {
    const std::string period = std::to_string(plan_.period);
    const bool repeats = access.step == AxisStep::Repeated;
    w_.line(head + (repeats ? "_repeated<" : "_periodic<") + period + ", " + type.substr(1) + from +
            ", j" + (repeats ? ", n / " + period : "") + ");");
  } else if (access.step == AxisStep::Folded)
    w_.line(head + "_folded" + type + from + ", j, " +
            folded(tensor, instance.accesses.size() - 1) + ");");
  else
    w_.line(head + "_strided" + type + from + " + j * " + stride(tensor, access.dims.back()) +
            ", " + stride(tensor, access.dims.back()) + ");");
}

// The index along one axis: on the vector axis one after another, along others a single one.
void RegionBody::define_positions(int i, const std::string& name) {
  const std::vector<AxisAccess>& accesses = plan_.at(i).accesses;
  size_t axis = 0;
  while (axis < accesses.size() && accesses[axis].step == AxisStep::None) ++axis;
  const std::string head = "auto " + name + " = ";
  if (axis == accesses.size())
    w_.line(head + "spread(" + width_ + ", int64_t(0));");
  else if (axis + 1 == accesses.size())
    w_.line(head + "positions(" + width_ + ", j);");
  else
    w_.line(head + "spread(" + width_ + ", " + numbered("i", static_cast<int64_t>(axis)) + ");");
}

// Says whether an instance counts the elements of the row that a sweep goes along.
bool RegionBody::counts_row(int i) const {
  const std::vector<AxisAccess>& accesses = plan_.at(i).accesses;
  return node(i).op == Opcode::iota && !accesses.empty() &&
         accesses.back().step == AxisStep::Unit && plan_.loop_axes().empty();
}

// Returns the operands of what a minimum reduces, where that are the positions of a row on a
// condition, and a literal where it does not hold. Null: it is anything else.
const std::vector<int>* RegionBody::first_place(int i) const {
  const int reduced = plan_.at(i).operands[0];
  if (node(i).op != Opcode::amin || node(reduced).op != Opcode::where) return nullptr;
  const std::vector<int>& operands = plan_.at(reduced).operands;
  return counts_row(operands[1]) && is_literal(operands[2]) ? &operands : nullptr;
}

// How far ahead the lines of the region ask for memory.
std::optional<int64_t> RegionBody::prefetch_bytes() const {
  for (const Node& node : body_.nodes())
    if (const Hint* hint = find_hint(node, "prefetch_bytes"); hint && !hint->numbers.empty())
      return hint->numbers[0];
  return std::nullopt;
}

// Prefetches the next row where there are rows, unless a hint says how far. The CPU itself sees one
// stream of elements: lines asked for beside it cost 10 to 20 % between 512 KB and 64 MB (Zen 4).
// Rows that are read once are such a stream, too; where they are read again, it waits.
void RegionBody::print_prefetch() {
  const std::optional<int64_t> bytes = prefetch_bytes();
  if (bytes == 0 || (!bytes && !plan_.rows)) return;
  std::set<std::string> done;
  for (const Instance& i : plan_.instances) {
    if (i.input < 0 || i.accesses.empty() || i.accesses.back().step != AxisStep::Unit) continue;
    const int tensor = tensor_of_input_[static_cast<size_t>(i.input)];
    const std::vector<int> items = plan_.item_axes();
    const AxisAccess row =
        items.empty() ? AxisAccess{} : i.accesses[static_cast<size_t>(items.back())];
    if (!items.empty() && row.step == AxisStep::None) continue;  // the same row again
    if (row.step == AxisStep::Chosen) continue;                  // no row lies beside another
    if (plan_.rows && items.empty()) continue;                   // there is only one row
    const int64_t item = pto::bytes(body_[i.value].type.dtype);
    std::string ahead = bytes ? std::to_string(std::max<int64_t>(*bytes / item, 1))
                              : stride(tensor, row.dims.back());
    if (!bytes && plan_.loop_axes().empty())
      ahead += " * rows_ahead(n * " + std::to_string(item) + ")";
    const std::string from = offset(tensor, i.accesses) + " + j + " + ahead;
    const char* const how = bytes || plan_.sweeps > 1 ? "prefetch" : "prefetch_stream";
    if (done.insert(from).second) w_.line(std::string("if (far) ") + how + "(w, " + from + ");");
  }
}

}  // namespace pto
