// SPDX-License-Identifier: Apache-2.0
// Loads of a region whose places along an axis an index says. A place is checked once, ahead of the
// vectors that lie there; one that is none ends the region with an error.
#include <utility>

#include "pto/codegen/region_body.hpp"

namespace pto {

std::string RegionBody::fail_place(int i, const std::string& place) const {
  const Node& gather = node(i);
  const std::string size = numbered("c", i) + ".size";
  return "return pto_fail_position(args->services, " + cpp_line(gather.locations) +
         ", \"gather\", " + std::to_string(gather.attributes.axes[0]) + ", " + place + ", " + size +
         ", 0);";
}

// Defines what places are compared with, ahead of all items.
void RegionBody::define_chosen() {
  for (int i = 0; i < static_cast<int>(plan_.instances.size()); ++i) {
    const Instance& load = plan_.at(i);
    if (!load.chosen_dim) continue;
    const std::string name = numbered("c", i),
                      bytes = std::to_string(pto::bytes(node(i).type.dtype));
    const int tensor = tensor_of_input_[static_cast<size_t>(load.input)];
    w_.line("Chosen " + name + "(" + cpp_size(chosen_size(body_, load)) + ", " +
            stride(tensor, *load.chosen_dim) + " * " + bytes + ", n * " + bytes + ");");
    std::string reads = "range.begin < range.end";
    for (size_t axis = 0; axis < load.accesses.size(); ++axis)
      if (load.accesses[axis].step == AxisStep::Chosen && plan_.axes[axis].inner)
        reads += " && " + size_of(static_cast<int>(axis)) + " > 0";
    w_.line("if (" + name + ".size <= 0 && " + reads + ") " + fail_place(i, "0"));
  }
}

// The distance of a load from its tensor's start, by a value of four lanes.
std::string RegionBody::place_of(int i, const char* function) {
  const int tensor = tensor_of_input_[static_cast<size_t>(plan_.at(i).input)];
  return numbered("c", i) + "." + function + "(own(" + tile(plan_.at(i).operands[0]) + ")) * " +
         stride(tensor, *plan_.at(i).chosen_dim);
}

// Says whether the places of a load differ within an item.
bool RegionBody::is_placed_inside(const Instance& load) const {
  bool is_inside = false;
  for (size_t axis = 0; axis < load.accesses.size(); ++axis)
    is_inside |= plan_.axes[axis].inner && load.accesses[axis].step == AxisStep::Chosen;
  return is_inside;
}

// Defines the places that are the same all along an item.
void RegionBody::define_places() {
  width_ = "Row{}";
  placed_.clear();
  for (int i = 0; i < static_cast<int>(plan_.instances.size()); ++i) {
    if (!plan_.at(i).chosen_dim || is_placed_inside(plan_.at(i))) continue;
    w_.line("const int64_t " + numbered("g", i) + " = " + place_of(i, "at") + ";");
    placed_.insert(i);
    ask_ahead(i);
  }
}

// Asks for the row of a later item; the names of its axes hide those of this one.
void RegionBody::ask_ahead(int i) {
  const auto& accesses = plan_.at(i).accesses;
  const std::vector<int> items = plan_.item_axes();
  if (items.empty()) return;
  const int last = items.back();
  for (size_t axis = 0; axis + 1 < accesses.size(); ++axis)
    if (accesses[axis].step != AxisStep::None && accesses[axis].step != AxisStep::Chosen) return;
  if (accesses[static_cast<size_t>(last)].step != AxisStep::Chosen ||
      accesses.back().step != AxisStep::Unit)
    return;
  const std::string index = numbered("i", last), then = index + " + " + numbered("c", i) + ".ahead",
                    row = numbered("p", tensor_of_input_[static_cast<size_t>(plan_.at(i).input)]);
  w_.open("if (" + numbered("c", i) + ".ahead > 0 && " + then + " < " + size_of(last) + ") {");
  w_.line("const int64_t then = " + then + ";");
  w_.open("{");
  w_.line("const int64_t " + index + " = then;");
  Scope known = std::exchange(scopes_.back(), {});
  const std::string place = place_of(i, "near");
  w_.line("prefetch_row(" + row + " + " + place +
          (plan_.rows ? ", n);" : " + begin, end - begin);"));
  scopes_.back() = std::move(known);
  w_.close("}");
  w_.close("}");
}

// Defines a place within loops of an item; values of other widths there are no part of it.
void RegionBody::define_place_of_step(int i) {
  const std::string name = numbered("g", i), width = std::exchange(width_, "Row{}");
  const int sweep = std::exchange(sweep_, -1);
  std::vector<Scope> scopes(scopes_.begin(), scopes_.begin() + 2);
  scopes.emplace_back();
  std::swap(scopes, scopes_);
  w_.line("int64_t " + name + ";");
  w_.open("{");
  w_.line(name + " = " + place_of(i, "at") + ";");
  w_.close("}");
  std::swap(scopes, scopes_);
  width_ = width;
  sweep_ = sweep;
}

// Reports a place that is none, behind all items.
void RegionBody::check_chosen() {
  for (int i = 0; i < static_cast<int>(plan_.instances.size()); ++i)
    if (plan_.at(i).chosen_dim)
      w_.line("if (" + numbered("c", i) + ".is_bad) " + fail_place(i, numbered("c", i) + ".bad"));
}

}  // namespace pto
