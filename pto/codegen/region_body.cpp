// SPDX-License-Identifier: Apache-2.0
#include "pto/codegen/region_body.hpp"

#include <algorithm>

#include "pto/codegen/print_instruction.hpp"

namespace pto {
namespace {

std::string operation(const Node& node) { return std::string(info(node.op).name) + "_of"; }

}  // namespace

RegionBody::RegionBody(const Graph& body, const RegionPlan& plan, const std::vector<int>& scalars,
                       std::string function)
    : body_(body), plan_(plan), scalars_(scalars), function_(std::move(function)) {
  for (Value v : body_.inputs())
    tensor_of_input_.push_back(body_[v].op == Opcode::input ? inputs_++ : -1);
  find_innermost();
}

std::string RegionBody::print(bool buffered) {
  buffered_ = buffered;
  w_ = CodeWriter();
  scopes_.clear();
  print_items();
  return w_.text();
}

// --- addresses ---------------------------------------------------------------------------------

std::string RegionBody::stride(int tensor, int dim) {
  strides_.insert({tensor, dim});
  return numbered("p", tensor) + numbered("_", dim);
}

// Prints the offset from the tensor's start to the current indices, without the vector axis.
std::string RegionBody::offset(int tensor, const std::vector<AxisAccess>& accesses) {
  std::string sum = numbered("p", tensor);
  for (size_t a = 0; a + 1 < accesses.size() || (plan_.rows && a + 1 == accesses.size()); ++a) {
    const AxisStep step = accesses[a].step;
    if (step == AxisStep::None || step == AxisStep::Chosen ||
        (plan_.axes[a].inner && a + 1 == accesses.size()))
      continue;
    const std::string i = numbered("i", static_cast<int64_t>(a));
    if (step == AxisStep::Folded)
      sum += " + " + folded(tensor, a) + ".offset(" + i + ")";
    else
      sum += " + " + i +
             (step == AxisStep::Strided ? " * " + stride(tensor, accesses[a].dims.back()) : "");
  }
  return sum;
}

// Defines the folded axes of the loads.
void RegionBody::define_folded() {
  std::set<std::string> done;
  for (const Instance& i : plan_.instances)
    for (size_t a = 0; a < i.accesses.size(); ++a) {
      const AxisAccess& access = i.accesses[a];
      if (access.step != AxisStep::Folded) continue;
      const int tensor = tensor_of_input_[static_cast<size_t>(i.input)];
      std::string sizes, strides;
      for (size_t k = 0; k < access.dims.size(); ++k) {
        const char* comma = k == 0 ? "" : ", ";
        sizes += comma + cpp_size(plan_.axes[a].parts[k]);
        strides += comma + stride(tensor, access.dims[k]);
      }
      if (done.insert(folded(tensor, a)).second)
        w_.line("Folded<" + std::to_string(access.dims.size()) + "> " + folded(tensor, a) + "{{" +
                sizes + "}, {" + strides + "}};");
    }
}

std::string RegionBody::output_pointer(size_t output) {
  return offset(inputs_ + static_cast<int>(output), plan_.outputs[output].accesses);
}

// --- loops -------------------------------------------------------------------------------------

void RegionBody::print_items() {
  const std::vector<int> axes = plan_.item_axes();
  scopes_.emplace_back();
  define_chosen();
  define_invariants(0);
  w_.open("for (int64_t item = range.begin; item < range.end; ++item) {");
  std::string rest = "item";
  if (!plan_.rows) {
    const std::string piece = std::to_string(plan_.piece());
    w_.line("const int64_t begin = item % pieces * " + piece + ";");
    w_.line("const int64_t end = min_size(begin + " + piece + ", n);");
    rest = "item / pieces";
  }
  for (size_t k = axes.size(); k-- > 1;) {
    const std::string size = cpp_size(plan_.axes[static_cast<size_t>(axes[k])].size);
    w_.line("const int64_t " + numbered("i", axes[k]) + " = " + rest + " % " + size + ";");
    w_.line("const int64_t " + numbered("rest", axes[k]) + " = " + rest + " / " + size + ";");
    rest = numbered("rest", axes[k]);
  }
  if (!axes.empty()) w_.line("const int64_t " + numbered("i", axes.front()) + " = " + rest + ";");
  define_folded();
  scopes_.emplace_back();
  define_places();
  if (plan_.rows)
    print_row();
  else
    print_piece();
  scopes_.pop_back();
  w_.close("}");
  scopes_.pop_back();
  check_chosen();
}

std::string RegionBody::size_of(int axis) const {
  return cpp_size(plan_.axes[static_cast<size_t>(axis)].size);
}

// With `open` the innermost loop runs in stretches of at most a block; its steps add to `open`.
void RegionBody::open_loops(const std::string& open) {
  for (int axis : plan_.loop_axes()) {
    const std::string i = numbered("i", axis);
    if (!open.empty() && axis == plan_.loop_axes().back()) {
      w_.open("for (int64_t from = 0, to; from < " + size_of(axis) + "; from = to) {");
      w_.line("to = min_size(from + kColumnSteps, " + size_of(axis) + ");");
      w_.line(open + " += to - from;");
      w_.open("for (int64_t " + i + " = from; " + i + " < to; ++" + i + ") {");
      return;
    }
    w_.open("for (int64_t " + i + " = 0; " + i + " < " + size_of(axis) + "; ++" + i + ") {");
  }
}

std::vector<int> RegionBody::long_sums(int sweep) const {
  std::vector<int> found;
  for (int i : plan_.reductions(sweep))
    if (node(i).op == Opcode::sum && is_float(node(i).type.dtype)) found.push_back(i);
  return found;
}

void RegionBody::close_loops() {
  for (size_t k = 0; k < plan_.loop_axes().size(); ++k) w_.close("}");
}

// --- rows: vectors run along the reduced axis --------------------------------------------------

void RegionBody::print_row() {
  width_ = "Row{}";
  const bool are_functions = has_sweep_functions();
  for (int sweep = 0; sweep < plan_.sweeps; ++sweep) {
    if (plan_.roots(sweep).empty()) continue;
    define_row_values(sweep);
    if (are_functions)
      call_sweep(sweep);
    else
      print_row_sweep(sweep);
  }
  std::vector<std::string> stores;
  for (size_t o = 0; o < plan_.outputs.size(); ++o)
    if (!plan_.stored_in_sweep(plan_.outputs[o]))
      stores.push_back("store_one(" + output_pointer(o) + ", " + tile(plan_.outputs[o].instance) +
                       ");");
  for (const std::string& store : stores) w_.line(store);
}

// Defines the values that a sweep needs and that do not vary along the inner axes, before the
// sweep.
void RegionBody::define_row_values(int sweep) {
  for (int i : plan_.needed(plan_.roots(sweep), [](int) { return false; }))
    if (!plan_.at(i).inner && !plan_.at(i).reduces && !is_literal(i)) tile(i);
}

void RegionBody::print_row_sweep(int sweep) {
  print_row_loops(sweep);
  for (int i : plan_.reductions(sweep)) {
    const std::string name = numbered("v", i);
    w_.line("auto " + name + " = spread(Row{}, " + total_of(sweep, i) + ");");
    scopes_.back()[i] = name;
  }
}

// An expression for what a reduction has at the end of its sweep.
std::string RegionBody::total_of(int sweep, int i) const {
  const std::vector<int> sums = long_sums(sweep);
  const bool in_blocks = std::find(sums.begin(), sums.end(), i) != sums.end();
  return numbered("a", i) + ".value(" + (in_blocks ? numbered("blocks", i) : "") + ")";
}

void RegionBody::print_row_loops(int sweep) {
  const std::vector<int> reductions = plan_.reductions(sweep);
  const std::string step = "kStep";  // decides the order of sums: also where rows find no buffer
  const std::vector<int> sums = long_sums(sweep);
  const std::string open = numbered("open", sweep);
  for (int i : reductions) {
    const std::string accumulator =
        "Accumulator<" + operation(node(i)) + ", " + type_of(i) + ", " + step + ">";
    const std::vector<int>* const first = first_place(i);
    w_.line(first ? "FirstPlace " + numbered("a", i) + "(" + literal((*first)[2]) + ");"
                  : accumulator + " " + numbered("a", i) + ";");
  }
  for (int i : sums)
    w_.line("RegionSums<" + type_of(i) + ", kTail> " + numbered("blocks", i) + ";");
  const bool goes_on = !sums.empty() && !plan_.loop_axes().empty();
  if (goes_on) w_.line("int64_t " + open + " = 0;");
  open_loops("");
  w_.open("for_each_tile<" + step + ">(" +
          (sums.empty() ? "0, n" : "n" + (goes_on ? ", " + open : "")) +
          ", [&](int64_t j, auto w) PTO_LAMBDA_INLINE {");
  sweep_ = sweep;
  width_ = "w";
  scopes_.emplace_back();
  // The last sweep that reduces has the most arithmetic to hide the next row's arrival behind.
  if (sweep == std::max(0, plan_.sweeps - 2)) print_prefetch();
  for (int i : reductions) add_to_accumulator(i);
  print_stores(stored_in(sweep));
  std::vector<std::string> stores;  // behind all loads: they may go to rows that this sweep reads
  for (const RowBuffer& b : plan_.buffers)
    if (buffered_ && b.from == sweep)
      stores.push_back("store(w, " + numbered("b", static_cast<int64_t>(b.row)) + " + " +
                       row_position() + "j, " + tile(b.instance) + ", false);");
  for (const std::string& store : stores) w_.line(store);
  scopes_.pop_back();
  sweep_ = -1;
  width_ = "Row{}";
  std::string close = "}";
  for (int i : sums)
    close += (i == sums.front() ? ", [&]() PTO_LAMBDA_INLINE { " : " ") + numbered("a", i) +
             ".close(" + numbered("blocks", i) + ");" + (i == sums.back() ? " }" : "");
  w_.close(close + ");");
  close_loops();
}

void RegionBody::add_to_accumulator(int i) {
  const int operand = plan_.at(i).operands[0];
  if (takes_product(i))
    w_.line(numbered("a", i) + ".add_product(w, " + factors(operand) + ");");
  else if (const std::vector<int>* first = first_place(i))
    w_.line(numbered("a", i) + ".add(w, " + tile((*first)[0]) + ", j);");
  else
    w_.line(numbered("a", i) + ".add(w, " + tile(operand) + ");");
}

void RegionBody::add_to_piece(int i) {
  const int operand = plan_.at(i).operands[0];
  const std::string sum = numbered("v", i);
  if (takes_product(i))
    w_.line("multiply_add(" + sum + ", " + factors(operand) + ", " + sum + ");");
  else
    w_.line(operation(node(i)) + "::whole(" + sum + ", " + tile(operand) + ");");
}

// Prints the number of elements before the current indices of the loops, and a plus; "" without
// loops.
std::string RegionBody::row_position() const {
  std::string position;
  for (int axis : plan_.loop_axes()) {
    const std::string i = numbered("i", axis);
    position = position.empty()
                   ? i
                   : "(" + position + " * " + cpp_size(plan_.axes[static_cast<size_t>(axis)].size) +
                         " + " + i + ")";
  }
  return position.empty() ? "" : position + " * n + ";
}

// --- pieces: vectors run along an outer axis ---------------------------------------------------

void RegionBody::print_piece() {
  define_invariants(static_cast<int>(plan_.axes.size()) - 1);
  if (takes_vectors()) return print_vectors();
  w_.open("for_each_tile<kStep>(begin, end, [&](int64_t j, auto w) PTO_LAMBDA_INLINE {");
  scopes_.emplace_back();
  width_ = "w";
  if (plan_.reduces()) {
    for (int sweep = 0; sweep < plan_.sweeps; ++sweep)
      if (!plan_.roots(sweep).empty()) print_piece_sweep(sweep);
    std::vector<size_t> behind;
    for (size_t o = 0; o < plan_.outputs.size(); ++o)
      if (!plan_.stored_in_sweep(plan_.outputs[o])) behind.push_back(o);
    print_stores(behind);
  } else {
    print_prefetch();
    print_stores(stored_in(0));
  }
  scopes_.pop_back();
  w_.close("});");
}

void RegionBody::print_piece_sweep(int sweep) {
  const std::vector<int> reductions = plan_.reductions(sweep);
  define_row_values(sweep);
  for (int i : reductions)
    w_.line("auto " + numbered("v", i) + " = spread(w, " + operation(node(i)) + "::identity<" +
            type_of(i) + ">());");
  const std::vector<int> sums = long_sums(sweep);
  const std::string open = numbered("open", sweep);
  for (int i : sums) w_.line("RegionSums " + numbered("blocks", i) + "(" + numbered("v", i) + ");");
  if (!sums.empty()) w_.line("int64_t " + open + " = 0;");
  open_loops(sums.empty() ? "" : open);
  scopes_.emplace_back();
  for (int i : reductions) add_to_piece(i);
  print_stores(stored_in(sweep));
  if (!sums.empty()) {
    w_.close("}");
    w_.open("if (" + open + " >= kColumnSteps) {");
    w_.line(open + " = 0;");
    for (int i : sums) w_.line(numbered("blocks", i) + ".close(" + numbered("v", i) + ");");
    w_.close("}");
  }
  scopes_.pop_back();
  close_loops();
  for (int i : sums) w_.line(numbered("blocks", i) + ".add_all_to(" + numbered("v", i) + ");");
  for (int i : reductions) scopes_.back()[i] = numbered("v", i);
}

std::vector<size_t> RegionBody::stored_in(int sweep) const {
  std::vector<size_t> found;
  for (size_t o = 0; o < plan_.outputs.size(); ++o)
    if (plan_.stored_in_sweep(plan_.outputs[o]) &&
        (!plan_.reduces() || plan_.at(plan_.outputs[o].instance).level == sweep))
      found.push_back(o);
  return found;
}

// All tiles come before the stores: an output may lie where an input does. Those with gaps come in
// pairs: one may lie in the gaps of the other.
void RegionBody::print_stores(const std::vector<size_t>& outputs) {
  std::vector<std::string> stores, apart;
  for (const size_t o : outputs) {
    const int i = plan_.outputs[o].instance;
    const DType dtype = node(i).type.dtype;
    const AxisAccess last =
        plan_.outputs[o].accesses.empty() ? AxisAccess{} : plan_.outputs[o].accesses.back();
    const std::string at = ", " + output_pointer(o) + " + j";
    if (last.step == AxisStep::Strided) {
      const std::string step = stride(inputs_ + static_cast<int>(o), last.dims.back());
      apart.push_back(at + " * " + step + ", " + step + ", " + tile(i));
      continue;
    }
    const bool is_rounded =
        info(node(i).op).family == Family::Convert && (dtype == DType::BF16 || dtype == DType::F16);
    stores.push_back((is_rounded ? "store_rounded(w" : "store(w") + at + ", " + tile(i) +
                     ", stream);");
  }
  for (size_t k = 0; k < apart.size(); k += 2)
    stores.push_back("store_strided(w" + apart[k] + (k + 1 < apart.size() ? apart[k + 1] : "") +
                     ");");
  for (const std::string& store : stores) w_.line(store);
}

// --- values ------------------------------------------------------------------------------------

const std::string* RegionBody::defined(int i) const {
  for (size_t s = scopes_.size(); s-- > 0;) {
    const auto found = scopes_[s].find(i);
    if (found != scopes_[s].end()) return &found->second;
  }
  return nullptr;
}

// Returns the value of four lanes that a row, an item or all items have, spread or not.
const std::string* RegionBody::defined_for_row(int i) const {
  for (size_t s = std::min<size_t>(2, scopes_.size()); s-- > 0;)
    if (const auto found = scopes_[s].find(i); found != scopes_[s].end()) return &found->second;
  return nullptr;
}

bool RegionBody::is_literal(int i) const {
  return node(i).op == Opcode::constant || node(i).op == Opcode::scalar || plan_.at(i).count;
}

int RegionBody::buffer_of(int i) const {
  for (size_t b = 0; b < plan_.buffers.size(); ++b)
    if (plan_.buffers[b].instance == i) return static_cast<int>(b);
  return -1;
}

// Returns the tile's name of instance i; defines it in the current scope where it is unknown.
std::string RegionBody::tile(int i) {
  const bool spreads = plan_.rows ? sweep_ >= 0 && !plan_.at(i).inner
                                  : width_ == "w" && defined_for_row(i) != nullptr;
  const std::string* known = defined(i);
  std::string name = numbered("v", i);
  if (known && (!spreads || known->back() == 'w')) return *known;
  if (spreads) name += "w";
  if (known)
    w_.line("auto " + name + " = spread(w, own(" + *known + "));");
  else
    define(i, name);
  return scopes_.back()[i] = name;
}

void RegionBody::define(int i, const std::string& name) {
  const Instance& instance = plan_.at(i);
  const int buffer = buffered_ ? buffer_of(i) : -1;
  if (buffer >= 0 && sweep_ > plan_.buffers[static_cast<size_t>(buffer)].from)
    w_.line("auto " + name + " = load<" + type_of(i) + ">(w, " +
            numbered("b", static_cast<int64_t>(plan_.buffers[static_cast<size_t>(buffer)].row)) +
            " + " + row_position() + "j);");
  else if (instance.input >= 0)
    define_load(i, name);
  else if (is_literal(i))
    w_.line("auto " + name + " = spread(" + width_ + ", " + literal(i) + ");");
  else if (node(i).op == Opcode::iota)
    define_positions(i, name);
  else
    define_instruction(i, name);
}

std::string RegionBody::literal(int i) const {
  const Node& n = node(i);
  if (plan_.at(i).count) return type_of(i) + "(" + cpp_size(*plan_.at(i).count) + ")";
  if (n.op == Opcode::constant) return cpp_constant(n.attributes.value, n.type.dtype);
  size_t scalar = 0;
  for (Value v : body_.inputs()) {
    if (v == plan_.at(i).value) break;
    scalar += body_[v].op == Opcode::scalar;
  }
  return "scalar<" + type_of(i) + ">(args, " + std::to_string(scalars_[scalar]) + ")";
}

// Says whether an addition rounds once with the product that it adds.
bool RegionBody::takes_product(int i) const {
  const std::optional<size_t> place = taken_product(node(i));
  return place && node(plan_.at(i).operands[*place]).op == Opcode::mul;
}

std::string RegionBody::factors(int product) {
  const std::string first = tile(plan_.at(product).operands[0]);
  return first + ", " + tile(plan_.at(product).operands[1]);
}

void RegionBody::define_addition(int i, const std::string& name) {
  const size_t place = *taken_product(node(i));
  const std::vector<int>& operands = plan_.at(i).operands;
  const std::string product = factors(operands[place]), other = tile(operands[1 - place]);
  const char* function = node(i).op == Opcode::add ? "multiply_add"
                         : place == 0              ? "multiply_subtract"
                                                   : "subtract_product";
  w_.line("auto " + name + " = make<" + type_of(i) + ">(" + width_ + ");");
  w_.line(std::string(function) + "(" + name + ", " + product + ", " + other + ");");
}

void RegionBody::define_instruction(int i, const std::string& name) {
  if (takes_product(i)) return define_addition(i, name);
  const std::vector<int>& operands = plan_.at(i).operands;
  InstructionText text{name, width_, {}, {}, ""};
  for (int operand : operands) text.dtypes.push_back(node(operand).type.dtype);
  text.operands.push_back(tile(operands[0]));
  if (node(i).op == Opcode::div && is_float(node(i).type.dtype) && plan_.rows && sweep_ >= 0) {
    // One divisor for the whole tile has a faster exact division.
    const int divisor = operands[1];
    if (is_literal(divisor))
      text.divisor = literal(divisor);
    else if (const std::string* row_value = defined_for_row(divisor))
      text.divisor = "own(" + *row_value + ")";
  }
  for (size_t k = 1; k < operands.size() && text.divisor.empty(); ++k)
    text.operands.push_back(tile(operands[k]));
  print_instruction(node(i), text, &w_);
}

}  // namespace pto
