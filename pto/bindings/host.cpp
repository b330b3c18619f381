// SPDX-License-Identifier: Apache-2.0
// The host engine for Python: memory, programs, tasks, runs; and the worker that runs Python.
#include <nanobind/ndarray.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <map>
#include <memory>
#include <optional>

#include "pto/bindings/module.hpp"
#include "pto/bindings/run_arguments.hpp"
#include "pto/bindings/task_programs.hpp"
#include "pto/bindings/traces.hpp"
#include "pto/runtime/host/child_process.hpp"
#include "pto/runtime/host/host_engine.hpp"
#include "pto/runtime/host/serve.hpp"
#include "pto/runtime/tasks/orchestrate.hpp"
#include "pto/runtime/tasks/trace.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace pto::bindings {
namespace {

ProgramImage image_of(const ChipProgram& program, const std::string& name) {
  ProgramImage image;
  image.kind = ProgramKind::Orchestration;
  image.name = name;
  std::map<const Library*, uint32_t> numbers;
  const auto number_of = [&](const CompiledFunctions& code) {
    const auto [it, is_new] =
        numbers.try_emplace(code.code.library.get(), uint32_t(image.codes.size()));
    if (is_new) image.codes.push_back({code.name, code.code.library->object(), code.functions});
    return it->second;
  };
  number_of(program.code.at(0));
  for (size_t i = 0; i < program.symbols.size(); ++i) {
    const auto& [kernel, function] = program.symbols[i];
    image.kernels.push_back({kernel, number_of(program.code.at(i + 1)), function});
  }
  return image;
}

ProgramImage image_of_kernel(const CompiledFunctions& code, const std::string& symbol) {
  ProgramImage image;
  image.kind = ProgramKind::Kernel;
  image.name = symbol;
  image.codes.push_back({code.name, code.code.library->object(), code.functions});
  image.kernels.push_back({symbol, 0, symbol});
  return image;
}

constexpr Access kAccess[] = {Access::Read, Access::Read, Access::Write, Access::Update};

// The arguments of one member, with the blocks that their arrays lie in.
class MemberArguments {
 public:
  MemberArguments(SharedHeap& heap, const ArgumentList& args) : arguments_(read(args)) {
    size_t next = 0;
    for (const auto& arg : args) {
      if (std::get<0>(arg) == kScalar) continue;
      const pto_tensor& view = arguments_.tensors()[next++];
      const MemoryPiece piece = piece_of(view);
      std::shared_ptr<SharedBlock> block = heap.find(piece.data);
      if (block == nullptr ||
          static_cast<char*>(piece.data) + piece.bytes > block->data() + block->bytes()) {
        is_shared_ = false;
        return;
      }
      tensors_.push_back({std::move(block), kAccess[std::get<0>(arg)], view});
    }
  }
  HostMember member(int device) const { return {device, tensors_, arguments_.scalars()}; }
  std::span<const HostTensor> tensors() const { return tensors_; }
  bool is_shared() const { return is_shared_; }

 private:
  RunArguments arguments_;
  std::vector<HostTensor> tensors_;
  bool is_shared_ = true;
};

using Members = std::vector<std::tuple<int, ArgumentList>>;

class PythonHost {
 public:
  static constexpr int64_t kWindow = 4096;

  PythonHost(const std::vector<int>& devices, const std::vector<std::string>& worker,
             const std::vector<std::string>& python_worker, int64_t memory_bytes, int threads) {
    HostOptions options{devices, worker, python_worker, memory_bytes, threads};
    nb::gil_scoped_release unlocked;
    engine_ = std::make_unique<HostEngine>(options);
    heap_ = engine_->heap();
  }

