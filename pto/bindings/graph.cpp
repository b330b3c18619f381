// SPDX-License-Identifier: Apache-2.0
// Dim, GraphBuilder and Graph for Python. Element types and operations cross as their names.
#include "pto/ir/graph.hpp"

#include <nanobind/operators.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <optional>

#include "pto/bindings/module.hpp"
#include "pto/ir/batch.hpp"
#include "pto/ir/parse.hpp"
#include "pto/ir/print.hpp"
#include "pto/ir/rebuild.hpp"
#include "pto/ir/tile_operation.hpp"
#include "pto/ir/verify.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace pto::bindings {
namespace {

// Converts an integer, NumPy's too; nullopt beyond 64 bits. Throws for anything else.
std::optional<int64_t> integer_from(nb::handle object, const char* what) {
  const nb::object number = nb::steal(PyNumber_Index(object.ptr()));
  if (!number.is_valid()) {
    PyErr_Clear();
    fail({std::string(what) + " is a value of type " + Py_TYPE(object.ptr())->tp_name,
          std::string(what) + " is a whole number", "pass an integer"},
         ErrorKind::Type);
  }
  int overflow = 0;
  const int64_t value = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  return overflow == 0 ? std::optional(value) : std::nullopt;
}

nb::object object_from(const Dim& dim) {
  return dim.is_constant() ? nb::object(nb::int_(dim.value())) : nb::cast(dim);
}

Opcode opcode_from(const std::string& name) {
  if (auto op = parse_opcode(name)) return *op;
  fail({"unknown operation '" + name + "'", "operations are the rows of isa/instructions.def",
        "use a name that pto._core.operations() lists"});
}

template <class F>
auto dim_operator(F f) {
  return [f](const Dim& a, nb::handle b) { return object_from(f(a, dim_from(b))); };
}

template <class F>
auto reflected(F f) {
  return [f](const Dim& a, nb::handle b) { return object_from(f(dim_from(b), a)); };
}

void bind_dim(nb::module_& m) {
  auto plus = [](const Dim& a, const Dim& b) { return a + b; };
  auto minus = [](const Dim& a, const Dim& b) { return a - b; };
  auto times = [](const Dim& a, const Dim& b) { return a * b; };
  // language/sizes.py adds checks of operands and the other operators.
  nb::class_<Dim>(m, "Dim", "A size known at the call: s0, or an expression over such sizes.")
      .def_static("symbol", &Dim::symbol, "index"_a)
      .def("__add__", dim_operator(plus))
      .def("__radd__", reflected(plus))
      .def("__sub__", dim_operator(minus))
      .def("__rsub__", reflected(minus))
      .def("__mul__", dim_operator(times))
      .def("__rmul__", reflected(times))
      .def("broadcast", dim_operator(&broadcast), "The size to which both broadcast.")
      .def("min", dim_operator(static_cast<Dim (*)(const Dim&, const Dim&)>(&pto::min)))
      .def("max", dim_operator(static_cast<Dim (*)(const Dim&, const Dim&)>(&pto::max)))
      .def("__floordiv__", dim_operator(&floordiv))
      .def("__rfloordiv__", reflected(&floordiv))
      .def("__mod__", dim_operator(&mod))
      .def("__rmod__", reflected(&mod))
      .def("__hash__", [](const Dim& a) { return nb::hash(nb::str(text(a).c_str())); })
      .def("__repr__", [](const Dim& a) { return text(a); })
      .def(
          "same", [](const Dim& a, nb::handle b) { return a == dim_from(b); },
          "Structural equality, never an error.")
      .def(
          "evaluate", [](const Dim& a, const std::vector<int64_t>& s) { return evaluate(a, s); },
          "symbols"_a)
      .def_prop_ro(
          "op", [](const Dim& a) { return static_cast<int>(a.op()); },
          "0 constant, 1 symbol, 2 +, 3 -, 4 *, 5 //, 6 %, 7 min, 8 max, 9 broadcast.")
      .def_prop_ro("value", &Dim::value, "Of a constant; the index of a symbol.")
      .def_prop_ro("left", [](const Dim& a) { return object_from(a.left()); })
      .def_prop_ro("right", [](const Dim& a) { return object_from(a.right()); });
}

double real_from(nb::handle object, const std::string& dtype) {
  const double value = PyFloat_AsDouble(object.ptr());
  if (value != -1.0 || PyErr_Occurred() == nullptr) return value;
  const bool is_large = PyErr_ExceptionMatches(PyExc_OverflowError);
  PyErr_Clear();
  const std::string type = Py_TYPE(object.ptr())->tp_name;
  fail({"constant: " + (is_large ? "the number does not fit " + dtype : "a value of type " + type),
        "a constant is a number that its element type holds",
        is_large ? "use a smaller number" : "pass a number"},
       is_large ? ErrorKind::Value : ErrorKind::Type);
}

nb::object constant(GraphBuilder& b, nb::handle value, const std::string& dtype) {
  const DType type = dtype_from(dtype);
  if (is_float(type) || !PyIndex_Check(value.ptr()))
    return nb::int_(b.constant(real_from(value, dtype), type));
  std::optional<int64_t> number = integer_from(value, "a constant");
  if (!number && type == DType::U64) {  // which keeps its bits
    const nb::object whole = nb::steal(PyNumber_Index(value.ptr()));
    const uint64_t bits = PyLong_AsUnsignedLongLong(whole.ptr());
    if (PyErr_Occurred() == nullptr) number = static_cast<int64_t>(bits);
    PyErr_Clear();
  }
  if (!number)
    fail({"constant: the number does not fit " + dtype,
          "a constant is a number that its element type holds", "use a smaller number"});
  return nb::int_(b.constant(*number, type));
}

nb::tuple type_of(const Type& type) {
  return nb::make_tuple(std::string(name(type.dtype)), tuple_from(type.shape));
}

// Binds what a gradient asks of programs.
using GivenHints = std::vector<std::tuple<std::string, std::vector<int64_t>, std::string>>;

std::vector<Hint> hints_from(const GivenHints& given) {
  std::vector<Hint> hints;
  for (const auto& [name, numbers, text] : given) hints.push_back({name, numbers, text});
  return hints;
}

void bind_bodies(nb::class_<GraphBuilder>& builder) {
  using B = GraphBuilder;
  builder
      .def(
          "bodies",
          [](const B& b, Value v) {
            std::vector<Graph> bodies;
            for (const auto& body : b.node(v).attributes.bodies) bodies.push_back(*body);
            return bodies;
          },
          "Of a loop, repeat or branch.")
      .def(
          "index", [](const B& b, Value v) { return b.node(v).attributes.index; }, "Of a result.")
      .def(
          "location",
          [](const B& b, Value v) {
            const auto& places = b.node(v).locations;
            return places.empty() ? std::string() : text(places[0]);
          },
          "The user's line, \"file.py:12\".")
      .def(
          "inline",
          [](B& b, const Graph& body, std::vector<Value> inputs, int free_symbol) {
            const auto outputs = inline_graph(b, body, std::move(inputs), &free_symbol);
            return nb::make_tuple(outputs, free_symbol);
          },
          "(outputs, the next free symbol) of a graph's nodes, recorded here.")
      .def(
          "inline_tile",
          [](B& b, const Graph& body, std::vector<Value> operands) {
            return inline_tile(b, body, operands);
          },
          "The result of a tile operation's body on operands of one shape.")
      .def(
          "name", [](const B& b, Value v) { return b.node(v).attributes.name; },
          "Of a parameter or a tile operation.");
}

// Binds what programs use: parts, sizes, products and loops.
void bind_parts(nb::class_<GraphBuilder>& builder) {
  using B = GraphBuilder;
  builder.def("transpose", &B::transpose)
      .def(
          "view",
          [](B& b, Value a, std::vector<Value> offsets, nb::handle shape,
             std::vector<int64_t> steps) { return b.view(a, offsets, dims_from(shape), steps); },
          nb::arg(), nb::arg(), nb::arg(), nb::arg() = std::vector<int64_t>())
      .def("update", &B::update, nb::arg(), nb::arg(), nb::arg(),
           nb::arg() = std::vector<int64_t>())
      .def("concat", &B::concat)
      .def("iota",
           [](B& b, nb::handle shape, int64_t axis) { return b.iota(dims_from(shape), axis); })
      .def("along", [](B& b, const std::string& op, std::vector<Value> operands,
                       int64_t axis) { return b.along(opcode_from(op), operands, axis); })
      .def("sort", [](B& b, const std::string& op, Value a) { return b.sort(opcode_from(op), a); })
      .def("size", &B::size, nb::arg("count"), nb::arg("symbol"), nb::arg("condition") = -1)
      .def("extent", [](B& b, nb::handle size) { return b.extent(dim_from(size)); })
      .def("matmul",
           [](B& b, Value x, Value y, const std::string& result, const std::string& precision) {
             return b.matmul(x, y, dtype_from(result), precision);
           })
      .def("loop",
           [](B& b, Value start, Value stop, Value step, std::vector<Value> carried,
              const Graph& body, std::vector<Value> others) {
             return b.loop(start, stop, step, carried, body, others);
           })
      .def("repeat",
           [](B& b, std::vector<Value> carried, const Graph& condition, const Graph& step,
              std::vector<Value> others) { return b.repeat(carried, condition, step, others); })
      .def("branch",
           [](B& b, Value condition, std::vector<Value> inputs, const Graph& then,
              const Graph& otherwise) { return b.branch(condition, inputs, then, otherwise); })
      .def("__len__", &B::count)
      .def(
          "set_hints",
          [](B& b, const GivenHints& given) {
            const std::vector<Hint> hints = hints_from(given);
            b.set_hints(hints.empty() ? nullptr : std::make_shared<const std::vector<Hint>>(hints));
          },
          "For the nodes that follow: (name, numbers, text) each.")
      .def("result", &B::result)
      .def(
          "tile",
          [](B& b, std::string name, std::vector<Value> operands,
             const std::optional<Graph>& body) {
            return b.tile(std::move(name), std::move(operands),
                          body ? std::make_shared<const Graph>(*body) : nullptr);
          },
          "name"_a, "operands"_a, "body"_a.none(), "A user's operation of elements.")
      .def("order_inputs", &B::order_inputs);
}

void bind_builder(nb::module_& m) {
  using B = GraphBuilder;
  nb::class_<B> builder(m, "GraphBuilder", "Builds a Graph; values are numbers of nodes.");
  bind_parts(builder);
  bind_bodies(builder);
  builder.def(nb::init<std::string>(), "name"_a)
      .def("set_location",
           [](B& b, std::string file, int line) {
             b.set_location({std::move(file), line});
           })
      .def("clear_location", &B::clear_location)
      .def("let_sizes_be_one", &B::let_sizes_be_one,
           "Symbols may be 1 too: broadcasting gives broadcast(a, b). For shapes only.")
      .def_prop_ro("sizes_may_be_one", &B::sizes_may_be_one)
      .def("input",
           [](B& b, std::string name, const std::string& dtype, nb::handle shape) {
             return b.input(name, dtype_from(dtype), dims_from(shape));
           })
      .def("scalar", [](B& b, std::string name,
                        const std::string& dtype) { return b.scalar(name, dtype_from(dtype)); })
      .def("constant", &constant, "value"_a.none(), "dtype"_a)
      .def("unary",
           [](B& b, const std::string& op, Value a) { return b.unary(opcode_from(op), a); })
      .def("binary", [](B& b, const std::string& op, Value x,
                        Value y) { return b.binary(opcode_from(op), x, y); })
      .def("where", &B::where)
      .def("cast",
           [](B& b, Value a, const std::string& dtype) { return b.cast(a, dtype_from(dtype)); })
      .def("reduce", [](B& b, const std::string& op, Value a,
                        std::vector<int64_t> axes) { return b.reduce(opcode_from(op), a, axes); })
      .def("broadcast",
           [](B& b, Value a, nb::handle shape) { return b.broadcast(a, dims_from(shape)); })
      .def("reshape",
           [](B& b, Value a, nb::handle shape) { return b.reshape(a, dims_from(shape)); })
      .def(
          "type", [](const B& b, Value v) { return type_of(b.type(v)); }, "(dtype, shape)")
      .def(
          "node",
          [](const B& b, Value v) {
            const Node& node = b.node(v);
            return nb::make_tuple(std::string(info(node.op).name), node.operands,
                                  node.attributes.axes);
          },
          "(operation, operands, axes)")
      .def(
          "number", [](const B& b, Value v) { return b.node(v).attributes.value; },
          "Of a constant.")
      .def("guard_equal",
           [](B& b, nb::handle x, nb::handle y, std::string because) {
             b.guard_equal(dim_from(x), dim_from(y), std::move(because));
           })
      .def("guard_nonempty",
           [](B& b, nb::handle size, std::string because) {
             b.guard_nonempty(dim_from(size), std::move(because));
           })
      .def("guard_holds",
           [](B& b, nb::handle count, std::string because) {
             b.guard_holds(dim_from(count), std::move(because));
           })
      .def("output", &B::output)
      .def("build", &B::build, "The graph; the builder is spent.");
}

nb::list input_list(const Graph& g) {
  nb::list result;
  for (Value v : g.inputs()) {
    const Node& node = g[v];
    result.append(nb::make_tuple(node.attributes.name, std::string(name(node.type.dtype)),
                                 tuple_from(node.type.shape), node.op == Opcode::scalar));
  }
  return result;
}

nb::list output_list(const Graph& g) {
  nb::list result;
  for (Value v : g.outputs()) result.append(type_of(g[v].type));
  return result;
}

nb::list origin_list(const Graph& g) {
  nb::list result;
  for (Value v : g.outputs()) {
    if (g[v].op == Opcode::result) v = g[v].operands[0];
    result.append(nb::make_tuple(std::string(info(g[v].op).name),
                                 g[v].locations.empty() ? "" : text(g[v].locations[0])));
  }
  return result;
}

nb::list guard_list(const Graph& g) {
  nb::list result;
  for (const Guard& guard : g.guards())
    result.append(nb::make_tuple(object_from(guard.a), object_from(guard.b), guard.because,
                                 static_cast<int>(guard.kind)));
  return result;
}

void bind_graphs(nb::module_& m) {
  nb::class_<Graph>(m, "Graph", "An immutable program over tensors; str() gives its text.")
      .def_static(
          "parse", [](const std::string& text) { return parse(text); }, "text"_a)
      .def("__str__", [](const Graph& g) { return print(g); })
      .def("__eq__",
           [](const Graph& a, nb::handle b) {
             return nb::isinstance<Graph>(b) && a == nb::cast<const Graph&>(b);
           })
      .def("__hash__", [](const Graph& g) { return nb::hash(nb::str(print(g).c_str())); })
      .def("verify", [](const Graph& g) { verify(g); })
      .def(
          "with_hints",
          [](const Graph& g, const GivenHints& given) { return with_hints(g, hints_from(given)); },
          "hints"_a, "The graph whose nodes have these hints where they have none of the name.")
      .def(
          "map_batch",
          [](const Graph& many, const Graph& one, const std::vector<bool>& has_batch,
             const Dim& batch) { return map_batch(many, one, has_batch, batch); },
          "one"_a, "has_batch"_a, "batch"_a,
          "Whether this is the graph `one` for each element of a batch, which the inputs marked in "
          "`has_batch` have in front: None, or which outputs have it.")
      .def_prop_ro("name", &Graph::name)
      .def_prop_ro("inputs", &input_list, "(name, dtype, shape, is_scalar) of each.")
      .def_prop_ro("outputs", &output_list, "(dtype, shape) of each.")
      .def_prop_ro(
          "output_values", [](const Graph& g) { return g.outputs(); }, "The node of each.")
      .def_prop_ro("origins", &origin_list, "(operation, user's line) that make each output.")
      .def_prop_ro("guards", &guard_list,
                   "(a, b, because, kind): sizes that must be equal, see base/size_guard.hpp.");
}

const char* family_name(Family family) {
  static constexpr const char* kNames[] = {"structure", "unary",   "binary", "compare",
                                           "select",    "convert", "reduce"};
  return kNames[static_cast<int>(family)];
}

struct OracleRow {
  std::string_view op, numpy, dtypes;
};

constexpr OracleRow kOracles[] = {
#define PTO_UNARY(mnemonic, op, value, numpy, dtypes) {#op, numpy, #dtypes},
#define PTO_BINARY(mnemonic, op, value, numpy, dtypes) {#op, numpy, #dtypes},
#define PTO_COMPARE(mode, op, value, numpy, dtypes) {#op, numpy, #dtypes},
#define PTO_SELECT(mnemonic, op, value, numpy) {#op, numpy, "kAny"},
#define PTO_CONVERT(mnemonic, op, numpy) {#op, numpy, "kAny"},
#define PTO_REDUCE(row, col, part, op, value, identity, numpy, dtypes) {#op, numpy, #dtypes},
#include "pto/isa/instructions.def"
};

// Lists (name, mnemonic, family, arity, NumPy expression, element types) of each row of the table.
nb::list operations() {
  nb::list result;
  for (const OracleRow& row : kOracles) {
    const OpcodeInfo& about = info(opcode_from(std::string(row.op)));
    result.append(nb::make_tuple(std::string(about.name), std::string(about.mnemonic),
                                 family_name(about.family), about.arity, std::string(row.numpy),
                                 std::string(row.dtypes.substr(1))));
  }
  return result;
}

// Says whether a type is "bool", "signed", "unsigned" or "float".
const char* kind_of(DType type) {
  if (is_float(type)) return "float";
  return !is_integer(type) ? "bool" : is_signed(type) ? "signed" : "unsigned";
}

struct ElementType {
  DType type;
};

void bind_dtypes(nb::module_& m) {
  const auto text = [](auto f) {
    return [f](const ElementType& of) { return std::string(f(of.type)); };
  };
  nb::class_<ElementType>(m, "ElementType", "A row of abi/dtypes.def.")
      .def_prop_ro("name", text([](DType type) { return name(type); }))
      .def_prop_ro("numpy", text(&numpy_name), "The name in NumPy and in the frameworks.")
      .def_prop_ro("cpp", text(&cpp_name), "The C++ type in kernels.")
      .def_prop_ro("kind", text(&kind_of), "bool, signed, unsigned or float.")
      .def_prop_ro("code", [](const ElementType& of) { return dlpack_type(of.type).code; })
      .def_prop_ro("bytes", [](const ElementType& of) { return bytes(of.type); });
  m.def(
      "dtypes",
      [] {
        std::vector<ElementType> all;
        for (int i = 0; i < kDTypes; ++i) all.push_back({static_cast<DType>(i)});
        return all;
      },
      "Every element type, in the order of abi/dtypes.def.");
}

}  // namespace

