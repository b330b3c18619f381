# SPDX-License-Identifier: Apache-2.0
"""@op: an operator, defined once as a class, for every framework that an adapter serves.

    @op("scaled_add(Tensor x, Tensor y, *, float alpha=1.0) -> Tensor")
    class ScaledAdd:
        \"\"\"x + alpha * y; shapes broadcast.\"\"\"
        def build(x, y, alpha): return x + alpha * y
        def grad(ctx, d_result): return {"x": d_result, "y": ctx.attribute("alpha") * d_result}
        def oracle(x, y, alpha): return x + alpha * y
        tolerance = {f32: 1e-6}

The schema is the signature: ATen's grammar with Tensor, Tensor?, int, float, bool, str. `build` and
`grad` are traced, never run on data: once for each set of dtypes, ranks, sizes that are 1, and int,
bool and str attributes. A float attribute is a number of the call: `build` may compute with it, not
branch on it. A first tracing at the definition finds mistakes and what the gradient needs.

`grad(ctx, *d_outputs)` returns the gradients by argument name, or in the order of the tensor
arguments; None, or a name left out, means not differentiable. It becomes an operator of its own,
NAME_backward. A gradient is summed to the shape of its argument where that was broadcast.

`infer(x, ...)`, where given, states dtype and shape of the outputs and is checked at each tracing;
without it they are those of the traced graph. `oracle` is the definition in NumPy, `tolerance` its
relative error by element type: the tests read both.

Thread safety: definitions belong to one thread at a time; operators may be called from any.
"""

import importlib
import itertools
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pto import _core
from pto.errors import InvalidType, InvalidValue
from pto.language.dtypes import DType, dtype
from pto.language.reduce import sum_to
from pto.language.shape import broadcast_to, same_size
from pto.language.tensor import Tensor
from pto.language.trace import Trace, describe
from pto.language.types import constant


@dataclass(frozen=True)
class Argument:
    """One argument of a schema; `kind` is Tensor, Tensor?, int, float, bool or str."""

    name: str
    kind: str
    keyword_only: bool
    has_default: bool
    default: Any

    @property
    def is_tensor(self) -> bool:
        return self.kind.startswith("Tensor")

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" + (f"={self.default!r}" if self.has_default else "")


@dataclass(frozen=True)
class Spec:
    """Element type and shape of a tensor, for `infer`."""

    shape: tuple
    dtype: DType

    def like(self, shape: tuple | None = None, dtype: DType | None = None) -> "Spec":
        return Spec(self.shape if shape is None else tuple(shape), dtype or self.dtype)


@dataclass(frozen=True)
class Gradient:
    """The gradient of an operator: which arguments it takes, and gives the gradients of."""

    operator: "Operator"
    saved: tuple[str, ...]  # tensor arguments and outputs of the operator
    wanted: tuple[str, ...]  # tensor arguments


@dataclass
class GradientContext:
    """What `grad` may ask for: saved tensors, attributes, and which gradients are needed."""

    operator: "Operator"
    tensors: Callable[[str], Tensor | None]
    attributes: dict[str, Any]
    needed: frozenset[str]
    asked: list[str] = field(default_factory=list)

    def saved(self, name: str) -> Tensor | None:
        """A tensor argument, or an output by its name ("result"), as the forward call saw it."""
        if name not in self.operator.tensor_names + self.operator.outputs:
            raise InvalidValue(
                f"{self.operator.name}: grad asks for {name!r}, which was not saved",
                f"it may ask for {', '.join(self.operator.tensor_names + self.operator.outputs)}",
                "use one of these names",
            )
        self.asked.append(name)
        return self.tensors(name)

    def needs(self, name: str) -> bool:
        """Whether the gradient of this tensor argument is needed; the others are dropped."""
        return name in self.needed

    def attribute(self, name: str) -> Any:
        """An attribute of the call; a float is a traced number."""
        return self.attributes[name]