  // The bytes of a new block, zero; they live as long as the array.
  nb::ndarray<nb::numpy, uint8_t, nb::ndim<1>> allocate(int64_t bytes) {
    auto* const block = new std::shared_ptr<SharedBlock>(heap_->allocate(bytes));
    nb::capsule owner(
        block, [](void* p) noexcept { delete static_cast<std::shared_ptr<SharedBlock>*>(p); });
    return nb::ndarray<nb::numpy, uint8_t, nb::ndim<1>>((*block)->data(), {size_t(bytes)}, owner);
  }
  bool holds(uintptr_t address) const {
    return heap_->find(reinterpret_cast<const void*>(address)) != nullptr;
  }

  uint32_t add_program(const ChipProgram& program, const std::string& name) {
    return engine_->add_program(image_of(program, name));
  }
  uint32_t add_kernel(const CompiledFunctions& code, const std::string& symbol) {
    return engine_->add_program(image_of_kernel(code, symbol));
  }
  uint32_t add_collective(const std::string& name) {
    return engine_->add_program({ProgramKind::Collective, name, "", {}, {}});
  }
  uint32_t add_python(const std::string& name, nb::bytes payload) {
    return engine_->add_program(
        {ProgramKind::Python, name, std::string(payload.c_str(), payload.size()), {}, {}});
  }

  void begin(double deadline, const std::string& trace_path, int trace_level) {
    request_ = {trace_path, trace_level};
    trace_ = {};
    HostRunOptions options;
    options.deadline_s = deadline;
    options.window = kWindow;
    options.trace = request_.begin(trace_);
    engine_->begin_run(options);
  }

  // 0, and nothing is submitted, where an array lies in memory that workers do not see.
  TaskId submit(uint32_t program, const std::string& name, const Members& members,
                const std::vector<TaskId>& after, const std::string& site) {
    std::vector<MemberArguments> arguments;
    std::vector<HostMember> given;
    arguments.reserve(members.size());
    for (const auto& [device, args] : members) {
      arguments.emplace_back(*heap_, args);
      if (!arguments.back().is_shared()) return 0;
      given.push_back(arguments.back().member(device));
    }
    HostTaskSpec spec{};
    spec.program = program;
    spec.name = name;
    spec.members = given;
    spec.after = after;
    spec.site = site;
    nb::gil_scoped_release unlocked;
    return engine_->submit(spec);
  }

  // A task that is done when element 0 of the array compares so with the value.
  TaskId submit_gate(const ArgumentList& element, int compare, double value,
                     const std::vector<TaskId>& after, const std::string& site) {
    const MemberArguments arguments(*heap_, element);
    PTO_ASSERT(arguments.is_shared());
    const pto_tensor& view = arguments.tensors()[0].view;
    const Predicate predicate{view.data, view.type_code, view.type_bits, Compare(compare), value};
    HostTaskSpec spec{};
    spec.name = "wait";
    spec.after = after;
    spec.site = site;
    spec.gate = &predicate;
    spec.gate_holds = arguments.tensors();
    nb::gil_scoped_release unlocked;
    return engine_->submit(spec);
  }

  bool wait_task(TaskId task) {
    nb::gil_scoped_release unlocked;
    return engine_->wait_for(task);
  }
  bool wait_array(const ArgumentList& array) {
    const MemberArguments arguments(*heap_, array);
    PTO_ASSERT(arguments.is_shared());
    nb::gil_scoped_release unlocked;
    return engine_->wait_for(arguments.tensors()[0]);
  }

  nb::dict end() {
    HostReport report;
    {
      nb::gil_scoped_release unlocked;
      try {
        report = engine_->end_run();
      } catch (...) {
        request_.end(trace_);
        throw;
      }
      request_.end(trace_);
    }
    nb::dict result;
    result["tasks"] = report.tasks;
    result["edges"] = report.edges;
    result["unknown_overlaps"] = report.unknown_overlaps;
    result["replaced_workers"] = report.replaced_workers;
    if (request_.level >= 0)
      result["trace"] = ChipTrace{std::make_shared<const RunTrace>(std::move(trace_)), kWindow};
    return result;
  }

  std::vector<std::tuple<int, int, int64_t>> workers() const {
    std::vector<std::tuple<int, int, int64_t>> result;
    for (const WorkerState& worker : engine_->workers())
      result.emplace_back(worker.device, worker.pid, worker.starts);
    return result;
  }

