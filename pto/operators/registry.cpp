// SPDX-License-Identifier: Apache-2.0
#include "pto/operators/registry.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <utility>

#include "pto/base/error.hpp"
#include "pto/operators/operator.hpp"

namespace pto {
namespace {

constexpr int kMaxOperators = 16384;
constexpr const char* kReplaced = "_replaced::";  // the name of operators whose own was freed

// Readers take no lock: the count is raised only after an entry is complete.
struct Registry {
  std::mutex writers;
  std::atomic<int> count{0};
  std::array<std::unique_ptr<Operator>, kMaxOperators> entries;
  std::atomic<std::shared_ptr<const Providers>> providers{std::make_shared<const Providers>()};
};

Registry& registry() {
  static Registry* const it = new Registry;  // outlives every thread
  return *it;
}

Operator& entry(int index) {
  PTO_ASSERT(index >= 0 && index < registry().count.load(std::memory_order_acquire));
  return *registry().entries[static_cast<size_t>(index)];
}

Operator* find(std::string_view name) {
  const int count = registry().count.load(std::memory_order_acquire);
  for (int i = 0; i < count; ++i) {
    Operator* one = registry().entries[static_cast<size_t>(i)].get();
    const bool is_replaced = std::atomic_ref(one->plain.name).load() == kReplaced;
    if (one->schema.name == name && !is_replaced) return one;
  }
  return nullptr;
}

void check_name(const Schema& schema) {
  const Operator* known = find(schema.name);
  if (!known) return;
  fail({"operator " + schema.name + ": is defined already, as " + text(known->schema) +
            ", and again as " + text(schema),
        "a name belongs to one operator for the life of the process",
        "choose another name, or restart the process to change the definition"});
}

// `role`: what the operator is to the one that names it.
Operator& operator_named(const std::string& name, const Schema& schema, const std::string& role) {
  Operator* found = find(name);
  if (found) return *found;
  fail({"operator " + schema.name + ": its " + role + " operator " + name + " is not defined",
        "a " + role + " is an operator that is defined before the one whose " + role + " it is",
        "define " + name + " first, or correct the name"});
}

void check_room(int index, size_t wanted) {
  if (static_cast<size_t>(index) + wanted <= kMaxOperators) return;
  fail({"the registry is full: it holds " + std::to_string(index) + " operators",
        "operators are never removed", "define an operator once, not in a loop"});
}

std::unique_ptr<Operator> made_from(const OperatorDefinition& definition) {
  auto made = std::make_unique<Operator>(definition.schema, definition.types);
  made->set_document(definition.document);
  made->native = definition.native;
  made->kernels_owner = kernel_table().new_owner(made->schema.name);
  made->is_native = static_cast<bool>(definition.native.kernel);
  made->takes_strides = definition.takes_strides;
  made->plain.autocast = definition.autocast;
  made->set_bounded(definition.bounded);
  return made;
}

const Providers& providers_of(int index, std::shared_ptr<const Providers>& held) {
  Operator& one = entry(index);
  if (one.is_native) return one.native;
  held = registry().providers.load();
  if (held->kernel) return *held;
  fail({one.schema.name + ": there is no kernel for these arguments yet",
        "kernels are compiled by the Python package, which is not loaded in this process",
        "import pto"},
       ErrorKind::Runtime);
}

// Only the first size of an output may be bounded.
void check_bounded_axes(int index, const InferredShapes& shapes) {
  const pto_operator& op = entry(index).plain;
  for (size_t i = 0; i < std::min(shapes.tensors.size(), static_cast<size_t>(op.n_outputs)); ++i) {
    if (op.outputs[i].is_bounded == 0 || !shapes.tensors[i].sizes.empty()) continue;
    fail({std::string(op.name) + ": infer gives output " + op.outputs[i].name + " no axis",
          "it is bounded, and the bound is that of its first axis",
          "give it a first axis, or take it out of what is bounded"});
  }
}

}  // namespace

int define_operator(const OperatorDefinition& definition) {
  std::vector<const OperatorDefinition*> given;  // each one the gradient of the one before
  std::vector<std::unique_ptr<Operator>> made;
  for (const auto* one = &definition; one != nullptr; one = one->gradient.get()) {
    given.push_back(one);
    made.push_back(made_from(*one));
  }
  Registry& all = registry();
  const std::lock_guard lock(all.writers);
  const int index = all.count.load(std::memory_order_relaxed);
  check_room(index, made.size());
  for (size_t i = 0; i < made.size(); ++i) {
    check_name(made[i]->schema);
    made[i]->plain.index = index + static_cast<int>(i);
  }
  for (size_t i = 0; i < made.size(); ++i) {
    Operator* gradient = i + 1 < made.size() ? made[i + 1].get() : nullptr;
    if (!given[i]->gradient_name.empty())
      gradient = &operator_named(given[i]->gradient_name, made[i]->schema, "gradient");
    if (gradient) made[i]->set_gradient(*gradient, given[i]->saved, given[i]->wanted);
    if (const auto& p = given[i]->packing; p.size() == 3)
      made[i]->set_packing(operator_named(p[2], made[i]->schema, "packer"), p[0], p[1]);
  }
  for (auto& one : made) {
    const auto at = static_cast<size_t>(one->plain.index);
    all.entries[at] = std::move(one);
  }
  // Publishes all at once: nobody sees an operator without the gradient that it names.
  all.count.store(index + static_cast<int>(made.size()), std::memory_order_release);
  return index;
}

void renew_operator(int index) {
  Operator& one = entry(index);
  one.kernels_owner = kernel_table().new_owner(one.schema.name);
}

void free_operator_name(int index) { std::atomic_ref(entry(index).plain.name).store(kReplaced); }

void set_providers(Providers providers) {
  registry().providers.store(std::make_shared<const Providers>(std::move(providers)));
}

Operator& operator_at(int index) { return entry(index); }

std::shared_ptr<const Program> make_kernel(const KernelRequest& request) {
  std::shared_ptr<const Providers> held;
  return providers_of(request.op, held).kernel(request);
}

InferredShapes infer_shapes(const ShapeRequest& request) {
  std::shared_ptr<const Providers> held;
  InferredShapes shapes = providers_of(request.op, held).shapes(request);
  if (operator_at(request.op).has_bounded) check_bounded_axes(request.op, shapes);
  return shapes;
}

}  // namespace pto

int32_t pto_operator_count(void) { return pto::registry().count.load(std::memory_order_acquire); }

const pto_operator* pto_operator_at(int32_t index) {
  if (index < 0 || index >= pto_operator_count()) return nullptr;
  return &pto::registry().entries[static_cast<size_t>(index)]->plain;
}

const pto_operator* pto_operator_find(const char* name) {
  const pto::Operator* one = pto::find(name);
  return one ? &one->plain : nullptr;
}
