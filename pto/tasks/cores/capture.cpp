// SPDX-License-Identifier: Apache-2.0
// Records an orchestration as a graph.
#include <algorithm>
#include <exception>
#include <map>

#include "pto/base/error.hpp"
#include "pto/tasks/cores/graph.hpp"
#include "pto/tasks/cores/run_state.hpp"

namespace pto {

// Receives the tasks while a graph is captured: infers their edges and runs nothing. Reducing tasks
// follow each other in the order of submission.
class Recorder final : public TaskRun {
 public:
  Recorder(TaskGraph& graph, std::span<const pto_tensor> arguments)
      : graph_(graph), arguments_(arguments) {}

  std::vector<Allocation*> adopt(std::span<const MemoryPiece> pieces) override {
    std::vector<Allocation*> result = adopt_pieces(pieces, allocations_);
    for (size_t i = 0; i < result.size(); ++i)
      argument_of_.emplace(result[i], int32_t(i));  // keeps the first
    return result;
  }
  Allocation& allocate(int64_t bytes) override {
    graph_.owned_.push_back(nullptr);  // first, since it may throw
    void* const data = graph_.owned_.back() = pto_malloc(size_t(std::max<int64_t>(bytes, 1)));
    if (data == nullptr)
      fail({"a captured graph asked for " + std::to_string(bytes) +
                " bytes, and the system cannot give them",
            "the graph keeps the tensors of its orchestration", "use smaller tensors"},
           ErrorKind::Runtime);
    graph_.bytes_ += bytes;
    graph_.memory_.push_back({graph_.memory_.size() + 1, 0, MemoryRecord::kHeld, bytes, 0, 0});
    Allocation& made = add_allocation(allocations_, static_cast<char*>(data), bytes, false);
    made.record.number = graph_.memory_.size();
    return made;
  }
  void let_go(Allocation& allocation) override { allocation.users.store(0); }
  TaskId submit(const TaskSpec& spec) override;
  bool wait_for(const TaskTensor&) override {
    fail({"the orchestration waits for a tensor while it is captured",
          "a captured graph runs its tasks later, so nothing can depend on their results",
          "run it without capture, or leave the decision to a task's condition"},
         ErrorKind::Runtime);
  }
  void stop(const std::string& text) override { fail({text, "", ""}, ErrorKind::Runtime); }
  bool has_failed() const override { return false; }

  void finish();  // rethrows an error of a submission

 private:
  using Edge = std::pair<int32_t, EdgeCause>;

  TaskId record(const TaskSpec& spec);
  void follow(const TaskTensor& tensor);
  void add_tensor(const TaskTensor& tensor, int32_t place);
  void patch_later(const TaskTensor& tensor, const void* address, int32_t place);

