// SPDX-License-Identifier: Apache-2.0
#include "pto/adapters/torch/aten/plans.hpp"

#include <array>
#include <bit>
#include <cstring>

#include "pto/adapters/torch/aten/places.hpp"
#include "pto/adapters/torch/aten/values.hpp"

namespace pto::torch_adapter {
namespace {

// The key of a call as words. Calls with more words, generators, and lists of the library's tensors
// have none.
class Key {
 public:
  explicit Key(const Call& call) {
    add(std::bit_cast<int64_t>(call.op));
    add(call.n);
    for (int32_t i = 0; i < call.n && is_whole_; ++i) add(call.given[i], false);
  }
  bool is_whole() const { return is_whole_; }
  const int64_t* words() const { return words_; }
  size_t count() const { return count_; }
  uint64_t hash() const {
    uint64_t made = 0;
    for (size_t i = 0; i < count_; ++i)
      made = std::rotl((made ^ static_cast<uint64_t>(words_[i])) * 0x9E3779B97F4A7C15u, 29);
    return made ^ (made >> 32);
  }

 private:
  static constexpr size_t kMost = 192;

  void add(int64_t word) {
    if (count_ < kMost)
      words_[count_++] = word;
    else
      is_whole_ = false;
  }
  void add(const int64_t* words, int64_t n) {
    for (int64_t i = 0; i < n; ++i) add(words[i]);
  }
  void add(const pto_aten_value& value, bool is_item);
  void add(const pto_aten_memory& memory) {
    add(PTO_ATEN_MEMORY | (memory.strides ? 1 << 8 : 0) | (memory.is_read_only ? 1 << 9 : 0) |
        memory.type_code << 16 | memory.type_bits << 24 | static_cast<int64_t>(memory.rank) << 32);
    add(memory.sizes, memory.rank);
    if (memory.strides) add(memory.strides, memory.rank);
  }
  void add(const at::Tensor& tensor) {
    is_whole_ &= tensor.defined() && tensor.layout() == at::kStrided &&
                 !tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides();
    if (!is_whole_) return;
    const bool is_growing = tensor.numel() == 0 && tensor.storage().resizable();
    add(PTO_ATEN_TENSOR | (is_growing ? 1 << 8 : 0) |
        static_cast<int64_t>(tensor.scalar_type()) << 16 | tensor.dim() << 32);
    add(std::bit_cast<int64_t>(tensor.key_set().raw_repr()));
    add(tensor.sizes().data(), tensor.dim());
    add(tensor.strides().data(), tensor.dim());
  }
  void add_text(const pto_aten_value& value) {
    add(value.count);
    for (int64_t at = 0; at < value.count; at += 8) {
      int64_t word = 0;
      std::memcpy(&word, value.text + at,
                  static_cast<size_t>(std::min<int64_t>(8, value.count - at)));
      add(word);
    }
  }

  int64_t words_[kMost];
  size_t count_ = 0;
  bool is_whole_ = true;
};

void Key::add(const pto_aten_value& value, bool is_item) {
  switch (value.kind) {
    case PTO_ATEN_MEMORY:
      return add(value.memory);
    case PTO_ATEN_TENSOR:
      is_whole_ &= !is_item;
      return is_item ? void() : add(tensor_of(value.object));
    case PTO_ATEN_LEFT_OUT:
    case PTO_ATEN_NONE:
      return add(value.kind);
    case PTO_ATEN_INT:
    case PTO_ATEN_BOOL:
      return add(value.kind), add(value.integer);
    case PTO_ATEN_DOUBLE:
      return add(value.kind), add(std::bit_cast<int64_t>(value.real));
    case PTO_ATEN_COMPLEX:
      add(value.kind), add(std::bit_cast<int64_t>(value.parts[0]));
      return add(std::bit_cast<int64_t>(value.parts[1]));
    case PTO_ATEN_STRING:
      return add(value.kind), add_text(value);
    case PTO_ATEN_TYPE:
      return add(value.kind | value.type.code << 16 | value.type.bits << 24);
    case PTO_ATEN_LIST:
      add(value.kind), add(value.count);
      for (int64_t i = 0; i < value.count && is_whole_; ++i) add(value.items[i], true);
      return;
    default:
      is_whole_ = false;
  }
}

// A tensor of a plan. `given` is the place of its memory among the values of a call.
struct Wrapper {
  c10::TensorImpl* impl;
  int32_t argument, item;  // item -1: the argument itself
  bool is_memory;          // else made of a number
  bool is_written;
  int64_t bytes;  // from the first to the last element
};

// A tensor that the caller passes as one of the library's.
struct Passed {
  int32_t argument;
  bool is_optional, is_written;
};

struct Plan {
  std::vector<int64_t> key;
  const pto_aten_operator* op = nullptr;
  std::vector<Held> held;
  std::vector<void*> arguments;
  std::vector<Wrapper> wrappers;
  std::vector<Passed> passed;
  bool is_busy = false;