Dim dim_from(nb::handle object) {
  if (nb::isinstance<Dim>(object)) return nb::cast<Dim>(object);
  if (const auto size = integer_from(object, "a size")) return Dim(*size);
  fail({"a size does not fit 64 bits", "sizes are signed 64-bit numbers", "use a smaller number"});
}

Dims dims_from(nb::handle sequence) {
  Dims dims;
  for (nb::handle size : sequence) dims.push_back(dim_from(size));
  return dims;
}

nb::tuple tuple_from(const Dims& dims) {
  nb::list sizes;
  for (const Dim& dim : dims) sizes.append(object_from(dim));
  return nb::tuple(sizes);
}

DType dtype_from(const std::string& type_name) {
  if (auto dtype = parse_dtype(type_name)) return *dtype;
  std::string known;
  for (int i = 0; i < kDTypes; ++i) known += " " + std::string(name(static_cast<DType>(i)));
  fail({"unknown element type '" + type_name + "'", "an element type is known by its name",
        "use one of" + known},
       ErrorKind::Type);
}

void bind_graph(nb::module_& m) {
  bind_dim(m);
  bind_builder(m);
  bind_graphs(m);
  m.def("operations", &operations,
        "(name, mnemonic, family, arity, NumPy expression, element types) of every operation.");
  bind_dtypes(m);
}

}  // namespace pto::bindings
