// SPDX-License-Identifier: Apache-2.0
// The host engine for Python: memory, programs, tasks, runs; and the worker that runs Python.
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <bit>
#include <map>
#include <memory>
#include <stdexcept>

#include "pto/bindings/host_recording.hpp"
#include "pto/bindings/module.hpp"
#include "pto/bindings/python_host.hpp"
#include "pto/bindings/python_lock.hpp"
#include "pto/tasks/processes/child_process.hpp"
#include "pto/tasks/processes/serve.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace pto::bindings {
namespace {

// --- the worker that runs Python -----------------------------------------------------------------

// Runs Python programs: `load(payload)` returns a function, called with arrays and numbers, which
// returns the text of its failure, or None.
class PythonExecutor final : public TaskExecutor {
 public:
  explicit PythonExecutor(nb::object load) : load_(std::move(load)) {}

  void load(uint32_t program, std::span<const char> bytes) override {
    const ProgramImage image = pto::image_of(bytes);
    const Locked locked;
    functions_[program] = nb::object(load_(nb::bytes(image.payload.data(), image.payload.size())));
  }
  void forget(uint32_t program) override {
    const Locked locked;
    functions_.erase(program);
  }
  void run(uint32_t program, std::span<const pto_tensor> tensors, const Numbers& scalars,
           double) override {
    const Locked locked;
    nb::list arrays, numbers;
    for (const pto_tensor& tensor : tensors) arrays.append(array_of(tensor));
    for (size_t i = 0; i < scalars.size(); ++i) numbers.append(number_of(scalars[i]));
    const nb::object failure = functions_.at(program)(arrays, numbers);
    if (!failure.is_none()) throw std::runtime_error(nb::cast<std::string>(failure));
  }

 private:
  static nb::object number_of(ScalarNumber number) {
    if (number.kind == PTO_NUMBER_SIGNED) return nb::int_(int64_t(number.bits));
    return nb::float_(std::bit_cast<double>(number.bits));
  }
  // Passes bfloat16 as its bits: NumPy does not have the type.
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
  const Unlocked unlocked;
  end_with_parent(parent);
  be_first_without_memory();
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
      .def("remove_program", &PythonHost::remove_program, "program"_a)
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
          [](PythonHost& self, const std::string& text, bool kills, uint64_t run) {
            const Unlocked unlocked;
            return self.engine().stop(text, kills, run);
          },
          "text"_a, "kills"_a, "run"_a = 0, "False where `run` is not under way; 0: any.")
      .def("workers", &PythonHost::workers, "(place of the device, process, starts) of each.")
      .def_prop_ro("is_running", [](PythonHost& self) { return self.engine().is_running(); })
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
      .def("nodes", &HostRecording::nodes,
           "(name, site) of each task, and (earlier, later) of each edge that a run has.")
      .def_prop_ro("tasks", &HostRecording::tasks);
  m.def("serve_python", &serve_python, "parent"_a, "mailbox_bytes"_a, "heap_bytes"_a, "spin_us"_a,
        "load"_a, "The loop of a worker process that runs Python functions.");
}

}  // namespace pto::bindings
