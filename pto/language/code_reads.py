# SPDX-License-Identifier: Apache-2.0
"""Reads the code of functions for the names that it reads and changes: for the search of captures.

    reads = CodeReads()
    globals_read, assigned = reads.add(function.__code__)
    reads.names              # attributes and globals that it reads
    reads.special            # special methods that it may call: "__call__", "__len__"

Thread safety: pure but for its sets.
"""

import dis
import functools
import types
from collections.abc import Iterator

GLOBALS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")
_NAMED = (*GLOBALS, "LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_ATTR", "LOAD_METHOD")
_STORES = ("STORE_GLOBAL", "STORE_DEREF", "STORE_ATTR")
_ELEMENT_STORES = ("STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE")
_FORM = {"shape", "dtype", "size", "ndim", "itemsize", "nbytes", "device", "strides"}
_CHANGES = {"append", "appendleft", "extend", "insert", "pop", "popleft", "popitem", "remove",
            "add", "discard", "clear", "update", "setdefault", "sort", "fill", "copy_",
            "fill_"}  # fmt: skip
_BY_TEXT = {"getattr", "hasattr", "vars", "__dict__", "attrgetter"}  # take names as texts
_ARITHMETIC = {f"__{side}{name}__" for side in ("", "r", "i") for name in (
    "add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "divmod", "pow", "and", "or",
    "xor", "lshift", "rshift")}  # fmt: skip
_ITERATION = {"__iter__", "__next__", "__getitem__", "__reversed__"}
_ASKS = ("POP_JUMP", "JUMP_IF", "UNARY_NOT", "TO_BOOL")  # whether an object is true
_TRUTH = {"__bool__", "__len__"}
_NUMBER = {"__float__", "__int__", "__index__", "__bool__", "__abs__", "__round__", "__len__"}
# Special methods by the operation that calls them, whose names differ between versions of Python.
_BY_OPERATION = {
    "CALL": {"__call__"},
    "BINARY": _ARITHMETIC | {"__getitem__"},
    "INPLACE": _ARITHMETIC,
    "UNARY": {"__neg__", "__pos__", "__invert__"},
    "COMPARE": {"__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"},
    "CONTAINS": {"__contains__", *_ITERATION},
    "GET": _ITERATION,
    "FOR": _ITERATION,
    "UNPACK": _ITERATION,
    "LIST": _ITERATION,
    "BEFORE": {"__enter__", "__exit__"},
}
_BY_NAME = {
    **dict.fromkeys(("sum", "max", "min", "list", "tuple", "set", "dict", "sorted", "zip", "map",
                     "filter", "enumerate", "iter", "next", "any", "all", "reversed"), _ITERATION),
    **dict.fromkeys(("float", "int", "bool", "abs", "round", "len", "range"), _NUMBER),
    "divmod": _ARITHMETIC,
    "pow": _ARITHMETIC,
}  # fmt: skip
_ALWAYS = {"__getattr__", "__getattribute__", "__get__"}


def codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """The code and that of the functions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes(constant)


def is_installed(code: types.CodeType) -> bool:
    """Says whether code is of an installed package, which is searched by its plain names alone."""
    return "site-packages" in code.co_filename or "dist-packages" in code.co_filename


class CodeReads:
    """The names in the code of all functions that were added."""

    def __init__(self) -> None:
        self.names: dict[str, None] = {}  # that are read: globals, or attributes of anything
        self.whole: set[str] = set()  # those of which more is read than the form of an array
        self.by_text: set[str] = set()  # names that may be read as texts: getattr(x, "name", 1)
        self.assigned: set[str] = set()  # attributes
        self.changed: set[str] = set()  # names of containers that it changes: log.append()
        self.special: set[str] = {*_ALWAYS}
        self.assigns_elements = False
        self.compares_objects = False  # by `is`, with more than a constant

    @property
    def size(self) -> tuple[int, int, int]:
        """Grows with what later code adds."""
        return len(self.names), len(self.whole), len(self.special)

    def merge(self, other: "CodeReads") -> None:
        """Adds what other code reads and changes."""
        self.names |= other.names
        self.whole |= other.whole
        self.by_text |= other.by_text
        self.assigned |= other.assigned
        self.changed |= other.changed
        self.special |= other.special
        self.assigns_elements |= other.assigns_elements
        self.compares_objects |= other.compares_objects

    @property
    def changes_elements(self) -> bool:
        """Says whether it may change elements of any container."""
        return self.assigns_elements or not _CHANGES.isdisjoint(self.names)

    def add(self, function: types.CodeType) -> tuple[dict[str, None], set[str]]:
        """Adds a code and those inside it; returns the globals that it reads, and the globals and
        variables of functions around it that it assigns."""
        found, read, assigned = _reads_of(function, function.co_filename)
        self.merge(found)
        return read, assigned

    def add_steps(self, code: types.CodeType, read: dict[str, None], assigned: set[str]) -> None:
        """Adds one code, and notes in `read` and `assigned` what `add` returns."""
        self._add_names(code)
        steps = [*dis.get_instructions(code)]
        for before, step, then in zip([None, *steps], steps, [*steps[1:], None], strict=False):
            if step.opname == "IS_OP" and before and before.opname != "LOAD_CONST":
                self.compares_objects = True
            if step.opname in GLOBALS:
                read[step.argval] = None
            if step.opname in _STORES:
                kept = self.assigned if step.opname == "STORE_ATTR" else assigned
                kept.add(step.argval)
            self._add_step(step, then)

    def _add_names(self, code: types.CodeType) -> None:
        texts: list[str] = []
        if not is_installed(code) and not _BY_TEXT.isdisjoint(code.co_names):
            texts = [x for x in code.co_consts if isinstance(x, str) and x.isidentifier()]
        self.names |= dict.fromkeys((*code.co_names, *texts))
        self.whole.update(texts)
        self.by_text.update(texts)
        for name in code.co_names:
            self.special |= _BY_NAME.get(name, set())

    def _add_step(self, step: dis.Instruction, then: dis.Instruction | None) -> None:
        self.assigns_elements |= step.opname in _ELEMENT_STORES
        self.special |= _BY_OPERATION.get(step.opname.partition("_")[0], set())
        if step.opname.startswith("LOAD_") and then and then.opname.startswith(_ASKS):
            self.special |= _TRUTH
        if step.opname not in _NAMED:
            return
        after = then.argval if then and then.opname in _NAMED else None
        if after not in _FORM:
            self.whole.add(step.argval)
        if after in _CHANGES:
            self.changed.add(step.argval)


@functools.lru_cache(maxsize=4096)
def _reads_of(function: types.CodeType, _file: str) -> tuple[CodeReads, dict[str, None], set[str]]:
    """Reads a code and those inside it, once: a first call asks several times. Equal codes may lie
    in different files."""
    found, read, assigned = CodeReads(), dict[str, None](), set[str]()
    for code in codes(function):
        found.add_steps(code, read, assigned)
    return found, read, assigned
