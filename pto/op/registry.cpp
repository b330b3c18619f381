// SPDX-License-Identifier: Apache-2.0
#include "pto/op/registry.hpp"

#include <array>
#include <atomic>
#include <mutex>
#include <utility>

#include "pto/base/error.hpp"

namespace pto {
namespace {

constexpr int kMaxOperators = 4096;
constexpr int kMaxArguments = 24;

// One operator with everything that its plain-C record points to.
struct Entry {
  Schema schema;
  std::string schema_text;
  std::vector<pto_argument> arguments;
  std::vector<int32_t> saved, wanted;
  OperatorKernels kernels;
  pto_operator record{};

  Entry(Schema parsed, int index) : schema(std::move(parsed)), schema_text(text(schema)) {
    int32_t tensors = 0;
    for (const Argument& argument : schema.arguments) {
      arguments.push_back({argument.name.c_str(), static_cast<int32_t>(argument.kind),
                           static_cast<int32_t>(argument.keyword_only)});
      tensors += is_tensor(argument);
    }
    kernels.owner = kernel_table().new_owner(schema.name);
    record.abi_version = PTO_OPERATOR_ABI_VERSION;
    record.index = index;
    record.name = schema.name.c_str();
    record.schema = schema_text.c_str();
    record.n_arguments = static_cast<int32_t>(arguments.size());
    record.n_tensors = tensors;
    record.n_outputs = static_cast<int32_t>(schema.returns.size());
    record.gradient = -1;
    record.arguments = arguments.data();
  }
};

// Readers take no lock: an entry is complete before the count that shows it.
struct Registry {
  std::mutex writers;
  std::atomic<int> count{0};
  std::array<std::unique_ptr<Entry>, kMaxOperators> entries;
};

Registry& registry() {
  static Registry* const it = new Registry;  // outlives every thread
  return *it;
}

Entry* find(std::string_view name) {
  const int count = registry().count.load(std::memory_order_acquire);
  for (int i = 0; i < count; ++i) {
    Entry* entry = registry().entries[static_cast<size_t>(i)].get();
    if (entry->schema.name == name) return entry;
  }
  return nullptr;
}

void check(const Schema& schema) {
  const std::string here = "operator " + schema.name;
  if (find(schema.name)) {
    fail({here + ": is defined already, as " + text(find(schema.name)->schema),
          "a name belongs to one operator for the life of the process",
          "choose another name, or restart the process to change the definition"});
  }
  int tensors = 0;
  for (const Argument& argument : schema.arguments) tensors += is_tensor(argument);
  const auto arguments = static_cast<int>(schema.arguments.size());
  if (tensors == 0 || tensors > Signature::kMaxTensors || arguments > kMaxArguments) {
    fail({here + ": takes " + std::to_string(tensors) + " tensors and " +
              std::to_string(arguments - tensors) + " attributes",
          "an operator takes 1 to " + std::to_string(Signature::kMaxTensors) +
              " tensors and at most " + std::to_string(kMaxArguments) + " arguments in all",
          "split the operator or merge its attributes"});
  }
}

void check_room(int index) {
  if (index + 1 < kMaxOperators) return;
  fail({"the registry is full: it holds " + std::to_string(index) + " operators",
        "operators are never removed", "define an operator once, not in a loop"});
}

int add(Schema schema) {
  Registry& all = registry();
  const int index = all.count.load(std::memory_order_relaxed);
  check_room(index);
  all.entries[static_cast<size_t>(index)] = std::make_unique<Entry>(std::move(schema), index);
  return index;
}

}  // namespace

int define_operator(const OperatorDefinition& definition) {
  Schema schema = parse_schema(definition.schema);
  Registry& all = registry();
  const std::lock_guard lock(all.writers);
  check(schema);
  if (definition.gradient_schema.empty()) {
    const int index = add(std::move(schema));
    all.count.store(index + 1, std::memory_order_release);
    return index;
  }
  Schema gradient = parse_schema(definition.gradient_schema);
  check(gradient);
  const int index = add(std::move(schema));
  Entry& entry = *all.entries[static_cast<size_t>(index)];
  entry.saved = definition.saved;
  entry.wanted = definition.wanted;
  entry.record.saved = entry.saved.data();
  entry.record.n_saved = static_cast<int32_t>(entry.saved.size());
  entry.record.wanted = entry.wanted.data();
  entry.record.n_wanted = static_cast<int32_t>(entry.wanted.size());
  entry.record.gradient = index + 1;
  // Both at once: nobody sees an operator without the gradient that it names.
  all.entries[static_cast<size_t>(index) + 1] =
      std::make_unique<Entry>(std::move(gradient), index + 1);
  all.count.store(index + 2, std::memory_order_release);
  return index;
}

const Schema& operator_schema(int index) {
  PTO_ASSERT(index >= 0 && index < registry().count.load(std::memory_order_acquire));
  return registry().entries[static_cast<size_t>(index)]->schema;
}

OperatorKernels& operator_kernels(const pto_operator& op) {
  return registry().entries[static_cast<size_t>(op.index)]->kernels;
}

}  // namespace pto

int32_t pto_operator_count(void) { return pto::registry().count.load(std::memory_order_acquire); }

const pto_operator* pto_operator_at(int32_t index) {
  if (index < 0 || index >= pto_operator_count()) return nullptr;
  return &pto::registry().entries[static_cast<size_t>(index)]->record;
}

const pto_operator* pto_operator_find(const char* name) {
  const pto::Entry* entry = pto::find(name);
  return entry ? &entry->record : nullptr;
}
