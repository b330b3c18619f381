// SPDX-License-Identifier: Apache-2.0
#include "pto/codegen/region_plan.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "pto/codegen/region_axes.hpp"
#include "pto/ir/infer.hpp"
#include "pto/ir/operations/operation.hpp"

namespace pto {
namespace {

bool is_reduce(const Node& node) { return info(node.op).family == Family::Reduce; }

class Planner {
 public:
  Planner(const Graph& body, const std::vector<RegionLayout>& layouts)
      : body_(body), layouts_(layouts) {}

  RegionPlan run() {
    find_axes();
    for (size_t o = 0; o < body_.outputs().size(); ++o) {
      const Value output = body_.outputs()[o];
      const Node& node = body_[output];
      const bool reduced = reduces(node);
      const AxisMap map = reduced ? reduction(body_, node).result : own_map(node.type.shape);
      const int root = instance(output, map);
      plan_.outputs.push_back({root, varies_inside(map),
                               load_accesses(node.type.shape, map, layout_of_output(o).strides)});
    }
    join_axes(&plan_, accesses());
    for (const Instance& i : plan_.instances)
      if (i.reduces) plan_.sweeps = std::max(plan_.sweeps, i.level);
    for (const RegionOutput& o : plan_.outputs)
      if (o.inner) plan_.sweeps = std::max(plan_.sweeps, plan_.at(o.instance).level + 1);
    plan_.rows = !plan_.axes.empty() && plan_.axes.back().inner;
    choose_buffers();
    plan_.limits = limits_of(body_);
    return std::move(plan_);
  }

 private:
  bool reduces(const Node& node) const {
    return is_reduce(node) && !reduction(body_, node).axes.empty();
  }

  // True where the node has the elements of its operand, a reduction over sizes of 1 included.
  bool is_passed_on(const Node& node) const {
    return operation(node.op).kernel == KernelForm::Moved || (is_reduce(node) && !reduces(node));
  }

  bool varies_inside(const AxisMap& map) const {
    return std::any_of(map.begin(), map.end(), [&](int axis) {
      return axis >= 0 && plan_.axes[static_cast<size_t>(axis)].inner;
    });
  }

  void find_axes() {
    Dims space = iteration_space(body_[body_.outputs().front()].type.shape);
    std::vector<int> reduced;
    for (const Node& node : body_.nodes()) {
      if (!reduces(node)) continue;
      const Reduction r = reduction(body_, node);
      space = r.space;
      reduced = r.axes;
      break;
    }
    for (const Dim& size : space) plan_.axes.push_back({size, false, {size}});
    for (int axis : reduced) plan_.axes[static_cast<size_t>(axis)].inner = true;
  }

  int instance(Value value, const AxisMap& map) {
    const auto known = known_.find({value, map});
    if (known != known_.end()) return known->second;
    const Node& node = body_[value];
    if (is_passed_on(node)) {
      const AxisMap from = is_reduce(node) ? map : operand_map(body_, node, 0, map);
      return known_[{value, map}] = instance(node.operands[0], from);
    }
    Instance made;
    made.value = value;
    made.map = map;
    made.inner = varies_inside(map);
    if (node.op == Opcode::gather) {
      gather(node, map, &made);
      plan_.instances.push_back(std::move(made));
      return known_[{value, map}] = static_cast<int>(plan_.instances.size()) - 1;
    }
    if (reduces(node) && is_count(body_, node)) {
      made.count = reduced_size(body_, node);
    } else if (reduces(node)) {
      const Reduction r = reduction(body_, node);
      PTO_ASSERT(map == r.result);
      made.operands.push_back(instance(node.operands[0], r.operand));
      made.reduces = true;
    } else {
      for (size_t i = 0; i < node.operands.size(); ++i)
        made.operands.push_back(instance(node.operands[i], operand_map(body_, node, i, map)));
    }
    made.expensive = operation(node.op).facts.is_expensive && made.inner;
    for (int operand : made.operands) {
      const Instance& from = plan_.instances[static_cast<size_t>(operand)];
      made.level = std::max(made.level, from.level + (made.reduces ? 1 : 0));
      made.expensive |= from.expensive && !made.reduces && made.inner;
    }
    if (node.op == Opcode::input) {
      made.input = input_index(value);
      made.accesses = load_accesses(node.type.shape, map, layout_of_input(made.input).strides);
    }
    if (node.op == Opcode::iota) made.accesses = accesses_of_positions(node, map);
    plan_.instances.push_back(std::move(made));
    return known_[{value, map}] = static_cast<int>(plan_.instances.size()) - 1;
  }

