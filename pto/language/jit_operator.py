# SPDX-License-Identifier: Apache-2.0
"""Makes a jitted function operators of the registry, for calls that PyTorch has to make.

    y = scale(torch.randn(4, requires_grad=True), 2.0)    # torch.ops.pto_jit.scale_3f9c...

The first call with another set of tensors, element types or constants defines an operator. Its
schema has the tensors and the numbers of the call; the digest in its name covers the constants and
what the function captures. The adapter adds gradient, fake kernel, vmap and the rest, as for every
@op. One operator serves all floating-point types for which the function does the same.

Thread safety: operators are made under a lock; calls are as those of the operators.
"""

import hashlib
import itertools
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pto import _core
from pto.errors import InvalidValue
from pto.language import adapters, arguments, method
from pto.language.call_numbers import as_number, called
from pto.language.captures import Fingerprint, fingerprint
from pto.language.dtypes import dtype
from pto.language.jit_call import FLOATS, SortedCall, sorted_call
from pto.language.op import Operator, complete
from pto.language.results import Form, taken_apart
from pto.language.shape import clone
from pto.language.tensor import Tensor
from pto.language.trace import current as current_trace
from pto.locks import Lock

if TYPE_CHECKING:
    from pto.language.jit import Jit

SPACE = "pto_jit"
_MAX_SOURCES = 4  # of equal functions that an operator keeps
_lock = Lock()


@dataclass(frozen=True)
class Version:
    """An operator of a function, and how a call of the function becomes one of it."""

    operator: Operator
    form: Form
    tensors: tuple[int, ...]  # places of the parameters that are its tensors
    numbers: tuple[int, ...]  # ... and its numbers
    names: tuple[str, ...]  # of the numbers in the schema
    sources: list  # (fingerprint, function) of equal functions, any of which may be traced

    def accepts(self, kinds: list[str], outputs: list[str], form: Form) -> bool:
        """Says whether it computes a call whose tensors and results have these element types."""
        return form == self.form and self.types_of(kinds) == outputs

    def types_of(self, kinds: list[str]) -> list[str] | None:
        """The element types of the results for tensors of these; None: not its tensors."""
        chosen: dict[int, str] = {}
        op = self.operator
        for a, kind in zip([a for a in op.arguments if a.is_tensor], kinds, strict=True):
            if kind not in op.types[a.type] or chosen.setdefault(a.type, kind) != kind:
                return None
        of_name = {op.type_names[place]: kind for place, kind in chosen.items()}
        types = [of_name.get(name, name) for name in op.output_types]
        return types * len(self.form_leaves()) if op.outputs[0].is_list else types

    def form_leaves(self) -> list[int]:
        count = itertools.count()
        return taken_apart(self.form.assemble(count))[0]


@dataclass
class Group:
    """The versions of a function for one set of constants."""

    fingerprint: Fingerprint
    versions: list[Version] = field(default_factory=list)
    by_kinds: dict[tuple, Version] = field(default_factory=dict)


def call(jit: "Jit", args: tuple, kwargs: dict[str, Any]) -> Any:
    """The result of a call on tensors of PyTorch."""
    try:
        return _called(jit, args, kwargs)
    except Exception as error:
        if (graphs := method.graphs()) is not None:
            graphs.tell(error)
        raise


def _called(jit: "Jit", args: tuple, kwargs: dict[str, Any]) -> Any:
    out = kwargs.pop("out", None) if "out" not in jit.parameters else None
    version, given = _version(jit, args, kwargs)
    written = _written(jit, version.form)
    tensors = [given.values[place].clone() if jit.parameters[place] in written
               else given.values[place] for place in version.tensors]  # fmt: skip
    values = {n: given.values[p] for n, p in zip(version.names, version.numbers, strict=True)}
    torch = adapters.load("torch")
    if out is not None:
        form = tuple if version.form.is_row else version.form
        leaves = (out,) if form == Form() else arguments.targets(jit.__name__, form, out)
        names = ["out"] if len(leaves) == 1 else [f"out{i}" for i in range(len(leaves))]
        values |= zip(names, leaves, strict=True)
        torch.call(version.operator.name, tuple(tensors), values)
        return out
    result = torch.call(version.operator.name, tuple(tensors), values)
    return version.form.assemble(result if isinstance(result, tuple | list) else (result,))


