# SPDX-License-Identifier: Apache-2.0
"""@tile_op: an operation of elements that a user defines, as `exp` is one of the language.

    @pto.tile_op("softcap(Tensor x, float c) -> Tensor")
    class Softcap:
        \"\"\"c * tanh(x / c).\"\"\"
        def body(x, c): return c * pto.tanh(x / c)
        def oracle(x, c): return c * np.tanh(x / c)

    y = Softcap(x, 30.0)                  # traced, or on arrays; operands broadcast

A definition has `body`, one element as a function of the language over numbers, or `cpp`, C++ text
that fills the tile `dst` from tiles named as the arguments, with instructions of pto/isa. A plain
function is a body. Beside `body` or `cpp` stand

- `oracle`: the definition in NumPy over f64 arrays, in which a float is a number; with `cpp` it is
  what the interpreter computes, and must be there;
- `grad(ctx, d_result)`: the gradients of the tensors by name, as in @op; without it a body is
  differentiated, and C++ has none;
- `tolerance`: the relative error by element type; `dtypes`: the floats that it takes, all of them
  by default. The result has the type of the tensors. C++ computes f16 and bf16 in f32.

A body is traced when it is defined, once for each type: what it reads beside its arguments is read
then. The definition compares it with the oracle; `Softcap.check()` tests the compiled form, too.

Thread safety: definitions belong to one thread at a time; calls as those of the language.
"""

import ast
import atexit
import inspect
import linecache
import sys
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from pto import _core, language
from pto.errors import Error, InvalidType, InvalidValue, nearest
from pto.language.definition import misfit
from pto.language.differentiate import TILE_GRADIENTS
from pto.language.dtypes import DType, bf16, dtype, f16, f32, f64
from pto.language.gradient import GradientContext, gradients_by_name
from pto.language.location import describe, fail, shown, user_line
from pto.language.operation import operation
from pto.language.tensor import Tensor
from pto.language.tile_laws import Disagreement, agree, check, values_of_code
from pto.language.trace import Trace
from pto.language.types import joined, real
from pto.schema import Signature

FLOATS = (f16, bf16, f32, f64)
TOLERANCE = {f16: 2e-3, bf16: 1.6e-2, f32: 2e-6, f64: 1e-12}
_MEMBERS = ("body", "cpp", "oracle", "grad", "tolerance", "dtypes")
_known: dict[str, "TileOperation"] = {}  # by name


