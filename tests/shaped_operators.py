# SPDX-License-Identifier: Apache-2.0
"""The library's operators whose tensors all have one shape, or the size of its last axis.

test_conformance.py has all operators, with the samples of their definitions.
"""

from pto import ops

OPERATORS = {
    name: operator
    for name, operator in ((name, getattr(ops, name)) for name in ops.__all__)
    if operator.member("build") and operator.member("samples") is None
}


def shapes(operator, shape=(5, 13)):
    """The shape of each tensor argument, for an input of this one."""
    vectors = operator.member("vectors") or ()
    return [shape[-1:] if name in vectors else shape for name in operator.tensor_names]
