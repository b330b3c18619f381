# SPDX-License-Identifier: Apache-2.0
"""Packages of jitted functions: compiled for some calls, saved, and run without a compiler.

    attend.package("f.pto", (q, keys), (q[:1], keys))   # compiles for calls such as these
    attend = pto.load("f.pto")                          # perhaps in another process

A call such as an example has its element types, ranks, sizes of 1 and constants; other sizes are
free. An example is the tuple of a call's arguments, or a dict of them by name; if the first is
neither, all are the arguments of one call. In the place of an array may stand its type,
`pto.Tensor[pto.DYN, 64, pto.f32]`; a size that it leaves free is any size, 1 included
(free_sizes.py).

The file is of kind "program" (pto/container.py). Its payload are the compiled programs
(pto/launch/sealed.hpp), which C runs too (pto/abi/package.h); its header says how Python's
arguments and results belong to them. The compilation fixed the values that the function captures.

Thread safety: a loaded function may be called from several threads.
"""

import json
import sys
from collections.abc import Sequence
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any, NamedTuple

from pto import _core, container
from pto.config import config
from pto.container import Package
from pto.errors import InvalidType, InvalidValue, unknown_attribute
from pto.language import adapters, arguments
from pto.language.annotations import TensorType
from pto.language.dtypes import DType, dtype
from pto.language.free_sizes import with_ones
from pto.language.location import describe, fail, user_line
from pto.language.program import has_lists
from pto.language.results import LEAF, Form
from pto.language.tuned import with_choices
from pto.language.written import finish

if TYPE_CHECKING:
    from pto.language.jit import Jit

TENSOR, NUMBER = "tensor", "number"  # the key of a parameter that is no constant

# --- calls ---------------------------------------------------------------------------------------


class Given(NamedTuple):
    """A parameter of a call: (dtype, shape, stride class) of a tensor, or a constant, which may be
    a number of each call."""

    name: str
    about: tuple | None
    constant: Any
    is_number: bool

    @property
    def text(self) -> str:
        if self.about:
            kind, shape, strides = self.about[:3]
            gaps = " with gaps" if strides else ""
            return f"{self.name}: {kind}[{', '.join(map(str, shape))}]{gaps}"
        return f"{self.name}: float" if self.is_number else f"{self.name}={self.constant!r}"

    def key(self, function: str) -> str:
        """The parameter as text: calls with other keys need other variants."""
        if self.about:
            return TENSOR
        constant = _encoded(function, self.name, self.constant)
        return NUMBER if self.is_number else json.dumps(constant)


def call_text(function: str, call: Sequence[Given]) -> str:
    """The call as text: "attend(q: f32[s0, s1], k=2, scale: float)"."""
    return f"{function}({', '.join(one.text for one in call)})"


# --- saving --------------------------------------------------------------------------------------


def save(jit: "Jit", path: Any, examples: Sequence[Any], texts: bool = False) -> None:
    """Compiles a function for the examples and writes them to a file, with texts if asked for."""
    path = container.path_of(path, f"{jit.__name__}.package")
    calls = every_call(jit, calls_of(jit.__name__, examples))
    header, payload = compiled(jit, calls, (config.target,))
    if texts:
        add_texts(header, jit, calls, config.target)
    container.save(path, container.content_of("program", header, payload))


def compiled(
    jit: "Jit", calls: list[tuple[tuple, dict]], targets: tuple[str, ...]
) -> tuple[dict[str, Any], list[bytes]]:
    """The header of a function and its programs: for each call one for each target."""
    if jit.is_method:
        fail(f"{jit.__name__}: a method has no package",
             "what it reads of its object is no argument",
             "write a function that takes it as arguments", InvalidType)  # fmt: skip
    payload, variants, seen, built = [], [], [], ""
    for call, graph, form in _traced(jit, [described(jit, *call) for call in calls]):
        text, keys = call_text(jit.__name__, call), [one.key(jit.__name__) for one in call]
        tensors = [one.about for one in call]
        writes = jit._writes(len(graph.outputs), tensors, form)
        strides = [about[2] for about in tensors if about]
        if (text, keys, strides) in seen:
            continue  # another example is served by the same code
        seen.append((text, keys, strides))
        graph = with_choices(jit, graph)
        for target in targets:
            built, program = _core.seal(graph, strides, writes, target, text, scalars_of(call))
            payload.append(program)
        variants.append({"name": text, "keys": keys, "form": form})
    return header_of(jit, ",".join(targets) if targets[0] else built, variants), payload