  TaskGraph& graph_;
  const std::span<const pto_tensor> arguments_;
  std::vector<std::unique_ptr<Allocation>> allocations_;
  std::map<const Allocation*, int32_t> argument_of_;
  std::vector<std::vector<Edge>> after_;  // by task: the edges to its successors
  std::vector<Edge> followed_;            // by the task that is submitted
  std::exception_ptr error_;
};

void Recorder::follow(const TaskTensor& tensor) {
  if (!tensor.is_tracked) return;
  const Access access = tensor.access == Access::Reduce ? Access::Update : tensor.access;
  const EdgeCause cause = cause_of(access);
  tensor.allocation->history.record(
      box_of(tensor), access, graph_.tasks_.size(),
      [&](TaskId earlier) { followed_.emplace_back(int32_t(earlier) - 1, cause); },
      [](TaskId) { return false; });
}

void Recorder::patch_later(const TaskTensor& tensor, const void* address, int32_t place) {
  const auto it = argument_of_.find(tensor.allocation);
  if (it == argument_of_.end()) return;
  const char* const base = static_cast<const char*>(arguments_[size_t(it->second)].data);
  graph_.patches_.push_back({it->second, static_cast<const char*>(address) - base, place,
                             int32_t(graph_.tasks_.size()) - 1});
}

void Recorder::add_tensor(const TaskTensor& tensor, int32_t place) {
  const pto_tensor& view = tensor.view;
  if (const size_t number = tensor.allocation->record.number; number > 0)
    if (TaskId& first = graph_.memory_[number - 1].task; first == 0) first = graph_.tasks_.size();
  graph_.tensors_.push_back(view);
  graph_.dims_.insert(graph_.dims_.end(), view.sizes, view.sizes + view.rank);
  graph_.dims_.insert(graph_.dims_.end(), view.strides, view.strides + view.rank);
  patch_later(tensor, view.data, place);
}

TaskId Recorder::submit(const TaskSpec& spec) {
  check_submission(spec, graph_.tasks_.size());
  try {
    return record(spec);
  } catch (...) {  // the task is incomplete; the orchestration may ignore the error
    error_ = std::current_exception();
    throw;
  }
}

TaskId Recorder::record(const TaskSpec& spec) {
  GraphTask task{};
  task.kernel = spec.kernel;
  task.blocks = spec.blocks;
  task.start_together = spec.start_together && spec.blocks > 1;
  if (spec.predicate != nullptr) task.predicate = *spec.predicate;
  task.file = spec.file;
  task.line = spec.line;
  task.args.abi_version = PTO_ABI_VERSION;
  task.args.n_tensors = int32_t(spec.tensors.size());
  task.args.n_scalars = int32_t(spec.scalars.size());
  task.args.blocks = spec.blocks;
  graph_.tasks_.push_back(task);
  after_.emplace_back();
  followed_.clear();
  for (size_t i = 0; i < spec.tensors.size(); ++i) add_tensor(spec.tensors[i], int32_t(i));
  for (const TaskTensor& tensor : spec.tensors) follow(tensor);
  if (spec.predicate_tensor != nullptr) {
    follow(*spec.predicate_tensor);
    patch_later(*spec.predicate_tensor, spec.predicate->element, -1);
  }
  for (TaskId id : spec.after) followed_.emplace_back(int32_t(id) - 1, EdgeCause::After);
  for (const DerivedScalar& one : spec.derived) {
    graph_.derived_.push_back({graph_.scalars_.size() + size_t(one.place), graph_.steps_.size(),
                               one.steps.size(), one.kind, int32_t(graph_.tasks_.size()) - 1,
                               size_t(one.place)});
    graph_.steps_.insert(graph_.steps_.end(), one.steps.begin(), one.steps.end());
  }
  graph_.scalars_.insert(graph_.scalars_.end(), spec.scalars.begin(), spec.scalars.end());

  const auto self = int32_t(graph_.tasks_.size()) - 1;
  std::sort(followed_.begin(), followed_.end());
  const auto is_same = [](const Edge& a, const Edge& b) { return a.first == b.first; };
  followed_.erase(std::unique(followed_.begin(), followed_.end(), is_same), followed_.end());
  std::erase_if(followed_, [&](const Edge& edge) { return edge.first == self; });
  for (const auto& [earlier, cause] : followed_) after_[size_t(earlier)].emplace_back(self, cause);
  graph_.tasks_.back().predecessors = int32_t(followed_.size());
  return graph_.tasks_.size();
}

// Sets the addresses of lists, which no longer move.
void Recorder::finish() {
  if (error_) std::rethrow_exception(error_);
  const pto_tensor* tensors = graph_.tensors_.data();
  const uint64_t* scalars = graph_.scalars_.data();
  const int64_t* dims = graph_.dims_.data();
  for (pto_tensor& tensor : graph_.tensors_) {
    tensor.sizes = dims;
    tensor.strides = dims + tensor.rank;
    dims += 2 * tensor.rank;
  }
  for (size_t i = 0; i < graph_.tasks_.size(); ++i) {
    GraphTask& task = graph_.tasks_[i];
    task.args.tensors = tensors;
    task.args.scalars = scalars;
    tensors += task.args.n_tensors;
    scalars += task.args.n_scalars;
    task.first_successor = int32_t(graph_.successors_.size());
    task.n_successors = int32_t(after_[i].size());
    for (const auto& [to, cause] : after_[i]) {
      graph_.successors_.push_back(to);
      graph_.causes_.push_back(cause);
    }
  }
  for (const auto& one : allocations_) graph_.unknown_overlaps_ += one->history.unknown_overlaps();
}

TaskGraph::TaskGraph(const OrchestrationProgram& program, std::span<const pto_tensor> tensors,
                     const Numbers& scalars)
    : shapes_(shapes_of(tensors)), captured_scalars_(scalars.bits().begin(), scalars.bits().end()) {
  for (size_t i = 0; i < scalars.size(); ++i) captured_kinds_.push_back(scalars.kind(i));
  for (const pto_tensor& tensor : tensors) patched_for_.push_back(tensor.data);
  Recorder recorder(*this, tensors);
  try {
    is_frozen_ = orchestrate_into(recorder, program, tensors, scalars);
    recorder.finish();
    std::vector<bool> is_derived_of(scalars.size());
    for (const pto_step& step : steps_)
      if (step.operation == PTO_STEP_SCALAR) is_derived_of[step.value] = true;
    for (size_t i = 0; i < scalars.size(); ++i)  // scalars outside expressions may be read unseen
      is_frozen_[i] = is_frozen_[i] || !is_derived_of[i];
    derived_of_ = captured_scalars_;
    derived_values_.resize(derived_.size());
  } catch (...) {
    for (void* memory : owned_) pto_free(memory);
    throw;
  }
}

TaskGraph::~TaskGraph() {
  for (void* memory : owned_) pto_free(memory);
}

std::vector<TaskGraph::Shape> TaskGraph::shapes_of(std::span<const pto_tensor> tensors) {
  std::vector<MemoryPiece> pieces;
  for (const pto_tensor& tensor : tensors) pieces.push_back(piece_of(tensor));
  std::vector<std::unique_ptr<Allocation>> held;
  const std::vector<Allocation*> allocations = adopt_pieces(pieces, held);
  std::vector<Shape> shapes;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const pto_tensor& t = tensors[i];
    const auto first = size_t(std::find(allocations.begin(), allocations.end(), allocations[i]) -
                              allocations.begin());
    Shape shape{t.type_code, t.type_bits, t.flags, int64_t(first), 0, {}};
    shape.offset = static_cast<char*>(t.data) - static_cast<char*>(tensors[first].data);
    shape.dims.assign(t.sizes, t.sizes + t.rank);
    shape.dims.insert(shape.dims.end(), t.strides, t.strides + t.rank);
    shapes.push_back(std::move(shape));
  }
  return shapes;
}

