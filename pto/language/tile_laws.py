# SPDX-License-Identifier: Apache-2.0
"""The laws of a tile operation, which @tile_op checks, and `check()` of one.

Body and oracle agree; the compiled form agrees with the oracle, for each element type, for empty,
short and long tensors, with gaps, alone and fused with its neighbours; each pass is bit-equal
under the interpreter; the gradient agrees with finite differences.

Thread safety: pure functions.
"""

import itertools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from pto import _core
from pto.errors import InvalidValue
from pto.language.dtypes import DType, f16, f64, numpy_type
from pto.language.interpret import interpret
from pto.language.jit import jit

if TYPE_CHECKING:
    from pto.language.tile_operation import TileOperation

_SHAPES = ((0,), (1,), (7,), (3, 5), (2, 1031))
_SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-3, -20.0, 20.0)
_NUMBERS = (0.5, 2.0)  # for floats without a default


_SMALLEST = {f16: 1e-4}  # below, values have fewer digits


class Disagreement(Exception):
    """The text says the element and both values."""


def samples(of: "TileOperation", kind: DType, shape: tuple, seed: int = 0) -> Iterator[list]:
    """Arguments of calls: arrays of this shape and type, each with some numbers for the floats."""
    random = np.random.default_rng(seed)
    arrays = []
    for _ in of.tensors:
        x = random.standard_normal(shape) * 3
        flat = x.reshape(-1)
        flat[1::3] = random.choice(_SPECIAL, flat[1::3].shape)
        arrays.append(x.astype(numpy_type(kind.name)))
    choices = [(a.default,) if a.has_default else _NUMBERS for a in of.attributes]
    for numbers in itertools.product(*choices):
        given, values = iter(arrays), iter(numbers)
        yield [next(given) if a.is_tensor else next(values) for a in of.arguments]


def expected(of: "TileOperation", args: list) -> np.ndarray:
    """The oracle's values in f64."""
    wide = [np.asarray(x, np.float64) if a.is_tensor else float(x)
            for a, x in zip(of.arguments, args, strict=True)]  # fmt: skip
    with np.errstate(all="ignore"):
        return np.asarray(of.oracle(*wide), np.float64)


def values_of_code(of: "TileOperation", given: list[bytes]) -> bytes:
    """The oracle's values of C++ for the interpreter: doubles in, doubles out."""
    arrays = [np.frombuffer(x, np.float64) for x in given]
    args = [x if a.is_tensor else x[0] for a, x in zip(of.arguments, arrays, strict=True)]
    return np.broadcast_to(expected(of, args), arrays[0].shape).tobytes()


def agree(of: "TileOperation", kind: DType) -> None:
    """Compares the body with the oracle, by the interpreter; raises Disagreement."""
    for args in samples(of, kind, (96,)):
        b = _core.GraphBuilder(of.name)
        values = [b.input(a.name, kind.name, (96,) if a.is_tensor else ()) for a in of.arguments]
        b.output(b.tile(of.name, values, of.bodies[kind.name]))
        arrays = [np.asarray(x, numpy_type(kind.name)) for x in args]
        found = interpret(b.build(), *arrays)
        compare(of, kind, args, found, "the body")


def compare(of: "TileOperation", kind: DType, args: list, found: np.ndarray, who: str) -> None:
    """Raises Disagreement for the first element that is further from the oracle than tolerated.

    That is by the tolerance, and by as much as an error of it in an operand makes.
    """
    want = np.broadcast_to(expected(of, args), found.shape)
    got, tolerance = np.asarray(found, np.float64), of.tolerance[kind]
    with np.errstate(all="ignore"):
        rounded = want.astype(numpy_type(kind.name)).astype(np.float64)
        bound = tolerance * np.maximum(np.abs(want), _SMALLEST.get(kind, 1e-37))
        for place, a in enumerate(of.arguments):
            if a.is_tensor:
                moved = [np.float64(x) * (1 + tolerance) if i == place else x
                         for i, x in enumerate(args)]  # fmt: skip
                bound = bound + np.abs(expected(of, moved) - want)
        far = ~(np.abs(got - want) <= bound)
        wrong = np.where(np.isfinite(rounded) & np.isfinite(got), far, got != rounded)
    wrong &= ~(np.isnan(rounded) & np.isnan(got))
    places = np.argwhere(wrong)
    if len(places):
        at = tuple(int(i) for i in places[0])
        named = [f"{a.name} = {x[at] if a.is_tensor else x}"
                 for a, x in zip(of.arguments, args, strict=True)]  # fmt: skip
        raise Disagreement(
            f"element {list(at)}, at {', '.join(named)}, is {float(got[at])!r} by {who} and "
            f"{float(want[at])!r} by the oracle, in {kind}"
        )