def add_texts(
    header: dict[str, Any], jit: "Jit", calls: list[tuple[tuple, dict]], target: str
) -> None:
    """Adds to each variant what the studio shows of its program: stages, C++, the user's lines."""
    from pto.language.program_page import packed_texts  # seldom needed

    for call, graph, _ in _traced(jit, [described(jit, *call) for call in calls]):
        name, strides = call_text(jit.__name__, call), [one.about[2] for one in call if one.about]
        packed = packed_texts(jit.__name__, with_choices(jit, graph), strides, target)
        for variant in header["variants"]:
            if variant["name"] == name:
                variant["texts"] = packed


def every_call(jit: "Jit", calls: list[tuple[tuple, dict]]) -> list[tuple[tuple, dict]]:
    """The calls, and those in which a size that a type leaves free is 1."""

    def guarded(values: dict[str, Any]) -> tuple[list[Given], list]:
        [(call, graph, _)] = _traced(jit, [described(jit, (), values)])
        return call, graph.guards

    return with_ones(jit.parameters, calls, guarded)


def header_of(jit: "Jit", target: str, variants: list[dict]) -> dict[str, Any]:
    """The record of a function in a file, with the names, keys and forms of its variants."""
    return {
        "name": jit.__name__, "target": target, "parameters": list(jit.parameters),
        "defaults": [_encoded(jit.__name__, "a default", value) for value in jit.defaults],
        "writes": jit.writes,
        "variants": [{**one, "form": _form_text(one["form"])} for one in variants],
    }  # fmt: skip


def calls_of(name: str, examples: Sequence[Any]) -> list[tuple[tuple, dict]]:
    """The arguments of each example, by place and by name."""
    if not examples or not isinstance(examples[0], tuple | dict):
        examples = (tuple(examples),)
    for one in examples:
        if not isinstance(one, tuple | dict):
            fail(f"{name}.package: an example is {describe(one)} behind one that is a tuple",
                 "each example has all arguments of a call",
                 "pass a tuple for each call: (x,), (y,)", InvalidType)  # fmt: skip
    return [((), one) if isinstance(one, dict) else (one, {}) for one in examples]


def described(jit: "Jit", args: tuple, kwargs: dict) -> list[Given]:
    """One call; its shapes are those with which it is traced."""
    values = {**dict(zip(jit.parameters, args, strict=False)), **kwargs}
    if has_lists(tuple(values.values())):
        fail(f"{jit.__name__}.package: an argument is a list of tensors",
             "a loaded function takes tensors one by one",
             "package a function with a parameter for each", InvalidType)  # fmt: skip
    beside = next((one for one in values.values() if hasattr(one, "new_zeros")), None)
    args = tuple(_stand_in(jit, one, beside) for one in args)
    kwargs = {name: _stand_in(jit, one, beside) for name, one in kwargs.items()}
    tensors, constants, numbers = jit.describe_call(*args, **kwargs)
    for place, name in enumerate(jit.parameters):
        if isinstance(kind := values.get(name), TensorType):
            shape = kind.shape(name, str(kind.kind), tensors[place][1])
            tensors[place] = (str(kind.kind), shape, 0)
    tensors = [about and (*new[:2], about[2])
               for about, new in zip(tensors, jit.annotated(tensors), strict=True)]  # fmt: skip
    return [*map(Given, jit.parameters, tensors, constants, numbers)]


def _stand_in(jit: "Jit", value: Any, beside: Any) -> Any:
    """An array with the axes of a type, of the library of the others; any other value as it is.

    A call is described by which sizes are 1, so that 2 stands for all others, huge ones too.
    """
    if not isinstance(value, TensorType):
        return value
    sizes = value.sizes
    if value.kind is None or ... in sizes or value.is_static or len(sizes) > _core.MAX_RANK:
        fail(f"{jit.__name__}.package: an example is {value!r:.80}",
             f"it has a number or pto.DYN for each axis, at most {_core.MAX_RANK}; an element type",
             "write pto.Tensor[pto.DYN, 64, pto.f32]", InvalidType)  # fmt: skip
    shape = [1 if size == 1 else 2 for size in sizes]
    if beside is not None:
        return beside.new_zeros(shape, requires_grad=False)
    import numpy

    return numpy.zeros(shape, numpy.float32)


