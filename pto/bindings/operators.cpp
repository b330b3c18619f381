// SPDX-License-Identifier: Apache-2.0
// The operator registry for Python: takes definitions, returns records and shapes.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "pto/bindings/module.hpp"
#include "pto/bindings/operator_providers.hpp"
#include "pto/bindings/operator_shapes.hpp"
#include "pto/operators/operator.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace pto::bindings {
namespace {

// Adapters: each (callable(index), whether it also hears of namespaced operators).
nb::list* listeners = nullptr;

const char* kind_name(ArgumentKind kind) {
  constexpr const char* kKinds[] = {"Tensor", "Tensor[]", "int", "SymInt",
                                    "float",  "bool",     "str", "int[]"};
  return kKinds[static_cast<int>(kind)];
}

nb::list argument_list(const Schema& schema, const TypeRule& types) {
  nb::list result;
  size_t tensor = 0;
  for (const Argument& argument : schema.arguments) {
    nb::dict one;
    one["name"] = argument.name;
    one["kind"] = kind_name(argument.kind);
    one["optional"] = argument.is_optional;
    one["mutable"] = !argument.alias.empty();
    one["keyword_only"] = argument.is_keyword_only;
    one["list_size"] = argument.list_size;
    one["has_default"] = argument.default_value.has_value();
    one["default"] = attribute_object(argument.default_value.value_or(std::monostate()));
    one["type"] = is_tensor(argument) ? types.arguments[tensor++] : -1;
    one["text"] = type_text(argument);
    result.append(one);
  }
  return result;
}

nb::list type_sets(const TypeRule& rule) {
  nb::list sets;
  for (const uint32_t set : rule.sets) {
    nb::list names;
    for (int d = 0; d < kDTypes; ++d) {
      if (set >> d & 1) names.append(std::string(name(static_cast<DType>(d))));
    }
    sets.append(names);
  }
  return sets;
}

nb::tuple tuple_of(const int32_t* values, int32_t count) {
  nb::list list;
  for (int32_t i = 0; i < count; ++i) list.append(values[i]);
  return nb::tuple(list);
}

nb::list output_list(const pto_operator& op) {
  nb::list outputs;
  for (int i = 0; i < op.n_outputs; ++i) {
    const pto_operator_output& output = op.outputs[i];
    nb::dict one;
    one["name"] = output.name;
    one["is_list"] = output.is_list != 0;
    one["type"] = output.type;
    one["replaces"] = output.replaces;
    one["is_differentiable"] = output.is_differentiable != 0;
    one["is_bounded"] = output.is_bounded != 0;
    outputs.append(one);
  }
  return outputs;
}

// Returns the facts of pto/schema.py, also for an operator that is not in the registry.
nb::dict facts_of(const Operator& of) {
  nb::dict result;
  result["name"] = of.schema.name;
  result["schema"] = of.plain.schema;
  result["signature"] = pto::text(of.schema, /*names_outputs=*/true);
  result["arguments"] = argument_list(of.schema, of.types);
  result["outputs"] = output_list(of.plain);
  result["n_returns"] = of.plain.n_returns;
  result["type_names"] = of.types.names;
  result["types"] = type_sets(of.types);
  return result;
}

nb::dict parsed(const std::string& schema, const std::string& types) {
  return facts_of(Operator(schema, types));
}

// Tells a listener of new operators, except names with a leading "_", which are private.
void tell(nb::handle listener, int first) {
  for (int i = first; i < pto_operator_count(); ++i) {
    const std::string_view name = pto_operator_at(i)->name;
    if (name[0] == '_') continue;
    if (nb::cast<bool>(listener[1]) || name.find("::") == name.npos) listener[0](i);
  }
}

void announce(int index) {
  for (nb::handle listener : *listeners) tell(listener, index);
}

void listen(nb::object listener, bool with_spaces) {
  listeners->append(nb::make_tuple(listener, with_spaces));
  tell((*listeners)[nb::len(*listeners) - 1], 0);
}

nb::dict record(int index) {
  const pto_operator* op = pto_operator_at(index);
  if (op == nullptr) throw nb::index_error("no operator has this index");
  nb::dict result = facts_of(operator_at(index));
  result["index"] = index;
  result["document"] = op->document;
  result["gradient"] = op->gradient;
  result["gradient_of"] = op->gradient_of;
  result["autocast"] = op->autocast;
  result["saved"] = tuple_of(op->saved, op->n_saved);
  result["wanted"] = tuple_of(op->wanted, op->n_wanted);
  return result;
}

nb::object gradient_plan(int index, const std::vector<int32_t>& counts,
                         const std::vector<int32_t>& output_counts) {
  const pto_operator* op = pto_operator_at(index);
  const bool fits = op && counts.size() == static_cast<size_t>(op->n_tensors) &&
                    output_counts.size() == static_cast<size_t>(op->n_outputs);
  if (!fits) throw nb::value_error("a gradient plan takes a count for each tensor and output");
  const auto* plan = pto_operator_gradient_plan(op, counts.data(), output_counts.data());
  if (plan == nullptr) return nb::none();
  return nb::make_tuple(plan->op, tuple_of(plan->inputs, plan->n_inputs),
                        tuple_of(plan->counts, pto_operator_at(plan->op)->n_tensors),
                        tuple_of(plan->outputs, plan->n_given),
                        tuple_of(plan->members, plan->n_given),
                        tuple_of(plan->places, plan->n_given), plan->all_needs);
}

// Describes a call for pto_operator_shapes().
struct ShapeCall {
  std::vector<pto_tensor_ref> tensors;
  std::vector<int32_t> counts;
  std::vector<AttributeValue> values;
  std::vector<pto_operator_value> plain;

