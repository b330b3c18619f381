// SPDX-License-Identifier: Apache-2.0
// BoundedRows: collects the number of rows that a kernel reports for each bounded output.
//
//     BoundedRows rows(call);               // throws if the caller cannot take row counts
//     rows.place(targets + outputs);        // the kernel's last tensors
//     rows.report(bound_of);                // after the run: tells the caller, or throws
//
// Invariant: the caller gets numbers from 0 to the bound only, and gets all of them or none.
// Thread safety: belongs to one call.
#pragma once

#include <array>
#include <string>

#include "pto/abi/operator.h"
#include "pto/base/error.hpp"
#include "pto/launch/call.hpp"

namespace pto {

class BoundedRows {
 public:
  explicit BoundedRows(const pto_operator_call& call)
      : op_(*call.op), narrow_(call.narrow), user_(call.user), count_(count_in(op_)) {
    if (count_ == 0 || narrow_ != nullptr) return;
    fail({std::string(op_.name) + ": the size of its result is known only after it ran",
          "the caller gave memory for the largest result, but no way to report its size",
          "call it where results may have any size, or set pto_operator_call::narrow"});
  }

  static size_t count_in(const pto_operator& op) {
    size_t count = 0;
    for (int32_t i = 0; i < op.n_outputs; ++i) count += op.outputs[i].is_bounded != 0;
    return count;
  }

  // Sets the places where the kernel writes its numbers; each starts as kUnsaid.
  void place(void** targets) {
    for (size_t i = 0; i < count_; ++i) {
      said_[i] = kUnsaid;
      targets[i] = &said_[i];
    }
  }

  // Checks the kernel's numbers and passes them to the caller's narrow(). bound_of(output) returns
  // the number of rows that fit the output's memory. Throws pto::Error for a number beyond it.
  template <class BoundOf>
  void report(BoundOf bound_of) const {
    each([&](int32_t output, int64_t rows) { check(output, rows, bound_of(output)); });
    each([&](int32_t output, int64_t rows) { narrow_(user_, output, rows); });
  }

 private:
  static constexpr int64_t kUnsaid = -1;

  template <class Visit>
  void each(Visit visit) const {
    size_t next = 0;
    for (int32_t i = 0; next < count_; ++i) {
      if (op_.outputs[i].is_bounded != 0) visit(i, said_[next++]);
    }
  }

  void check(int32_t output, int64_t rows, int64_t bound) const {
    if (rows >= 0 && rows <= bound) return;
    const std::string said = rows == kUnsaid ? "says no number" : "says " + std::to_string(rows);
    fail({std::string(op_.name) + ": for the rows of " + op_.outputs[output].name + " its kernel " +
              said + ", but infer allows 0 to " + std::to_string(bound),
          "infer gives the largest number of rows, and the kernel says the real one",
          "correct the kernel, or the bound in infer"},
         ErrorKind::Runtime);
  }

  const pto_operator& op_;
  void (*narrow_)(void* user, int32_t output, int64_t rows);
  void* user_;
  size_t count_;
  std::array<int64_t, PTO_MAX_BUFFERS> said_;
};

}  // namespace pto