  bool is_of(const Key& other) const {
    return key.size() == other.count() &&
           !std::memcmp(key.data(), other.words(), sizeof(int64_t) * key.size());
  }
};

// The plans of a thread, in sets of which each key has one.
class Plans {
 public:
  Plan* find(const Key& key) {
    for (auto& one : set_of(key))
      if (one && one->is_of(key)) return one.get();
    return nullptr;
  }
  void insert(const Key& key, std::unique_ptr<Plan> plan) {
    auto& set = set_of(key);
    for (size_t tried = 0; tried < kWays; ++tried) {
      auto& place = set[next_++ % kWays];
      if (place && place->is_busy) continue;
      place = std::move(plan);
      return;
    }
  }
  void drop(const Plan* plan) {
    for (auto& set : sets_)
      for (auto& one : set)
        if (one.get() == plan) one.reset();
  }
  int32_t count() const {
    int32_t n = 0;
    for (const auto& set : sets_)
      for (const auto& one : set) n += one != nullptr;
    return n;
  }

 private:
  static constexpr size_t kWays = 4;
  using Set = std::array<std::unique_ptr<Plan>, kWays>;
  Set& set_of(const Key& key) { return sets_[key.hash() % sets_.size()]; }
  std::array<Set, kPlans / kWays> sets_;
  size_t next_ = 0;
};

Plans& plans() {
  static thread_local Plans of_thread;
  return of_thread;
}

const pto_aten_memory& memory_of(const Call& call, const Wrapper& wrapper) {
  const pto_aten_value& given = call.given[wrapper.argument];
  return (wrapper.item < 0 ? given : given.items[wrapper.item]).memory;
}

// Gives the tensors of a plan the memory of a call; false: its outputs need tensors of their own.
bool rebind(const Call& call, const Plan& plan) {
  for (const Wrapper& one : plan.wrappers) {
    if (!one.is_memory) continue;
    void* const data = memory_of(call, one).data;
    if (!data && one.bytes > 0) refuse_null(plan.op->handle.schema().arguments()[one.argument]);
    one.impl->unsafe_storage().unsafeGetStorageImpl()->set_data_ptr_noswap(
        at::DataPtr(data, at::kCPU));
  }
  if (!plan.op->writes) return true;
  Places places;
  for (const Wrapper& one : plan.wrappers)
    if (one.is_memory)
      places.push_back({one.argument, one.impl, static_cast<const char*>(memory_of(call, one).data),
                        one.bytes, one.is_written});
  for (const Passed& one : plan.passed)
    add_place(places, one.argument, tensor_of(call.given[one.argument].object), one.is_written);
  return !needs_own_outputs(*plan.op, places);
}

void pass(const Passed& one, const Plan& plan, const at::Tensor& tensor) {
  void* const held = plan.arguments[one.argument];
  if (one.is_optional)
    *static_cast<std::optional<at::Tensor>*>(held) = tensor;
  else
    *static_cast<at::Tensor*>(held) = tensor;
}

// A plan in use: its tensors are given back at the end, whatever happens.
class Use {
 public:
  Use(const Call& call, Plan& plan) : call_(call), plan_(plan) {
    plan.is_busy = true;
    for (const Passed& one : plan.passed)
      pass(one, plan, tensor_of(call.given[one.argument].object));
  }
  ~Use() {
    plan_.is_busy = false;
    for (const Passed& one : plan_.passed) pass(one, plan_, at::Tensor());
    if (!is_own()) plans().drop(&plan_);
  }