  void add_tensor(nb::handle described) {
    const DType dtype = dtype_from(nb::cast<std::string>(nb::str(described[0])));
    tensors.push_back(
        {nullptr, nullptr, nullptr, nb::cast<int32_t>(described[1]), static_cast<int32_t>(dtype)});
  }

  void add_argument(nb::handle argument) {
    const size_t before = tensors.size();
    if (nb::isinstance<nb::list>(argument)) {
      for (nb::handle member : argument) add_tensor(member);
    } else if (!argument.is_none()) {
      add_tensor(argument);
    }
    counts.push_back(static_cast<int32_t>(tensors.size() - before));
  }

  static AttributeValue value_from(nb::handle value, ArgumentKind kind) {
    if (value.is_none()) return std::monostate();
    switch (kind) {
      case ArgumentKind::SymInt:
        return int64_t{0};
      case ArgumentKind::Float:
        return 0.0;
      case ArgumentKind::Bool:
        return nb::cast<bool>(value);
      case ArgumentKind::String:
        return nb::cast<std::string>(value);
      case ArgumentKind::IntList:
        return nb::cast<std::vector<int64_t>>(value);
      default:
        return nb::cast<int64_t>(value);
    }
  }
};

OperatorShapes shapes(int index, nb::list tensors, nb::list attributes) {
  const pto_operator* op = pto_operator_at(index);
  if (op == nullptr) throw nb::index_error("no operator has this index");
  ShapeCall described;
  for (nb::handle argument : tensors) described.add_argument(argument);
  size_t next = 0;
  for (const Argument& argument : operator_at(index).schema.arguments) {
    if (is_tensor(argument)) continue;
    described.values.push_back(ShapeCall::value_from(attributes[next++], argument.kind));
  }
  for (const AttributeValue& value : described.values)
    described.plain.push_back(plain_value(value));
  const pto_operator_call call{op,
                               described.tensors.data(),
                               described.counts.data(),
                               described.plain.data(),
                               nullptr,
                               nullptr,
                               nullptr,
                               nullptr};
  const pto_shapes* found = pto_operator_shapes(&call);
  if (!found) throw std::runtime_error(pto_operator_error());
  return {op, found};
}

// Spells a schema as an adapter needs it: arguments by place with other types, more keyword-only
// arguments, other returns.
std::string respelled(const std::string& of, const std::string& name, const nb::dict& types,
                      const std::vector<std::string>& appended,
                      const std::vector<std::string>& returns) {
  Schema schema = parse_schema(of);
  schema.name = name;
  for (const auto [place, type] : types) {
    Argument& one = schema.arguments.at(nb::cast<size_t>(place));
    Argument made = parse_argument(nb::cast<std::string>(type) + " " + one.name);
    made.is_keyword_only = one.is_keyword_only;
    made.default_value = one.default_value;
    one = std::move(made);
  }
  for (const std::string& argument : appended) {
    schema.arguments.push_back(parse_argument(argument));
    schema.arguments.back().is_keyword_only = true;
  }
  schema.returns.clear();
  for (const std::string& type : returns) {
    const Argument one = parse_argument(type + " result");
    schema.returns.push_back({"", one.kind == ArgumentKind::TensorList, one.alias});
  }
  return pto::text(schema);
}

void bind_schemas(nb::module_& m) {
  m.def(
      "respelled_schema", &respelled, "of"_a, "name"_a, "types"_a, "appended"_a, "returns"_a,
      "The schema with another name, other types by place, more keyword-only arguments, returns.");
  m.def(
      "inplace_schema",
      [](const std::string& of) { return pto::text(inplace_schema(parse_schema(of))); }, "of"_a,
      "The schema of NAME_, which replaces the elements of NAME's first argument.");
  m.def(
      "gradient_schema",
      [](const std::string& of, const std::vector<int32_t>& differentiable,
         const std::vector<int32_t>& saved, const std::vector<int32_t>& wanted) {
        return pto::text(gradient_schema(parse_schema(of), differentiable, saved, wanted), true);
      },
      "of"_a, "differentiable"_a, "saved"_a, "wanted"_a,
      "The schema of NAME_backward, as abi/operator.h describes it.");
}

void bind_definition(nb::module_& m) {
  using Definition = OperatorDefinition;
  nb::class_<Definition>(m, "OperatorDefinition", "See operators/registry.hpp.")
      .def(nb::init<>())
      .def_rw("schema", &Definition::schema)
      .def_rw("types", &Definition::types)
      .def_rw("document", &Definition::document)
      .def_rw("gradient_name", &Definition::gradient_name)
      .def_rw("saved", &Definition::saved)
      .def_rw("wanted", &Definition::wanted)
      .def_rw("takes_strides", &Definition::takes_strides)
      .def_rw("autocast", &Definition::autocast)
      .def_rw("bounded", &Definition::bounded)
      .def_rw("packing", &Definition::packing)
      .def(
          "set_gradient",
          [](Definition& self, const Definition& gradient) {
            self.gradient = std::make_shared<const Definition>(gradient);
          },
          "gradient"_a)
      .def("set_native", [](Definition& self) { self.native = native_providers(); });
}

}  // namespace

