# SPDX-License-Identifier: Apache-2.0
"""The operators of the public vendor-neutral library: inputs, attributes, outputs, in this order.

    infini.ops.add(a, b, 1.0, out, stream=0, implementation_index=8)
    infini.ops.Add.active_implementation_indices("cpu")        # [0, 8]
    infini.ops.Add.clear_cache()

A name is that of ATen, without underscores at its ends: `add` serves add_, too, and
internal_softmax is _softmax; pto.aten.outputs_last has the rules. Arrays are NumPy's, PyTorch's or
DLPack's. Attributes with a default may be left out from the last one back. A call returns None.

Calls on the CPU are done when they return, whatever the stream. Without an index the lowest slot
that takes a call runs it. Thread safety: as pto.aten.
"""

import typing  # this module's own Any is the class of the operator any
from collections.abc import Mapping, Sequence

import pto.aten
from pto.aten import outputs_last
from pto.aten.binding import Bound, bind
from pto.aten.choice import chosen
from pto.aten.face import Overload, run
from pto.aten.implementations import ATEN, implementations
from pto.aten.outputs_last import Signature
from pto.aten.records import library, record_of
from pto.errors import InvalidType, InvalidValue, UnknownAttribute, nearest


class Function:
    """One operator: `infini.ops.add`."""

    def __init__(self, name: str, family: Sequence[str]):
        self.__name__ = self.__qualname__ = name
        self._family = family
        self._signatures: tuple[Signature, ...] = ()

    @property
    def signatures(self) -> tuple[Signature, ...]:
        """Its signatures, read from PyTorch's dispatcher when they are first asked for."""
        if not self._signatures:
            found = outputs_last.operator(self.__name__, self._family).signatures
            if not found:
                raise UnknownAttribute(
                    f"infini.ops has no {self.__name__}",
                    f"{self._family[0]} of PyTorch returns no tensor and writes none",
                    f"call pto.aten.{self._family[0]}",
                )
            self._signatures = found
        return self._signatures

    def forget(self) -> None:
        """Reads the signatures again at the next call."""
        self._signatures = ()

    def bind(
        self, args: tuple, kwargs: Mapping[str, typing.Any]
    ) -> tuple[Signature, Bound, list[typing.Any]]:
        """The signature that is nearest to a call, its values and its outputs.

        Raises InvalidType with each signature and what does not fit it, where none does.
        """
        best, refusals = None, []
        for signature in self.signatures:
            try:
                values, outputs = _by_name(signature, args, kwargs)
                bound = bind([signature.record], (), values)
            except InvalidType as error:
                reason = error.why.partition(f"{signature.record.schema}: ")[2] or error.why
                refusals.append(f"\n    ({signature}): {reason}")
                continue
            if best is None or bound.distance < best[1].distance:
                best = signature, bound, outputs
        if best is None:
            given = ", ".join(map(library().describe, (*args, *kwargs.values())))
            raise InvalidType(
                f"infini.ops.{self.__name__}({given}) fits no signature",
                "each takes:" + "".join(refusals[:12]),
                "give inputs first, then attributes, then outputs",
            )
        return best

    def check(self, args: tuple, kwargs: Mapping[str, typing.Any]) -> None:
        """Raises InvalidType where a call with these arguments would fit nothing."""
        self.bind(args, kwargs)

    def __call__(
        self,
        *args: typing.Any,
        stream: int = 0,
        implementation_index: int | None = None,
        **kwargs: typing.Any,
    ) -> None:
        signature, bound, outputs = self.bind(args, kwargs)
        made = run(bound, outputs[0] if outputs else None, implementation_index)
        if signature.out is None:
            results = made if len(signature.outputs) > 1 else (made,)
            for output, result in zip(outputs, results, strict=True):
                _copy(signature, output, result)

    def __repr__(self) -> str:
        return f"<infini.ops.{self.__name__}>"


def _by_name(
    signature: Signature, args: tuple, kwargs: Mapping[str, typing.Any]
) -> tuple[dict[str, typing.Any], list[typing.Any]]:
    """The values by the schema's names, and the outputs, which are the last arguments."""
    behind = [name for name in signature.outputs if name not in kwargs]
    n = len(args) - len(behind)
    if n < 0:
        raise InvalidType("", f"{behind[n]} is missing, outputs stand last")
    if n > len(signature.names):
        most = len(signature.names) + len(behind)
        raise InvalidType("", f"it takes {most} arguments, {len(args)} are given")
    inputs = dict(zip(signature.names, args[:n], strict=False))
    outputs = dict(zip(behind, args[n:], strict=True))
    for name, value in kwargs.items():
        if name in inputs:
            raise InvalidType("", f"{name} is given twice")
        (outputs if name in signature.outputs else inputs)[name] = value
    schema = {name: a.name for name, a in zip(signature.names, signature.arguments, strict=True)}
    values = {schema.get(name, name): value for name, value in inputs.items()}
    if signature.out is not None:
        values.update(outputs)
    return values, [outputs[name] for name in signature.outputs]


def _copy(signature: Signature, output: typing.Any, result: typing.Any) -> None:
    """Writes a result, or a list of results, into outputs of its sizes and type."""
    if isinstance(result, list | tuple):
        if not isinstance(output, list | tuple) or len(output) != len(result):
            raise InvalidValue(
                f"{signature.record.full_name} has a list of {len(result)} results",
                f"the output is {library().describe(output)}",
                "pass a list with an output for each",
            )
        for one, other in zip(output, result, strict=True):
            _copy(signature, one, other)
        return
    describe = library().describe
    # The view of an array of DLPack alone is a tensor of PyTorch. Neither name may be on a list.
    view = Overload(record_of("alias"))(output)
    if tuple(view.shape) != tuple(result.shape) or view.dtype != result.dtype:
        raise InvalidValue(
            f"{signature.record.full_name}: the output is {describe(output)},"
            f" the result is {describe(result)}",
            "elements are copied as they are",
            "pass an output like the result",
        )
    Overload(record_of("copy_"))(output if isinstance(output, type(view)) else view, result)


