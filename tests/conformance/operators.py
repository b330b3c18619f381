# SPDX-License-Identifier: Apache-2.0
"""The operators of the conformance matrix: those of pto.ops, in place too."""

from pto import ops

OPERATORS = {
    name: getattr(ops, name)
    for function in ops.__all__
    for name in (function, f"{function}_")
    if hasattr(ops, name)
}