bool TaskGraph::fits(std::span<const pto_tensor> tensors, const Numbers& scalars) const {
  if (scalars.size() != captured_scalars_.size()) return false;
  for (size_t i = 0; i < scalars.size(); ++i) {
    const ScalarNumber now = scalars[i];
    if (now.kind != captured_kinds_[i]) return false;
    if (is_frozen_[i] && now.bits != captured_scalars_[i]) return false;
  }
  return shapes_of(tensors) == shapes_;
}

// Evaluates all values before it stores any: a division by zero leaves the graph unchanged.
void TaskGraph::derive(const Numbers& scalars) {
  const std::span<const uint64_t> bits = scalars.bits();
  if (derived_.empty() || scalars.empty() || std::ranges::equal(bits, derived_of_)) return;
  for (size_t i = 0; i < derived_.size(); ++i) {
    const Derived& one = derived_[i];
    const uint64_t value = evaluate({steps_.data() + one.first_step, one.n_steps}, scalars);
    const TaskKernel* const kernel = tasks_[size_t(one.task)].kernel;
    derived_values_[i] =
        kernel == nullptr ? value : kernel->slot(one.place_in_task, {value, one.kind});
  }
  for (size_t i = 0; i < derived_.size(); ++i) scalars_[derived_[i].place] = derived_values_[i];
  std::ranges::copy(bits, derived_of_.begin());
}

void TaskGraph::patch(std::span<const pto_tensor> tensors) {
  bool is_same = true;
  for (size_t i = 0; i < tensors.size(); ++i)
    is_same = is_same && patched_for_[i] == tensors[i].data;
  if (is_same) return;
  for (const Patch& patch : patches_) {
    char* const address = static_cast<char*>(tensors[size_t(patch.argument)].data) + patch.offset;
    GraphTask& task = tasks_[size_t(patch.task)];
    if (patch.tensor < 0)
      task.predicate.element = address;
    else
      const_cast<pto_tensor*>(task.args.tensors)[patch.tensor].data = address;
  }
  for (size_t i = 0; i < tensors.size(); ++i) patched_for_[i] = tensors[i].data;
}

}  // namespace pto
