# SPDX-License-Identifier: Apache-2.0
"""Operators whose kernel is written by hand: calls inside a traced function, misspelled names."""

import numpy as np
import pytest

import pto
from pto import op
from pto.language.native_kernel import NativeKernel


@pytest.mark.parametrize(
    "read, wanted",
    [
        ('in.integer("rwos"_arg)', "no attribute of this name"),
        ('in.integer("x"_arg)', "no attribute of this name"),
        ('in.tensor("y"_arg).rank', "no tensor of this name"),
        ('in.is_absent("rows"_arg)', "no tensor of this name"),
    ],
)
def test_a_name_that_the_schema_lacks_is_an_error_of_the_compiler(tmp_path, read, wanted):
    (tmp_path / "kernel.cpp").write_text(f"""
        #include "pto/operators/named_arguments.hpp"
        using namespace pto::literals;
        PTO_OPERATOR_KERNEL(misnamed) {{ return in.tensors() < {read}; }}
    """)

    @op(f"misnamed{abs(hash(read)) % 10**9}(Tensor x, *, int rows=1) -> Tensor")
    class Misnamed:
        """Reads an attribute by a name with a mistake."""

        kernel = NativeKernel(tmp_path / "kernel.cpp", "misnamed", False)

        def infer(x, rows):
            return x.like()

    with pytest.raises(pto.Error, match=f"schema has {wanted}"):
        Misnamed(np.ones(3, "f4"))


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