  // Makes a load of what a gather reads, through what only addresses it in another way.
  void gather(const Node& node, const AxisMap& map, Instance* made) {
    const int index = instance(node.operands[1], operand_map(body_, node, 1, map));
    made->operands.push_back(index);
    AxisMap from_map = operand_map(body_, node, 0, map);
    Value from = node.operands[0];
    for (; is_passed_on(body_[from]); from = body_[from].operands[0])
      if (!is_reduce(body_[from])) from_map = operand_map(body_, body_[from], 0, from_map);
    const Dims& shape = body_[from].type.shape;
    made->input = input_index(from);
    made->accesses = load_accesses(shape, from_map, layout_of_input(made->input).strides);
    made->chosen_dim = static_cast<int>(std::find(from_map.begin(), from_map.end(), kChosenAxis) -
                                        from_map.begin());
    choose(index, &made->accesses);
    PTO_ASSERT(body_[from].op == Opcode::input && plan_.at(index).level == 0);
    PTO_ASSERT(made->chosen_dim < static_cast<int>(shape.size()));
    PTO_ASSERT(made->accesses.back().step != AxisStep::Chosen);
  }

  // Notes the axes along which an index varies.
  void choose(int index, std::vector<AxisAccess>* accesses) const {
    for (const int i : plan_.needed({index}, [](int) { return false; }))
      for (size_t axis = 0; axis < plan_.at(i).accesses.size(); ++axis)
        if (plan_.at(i).accesses[axis].step != AxisStep::None)
          (*accesses)[axis] = {AxisStep::Chosen, {}};
  }

  int input_index(Value value) const {
    const auto& inputs = body_.inputs();
    return static_cast<int>(std::find(inputs.begin(), inputs.end(), value) - inputs.begin());
  }

  // Returns the place among the tensors of an input among tensors and scalars.
  size_t tensor_index(int input) const {
    size_t tensors = 0;
    for (int i = 0; i < input; ++i)
      tensors += body_[body_.inputs()[static_cast<size_t>(i)]].op == Opcode::input;
    return tensors;
  }

  std::vector<AxisAccess> load_accesses(const Dims& shape, const AxisMap& map,
                                        StrideClass c) const {
    std::vector<AxisAccess> accesses(plan_.axes.size());
    int last = -1;  // the innermost axis of memory, where its stride is known to be 1
    for (size_t d = 0; d < shape.size(); ++d)
      if (!is_one(shape[d])) last = static_cast<int>(d);
    const bool dense_last = c == StrideClass::Contiguous ||
                            (c == StrideClass::Rows && last + 1 == static_cast<int>(shape.size()));
    for (size_t d = 0; d < shape.size(); ++d) {
      if (map[d] < 0) continue;
      const bool unit = dense_last && static_cast<int>(d) == last;
      accesses[static_cast<size_t>(map[d])] = {unit ? AxisStep::Unit : AxisStep::Strided,
                                               {static_cast<int>(d)}};
    }
    return accesses;
  }

  // Positions lie as in a tensor that has them along one axis, and repeats them along the others.
  std::vector<AxisAccess> accesses_of_positions(const Node& iota, const AxisMap& map) const {
    std::vector<AxisAccess> accesses(plan_.axes.size());
    const auto along = static_cast<int>(iota.attributes.axes[0]);
    if (const int axis = map[static_cast<size_t>(along)]; axis >= 0)
      accesses[static_cast<size_t>(axis)] = {AxisStep::Unit, {along}};
    return accesses;
  }

  RegionLayout layout_of_output(size_t output) const {
    const size_t place = tensor_index(static_cast<int>(body_.inputs().size())) + output;
    return place < layouts_.size() ? layouts_[place] : StrideClass::Contiguous;
  }
  RegionLayout layout_of_input(int input) const {
    return input < 0 ? StrideClass::Contiguous : layouts_[tensor_index(input)];
  }
  const Dims& shape_of_input(int input) const {
    return body_[body_.inputs()[static_cast<size_t>(input)]].type.shape;
  }

