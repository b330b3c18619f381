// SPDX-License-Identifier: Apache-2.0
// A hand-written kernel with an attribute of each kind: tests/test_library.py.
#include "pto/operators/named_arguments.hpp"

using namespace pto::literals;
using Element = PTO_TYPE_0;

// alpha * x + bias, plus the shifts of the columns (none for mode "plain"), times the scale.
PTO_OPERATOR_KERNEL(shifted) {
  const auto& x = in.tensor("x"_arg);
  const auto* from = static_cast<const Element*>(x.data);
  const auto* bias = static_cast<const Element*>(in.tensor("bias"_arg).data);
  auto* to = static_cast<Element*>(in.tensor("result"_arg).data);
  const auto shifts = in.integers("shifts"_arg);
  const bool is_plain = in.text("mode"_arg) == "plain";
  const double scale = in.is_none("scale"_arg) ? 1 : in.given_real("scale"_arg);
  const int64_t width = x.sizes[1];
  const auto rows = in.items(x.sizes[0]);
  for (int64_t i = rows.first * width; i < rows.last * width; ++i) {
    double value = in.real("alpha"_arg) * from[i] + in.integer("more"_arg);
    if (in.integer("negate"_arg) != 0) value = -value;
    if (bias != nullptr) value += bias[i % width];
    if (!is_plain) value += double(shifts[i % shifts.size]);
    to[i] = Element(value * scale);
  }
  return 0;
}
