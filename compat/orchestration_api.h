// SPDX-License-Identifier: Apache-2.0
// The public spelling of orchestrations, over pto/runtime.h: the current run belongs to the thread.
//
//     #include "orchestration_api.h"
//     extern "C" void aicpu_orchestration_entry(const ChipTaskArgs& args) {
//       CoreTaskArgs task;
//       task.add_input(args.tensor(0).ref());
//       task.add_output(args.tensor(1).ref());
//       task.add_scalar(2.0f);
//       rt_submit_aiv_task(0, task);
//     }
//
// A scalar reaches kernels as all scalars of tasks do, a floating-point one as a double; kernels
// that include tensor.h get its own bits. An integral read of a floating-point scalar gives its
// bits, a float32's unless the type float64 was asked for by name; passed on, a float parameter of
// a kernel gets that float. The kernels of a mixed task run side by side. Hints (early resolve,
// timing slots) do nothing.
//
// Invariant: a mistake throws at the call, with what, why and fix, and the run fails with it; after
// rt_report_fatal the calls do nothing until the entry returns.
// Thread safety: everything belongs to the thread that runs the orchestration.
#pragma once

#include <algorithm>
#include <map>
#include <memory>

#include "orchestration_errors.h"
#include "orchestration_task_args.h"

inline constexpr int32_t INVALID_KERNEL_ID = -1;
struct MixedKernels {
  int32_t aic_kernel_id = INVALID_KERNEL_ID, aiv0_kernel_id = INVALID_KERNEL_ID,
          aiv1_kernel_id = INVALID_KERNEL_ID;
};

struct OrchestrationConfig {
  int expected_arg_count;  // at least
};
using PTO2OrchestrationConfig = OrchestrationConfig;

enum class ScopeMode : uint8_t { AUTO, MANUAL };
using PTO2ScopeMode = ScopeMode;

// The result of a submission: its task, and the tensors that the runtime made for it, in order.
class TaskOutputTensors {
 public:
  TaskOutputTensors() = default;
  TaskOutputTensors(TaskId task, std::vector<ChipTensor> tensors)
      : task_(task), tensors_(std::move(tensors)) {}

  bool empty() const { return tensors_.empty(); }
  uint32_t size() const { return uint32_t(tensors_.size()); }
  TaskId task_id() const { return task_; }
  const ChipTensor& get_ref(uint32_t index) const& {
    if (index >= tensors_.size())
      pto::compat::refuse("get_ref(" + std::to_string(index) +
                              "), but the number of tensors that the runtime made is " +
                              std::to_string(tensors_.size()),
                          "the runtime makes the outputs added as TensorCreateInfo, counted from 0",
                          "pass a smaller index, or add the output as a TensorCreateInfo");
    return tensors_[index];
  }
  const ChipTensor& get_ref(uint32_t index) const&& = delete;  // it would not outlive the line

 private:
  TaskId task_;
  std::vector<ChipTensor> tensors_;
};

