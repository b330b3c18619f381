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
// Errors: a call that cannot be done throws std::runtime_error with what, why and fix; it may leave
// pto_orchestrate, and the run fails with it. Shapes and strides count elements.
// Thread safety: an Orchestration belongs to the thread that was called.
#pragma once

#include <cstring>
#include <deque>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "pto/runtime_api.h"
#include "pto/runtime_symbol.h"

namespace pto {

// Of elements, as DLPack counts them.
struct ElementType {
  uint8_t code, bits;
  bool operator==(ElementType other) const { return code == other.code && bits == other.bits; }
};
namespace element {
constexpr ElementType i8{0, 8}, i16{0, 16}, i32{0, 32}, i64{0, 64}, u8{1, 8}, u16{1, 16},
    u32{1, 32}, u64{1, 64}, f16{2, 16}, f32{2, 32}, f64{2, 64}, bf16{4, 16}, boolean{6, 8};
}

using Dimensions = std::vector<int64_t>;

// A tensor of an orchestration, or a part of one. Copies are views of the same memory.
class View {
 public:
  View() {
    static const pto_view none{};
    set(none);
  }
  explicit View(const pto_view& view) { set(view); }
  View(const View& other) { set(other.view_); }
  View& operator=(const View& other) {
    set(other.view_);
    return *this;
  }

  int rank() const { return view_.rank; }
  Dimensions shape() const { return Dimensions(view_.sizes, view_.sizes + view_.rank); }
  Dimensions strides() const { return Dimensions(view_.strides, view_.strides + view_.rank); }
  ElementType dtype() const { return {view_.type_code, view_.type_bits}; }
  int64_t numel() const {
    int64_t n = 1;
    for (int k = 0; k < view_.rank; ++k) n *= view_.sizes[k];
    return n;
  }
  const pto_view& raw() const { return view_; }

  // Elements begin, begin + step ... before end of dimension dim; dim from -rank.
  View slice(int dim, int64_t begin, int64_t end, int64_t step = 1) const {
    View v = *this;
    dim = checked(dim);
    const int64_t size = view_.sizes[dim];
    if (begin < 0 || end < begin || end > size || step < 1)
      refuse("slice(" + std::to_string(dim) + ", " + std::to_string(begin) + ", " +
                 std::to_string(end) + ", " + std::to_string(step) + ") of " +
                 std::to_string(size) + " elements",
             "0 <= begin <= end <= size, and step >= 1", "pass bounds inside the dimension");
    v.advance(begin * view_.strides[dim]);
    v.view_.sizes[dim] = (end - begin + step - 1) / step;
    v.view_.strides[dim] *= step;
    return v;
  }
  // Element `index` of the first dimension, which goes.
  View operator[](int64_t index) const { return slice(0, index, index + 1).without(0); }

  View transpose(int a, int b) const {
    View v = *this;
    a = checked(a), b = checked(b);
    std::swap(v.view_.sizes[a], v.view_.sizes[b]);
    std::swap(v.view_.strides[a], v.view_.strides[b]);
    return v;
  }
  View permute(const std::vector<int>& order) const {
    View v = *this;
    std::vector<bool> seen(size_t(view_.rank));
    bool is_right = int(order.size()) == view_.rank;
    for (size_t k = 0; is_right && k < order.size(); ++k) {
      const int from = order[k] < 0 ? order[k] + view_.rank : order[k];
      is_right = from >= 0 && from < view_.rank && !seen[size_t(from)];
      if (!is_right) break;
      seen[size_t(from)] = true;
      v.view_.sizes[k] = view_.sizes[from];
      v.view_.strides[k] = view_.strides[from];
    }
    if (!is_right)
      refuse("permute() of " + std::to_string(view_.rank) + " dimensions by " +
                 std::to_string(order.size()) + " numbers that do not name each once",
             "every dimension comes once", "pass a permutation of 0 .. rank - 1");
    return v;
  }
  // The same elements in another shape; only where no copy is needed.
  View reshape(const Dimensions& shape) const {
    int64_t n = 1;
    for (int64_t size : shape) n *= size;
    if (n != numel() || shape.size() > PTO_MAX_RANK)
      refuse("reshape() of " + std::to_string(numel()) + " elements to " + std::to_string(n) +
                 " in " + std::to_string(shape.size()) + " dimensions",
             "the elements stay, in at most 8 dimensions", "pass a shape of as many elements");
    View v = *this;
    v.view_.rank = int32_t(shape.size());
    int64_t next = is_contiguous() ? 1 : 0;
    if (next == 0) next = single_stride();
    for (int k = v.view_.rank - 1; k >= 0; --k) {
      v.view_.sizes[k] = shape[size_t(k)];
      v.view_.strides[k] = next;
      next *= shape[size_t(k)];
    }
    return v;
  }

