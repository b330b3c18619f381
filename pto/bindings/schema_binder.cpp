// SPDX-License-Identifier: Apache-2.0
#include "pto/bindings/schema_binder.hpp"

#include <algorithm>

namespace pto::bindings {

SchemaBinder::SchemaBinder(const pto_operator& op, PyObject* policy)
    : op_(op), policy_(Py_NewRef(policy)), name_(checked(PyUnicode_FromString(op.name)).release()) {
  for (int i = 0; i < op.n_arguments; ++i) {
    const pto_operator_argument& argument = op.arguments[i];
    const Ref name = checked(PyUnicode_InternFromString(argument.name));
    parameters_.add(name.get(), nullptr, argument.default_value == nullptr,
                    (argument.flags & PTO_ARGUMENT_KEYWORD_ONLY) != 0);
  }
  const auto is_made_alone = [](const pto_operator_output& one) {
    return one.is_list == 0 && one.replaces < 0 && one.is_bounded == 0;
  };
  if (!std::all_of(op.outputs, op.outputs + op.n_outputs, is_made_alone)) parameters_.refuse_out();
}

SchemaBinder::~SchemaBinder() { Py_DECREF(policy_), Py_DECREF(name_); }

PyObject* SchemaBinder::call(const Passed& passed, const char** instead) {
  *instead = "call_otherwise";
  PyObject* slots[PTO_MAX_ARGUMENTS];
  PyObject* out = nullptr;
  if (!parameters_.bind(passed, slots, &out)) return nullptr;
  ArgumentReader reader(policy_, name_);
  OperatorArguments arguments(op_, &reader);
  for (int i = 0; i < op_.n_arguments; ++i)
    if (!arguments.add(i, slots[i], parameters_.name(i))) return nullptr;
  if (reader.tensors().empty()) return nullptr;
  OperatorRun run(op_, &arguments, reader, policy_);
  for (int output = 0; output < op_.n_outputs; ++output) {
    const int argument = op_.outputs[output].replaces;
    if (argument < 0) continue;
    const auto place = static_cast<size_t>(arguments.place(argument));
    run.replace(output,
                {&reader.tensors()[place], slots[argument], parameters_.name(argument), false});
  }
  ArgumentReader outs(policy_, name_);
  Ref named;
  if (out != nullptr) named = read_targets(out, reader, &outs, &run);
  run.run();
  return run.results();
}

Ref SchemaBinder::read_targets(PyObject* out, const ArgumentReader& reader, ArgumentReader* outs,
                               OperatorRun* run) const {
  Ref all = op_.n_returns == 1 ? checked(PyTuple_Pack(1, out)) : checked(PySequence_Tuple(out));
  outs->read_targets(all.get(), static_cast<size_t>(op_.n_returns), out, reader);
  for (int i = 0; i < op_.n_returns; ++i) {
    run->replace(i, {&outs->tensors()[static_cast<size_t>(i)], PyTuple_GET_ITEM(all.get(), i),
                     out_label(), false});
  }
  return all;
}

}  // namespace pto::bindings
