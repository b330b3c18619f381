# SPDX-License-Identifier: Apache-2.0
"""Makes the gradient rule of a primitive from the gradient operator, for graphs and eager calls.

MindSpore parses a rule in graph mode and runs it as Python otherwise; it wants one with a named
parameter for each tensor. So the rule for a number of tensors is generated text; Rule.backward does
the work, on flat tuples.
"""

import functools
from collections.abc import Callable

from mindspore import Tensor
from mindspore.ops._grad_experimental.grad_math_ops import binop_grad_common
from pto.adapters.mindspore.source import function_from


@functools.cache
def _rule_maker(tensors: int) -> Callable:
    names = "".join(f"x{i}, " for i in range(tensors))
    text = (
        "def make(backward):\n"
        f"    def bprop({names}out, dout):\n"
        f"        return backward(({names}), out, dout)\n"
        "    return bprop\n"
    )
    return function_from(text, "make")


def rule(tensors: int, backward: Callable) -> Callable:
    """A bprop for a primitive of so many tensors: backward((tensor, ...), out, dout)."""
    return _rule_maker(tensors)(backward)


def summed(d: Tensor, x: Tensor) -> Tensor:
    """The sum of a gradient over the axes along which broadcasting repeated the tensor x.

    A gradient operator that does not take x does not know its shape.
    """
    return binop_grad_common(x, d, d, d)[0]