class TileOperation(Signature):
    """A tile operation: its parts, and how a call is recorded."""

    def __init__(self, schema: str, parts: dict[str, Any], line: str, module: str):
        try:
            super().__init__(_core.parse_schema(schema, ""))
        except Error as error:
            raise type(error)(error.what, error.why, error.fix, line) from None
        self.parts, self.line, self.module = parts, line, module
        self._check_schema()
        self._check_name()
        self.tensor_names = tuple(a.name for a in self.tensors)
        self.output_names = ("result",)
        self.body, self.oracle, self.grad = (parts.get(n) for n in ("body", "oracle", "grad"))
        self.cpp: str | None = parts.get("cpp")
        self._check_parts()
        self.dtypes = tuple(map(dtype, parts.get("dtypes", FLOATS)))
        if others := [str(kind) for kind in self.dtypes if not kind.is_float]:
            self._refuse(f"dtypes has {others[0]}", "an operation of elements computes floats",
                         f"take some of {', '.join(map(str, FLOATS))}")  # fmt: skip
        given = {dtype(kind): value for kind, value in (parts.get("tolerance") or {}).items()}
        self.tolerance = TOLERANCE | given
        self.bodies: dict[str, _core.Graph] = {}

    def _refuse(self, what: str, why: str, fix: str, kind: type[Error] = InvalidType) -> None:
        raise kind(f"{self.name}: {what}", why, fix, self.line)

    def _check_schema(self) -> None:
        wrong = [a for a in self.arguments if a.kind not in ("Tensor", "float") or a.optional
                 or a.mutable]  # fmt: skip
        outputs = [o for o in self.outputs if o.is_list]
        if wrong or outputs or len(self.outputs) != 1 or not self.tensors:
            what = f"{wrong[0].text} {wrong[0].name}" if wrong else self.schema
            self._refuse(f"a tile operation has no {what}" if wrong else f"the schema is {what}",
                         "it computes one tensor from tensors and floats, element by element",
                         'write it as in "softcap(Tensor x, float c) -> Tensor"')  # fmt: skip

    def _check_name(self) -> None:
        if self.name in _known:
            self._refuse(f"is defined already, at {_known[self.name].line}",
                         "graphs know an operation by its name", "choose another name",
                         InvalidValue)  # fmt: skip
        if self.name in language.__all__ or hasattr(Tensor, self.name):
            self._refuse(f"pto.{self.name} is a function of the language",
                         "a second one of this name would be taken for it", "choose another name",
                         InvalidValue)  # fmt: skip

    def _check_parts(self) -> None:
        for member in self.parts:
            if member not in _MEMBERS:
                fix = f"correct its name; one for the class itself is called _{member}"
                self._refuse(f"has an unknown member {member}", nearest(member, _MEMBERS), fix)
        if (self.body is None) == (self.cpp is None):
            self._refuse("has " + ("neither body nor cpp" if self.body is None else "body and cpp"),
                         "one of them says what it computes", "define one of them")  # fmt: skip
        names = [a.name for a in self.arguments]
        for member, takes in (("body", names), ("oracle", names), ("grad", ["ctx", "d_result"])):
            if found := misfit(member, self.parts.get(member), takes):
                self._refuse(*found)
        if self.cpp is not None and not isinstance(self.cpp, str):
            self._refuse(f"cpp is {describe(self.cpp)}", "it is C++ text", "write it as a string")
        if self.cpp is not None and self.oracle is None:
            fix = f"add: def oracle({', '.join(names)})"
            why = "the interpreter computes what the oracle says"
            self._refuse("has C++ and no oracle", why, fix)

    def traced_body(self, kind: DType) -> _core.Graph:
        """The body as a graph over numbers of this type."""
        trace = Trace(self.name)
        inputs = [trace.input(a.name, kind.name, ()) for a in self.arguments]
        result = self.body(*inputs)
        if not isinstance(result, Tensor) or result.dtype is not kind or result.shape:
            found = f"{result.dtype}{list(result.shape)}" if isinstance(result, Tensor) else (
                describe(result))  # fmt: skip
            self._refuse(f"the body gives {found} for numbers of type {kind}",
                         "the result has the type of the tensors, an element for each of theirs",
                         f"return a number of type {kind}: pto.cast(y, x.dtype)")  # fmt: skip
        graph, _ = trace.finish(result)
        b = _core.GraphBuilder(self.name)  # refuses what is no operation of elements
        b.set_location(*_split(self.line))
        values = [b.input(a.name, kind.name, ()) for a in self.arguments]
        b.output(b.tile(self.name, values, graph))
        b.build()
        return graph

    def define(self) -> None:
        """Traces the bodies and compares them with the oracle, or makes the C++ known."""
        if self.cpp is None:
            self.bodies = {kind.name: self.traced_body(kind) for kind in self.dtypes}
            self._compare_with_oracle()
        else:
            file, line = _split(self._line_of_code())
            _core.define_tile_operation(
                self.name, [a.name for a in self.arguments], self.cpp, file, line,
                {kind.name: value for kind, value in self.tolerance.items()},
                lambda given: values_of_code(self, given),
            )  # fmt: skip
        if self.grad is not None:
            TILE_GRADIENTS[self.name] = self.gradients
        _known[self.name] = self

    def _compare_with_oracle(self) -> None:
        if self.oracle is None:
            return
        try:
            agree(self, self.dtypes[-1] if f64 not in self.dtypes else f64)
        except Disagreement as error:
            self._refuse(f"the oracle disagrees with the body: {error}",
                         "both say what the operation computes", "correct one of them",
                         InvalidValue)  # fmt: skip

    def _line_of_code(self) -> str:
        """The place of the C++ text, where the definition's file has it as one string."""
        file = self.line.rpartition(":")[0]
        path = getattr(sys.modules.get(self.module), "__file__", None) or file
        try:
            tree = ast.parse("".join(linecache.getlines(path)))
        except SyntaxError:
            return self.line
        lines = [node.lineno for node in ast.walk(tree)
                 if isinstance(node, ast.Constant) and node.value == self.cpp]  # fmt: skip
        return f"{file}:{lines[0]}" if lines else self.line

    def record(self, *values: Any) -> Tensor:
        """A call on traced tensors."""
        operands = [real(x) for x in joined(self.name, *values)]
        kind = operands[0].dtype
        if kind not in self.dtypes:
            fail(f"{self.name}: the operands are {kind}",
                 f"it takes {', '.join(map(str, self.dtypes))}",
                 f"cast them: pto.cast(x, pto.{self.dtypes[-1]})", InvalidType)  # fmt: skip
        trace = operands[0].trace
        body = self.bodies.get(kind.name)
        return Tensor(trace, trace.here().tile(self.name, [x.value for x in operands], body))

    def gradients(self, d: Tensor, y: Tensor, operands: list[Tensor]) -> list[Tensor | None]:
        """The gradient of each operand, None of floats and of those that `grad` leaves out."""
        values = dict(zip((a.name for a in self.arguments), operands, strict=True))
        attributes = {a.name: values[a.name] for a in self.attributes}
        ctx = GradientContext(self, lambda name: y if name == "result" else values[name],
                              attributes, frozenset(self.tensor_names))  # fmt: skip
        found = gradients_by_name(self, self.grad(ctx, d))
        for name, gradient in found.items():
            fits = isinstance(gradient, Tensor) and [*gradient.shape] == [*d.shape]
            if gradient is not None and not (fits and gradient.dtype is d.dtype):
                given = (f"{gradient.dtype}{list(gradient.shape)}"
                         if isinstance(gradient, Tensor) else describe(gradient))  # fmt: skip
                raise InvalidType(
                    f"{self.name}: grad gives {given} for {name}",
                    f"the gradient of an operand is like the result: {d.dtype}{list(d.shape)}",
                    "broadcast or cast it; None says that there is none",
                )
        return [found.get(a.name) for a in self.arguments]