  void close() {
    nb::gil_scoped_release unlocked;
    engine_->close();
  }
  HostEngine& engine() { return *engine_; }
  const std::shared_ptr<SharedHeap>& heap() const { return heap_; }
  int64_t taken_bytes() const { return heap_->taken_bytes(); }

 private:
  std::unique_ptr<HostEngine> engine_;
  std::shared_ptr<SharedHeap> heap_;
  TraceRequest request_{"", -1};
  RunTrace trace_;
};

// --- graphs --------------------------------------------------------------------------------------

// The tasks of a captured run. An address in one of its slots, the memory of an argument, moves
// with the slot from replay to replay; all other memory is the recording's own.
class HostRecording {
 public:
  using Slots = std::vector<std::tuple<uintptr_t, uintptr_t>>;  // begin and end
  explicit HostRecording(Slots slots) : slots_(std::move(slots)) {}

  // As PythonHost::submit(); `after` counts the recording's tasks. Returns the number of this one,
  // -1 where an array lies in memory that workers do not see.
  int64_t add(PythonHost& host, uint32_t program, const std::string& name, const Members& members,
              const std::vector<size_t>& after, const std::string& site) {
    Task task{program, name, site, after, {}, std::nullopt};
    for (const auto& [device, args] : members) {
      const MemberArguments arguments(*host.heap(), args);
      if (!arguments.is_shared()) return -1;
      const HostMember given = arguments.member(device);
      Part part{device, {}, {given.scalars.begin(), given.scalars.end()}};
      for (const HostTensor& tensor : given.tensors) part.tensors.push_back(kept(tensor));
      task.parts.push_back(std::move(part));
    }
    tasks_.push_back(std::move(task));
    return int64_t(tasks_.size()) - 1;
  }
  int64_t add_gate(PythonHost& host, const ArgumentList& element, int compare, double value,
                   const std::vector<size_t>& after, const std::string& site) {
    const MemberArguments arguments(*host.heap(), element);
    PTO_ASSERT(arguments.is_shared());
    tasks_.push_back(
        {0, "wait", site, after, {}, Gate{compare, value, kept(arguments.tensors()[0])}});
    return int64_t(tasks_.size()) - 1;
  }

  // Submits all to a run that has begun. `begins`: where each slot lies now.
  void submit(PythonHost& host, const std::vector<uintptr_t>& begins) {
    nb::gil_scoped_release unlocked;
    std::vector<TaskId> ids;
    ids.reserve(tasks_.size());
    for (const Task& task : tasks_) ids.push_back(submit_one(host, task, begins, ids));
  }
  size_t tasks() const { return tasks_.size(); }

 private:
  struct Tensor {
    int slot;  // -1: of the recording
    int64_t offset;
    HostTensor tensor;
    std::vector<int64_t> dims;
  };
  struct Part {
    int device;
    std::vector<Tensor> tensors;
    std::vector<uint64_t> scalars;
  };
  struct Gate {
    int compare;
    double value;
    Tensor element;
  };
  struct Task {
    uint32_t program;
    std::string name, site;
    std::vector<size_t> after;
    std::vector<Part> parts;
    std::optional<Gate> gate;
  };

  Tensor kept(const HostTensor& given) const {
    const pto_tensor& view = given.view;
    Tensor tensor{-1, 0, given, {view.sizes, view.sizes + view.rank}};
    tensor.dims.insert(tensor.dims.end(), view.strides, view.strides + view.rank);
    const auto at = reinterpret_cast<uintptr_t>(view.data);
    for (size_t i = 0; i < slots_.size(); ++i) {
      const auto& [begin, end] = slots_[i];
      if (at < begin || at >= end) continue;
      tensor.slot = int(i);
      tensor.offset = int64_t(at - begin);
      tensor.tensor.block.reset();  // the argument's, which the caller holds
    }
    return tensor;
  }

