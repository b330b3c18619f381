// SPDX-License-Identifier: Apache-2.0
// Runs of tasks for Python: compiled sources, programs of the chip engine, run_chip().
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <memory>
#include <optional>
#include <tuple>

#include "pto/bindings/module.hpp"
#include "pto/bindings/traces.hpp"
#include "pto/compiler/compile.hpp"
#include "pto/compiler/library.hpp"
#include "pto/compiler/target.hpp"
#include "pto/runtime/tasks/checker.hpp"
#include "pto/runtime/tasks/graph.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace pto::bindings {
namespace {

struct CompiledFunctions {
  std::string name;
  std::vector<std::string> functions;
  std::string target;  // "" of those that were loaded
  CompiledText code;

  pto_kernel find(const std::string& symbol) const {
    for (size_t i = 0; i < functions.size(); ++i)
      if (functions[i] == symbol) return code.functions[i];
    fail({name + ": has no function \"" + symbol + "\"",
          "functions are those that it was compiled for", "ask for one of these"});
  }
};

CompiledFunctions compile_functions(const std::string& name, const std::string& text,
                                    const std::vector<std::string>& functions,
                                    const std::string& target, bool orchestration) {
  CompileOptions options;
  options.target = target;
  std::optional<nb::python_error> raised;
  options.interrupted = [&raised] {
    nb::gil_scoped_acquire locked;
    if (PyErr_CheckSignals() != 0) raised.emplace();
    return raised.has_value();
  };
  CompiledFunctions compiled{name, functions, std::string(pto::name(target_of(options))), {}};
  try {
    nb::gil_scoped_release unlocked;
    compiled.code = compile_text(name, text, functions, options,
                                 orchestration ? TextForm::Orchestration : TextForm::Kernels);
    return compiled;
  } catch (...) {
    if (!raised) throw;
  }
  throw std::move(*raised);
}

CompiledFunctions load_functions(const std::string& name, nb::bytes object,
                                 const std::vector<std::string>& functions) {
  return {name, functions, "", load_text(name, {object.c_str(), object.size()}, functions)};
}

// Keeps the code of all its functions loaded.
struct ChipProgram {
  OrchestrationProgram program;
  std::vector<CompiledFunctions> code;
};

ChipProgram make_program(
    const CompiledFunctions& orchestration,
    const std::vector<std::tuple<std::string, CompiledFunctions, std::string>>& kernels) {
  ChipProgram made;
  made.program.orchestrate = reinterpret_cast<int32_t (*)(const pto_runtime_api*, const pto_args*)>(
      reinterpret_cast<void (*)()>(orchestration.code.functions.at(0)));
  made.code.push_back(orchestration);
  for (const auto& [name, functions, symbol] : kernels) {
    made.program.kernels[name] = {functions.find(symbol), name};
    made.code.push_back(functions);
  }
  return made;
}

enum ParamType { kScalar, kInput, kOutput, kInout };

// The arguments of one run. Arrays stay where they are.
class RunArguments {
 public:
  void add(int type, nb::handle value, const std::string& dtype, size_t index) {
    if (type == kScalar) return add_scalar(value, dtype);
    nb::ndarray<nb::ro, nb::device::cpu> array;
    if (!nb::try_cast(value, array) || array.ndim() > size_t(kBoxRank))
      fail({"argument " + std::to_string(index) +
                " is no array in the memory of this machine with "
                "at most " +
                std::to_string(kBoxRank) + " dimensions",
            "arrays are of NumPy, of PyTorch on the CPU, or have DLPack or the buffer protocol",
            "pass one of these"},
           ErrorKind::Type);
    if (type != kInput) {
      nb::ndarray<nb::device::cpu> writable;
      if (!nb::try_cast(value, writable))
        fail({"argument " + std::to_string(index) + " is an output, but its memory is read-only",
              "tasks write outputs where they lie", "pass an array that can be written"});
    }
    const size_t rank = array.ndim();
    std::vector<int64_t> dims(2 * rank);
    for (size_t k = 0; k < rank; ++k) {
      dims[k] = int64_t(array.shape(k));
      dims[rank + k] = array.stride(k);
    }
    dims_.push_back(std::move(dims));
    pto_tensor tensor{};
    tensor.data = const_cast<void*>(array.data());
    tensor.sizes = dims_.back().data();
    tensor.strides = dims_.back().data() + rank;
    tensor.rank = int32_t(rank);
    tensor.type_code = array.dtype().code;
    tensor.type_bits = array.dtype().bits;
    tensor.type_lanes = 1;
    tensor.extent_bytes = -1;
    if (type == kInput) tensor.flags |= PTO_TENSOR_READ_ONLY;
    tensors_.push_back(tensor);
    kept_.push_back(std::move(array));
  }

