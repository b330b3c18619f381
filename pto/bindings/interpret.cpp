// SPDX-License-Identifier: Apache-2.0
// interpret() for Python: arrays travel as (dtype, shape, bytes of doubles or of int64).
#include "pto/ir/interpret.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>

#include "pto/bindings/module.hpp"
#include "pto/ir/random_graph.hpp"
#include "pto/ir/stepper.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace pto::bindings {
namespace {

using Packed = nb::tuple;

Array array_from(nb::handle packed) {
  DType dtype = dtype_from(nb::cast<std::string>(packed[0]));
  Array array(dtype, nb::cast<std::vector<int64_t>>(packed[1]));
  auto data = nb::cast<nb::bytes>(packed[2]);
  auto size = static_cast<size_t>(array.size());
  if (data.size() != size * 8)
    fail({"interpret: an array of " + std::to_string(size) + " elements came with " +
              std::to_string(data.size()) + " bytes",
          "elements travel as 8 bytes, doubles or int64", "use pto.interpret"});
  void* target = is_float(dtype) ? static_cast<void*>(array.reals.data()) : array.integers.data();
  if (size != 0) std::memcpy(target, data.c_str(), size * 8);
  array.normalize();
  return array;
}

nb::bytes packed_doubles(const std::vector<double>& values) {
  return nb::bytes(reinterpret_cast<const char*>(values.data()), values.size() * 8);
}

Packed packed_from(const Array& array) {
  bool real = is_float(array.dtype);
  nb::bytes data = real ? packed_doubles(array.reals)
                        : nb::bytes(reinterpret_cast<const char*>(array.integers.data()),
                                    array.integers.size() * 8);
  nb::list shape;
  for (int64_t size : array.shape) shape.append(size);
  return nb::make_tuple(std::string(name(array.dtype)), nb::tuple(shape), data);
}

std::vector<Array> arrays_from(nb::handle inputs) {
  std::vector<Array> arrays;
  for (nb::handle packed : inputs) arrays.push_back(array_from(packed));
  return arrays;
}

// True where the predicate holds; what it raises ends the search.
Graph shrink_by(const Graph& graph, nb::callable fails) {
  return shrink(graph, [&](const Graph& g) { return nb::cast<bool>(fails(g)); });
}

std::optional<size_t> first_difference_of(nb::handle want, nb::handle got, nb::object bounds) {
  Bounded bounded{array_from(want), {}};
  const Array found = array_from(got);
  if (!bounds.is_none()) {
    const auto data = nb::cast<nb::bytes>(bounds);
    bounded.bounds.resize(bounded.array.size());
    if (data.size() == bounded.bounds.size() * 8 && data.size() != 0)
      std::memcpy(bounded.bounds.data(), data.c_str(), data.size());
    return first_difference(bounded, found);
  }
  for (size_t i = 0; i < found.size(); ++i)
    if (element_bits(found.dtype, found.at(i)) !=
        element_bits(bounded.array.dtype, bounded.array.at(i)))
      return i;
  return std::nullopt;
}

// Limits under which Python's signal handlers run; with_handlers() raises what they raise.
InterpretLimits interruptible_limits() {
  InterpretLimits limits;
  limits.interrupted = [] { return PyErr_CheckSignals() != 0; };
  return limits;
}

template <class Work>
auto with_handlers(const Work& work) {
  try {
    return work();
  } catch (const Error&) {
    if (PyErr_Occurred() == nullptr) throw;
  }
  throw nb::python_error();
}

}  // namespace

void bind_interpret(nb::module_& m) {
  m.def(
      "interpret",
      [](const Graph& graph, nb::list inputs, int64_t operations, int64_t elements) {
        InterpretLimits limits = interruptible_limits();
        limits.operations = operations;
        limits.elements = elements;
        const std::vector<Array> given = arrays_from(inputs);
        nb::list result;
        for (const Array& array : with_handlers([&] { return interpret(graph, given, limits); }))
          result.append(packed_from(array));
        return result;
      },
      "graph"_a, "inputs"_a, "operations"_a = InterpretLimits{}.operations,
      "elements"_a = InterpretLimits{}.elements,
      "The outputs' values by definition; pto.interpret takes arrays.");
  m.def(
      "interpret_with_bounds",
      [](const Graph& graph, nb::list inputs) {
        const std::vector<Array> given = arrays_from(inputs);
        nb::list result;
        for (const Bounded& bounded : with_handlers(
                 [&] { return interpret_with_bounds(graph, given, interruptible_limits()); }))
          result.append(nb::make_tuple(packed_from(bounded.array), packed_doubles(bounded.bounds)));
        return result;
      },
      "graph"_a, "inputs"_a, "As interpret, with how far compiled code may be off, an element.");
  nb::class_<Stepper>(m, "Stepper", "The interpreter on a graph that is still being built.")
      .def(
          "__init__",
          [](Stepper* self, const GraphBuilder& builder, nb::list inputs) {
            new (self) Stepper(builder, arrays_from(inputs), interruptible_limits());
          },
          "builder"_a, "inputs"_a, nb::keep_alive<1, 2>())
      .def(
          "value",
          [](Stepper& s, Value v) {
            return with_handlers([&] { return packed_from(s.value(v)); });
          },
          "value"_a,
          "The value of a node, as interpret() gives outputs; computes all in front of it.")
      .def(
          "size",
          [](Stepper& s, nb::handle size) {
            return with_handlers([&] { return s.size(dim_from(size)); });
          },
          "size"_a);
  m.def("first_difference", &first_difference_of, "want"_a, "got"_a, "bounds"_a = nb::none(),
        "The first element whose bits differ, or that lies outside its bound; or None. Both have "
        "one type and shape.");
  m.def("shrink", &shrink_by, "graph"_a, "fails"_a,
        "A smaller graph for which fails(graph) still holds: see ir/random_graph.hpp.");
}

}  // namespace pto::bindings