  static HostTensor now(PythonHost& host, const Tensor& kept,
                        const std::vector<uintptr_t>& begins) {
    HostTensor tensor = kept.tensor;
    tensor.view.sizes = kept.dims.data();
    tensor.view.strides = kept.dims.data() + tensor.view.rank;
    if (kept.slot >= 0) {
      tensor.view.data = reinterpret_cast<char*>(begins[size_t(kept.slot)]) + kept.offset;
      tensor.block = host.heap()->find(tensor.view.data);
      PTO_ASSERT(tensor.block != nullptr);
    }
    return tensor;
  }

  static TaskId submit_one(PythonHost& host, const Task& task, const std::vector<uintptr_t>& begins,
                           const std::vector<TaskId>& ids) {
    std::vector<std::vector<HostTensor>> tensors;
    std::vector<HostMember> members;
    tensors.reserve(task.parts.size());
    for (const Part& part : task.parts) {
      tensors.emplace_back();
      for (const Tensor& one : part.tensors) tensors.back().push_back(now(host, one, begins));
      members.push_back({part.device, tensors.back(), part.scalars});
    }
    std::vector<TaskId> after;
    for (size_t number : task.after) after.push_back(ids.at(number));
    HostTaskSpec spec{};
    spec.program = task.program;
    spec.name = task.name;
    spec.site = task.site;
    spec.members = members;
    spec.after = after;
    if (!task.gate) return host.engine().submit(spec);
    const HostTensor element = now(host, task.gate->element, begins);
    const Predicate predicate{element.view.data, element.view.type_code, element.view.type_bits,
                              Compare(task.gate->compare), task.gate->value};
    spec.gate = &predicate;
    spec.gate_holds = {&element, 1};
    return host.engine().submit(spec);
  }

  const Slots slots_;
  std::vector<Task> tasks_;
};

// --- the worker that runs Python -----------------------------------------------------------------

// `load(payload)` returns a function, which is called with arrays and the bits of scalars.
class PythonExecutor final : public TaskExecutor {
 public:
  explicit PythonExecutor(nb::object load) : load_(std::move(load)) {}

  void load(uint32_t program, std::span<const char> bytes) override {
    const ProgramImage image = pto::image_of(bytes);
    nb::gil_scoped_acquire locked;
    functions_[program] = nb::object(load_(nb::bytes(image.payload.data(), image.payload.size())));
  }
  void forget(uint32_t program) override {
    nb::gil_scoped_acquire locked;
    functions_.erase(program);
  }
  void run(uint32_t program, std::span<const pto_tensor> tensors, std::span<const uint64_t> scalars,
           double) override {
    nb::gil_scoped_acquire locked;
    nb::list arrays, numbers;
    for (const pto_tensor& tensor : tensors) arrays.append(array_of(tensor));
    for (uint64_t scalar : scalars) numbers.append(scalar);
    functions_.at(program)(arrays, numbers);
  }

 private:
  // bfloat16, which NumPy has not, as its bits.
  static nb::object array_of(const pto_tensor& tensor) {
    const auto code = tensor.type_code == uint8_t(nb::dlpack::dtype_code::Bfloat)
                          ? uint8_t(nb::dlpack::dtype_code::UInt)
                          : tensor.type_code;
    std::vector<size_t> shape(tensor.sizes, tensor.sizes + tensor.rank);
    nb::object array =
        nb::cast(nb::ndarray<nb::numpy>(tensor.data, size_t(tensor.rank), shape.data(),
                                        nb::handle(), tensor.strides, {code, tensor.type_bits, 1}),
                 nb::rv_policy::reference);
    if ((tensor.flags & PTO_TENSOR_READ_ONLY) != 0) array.attr("setflags")("write"_a = false);
    return array;
  }

  nb::object load_;
  std::map<uint32_t, nb::object> functions_;
};

void serve_python(int parent, int64_t mailbox_bytes, int64_t heap_bytes, int spin_us,
                  nb::object load) {
  PythonExecutor executor(std::move(load));
  nb::gil_scoped_release unlocked;
  end_with_parent(parent);
  serve({std::make_shared<SharedRegion>(3, mailbox_bytes),
         std::make_shared<SharedRegion>(4, heap_bytes), 5, spin_us},
        executor);
}

}  // namespace

