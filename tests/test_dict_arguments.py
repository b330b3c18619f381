# SPDX-License-Identifier: Apache-2.0
"""A dict is a constant of the call, as a list or a dataclass is."""

import dataclasses

import numpy as np
import pytest

import pto

X = np.ones(3, np.float32)


@dataclasses.dataclass
class Settings:
    numbers: dict


def test_each_value_of_a_dict_has_its_own_function():
    traced = []

    @pto.jit
    def scaled(x, settings):
        traced.append(settings)
        numbers = settings.numbers if isinstance(settings, Settings) else settings
        return x * numbers["scale"]

    numbers = {"scale": 2, 0: [1, 2]}
    for scale in (2, 3, 2):
        numbers["scale"] = scale
        assert scaled(X, numbers)[0] == scaled(X, Settings(numbers))[0] == scale
    assert len(traced) == 4


@pytest.mark.parametrize("given, told", [
    ({"scale": X}, r"settings\['scale'\] is a value of type numpy.ndarray"),
    ({"a": {"b": object()}}, r"settings\['a'\]\['b'\] is a value of type builtins.object"),
    ({X.dtype: 1}, "a key of settings is a value of type numpy"),
])  # fmt: skip
def test_what_is_no_constant_in_a_dict_is_named(given, told):
    @pto.jit
    def scaled(x, settings):
        return x * 2

    with pytest.raises(pto.Error, match=told):
        scaled(X, given)
