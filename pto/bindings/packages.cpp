// SPDX-License-Identifier: Apache-2.0
// Packages of jitted functions for Python: programs to save, and those of a file.
#include "pto/launch/package.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>

#include "pto/bindings/interruption.hpp"
#include "pto/bindings/module.hpp"
#include "pto/bindings/options.hpp"
#include "pto/bindings/path_text.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace pto::bindings {
namespace {

SealedNumber number_from(nb::handle value) {
  SealedNumber number;
  if (value.is_none()) return number;
  number.is_fixed = true;
  if (PyFloat_Check(value.ptr())) {
    const double real = nb::cast<double>(value);
    std::memcpy(&number.bits, &real, sizeof real);
  } else {
    number.bits = PyLong_AsUnsignedLongLongMask(value.ptr());
  }
  return number;
}

nb::tuple sealed(SealedProgram program, const std::string& text, const nb::list& numbers) {
  program.text = text;
  for (nb::handle number : numbers) program.numbers.push_back(number_from(number));
  const std::string bytes = seal(program);
  return nb::make_tuple(std::string(name(program.target)), nb::bytes(bytes.data(), bytes.size()));
}

nb::tuple seal_graph(const Graph& graph, const std::vector<int>& strides,
                     const std::vector<int>& writes, const std::string& target,
                     const std::string& text, const nb::list& numbers) {
  CompileOptions options = options_from(strides, nb::none(), {}, target);
  options.writes = writes;
  SealedProgram program = interruptible([&](const std::function<bool()>& stop) {
    options.interrupted = stop;
    return compile_sealed(graph, options);
  });
  return sealed(std::move(program), text, numbers);
}

// Reads (name, dtype, shape).
std::vector<TensorSpec> specs_from(const nb::list& described) {
  std::vector<TensorSpec> specs;
  for (nb::handle one : described)
    specs.push_back({nb::cast<std::string>(one[0]), dtype_from(nb::cast<std::string>(one[1])),
                     dims_from(one[2])});
  return specs;
}

nb::tuple seal_text(const std::string& text, const std::string& function, const nb::list& inputs,
                    const nb::list& outputs, const std::vector<int>& tensors,
                    const nb::list& guards, nb::handle items, nb::handle bytes,
                    const std::string& target, const std::string& call, const nb::list& numbers) {
  ProgramSpec spec;
  spec.name = call.substr(0, call.find('('));
  spec.inputs = specs_from(inputs);
  spec.outputs = specs_from(outputs);
  for (nb::handle guard : guards)
    spec.guards.push_back({{dim_from(guard[0]), dim_from(guard[1]), nb::cast<std::string>(guard[2]),
                            static_cast<GuardKind>(nb::cast<int>(guard[3]))},
                           ""});
  for (nb::handle number : numbers)
    if (number.is_none()) spec.scalars.push_back({"", DType::F64});
  spec.launches.push_back({function, tensors, dim_from(items), dim_from(bytes)});
  CompileOptions options;
  options.target = target;
  SealedProgram program = interruptible([&](const std::function<bool()>& stop) {
    options.interrupted = stop;
    return compile_sealed(std::move(spec), text, options);
  });
  return sealed(std::move(program), call, numbers);
}

// (element type, shape, stride class) of a tensor, as Callable.describe_call() gives it.
TensorClass class_from(nb::handle about) {
  const Dims shape = dims_from(about[1]);
  uint32_t ones = 0;
  for (size_t axis = 0; axis < shape.size(); ++axis)
    ones |= static_cast<uint32_t>(is_one(shape[axis])) << axis;
  return {dtype_from(nb::cast<std::string>(about[0])), static_cast<int>(shape.size()),
          static_cast<StrideClass>(nb::cast<int>(about[2])), ones};
}

std::optional<size_t> choose(const ProgramPackage& package, const nb::list& tensors,
                             const std::vector<size_t>& among) {
  std::vector<TensorClass> classes;
  for (nb::handle about : tensors) classes.push_back(class_from(about));
  const ProgramPackage::Variant* const all = package.variants().data();
  const auto* const found = package.choose(classes, [&](const ProgramPackage::Variant& variant) {
    return std::find(among.begin(), among.end(), &variant - all) != among.end();
  });
  if (found == nullptr) return std::nullopt;
  return static_cast<size_t>(found - all);
}

}  // namespace

void bind_packages(nb::module_& m) {
  m.def(
      "seal", &seal_graph, "graph"_a, "strides"_a, "writes"_a, "target"_a, "text"_a, "numbers"_a,
      "(target, the program of a graph as bytes), as compile() makes it; `numbers` has for each "
      "parameter that is a number the value to which it is fixed, or None. The target may be that "
      "of another CPU.");
  m.def(
      "seal_text", &seal_text, "text"_a, "function"_a, "inputs"_a, "outputs"_a, "tensors"_a,
      "guards"_a, "items"_a, "bytes"_a, "target"_a, "call"_a, "numbers"_a,
      "seal() of a program that is one launch of a function of a C++ text. `inputs` and `outputs` "
      "have (name, dtype, shape); `tensors` are the places among them that the kernel gets, -1 "
      "for an absent one.");
  nb::class_<ProgramPackage>(m, "ProgramPackage", "The loaded programs of a package.")
      .def(
          "__init__",
          [](ProgramPackage* self, const PathText& shown, const nb::bytes& payload) {
            new (self) ProgramPackage(shown.text, {payload.c_str(), payload.size()});
          },
          "shown"_a, "payload"_a)
      .def_prop_ro(
          "shown", [](const ProgramPackage& self) { return PathText{self.shown()}; },
          "The name of the file.")
      .def_prop_ro(
          "texts",
          [](const ProgramPackage& package) {
            std::vector<std::string> texts;
            for (const auto& variant : package.variants()) texts.push_back(variant.text);
            return texts;
          },
          "The call that each program serves.")
      .def_prop_ro(
          "targets",
          [](const ProgramPackage& package) {
            std::vector<std::string> targets;
            for (const auto& variant : package.variants())
              targets.emplace_back(name(variant.target));
            return targets;
          },
          "The instructions that the code of each program uses.")
      .def("choose", &choose, "tensors"_a, "among"_a,
           "The number of the program, `among` these, for (dtype, shape, stride class) of the "
           "tensors, or None.")
      .def("program", [](const ProgramPackage& package, size_t number) {
        return program_object(package.variants().at(number).program);
      });
}

}  // namespace pto::bindings
