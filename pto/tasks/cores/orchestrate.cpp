// SPDX-License-Identifier: Apache-2.0
#include "pto/tasks/cores/orchestrate.hpp"

#include <algorithm>
#include <exception>
#include <iterator>

#include "pto/abi/limits.h"
#include "pto/base/dtype.hpp"
#include "pto/base/error.hpp"
#include "pto/base/strided.hpp"
#include "pto/tasks/cores/live_tensors.hpp"

namespace pto {
namespace {

// Splits a text that came back through the orchestration into what, why and fix.
ErrorText raised_text(const std::string& text) {
  const ErrorText plain = {text,
                           "tasks that were submitted before have ended, no other task has begun",
                           "mend the orchestration; the runtime can be used again"};
  ErrorText raised = read_error_message(text).value_or(plain);
  raised.what = "the orchestration raised: " + raised.what;
  return raised;
}

void check_given(const void* pointer, const char* what) {
  if (pointer != nullptr) return;
  fail({std::string(what) + ": the pointer is null", "the runtime writes its answer there",
        "pass the address of a variable"});
}

// Checks the fields of a submission that the engine does not check.
void check_submission_record(const pto_submission* s, const uint64_t* task) {
  check_given(s, "submit() without a submission");
  check_given(task, "submit() without a place for the task");
  const auto is_list = [](int32_t n, const void* list) { return n == 0 || (n > 0 && list); };
  if (is_list(s->n_args, s->args) && is_list(s->n_after, s->after)) return;
  fail({"a submission has n_args " + std::to_string(s->n_args) +
            (s->args == nullptr ? " with null args" : "") + " and n_after " +
            std::to_string(s->n_after) + (s->after == nullptr ? " with a null after" : ""),
        "counts are at least 0, and a list is null only where its count is 0",
        "fill pto_submission with zeros first"});
}

void check_condition(const pto_submission& s) {
  if (!from_dlpack(s.condition->type_code, s.condition->type_bits))
    fail({"a condition reads an element of type code " + std::to_string(s.condition->type_code) +
              " and " + std::to_string(s.condition->type_bits) + " bits",
          "a condition compares an integer or a floating-point number of pto::element",
          "let a task write such a number, and compare that"});
  int64_t elements = 1;
  for (int32_t k = 0; k < s.condition->rank; ++k) elements *= s.condition->sizes[k];
  if (s.compare < PTO_IF_EQ || s.compare > PTO_IF_GE || elements < 1)
    fail({"a condition has the comparison " + std::to_string(s.compare) +
              " on a view whose size is " + std::to_string(elements),
          "a condition compares the first element of a view by PTO_IF_EQ to PTO_IF_GE",
          "pass a comparison in that range, and a view that is not empty"});
}

class Session {
 public:
  Session(const OrchestrationProgram& program, std::span<const pto_tensor> tensors,
          const Numbers& scalars, TaskRun& run)
      : program_(program),
        tensors_(tensors),
        scalars_(scalars),
        run_(run),
        is_read_(scalars.size()) {
    std::vector<MemoryPiece> pieces;
    for (const pto_tensor& tensor : tensors) pieces.push_back(piece_of(tensor));
    memory_ = run.adopt(pieces);
    for (const Allocation* allocation : memory_) live_.add(allocation);
    args_.abi_version = PTO_ABI_VERSION;
    args_.tensors = tensors.data();
    args_.n_tensors = int32_t(tensors.size());
    args_.scalars = scalars.bits().data();
    args_.n_scalars = int32_t(scalars.size());
  }

  const std::vector<bool>& is_read() const { return is_read_; }