def check(of: "TileOperation", function: Callable) -> int:
    """Tests all laws of a tile operation; the number of cases that held.

    Raises InvalidValue for the first that does not: the law, the element and both values.
    """
    from pto.language.verify import verify  # seldom needed

    alone = _program(of, function, "f({names})")
    fused = _program(of, function, "abs(f({names})) * 2 + {first}")
    count = 0
    for kind, shape in itertools.product(of.dtypes, _SHAPES):
        for args in samples(of, kind, shape, len(shape)):
            with_gaps = [np.repeat(x, 2, -1)[..., ::2] if a.is_tensor else x
                         for a, x in zip(of.arguments, args, strict=True)]  # fmt: skip
            for given in (args, with_gaps):
                _holds(of, kind, args, alone(*given))
                count += 1
        for program in (alone, fused) if shape == _SHAPES[3] else ():
            report = verify(program, *args)
            if not report.is_equal:
                what = f"{of.name}: a stage of the compiler deviates in {kind}"
                raise InvalidValue(what, str(report), "correct the oracle or the text", of.line)
            count += 1
    return count + _check_gradient(of, function)


def _program(of: "TileOperation", function: Callable, text: str) -> Callable:
    """A jitted function of the operation's arguments that returns an expression of them."""
    names = ", ".join(a.name for a in of.arguments)
    made = f"lambda {names}: " + text.format(names=names, first=of.tensor_names[0])
    return jit(eval(made, {"f": function}))


def _holds(of: "TileOperation", kind: DType, args: list, found: np.ndarray) -> None:
    if of.oracle is None:
        return
    try:
        compare(of, kind, args, found, "the compiled form")
    except Disagreement as error:
        why = "compiled code computes what the oracle says"
        fix = "correct the text or the oracle, or allow more in `tolerance`"
        what = f"{of.name}: the oracle disagrees: {error}"
        raise InvalidValue(what, why, fix, of.line) from None


def _check_gradient(of: "TileOperation", function: Callable) -> int:
    """Compares the gradient with finite differences of the oracle, in f64; needs torch."""
    if f64 not in of.dtypes or of.oracle is None or (of.cpp is not None and of.grad is None):
        return 0
    import torch

    program, count = _program(of, function, "f({names})"), 0
    for args in samples(of, f64, (4, 9), 5):
        tensors = [torch.from_numpy(x + 0.03).requires_grad_() if a.is_tensor else x
                   for a, x in zip(of.arguments, args, strict=True)]  # fmt: skip
        program(*tensors).sum().backward()
        plain = [x.detach().numpy() if a.is_tensor else x
                 for a, x in zip(of.arguments, tensors, strict=True)]  # fmt: skip
        for place, (a, x) in enumerate(zip(of.arguments, tensors, strict=True)):
            if a.is_tensor:
                _compare_slope(of, place, plain, x.grad.numpy())
                count += 1
    return count


def _compare_slope(of: "TileOperation", place: int, args: list, got: np.ndarray) -> None:
    step = 1e-6
    ends = [[x + s if i == place else x for i, x in enumerate(args)] for s in (step, -step)]
    slope = (expected(of, ends[0]) - expected(of, ends[1])) / (2 * step)
    far = np.argwhere(~(np.abs(got - slope) <= 1e-5 * np.maximum(np.abs(slope), 1)))
    if len(far):
        at = tuple(int(i) for i in far[0])
        name, x = of.arguments[place].name, float(args[place][at])
        raise InvalidValue(
            f"{of.name}: the gradient by {name} at element {list(at)}, {x}, is "
            f"{float(got[at])!r}, and finite differences of the oracle give {float(slope[at])!r}",
            "grad is the derivative of what the operation computes", "correct grad", of.line,
        )  # fmt: skip