  std::span<const pto_tensor> tensors() const { return tensors_; }
  std::span<const uint64_t> scalars() const { return scalars_; }

 private:
  void add_scalar(nb::handle value, const std::string& dtype) {
    if (dtype == "int64") {
      scalars_.push_back(uint64_t(nb::cast<int64_t>(value)));
    } else {
      const double number = nb::cast<double>(value);
      uint64_t bits;
      std::memcpy(&bits, &number, sizeof bits);
      scalars_.push_back(bits);
    }
  }

  std::vector<std::vector<int64_t>> dims_;
  std::vector<pto_tensor> tensors_;
  std::vector<uint64_t> scalars_;
  std::vector<nb::ndarray<nb::ro, nb::device::cpu>> kept_;
};

using ArgumentList = std::vector<std::tuple<int, nb::object, std::string>>;

RunArguments read(const ArgumentList& args) {
  RunArguments arguments;
  for (size_t i = 0; i < args.size(); ++i)
    arguments.add(std::get<0>(args[i]), std::get<1>(args[i]), std::get<2>(args[i]), i);
  return arguments;
}

nb::dict counts(const RunReport& report) {
  nb::dict result;
  result["tasks"] = report.tasks;
  result["edges"] = report.edges;
  result["skipped"] = report.skipped;
  result["unknown_overlaps"] = report.unknown_overlaps;
  return result;
}

nb::dict with_trace(nb::dict result, const TraceRequest& request, RunTrace&& trace,
                    int64_t window) {
  if (request.level >= 0)
    result["trace"] = ChipTrace{std::make_shared<const RunTrace>(std::move(trace)), window};
  return result;
}

nb::dict run_chip(const ChipProgram& program, const ArgumentList& args, int workers, int64_t window,
                  double deadline, const std::string& trace_path, int trace_level) {
  const RunArguments arguments = read(args);
  const TraceRequest request{trace_path, trace_level};
  RunTrace trace;
  RunOptions options;
  options.workers = workers;
  options.window = window;
  options.deadline_s = deadline;
  options.trace = request.begin(trace);
  RunReport report;
  {
    nb::gil_scoped_release unlocked;
    try {
      report =
          run_orchestration(program.program, arguments.tensors(), arguments.scalars(), options);
    } catch (...) {
      request.end(trace);
      throw;
    }
    request.end(trace);
  }
  return with_trace(counts(report), request, std::move(trace), window);
}

nb::tuple described(const CheckedTask& task) {
  return nb::make_tuple(task.id, task.kernel, task.site);
}
nb::tuple described(const CheckedBytes& bytes) {
  return nb::make_tuple(bytes.memory, bytes.begin, bytes.end, bytes.count);
}

nb::dict check_chip(const ChipProgram& program, const ArgumentList& args) {
  const RunArguments arguments = read(args);
  CheckReport report;
  {
    nb::gil_scoped_release unlocked;
    report = check_orchestration(program.program, arguments.tensors(), arguments.scalars());
  }
  nb::list races, surplus, writes;
  for (const Race& race : report.races)
    races.append(nb::make_tuple(described(race.from), described(race.to), int(race.from_access),
                                int(race.to_access), described(race.bytes)));
  for (const SurplusEdge& edge : report.surplus)
    surplus.append(nb::make_tuple(described(edge.from), described(edge.to), edge.is_implied));
  for (const UndeclaredWrite& write : report.writes)
    writes.append(nb::make_tuple(described(write.task), int(write.kind), described(write.bytes)));
  nb::dict result;
  result["tasks"] = report.tasks;
  result["edges"] = report.edges;
  result["races"] = races;
  result["surplus"] = surplus;
  result["writes"] = writes;
  result["unexamined"] = report.unexamined;
  return result;
}

// Keeps the code of its kernels loaded.
class ChipGraph {
 public:
  ChipGraph(const ChipProgram& program, const ArgumentList& args) : program_(program) {
    const RunArguments arguments = read(args);
    nb::gil_scoped_release unlocked;
    graph_ =
        std::make_unique<TaskGraph>(program_.program, arguments.tensors(), arguments.scalars());
  }

