// SPDX-License-Identifier: Apache-2.0
// The operator registry for Python: definitions in, records out, and the way back from a missing
// kernel to the Python tracer. A kernel is made without Python's lock but for the tracing itself.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include "pto/bindings/module.hpp"
#include "pto/compiler/compile.hpp"
#include "pto/op/registry.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace pto::bindings {
namespace {

constexpr const char* kKinds[] = {"Tensor", "Tensor?", "int", "float", "bool", "str"};

// Traces an operator: (index, [(dtype, shape) or None], [attribute]) -> Graph.
PyObject* tracer = nullptr;

// Adapters, each a callable(index), that hear of every operator.
nb::list* listeners = nullptr;

nb::object attribute_object(const AttributeValue& value) {
  return std::visit([](const auto& v) { return nb::cast(v); }, value);
}

// (name, kind, keyword_only, has_default, default) of each argument.
nb::list argument_list(const Schema& schema) {
  nb::list result;
  for (const Argument& argument : schema.arguments) {
    nb::object value = nb::none();
    if (argument.default_value && argument.kind != ArgumentKind::OptionalTensor) {
      value = attribute_object(*argument.default_value);
    }
    result.append(nb::make_tuple(argument.name, kKinds[static_cast<int>(argument.kind)],
                                 argument.keyword_only, argument.default_value.has_value(), value));
  }
  return result;
}

nb::tuple schema_tuple(const std::string& text) {
  const Schema schema = parse_schema(text);
  nb::list outputs;
  for (const std::string& output : schema.returns) outputs.append(output);
  return nb::make_tuple(schema.name, argument_list(schema), outputs, pto::text(schema));
}

// Calls the tracer; Python's lock is held.
nb::object trace(int index, nb::list tensors, nb::list attributes) {
  if (tracer == nullptr) {
    fail({"no tracer of operators is installed", "pto.language.op installs it", "import pto.ops"},
         ErrorKind::Runtime);
  }
  return nb::handle(tracer)(index, tensors, attributes);
}

nb::list tensor_list(const KernelRequest& request) {
  nb::list tensors;
  int next_symbol = 0;
  uint32_t next_word = 0;
  const int count = pto_operator_at(request.op)->n_tensors;
  for (int i = 0; i < count; ++i) {
    if ((request.given >> i & 1) == 0) {
      tensors.append(nb::none());
      continue;
    }
    const TensorClass kind = tensor_class(request.signature.words[next_word++]);
    const Dims shape = kind.symbolic_shape(&next_symbol);
    tensors.append(nb::make_tuple(std::string(name(kind.dtype)), tuple_from(shape)));
  }
  return tensors;
}

// The graph of a request, traced in Python, or a C++ exception with the Python error's text.
Graph traced_graph(const KernelRequest& request) {
  const nb::gil_scoped_acquire locked;
  try {
    nb::list attributes;
    for (const AttributeValue& value : request.attributes) {
      attributes.append(attribute_object(value));
    }
    return nb::cast<Graph>(trace(request.op, tensor_list(request), attributes));
  } catch (nb::python_error& error) {
    const std::string text = nb::str(error.value()).c_str();
    throw std::runtime_error(text);
  }
}

// Ctrl-C: stops the compiler, and stays pending for the interpreter, since the error itself
// travels through the framework as text.
bool interrupted() {
  const nb::gil_scoped_acquire locked;
  if (PyErr_CheckSignals() == 0) return false;
  PyErr_Clear();
  PyErr_SetInterrupt();
  return true;
}

std::shared_ptr<const Program> make_kernel(const KernelRequest& request) {
  if (!Py_IsInitialized()) {
    fail({"a kernel was asked for after Python ended", "kernels are traced in Python",
          "call the operator once before the end"},
         ErrorKind::Runtime);
  }
  const Graph graph = traced_graph(request);
  CompileOptions options;
  for (uint32_t i = 0; i < request.signature.count; ++i) {
    options.strides.push_back(tensor_class(request.signature.words[i]).strides);
  }
  options.interrupted = interrupted;
  return compile(graph, options);
}

// An operator whose name begins with "_" belongs to who defined it; adapters do not hear of it.
bool is_public(int index) { return pto_operator_at(index)->name[0] != '_'; }

void announce(int index) {
  for (nb::handle listener : *listeners) {
    for (int i = index; i < pto_operator_count(); ++i) {
      if (is_public(i)) listener(i);
    }
  }
}

void listen(nb::object listener) {
  listeners->append(listener);
  for (int i = 0; i < pto_operator_count(); ++i) {
    if (is_public(i)) listener(i);
  }
}

nb::dict record(int index) {
  const pto_operator* op = pto_operator_at(index);
  if (op == nullptr) throw nb::index_error("no operator has this index");
  nb::list saved, wanted;
  for (int i = 0; i < op->n_saved; ++i) saved.append(op->saved[i]);
  for (int i = 0; i < op->n_wanted; ++i) wanted.append(op->wanted[i]);
  nb::dict result;
  result["index"] = index;
  result["name"] = op->name;
  result["schema"] = op->schema;
  result["arguments"] = argument_list(operator_schema(index));
  result["outputs"] = op->n_outputs;
  result["gradient"] = op->gradient;
  result["saved"] = saved;
  result["wanted"] = wanted;
  return result;
}

}  // namespace

void bind_operators(nb::module_& m) {
  set_kernel_provider(make_kernel);
  listeners = new nb::list;  // as long as the process
  m.def("parse_schema", &schema_tuple, "schema"_a,
        "(name, [(name, type, keyword only, has default, default)], [output], schema).");
  m.def(
      "define_operator",
      [](std::string schema, std::string gradient_schema, std::vector<int32_t> saved,
         std::vector<int32_t> wanted) {
        return define_operator(
            {std::move(schema), std::move(gradient_schema), std::move(saved), std::move(wanted)});
      },
      "schema"_a, "gradient_schema"_a = "", "saved"_a = std::vector<int32_t>{},
      "wanted"_a = std::vector<int32_t>{},
      "Adds an operator, and its gradient operator with the next index; see op/operator.h.");
  m.def("announce_operators", &announce, "index"_a,
        "Tells the listeners of the operators from this index on, once they can be traced.");
  m.def("on_operator", &listen, "listener"_a,
        "Calls listener(index) for every operator: those announced already and those to come.");
  m.def(
      "kernel_count", [] { return kernel_table().size(); },
      "How many kernels this process has compiled or loaded.");
  m.def("operator_count", &pto_operator_count, "How many operators are defined.");
  m.def("operator_record", &record, "index"_a, "What op/operator.h says of an operator.");
  m.def(
      "set_operator_tracer",
      [](nb::object callable) {
        Py_XDECREF(tracer);
        tracer = callable.release().ptr();
      },
      "callable"_a, "callable(index, [(dtype, shape) or None], [attribute]) -> Graph.");
  m.def("trace_operator", &trace, "index"_a, "tensors"_a, "attributes"_a,
        "The graph of an operator for tensors of these dtypes and shapes, by the tracer.");
}

}  // namespace pto::bindings