 private:
  // Whether nobody else has a tensor of the plan, and each has its sizes still.
  bool is_own() const {
    for (const Wrapper& one : plan_.wrappers) {
      const c10::Storage& storage = one.impl->unsafe_storage();
      if (c10::raw::intrusive_ptr::use_count(one.impl) != 1 || storage.use_count() != 1)
        return false;
      if (one.is_memory && one.is_written && !has_sizes(one)) return false;
    }
    return true;
  }
  bool has_sizes(const Wrapper& one) const {
    const pto_aten_memory& memory = memory_of(call_, one);
    return one.impl->sizes() == at::IntArrayRef(memory.sizes, static_cast<size_t>(memory.rank));
  }
  const Call& call_;
  Plan& plan_;
};

// A result that is an argument over memory is that argument; all others are the library's.
void write(const Call& call, const Plan& plan, Stack& made, pto_aten_value* results, int32_t room) {
  Stack others;
  std::vector<std::pair<size_t, const pto_aten_value*>> given;
  for (size_t i = 0; i < made.size(); ++i) {
    const pto_aten_value* same = nullptr;
    if (made[i].isTensor())
      for (const Wrapper& one : plan.wrappers)
        if (one.is_memory && one.item < 0 && made[i].unsafeToTensorImpl() == one.impl)
          same = &call.given[one.argument];
    if (same) made[i] = c10::IValue(), given.emplace_back(i, same);
  }
  write_results(plan.op->handle.schema(), made, results, room);
  for (const auto& [i, same] : given) results[i] = *same;
}

// Adds what an argument has of tensors; false: a call with it has no plan.
bool add_tensors(const Call& call, int32_t i, const c10::IValue& value, Plan& plan) {
  const c10::Argument& argument = plan.op->handle.schema().arguments()[static_cast<size_t>(i)];
  const pto_aten_value nothing = {};
  const pto_aten_value& given = i < call.n ? call.given[i] : nothing;
  const auto add = [&](const at::Tensor& tensor, int32_t item, const pto_aten_value& one) {
    const bool is_memory = one.kind == PTO_ATEN_MEMORY;
    plan.wrappers.push_back({tensor.unsafeGetTensorImpl(), i, item, is_memory, is_written(argument),
                             extent_of(*tensor.unsafeGetTensorImpl())});
    return is_memory || !is_written(argument);
  };
  if (given.kind == PTO_ATEN_TENSOR) {
    const bool is_optional = argument.type()->kind() == c10::TypeKind::OptionalType;
    plan.passed.push_back({i, is_optional, is_written(argument)});
    return true;
  }
  if (value.isTensor()) return !value.toTensor().defined() || add(value.toTensor(), -1, given);
  if (!value.isList() || given.kind != PTO_ATEN_LIST) return true;
  bool is_good = true;
  const auto items = value.toListRef();
  for (size_t item = 0; item < items.size(); ++item)
    if (items[item].isTensor() && items[item].toTensor().defined())
      is_good &= add(items[item].toTensor(), static_cast<int32_t>(item), given.items[item]);
  return is_good;
}

}  // namespace

int32_t run_planned(const Call& call, pto_aten_value* results, int32_t room) {
  if (!call.op->thunk) return kNoPlan;
  const Key key(call);
  Plan* const plan = key.is_whole() ? plans().find(key) : nullptr;
  if (!plan || plan->is_busy) return kNoPlan;
  const Use use(call, *plan);
  if (!rebind(call, *plan)) return kNoPlan;
  if (!results) {
    plan->op->thunk->call(plan->arguments.data(), nullptr);
    return 0;
  }
  Stack made;
  made.reserve(plan->op->handle.schema().returns().size());
  plan->op->thunk->call(plan->arguments.data(), &made);
  const auto n = static_cast<int32_t>(made.size());
  write(call, *plan, made, results, room);
  return n;
}

void keep_plan(const Call& call, Stack stack) {
  if (!call.op->thunk) return;
  const Key key(call);
  if (!key.is_whole() || plans().find(key)) return;
  auto plan = std::make_unique<Plan>();
  plan->key.assign(key.words(), key.words() + key.count());
  plan->op = call.op;
  for (size_t i = 0; i < stack.size(); ++i) {
    if (!add_tensors(call, static_cast<int32_t>(i), stack[i], *plan)) return;
    plan->held.push_back(call.op->thunk->hold[i](stack[i]));
    plan->arguments.push_back(plan->held.back().get());
  }
  for (const Passed& one : plan->passed) pass(one, *plan, at::Tensor());
  plans().insert(key, std::move(plan));
}

int32_t plans_kept() { return plans().count(); }

}  // namespace pto::torch_adapter
