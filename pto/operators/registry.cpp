// SPDX-License-Identifier: Apache-2.0
#include "pto/operators/registry.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <utility>

#include "pto/base/error.hpp"
#include "pto/operators/record.hpp"

namespace pto {
namespace {

constexpr int kMaxOperators = 16384;

// Readers take no lock: the count is raised only after an entry is complete.
struct Registry {
  std::mutex writers;
  std::atomic<int> count{0};
  std::array<std::unique_ptr<OperatorRecord>, kMaxOperators> entries;
  std::atomic<std::shared_ptr<const Providers>> providers{std::make_shared<const Providers>()};
};

Registry& registry() {
  static Registry* const it = new Registry;  // outlives every thread
  return *it;
}

OperatorRecord& entry(int index) {
  PTO_ASSERT(index >= 0 && index < registry().count.load(std::memory_order_acquire));
  return *registry().entries[static_cast<size_t>(index)];
}

OperatorRecord* find(std::string_view name) {
  const int count = registry().count.load(std::memory_order_acquire);
  for (int i = 0; i < count; ++i) {
    OperatorRecord* one = registry().entries[static_cast<size_t>(i)].get();
    if (one->schema.name == name) return one;
  }
  return nullptr;
}

void check_name(const Schema& schema) {
  const OperatorRecord* known = find(schema.name);
  if (!known) return;
  fail({"operator " + schema.name + ": is defined already, as " + text(known->schema) +
            ", and again as " + text(schema),
        "a name belongs to one operator for the life of the process",
        "choose another name, or restart the process to change the definition"});
}

OperatorRecord& gradient_named(const std::string& name, const Schema& schema) {
  OperatorRecord* found = find(name);
  if (found) return *found;
  fail({"operator " + schema.name + ": its gradient operator " + name + " is not defined",
        "a gradient is an operator that is defined before the one whose gradient it is",
        "define " + name + " first, or correct the name"});
}

OperatorRecord& add(std::unique_ptr<OperatorRecord> record) {
  Registry& all = registry();
  const auto index = static_cast<size_t>(record->record.index);
  if (index + 2 >= kMaxOperators) {
    fail({"the registry is full: it holds " + std::to_string(index) + " operators",
          "operators are never removed", "define an operator once, not in a loop"});
  }
  all.entries[index] = std::move(record);
  return *all.entries[index];
}

const Providers& providers_of(int index, std::shared_ptr<const Providers>& held) {
  OperatorRecord& one = entry(index);
  if (one.state.is_native) return one.native;
  held = registry().providers.load();
  if (held->kernel) return *held;
  fail({one.schema.name + ": there is no kernel for these arguments yet",
        "kernels are compiled by the Python package, which is not loaded in this process",
        "import pto"},
       ErrorKind::Runtime);
}

// Only the first size of an output may be bounded.
void check_bounded_axes(int index, const InferredShapes& shapes) {
  const pto_operator& op = entry(index).record;
  for (size_t i = 0; i < std::min(shapes.tensors.size(), static_cast<size_t>(op.n_outputs)); ++i) {
    if (op.outputs[i].is_bounded == 0 || !shapes.tensors[i].sizes.empty()) continue;
    fail({std::string(op.name) + ": infer gives output " + op.outputs[i].name + " no axis",
          "it is bounded, and the bound is that of its first axis",
          "give it a first axis, or take it out of what is bounded"});
  }
}

}  // namespace

int define_operator(const OperatorDefinition& definition) {
  Registry& all = registry();
  auto made = std::make_unique<OperatorRecord>(definition.schema, definition.types);
  made->set_document(definition.document);
  made->native = definition.native;
  made->state.is_native = static_cast<bool>(definition.native.kernel);
  made->state.takes_strides = definition.takes_strides;
  made->record.autocast = definition.autocast;
  made->set_bounded(definition.bounded);
  std::unique_ptr<OperatorRecord> with, second;
  if (!definition.gradient_schema.empty()) {
    with = std::make_unique<OperatorRecord>(definition.gradient_schema, definition.gradient_types);
  }
  if (!definition.second_schema.empty()) {
    second = std::make_unique<OperatorRecord>(definition.second_schema, definition.second_types);
  }
  const std::lock_guard lock(all.writers);
  const int index = all.count.load(std::memory_order_relaxed);
  check_name(made->schema);
  if (with) check_name(with->schema);
  if (second) check_name(second->schema);
  made->record.index = index;
  OperatorRecord* gradient = with.get();
  if (with) with->record.index = index + 1;
  if (second) second->record.index = index + 2;
  if (!definition.gradient_name.empty()) {
    gradient = &gradient_named(definition.gradient_name, made->schema);
  }
  if (gradient) made->set_gradient(*gradient, definition.saved, definition.wanted);
  if (second) with->set_gradient(*second, definition.second_saved, definition.second_wanted);
  const int added = 1 + (with != nullptr) + (second != nullptr);
  add(std::move(made));
  if (with) add(std::move(with));
  if (second) add(std::move(second));
  // Publishes all at once: nobody sees an operator without the gradient that it names.
  all.count.store(index + added, std::memory_order_release);
  return index;
}

void set_providers(Providers providers) {
  registry().providers.store(std::make_shared<const Providers>(std::move(providers)));
}

const Schema& operator_schema(int index) { return entry(index).schema; }
const TypeRule& operator_types(int index) { return entry(index).types; }
OperatorState& operator_state(int index) { return entry(index).state; }

std::shared_ptr<const Program> make_kernel(const KernelRequest& request) {
  std::shared_ptr<const Providers> held;
  return providers_of(request.op, held).kernel(request);
}

InferredShapes infer_shapes(const ShapeRequest& request) {
  std::shared_ptr<const Providers> held;
  InferredShapes shapes = providers_of(request.op, held).shapes(request);
  if (operator_state(request.op).has_bounded) check_bounded_axes(request.op, shapes);
  return shapes;
}

}  // namespace pto

int32_t pto_operator_count(void) { return pto::registry().count.load(std::memory_order_acquire); }

const pto_operator* pto_operator_at(int32_t index) {
  if (index < 0 || index >= pto_operator_count()) return nullptr;
  return &pto::registry().entries[static_cast<size_t>(index)]->record;
}

const pto_operator* pto_operator_find(const char* name) {
  const pto::OperatorRecord* one = pto::find(name);
  return one ? &one->record : nullptr;
}