namespace pto {
namespace compat {

// The state of one orchestration.
class Session {
 public:
  // `raw`: the numbers of the kernels whose slots hold descriptors of tensors and bits of scalars.
  Session(const pto_runtime_api* api, const pto_args* args, std::vector<int32_t> raw)
      : o_(api, args), raw_(std::move(raw)) {
    outer_ = std::exchange(current_slot(), this);
    scopes_.push_back({nullptr, ++serial_, ScopeMode::AUTO});
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session() {
    leave_scopes(0);
    current_slot() = outer_;
  }

  static Session& current() {
    if (Session* session = current_slot()) return *session;
    refuse("a call of the runtime outside an orchestration",
           "the current run belongs to the thread that runs aicpu_orchestration_entry",
           "call it there");
  }

  const ChipTensor& argument(int index) {
    const View view = o_.inout(index);
    arguments_.push_back(
        ChipTensor(view.raw(), data_type_of(view.dtype(), index), TaskId::invalid(), 0));
    return arguments_.back();
  }

  // Wraps memory by its address, which lies in an argument of the run.
  ChipTensor external(void* address, const uint32_t shape[], uint32_t ndims, DataType dtype,
                      bool is_manual) {
    const uint64_t bytes = TensorCreateInfo(shape, ndims, dtype).buffer_size_bytes();
    for (const ChipTensor& argument : arguments_) {
      const uint64_t from = reinterpret_cast<uint64_t>(address) - argument.buffer.addr;
      if (!argument.is_contiguous || from > argument.buffer.size ||
          bytes > argument.buffer.size - from)
        continue;
      pto_view view = argument.raw();
      view.data = address;
      view.rank = int32_t(ndims);
      view.type_code = element_type(dtype).code;
      view.type_bits = element_type(dtype).bits;
      int64_t next = 1;
      for (int32_t k = view.rank - 1; k >= 0; next *= view.sizes[k--]) {
        view.sizes[k] = shape[k];
        view.strides[k] = next;
      }
      ChipTensor tensor(view, dtype, TaskId::invalid(), 0);
      tensor.manual_dep = is_manual;
      return tensor;
    }
    refuse("make_tensor_external() of " + std::to_string(bytes) +
               " bytes that lie in no argument of the run",
           "the runtime orders tasks only by memory that run() was given",
           "pass the array to run(), without gaps between its elements, or use args.tensor(i)");
  }

  bool is_fatal() const { return !fatal_.empty(); }
  void report_fatal(int32_t code, const std::string& text) {
    if (!is_fatal()) fatal_ = "fatal error " + std::to_string(code) + ": " + text;
  }
  void throw_if_fatal() const {
    if (is_fatal())
      refuse(fatal_, "the orchestration called rt_report_fatal",
             "mend what the orchestration reports");
  }

  void begin_scope(ScopeMode mode) {
    if (scopes_.size() > 64)
      refuse("a scope inside 64 others", "scopes nest at most 64 deep", "call rt_scope_end first");
    if (mode == ScopeMode::AUTO && scopes_.back().mode == ScopeMode::MANUAL)
      refuse("an AUTO scope inside a MANUAL one",
             "tasks of the MANUAL scope are in no dependency map, so none could be inferred",
             "make the inner scope MANUAL, or end the outer one first");
    scopes_.push_back({std::make_unique<Orchestration::Scope>(o_), ++serial_, mode});
  }
  size_t depth() const { return scopes_.size(); }
  void leave_scopes(size_t depth) {
    while (scopes_.size() > depth) scopes_.pop_back();
  }
  void end_scope() {
    if (scopes_.size() == 1)
      refuse("the end of a scope that was not begun", "each end belongs to a begin",
             "call rt_scope_begin first");
    scopes_.pop_back();
  }

  TaskOutputTensors submit(const MixedKernels& kernels, const CoreTaskArgs& args, const char* file,
                           int line) {
    if (is_fatal()) return {};
    TaskOptions options = options_of(args);
    View condition;
    if (args.predicate.op != PredicateOp::NONE) {
      condition = element(*args.predicate.operand.tensor, args.predicate.operand.ndims,
                          args.predicate.operand.indices);
      options.condition = &condition;
      options.compare = compare_of(args.predicate.op);
      options.value = double(args.predicate.target);
    }
    std::vector<ChipTensor> made;
    std::vector<TaskArgument> given = arguments_of(args, made, options);
    const bool raw = takes_raw(kernels);
    for (const GivenScalar& one : args.scalars())
      given.push_back(raw ? TaskArgument{View(), PTO_ARG_SCALAR, one.raw}
                          : TaskArgument{View(), PTO_ARG_SCALAR, one.bits, nullptr, one.number});
    const pto_cores cores{name_of(kernels.aic_kernel_id), name_of(kernels.aiv0_kernel_id),
                          name_of(kernels.aiv1_kernel_id)};
    const bool has_cube = cores.cube != nullptr, has_first = cores.vector0 != nullptr;
    const char* const one = has_cube ? cores.cube : has_first ? cores.vector0 : cores.vector1;
    const bool is_mixed = has_cube + has_first + (cores.vector1 != nullptr) > 1;
    const uint64_t task = is_mixed ? o_.submit(cores, given, options, file, line)
                                   : o_.submit(one, given, options, file, line);
    for (ChipTensor& tensor : made) tensor.owner_task_id = TaskId{task};
    return {TaskId{task}, std::move(made)};
  }

  // Makes memory alone: no task writes it, so none needs to follow the task whose id it has.
  TaskOutputTensors allocate(const CoreTaskArgs& args, const char* file, int line) {
    if (is_fatal()) return {};
    args.throw_if_wrong();
    std::vector<ChipTensor> made;
    for (const CoreTaskArgs::TensorSlot& slot : args.slots()) {
      if (slot.kind != CoreTaskArgs::kCreated)
        refuse("alloc_tensors() got a tensor that exists already",
               "alloc_tensors() makes the tensors that were added as TensorCreateInfo",
               "pass arguments made by add_output(TensorCreateInfo) alone");
      made.push_back(create(slot.info));
    }
    const TaskId task{o_.submit(nullptr, {}, TaskOptions(), file, line)};
    for (ChipTensor& tensor : made) tensor.owner_task_id = task;
    return {task, std::move(made)};
  }

  // Returns one element, after the tasks that write it; `to_write`: and those that read it.
  View settled(const ChipTensor& tensor, uint32_t ndims, const uint32_t* indices, bool to_write) {
    const View view = element(tensor, ndims, indices, to_write);
    const bool is_untracked = tensor.manual_dep || scopes_.back().mode == ScopeMode::MANUAL;
    if (to_write || (is_untracked && tensor.owner_task_id.is_valid())) {
      TaskOptions options;  // a task that does nothing stands behind all of these
      if (tensor.owner_task_id.is_valid()) options.after.push_back(tensor.owner_task_id.raw);
      o_.submit(nullptr, {o_.inout(view)}, options);
    }
    o_.wait(view);
    return view;
  }

 private:
  struct OpenScope {
    std::unique_ptr<Orchestration::Scope> scope;
    uint64_t serial;
    ScopeMode mode;
  };

  // Names a kernel by its number, as submit() knows it; null: none.
  const char* name_of(int32_t kernel) {
    if (kernel < 0) return nullptr;
    return names_.try_emplace(kernel, std::to_string(kernel)).first->second.c_str();
  }

  // True where the kernels of a task get scalars by their own bits.
  bool takes_raw(const MixedKernels& kernels) const {
    int raw = 0, typed = 0;
    for (int32_t kernel : {kernels.aic_kernel_id, kernels.aiv0_kernel_id, kernels.aiv1_kernel_id})
      if (kernel >= 0) ++(std::find(raw_.begin(), raw_.end(), kernel) != raw_.end() ? raw : typed);
    if (raw > 0 && typed > 0)
      refuse("a mixed task has some kernels that take descriptors of tensors and some that do not",
             "all cores of a mixed task get the same arguments",
             "include tensor.h in all of its kernels, or in none");
    return raw > 0;
  }

  static Session*& current_slot() {
    static thread_local Session* slot = nullptr;
    return slot;
  }

  View view_of(const ChipTensor& tensor, bool to_write = false) {
    bool is_live = tensor.scope == 0;
    for (const OpenScope& open : scopes_) is_live = is_live || open.serial == tensor.scope;
    if (!is_live)
      refuse("a tensor of a scope that has ended", "its memory may serve another tensor by now",
             "use it inside the scope, or submit its task before the scope");
    const pto_view view = tensor.raw();
    return View((view.flags & PTO_TENSOR_READ_ONLY) != 0 ? copied(view, to_write) : view);
  }

  // Returns a copy of an input of the run, which tasks may change, as in the public runtime; it is
  // made before the first task that does, outside scopes, which would end its life.
  pto_view copied(pto_view view, bool to_write) {
    for (const ChipTensor& argument : arguments_) {
      const pto_view original = argument.raw();
      if (original.allocation != view.allocation) continue;
      auto found = copies_.find(original.allocation);
      if (found == copies_.end()) {
        if (!to_write || scopes_.size() > 1 || !argument.is_contiguous) return view;
        const View copy = o_.tensor(Dimensions(original.sizes, original.sizes + original.rank),
                                    element_type(argument.dtype));
        o_.wait(copy);  // a capture refuses it here: replays would not fill it again
        std::memcpy(copy.raw().data, original.data, argument.nbytes());
        LOG_WARN("a task changes tensor %d, an input of the run: a copy of it, the array stays",
                 int(&argument - arguments_.data()));
        found = copies_.emplace(original.allocation, copy.raw()).first;
      }
      view.data = static_cast<char*>(found->second.data) +
                  (static_cast<char*>(view.data) - static_cast<char*>(original.data));
      view.allocation = found->second.allocation;
      view.flags = found->second.flags;
      return view;
    }
    return view;
  }

  View element(const ChipTensor& tensor, uint32_t ndims, const uint32_t* indices,
               bool to_write = false) {
    View view = view_of(tensor, to_write);
    if (ndims != tensor.ndims)
      refuse("the number of indices is " + std::to_string(ndims) + ", but the tensor has rank " +
                 std::to_string(tensor.ndims),
             "an element has one index for each dimension",
             "pass " + std::to_string(tensor.ndims) + " as ndims, and an index for each dimension");
    for (uint32_t k = 0; k < ndims; ++k)
      view = view.slice(int(k), indices[k], int64_t(indices[k]) + 1);
    return view;
  }

  TaskOptions options_of(const CoreTaskArgs& args) const {
    args.throw_if_wrong();
    TaskOptions options;
    options.blocks = args.launch_spec.blocks();
    options.together = args.launch_spec.require_sync_start();
    options.manual = scopes_.back().mode == ScopeMode::MANUAL;
    for (uint32_t k = 0; k < args.explicit_dep_count(); ++k) {
      if (!args.explicit_dep(k).is_valid())
        refuse("dependency " + std::to_string(k) + " of a task is TaskId::invalid()",
               "a dependency names a task that was submitted",
               "leave it out where there is no such task");
      options.after.push_back(args.explicit_dep(k).raw);
    }
    return options;
  }

  std::vector<TaskArgument> arguments_of(const CoreTaskArgs& args, std::vector<ChipTensor>& made,
                                         TaskOptions& options) {
    std::vector<TaskArgument> given;
    for (const CoreTaskArgs::TensorSlot& slot : args.slots()) {
      if (slot.kind == CoreTaskArgs::kCreated) {
        made.push_back(create(slot.info));
        given.push_back({View(made.back().raw()), PTO_ARG_OUTPUT, 0});
        continue;
      }
      // A tensor that is tracked by hand follows the task that made it, no other.
      const bool is_manual = slot.tensor.manual_dep || slot.kind == PTO_ARG_NO_DEP;
      if (is_manual && slot.tensor.owner_task_id.is_valid())
        options.after.push_back(slot.tensor.owner_task_id.raw);
      const int32_t kind = is_manual ? int32_t(PTO_ARG_NO_DEP) : slot.kind;
      const bool writes = kind == PTO_ARG_OUTPUT || kind == PTO_ARG_INOUT;
      given.push_back({view_of(slot.tensor, writes), kind, 0});
    }
    return given;
  }

  ChipTensor create(const TensorCreateInfo& info) {
    const View view =
        o_.tensor(Dimensions(info.shapes, info.shapes + info.ndims), element_type(info.dtype));
    ChipTensor tensor(view.raw(), info.dtype, TaskId::invalid(), scopes_.back().serial);
    tensor.manual_dep = info.manual_dep;
    if (!info.has_initial_value) return tensor;
    o_.wait(view);  // a capture refuses it here: replays would not fill it again
    const size_t size = get_element_size(info.dtype);
    for (uint64_t at = 0; at < tensor.buffer.size; at += size)
      std::memcpy(tensor.data_as<char>() + at, &info.initial_value, size);
    return tensor;
  }

  Orchestration o_;
  std::vector<OpenScope> scopes_;
  std::vector<ChipTensor> arguments_;
  std::map<const void*, pto_view> copies_;  // of inputs that a task writes
  std::map<int32_t, std::string> names_;
  const std::vector<int32_t> raw_;
  uint64_t serial_ = 0;
  std::string fatal_;
  Session* outer_;
};

using Entry = void (*)(const ChipTaskArgs&);
using Config = OrchestrationConfig (*)(const ChipTaskArgs&);

// Runs an orchestration of the public form as one of ours; `config` may be null.
inline int32_t enter(const pto_runtime_api* api, const pto_args* args, Entry entry, Config config,
                     std::vector<int32_t> raw) {
  Session session(api, args, std::move(raw));
  ChipTaskArgs given;
  for (int32_t i = 0; i < args->n_tensors; ++i) given.add(session.argument(i));
  for (int32_t i = 0; i < args->n_scalars; ++i)
    given.add_scalar_as_given(given_by_run(args->scalars[i], api->scalar_kind(api->run, i)));
  const int32_t count = args->n_tensors + args->n_scalars;
  if (const int expected = config == nullptr ? count : config(given).expected_arg_count;
      expected > count)
    refuse("the orchestration got too few arguments: " + std::to_string(count) + " of at least " +
               std::to_string(expected),
           "aicpu_orchestration_config returned that number as expected_arg_count",
           "pass at least " + std::to_string(expected) + " to run()");
  entry(given);
  session.throw_if_fatal();
  return 0;
}

}  // namespace compat
}  // namespace pto

#include "orchestration_calls.h"
