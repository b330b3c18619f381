// SPDX-License-Identifier: Apache-2.0
// compile() and Program for Python.
#include "pto/compiler/compile.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <system_error>

#include "pto/bindings/interruption.hpp"
#include "pto/bindings/module.hpp"
#include "pto/bindings/options.hpp"
#include "pto/bindings/path_text.hpp"
#include "pto/compiler/build.hpp"
#include "pto/compiler/toolchain.hpp"
#include "pto/passes/pipeline.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace pto::bindings {
namespace {

struct ProgramHandle {
  std::shared_ptr<const Program> program;
};

ProgramHandle compile_graph(const Graph& graph, const std::vector<int>& strides, nb::object dump,
                            const std::vector<std::string>& disabled, const std::string& target,
                            const std::vector<int>& writes, bool is_recorded) {
  CompileOptions options = options_from(strides, dump, disabled, target);
  options.is_recorded = is_recorded;
  options.writes = writes;
  return interruptible([&](const std::function<bool()>& stop) {
    options.interrupted = stop;
    return ProgramHandle{compile_or_interpret(graph, options)};
  });
}

Source extension(const std::string& name, const std::vector<std::string>& files,
                 const std::vector<std::string>& identity, const std::vector<std::string>& options,
                 const std::vector<std::string>& folders, const std::vector<std::string>& links,
                 bool is_apart) {
  Source source{name, ""};
  source.kind = Source::Extension;
  source.files = files;
  source.identity = identity;
  source.options = options;
  source.folders = folders;
  source.links = links;
  source.is_apart = is_apart;
  return source;
}

std::string run_build(const Build& build, bool again) {
  try {
    return interruptible([&](const std::function<bool()>& stop) {
      return despite_removal([&] { return build.run(stop, again); });
    });
  } catch (const std::system_error& error) {
    fail({"the cache folder " + build.folder() + " cannot be written: " + error.code().message(),
          "libraries are built there, once for all processes",
          "make it writable, free some space, or set PTO_CACHE_DIR to another folder"},
         ErrorKind::Runtime);
  }
}

nb::list tensors(const std::vector<TensorSpec>& specs) {
  nb::list result;
  for (const TensorSpec& spec : specs)
    result.append(nb::make_tuple(spec.name, std::string(name(spec.dtype)), tuple_from(spec.shape)));
  return result;
}

}  // namespace

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
        "writes"_a = std::vector<int>{}, "is_recorded"_a = false,
        "The program of a graph; `strides` has a stride class for each tensor input; `writes` "
        "for each output the input that becomes it, or -1. `dump(stage, text)` sees every stage. "
        "`is_recorded`: its statements tell a Recording when they run. "
        "Python's lock is free meanwhile, and Ctrl-C stops the compiler.");
  nb::class_<Stop>(m, "Stop", "Ends compilations of other threads.")
      .def(nb::init<>())
      .def("set", &Stop::set, "Ends what run() waits for, now and from now on.")
      .def("run", &Stop::run, "job"_a, "args"_a,
           "The result of job(*args), whose compilations end at set().");
  nb::class_<Build>(m, "ExtensionBuild",
                    "The library of C++ files against another package's headers.")
      .def(
          "__init__",
          [](Build* self, const std::string& name, const std::vector<std::string>& files,
             const std::vector<std::string>& identity, const std::vector<std::string>& options,
             const std::vector<std::string>& folders, const std::vector<std::string>& links,
             const std::string& folder, bool is_apart) {
            const Source source =
                extension(name, files, identity, options, folders, links, is_apart);
            new (self) Build(source, settings(), folder);
          },
          "name"_a, "files"_a, "identity"_a, "options"_a, "folders"_a, "links"_a, "folder"_a,
          "is_apart"_a = false,
          "`identity`, `options` and the text of the files decide the name in `folder`. "
          "`is_apart`: each file is compiled by itself, in less memory.")
      .def_prop_ro("path", &Build::path, "Where the library lies, or will.")
      .def_prop_ro(
          "is_there", [](const Build& build) { return build.find().has_value(); },
          "Whether it lies there, whole.")
      .def("run", &run_build, "again"_a = false,
           "Builds it unless it is there, or again, and returns its path. Python's lock is free "
           "meanwhile, and Ctrl-C stops the compiler.");
  m.def(
      "move_flags",
      [] {
        try {
          return std::string(move_flags(find_toolchain(settings()), machine().target));
        } catch (const Error&) {  // no compiler here
          return std::string();
        }
      },
      "The flags without which the compiler of kernels writes wrong moves.");
  m.def(
      "cache_directory", [] { return PathText{settings().cache_directory}; },
      "The folder of compiled kernels, as an absolute path.");
  m.def(
      "passes",
      [] {
        nb::list result;
        for (const Pass& pass : kPipeline)
          result.append(nb::make_tuple(pass.name, pass.cuts_sums, pass.reason));
        return result;
      },
      "(name, whether it cuts sums in parts, reason of its place) of each pass in order.");
}

}  // namespace pto::bindings
