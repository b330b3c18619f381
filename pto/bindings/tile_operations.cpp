// SPDX-License-Identifier: Apache-2.0
// Tile operations in C++ that Python defines: language/tile_operation.py.
#include "pto/ir/tile_operation.hpp"

#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <map>

#include "pto/bindings/module.hpp"
#include "pto/bindings/python_lock.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace pto::bindings {
namespace {

nb::bytes bytes_of(const std::vector<double>& values) {
  return nb::bytes(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double));
}

std::vector<double> doubles_from(const nb::bytes& data) {
  std::vector<double> values(data.size() / sizeof(double));
  if (!values.empty()) std::memcpy(values.data(), data.c_str(), values.size() * sizeof(double));
  return values;
}

// The oracles, until Python ends.
std::map<std::string, nb::object>& oracles() {
  static auto* const all = new std::map<std::string, nb::object>;
  return *all;
}

std::vector<double> values_of(const std::string& name, const std::vector<std::vector<double>>& x) {
  const Locked locked;
  const auto found = oracles().find(name);
  if (found == oracles().end())
    fail({name + ": is interpreted after Python ended", "its oracle is a Python function",
          "interpret it before the end"},
         ErrorKind::Runtime);
  nb::list given;
  for (const auto& one : x) given.append(bytes_of(one));
  return doubles_from(nb::cast<nb::bytes>(found->second(given)));
}

void define(const std::string& name, const std::vector<std::string>& parameters,
            const std::string& text, const std::string& file, int line,
            const std::map<std::string, double>& tolerance, nb::object values) {
  TileCode code{name, parameters, text, {file, line}, {}, {}};
  code.tolerance = [tolerance](DType dtype) { return tolerance.at(std::string(pto::name(dtype))); };
  code.values = [name](const std::vector<std::vector<double>>& x) { return values_of(name, x); };
  register_tile_code(std::move(code));
  if (oracles().empty())
    nb::module_::import_("atexit").attr("register")(nb::cpp_function([] { oracles().clear(); }));
  oracles().emplace(name, std::move(values));
}

}  // namespace

void bind_tile_operations(nb::module_& m) {
  m.def(
      "define_tile_operation", &define, "name"_a, "parameters"_a, "text"_a, "file"_a, "line"_a,
      "tolerance"_a, "values"_a,
      "A tile operation in C++: `tolerance` by the name of an element type; `values` takes a list "
      "of the bytes of doubles, one for each parameter.");
}

}  // namespace pto::bindings