def _written(jit: "Jit", form: Form) -> tuple[str, ...]:
    """The parameters that a program writes; its gradient needs what they were before."""
    return form.written if jit.writes else ()


def operator(jit: "Jit", args: tuple, kwargs: dict[str, Any]) -> Any:
    """torch.ops.pto_jit.NAME_DIGEST of such a call."""
    version, _ = _version(jit, args, kwargs)
    name = version.operator.name.rpartition("::")[2]
    return getattr(getattr(sys.modules["torch"].ops, SPACE), name)


def _version(jit: "Jit", args: tuple, kwargs: dict[str, Any]) -> tuple[Version, SortedCall]:
    adapters.load("torch")  # hears of the operator when it is defined
    given = sorted_call(jit, args, kwargs)
    key = (tuple(given.tensors), tuple(given.numbers), *given.constants)
    group = jit.groups.get(key)
    if group is None or not group.fingerprint.is_current():
        classes = [type(one) for one in given.values[:1] if jit.is_object(0, one)]
        group = jit.groups[key] = Group(fingerprint(jit.__wrapped__, classes, jit.is_own))
    found = group.by_kinds.get(given.kinds)
    if found is not None:
        return found, given
    with _lock:
        before = _seen(jit)
        jit.steering |= (steering := _steering(jit, given))
        if steering or _seen(jit) > before:
            return _version(jit, args, kwargs)  # the key is another one
        if given.kinds not in group.by_kinds:
            group.by_kinds[given.kinds] = _chosen(jit, given, group)
        return group.by_kinds[given.kinds], given


def _seen(jit: "Jit") -> int:
    """How much a method has been seen to read of its objects, and a function to change itself."""
    return sum(map(len, jit.reads.values())) + len(jit.own)


def _symbolic(kinds: Iterable[tuple[str, int]]) -> list:
    symbols = map(_core.Dim.symbol, itertools.count())
    return [(kind, tuple(itertools.islice(symbols, rank)), 0) for kind, rank in kinds]


def _of_parameters(jit: "Jit", given: SortedCall, kinds: Iterable[tuple[str, int]]) -> list:
    """(type, shape) for each parameter that is a tensor, else None."""
    described = iter(_symbolic(kinds))
    return [next(described) if place in given.tensors else None
            for place in range(len(jit.parameters))]  # fmt: skip


def _as_called(given: SortedCall) -> list[tuple[str, int]]:
    """The types of the tensors with which the function runs."""
    kinds = list(given.kinds[:-1])
    if given.kinds[-1]:
        widest = max((k for k, _ in kinds if k in FLOATS), key=lambda k: dtype(k).bytes)
        mixed_narrow = {k for k, _ in kinds if k in ("f16", "bf16")} == {"f16", "bf16"}
        widest = "f32" if mixed_narrow and widest in ("f16", "bf16") else widest
        kinds = [(widest if k in FLOATS else k, rank) for k, rank in kinds]
    return kinds


def _constants_of(jit: "Jit", given: SortedCall) -> list:
    return [float(v) if p in given.numbers else v for p, v in enumerate(given.values)]


def _steering(jit: "Jit", given: SortedCall) -> int:
    """Bits of the numbers of a call that have to be constants."""
    tensors = _of_parameters(jit, given, _as_called(given))
    numbers = [place in given.numbers for place in range(len(jit.parameters))]
    return jit.traced(tensors, _constants_of(jit, given), numbers)[2]


def _outputs(jit: "Jit", given: SortedCall, kinds: list[tuple[str, int]]) -> tuple[list[str], Form]:
    """The element types of the results, and their form, for tensors of these types."""
    tensors = _of_parameters(jit, given, kinds)
    graph, form, _ = jit.traced(tensors, _constants_of(jit, given), [False] * len(tensors))
    return [kind for kind, _ in graph.outputs], form