  void orchestrate() {
    const pto_runtime_api api{PTO_RUNTIME_ABI_VERSION,
                              this,
                              argument,
                              allocate,
                              let_go,
                              submit,
                              wait,
                              scalar,
                              scalar_kind,
                              last_error};
    int32_t code = 0;
    try {
      code = program_.orchestrate(&api, &args_);
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {  // its type may be unloaded with the code
      const bool is_ours = error_ == error.what();
      throw Error(raised_text(error.what()), is_ours ? error_kind_ : ErrorKind::Runtime);
    } catch (...) {
      throw Error(raised_text("something that is no std::exception"), ErrorKind::Runtime);
    }
    if (code == 0) return;
    fail({"the orchestration returned " + std::to_string(code) +
              (error_.empty() ? "" : "; its last error: " + error_),
          "an orchestration that submitted everything returns 0",
          "return 0 at its end, or mend the error that it reports"},
         ErrorKind::Runtime);
  }

 private:
  template <class F>
  static int32_t guarded(void* run, F f) {
    Session& self = *static_cast<Session*>(run);
    try {
      f(self);
      return 0;
    } catch (const Error& error) {
      self.error_ = error.what();  // a wrong type stays one for who called run()
      self.error_kind_ = error.kind() == ErrorKind::Type ? ErrorKind::Type : ErrorKind::Runtime;
    } catch (const std::exception& error) {
      self.error_ = error.what();
      self.error_kind_ = ErrorKind::Runtime;
    }
    return 1;
  }
  static const char* last_error(void* run) { return static_cast<Session*>(run)->error_.c_str(); }

  static int32_t argument(void* run, int32_t index, pto_view* view) {
    return guarded(run, [&](Session& self) {
      check_given(view, "argument() without a view");
      if (index < 0 || size_t(index) >= self.tensors_.size())
        fail({"tensor " + std::to_string(index) + " was asked for, but the run has " +
                  std::to_string(self.tensors_.size()),
              "tensors are counted from 0 in the order of run()'s arguments, apart from scalars",
              "pass more tensors to run(), or ask for a smaller index"});
      const pto_tensor& tensor = self.tensors_[size_t(index)];
      *view = {};
      view->allocation = self.memory_[size_t(index)];
      view->data = tensor.data;
      view->rank = tensor.rank;
      std::copy_n(tensor.sizes, tensor.rank, view->sizes);
      std::copy_n(tensor.strides, tensor.rank, view->strides);
      view->type_code = tensor.type_code;
      view->type_bits = tensor.type_bits;
      view->flags = uint16_t(tensor.flags & PTO_TENSOR_READ_ONLY);
    });
  }

  static int32_t allocate(void* run, pto_view* view) {
    return guarded(run, [&](Session& self) {
      check_given(view, "allocate() of no view");
      check_element_type(view->type_code, view->type_bits);
      if (view->rank < 0 || view->rank > PTO_MAX_RANK)
        fail({"a tensor of " + std::to_string(view->rank) + " dimensions",
              "tensors have at most " + std::to_string(PTO_MAX_RANK), "reshape it"});
      int64_t bytes = view->type_bits / 8;
      for (int32_t k = view->rank - 1; k >= 0; --k) {
        view->strides[k] = bytes * 8 / view->type_bits;
        if (view->sizes[k] < 0 || __builtin_mul_overflow(bytes, view->sizes[k], &bytes))
          fail({"a tensor with a dimension of " + std::to_string(view->sizes[k]) +
                    " elements, or too many in all",
                "sizes are at least 0, and all bytes fit 63 bits", "pass another shape"});
      }
      Allocation& made = self.run_.allocate(bytes);
      self.live_.add(&made);
      view->allocation = &made;
      view->data = TaskRun::data_of(made);
    });
  }
  static void let_go(void* run, const pto_view* view) {
    Session& self = *static_cast<Session*>(run);
    auto* const allocation = view == nullptr ? nullptr : static_cast<Allocation*>(view->allocation);
    const bool is_argument =
        std::find(self.memory_.begin(), self.memory_.end(), allocation) != self.memory_.end();
    if (is_argument || !self.live_.is_live(allocation)) return;  // no reference to drop
    self.live_.remove(allocation);
    self.run_.let_go(*allocation);
  }

  static void set_tensor(TaskTensor& to, const pto_view& view, Access access,
                         const LiveTensors::Known& known) {
    auto* const allocation = static_cast<Allocation*>(view.allocation);
    to.allocation = allocation;
    to.access = access;
    to.is_tracked = true;
    pto_tensor& tensor = to.view;
    tensor.data = view.data;
    tensor.sizes = view.sizes;
    tensor.strides = view.strides;
    tensor.rank = view.rank;
    tensor.type_code = view.type_code;
    tensor.type_bits = view.type_bits;
    tensor.type_lanes = 1;
    tensor.flags = 0;
    if (access == Access::Read) tensor.flags |= PTO_TENSOR_READ_ONLY;
    if (is_contiguous(view.rank, view.sizes, view.strides)) tensor.flags |= PTO_TENSOR_CONTIGUOUS;
    const auto offset = int64_t(reinterpret_cast<uintptr_t>(view.data) - known.base);
    tensor.extent_bytes = std::max<int64_t>(0, known.bytes - offset);  // 0: empty, past the end
  }

  static bool is_same(const char* a, const char* b) {  // short names: strcmp() costs more
    while (*a != 0 && *a == *b) ++a, ++b;
    return *a == *b;
  }
  const TaskKernel* kernel(const char* name) {
    if (name == nullptr) return nullptr;
    // Most names come again from the same line of code; their characters are compared all the same.
    Named& last = named_[(reinterpret_cast<uintptr_t>(name) >> 2) % std::size(named_)];
    if (last.pointer == name && is_same(last.name, name)) return last.kernel;
    const auto it = program_.kernels.find(std::string_view(name));
    if (it != program_.kernels.end()) {
      last = {name, it->first.c_str(), &it->second};
      return last.kernel;
    }
    std::string known;
    for (const auto& [other, kernel] : program_.kernels) known += " " + other;
    fail({std::string("submit() of kernel \"") + name +
              "\", but this orchestration has no kernel of that name",
          "it was registered with:" + (known.empty() ? std::string(" none") : known),
          "submit a kernel of that list, or register the kernel too"});
  }

  const TaskKernel* kernel_of(const pto_submission& s) {
    const TaskKernel* const single = kernel(s.kernel);
    const pto_cores& cores = s.cores;
    if (cores.cube == nullptr && cores.vector0 == nullptr && cores.vector1 == nullptr)
      return single;
    return &program_.mixed->of(kernel(cores.cube), kernel(cores.vector0), kernel(cores.vector1));
  }

  void add_scalar(const pto_task_argument& arg, const TaskKernel* kernel) {
    ScalarNumber number{arg.scalar, uint8_t(arg.number)};
    if (arg.number < PTO_NUMBER_ANY || arg.number > PTO_NUMBER_BITS || arg.n_steps < 0 ||
        (arg.n_steps > 0 && arg.steps == nullptr))
      fail(
          {"a scalar has the kind " + std::to_string(arg.number) + " and n_steps " +
               std::to_string(arg.n_steps) + (arg.steps == nullptr ? " with null steps" : ""),
           "kinds are PTO_NUMBER_ANY to PTO_NUMBER_BITS, and steps is null only where n_steps is 0",
           "fill pto_task_argument with zeros first"});
    if (arg.n_steps > 0) {
      const std::span<const pto_step> steps(arg.steps, size_t(arg.n_steps));
      number.kind = check_steps(steps, scalars_);
      number.bits = evaluate(steps, scalars_);
      derived_.push_back({int32_t(given_scalars_.size()), number.kind, steps});
    }
    if (kernel != nullptr) number.bits = kernel->slot(given_scalars_.size(), number);
    given_scalars_.push_back(number.bits);
  }

  void add_argument(const pto_task_argument& arg, int32_t index, const TaskKernel* kernel,
                    bool is_manual) {
    if (arg.kind == PTO_ARG_SCALAR) return add_scalar(arg, kernel);
    if (arg.kind < PTO_ARG_INPUT || arg.kind > PTO_ARG_NO_DEP)
      fail({"argument " + std::to_string(index) + " of a task has the kind " +
                std::to_string(arg.kind),
            "kinds are PTO_ARG_SCALAR to PTO_ARG_NO_DEP", "pass a kind in that range"});
    const LiveTensors::Known& known = live_.check(arg.view, "", index);
    constexpr Access kAccess[] = {Access::Read,   Access::Read,   Access::Write,
                                  Access::Update, Access::Reduce, Access::Read};
    const Access access = kAccess[arg.kind];
    if (access != Access::Read && (arg.view->flags & PTO_TENSOR_READ_ONLY))
      fail({"argument " + std::to_string(index) + " of a task writes an input of the run",
            "run() got it as Arg.input, and tasks may only read it",
            "pass it to run() as Arg.inout or Arg.output"});
    if (n_tensors_ == given_tensors_.size()) given_tensors_.resize(2 * n_tensors_ + 8);
    TaskTensor& tensor = given_tensors_[n_tensors_++];
    set_tensor(tensor, *arg.view, access, known);
    tensor.is_tracked = arg.kind != PTO_ARG_NO_DEP && !is_manual;
    if (arg.kind == PTO_ARG_NO_DEP && !(arg.view->flags & PTO_TENSOR_READ_ONLY))
      tensor.view.flags &= ~uint32_t(PTO_TENSOR_READ_ONLY);  // the caller orders its accesses
  }

  static int32_t submit(void* run, const pto_submission* s, uint64_t* task) {
    return guarded(run, [&](Session& self) {
      check_submission_record(s, task);
      self.n_tensors_ = 0;
      self.given_scalars_.clear();
      self.derived_.clear();
      TaskSpec spec{};
      spec.kernel = self.kernel_of(*s);
      for (int32_t i = 0; i < s->n_args; ++i)
        self.add_argument(s->args[i], i, spec.kernel, s->flags & PTO_SUBMIT_MANUAL);
      spec.tensors = {self.given_tensors_.data(), self.n_tensors_};
      spec.scalars = self.given_scalars_;
      spec.derived = self.derived_;
      spec.after = {s->after, size_t(s->n_after)};
      spec.blocks = s->blocks;
      spec.start_together = s->flags & PTO_SUBMIT_TOGETHER;
      spec.file = s->file == nullptr ? "" : s->file;
      spec.line = s->line;
      Predicate predicate;
      TaskTensor looked_at;
      if (s->condition != nullptr) {
        const auto& known = self.live_.check(s->condition, "the element of a condition");
        check_condition(*s);
        set_tensor(looked_at, *s->condition, Access::Read, known);
        predicate = {s->condition->data, s->condition->type_code, s->condition->type_bits,
                     Compare(s->compare), s->value};
        spec.predicate = &predicate;
        spec.predicate_tensor = &looked_at;
      }
      *task = self.run_.submit(spec);
    });
  }

  static int32_t wait(void* run, const pto_view* view) {
    return guarded(run, [&](Session& self) {
      TaskTensor tensor;
      set_tensor(tensor, *view, Access::Read,
                 self.live_.check(view, "the tensor that is waited for"));
      if (!self.run_.wait_for(tensor))
        fail({"the tensor that is waited for was not written: a task that writes it has failed",
              "tasks that follow a failed task do not run", "mend the task that failed first"},
             ErrorKind::Runtime);
    });
  }

  static int32_t scalar_kind(void* run, int32_t index) {
    const Session& self = *static_cast<Session*>(run);
    return index >= 0 && size_t(index) < self.scalars_.size()
               ? int32_t(self.scalars_.kind(size_t(index)))
               : -1;
  }
  static int32_t scalar(void* run, int32_t index, int32_t number, uint64_t* bits) {
    return guarded(run, [&](Session& self) {
      if (index < 0 || size_t(index) >= self.scalars_.size())
        fail({"scalar " + std::to_string(index) + " was asked for, but the run has " +
                  std::to_string(self.scalars_.size()),
              "scalars are counted from 0, apart from tensors", "pass it to run()"});
      check_given(bits, "scalar() without a place for its bits");
      self.is_read_[size_t(index)] = true;
      *bits = read_as(uint8_t(number), self.scalars_[size_t(index)], size_t(index),
                      number == PTO_NUMBER_REAL ? "number()" : "integer()");
    });
  }

  const OrchestrationProgram& program_;
  const std::span<const pto_tensor> tensors_;
  const Numbers scalars_;
  TaskRun& run_;
  std::vector<Allocation*> memory_;
  LiveTensors live_;
  pto_args args_{};
  std::string error_;
  ErrorKind error_kind_ = ErrorKind::Runtime;
  std::vector<TaskTensor> given_tensors_;  // the first n_tensors_ are the submission's
  size_t n_tensors_ = 0;
  std::vector<uint64_t> given_scalars_;
  std::vector<DerivedScalar> derived_;
  std::vector<bool> is_read_;
  struct Named {
    const char *pointer, *name;
    const TaskKernel* kernel;
  } named_[16] = {};  // by the pointer that submit() got
};

}  // namespace

const TaskKernel& MixedKernels::of(const TaskKernel* cube, const TaskKernel* vector0,
                                   const TaskKernel* vector1) {
  CoreKernels cores;
  std::string name;
  const TaskKernel* first = nullptr;
  const auto add = [&](pto_kernel& core, const TaskKernel* kernel) {
    name += (name.empty() ? "" : " + ") + (kernel == nullptr ? "none" : kernel->name);
    if (kernel == nullptr) return;
    core = kernel->function;
    if (first == nullptr || first->numbers.empty()) first = kernel;  // all get the same scalars
  };
  if (cube != nullptr) add(cores.cube, cube);
  add(cores.vectors[0], vector0);
  if (vector1 != nullptr) add(cores.vectors[1], vector1);
  const std::lock_guard lock(mutex_);
  for (const TaskKernel& known : kernels_)
    if (*known.cores == cores && known.name == name) return known;
  TaskKernel& made = kernels_.emplace_back(*first);
  made.function = nullptr;
  made.name = name;
  made.cores = std::make_shared<const CoreKernels>(cores);
  return made;
}

MemoryPiece piece_of(const pto_tensor& tensor) {
  const int64_t item = std::max(1, tensor.type_bits / 8);
  int64_t low = 0, high = item;
  for (int32_t k = 0; k < tensor.rank; ++k) {
    if (tensor.sizes[k] == 0) return {tensor.data, 0};
    const int64_t reach = (tensor.sizes[k] - 1) * tensor.strides[k] * item;
    (reach < 0 ? low : high) += reach;
  }
  return {static_cast<char*>(tensor.data) + low, high - low};
}

std::vector<bool> orchestrate_into(TaskRun& run, const OrchestrationProgram& program,
                                   std::span<const pto_tensor> tensors, const Numbers& scalars) {
  Session session(program, tensors, scalars, run);
  session.orchestrate();
  return session.is_read();
}

RunReport run_orchestration(const OrchestrationProgram& program,
                            std::span<const pto_tensor> tensors, const Numbers& scalars,
                            const RunOptions& options) {
  return run_tasks(options,
                   [&](TaskRun& run) { Session(program, tensors, scalars, run).orchestrate(); });
}

}  // namespace pto