class Operator:
    """The class of an operator, "Add"; an instance is one call's signature, checked."""

    function: Function

    def __init__(self, *args: typing.Any, **kwargs: typing.Any):
        self.function.check(args, kwargs)

    def __call__(self, *args: typing.Any, **kwargs: typing.Any) -> None:
        self.function(*args, **kwargs)

    @classmethod
    def active_implementation_indices(cls, device: str) -> list[int]:
        """The slots of a device that take a call of some signature."""
        found = set()
        for signature in cls.function.signatures:
            for one in implementations(signature.record):
                if one.platform == device and (one.slot != ATEN or signature.record.cpu):
                    found.add(one.slot)
        return sorted(found)

    @classmethod
    def clear_cache(cls) -> None:
        """Reads the operator from PyTorch's dispatcher again at the next call."""
        cls.function.forget()


class _Gemm(Function):
    """y = alpha op(a) op(b) + beta c; op transposes the last two axes where it is asked to."""

    def check(self, args: tuple, kwargs: Mapping[str, typing.Any]) -> None:
        self._by_name(args, kwargs)

    def __call__(
        self,
        *args: typing.Any,
        stream: int = 0,
        implementation_index: int | None = None,
        **kwargs: typing.Any,
    ) -> None:
        self._run(implementation_index, **self._by_name(args, kwargs))

    def _by_name(self, args: tuple, kwargs: Mapping[str, typing.Any]) -> dict[str, typing.Any]:
        names = ("a", "b", "c", "alpha", "beta", "trans_a", "trans_b", "y")
        places = names if len(args) + len(kwargs) > 3 else ("a", "b", "y")
        given = {**dict(zip(places, args, strict=False)), **kwargs}
        if (
            len(args) > len(places)
            or len(given) < len(args) + len(kwargs)
            or given.keys() - {*names}
        ):
            raise InvalidType(
                f"infini.ops.gemm gets {', '.join(map(library().describe, args))}"
                + "".join(f", {name}=" for name in kwargs),
                "it takes (a, b, y) or (a, b, c, alpha, beta, trans_a, trans_b, y)",
                "give None for what is left out in between",
            )
        missing = [name for name in "aby" if library().dense_type(given.get(name)) is None]
        if missing:
            what = f"infini.ops.gemm has no {missing[0]} that is an array"
            raise InvalidType(what, "it is needed", "pass it")
        return {name: given.get(name) for name in names}

    def _run(
        self, slot: int | None, a: typing.Any, b: typing.Any, c: typing.Any,
        alpha: float | None, beta: float | None, trans_a: int | None, trans_b: int | None,
        y: typing.Any,
    ) -> None:  # fmt: skip
        a = pto.aten.transpose(a, -2, -1) if trans_a else a
        b = pto.aten.transpose(b, -2, -1) if trans_b else b
        alpha = 1.0 if alpha is None else alpha
        if c is None and alpha == 1:
            pto.aten.matmul.out(a, b, out=y, slot=slot)
            return
        scaled = {2: pto.aten.addmm, 3: pto.aten.baddbmm}.get(len(y.shape))
        if scaled is None:
            raise InvalidValue(
                f"infini.ops.gemm with a factor or c gets y of rank {len(y.shape)}",
                "it is computed for ranks 2 and 3",
                "view y as rank 3",
            )
        added, times = (y, 0.0) if c is None else (c, 1.0 if beta is None else beta)
        scaled.out(added, a, b, beta=times, alpha=alpha, out=y, slot=slot)


_functions: dict[str, Function] = {}  # each, once it was asked for
_classes: dict[str, type[Operator]] = {}  # by the name of the operator


def _function(name: str, family: Sequence[str]) -> Function:
    """The operator of a name, one for the process."""
    made = _functions.get(name) or (_Gemm if name == "gemm" else Function)(name, family)
    return _functions.setdefault(name, made)


def _families() -> Mapping[str, Sequence[str]]:
    """The names of ATen behind each operator; a list of names keeps those with one of it."""
    families = {**outputs_last.families(), "gemm": ["matmul"]}
    restricted = chosen()
    if restricted is None:
        return families
    return {
        name: family for name, family in families.items() if not restricted[1].isdisjoint(family)
    }


def _class(name: str, family: Sequence[str]) -> type[Operator]:
    if name not in _classes:
        held = {"function": _function(name, family), "__module__": __name__}
        _classes.setdefault(name, type(_class_name(name), (Operator,), held))
    return _classes[name]


def _class_name(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def names() -> list[str]:
    """The names of all operators."""
    return sorted(_families())


def __getattr__(name: str) -> typing.Any:
    if name.startswith("__"):
        raise AttributeError(f"module 'infini.ops' has no attribute {name!r}")
    if chosen() is None and name in _functions:
        return _functions[name]
    known = _families()
    if name in known:
        return _function(name, known[name])
    for one, family in known.items():
        if name[:1].isupper() and _class_name(one) == name:
            return _class(one, family)
    why = f"it is restricted to names of {of[0]}; " if (of := chosen()) else ""
    raise UnknownAttribute(
        f"infini.ops has no operator {name}",
        why + nearest(name, [*known, *map(_class_name, known)]),
        "a name is that of ATen without underscores at its ends; infini.ops.names() has all",
    )


def __dir__() -> list[str]:
    return [*names(), "names"]
