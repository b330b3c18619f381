// SPDX-License-Identifier: Apache-2.0
// Orchestration: a C++ function that submits tasks; the runtime orders them by the memory that they
// touch and runs them side by side elsewhere.
//
//     #include <pto/runtime.h>
//     extern "C" int32_t pto_orchestrate(const pto_runtime_api* rt, const pto_args* a) {
//       pto::Orchestration o(rt, a);
//       auto x = o.input(0), y = o.output(1), t = o.tensor(x.shape(), x.dtype());
//       o.submit("scale", {o.out(t), o.in(x), o.scalar(2.0f)});
//       o.submit("scale", {o.out(y), o.in(t), o.scalar(3.0f)});
//       return 0;
//     }
//
// A kernel receives its tensors and its scalars in the order of the submission. Everything goes
// through a table of C functions, so an orchestration links nothing and runs in any process.
// Errors: a call that fails throws std::runtime_error with what, why and fix; when it leaves
// pto_orchestrate the run fails with it. Shapes and strides count elements.
//
// Thread safety: an Orchestration belongs to the thread that was called.
#pragma once

#include <cstring>
#include <deque>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "pto/abi/runtime_api.h"
#include "pto/base/error_message.hpp"
#include "pto/tasks/orchestration/symbol.h"
#include "pto/tasks/orchestration/view.h"

namespace pto {

// One argument of a task.
struct TaskArgument {
  View view;
  int32_t kind;
  uint64_t scalar;
  const std::vector<pto_step>* steps = nullptr;  // the orchestration's; they compute the scalar
  int32_t number = PTO_NUMBER_ANY;               // PTO_NUMBER_..., the kind of a scalar
};

// Options of a task besides its arguments.
struct TaskOptions {
  std::vector<uint64_t> after;  // further tasks that it follows
  int32_t blocks = 1;
  bool together = false;  // its blocks start together and may wait for each other
  bool manual = false;    // it follows `after` alone
  // The task runs only if the view's first element, as a double, compares so with `value`. Null: it
  // runs.
  const View* condition = nullptr;
  int32_t compare = PTO_IF_NE;  // PTO_IF_...
  double value = 0;
};

class Orchestration {
 public:
  Orchestration(const pto_runtime_api* api, const pto_args* args) : api_(api), args_(args) {
    if (api->abi_version != PTO_RUNTIME_ABI_VERSION)
      throw std::runtime_error(error_message(
          "the orchestration was compiled for another version of the runtime",
          "both must agree on pto_runtime_api", "compile it with the headers of this version"));
  }
  Orchestration(const Orchestration&) = delete;
  Orchestration& operator=(const Orchestration&) = delete;
  ~Orchestration() { let_go(0); }

  // Return argument `index` of the run, counted among its tensors.
  View input(int index) const { return argument(index); }
  View output(int index) const { return argument(index); }
  View inout(int index) const { return argument(index); }
  // Read scalar `index` of the run, counted among its scalars; number() reads an int too where a
  // double holds it. A captured graph holds for this number alone; each replay computes a symbol
  // again.
  int64_t integer(int index) const { return int64_t(scalar_bits(index, PTO_NUMBER_SIGNED)); }
  double number(int index) const {
    const uint64_t bits = scalar_bits(index, PTO_NUMBER_REAL);
    double value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }
  template <class T = int64_t>
  Symbol<T> symbol(int index) const {
    check_scalar(index);
    return Symbol<T>::of_scalar(index);
  }

  // Makes memory that lives until the scope ends and its tasks are done. It is not zeroed.
  View tensor(const Dimensions& shape, ElementType type) {
    pto_view view{};
    if (shape.size() > PTO_MAX_RANK)
      throw std::runtime_error(
          error_message("a tensor of " + std::to_string(shape.size()) + " dimensions",
                        "tensors have at most " + std::to_string(PTO_MAX_RANK), "reshape it"));
    view.rank = int32_t(shape.size());
    for (size_t k = 0; k < shape.size(); ++k) view.sizes[k] = shape[k];
    view.type_code = type.code;
    view.type_bits = type.bits;
    check(api_->allocate(api_->run, &view));
    owned_.push_back(view);
    return View(view);
  }

  // Lets go, at its end, of the tensors made while it lives.
  class Scope {
   public:
    explicit Scope(Orchestration& o) : o_(o), mark_(o.owned_.size()) {}
    ~Scope() { o_.let_go(mark_); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Orchestration& o_;
    size_t mark_;
  };
  Scope scope() { return Scope(*this); }