def _traced(jit: "Jit", calls: list[list[Given]]) -> list[tuple[list[Given], _core.Graph, Form]]:
    """The graph and form of each call; numbers that steer one are constants of all."""
    found = []
    for call in calls:
        tensors, constants, numbers = map(list, list(zip(*call, strict=True))[1:])
        graph, form, steering = jit.traced(tensors, constants, numbers)
        if graph is None:
            return _traced(jit, [
                [one._replace(is_number=one.is_number and not steering >> place & 1)
                 for place, one in enumerate(call)] for call in calls
            ])  # fmt: skip
        found.append((call, graph, form))
    return found


def scalars_of(call: list[Given]) -> list[int | float | None]:
    """The parameters that C passes as scalars: None, or the value to which one is fixed."""
    return [None if one.is_number else one.constant for one in call
            if not one.about and isinstance(one.constant, bool | int | float)]  # fmt: skip


# --- values in the header ------------------------------------------------------------------------


def _encoded(function: str, name: str, value: Any) -> Any:
    """A constant as JSON, which tells 1, 1.0 and True apart."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if value is ...:  # a parameter by name only, without a default
        return {"is": "required"}
    if isinstance(value, DType):
        return {"is": "dtype", "name": str(value)}
    if type(value) is tuple:
        return {"is": "tuple", "of": [_encoded(function, name, one) for one in value]}
    fail(f"{function}.package: {name} is {describe(value)}",
         "a package keeps numbers, texts, None, element types, and tuples of these",
         "pass such a value, or let the function capture it", InvalidType)  # fmt: skip


def _decoded(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if value["is"] == "tuple":
        return tuple(_decoded(one) for one in value["of"])
    return dtype(value["name"]) if value["is"] == "dtype" else ...


def _form_text(form: Form) -> dict | None:
    if form.is_leaf:
        return None
    return {
        "kind": form.kind.__name__, "fields": getattr(form.kind, "_fields", None),
        "keys": [_encoded("f", "a key of the result", key) for key in form.keys],
        "members": [_form_text(one) for one in form.members],
    }  # fmt: skip


def _form(text: dict | None) -> Form:
    """A form; a named tuple is of a class of its own with the same fields."""
    if text is None:
        return LEAF
    kinds = {"dict": dict, "list": list, "tuple": tuple}
    if text["fields"] is None:
        kind = kinds[text["kind"]]
    else:
        from collections import namedtuple

        kind = namedtuple(text["kind"], text["fields"])
    members = tuple(_form(one) for one in text["members"])
    return Form(kind, tuple(_decoded(key) for key in text["keys"]), members)


# --- loading -------------------------------------------------------------------------------------


class PackagedFunction(_core.Callable):
    """A function from a file; call it as the one that was packaged. load() makes it."""

    def __init__(self, package: Package):
        header = package.header
        self.__name__, self.parameters = header["name"], tuple(header["parameters"])
        self.defaults = tuple(map(_decoded, header["defaults"]))
        self.programs = _core.ProgramPackage(package.shown, bytes(package.payload))
        self.keys = [variant["keys"] for variant in header["variants"]]
        self.forms = [_form(variant["form"]) for variant in header["variants"]]
        if len(self.keys) != len(self.programs.texts):
            raise ValueError("the payload has other programs than the header")
        self.has_constants = [any(keys[i] not in (TENSOR, NUMBER) for keys in self.keys)
                              for i in range(len(self.parameters))]  # fmt: skip
        self.__signature__ = signature_of(self.parameters, self.defaults)
        self.bind_function(self.__name__, self.parameters, self.defaults, arguments, False, True)

    @staticmethod
    def from_package(package: Package) -> Any:
        package.check_kind("program")
        with container.checked_header(package.shown):
            found = PackagedFunction(package)
            return PackagedProgram(found) if package.header["writes"] else found

    @property
    def variants(self) -> tuple[str, ...]:
        """The calls that the package serves, as texts."""
        return tuple(self.programs.texts)

    @property
    def targets(self) -> tuple[str, ...]:
        """The instructions that the code of each variant uses: the best that this CPU has."""
        return tuple(self.programs.targets)

    def __getattr__(self, name: str) -> Any:
        raise unknown_attribute("a packaged function", name, dir(self))

    def __repr__(self) -> str:
        return f"<pto packaged {self.__name__}: {len(self.keys)} variants>"

    def captured(self) -> tuple[tuple, tuple]:
        return (), ()  # what it was traced with travels in the code

    def specialise(self, tensors: list, constants: list, numbers: list[bool]) -> tuple:
        """As Jit.specialise(), from the variants of the package."""
        steering = sum(1 << i for i, yes in enumerate(numbers) if yes and self.has_constants[i])
        if steering:
            return None, None, steering
        call = [*map(Given, self.parameters, tensors, constants, numbers)]
        keys = self._keys(call)
        among = [i for i, own in enumerate(self.keys) if own == keys]
        chosen = self.programs.choose([about for about in tensors if about], among)
        if chosen is None:
            raise InvalidValue(
                f"{self.programs.shown}: no variant serves the call "
                + call_text(self.__name__, call),
                "element types, ranks, which sizes are 1 and constants are those of:"
                + "".join(f"\n    {one}" for one in self.variants),
                "pass such arguments, or package the function with an example of this call",
                user_line(),
            )
        form = self.forms[chosen]
        plain = None if form.is_leaf else tuple if form.is_row else form
        return self.programs.program(chosen), plain, 0

    def _keys(self, call: list[Given]) -> list[str] | None:
        try:
            return [one.key(self.__name__) for one in call]
        except InvalidType:  # a constant that no package has
            return None

    def call_traced(self, *args: Any, **kwargs: Any) -> None:
        fail(f"{self.__name__}: a packaged function is called by one that is being traced",
             "a package has code and no graph", "call the function that was packaged",
             InvalidType)  # fmt: skip

    def call_in_library(self, /, *args: Any, **kwargs: Any) -> Any:
        """Makes a call on tensors of PyTorch that do not simply lie in memory."""
        on_device = adapters.load("torch.on_device")
        if on_device.takes([*args, *kwargs.values()]):
            return on_device.call(self, args, kwargs)
        torch = sys.modules["torch"]
        needs = [x for x in (*args, *kwargs.values()) if getattr(x, "requires_grad", False)]
        if needs and torch.is_grad_enabled():
            fail(f"{self.__name__}: a tensor requires a gradient",
                 "a package has the code of the function, and none of its gradient",
                 "pass x.detach(), or call it under torch.no_grad()")  # fmt: skip
        arguments.refuse(self.__name__, self.__name__, None, "for library", "")


class PackagedProgram:
    """A program from a file: it writes the parameters that the function writes."""

    def __init__(self, function: PackagedFunction):
        self.function, self.__name__ = function, function.__name__
        self.__signature__ = function.__signature__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        found = self.function(*args, **kwargs)
        return finish(self.__name__, self.__signature__, found, args, kwargs)

    @property
    def variants(self) -> tuple[str, ...]:
        """The calls that the package serves, as texts."""
        return self.function.variants

    @property
    def targets(self) -> tuple[str, ...]:
        """The instructions that the code of each variant uses: the best that this CPU has."""
        return self.function.targets

    def __repr__(self) -> str:
        return repr(self.function)


def signature_of(names: tuple[str, ...], defaults: tuple) -> Signature:
    """The signature of these parameters, of which the last ones have defaults."""
    missing = (Parameter.empty,) * (len(names) - len(defaults))
    given = [Parameter.empty if one is ... else one for one in (*missing, *defaults)]
    kind = Parameter.POSITIONAL_OR_KEYWORD
    ordered = sorted(zip(names, given, strict=True), key=lambda one: one[1] is not Parameter.empty)
    return Signature([Parameter(name, kind, default=default) for name, default in ordered])