  // All that is read, and the outputs.
  std::vector<TensorAccess> accesses() {
    std::vector<TensorAccess> all;
    for (Instance& i : plan_.instances) {
      if (i.accesses.empty()) continue;
      const bool is_load = i.input >= 0;
      all.push_back({&i.accesses, layout_of_input(i.input),
                     is_load ? &shape_of_input(i.input) : &body_[i.value].type.shape, !is_load});
    }
    for (size_t o = 0; o < plan_.outputs.size(); ++o)
      all.push_back({&plan_.outputs[o].accesses, layout_of_output(o),
                     &body_[body_.outputs()[o]].type.shape, false});
    return all;
  }

  // An expensive value of one sweep that a later one needs again stays in a buffer.
  void choose_buffers() {
    std::map<int, int> computed;  // instance -> its first sweep
    for (int sweep = 0; plan_.rows && sweep < plan_.sweeps; ++sweep) {
      const auto again = [&](int i) {
        return plan_.at(i).inner && plan_.at(i).expensive && computed.count(i);
      };
      for (int i : plan_.needed(plan_.roots(sweep), again)) {
        const bool fresh = computed.emplace(i, sweep).second;
        const auto same = [&](const RowBuffer& b) { return b.instance == i; };
        if (!fresh && again(i) && std::none_of(plan_.buffers.begin(), plan_.buffers.end(), same))
          plan_.buffers.push_back({i, computed.at(i)});
      }
    }
    share_rows();
  }

  // Gives each buffer a row whose last reader has come, of its element type.
  void share_rows() {
    constexpr size_t kOften = 2;
    std::map<int, int> last;  // instance -> the last sweep that reads its buffer
    size_t with_buffers = 0, without = 0;
    for (int sweep = 0; sweep < plan_.sweeps; ++sweep) {
      const auto is_kept = [&](int i) {
        return std::any_of(plan_.buffers.begin(), plan_.buffers.end(),
                           [&](const RowBuffer& b) { return b.instance == i && b.from < sweep; });
      };
      const std::vector<int> computed = plan_.needed(plan_.roots(sweep), is_kept);
      for (int i : computed)
        if (is_kept(i)) last[i] = sweep;
      with_buffers += computed.size();
      without += plan_.needed(plan_.roots(sweep), [](int) { return false; }).size();
    }
    plan_.needs_buffers = without > kOften * with_buffers;
    std::stable_sort(plan_.buffers.begin(), plan_.buffers.end(),
                     [](const RowBuffer& a, const RowBuffer& b) { return a.from < b.from; });
    std::vector<int> busy;  // until this sweep
    for (RowBuffer& b : plan_.buffers) {
      const DType dtype = body_[plan_.at(b.instance).value].type.dtype;
      while (b.row < busy.size() && (plan_.rows_of_scratch[b.row] != dtype || busy[b.row] > b.from))
        ++b.row;
      if (b.row == busy.size()) {
        busy.push_back(0);
        plan_.rows_of_scratch.push_back(dtype);
      }
      busy[b.row] = last.at(b.instance);
    }
  }