void bind_operators(nb::module_& m) {
  bind_schemas(m);
  bind_definition(m);
  listeners = new nb::list;  // as long as the process
  m.def("parse_schema", &parsed, "schema"_a, "types"_a = "",
        "name, schema, arguments, outputs, type_names and types of the texts.");
  m.def("define_operator", &define_operator, "definition"_a,
        "Adds an operator and the gradient operators defined with it; returns the index.");
  m.def("renew_operator", &renew_operator, "index"_a,
        "Forgets the kernels and shapes of an operator whose definition was replaced.");
  m.def("free_operator_name", &free_operator_name, "index"_a,
        "Lets another operator have the name of one that no framework was told of.");
  m.def("announce_operators", &announce, "index"_a,
        "Tells the listeners of the operators from this index on, once they can be traced.");
  m.def("on_operator", &listen, "listener"_a, "with_spaces"_a = false,
        "Calls listener(index) for every operator: those announced already and those to come; "
        "those called \"space::name\" only where asked for.");
  m.def(
      "kernel_count", [] { return kernel_table().size(); },
      "How many kernels this process has compiled or loaded.");
  m.def("operator_count", &pto_operator_count, "How many operators are defined.");
  m.def("operator_record", &record, "index"_a, "What abi/operator.h says of an operator.");
  m.def("gradient_plan", &gradient_plan, "index"_a, "counts"_a, "output_counts"_a,
        "op, inputs, counts, outputs, members, places and all_needs of a pto_gradient_plan, or "
        "None.");
  m.def(
      "set_operator_callbacks",
      [](nb::object trace, nb::object infer, nb::object source, nb::object find) {
        set_operator_callbacks(
            {std::move(trace), std::move(infer), std::move(source), std::move(find)});
        set_providers(traced_providers());
      },
      "trace"_a, "infer"_a, "source"_a, "find"_a, "See bindings/operator_providers.hpp.");
  m.def("keep_kernels", &keep_kernels, "keep"_a.none(), "targets"_a,
        "keep(key, code) gets the code of each operator's kernel that is made, for these targets; "
        "None ends that.");
  m.def("trace_operator", &trace_operator, "index"_a, "tensors"_a, "attributes"_a,
        "The graph of an operator for tensors of these (dtype, shape), None where absent, lists of "
        "them.");
  m.def("operator_shapes", &shapes, "index"_a, "tensors"_a, "attributes"_a,
        "OperatorShapes for tensors of these (dtype, rank), None where absent, lists of them.");
}

}  // namespace pto::bindings