 private:
  // Sizes and strides beyond the rank are not copied, which most of a view is.
  void set(const pto_view& view) {
    view_.allocation = view.allocation;
    view_.data = view.data;
    view_.rank = view.rank;
    view_.type_code = view.type_code;
    view_.type_bits = view.type_bits;
    view_.flags = view.flags;
    if (view.rank > 0) set_dim(0, view);
    if (view.rank > 1) set_dim(1, view);  // a loop would become two calls of memcpy()
    for (int k = 2; k < view.rank; ++k) set_dim(k, view);
  }
  void set_dim(int k, const pto_view& view) {
    view_.sizes[k] = view.sizes[k];
    view_.strides[k] = view.strides[k];
  }
  static void refuse(const std::string& what, const char* why, const char* fix) {
    throw std::runtime_error(what + "\n  why: " + why + "\n  fix: " + fix);
  }
  int checked(int dim) const {
    const int at = dim < 0 ? dim + view_.rank : dim;
    if (at < 0 || at >= view_.rank)
      refuse("dimension " + std::to_string(dim) + " of a tensor of " + std::to_string(view_.rank),
             "dimensions count from 0, or from the end from -1", "pass one that exists");
    return at;
  }
  void advance(int64_t elements) {
    view_.data = static_cast<char*>(view_.data) + elements * (view_.type_bits / 8);
  }
  View without(int dim) const {
    View v = *this;
    for (int k = dim; k + 1 < view_.rank; ++k) {
      v.view_.sizes[k] = view_.sizes[k + 1];
      v.view_.strides[k] = view_.strides[k + 1];
    }
    --v.view_.rank;
    return v;
  }
  bool is_contiguous() const {
    int64_t next = 1;
    for (int k = view_.rank - 1; k >= 0; next *= view_.sizes[k--])
      if (view_.sizes[k] != 1 && view_.strides[k] != next) return false;
    return true;
  }
  // The distance of all neighbours, where they lie evenly.
  int64_t single_stride() const {
    int64_t stride = 0, next = 0;
    for (int k = view_.rank - 1; k >= 0; --k) {
      if (view_.sizes[k] == 1) continue;
      if (stride == 0) stride = next = view_.strides[k];
      if (view_.strides[k] != next)
        refuse("reshape() of a view whose elements do not lie evenly",
               "it would need a copy, and views make none", "copy it by a task first");
      next *= view_.sizes[k];
    }
    return stride;
  }

  pto_view view_;
};

// One argument of a task.
struct TaskArgument {
  View view;
  int32_t kind;
  uint64_t scalar;
  const std::vector<pto_step>* steps = nullptr;  // the orchestration's: give the scalar
};

// What a task asks for besides its arguments.
struct TaskOptions {
  std::vector<uint64_t> after;  // tasks that it follows besides
  int32_t blocks = 1;
  bool together = false;            // its blocks start together and may wait for each other
  bool manual = false;              // it follows `after` alone
  const View* condition = nullptr;  // one element: the task is skipped unless it `compare`s so
  int32_t compare = PTO_IF_NE;
  double value = 0;
};

class Orchestration {
 public:
  Orchestration(const pto_runtime_api* api, const pto_args* args) : api_(api), args_(args) {
    if (api->abi_version != PTO_RUNTIME_ABI_VERSION)
      throw std::runtime_error(
          "the orchestration was compiled for another version of the runtime"
          "\n  why: both must agree on pto_runtime_api"
          "\n  fix: compile it with the headers of this version");
  }
  Orchestration(const Orchestration&) = delete;
  Orchestration& operator=(const Orchestration&) = delete;
  ~Orchestration() { let_go(0); }

