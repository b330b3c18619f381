// SPDX-License-Identifier: Apache-2.0
#include "pto/bindings/operator_shapes.hpp"

#include <nanobind/stl/string.h>

#include <optional>
#include <vector>

#include "pto/base/size_program.hpp"
#include "pto/bindings/module.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace pto::bindings {
namespace {

std::string text_of(nb::handle value) { return nb::cast<std::string>(nb::str(value)); }

// A Python int of 64 bits; another object is a symbol of its framework.
std::optional<int64_t> known(nb::handle size) {
  if (!PyLong_Check(size.ptr())) return std::nullopt;
  int overflow = 0;
  const int64_t value = PyLong_AsLongLongAndOverflow(size.ptr(), &overflow);
  return overflow == 0 ? std::optional(value) : std::nullopt;
}

// Rules: numbers are Python objects. `symbolic` says what becomes of those that are no int: it has
// min(a, b), max(a, b), broadcast(a, b) and require_equal(a, b, because, kind).
class PythonSizes {
 public:
  PythonSizes(const pto_shapes& shapes, nb::object symbolic)
      : shapes_(shapes), symbolic_(std::move(symbolic)) {}

  nb::object number(int64_t value) const { return nb::int_(value); }

  nb::object combine(int32_t place, const nb::object& a, const nb::object& b) const {
    const auto left = known(a), right = known(b);
    if (left && right) return nb::int_(calculate_step(shapes_.dims, place, *left, *right));
    const int32_t op = shapes_.dims[place].op;
    if (right == 0 && (op == PTO_DIM_FLOORDIV || op == PTO_DIM_MOD))
      throw refused_step(shapes_.dims, place, text_of(a), "0", SizeFault::ZeroDivision);
    const nb::object size = symbolic_step(op, a, b);
    if (PyLong_Check(size.ptr()) && !known(size))
      throw refused_step(shapes_.dims, place, text_of(a), text_of(b), SizeFault::Overflow);
    return size;
  }

  void require(const pto_shape_guard& guard, const nb::object& a, const nb::object& b) const {
    const auto left = known(a), right = known(b);
    if (left && right)
      require_equal(guard, *left, *right);
    else
      symbolic_.attr("require_equal")(a, b, guard.because, guard.kind);
  }

 private:
  nb::object symbolic_step(int32_t op, const nb::object& a, const nb::object& b) const {
    switch (op) {
      case PTO_DIM_ADD:
        return checked(PyNumber_Add(a.ptr(), b.ptr()));
      case PTO_DIM_SUB:
        return checked(PyNumber_Subtract(a.ptr(), b.ptr()));
      case PTO_DIM_MUL:
        return checked(PyNumber_Multiply(a.ptr(), b.ptr()));
      case PTO_DIM_FLOORDIV:
        return checked(PyNumber_FloorDivide(a.ptr(), b.ptr()));
      case PTO_DIM_MOD:
        return checked(PyNumber_Remainder(a.ptr(), b.ptr()));
      default: {
        const char* const name = op == PTO_DIM_MIN   ? "min"
                                 : op == PTO_DIM_MAX ? "max"
                                                     : "broadcast";
        return symbolic_.attr(name)(a, b);
      }
    }
  }

  static nb::object checked(PyObject* made) {
    if (made == nullptr) throw nb::python_error();
    return nb::steal(made);
  }

  const pto_shapes& shapes_;
  const nb::object symbolic_;
};

std::vector<Dim> dims_of(const pto_shapes& shapes) {
  std::vector<Dim> dims(static_cast<size_t>(shapes.n_dims));
  DimSizes rules(shapes.dims);
  const auto symbol = [](int64_t index) { return Dim::symbol(static_cast<int>(index)); };
  evaluate_steps(shapes.dims, shapes.n_dims, symbol, rules, dims.data());
  return dims;
}

// (dtype, shape) of each output, a list of them for a list; size_at(place) is one size.
template <class SizeAt>
nb::list outputs_of(const OperatorShapes& self, SizeAt size_at) {
  nb::list outputs;
  const pto_shape* next = self.shapes->tensors;
  for (int32_t output = 0; output < self.op->n_outputs; ++output) {
    nb::list members;
    for (int32_t n = 0; n < self.shapes->counts[output]; ++n, ++next) {
      nb::list sizes;
      for (int32_t axis = 0; axis < next->rank; ++axis)
        sizes.append(size_at(static_cast<size_t>(next->sizes[axis])));
      members.append(
          nb::make_tuple(std::string(name(static_cast<DType>(next->dtype))), nb::tuple(sizes)));
    }
    outputs.append(self.op->outputs[output].is_list ? nb::object(members) : nb::object(members[0]));
  }
  return outputs;
}

nb::list evaluated(const OperatorShapes& self, nb::sequence symbols, nb::object symbolic) {
  std::vector<nb::object> given;
  for (nb::handle symbol : symbols) {
    given.push_back(nb::borrow(symbol));
    if (!symbolic.is_none()) continue;
    PyObject* const number = PyNumber_Index(symbol.ptr());
    if (number == nullptr) throw nb::python_error();
    given.back() = nb::steal(number);
    if (!known(given.back()))
      fail({std::string(self.op->name) + ": the size " + text_of(symbol) + " leaves 64 bits",
            "sizes are signed 64-bit numbers", "pass tensors of other sizes"});
  }
  PythonSizes rules(*self.shapes, std::move(symbolic));
  try {
    const std::vector<nb::object> sizes = evaluate_sizes(*self.shapes, given, rules);
    return outputs_of(self, [&](size_t place) { return sizes[place]; });
  } catch (const SizeRefusal& refusal) {
    fail({std::string(self.op->name) + ": " + refusal.what, refusal.why, refusal.fix});
  }
}

}  // namespace

void bind_operator_shapes(nb::module_& m) {
  nb::class_<OperatorShapes>(m, "OperatorShapes",
                             "Shapes of an operator's outputs for the dtypes and ranks of a call.")
      .def_prop_ro(
          "outputs",
          [](const OperatorShapes& self) {
            const std::vector<Dim> dims = dims_of(*self.shapes);
            return outputs_of(self, [&](size_t place) {
              const Dim& dim = dims[place];
              return dim.is_constant() ? nb::object(nb::int_(dim.value())) : nb::cast(dim);
            });
          },
          "(dtype, shape) of each output, a list of them for a list; sizes are int or Dim, symbols "
          "as abi/operator.h numbers them.")
      .def("evaluate", &evaluated, "symbols"_a, "symbolic"_a = nb::none(),
           "The outputs for these sizes. `symbolic` has min, max, broadcast and require_equal for "
           "sizes that are no int.");
  m.def(
      "unequal_sizes",
      [](const std::string& a, const std::string& b, const std::string& because, int kind) {
        const SizeRefusal refusal = unequal_sizes(a, b, because, kind);
        return nb::make_tuple(refusal.what, refusal.why, refusal.fix);
      },
      "a"_a, "b"_a, "because"_a, "kind"_a, "What, why and fix of two sizes that differ.");
}

}  // namespace pto::bindings
