// SPDX-License-Identifier: Apache-2.0
// HostRecording: the tasks of a captured run at level host; _core.pyi documents it.
//
//     HostRecording recording(slots);
//     recording.add(host, program, "scale", members, {}, "orch.py:7");
//     recording.submit(host, begins);          // in a run that has begun
//
// Invariant: an address inside a slot, the memory of an argument, moves with its slot from replay
// to replay; the recording keeps all other memory alive.
// Thread safety: needs Python's lock, which submit() releases.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "pto/bindings/python_host.hpp"
#include "pto/bindings/python_lock.hpp"
#include "pto/tasks/book/history.hpp"

namespace pto::bindings {

// The recorded tasks, with tensors relative to the slots of arguments.
class HostRecording {
 public:
  using Slots = std::vector<std::tuple<uintptr_t, uintptr_t>>;  // begin and end
  explicit HostRecording(Slots slots) : slots_(std::move(slots)) {}

  // Works as PythonHost::submit(), but `after` numbers the recording's tasks. Returns this task's
  // number, or -1 if an array lies outside shared memory.
  int64_t add(PythonHost& host, uint32_t program, const std::string& name, const Members& members,
              const std::vector<size_t>& after, const std::string& site) {
    Task task{program, name, site, after, {}, std::nullopt};
    for (const auto& [device, args] : members) {
      const MemberArguments arguments(*host.heap(), args, host.kernel_of(program));
      if (!arguments.is_shared()) return -1;
      const HostMember given = arguments.member(device);
      const std::span<const uint64_t> bits = given.scalars.bits();
      Part part{device, {}, {bits.begin(), bits.end()}, {}};
      for (size_t i = 0; i < bits.size(); ++i) part.kinds.push_back(given.scalars.kind(i));
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

  // Submits all tasks to a run that has begun. `begins`: the current address of each slot.
  void submit(PythonHost& host, const std::vector<uintptr_t>& begins) {
    const Unlocked unlocked;
    std::vector<TaskId> ids;
    ids.reserve(tasks_.size());
    for (const Task& task : tasks_) ids.push_back(submit_one(host, task, begins, ids));
  }
  size_t tasks() const { return tasks_.size(); }

  // Returns (name, site) of each task, and (earlier, later) of each edge, which a run infers as
  // well: HostEngine.
  std::pair<std::vector<std::pair<std::string, std::string>>,
            std::vector<std::pair<size_t, size_t>>>
  nodes() const {
    std::vector<std::pair<std::string, std::string>> names;
    std::vector<std::pair<size_t, size_t>> edges;
    std::map<const char*, History> memory;
    for (size_t i = 0; i < tasks_.size(); ++i) {
      names.emplace_back(tasks_[i].name, tasks_[i].site);
      std::set<size_t> followed(tasks_[i].after.begin(), tasks_[i].after.end());
      for (const Part& part : tasks_[i].parts)
        for (const Tensor& tensor : part.tensors)
          memory[tensor.memory].record(
              box_of(with_dims(tensor).view, tensor.memory), tensor.tensor.access, i + 1,
              [&](TaskId earlier) { followed.insert(size_t(earlier) - 1); },
              [](TaskId) { return false; });
      followed.erase(i);
      for (size_t earlier : followed) edges.emplace_back(earlier, i);
    }
    return {std::move(names), std::move(edges)};
  }

 private:
  struct Tensor {
    int slot;            // -1: memory of the recording
    const char* memory;  // of the block at the capture: tells blocks apart
    int64_t offset;
    HostTensor tensor;
    std::vector<int64_t> dims;
  };
  struct Part {
    int device;
    std::vector<Tensor> tensors;
    std::vector<uint64_t> scalars;
    std::vector<uint8_t> kinds;
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
    Tensor tensor{-1, given.block->data(), 0, given, {view.sizes, view.sizes + view.rank}};
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

  static HostTensor with_dims(const Tensor& kept) {
    HostTensor tensor = kept.tensor;
    tensor.view.sizes = kept.dims.data();
    tensor.view.strides = kept.dims.data() + tensor.view.rank;
    return tensor;
  }

  static HostTensor now(PythonHost& host, const Tensor& kept,
                        const std::vector<uintptr_t>& begins) {
    HostTensor tensor = with_dims(kept);
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
      members.push_back({part.device, tensors.back(), {part.scalars, part.kinds}});
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

}  // namespace pto::bindings
