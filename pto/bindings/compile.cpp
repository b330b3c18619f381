// SPDX-License-Identifier: Apache-2.0
// compile(), explain() and Program for Python.
#include "pto/compiler/compile.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>

#include "pto/bindings/module.hpp"
#include "pto/bindings/python_lock.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace pto::bindings {
namespace {

struct ProgramHandle {
  std::shared_ptr<const Program> program;
};

// Handles Ctrl-C: stops the compiler, and raises afterwards what Python's handler raised.
struct Interruption {
  std::optional<nb::python_error> raised;

  bool operator()() {
    const Locked locked;
    if (PyErr_CheckSignals() != 0) raised.emplace();
    return raised.has_value();
  }
};

CompileOptions options_from(const std::vector<int>& strides, nb::handle dump,
                            const std::vector<std::string>& disabled, const std::string& target) {
  CompileOptions options;
  for (int value : strides) options.strides.push_back(static_cast<StrideClass>(value));
  options.disabled_passes = disabled;
  options.target = target;
  if (!dump.is_none())
    options.dump = [dump](const std::string& stage, const std::string& text) {
      const Locked locked;
      dump(stage, text);
    };
  return options;
}

ProgramHandle compile_graph(const Graph& graph, const std::vector<int>& strides, nb::object dump,
                            const std::vector<std::string>& disabled, const std::string& target) {
  CompileOptions options = options_from(strides, dump, disabled, target);
  Interruption interruption;
  options.interrupted = [&interruption] { return interruption(); };
  try {
    const Unlocked unlocked;
    return {compile_or_interpret(graph, options)};
  } catch (...) {
    if (!interruption.raised) throw;
  }
  throw std::move(*interruption.raised);
}

void explain_graph(const Graph& graph, nb::object dump, const std::vector<int>& strides,
                   const std::vector<std::string>& disabled, const std::string& target) {
  explain(graph, options_from(strides, dump, disabled, target));
}

nb::list tensors(const std::vector<TensorSpec>& specs) {
  nb::list result;
  for (const TensorSpec& spec : specs)
    result.append(nb::make_tuple(spec.name, std::string(name(spec.dtype)), tuple_from(spec.shape)));
  return result;
}

}  // namespace

nb::object program_object(std::shared_ptr<const Program> program) {
  return nb::cast(ProgramHandle{std::move(program)});
}

std::shared_ptr<const Program> program_from(nb::handle object) {
  return nb::cast<const ProgramHandle&>(object).program;
}

void bind_compile(nb::module_& m) {
  nb::class_<ProgramHandle>(m, "Program", "A compiled graph.")
      .def_prop_ro("name", [](const ProgramHandle& p) { return p.program->spec().name; })
      .def_prop_ro(
          "inputs", [](const ProgramHandle& p) { return tensors(p.program->spec().inputs); },
          "(name, dtype, shape) of each.")
      .def_prop_ro("outputs",
                   [](const ProgramHandle& p) { return tensors(p.program->spec().outputs); })
      .def_prop_ro("temporaries",
                   [](const ProgramHandle& p) { return tensors(p.program->spec().temporaries); })
      .def_prop_ro("launches",
                   [](const ProgramHandle& p) { return p.program->spec().launches.size(); });
  m.def("compile", &compile_graph, "graph"_a, "strides"_a = std::vector<int>{},
        "dump"_a = nb::none(), "disabled"_a = std::vector<std::string>{}, "target"_a = "",
        "The program of a graph; `strides` has a stride class for each tensor input. `dump(stage, "
        "text)` sees every stage. Python's lock is free meanwhile, and Ctrl-C stops the compiler.");
  m.def("explain", &explain_graph, "graph"_a, "dump"_a, "strides"_a = std::vector<int>{},
        "disabled"_a = std::vector<std::string>{}, "target"_a = "",
        "Calls dump(stage, text) for every stage; compiles nothing.");
}

}  // namespace pto::bindings