  // Argument `index` of the run, counted among its tensors.
  View input(int index) const { return argument(index); }
  View output(int index) const { return argument(index); }
  View inout(int index) const { return argument(index); }
  // Scalar `index` of the run, counted among its scalars. A captured graph is of this number; a
  // symbol is computed again for each replay.
  int64_t integer(int index) const { return int64_t(scalar_bits(index)); }
  double number(int index) const {
    const uint64_t bits = scalar_bits(index);
    double value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }
  template <class T = int64_t>
  Symbol<T> symbol(int index) const {
    check_scalar(index);
    return Symbol<T>::of_scalar(index);
  }

  // New memory, until the scope ends and its tasks are done. Not zeroed.
  View tensor(const Dimensions& shape, ElementType type) {
    pto_view view{};
    if (shape.size() > PTO_MAX_RANK)
      throw std::runtime_error("a tensor of " + std::to_string(shape.size()) +
                               " dimensions\n  why: at most 8\n  fix: reshape it");
    view.rank = int32_t(shape.size());
    for (size_t k = 0; k < shape.size(); ++k) view.sizes[k] = shape[k];
    view.type_code = type.code;
    view.type_bits = type.bits;
    check(api_->allocate(api_->run, &view));
    owned_.push_back(view);
    return View(view);
  }

  // Tensors made while it lives are let go of at its end.
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
    return {View(), PTO_ARG_SCALAR, bits};
  }
  template <class T>
  TaskArgument scalar(const Symbol<T>& symbol) {
    symbols_.push_back(symbol.steps());
    return {View(), PTO_ARG_SCALAR, 0, &symbols_.back()};
  }

  // Returns the task's id. `kernel` null: a task that does nothing, for its edges.
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

  // Waits for the tasks that write the view.
  void wait(const View& view) { check(api_->wait(api_->run, &view.raw())); }

  // The view's first element, once it is written.
  template <class T>
  T read(const View& view) {
    if (sizeof(T) * 8 != view.raw().type_bits || view.numel() < 1)
      throw std::runtime_error("read() of " + std::to_string(sizeof(T) * 8) +
                               " bits from a view of " + std::to_string(view.numel()) +
                               " elements of " + std::to_string(view.raw().type_bits) +
                               " bits\n  why: it gives one element as it lies in memory"
                               "\n  fix: ask for the element's type, of a view that is not empty");
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
  uint64_t scalar_bits(int index) const {
    check_scalar(index);
    uint64_t bits;
    check(api_->scalar(api_->run, index, &bits));
    return bits;
  }
  void check_scalar(int index) const {
    if (index < 0 || index >= args_->n_scalars)
      throw std::runtime_error("scalar " + std::to_string(index) + " of a run that has " +
                               std::to_string(args_->n_scalars) +
                               "\n  why: scalars count from 0 among the run's scalars"
                               "\n  fix: pass it to run()");
  }
  void let_go(size_t from) {
    while (owned_.size() > from) {
      api_->let_go(api_->run, &owned_.back());
      owned_.pop_back();
    }
  }
  uint64_t submit(const char* kernel, const TaskArgument* args, size_t n,
                  const TaskOptions& options, const char* file, int line) {
    raw_.resize(n);
    for (size_t i = 0; i < n; ++i) {
      raw_[i].kind = args[i].kind;
      raw_[i].view = args[i].kind == PTO_ARG_SCALAR ? nullptr : &args[i].view.raw();
      raw_[i].scalar = args[i].scalar;
      raw_[i].steps = args[i].steps ? args[i].steps->data() : nullptr;
      raw_[i].n_steps = args[i].steps ? int32_t(args[i].steps->size()) : 0;
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
    uint64_t task = 0;
    check(api_->submit(api_->run, &submission, &task));
    return task;
  }

  const pto_runtime_api* api_;
  const pto_args* args_;
  std::vector<pto_view> owned_;  // in the order of making
  std::vector<pto_task_argument> raw_;
  std::deque<std::vector<pto_step>> symbols_;  // of derived scalars; they stay where they are
};

}  // namespace pto