void bind_host(nb::module_& m) {
  nb::class_<PythonHost>(m, "HostEngine", "Devices as worker processes over shared memory.")
      .def(nb::init<const std::vector<int>&, const std::vector<std::string>&,
                    const std::vector<std::string>&, int64_t, int>(),
           "devices"_a, "worker"_a, "python_worker"_a, "memory_bytes"_a, "threads"_a = 0)
      .def("allocate", &PythonHost::allocate, "nbytes"_a,
           "Zeroed bytes that the workers see too; they live as long as the array.")
      .def("holds", &PythonHost::holds, "address"_a)
      .def("add_program", &PythonHost::add_program, "program"_a, "name"_a)
      .def("add_kernel", &PythonHost::add_kernel, "functions"_a, "symbol"_a)
      .def("add_collective", &PythonHost::add_collective, "name"_a)
      .def("add_python", &PythonHost::add_python, "name"_a, "payload"_a)
      .def(
          "remove_program",
          [](PythonHost& self, uint32_t program) { self.engine().remove_program(program); },
          "program"_a)
      .def("begin", &PythonHost::begin, "deadline"_a = 0.0, "trace_path"_a = "",
           "trace_level"_a = -1)
      .def("submit", &PythonHost::submit, "program"_a, "name"_a, "members"_a, "after"_a, "site"_a,
           "`members`: (place of the device, arguments). Returns the task's id; 0, and nothing is "
           "submitted, where an array lies in memory that workers do not see.")
      .def("submit_gate", &PythonHost::submit_gate, "element"_a, "compare"_a, "value"_a, "after"_a,
           "site"_a, "A task that is done when the first element compares so with the value.")
      .def("wait_task", &PythonHost::wait_task, "task"_a)
      .def("wait_array", &PythonHost::wait_array, "array"_a,
           "Waits for its writers; False where one has failed.")
      .def(
          "is_done", [](PythonHost& self, TaskId task) { return self.engine().is_done(task); },
          "task"_a)
      .def(
          "has_succeeded",
          [](PythonHost& self, TaskId task) { return self.engine().has_succeeded(task); }, "task"_a,
          "Of a task of the last run.")
      .def("end", &PythonHost::end, "Waits for all; raises TaskFailure.")
      .def(
          "stop",
          [](PythonHost& self, const std::string& text, bool kills) {
            nb::gil_scoped_release unlocked;
            self.engine().stop(text, kills);
          },
          "text"_a, "kills"_a)
      .def("workers", &PythonHost::workers, "(place of the device, process, starts) of each.")
      .def("close", &PythonHost::close)
      .def_prop_ro("taken_bytes", &PythonHost::taken_bytes);
  nb::class_<HostRecording>(m, "HostRecording", "The tasks of a captured run at level host.")
      .def(nb::init<HostRecording::Slots>(), "slots"_a,
           "`slots`: addresses, begin and end, that move from replay to replay.")
      .def(
          "add", &HostRecording::add, "host"_a, "program"_a, "name"_a, "members"_a, "after"_a,
          "site"_a,
          "`after` counts the recording's tasks. Returns the task's number; -1 where an array lies "
          "in memory that workers do not see.")
      .def("add_gate", &HostRecording::add_gate, "host"_a, "element"_a, "compare"_a, "value"_a,
           "after"_a, "site"_a)
      .def("submit", &HostRecording::submit, "host"_a, "begins"_a,
           "Submits all to a run that has begun; `begins`: where each slot lies now.")
      .def_prop_ro("tasks", &HostRecording::tasks);
  m.def("serve_python", &serve_python, "parent"_a, "mailbox_bytes"_a, "heap_bytes"_a, "spin_us"_a,
        "load"_a, "The loop of a worker process that runs Python functions.");
}

}  // namespace pto::bindings
