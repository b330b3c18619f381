# SPDX-License-Identifier: Apache-2.0
"""Hints: what a program asks of the compiler for the operations that follow. All are optional.

    pto.set_vec_tile_shapes(1, 4, 1, 64)        # of element-wise operations and reductions
    pto.set_cube_tile_shapes([64], [128, 256], [128])           # m, k and n of products
    pto.set_semantic_label("softmax")
    with pto.options(merge=4, order="longest"):                 # for the lines inside
        with pto.leaf("row"): ...               # the operations inside are a kernel of their own
    pto.cut()                                   # no kernel holds operations of both sides

They travel with the nodes of the graph as locations do, print as `!vec_tile=[1, 4, 1, 64]`, and
change no result. Invariant: a hint that cannot hold is an error at its own line.
Thread safety: as a trace.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from pto import _core
from pto.errors import InvalidType, InvalidValue
from pto.language.location import describe, fail, user_line, warn_at
from pto.language.scope import Scope
from pto.language.symbol import is_whole
from pto.language.tensor import Tensor
from pto.language.trace import Trace, current
from pto.language.whole import plain

_OPTIONS = {
    "merge": int,  # at most as many operations in a kernel; 0: as many as its loops take
    "order": str,  # of kernels and products that do not wait for each other
    "prefetch_bytes": int,  # how far ahead kernels ask for memory; 0: they do not
    "huge_pages": bool,
    "workers": int,  # at most as many tasks of a kernel or loop; 0: as the machine has it
    "tiles_per_task": int,  # rows, pieces or iterations in a task; 0: as the machine has it
}
_ORDERS = ("submitted", "depth", "longest")
_INERT = {"huge_pages": "memory of this library lies on huge pages where it is large enough"}
_HINTS = ("vec_tile_shapes", "cube_tile_shapes", "semantic_label")
_VECTORS = {row[0] for row in _core.operations()}  # operations of whole tiles
_warned: set[str] = set()


class Hint:
    """Numbers or a text, and the line that asks for them."""

    __slots__ = ("is_loose", "line", "numbers", "text")

    def __init__(self, numbers: tuple[int, ...] = (), text: str = "", is_loose: bool = False):
        self.numbers, self.text, self.line = numbers, text, user_line()
        self.is_loose = is_loose  # a tile may have other axes than what is computed


class Hints:
    """The hints in force at one point of a trace."""

    def __init__(self, trace: Trace):
        self.trace = trace
        self.now: dict[str, Hint] = {}
        self.calls = 0  # of leaf() and cut()

    def set(self, **changes: Hint | None) -> None:
        """Changes hints for the nodes that follow; None ends one."""
        self.check_all()
        self.now = {name: hint for name, hint in (self.now | changes).items() if hint is not None}
        made = [(name, hint.numbers, hint.text) for name, hint in sorted(self.now.items())]
        self.trace.hints_made = made

    def put_back(self, before: dict[str, Hint]) -> None:
        """Lets only these hold again, as in front of one way of a branch."""
        self.set(**dict.fromkeys(self.now) | before)

    def check_all(self) -> None:
        """Checks the nodes that were recorded under the hints in force."""
        scope: Scope | None = self.trace.scope
        while scope is not None:
            self.check(scope)
            scope = scope.parent

    def check(self, scope: Scope) -> None:
        tile, b = self.now.get("vec_tile"), scope.builder
        for value in range(scope.checked, len(b)) if tile and not tile.is_loose else ():
            kind, shape = b.type(value)
            op = b.node(value)[0]
            if shape and len(shape) != len(tile.numbers) and op in _VECTORS:
                raise InvalidValue(
                    f"set_vec_tile_shapes{tile.numbers}: {len(tile.numbers)} sizes, but {op} "
                    f"behind it computes {kind}{list(shape)}",
                    "a tile has a size for each axis of what is computed",
                    f"give {len(shape)} sizes; set others in front of operations of another rank",
                    tile.line,
                )
        scope.checked = len(b)

    @contextlib.contextmanager
    def scope(self, **changes: Hint | None) -> Iterator[None]:
        """Hints for the lines inside, also those that they ask for; behind them the former hold."""
        before = dict(self.now)
        self.set(**changes)
        try:
            yield
        finally:
            kept = {"cut": self.now["cut"]} if "cut" in self.now else {}
            self.put_back(before | kept)

    @contextlib.contextmanager
    def within(self, **changes: Hint | None) -> Iterator[None]:
        """Hints for the lines inside; behind them the former ones hold."""
        before = {name: self.now.get(name) for name in changes}
        self.set(**changes)
        try:
            yield
        finally:
            self.set(**before)


def of(trace: Trace) -> Hints:
    """The hints of a trace."""
    if trace.hints is None:
        trace.hints = Hints(trace)
    return trace.hints


def _sizes(name: str, given: tuple) -> tuple[int, ...]:
    """Positive integers; fails for anything else."""
    numbers = []
    for one in given:
        whole = is_whole(one) and isinstance(plain(one), int)
        if not whole or not 0 < plain(one) < 1 << 31:
            shown = repr(one) if isinstance(one, Tensor | _core.Dim) else describe(one)
            fail(f"{name}: a size of a tile is {shown}", "tiles have positive sizes, known now",
                 "pass positive integers", InvalidValue if whole else InvalidType)  # fmt: skip
        numbers.append(plain(one))
    if not numbers:
        fail(f"{name}: no sizes", "a tile has a size for each axis", "pass positive integers")
    return tuple(numbers)


def set_vec_tile_shapes(*dims: int, for_any_rank: bool = False) -> None:
    """The tile in which element-wise operations and reductions behind this line are computed.

    `for_any_rank` lets operations of another rank be among them, which it then says nothing of.

    Shapes: a size for each axis of what is computed
    Example:
        pto.set_vec_tile_shapes(1, 3)
        return pto.maximum(x, y)
    """
    name = "set_vec_tile_shapes"
    if not isinstance(for_any_rank, bool):
        fail(f"{name}: for_any_rank is {describe(for_any_rank)}", "it says yes or no",
             "pass True or False", InvalidType)  # fmt: skip
    given = dims[0] if len(dims) == 1 and isinstance(dims[0], list | tuple) else dims
    of(current(name)).set(vec_tile=Hint(_sizes(name, tuple(given)), is_loose=for_any_rank))


def get_vec_tile_shapes() -> list[int]:
    """The sizes of set_vec_tile_shapes(); none where it was not called.

    Shapes: a list of sizes
    Example:
        pto.set_vec_tile_shapes(1, 3)
        return pto.full([1], pto.get_vec_tile_shapes()[1])
    """
    hint = of(current("get_vec_tile_shapes")).now.get("vec_tile")
    return [*hint.numbers] if hint else []


def set_cube_tile_shapes(m: Any, k: Any, n: Any, *_: Any) -> None:
    """The tiles of products behind this line: sizes along m, k and n, a list for each.

    Shapes: sizes along m, k and n
    Example:
        pto.set_cube_tile_shapes([2], [3], [2])
        return pto.matmul(x, w)
    """
    name = "set_cube_tile_shapes"
    of(current(name)).set(**_cube(name, (m, k, n)))


def _cube(name: str, sizes: tuple) -> dict[str, Hint]:
    parts = [tuple(one) if isinstance(one, list | tuple) else (one,) for one in sizes]
    found = [Hint(_sizes(name, part)) for part in parts]
    return {"cube_m": found[0], "cube_k": found[1], "cube_n": found[2]}


def get_cube_tile_shapes() -> list[list[int]]:
    """The lists of set_cube_tile_shapes(): [m, k, n]; none where it was not called.

    Shapes: three lists of sizes
    Example:
        pto.set_cube_tile_shapes([2], [3], [4])
        return pto.full([1], pto.get_cube_tile_shapes()[2][0])
    """
    now = of(current("get_cube_tile_shapes")).now
    return [[*now[name].numbers] for name in ("cube_m", "cube_k", "cube_n") if name in now]


def set_semantic_label(label: str) -> None:
    """A name for the operations behind this line, in texts and traces.

    Shapes: those of the lines behind it
    Example:
        pto.set_semantic_label("larger")
        return pto.maximum(x, y)
    """
    trace = current("set_semantic_label")
    of(trace).set(label=Hint(text=_text("set_semantic_label", label)))


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        fail(f"{name}: the name is {describe(value)}", "it names operations", "pass a text",
             InvalidType)  # fmt: skip
    return value


def options(**given: Any) -> contextlib.AbstractContextManager[None]:
    """Settings of the compiler for the lines inside; an unknown one is warned of once.

    Tiles and labels are among them; those that lines inside set end with the block, too.

    Shapes: those of the lines inside
    Example:
        with pto.options(merge=2):
            z = pto.maximum(x, y)
        return z
    """
    return of(current("options")).scope(**_changes(given))


def set_options(**given: Any) -> None:
    """The same settings for the lines behind this one."""
    of(current("set_options")).set(**_changes(given))


def _changes(given: dict[str, Any]) -> dict[str, Hint]:
    changes: dict[str, Hint] = {}
    for name, value in given.items():
        if name in _HINTS:
            changes |= _hint(name, value)
            continue
        if name not in _OPTIONS:
            _warn_once(name, f"there is no option {name}",
                       f"the options are {', '.join((*_OPTIONS, *_HINTS))}")  # fmt: skip
            continue
        if name in _INERT:
            _warn_once(name, f"{name} changes nothing", _INERT[name])
        changes[name] = option(name, value)
    return changes


def _warn_once(name: str, what: str, why: str) -> None:
    if name in _warned:
        return
    _warned.add(name)
    warn_at(user_line(), f"pto.options: {what}\n  why: {why}\n  fix: leave it out")


def _hint(name: str, value: Any) -> dict[str, Hint]:
    """The hints of a tile or label among options."""
    if name == "semantic_label":
        return {"label": Hint(text=_text("options", value))}
    many = isinstance(value, list | tuple)
    if not many or (name == "cube_tile_shapes" and len(value) < 3):
        fail(f"options: {name} is {describe(value)}", "it has the sizes of tiles",
             "pass a list, of products the lists [[m], [k], [n]]", InvalidType)  # fmt: skip
    if name == "cube_tile_shapes":
        return _cube("options", tuple(value[:3]))
    return {"vec_tile": Hint(_sizes("options", tuple(value)), is_loose=True)}


def option(name: str, value: Any) -> Hint:
    """The hint of an option; raises KeyError, InvalidType or InvalidValue for what is none."""
    kind = _OPTIONS[name]
    if type(value) is not kind or (kind is int and not 0 <= value < 1 << 63):
        wanted = {int: "an integer from 0 on", str: "a text", bool: "True or False"}[kind]
        fail(f"options: {name} is {describe(value)}", f"{name} is {wanted}", f"pass {wanted}",
             InvalidType)  # fmt: skip
    if name == "order" and value not in _ORDERS:
        fail(f"options: order is {value!r}", f"the orders are {', '.join(_ORDERS)}",
             "write one of these", InvalidValue)  # fmt: skip
    return Hint(text=value) if kind is str else Hint((int(value),))


def leaf(name: str) -> contextlib.AbstractContextManager[None]:
    """The operations inside are computed by kernels of their own, one where their loops allow.

    Shapes: those of the lines inside
    Example:
        with pto.leaf("larger"):
            z = pto.maximum(x, y)
        return z
    """
    hints = of(current("leaf"))
    hints.calls += 1
    named, call = Hint(text=_text("leaf", name)), Hint((hints.calls,))
    return hints.within(leaf=named, leaf_call=call)


def cut() -> None:
    """No kernel holds operations in front of this line and operations behind it.

    Shapes: those of the lines around it
    Example:
        z = pto.maximum(x, y)
        pto.cut()
        return pto.minimum(z, y)
    """
    hints = of(current("cut"))
    hints.calls += 1
    hints.set(cut=Hint((hints.calls,)))


def inside(jitted: Any, function: Callable) -> Callable:
    """The function of a jitted one as another calls it: a leaf where it asks for that."""
    if jitted.fuse:
        return function

    def as_leaf(*args: Any, **kwargs: Any) -> Any:
        with leaf(jitted.__name__):
            return function(*args, **kwargs)

    return as_leaf
