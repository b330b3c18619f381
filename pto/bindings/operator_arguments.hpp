// SPDX-License-Identifier: Apache-2.0
// OperatorArguments: converts the arguments of one operator call from Python objects to plain C.
//
//     OperatorArguments arguments(op, &reader);
//     if (!arguments.add(0, object, name)) return nullptr;    // call_otherwise takes the call
//     arguments.describe(&call);
//
// Invariant: what the call points to lives as long as this and the objects.
// Thread safety: needs Python's lock; belongs to one call.
#pragma once

#include <array>
#include <forward_list>
#include <vector>

#include "pto/abi/operator.h"
#include "pto/bindings/argument.hpp"

namespace pto::bindings {

class OperatorArguments {
 public:
  OperatorArguments(const pto_operator& op, ArgumentReader* reader) : op_(op), reader_(*reader) {}

  // Adds the value of argument `index`; null: its default. Returns false if it does not fit the
  // schema, or is an array that an adapter takes.
  bool add(int index, PyObject* object, PyObject* name);

  // Fills in tensors, counts and attributes.
  void describe(pto_operator_call* call);

  // Returns the place in the reader of a tensor argument's first tensor.
  int place(int argument) const { return places_[argument]; }
  int tensors() const { return static_cast<int>(reader_.tensors().size()); }

 private:
  bool add_tensors(int index, PyObject* object, PyObject* name);
  bool add_tensor(PyObject* object, PyObject* name, bool writable);
  static bool add_attribute(int kind, PyObject* object, pto_operator_value* value);
  bool add_integers(const pto_operator_argument& argument, PyObject* object,
                    pto_operator_value* value);

  const pto_operator& op_;
  ArgumentReader& reader_;
  int n_counts_ = 0, n_attributes_ = 0;
  std::array<int, PTO_MAX_ARGUMENTS> places_;
  std::array<int32_t, PTO_MAX_TENSORS> counts_;
  std::array<pto_operator_value, PTO_MAX_ARGUMENTS> attributes_;
  std::forward_list<std::vector<int64_t>> integers_;
};

}  // namespace pto::bindings
