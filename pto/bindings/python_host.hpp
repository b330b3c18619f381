// SPDX-License-Identifier: Apache-2.0
// PythonHost: the host engine for Python; HostEngine in _core.pyi documents it.
//
//     PythonHost host({0, 1}, {"/path/pto_worker"}, {}, 1 << 30, 0);
//     host.begin(0, "", -1);
//     host.submit(program, "scale", members, {}, "orch.py:7");
//     host.end();
//
// Invariant: arrays keep the blocks alive that they lie in.
// Thread safety: needs Python's lock, which functions that wait release.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "pto/bindings/path_text.hpp"
#include "pto/bindings/python_lock.hpp"
#include "pto/bindings/run_arguments.hpp"
#include "pto/bindings/task_programs.hpp"
#include "pto/bindings/traces.hpp"
#include "pto/tasks/cores/orchestrate.hpp"
#include "pto/tasks/processes/host_engine.hpp"

namespace pto::bindings {

inline ProgramImage image_of(const ChipProgram& program, const std::string& name) {
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
    const auto& [names, function] = program.symbols[i];
    image.kernels.push_back({names, number_of(program.code.at(i + 1)), function});
  }
  return image;
}

inline ProgramImage image_of_kernel(const CompiledFunctions& code, const std::string& symbol) {
  ProgramImage image;
  image.kind = ProgramKind::Kernel;
  image.name = symbol;
  image.codes.push_back({code.name, code.code.library->object(), code.functions});
  image.kernels.push_back({{symbol}, 0, symbol});
  return image;
}

inline constexpr Access kAccess[] = {Access::Read, Access::Read, Access::Write, Access::Update};

// The arguments of one member, with the blocks in which their arrays lie.
class MemberArguments {
 public:
  // `kernel`: what the task runs if it is a single kernel.
  MemberArguments(SharedHeap& heap, const ArgumentList& args, const TaskKernel* kernel = nullptr)
      : arguments_(read(args)) {
    if (kernel != nullptr) arguments_.fit(*kernel);
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
    const Unlocked unlocked;
    engine_ = std::make_unique<HostEngine>(options);
    heap_ = engine_->heap();
  }

  // Returns the zeroed bytes of a new block, which lives as long as the array.
  nanobind::ndarray<nanobind::numpy, uint8_t, nanobind::ndim<1>> allocate(int64_t bytes) {
    auto* const block = new std::shared_ptr<SharedBlock>(heap_->allocate(bytes));
    nanobind::capsule owner(
        block, [](void* p) noexcept { delete static_cast<std::shared_ptr<SharedBlock>*>(p); });
    return nanobind::ndarray<nanobind::numpy, uint8_t, nanobind::ndim<1>>((*block)->data(),
                                                                          {size_t(bytes)}, owner);
  }
  bool holds(uintptr_t address) const {
    return heap_->find(reinterpret_cast<const void*>(address)) != nullptr;
  }

  uint32_t add_program(const ChipProgram& program, const std::string& name) {
    return engine_->add_program(image_of(program, name));
  }
  uint32_t add_kernel(const CompiledFunctions& code, const std::string& symbol) {
    const uint32_t program = engine_->add_program(image_of_kernel(code, symbol));
    kernels_[program] = exported_kernel(code.find(symbol), symbol);
    return program;
  }
  uint32_t add_collective(const std::string& name) {
    return engine_->add_program({ProgramKind::Collective, name, "", {}, {}});
  }
  uint32_t add_python(const std::string& name, nanobind::bytes payload) {
    return engine_->add_program(
        {ProgramKind::Python, name, std::string(payload.c_str(), payload.size()), {}, {}});
  }

  uint64_t begin(double deadline, const PathText& trace_path, int trace_level) {
    request_ = {trace_path.text, trace_level};
    trace_ = {};
    HostRunOptions options;
    options.deadline_s = deadline;
    options.window = kWindow;
    options.trace = request_.begin(trace_);
    return engine_->begin_run(options);
  }

  // Returns 0 and submits nothing if an array lies outside shared memory.
  TaskId submit(uint32_t program, const std::string& name, const Members& members,
                const std::vector<TaskId>& after, const std::string& site) {
    std::vector<MemberArguments> arguments;
    std::vector<HostMember> given;
    arguments.reserve(members.size());
    for (const auto& [device, args] : members) {
      arguments.emplace_back(*heap_, args, kernel_of(program));
      if (!arguments.back().is_shared()) return 0;
      given.push_back(arguments.back().member(device));
    }
    HostTaskSpec spec{};
    spec.program = program;
    spec.name = name;
    spec.members = given;
    spec.after = after;
    spec.site = site;
    const Unlocked unlocked;
    return engine_->submit(spec);
  }

  // Submits a task that is done when the comparison of the array's element 0 with the value holds.
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
    const Unlocked unlocked;
    return engine_->submit(spec);
  }

  bool wait_task(TaskId task) {
    while_uninterrupted([&] { return engine_->await(task).wait_some_time(task, kSlice_s); });
    const Unlocked unlocked;
    return engine_->wait_for(task);
  }
  bool wait_array(const ArgumentList& array) {
    const MemberArguments arguments(*heap_, array);
    PTO_ASSERT(arguments.is_shared());
    bool has_succeeded = true;
    for (TaskId writer : engine_->writers_of(arguments.tensors()[0]))
      has_succeeded &= wait_task(writer);
    return has_succeeded;
  }

  nanobind::dict end() {
    while_uninterrupted([&] { return engine_->wait_some_time(kSlice_s); });
    HostReport report;
    {
      const Unlocked unlocked;
      report = request_.write_after(trace_, [&] { return engine_->end_run(); });
    }
    nanobind::dict result;
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
    const Unlocked unlocked;
    engine_->close();
  }
  void remove_program(uint32_t program) {
    kernels_.erase(program);
    engine_->remove_program(program);
  }
  // Returns the kernel if the program is a single kernel, else null.
  const TaskKernel* kernel_of(uint32_t program) const {
    const auto it = kernels_.find(program);
    return it == kernels_.end() ? nullptr : &it->second;
  }
  HostEngine& engine() { return *engine_; }
  const std::shared_ptr<SharedHeap>& heap() const { return heap_; }
  int64_t taken_bytes() const { return heap_->taken_bytes(); }

 private:
  static constexpr double kSlice_s = 0.05;

  // Waits in slices. Ctrl-C stops the run, which then ends soon; the error is raised afterwards.
  template <class Wait>
  void while_uninterrupted(const Wait& wait) {
    bool is_done = false;
    while (!is_done) {
      {
        const Unlocked unlocked;
        is_done = wait();
      }
      if (PyErr_CheckSignals() == 0) continue;
      nanobind::python_error raised;
      {
        const Unlocked unlocked;
        engine_->stop("it was interrupted", true);
      }
      throw raised;
    }
  }

  std::unique_ptr<HostEngine> engine_;
  std::shared_ptr<SharedHeap> heap_;
  std::map<uint32_t, TaskKernel> kernels_;
  TraceRequest request_{"", -1};
  RunTrace trace_;
};

}  // namespace pto::bindings