@atexit.register
def _forget() -> None:
    """Frees graphs and users' functions before _core ends, which looks for what was not freed."""
    for one in _known.values():
        vars(one).clear()
    _known.clear()
    TILE_GRADIENTS.clear()


class TileFunction(Protocol):
    """A function of tensors and floats. check() runs the laws of the operation and returns how many
    cases held.
    """

    definition: TileOperation

    def __call__(self, *args: Any, **kwargs: Any) -> Tensor: ...
    def check(self) -> int: ...


def tile_op(
    schema: str, *, oracle: Callable | None = None, grad: Callable | None = None
) -> Callable[[Any], TileFunction]:
    """Decorates a class or a function that defines an operation of elements: docs/language.md.

    `oracle` and `grad` are those of a function. Raises InvalidType and InvalidValue for a schema,
    a body or an oracle that does not fit, and for a name that exists.

    Example:
        @pto.tile_op("cubed(Tensor x) -> Tensor", oracle=lambda x: x**3)
        def cubed(x):
            return x * x * x

        print(cubed(y))
    """
    if not isinstance(schema, str):
        raise InvalidType(f"tile_op: the schema is {describe(schema)}",
                          "it is text: a name, the arguments, the result",
                          'write it as in @pto.tile_op("softcap(Tensor x, float c) -> Tensor")',
                          user_line())  # fmt: skip

    def define(definition: Any) -> TileFunction:
        parts = dict(_parts(definition, oracle, grad))
        made = TileOperation(schema, parts, _line_of(definition), definition.__module__)
        made.define()
        return _function(made, definition)

    return define


def _parts(definition: Any, oracle: Any, grad: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(definition, type):
        for name, value in vars(definition).items():
            if not name.startswith("_"):
                yield name, value.__func__ if isinstance(value, staticmethod) else value
        return
    if not inspect.isfunction(definition):
        raise InvalidType(f"tile_op decorates {describe(definition)}",
                          "a tile operation is a class with body or cpp, or a function, its body",
                          "write a class or a def below it", user_line())  # fmt: skip
    yield from (("body", definition), ("oracle", oracle), ("grad", grad))


def _line_of(definition: Any) -> str:
    if inspect.isfunction(definition):
        return f"{shown(definition.__code__.co_filename)}:{definition.__code__.co_firstlineno}"
    return user_line()


def _split(line: str) -> tuple[str, int]:
    file, _, number = line.rpartition(":")
    return file, int(number or 0)


def _function(made: TileOperation, definition: Any) -> TileFunction:
    """The function that a program calls."""
    names = [a.name for a in made.arguments]
    given = ", ".join(f"{a.name}=_defaults[{a.name!r}]" if a.has_default else a.name
                      for a in made.arguments)  # fmt: skip
    text = f"lambda {given}: _record({', '.join(names)})"
    defaults = {a.name: a.default for a in made.arguments if a.has_default}
    function = eval(  # of names that a schema has; its line is ours
        compile(text, __file__, "eval"), {"_record": made.record, "_defaults": defaults}
    )
    function.__name__ = function.__qualname__ = made.name
    function.__doc__, function.__module__ = definition.__doc__, definition.__module__
    function.__annotations__ = {a.name: Tensor if a.is_tensor else float for a in made.arguments}
    called = operation(function)
    called.definition = made
    called.check = lambda: check(made, called)
    return called