  // The counts of a replay, or None where the arguments are not like those of the capture.
  nb::object replay(const ArgumentList& args, int workers, const std::string& trace_path,
                    int trace_level) {
    const RunArguments arguments = read(args);
    if (!graph_->fits(arguments.tensors(), arguments.scalars())) return nb::none();
    const TraceRequest request{trace_path, trace_level};
    RunTrace trace;
    RunOptions options;
    options.workers = workers;
    options.trace = request.begin(trace);
    RunReport report;
    {
      nb::gil_scoped_release unlocked;
      try {
        report = graph_->replay(arguments.tensors(), options);
      } catch (...) {
        request.end(trace);
        throw;
      }
      request.end(trace);
    }
    return with_trace(counts(report), request, std::move(trace), options.window);
  }
  const TaskGraph& graph() const { return *graph_; }

 private:
  const ChipProgram program_;
  std::unique_ptr<TaskGraph> graph_;
};

}  // namespace

void bind_tasks(nb::module_& m) {
  nb::class_<CompiledFunctions>(m, "CompiledFunctions", "The functions of one compiled source.")
      .def_ro("name", &CompiledFunctions::name)
      .def_ro("functions", &CompiledFunctions::functions)
      .def_ro("target", &CompiledFunctions::target)
      .def_prop_ro(
          "object",
          [](const CompiledFunctions& self) {
            const std::string object = self.code.library->object();
            return nb::bytes(object.data(), object.size());
          },
          "The bytes of the shared object.");
  nb::class_<ChipProgram>(m, "ChipProgram", "An orchestration with its kernels.")
      .def(
          "__init__",
          [](ChipProgram* self, const CompiledFunctions& orchestration,
             const std::vector<std::tuple<std::string, CompiledFunctions, std::string>>& kernels) {
            new (self) ChipProgram(make_program(orchestration, kernels));
          },
          "orchestration"_a, "kernels"_a,
          "`kernels`: (name for submit, functions, symbol). The orchestration is the first "
          "function of its source.");
  nb::class_<ChipGraph>(m, "ChipGraph", "A program captured on arguments: it runs nothing.")
      .def(nb::init<const ChipProgram&, const ArgumentList&>(), "program"_a, "args"_a)
      .def("replay", &ChipGraph::replay, "args"_a, "workers"_a = 0, "trace_path"_a = "",
           "trace_level"_a = -1,
           "Runs it on arguments like those of the capture and reports counts, as run_chip does; "
           "else None.")
      .def_prop_ro("tasks", [](const ChipGraph& self) { return self.graph().tasks(); })
      .def_prop_ro("edges", [](const ChipGraph& self) { return self.graph().edges(); })
      .def_prop_ro(
          "nbytes", [](const ChipGraph& self) { return self.graph().bytes(); },
          "Memory of its own, for the tensors that the orchestration allocated.");
  m.def("compile_functions", &compile_functions, "name"_a, "text"_a, "functions"_a, "target"_a = "",
        "orchestration"_a = false,
        "Compiles C++ text, or takes it from the cache. Python's lock is free meanwhile.");
  m.def("load_functions", &load_functions, "name"_a, "object"_a, "functions"_a,
        "The functions of a shared object's bytes.");
  m.def("check_chip", &check_chip, "program"_a, "args"_a,
        "Runs its tasks one after another and says what another order would do: races (task, task, "
        "access, access, bytes), surplus edges (task, task, implied), writes (task, kind, bytes). "
        "A task is (id, kernel, site), bytes are (memory, begin, end, count).");
  m.def("run_chip", &run_chip, "program"_a, "args"_a, "workers"_a = 0, "window"_a = 4096,
        "deadline"_a = 0.0, "trace_path"_a = "", "trace_level"_a = -1,
        "Runs it on (ParamType, array or number, dtype of a number) and reports counts. With a "
        "level \"trace\" is a ChipTrace, which is written to the path unless that is empty. "
        "Python's lock is free meanwhile.");
}

}  // namespace pto::bindings