  const Graph& body_;
  const std::vector<RegionLayout>& layouts_;
  std::map<std::pair<Value, AxisMap>, int> known_;
  RegionPlan plan_;
};

// Says whether an input's elements lie in the order of the output's, one for each.
bool lie_alike(const std::vector<AxisAccess>& read, const std::vector<AxisAccess>& written) {
  int last = -1;
  for (size_t axis = 0; axis < written.size(); ++axis) {
    if (read[axis].dims.size() != written[axis].dims.size()) return false;
    for (const int dim : read[axis].dims)
      if (std::exchange(last, dim) > dim) return false;
  }
  return true;
}

}  // namespace

bool RegionPlan::reduces() const {
  return std::any_of(axes.begin(), axes.end(), [](const RegionAxis& axis) { return axis.inner; });
}

std::vector<int> RegionPlan::item_axes() const {
  std::vector<int> found;
  for (size_t i = 0; i < axes.size(); ++i)
    if (!axes[i].inner) found.push_back(static_cast<int>(i));
  if (!rows && !found.empty()) found.pop_back();
  return found;
}

std::vector<int> RegionPlan::loop_axes() const {
  std::vector<int> found;
  for (size_t i = 0; i < axes.size(); ++i)
    if (axes[i].inner) found.push_back(static_cast<int>(i));
  if (rows) found.pop_back();
  return found;
}

Dim RegionPlan::vector_size() const { return axes.empty() ? Dim(1) : axes.back().size; }

// A reduction over other axes keeps its accumulators in registers, one micro-tile at a time.
int64_t RegionPlan::piece() const { return reduces() && !turned ? 128 : limits.piece(4096); }

Dim RegionPlan::items() const {
  Dim items = rows || axes.empty() ? Dim(1) : floordiv(vector_size() + (piece() - 1), Dim(piece()));
  for (int axis : item_axes()) items = axes[static_cast<size_t>(axis)].size * items;
  return items;
}

Dim RegionPlan::row_size() const {
  Dim row = 1;
  for (const RegionAxis& axis : axes)
    if (axis.inner) row = row * axis.size;
  return row;
}

bool RegionPlan::stored_in_sweep(const RegionOutput& output) const {
  return output.inner || !reduces();
}

std::vector<int> RegionPlan::reductions(int sweep) const {
  std::vector<int> found;
  for (size_t i = 0; i < instances.size(); ++i)
    if (instances[i].reduces && instances[i].level == sweep + 1)
      found.push_back(static_cast<int>(i));
  return found;
}

std::vector<int> RegionPlan::roots(int sweep) const {
  std::vector<int> found;
  for (int i : reductions(sweep)) found.push_back(at(i).operands[0]);
  for (const RegionOutput& output : outputs)
    if (stored_in_sweep(output) && at(output.instance).level == sweep)
      found.push_back(output.instance);
  return found;
}

std::vector<int> RegionPlan::needed(const std::vector<int>& roots,
                                    const std::function<bool(int)>& stop) const {
  std::vector<int> order;
  std::vector<bool> seen(instances.size(), false);
  const std::function<void(int)> visit = [&](int i) {
    if (seen[static_cast<size_t>(i)]) return;
    seen[static_cast<size_t>(i)] = true;
    if (!at(i).reduces && !stop(i))
      for (int operand : at(i).operands) visit(operand);
    order.push_back(i);
  };
  for (int root : roots) visit(root);
  return order;
}

bool can_store(const RegionPlan& plan, size_t output, const std::vector<std::string>& strides) {
  const RegionOutput& out = plan.outputs[output];
  for (const AxisAccess& access : out.accesses)
    if (access.step == AxisStep::Folded) return false;
  if (out.accesses.empty() || (plan.rows && !out.inner)) return true;
  const AxisAccess& last = out.accesses.back();
  const auto is_digit = [](const std::string& s) { return s.size() == 1 && s[0] > '0'; };
  return plan.turned || last.step == AxisStep::Unit ||
         (last.step == AxisStep::Strided &&
          is_digit(strides[static_cast<size_t>(last.dims.back())]));
}

bool may_write_over(const Graph& body, size_t input, size_t output) {
  if (iteration_space(body[body.inputs()[input]].type.shape) !=
      iteration_space(body[body.outputs()[output]].type.shape))
    return false;
  const std::vector<RegionLayout> dense(body.inputs().size(), StrideClass::Contiguous);
  const RegionPlan plan = plan_region(body, dense);
  const RegionOutput& written = plan.outputs[output];
  if (written.inner && plan.at(written.instance).level + 1 < plan.sweeps) return false;
  return std::all_of(plan.instances.begin(), plan.instances.end(), [&](const Instance& i) {
    return i.input != static_cast<int>(input) || lie_alike(i.accesses, written.accesses);
  });
}

Dim chosen_size(const Graph& body, const Instance& load) {
  const Value tensor = body.inputs()[static_cast<size_t>(load.input)];
  return body[tensor].type.shape[static_cast<size_t>(*load.chosen_dim)];
}

RegionPlan plan_region(const Graph& body, const std::vector<RegionLayout>& layouts) {
  return Planner(body, layouts).run();
}

}  // namespace pto