def _chosen(jit: "Jit", given: SortedCall, group: Group) -> Version:
    kinds = _as_called(given)
    outputs, form = _outputs(jit, given, kinds)
    names = [kind for kind, _ in kinds]
    for version in group.versions:
        if version.accepts(names, outputs, form):
            return version
    made = _made(jit, given, group.fingerprint, outputs, form)
    group.versions.append(made)
    return made


@dataclass(frozen=True)
class _Types:
    """Variables of element types: one for each tensor and result, and what each may be."""

    tensors: list[str]
    results: list[str]
    sets: dict[str, list[str]]

    def text(self, as_list: bool) -> str:
        results = self.results[:1] if as_list else self.results
        where = ", ".join(f"{name}: {' '.join(types)}" for name, types in self.sets.items())
        return f"({', '.join(self.tensors)}) -> ({', '.join(results)}) where {where}"


def _types(jit: "Jit", given: SortedCall, outputs: list[str], form: Form) -> _Types:
    """A single floating-point type of the tensors may be any for which the function does the same;
    several types each stay what they are."""
    kinds = _as_called(given)
    names = [kind for kind, _ in kinds]
    variables = {kind: f"T{i}" for i, kind in enumerate(dict.fromkeys(names))}
    sets = {variable: [kind] for kind, variable in variables.items()}
    floats = [kind for kind in variables if kind in FLOATS]
    for other in FLOATS if len(floats) == 1 else ():
        changed = [(other if kind in FLOATS else kind, rank) for kind, rank in kinds]
        wanted = [other if kind == floats[0] else kind for kind in outputs], form
        if other not in floats and _outputs_or_none(jit, given, changed) == wanted:
            sets[variables[floats[0]]].append(other)
    sets = {name: sorted(types, key=[*FLOATS, *types].index) for name, types in sets.items()}
    results = [variables.get(kind, kind) for kind in outputs]
    return _Types([variables[kind] for kind in names], results, sets)


def _outputs_or_none(jit: "Jit", given: SortedCall, kinds: list) -> tuple[list[str], Form] | None:
    try:
        return _outputs(jit, given, kinds)
    except Exception:  # noqa: BLE001 the function is not for these types
        return None


def _schema_names(jit: "Jit", places: Iterable[int]) -> list[str]:
    """Names of arguments in the schema: the parameters' names if the grammar allows them."""
    taken = r"needs_?|d_\w*|result\d*|size_\w*|out\d*"
    names = [jit.parameters[place] for place in places]
    return [
        name if re.fullmatch(r"[A-Za-z]\w*", name, re.ASCII) and not re.fullmatch(taken, name)
        else f"argument_{place}"
        for place, name in zip(places, names, strict=True)
    ]  # fmt: skip


_made_before: dict[tuple, Version] = {}  # of functions that are equal
_used_names: set[str] = set()


def _made(
    jit: "Jit", given: SortedCall, found: Fingerprint, outputs: list[str], form: Form
) -> Version:  # fmt: skip
    """The operator for a call, defined where no equal function has it already."""
    types = _types(jit, given, outputs, form)
    as_list = len(outputs) > _core.MAX_OUTPUTS
    tensors, numbers = _schema_names(jit, given.tensors), _schema_names(jit, given.numbers)
    arguments_text = ", ".join(
        [*(f"Tensor {name}" for name in tensors), *(["*"] if numbers else []),
         *(f"float {name}" for name in numbers)]
    )  # fmt: skip
    returns = ["Tensor[]"] if as_list else ["Tensor"] * len(outputs)
    signature = f"({arguments_text}) -> ({', '.join(returns)})"
    what = (signature, types.text(as_list), form, given.constants, jit.autocast, jit.short_writes,
            jit.constant_parameters)  # fmt: skip
    key = (found.key, tuple(given.tensors), *what)
    if known := _made_before.get(key):
        current = [one for one in known.sources if one[0].is_current()]
        known.sources[:] = [(found, jit.traced_function()), *current[:_MAX_SOURCES]]
        return known
    sources = [(found, jit.traced_function())]
    name = _new_name(jit, f"{found.text}\n{what!r}")
    definition = _definition(jit, given, sources, outputs, form)
    operator = Operator(f"{SPACE}::{name}{signature}", definition, types.text(as_list))
    version = Version(complete(operator), form, tuple(given.tensors), tuple(given.numbers),
                      tuple(numbers), sources)  # fmt: skip
    return _made_before.setdefault(key, version)


