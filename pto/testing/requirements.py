# SPDX-License-Identifier: Apache-2.0
"""Checks that the class of an operator has all that check() needs: an oracle, tolerances, samples.

Thread safety: pure functions, but for the class's own `samples`.
"""

from typing import Any

from pto.errors import Error, InvalidType, InvalidValue
from pto.language.dtypes import dtype
from pto.language.location import describe
from pto.language.op import Operator
from pto.language.samples import samples
from pto.schema import Argument
from pto.testing.cases import types_of
from pto.testing.close import checked

PAIRS = "samples yields (positional, keywords) for each call, such as ((tensor(5, 13),), {'n': 1})"
VALUES = {"int": "1", "SymInt": "1", "float": "0.5", "bool": "True", "str": "'text'",
          "int[]": "[1]", "Tensor[]": "[tensor(5, 13)]"}  # fmt: skip


def check_operator(operator: Any) -> None:
    """Raises InvalidType or InvalidValue where check() could not make or judge a call."""
    if not isinstance(operator, Operator):
        raise InvalidType(
            f"check: the operator is {describe(operator)}",
            "a check reads the schema and the oracle of a class under @op",
            "pass what @op made of the class",
        )
    if not callable(operator.member("oracle")):
        _fail(operator, "has no oracle", "results are compared with what its class says in NumPy",
              f"def oracle({', '.join(a.name for a in operator.arguments)})")  # fmt: skip
    tolerance = operator.member("tolerance") or {}
    if not isinstance(tolerance, dict):
        _fail(operator, f"has the tolerance {describe(tolerance)}",
              "each element type has its own", "tolerance = {pto.f32: 1e-6}")  # fmt: skip
    for kind, bound in tolerance.items():
        dtype(kind)
        checked(bound)
    if operator.member("samples") is None:
        _check_schema(operator)
        return
    for kind in types_of(operator):
        _check_samples(operator, kind)


def _fail(operator: Operator, what: str, why: str, add: str) -> None:
    raise InvalidValue(f"check: {operator.name} {what}", why,
                       f"add to the class {operator.definition.__name__}: {add}")  # fmt: skip


def _check_schema(operator: Operator) -> None:
    """Checks that calls made from the schema alone fit: tensors of one type, and defaults."""
    for a in operator.arguments:
        if a.kind == "Tensor":
            missing = {*types_of(operator)} - {*operator.types[a.type]}
            if missing:
                first = operator.tensors[0].name
                _need_samples(operator, f"{a.name} may not be {min(missing)}, which {first} may be")
        elif not a.has_default:
            _need_samples(operator, f"{a.name} is of type {a.text}, without a default")


def _need_samples(operator: Operator, reason: str) -> None:
    needed = [a for a in operator.arguments if a.is_tensor or not a.has_default]
    positional = "".join(f"{_value(operator, a)}, " for a in needed if not a.keyword_only)
    keywords = ", ".join(f"'{a.name}': {_value(operator, a)}" for a in needed if a.keyword_only)
    _fail(operator, f"needs samples: {reason}",
          "calls that are made from the schema have tensors of one element type and shape",
          f"def samples(tensor): yield ({positional.rstrip()}), {{{keywords}}}")  # fmt: skip


def _value(operator: Operator, a: Argument) -> str:
    """A value of an argument as Python's source spells it."""
    if a.kind == "Tensor":
        allowed = operator.types[a.type]
        other = "" if {*types_of(operator)} <= {*allowed} else f", dtype={allowed[0]!r}"
        is_index = other and dtype(allowed[0]).is_integer
        return f"tensor(5, 13{other}{', low=0, high=5' if is_index else ''})"
    return VALUES[a.kind]


def _check_samples(operator: Operator, kind: str) -> None:
    """Checks that the class's samples of an element type are calls that fit the schema."""
    name = f"check: samples of {operator.name} in {kind}"
    try:
        found = list(samples(operator, kind))
    except Exception as error:  # noqa: BLE001 whatever a definition raises is the finding
        text = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        raise InvalidValue(f"{name} raise {text}", PAIRS, "correct samples of the class") from error
    for one in found:
        is_pair = isinstance(one, tuple | list) and len(one) == 2
        if not is_pair or not isinstance(one[0], tuple) or not isinstance(one[1], dict):
            raise InvalidType(f"{name} hold {describe(one)}", PAIRS,
                              "yield a tuple of a tuple and a dict")  # fmt: skip
        try:
            operator.bind(*one)
        except Error as error:
            raise InvalidType(f"{name}: {error.what}", error.why,
                              "yield arguments that the signature takes") from None  # fmt: skip
    if not found and kind == types_of(operator)[0]:
        raise InvalidValue(f"{name}: there are none", "a check makes the calls of samples", PAIRS)
