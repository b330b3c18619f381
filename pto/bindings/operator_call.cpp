// SPDX-License-Identifier: Apache-2.0
#include "pto/bindings/operator_call.hpp"

#include <algorithm>

#include "pto/bindings/operator_run.hpp"

namespace pto::bindings {

OperatorCall::OperatorCall(const pto_operator& op, PyObject* policy)
    : op_(op), policy_(Py_NewRef(policy)), name_(checked(PyUnicode_FromString(op.name)).release()) {
  for (int i = 0; i < op.n_arguments; ++i) {
    names_.push_back(checked(PyUnicode_InternFromString(op.arguments[i].name)).release());
    takes_out_ &= std::string_view(op.arguments[i].name) != "out";
  }
  for (int i = 0; i < op.n_outputs; ++i)
    takes_out_ &=
        op.outputs[i].is_list == 0 && op.outputs[i].replaces < 0 && op.outputs[i].is_bounded == 0;
}

OperatorCall::~OperatorCall() {
  Py_DECREF(policy_), Py_DECREF(name_);
  for (PyObject* name : names_) Py_DECREF(name);
}

bool OperatorCall::bind_keyword(PyObject* name, PyObject* value, Bound* bound) const {
  for (size_t i = 0; i < names_.size(); ++i) {
    if (names_[i] != name && PyUnicode_Compare(names_[i], name) != 0) continue;
    if (bound->slots[i] != nullptr) return false;
    bound->slots[i] = value;
    return true;
  }
  if (!takes_out_ || PyUnicode_CompareWithASCIIString(name, "out") != 0) return false;
  bound->out = value == Py_None ? nullptr : value;
  return true;
}

bool OperatorCall::bind(PyObject* const* args, Py_ssize_t count, PyObject* keywords,
                        Bound* bound) const {
  if (count > op_.n_arguments) return false;
  std::fill_n(bound->slots, op_.n_arguments, nullptr);
  for (Py_ssize_t i = 0; i < count; ++i) {
    if ((op_.arguments[i].flags & PTO_ARGUMENT_KEYWORD_ONLY) != 0) return false;
    bound->slots[i] = args[i];
  }
  for (Py_ssize_t i = 0; keywords != nullptr && i < PyTuple_GET_SIZE(keywords); ++i)
    if (!bind_keyword(PyTuple_GET_ITEM(keywords, i), args[count + i], bound)) return false;
  for (int i = 0; i < op_.n_arguments; ++i)
    if (bound->slots[i] == nullptr && op_.arguments[i].default_value == nullptr) return false;
  return true;
}

PyObject* OperatorCall::call(PyObject* const* args, Py_ssize_t count, PyObject* keywords) {
  Bound bound;
  if (!bind(args, count, keywords, &bound)) return nullptr;
  ArgumentReader reader(policy_, name_);
  OperatorArguments arguments(op_, &reader);
  for (int i = 0; i < op_.n_arguments; ++i)
    if (!arguments.add(i, bound.slots[i], names_[static_cast<size_t>(i)])) return nullptr;
  if (reader.tensors().empty()) return nullptr;
  OperatorRun run(op_, &arguments, reader, policy_);
  for (int output = 0; output < op_.n_outputs; ++output) {
    const int argument = op_.outputs[output].replaces;
    if (argument < 0) continue;
    const auto place = static_cast<size_t>(arguments.place(argument));
    run.replace(output, reader.tensors()[place], bound.slots[argument]);
  }
  ArgumentReader outs(policy_, name_);
  if (bound.out != nullptr) replace_all(bound.out, reader, &outs, &run);
  run.run();
  return run.results();
}

void OperatorCall::replace_all(PyObject* out, const ArgumentReader& reader, ArgumentReader* outs,
                               OperatorRun* run) const {
  static PyObject* const label = PyUnicode_InternFromString("out");
  const Ref all =
      op_.n_returns == 1 ? checked(PyTuple_Pack(1, out)) : checked(PySequence_Tuple(out));
  if (PyTuple_GET_SIZE(all.get()) != op_.n_returns)
    reader.refuse(label, out, "out count", std::to_string(op_.n_returns).c_str());
  for (int i = 0; i < op_.n_returns; ++i) {
    PyObject* target = PyTuple_GET_ITEM(all.get(), i);
    const TypeRecord record = outs->record(target);
    if (!reader.same_library(record))
      reader.refuse(label, target, "mixed libraries", Py_TYPE(reader.first())->tp_name);
    outs->read(target, label, record, true);
  }
  for (int i = 0; i < op_.n_returns; ++i)
    run->replace(i, outs->tensors()[static_cast<size_t>(i)], PyTuple_GET_ITEM(all.get(), i));
}

}  // namespace pto::bindings
