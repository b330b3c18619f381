// SPDX-License-Identifier: Apache-2.0
// Runs of tasks for Python: compiled sources, programs of the chip engine, run_chip().
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <tuple>

#include "pto/bindings/interruption.hpp"
#include "pto/bindings/module.hpp"
#include "pto/bindings/path_text.hpp"
#include "pto/bindings/python_lock.hpp"
#include "pto/bindings/run_arguments.hpp"
#include "pto/bindings/task_programs.hpp"
#include "pto/bindings/traces.hpp"
#include "pto/compiler/load.hpp"
#include "pto/compiler/target.hpp"
#include "pto/tasks/cores/abandon.hpp"
#include "pto/tasks/cores/checker.hpp"
#include "pto/tasks/cores/graph.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace pto::bindings {
namespace {

CompiledFunctions compile_functions(const std::string& name, const std::string& text,
                                    const std::vector<std::string>& functions,
                                    const std::string& target, bool orchestration, nb::bytes object,
                                    const std::string& standard, const PathText& cache_directory) {
  CompileOptions options;
  options.standard = standard;
  options.target = target;
  options.object.assign(object.c_str(), object.size());
  options.cache_directory = cache_directory.text;
  CompiledFunctions compiled{name, functions, std::string(pto::name(target_of(options))), {}};
  compiled.code = interruptible([&](const std::function<bool()>& stop) {
    options.interrupted = stop;
    return compile_text(name, text, functions, options,
                        orchestration ? TextForm::Orchestration : TextForm::Kernels);
  });
  return compiled;
}

CompiledFunctions load_functions(const std::string& name, nb::bytes object,
                                 const std::vector<std::string>& functions) {
  return {name, functions, "", load_text(name, {object.c_str(), object.size()}, functions)};
}

using ProgramKernel = std::tuple<std::vector<std::string>, CompiledFunctions, std::string>;

ChipProgram make_program(const CompiledFunctions& orchestration,
                         const std::vector<ProgramKernel>& kernels) {
  ChipProgram made;
  made.program.orchestrate = reinterpret_cast<int32_t (*)(const pto_runtime_api*, const pto_args*)>(
      reinterpret_cast<void (*)()>(orchestration.code.functions.at(0)));
  made.code.push_back(orchestration);
  for (const auto& [names, functions, symbol] : kernels) {
    for (const std::string& name : names)
      made.program.kernels[name] = exported_kernel(functions.find(symbol), names.at(0));
    made.code.push_back(functions);
    made.symbols.emplace_back(names, symbol);
  }
  return made;
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

// Holds all that the threads of a run with a deadline may touch. The process keeps it for ever if
// the run is abandoned, since code that has not returned may go on to use it.
struct KeptRun {
  ChipProgram program;
  RunArguments arguments;
  RunTrace trace;
};

void warn(const std::string& text) {
  const Locked locked;
  if (PyErr_WarnEx(PyExc_RuntimeWarning, text.c_str(), 1) != 0) PyErr_WriteUnraisable(nullptr);
}

// Runs until the deadline; Ctrl-C ends the run as the deadline does.
nb::dict run_until_deadline(const std::shared_ptr<KeptRun>& kept, RunOptions options,
                            const TraceRequest& request) {
  Raised raised;
  const auto is_interrupted = [&raised] { return has_raised(&raised); };
  RunReport report;
  try {
    const Unlocked unlocked;
    options.trace = request.begin(kept->trace);
    try {
      report = run_contained(kept->program.program, kept->arguments.tensors(),
                             kept->arguments.scalars(), options, kept, {is_interrupted, warn});
    } catch (const AbandonedRun& error) {  // abandoned threads still write to its trace
      if (raised) warn(error.what());
      throw;
    } catch (...) {
      request.end_failed(kept->trace);
      throw;
    }
    request.end(kept->trace);
  } catch (...) {
    if (!raised) throw;
  }
  if (raised) throw std::move(*raised);
  return with_trace(counts(report), request, std::move(kept->trace), options.window);
}

nb::dict run_chip(const ChipProgram& program, const ArgumentList& args, int workers, int64_t window,
                  double deadline, const PathText& trace_path, int trace_level) {
  RunArguments arguments = read(args);
  const TraceRequest request{trace_path.text, trace_level};
  RunTrace trace;
  RunOptions options;
  options.workers = workers;
  options.window = window;
  options.deadline_s = deadline;
  if (deadline > 0)
    return run_until_deadline(std::make_shared<KeptRun>(program, std::move(arguments), RunTrace{}),
                              options, request);
  options.trace = request.begin(trace);
  RunReport report;
  {
    const Unlocked unlocked;
    report = request.write_after(trace, [&] {
      return run_orchestration(program.program, arguments.tensors(), arguments.scalars(), options);
    });
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
    const Unlocked unlocked;
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

// A captured graph; keeps the code of its kernels loaded.
class ChipGraph {
 public:
  ChipGraph(const ChipProgram& program, const ArgumentList& args) : program_(program) {
    const RunArguments arguments = read(args);
    const Unlocked unlocked;
    graph_ =
        std::make_unique<TaskGraph>(program_.program, arguments.tensors(), arguments.scalars());
  }

  // Returns the counts of a replay, or None if the arguments are not like those of the capture.
  nb::object replay(const ArgumentList& args, int workers, const PathText& trace_path,
                    int trace_level) {
    const RunArguments arguments = read(args);
    if (!graph_->fits(arguments.tensors(), arguments.scalars())) return nb::none();
    const TraceRequest request{trace_path.text, trace_level};
    RunTrace trace;
    RunOptions options;
    options.workers = workers;
    options.trace = request.begin(trace);
    RunReport report;
    {
      const Unlocked unlocked;
      report = request.write_after(
          trace, [&] { return graph_->replay(arguments.tensors(), options, arguments.scalars()); });
    }
    return with_trace(counts(report), request, std::move(trace), options.window);
  }
  const TaskGraph& graph() const { return *graph_; }

  // Returns (kernel, site) of each task, and (earlier, later) of each edge.
  nb::tuple nodes() const {
    const std::span<const GraphTask> tasks = graph_->all_tasks();
    nb::list names, edges;
    for (size_t i = 0; i < tasks.size(); ++i) {
      const GraphTask& task = tasks[i];
      const std::string file = task.file == nullptr ? "" : task.file;
      names.append(nb::make_tuple(task.kernel == nullptr ? "" : task.kernel->name,
                                  file.empty() ? file : file + ":" + std::to_string(task.line)));
      for (int32_t later : graph_->all_successors().subspan(size_t(task.first_successor),
                                                            size_t(task.n_successors)))
        edges.append(nb::make_tuple(i, later));
    }
    return nb::make_tuple(names, edges);
  }

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
             const std::vector<ProgramKernel>& kernels) {
            new (self) ChipProgram(make_program(orchestration, kernels));
          },
          "orchestration"_a, "kernels"_a,
          "`kernels`: (names for submit, functions, symbol); errors tell the first name. The "
          "orchestration is the first function of its source.");
  nb::class_<ChipGraph>(m, "ChipGraph", "A program captured on arguments: it runs nothing.")
      .def(nb::init<const ChipProgram&, const ArgumentList&>(), "program"_a, "args"_a)
      .def("replay", &ChipGraph::replay, "args"_a, "workers"_a = 0, "trace_path"_a = "",
           "trace_level"_a = -1,
           "Runs it on arguments like those of the capture and reports counts, as run_chip does; "
           "else None.")
      .def_prop_ro("tasks", [](const ChipGraph& self) { return self.graph().tasks(); })
      .def_prop_ro("edges", [](const ChipGraph& self) { return self.graph().edges(); })
      .def("nodes", &ChipGraph::nodes,
           "(kernel, site) of each task, and (earlier, later) of each edge.")
      .def_prop_ro(
          "nbytes", [](const ChipGraph& self) { return self.graph().bytes(); },
          "Memory of its own, for the tensors that the orchestration allocated.");
  m.def(
      "compile_functions", &compile_functions, "name"_a, "text"_a, "functions"_a, "target"_a = "",
      "orchestration"_a = false, "object"_a = nb::bytes(""), "standard"_a = "c++17",
      "cache_directory"_a = "",
      "Compiles C++ text, or takes it from the cache; `object`: the bytes of another compiler's "
      "that belongs to it; `standard`: the language level; `cache_directory`: \"\" is that of the "
      "settings. Python's lock is free meanwhile.");
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
        "Python's lock is free meanwhile. Where code has not returned soon after the deadline, its "
        "run is abandoned and goes on.");
  m.def("abandoned_runs", &abandoned_runs, "Runs that were abandoned and have not returned yet.");
}

}  // namespace pto::bindings
