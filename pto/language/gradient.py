# SPDX-License-Identifier: Apache-2.0
"""Makes the gradient of an operator an operator of its own, by tracing `grad` of its definition.

Thread safety: as in op.py.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pto import _core
from pto.errors import InvalidType, InvalidValue
from pto.language.differentiate import differentiate
from pto.language.infer import where_needed
from pto.language.location import describe
from pto.language.reduce import sum_to
from pto.language.shape import broadcast_to
from pto.language.tensor import Tensor
from pto.language.trace import Trace
from pto.language.types import constant

if TYPE_CHECKING:
    from pto.language.op import Operator


@dataclass(frozen=True)
class Gradient:
    """The gradient of an operator: which arguments it takes, and gives the gradients of."""

    operator: "Operator"
    saved: tuple[str, ...]  # tensor arguments and outputs of the operator
    wanted: tuple[str, ...]  # tensor arguments


@dataclass
class GradientContext:
    """The context of `grad`: saved tensors, attributes, and which gradients are needed."""

    operator: "Operator"
    tensors: Callable[[str], Tensor | None]
    attributes: dict[str, Any]
    needed: frozenset[str]
    asked: list[str] = field(default_factory=list)

    def saved(self, name: str) -> Any:
        """A tensor argument, or an output by its name ("result"), as the forward call saw it."""
        known = self.operator.tensor_names + self.operator.output_names
        self._check(name, known, "which was not saved")
        self.asked.append(name)
        return self.tensors(name)

    def needs(self, name: str) -> bool:
        """Says whether the gradient of this tensor argument is needed; the others are dropped."""
        self._check(name, self.operator.tensor_names, "which is no tensor argument")
        return name in self.needed

    def attribute(self, name: str) -> Any:
        """An attribute of the call; a float is a traced number."""
        known = [a.name for a in self.operator.attributes]
        self._check(name, known, "which is no attribute")
        return self.attributes[name]

    def _check(self, name: str, known: Sequence[str], why_not: str) -> None:
        if name not in known:
            raise InvalidValue(
                f"{self.operator.name}: grad asks for {name!r}, {why_not}",
                f"it may ask for {', '.join(known)}" if known else "there is none",
                "use one of these names" if known else "leave it out",
            )


def gradient_rule(of: "Operator") -> Callable:
    """`grad` of the definition; "automatic" is differentiation of `build`."""
    rule = of.member("grad")
    return automatic_gradient if rule == "automatic" else rule


def automatic_gradient(ctx: GradientContext, *d_outputs: Any) -> dict[str, Any]:
    """`grad` by differentiation of `build`."""
    of = ctx.operator
    values = {
        a.name: ctx.saved(a.name) if a.is_tensor else ctx.attribute(a.name) for a in of.arguments
    }
    results = dict(
        zip(of.output_names, of.results(of.member("build")(*values.values())), strict=False)
    )
    outputs = [t for name in of.differentiable for t in members(results[name])]
    inputs = [t for name in sorted(ctx.needed) for t in members(values[name])]
    given = [t for d in d_outputs for t in members(d)]
    found = iter(differentiate(outputs, given, inputs))
    gradients: dict[str, Any] = {}
    for name in sorted(ctx.needed):
        value = values[name]
        gradients[name] = [next(found) for _ in value] if isinstance(value, list) else (
            None if value is None else next(found)
        )  # fmt: skip
    return gradients


def automatic_rules(of: "Operator") -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(what an automatic gradient saves, whose gradients it gives): all that may be."""
    floats = {a.name for a in of.arguments if a.is_tensor and of.has_floats(a.type)}
    return of.tensor_names, tuple(name for name in of.tensor_names if name in floats)


def members(value: Any) -> list:
    """The tensors of an argument or output: of a list its members, of None none."""
    if isinstance(value, tuple | list):
        return list(value)
    return [] if value is None else [value]


def gradient_types(of: "Operator", saved: tuple[str, ...], wanted: tuple[str, ...]) -> str:
    """The types of that operator, in the variables of the operator's own."""
    by_name = {a.name: of.type_names[a.type] for a in of.arguments if a.is_tensor}
    by_name |= dict(zip(of.output_names, of.output_types, strict=True))
    takes = [by_name[name] for name in (*of.differentiable, *saved)]
    gives = [by_name[name] for name in wanted]
    used = [n for n in dict.fromkeys(takes) if n in of.type_names]
    if missing := [n for n in gives if n not in takes]:
        raise InvalidValue(
            f"{of.name}: nothing that its gradient takes has the type {missing[0]} of {wanted}",
            "the gradient operator learns the element types from its arguments",
            "let grad ask for a saved tensor of that type",
        )
    where = [f"{n}: {' '.join(of.types[of.type_names.index(n)])}" for n in used]
    text = f"({', '.join(takes)}) -> ({', '.join(gives)})"
    return text + (f" where {', '.join(where)}" if where else "")


