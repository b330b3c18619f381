# SPDX-License-Identifier: Apache-2.0
"""Operators whose kernel is written by hand, called inside a traced function: one clear error."""

import numpy as np
import pytest

import pto


@pytest.mark.parametrize(
    "name", [n for n in pto.ops.__all__ if getattr(pto.ops, n).member("kernel") is not None]
)
def test_an_operator_of_a_hand_written_kernel_is_refused_inside_a_function(name):
    operator = getattr(pto.ops, name)
    names = operator.tensor_names

    def given(a, x):
        return [x] if a.kind == "Tensor[]" else x

    jitted = pto.jit(lambda x: operator(*[given(operator.by_name[n], x) for n in names]))
    with pytest.raises(TypeError, match=rf"{name}: called on a traced tensor.*\n.*\n.*split"):
        jitted(np.ones((2, 2), "f4"))