  static TaskArgument in(const View& view) { return {view, PTO_ARG_INPUT, 0}; }
  static TaskArgument out(const View& view) { return {view, PTO_ARG_OUTPUT, 0}; }
  static TaskArgument inout(const View& view) { return {view, PTO_ARG_INOUT, 0}; }
  static TaskArgument reduce(const View& view) { return {view, PTO_ARG_REDUCE, 0}; }
  static TaskArgument no_dep(const View& view) { return {view, PTO_ARG_NO_DEP, 0}; }
  // An int goes to a floating-point parameter of a kernel where that holds it exactly; all other
  // mismatches fail the submission.
  template <class T>
  static TaskArgument scalar(T value) {
    static_assert(std::is_arithmetic<T>::value, "scalar(): a number");
    uint64_t bits;
    if (std::is_floating_point<T>::value) {
      const double wide = double(value);
      std::memcpy(&bits, &wide, sizeof bits);
    } else {
      bits = uint64_t(int64_t(value));
    }
    const int32_t number = std::is_floating_point<T>::value ? PTO_NUMBER_REAL
                           : std::is_signed<T>::value       ? PTO_NUMBER_SIGNED
                                                            : PTO_NUMBER_UNSIGNED;
    return {View(), PTO_ARG_SCALAR, bits, nullptr, number};
  }
  template <class T>
  TaskArgument scalar(const Symbol<T>& symbol) {
    symbols_.push_back(symbol.steps());
    return {View(), PTO_ARG_SCALAR, 0, &symbols_.back()};
  }

  // Returns the task's id. With a null `kernel` the task does nothing and only carries edges.
  uint64_t submit(const char* kernel, std::initializer_list<TaskArgument> args,
                  const TaskOptions& options = TaskOptions(), const char* file = __builtin_FILE(),
                  int line = __builtin_LINE()) {
    return submit(kernel, args.begin(), args.size(), options, file, line);
  }
  uint64_t submit(const char* kernel, const std::vector<TaskArgument>& args,
                  const TaskOptions& options = TaskOptions(), const char* file = __builtin_FILE(),
                  int line = __builtin_LINE()) {
    return submit(kernel, args.data(), args.size(), options, file, line);
  }

  uint64_t submit(pto_cores cores, const std::vector<TaskArgument>& args,
                  const TaskOptions& options = TaskOptions(), const char* file = __builtin_FILE(),
                  int line = __builtin_LINE()) {
    return submit(nullptr, args.data(), args.size(), options, file, line, cores);
  }

  // Waits for the tasks that write the view.
  void wait(const View& view) { check(api_->wait(api_->run, &view.raw())); }

  // Reads the view's first element, once it is written.
  template <class T>
  T read(const View& view) {
    if (sizeof(T) * 8 != view.raw().type_bits || view.numel() < 1)
      throw std::runtime_error(
          error_message("read<T>(): the size of T is " + std::to_string(sizeof(T) * 8) +
                            " bits, that of an element is " + std::to_string(view.raw().type_bits) +
                            ", and the number of elements is " + std::to_string(view.numel()),
                        "it returns the bits of the first element unchanged",
                        "use the element's type as T, on a view that is not empty"));
    wait(view);
    T value;
    std::memcpy(&value, view.raw().data, sizeof value);
    return value;
  }

 private:
  void check(int32_t code) const {
    if (code != 0) throw std::runtime_error(api_->last_error(api_->run));
  }
  View argument(int index) const {
    pto_view view{};
    check(api_->argument(api_->run, index, &view));
    return View(view);
  }
  uint64_t scalar_bits(int index, int32_t number) const {
    check_scalar(index);
    uint64_t bits;
    check(api_->scalar(api_->run, index, number, &bits));
    return bits;
  }
  void check_scalar(int index) const {
    if (index < 0 || index >= args_->n_scalars)
      throw std::runtime_error(
          error_message("scalar " + std::to_string(index) + " was asked for, but the run has " +
                            std::to_string(args_->n_scalars),
                        "scalars are counted from 0, apart from tensors", "pass it to run()"));
  }
  void let_go(size_t from) {
    while (owned_.size() > from) {
      api_->let_go(api_->run, &owned_.back());
      owned_.pop_back();
    }
  }
  uint64_t submit(const char* kernel, const TaskArgument* args, size_t n,
                  const TaskOptions& options, const char* file, int line, pto_cores cores = {}) {
    raw_.resize(n);
    for (size_t i = 0; i < n; ++i) {
      raw_[i].kind = args[i].kind;
      raw_[i].view = args[i].kind == PTO_ARG_SCALAR ? nullptr : &args[i].view.raw();
      raw_[i].scalar = args[i].scalar;
      raw_[i].steps = args[i].steps ? args[i].steps->data() : nullptr;
      raw_[i].n_steps = args[i].steps ? int32_t(args[i].steps->size()) : 0;
      raw_[i].number = args[i].number;
    }
    pto_submission submission{};
    submission.kernel = kernel;
    submission.args = raw_.data();
    submission.n_args = int32_t(n);
    submission.after = options.after.data();
    submission.n_after = int32_t(options.after.size());
    submission.blocks = options.blocks;
    submission.flags = (options.together ? uint32_t(PTO_SUBMIT_TOGETHER) : 0u) |
                       (options.manual ? uint32_t(PTO_SUBMIT_MANUAL) : 0u);
    submission.condition = options.condition ? &options.condition->raw() : nullptr;
    submission.compare = options.compare;
    submission.value = options.value;
    submission.file = file;
    submission.line = line;
    submission.cores = cores;
    uint64_t task;
    return check(api_->submit(api_->run, &submission, &task)), task;
  }

  const pto_runtime_api* api_;
  const pto_args* args_;
  std::vector<pto_view> owned_;  // in the order of making
  std::vector<pto_task_argument> raw_;
  std::deque<std::vector<pto_step>> symbols_;  // derived scalars' steps; a deque never moves them
};

}  // namespace pto