def _new_name(jit: "Jit", identity: str) -> str:
    """NAME_DIGEST; with a number behind it where another function of this process is called so."""
    plain = re.sub(r"\W+", "", jit.__name__, flags=re.ASCII).lstrip("_0123456789") or "function"
    name = f"{plain}_{hashlib.sha256(identity.encode()).hexdigest()[:12]}"
    names = itertools.chain([name], (f"{name}_{i}" for i in itertools.count(2)))
    free = next(one for one in names if one not in _used_names)
    _used_names.add(free)
    return free


def _definition(
    jit: "Jit", given: SortedCall, sources: list, outputs: list[str], form: Form
) -> type:  # fmt: skip
    """The class of the operator, as under @op."""
    constants = list(given.values)
    places = (*given.tensors, *given.numbers)
    for place in places:
        constants[place] = None
    name = jit.__name__
    has_object = jit.is_object(0, constants[0]) and 0 not in places
    state = jit.state(constants[0]) if has_object else ()

    def build(*arguments: Any) -> Any:
        current = [function for found, function in sources if found.is_current()]
        if not current or (has_object and jit.state(constants[0]) != state):
            _refuse_changed(name)
        values = list(constants)
        current_trace("jit").short_writes = jit.short_writes
        for place, value in zip(places, arguments, strict=True):
            values[place] = as_number(value) if place in given.numbers else value
        result = _of_program(jit, form, current[0], values) if jit.writes else called(
            current[0], values)  # fmt: skip
        leaves, now = taken_apart(result)
        if now != form:
            _refuse_form(name, now, form)
        return [leaves] if len(leaves) > _core.MAX_OUTPUTS else leaves

    kept = [p for p in given.tensors if jit.parameters[p] in jit.constant_parameters]
    members = {"__doc__": jit.__doc__ or "", "build": staticmethod(build), "_traced_as": name,
               "constants": tuple(_schema_names(jit, kept))}  # fmt: skip
    floats = {kind for kind, _ in given.kinds[:-1]} & set(FLOATS)
    if floats and set(outputs) & set(FLOATS):
        members["grad"] = "automatic"
    if jit.autocast:
        members["autocast"] = jit.autocast
    return type("JitDefinition", (), members)


def _of_program(jit: "Jit", form: Form, function: Callable, values: list) -> dict[str, Any]:
    """Runs a program on handles of its own; gives what it returns and what it writes."""
    own = [clone(value) if isinstance(value, Tensor) else value for value in values]
    result = called(function, own)
    parts = {"returned": result} if "returned" in form.keys else {}
    if "idle" in form.keys:
        return current_trace("jit").with_written(None)
    if written := _written(jit, form):
        parts["written"] = {name: own[jit.parameters.index(name)] for name in written}
    return parts


def _refuse_changed(name: str) -> None:
    raise InvalidValue(
        f"{name}: a value that the function captures is another one now",
        "an operator is the function as it was when the operator was made",
        f"call {name} again, which makes an operator for the new value, or pass the value as an "
        "argument",
    )


def _refuse_form(name: str, now: Form, form: Form) -> None:
    raise InvalidValue(
        f"{name}: returns {now.describe()} for tensors of these ranks, else {form.describe()}",
        "an operator has one number of results",
        "return the same containers for all ranks",
    )