class TracedGradient:
    """`build` and `infer` of the gradient operator, from `grad` of the operator's definition."""

    def __init__(self, of: "Operator", names: list[str], saved: tuple, wanted: tuple):
        self.of, self.names, self.saved, self.wanted = of, names, saved, wanted

    def build(self, *values: Any) -> tuple:
        arguments = dict(zip(self.names, values, strict=True))
        needs = values[-1]
        needed = frozenset(n for i, n in enumerate(self.wanted) if needs >> i & 1)
        tensors = {name: arguments[name] for name in self.saved}
        ctx = GradientContext(self.of, lambda name: self._saved(tensors, name), arguments, needed)
        d_outputs = [arguments[f"d_{name}"] for name in self.of.differentiable]
        gradients = gradients_by_name(self.of, gradient_rule(self.of)(ctx, *d_outputs))
        first = d_outputs[0][0] if isinstance(d_outputs[0], list) else d_outputs[0]
        return tuple(
            self._gradient(first, name, gradients, tensors)
            if name in needed
            else self._not_needed(first, name)
            for name in self.wanted
        )

    def infer(self, *specs: Any) -> tuple | None:
        """The shapes of the saved arguments; None where another shape is needed."""
        arguments = dict(zip(self.names, specs, strict=True))
        like = [arguments.get(name) for name in self.wanted]
        return None if any(one is None for one in like) else where_needed(specs[-1], *like)

    def _not_needed(self, like: Tensor, name: str) -> Any:
        if self.of.by_name[name].kind == "Tensor[]":
            return []
        return broadcast_to(constant(like.trace, 0, like.dtype), (0,))

    def _saved(self, tensors: dict[str, Tensor], name: str) -> Tensor:
        if name in tensors:
            return tensors[name]
        raise InvalidValue(
            f"{self.of.name}: grad asks for {name!r} only for some attributes",
            "what is saved is found once, from the default attributes",
            f"say in the class what it may need: saved = {(*self.saved, name)!r}",
        )

    def _gradient(self, like: Tensor, name: str, gradients: dict, tensors: dict) -> Any:
        gradient, argument = gradients[name], tensors.get(name)
        if self.of.by_name[name].kind != "Tensor[]":
            return self._summed(like, name, gradient, argument)
        is_list = isinstance(gradient, list | tuple)
        if not is_list or (argument is not None and len(gradient) != len(argument)):
            has = f"{len(gradient)} gradients" if is_list else describe(gradient)
            count = "" if argument is None else f" of {len(argument)} tensors"
            raise InvalidValue(
                f"{self.of.name}: grad returned {has} for {name}",
                f"{name} is a list{count}, and each of its tensors has a gradient",
                "return a list with a gradient for each tensor of the list",
            )
        arguments = argument or [None] * len(gradient)
        return [self._summed(like, name, *pair) for pair in zip(gradient, arguments, strict=True)]

    def _summed(self, first: Tensor, name: str, gradient: Any, like: Tensor | None) -> Tensor:
        if not isinstance(gradient, Tensor) or gradient.trace is not first.trace:
            raise InvalidType(
                f"{self.of.name}: grad returned {describe(gradient)} for {name}",
                "a gradient is a traced tensor, and None only where there never is one",
                "return a tensor computed from the arguments of grad",
            )
        if like is None:
            return gradient
        summed = sum_to(gradient, like)
        for size, wanted in zip(summed.shape, like.shape, strict=True):
            summed.trace.builder.guard_equal(size, wanted, f"the gradient of {name}")
        return summed


def gradient_name(of: "Operator") -> str:
    """The name of the operator that `gradient` of the definition says; "" where it says none."""
    said = of.member("gradient") or ""
    return f"{of.name}_backward" if isinstance(said, type) else said


def gradient_by_hand(of: "Operator") -> "Operator":
    """The operator of the class that `gradient` of the definition is."""
    definition = of.member("gradient")
    saved, wanted = of.member("saved") or (), of.member("wanted") or ()
    operator = type(of)(_gradient_schema(of, saved, wanted), definition,
                        vars(definition).get("types", ""))  # fmt: skip
    if of.member("linear"):
        definition.saved = tuple(name for name in of.tensor_names if name not in wanted)
        definition.wanted = operator.tensor_names[: len(of.differentiable)]
        definition.gradient = _linear_again(of, operator)
    return operator