class Operator:
    """An operator of the registry. Calling it runs it on arrays, or inlines it in a traced one."""

    def __init__(self, schema: str, definition: type):
        self.name, arguments, outputs, self.schema = _core.parse_schema(schema)
        self.arguments = tuple(Argument(*a) for a in arguments)
        self.outputs = tuple(outputs)
        self.definition = definition
        self.__doc__ = definition.__doc__
        self.gradient: Gradient | None = None
        self._jit: Callable | None = None
        self.index = -1  # in the registry, once it is there

    @property
    def tensor_names(self) -> tuple[str, ...]:
        return tuple(a.name for a in self.arguments if a.is_tensor)

    @property
    def attribute_arguments(self) -> tuple[Argument, ...]:
        return tuple(a for a in self.arguments if not a.is_tensor)

    def member(self, name: str) -> Any:
        """`build`, `grad`, `infer`, `oracle` or `tolerance` of the definition, or None."""
        found = vars(self.definition).get(name)
        return found.__func__ if isinstance(found, staticmethod) else found

    def trace(self, tensors: list, attributes: list) -> _core.Graph:
        """The graph for tensors of these (dtype, shape), None where absent, and attributes."""
        trace = Trace(self.name)
        values = self._inputs(trace, tensors, attributes)
        graph, _ = trace.finish(self.member("build")(*values.values()))
        if len(graph.outputs) != len(self.outputs):
            raise InvalidType(
                f"{self.name}: build returned {len(graph.outputs)} tensors",
                f"the schema says {self.schema}",
                "return one tensor for each output",
            )
        self._check_inferred(graph, values)
        return graph

    def _inputs(self, trace: Trace, tensors: list, attributes: list) -> dict[str, Any]:
        """The arguments by name, as `build` sees them; tensors become inputs before scalars."""
        given = iter(tensors)
        traced = {}
        for name in self.tensor_names:
            like = next(given)
            traced[name] = None if like is None else trace.input(name, *like)
        wide = any(like is not None and like[0] == "f64" for like in tensors)
        values = iter(attributes)
        for a in self.attribute_arguments:
            value = next(values)
            if a.kind == "float":
                value = trace.scalar(a.name, "f64" if wide else "f32")
            traced[a.name] = value
        return {a.name: traced[a.name] for a in self.arguments}

    def _check_inferred(self, graph: _core.Graph, values: dict[str, Any]) -> None:
        infer = self.member("infer")
        if infer is None:
            return
        specs = [Spec(v.shape, v.dtype) if isinstance(v, Tensor) else v for v in values.values()]
        inferred = infer(*specs)
        inferred = inferred if isinstance(inferred, tuple | list) else (inferred,)
        for place, (spec, (kind, shape)) in enumerate(zip(inferred, graph.outputs, strict=True)):
            alike = len(spec.shape) == len(shape) and all(map(same_size, spec.shape, shape))
            if not alike or str(spec.dtype) != kind:
                raise InvalidValue(
                    f"{self.name}: infer says {spec.dtype}{list(spec.shape)} for output {place}, "
                    f"build makes {kind}{list(shape)}",
                    "both describe the same output",
                    "correct one of them, or leave infer out",
                )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        values = self.bind(args, kwargs)
        tensors = [values[name] for name in self.tensor_names if values[name] is not None]
        if any(isinstance(t, Tensor) for t in tensors):
            return self.member("build")(*values.values())
        if any(type(t).__module__.partition(".")[0] == "torch" for t in tensors):
            adapter = importlib.import_module("pto.torch")  # the facade loads it, as for a user
            return adapter.call(self.name, args, kwargs)
        if self._jit is None:
            from pto.language.jit import jit

            self._jit = jit(self.member("build"))
        return self._jit(*values.values())

    def bind(self, args: tuple, kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments of a call by name, in schema order, with defaults filled in."""
        positional = [a.name for a in self.arguments if not a.keyword_only]
        values = dict(zip(positional, args, strict=False))
        wrong = [name for name in kwargs if name in values or name not in self._names()]
        missing = [
            a.name
            for a in self.arguments
            if not a.has_default and a.name not in values and a.name not in kwargs
        ]
        if wrong or missing or len(args) > len(positional):
            raise InvalidType(
                f"{self.name}: called with {len(args)} positional arguments"
                + "".join(f", {n}=" for n in kwargs)
                + (f"; missing: {', '.join(missing)}" if missing else ""),
                f"the signature is {self.schema}",
                "call it as the signature says",
            )
        values |= kwargs
        return {a.name: values.get(a.name, a.default) for a in self.arguments}

    def _names(self) -> set[str]:
        return {a.name for a in self.arguments}

    def __repr__(self) -> str:
        return f"<operator {self.schema}>"


class GradientOperator(Operator):
    """NAME_backward: the gradients of the outputs, what was saved, the attributes, `needs`."""

    def __init__(self, of: Operator, saved: tuple[str, ...], wanted: tuple[str, ...]):
        tensors = [f"Tensor d_{name}" for name in of.outputs]
        kinds = {a.name: a.kind for a in of.arguments}
        tensors += [f"{kinds.get(name, 'Tensor')} {name}" for name in saved]
        attributes = [str(a) for a in of.attribute_arguments] + ["int needs=-1"]
        results = ", ".join(["Tensor"] * len(wanted))
        schema = f"{of.name}_backward({', '.join(tensors)}, *, {', '.join(attributes)}) -> "
        super().__init__(schema + (f"({results})" if len(wanted) > 1 else results), of.definition)
        self.of, self.saved, self.wanted = of, saved, wanted
        self.__doc__ = f"The gradients of {of.name}; bit i of `needs` asks for result i."

    def member(self, name: str) -> Any:
        return self._build if name == "build" else None

    def _build(self, *values: Any) -> tuple[Tensor, ...]:
        arguments = dict(zip((a.name for a in self.arguments), values, strict=True))
        needed = frozenset(n for i, n in enumerate(self.wanted) if arguments["needs"] >> i & 1)
        tensors = {name: arguments[name] for name in self.saved}
        ctx = GradientContext(self.of, lambda name: self._saved(tensors, name), arguments, needed)
        d_outputs = [arguments[f"d_{name}"] for name in self.of.outputs]
        gradients = gradients_by_name(self.of, self.of.member("grad")(ctx, *d_outputs))
        trace = d_outputs[0].trace
        return tuple(
            self._gradient(trace, name, gradients, tensors)
            if name in needed
            else broadcast_to(constant(trace, 0, d_outputs[0].dtype), (0,))
            for name in self.wanted
        )

    def _saved(self, tensors: dict[str, Tensor], name: str) -> Tensor:
        if name in tensors:
            return tensors[name]
        raise InvalidValue(
            f"{self.of.name}: grad asks for {name!r} only for some attributes",
            "what is saved is found once, from the default attributes",
            f"say in the class what it may need: saved = {(*self.saved, name)!r}",
        )

    def _gradient(self, trace: Trace, name: str, gradients: dict, tensors: dict) -> Tensor:
        gradient = gradients[name]
        if not isinstance(gradient, Tensor) or gradient.trace is not trace:
            raise InvalidType(
                f"{self.of.name}: grad returned {describe(gradient)} for {name}",
                "a gradient is a traced tensor, and None only where there never is one",
                "return a tensor computed from the arguments of grad",
            )
        like = tensors.get(name)
        return gradient if like is None else sum_to(gradient, like)


def gradients_by_name(of: Operator, result: Any) -> dict[str, Tensor | None]:
    """What `grad` returned, by argument name."""
    if isinstance(result, dict):
        unknown = sorted(set(result) - set(of.tensor_names))
    else:
        result = result if isinstance(result, tuple | list) else (result,)
        unknown = [] if len(result) == len(of.tensor_names) else [f"{len(result)} values"]
        result = dict(zip(of.tensor_names, result, strict=False))
    if unknown:
        raise InvalidValue(
            f"{of.name}: grad returned gradients for {', '.join(unknown)}",
            f"the tensor arguments are {', '.join(of.tensor_names)}",
            "return a dict by their names, or a tuple with one gradient for each",
        )
    return result


def _probe(operator: Operator) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Traces `grad` once, on f32 tensors of rank 2: (what it saves, whose gradients it gives)."""
    trace = Trace(operator.name)
    symbols = itertools.count()

    def tensor(name: str) -> Tensor:
        dims = tuple(_core.Dim.symbol(next(symbols)) for _ in range(2))
        return trace.input(name, "f32", dims)

    d_outputs = [tensor(f"d_{name}") for name in operator.outputs]
    tensors = {name: tensor(name) for name in operator.tensor_names + operator.outputs}
    attributes = {
        a.name: trace.scalar(a.name, "f32") if a.kind == "float" else a.default
        for a in operator.attribute_arguments
    }
    everything = frozenset(operator.tensor_names)
    ctx = GradientContext(operator, tensors.__getitem__, attributes, everything)
    gradients = gradients_by_name(operator, operator.member("grad")(ctx, *d_outputs))
    asked = set(operator.member("saved") or ctx.asked)
    saved = tuple(n for n in operator.tensor_names + operator.outputs if n in asked)
    wanted = tuple(n for n in operator.tensor_names if gradients.get(n) is not None)
    return saved, wanted


_operators: list[Operator] = []  # by index of the registry
_lock = threading.Lock()


def operators() -> tuple[Operator, ...]:
    """All operators in the order of their definition, gradient operators included."""
    return tuple(_operators)


def op(schema: str) -> Callable[[type], Operator]:
    """Decorates a class that defines an operator; see the head of this file."""

    def define(definition: type) -> Operator:
        operator = Operator(schema, definition)
        if operator.member("build") is None:
            raise InvalidType(
                f"{operator.name}: the class {definition.__name__} has no build",
                "build says what the operator computes",
                f"add: def build({', '.join(a.name for a in operator.arguments)})",
            )
        added = [operator]
        saved, wanted = _probe(operator) if operator.member("grad") else ((), ())
        if wanted:
            operator.gradient = Gradient(GradientOperator(operator, saved, wanted), saved, wanted)
            added.append(operator.gradient.operator)
        with _lock:
            _register(operator, added)
        return operator

    return define


def _register(operator: Operator, added: list[Operator]) -> None:
    gradient = operator.gradient
    places = {a.name: i for i, a in enumerate(operator.arguments)}
    places |= {name: -1 - i for i, name in enumerate(operator.outputs)}
    index = _core.define_operator(
        operator.schema,
        gradient.operator.schema if gradient else "",
        [places[name] for name in gradient.saved] if gradient else [],
        [places[name] for name in gradient.wanted] if gradient else [],
    )
    if index != len(_operators):
        raise RuntimeError(f"operator {index} was defined beside pto.language.op")
    _operators.extend(added)
    for place, one in enumerate(added):
        one.index = index + place
    _core.announce_operators(index)


def _trace(index: int, tensors: list, attributes: list) -> _core.Graph:
    return _operators[index].trace(
        [t and (str(dtype(t[0])), t[1]) for t in tensors], list(attributes)
    )


_core.set_operator_tracer(_trace)