def _linear_again(of: "Operator", gradient: "Operator") -> type:
    """The class of the gradient of a linear operator's gradient: the operator itself."""
    count, infer, work = len(of.arguments), of.member("infer"), of.member("work")
    members = {
        "__doc__": f"The gradient of {gradient.name}: {of.name}.",
        "types": gradient_types(gradient, gradient.member("saved"), gradient.member("wanted")),
        "infer": lambda *given: where_needed(given[-1], infer(*given[:count])),
        "work": lambda *given: work(*given[:count]),
        "kernel": of.member("kernel"),
    }
    return type("Gradient", (), members)


def _gradient_schema(of: "Operator", saved: tuple[str, ...], wanted: tuple[str, ...]) -> str:
    differentiable = [i for i, o in enumerate(of.outputs) if o.is_differentiable]
    return _core.gradient_schema(of.signature, differentiable, of.places(saved), of.places(wanted))


def _has_room(of: "Operator") -> bool:
    """Says whether an operator may take all that an automatic gradient of this one would."""
    tensors = len(of.differentiable) + len(of.tensor_names)
    needed = tensors + len(of.attributes) + 1  # which gradients are asked for
    return tensors <= _core.MAX_TENSORS and needed <= _core.MAX_ARGUMENTS


def gradient_of(
    of: "Operator", saved: tuple[str, ...], wanted: tuple[str, ...], orders: int = 2
) -> Gradient:
    """The gradient operator, itself with gradients of the other orders, traced at first use."""
    text = _gradient_schema(of, saved, wanted)
    types = gradient_types(of, saved, wanted)
    names = [a["name"] for a in _core.parse_schema(text, types)["arguments"]]
    rules = TracedGradient(of, names, saved, wanted)
    definition = {
        "__doc__": f"The gradients of {of.name}; bit i of `{names[-1]}` asks for result i.",
        "build": staticmethod(rules.build),
        "infer": staticmethod(rules.infer),
        "grad": "automatic",
    }
    operator = type(of)(text, type("Gradient", (), definition), types)
    if orders > 1 and operator.differentiable and _has_room(operator):
        operator.gradient = gradient_of(operator, *automatic_rules(operator), orders - 1)
    return Gradient(operator, saved, wanted)


def gradients_by_name(of: "Operator", result: Any) -> dict[str, Tensor | None]:
    """Returns by argument name what `grad` returned."""
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


def probed(operator: "Operator") -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Traces `grad` once, on tensors of rank 2: (what it saves, whose gradients it gives)."""
    if operator.member("grad") == "automatic":
        return automatic_rules(operator)
    trace = Trace(operator.name.rpartition("::")[2])
    symbols = itertools.count()

    def tensor(name: str, kind: str, is_list: bool) -> Any:
        if is_list:
            return [tensor(f"{name}{i}", kind, False) for i in range(2)]
        dims = tuple(_core.Dim.symbol(next(symbols)) for _ in range(2))
        return trace.input(name, kind, dims)

    lists = {o.name: o.is_list for o in operator.outputs}
    kinds = dict(zip(operator.output_names, operator.output_types, strict=True))
    d_outputs = [
        tensor(f"d_{name}", operator.probe_type(kinds[name]), lists[name])
        for name in operator.differentiable
    ]
    tensors = {
        a.name: tensor(
            a.name, operator.probe_type(operator.type_names[a.type]), a.kind == "Tensor[]"
        )
        for a in operator.arguments
        if a.is_tensor
    }
    tensors |= {
        name: tensor(name, operator.probe_type(kinds[name]), lists[name])
        for name in operator.output_names
    }
    attributes = {
        a.name: trace.scalar(a.name, trace.number_type) if a.kind == "float" else a.default
        for a in operator.attributes
    }
    everything = frozenset(operator.tensor_names)
    ctx = GradientContext(operator, tensors.__getitem__, attributes, everything)
    gradients = gradients_by_name(operator, operator.member("grad")(ctx, *d_outputs))
    asked = set(operator.member("saved") or ctx.asked)
    saved = tuple(n for n in operator.tensor_names + operator.output_names if n in asked)
    wanted = tuple(n for n in operator.tensor_names if gradients.get(n) is not None)
    return saved, wanted
