# SPDX-License-Identifier: Apache-2.0
"""@op: an operator, defined once as a class, for every framework that an adapter serves.

    @op("scaled_add(Tensor x, Tensor y, *, float alpha=1.0) -> Tensor")
    class ScaledAdd:
        \"\"\"x + alpha * y; shapes broadcast.\"\"\"
        def infer(x, y, alpha): return pto.broadcast(x, y)
        def build(x, y, alpha): return x + alpha * y
        def grad(ctx, d_result): return {"x": d_result, "y": ctx.attribute("alpha") * d_result}
        def oracle(x, y, alpha): return x + alpha * y
        tolerance = {f32: 1e-6}

The schema is the signature, in ATen's grammar: Tensor, Tensor?, Tensor[], Tensor(a!), int, SymInt,
float, Scalar, bool, str, int[], int[2], each but the tensors also with `?`; several outputs, lists
of them. `types` says which element types fit together, "(T, I) -> T where T: float, I: integer";
without it all tensors have one floating-point type.

`build` and `grad` are traced, never run on data: once for each set of dtypes, ranks, sizes that are
1, and int, bool, str and int[] attributes. A float attribute is a number of the call: `build` may
compute with it, not branch on it; a SymInt is a size of the call. A first tracing at the definition
finds mistakes and what the gradient needs. New elements of a Tensor(a!) that the schema does not
return follow the outputs.

`kernel = cpp_kernel("file.cpp", "function")` stands in the place of `build` where the language
cannot say it: a hand-written kernel (pto/abi/define_operator.h), compiled at its first use. It
needs `infer`.

`grad(ctx, *d_outputs)` returns the gradients by argument name, or in the order of the tensor
arguments; None, or a name left out, means not differentiable. It becomes an operator of its own,
NAME_backward. A gradient is summed to the shape of its argument where that was saved and
broadcast. `grad = "automatic"` differentiates `build` (differentiate.py); NAME_backward always has
such a gradient. `gradient = Other` is the class of NAME_backward instead, whose schema follows, or
the name of an operator, with `saved` and `wanted`: names. `linear = True`: the gradient of such a
gradient is the operator itself.

`infer(x, ...)`, where given, states dtype and shape of the outputs over Specs (infer.py) and is
checked at each tracing; without it they are those of the traced graph. `oracle` is the definition
in NumPy, `tolerance` its relative error by element type, `samples` its arguments for tests
(samples.py). `inplace = True` also defines NAME_, which replaces its first argument's elements.
`bounded = ("indices",)` names outputs of a hand-written kernel whose size is known only after it
ran: `infer` gives the most that the first size can be, and the kernel, in an i64 tensor behind the
outputs, how many rows there are (pto/abi/define_operator.h).
`packing = ("weight", "packed", "_pack")` names an argument that may be given packed too, the last
tensor argument, which takes it so, and the operator that packs it: frameworks whose tensors know
their owner (operators/weights.hpp) pack weights by themselves.
`others = (MatMulF32,)` names operators with the same arguments and results of other element types,
for calls with out_dtype (out_dtype.py).
`autocast = "low"` or "f32" says what regions of mixed precision (torch.autocast) cast the
floating-point arguments to; without it, mixed ones become the widest among them.

Thread safety: definitions belong to one thread at a time; operators may be called from any.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pto import _core
from pto.errors import InvalidType, InvalidValue
from pto.language import arguments, dispatch, out_dtype, prebuilt
from pto.language.definition import AUTOCAST, check_definition, check_is_class, check_schema
from pto.language.dtypes import dtype
from pto.language.gradient import (
    Gradient,
    gradient_by_hand,
    gradient_name,
    gradient_of,
    members,
    probed,
)
from pto.language.infer import agree, described, recorded_guards, spec_of, spec_of_value
from pto.language.inplace import inplace_definition
from pto.language.misuse import worded
from pto.language.redefinition import chain, newest, replaced, times_replaced
from pto.language.trace import Trace
from pto.locks import Lock
from pto.schema import Argument, Signature, bound, signature_of

if TYPE_CHECKING:
    import inspect

_ROWS_OF_NAMES = ("bounded", "constants", "saved", "wanted")  # a text is a row of one name


class Operator(Signature, _core.Callable):
    """An operator of the registry. Calling it runs it on arrays, or inlines it in a traced one.

    NumPy arrays and those of any library with DLPack are taken by the compiled call; a mutable one
    is written where it lies. `out=` names arrays for the results.
    """

    def __init__(self, schema: str, definition: type, types: str = ""):
        super().__init__(_core.parse_schema(schema, types))
        self.types_text = types
        returned = self.outputs[: self.n_returns]
        self.output_names = tuple(o.name for o in returned)
        self.output_types = tuple(self._output_type(o.type) for o in returned)
        self.differentiable = tuple(o.name for o in self.outputs if o.is_differentiable)
        self.definition = definition
        self.__doc__ = definition.__doc__
        self.gradient: Gradient | None = None
        self.in_place: Operator | None = None  # NAME_
        self.index = -1  # in the registry, once it is there

    def _output_type(self, variable: int) -> str:
        return self.type_names[variable] if variable >= 0 else _core.dtypes()[-1 - variable].name

    def has_floats(self, variable: int) -> bool:
        """True if a tensor of this type variable, or type -1 - DType, may be floating point."""
        names = self.types[variable] if variable >= 0 else [self._output_type(variable)]
        return any(dtype(name).is_float for name in names)

    @property
    def __signature__(self) -> "inspect.Signature":
        return signature_of(self.arguments)

    @property
    def by_name(self) -> dict[str, Argument]:
        return {a.name: a for a in self.arguments}

    @property
    def tensor_names(self) -> tuple[str, ...]:
        return tuple(a.name for a in self.tensors)

    def probe_type(self, variable: str) -> str:
        """An element type that a variable may have: f32 where it can, or the type it names."""
        if variable not in self.type_names:
            return variable
        allowed = self.types[self.type_names.index(variable)]
        return "f32" if "f32" in allowed else allowed[0]

    def places(self, names: tuple[str, ...]) -> list[int]:
        """Arguments, and outputs as -1 - i, as abi/operator.h numbers them."""
        places = {n: -1 - i for i, n in enumerate(self.output_names)}
        places |= {a.name: i for i, a in enumerate(self.arguments)}
        return [places[name] for name in names]

    @property
    def _local_name(self) -> str:
        # An operator of a jitted function has the function's name here: both share kernels.
        return self.member("_traced_as") or self.name.rpartition("::")[2]

    def member(self, name: str) -> Any:
        """`build`, `grad`, `infer`, `oracle` ... of the definition, or None."""
        found = vars(self.definition).get(name)
        if name in _ROWS_OF_NAMES and isinstance(found, str):
            return (found,)
        return found.__func__ if isinstance(found, staticmethod) else found

    @worded
    def trace(self, tensors: list, attributes: list) -> _core.Graph:
        """The graph for tensors of these (dtype, shape), None where absent, and attributes."""
        trace = Trace(self._local_name)
        values = self._inputs(trace, tensors, attributes)
        for a in self.attributes:  # a size of the call is that of one more input
            if a.kind == "SymInt" and values[a.name] is not None:
                trace.input(f"size_{a.name}", "bool", (values[a.name],))
        results = self._built(trace, values)
        graph, _ = trace.finish([t for result in results for t in members(result)])
        self._check_inferred(graph, values)
        return graph

    def _built(self, trace: Trace, values: dict[str, Any]) -> list:
        """Calls `build`; real attributes are numbers of the call, as wide as the tensors."""
        for a in self.attributes:
            if a.kind == "float" and values[a.name] is not None:
                values[a.name] = trace.scalar(a.name, trace.number_type)
        with trace.active():
            return self.results(self.member("build")(*values.values()))

    def _inputs(self, trace: Trace, tensors: list, attributes: list) -> dict[str, Any]:
        """The arguments by name, as `build` sees them, numbers of the call apart."""
        given, values = iter(tensors), iter(attributes)
        constants = self.member("constants") or ()
        found: dict[str, Any] = {}
        for a in self.arguments:
            if not a.is_tensor:
                found[a.name] = next(values)
                continue
            like = next(given)
            if isinstance(like, list):
                found[a.name] = [trace.input(f"{a.name}{i}", *t) for i, t in enumerate(like)]
            else:
                is_constant = a.name in constants
                found[a.name] = like and trace.input(a.name, *like, constant=is_constant)
        return found

    def results(self, results: Any) -> list:
        """Splits what `build` or `infer` returned into one result for each output."""
        wanted = len(self.outputs)
        if wanted == 1 and not self._is_row(results):
            results = [results]
        results = list(results) if isinstance(results, tuple | list) else [results]
        fits = len(results) == wanted and all(
            isinstance(r, tuple | list) == output.is_list
            for r, output in zip(results, self.outputs, strict=True)
        )
        if fits:
            return results
        raise InvalidType(
            f"{self.name}: build returned {len(results)} tensors",
            f"the schema says {self.schema}",
            "return one tensor for each output, a list for a Tensor[]",
        )

    def _is_row(self, results: Any) -> bool:
        """True if one result stands in a row of its own, which for a list takes a look inside."""
        if not isinstance(results, tuple | list):
            return False
        is_list = self.outputs[0].is_list
        return not is_list or (len(results) == 1 and isinstance(results[0], list))

    @worded
    def inferred(self, tensors: list, attributes: list) -> tuple:
        """(outputs, guards) for bindings/operator_providers.hpp; sizes may turn out to be 1."""
        infer = self.member("infer")
        if infer is not None:
            given, values = iter(tensors), iter(attributes)
            specs = [spec_of(next(given)) if a.is_tensor else next(values) for a in self.arguments]
            with recorded_guards(self.name) as guards:
                results = infer(*specs)
            if results is not None:
                work = self._work(specs)
                results = self.results(results)
                return [described(r) for r in results], guards, *work
        trace = Trace(self._local_name)
        trace.builder.let_sizes_be_one()
        values = self._inputs(trace, tensors, attributes)
        results = self._built(trace, values)
        outputs = [described(r) for r in results]
        graph, _ = trace.finish([t for result in results for t in members(result)])
        return outputs, list(graph.guards)

    def _work(self, specs: list) -> tuple:
        """(items, bytes) of a hand-written kernel, see abi/define_operator.h."""
        work = self.member("work")
        return tuple(work(*specs)) if work else ()

    def _check_inferred(self, graph: _core.Graph, values: dict[str, Any]) -> None:
        infer = self.member("infer")
        if infer is None:
            return
        specs = [spec_of_value(v) for v in values.values()]
        with recorded_guards(self.name):
            results = infer(*specs)
        if results is None:
            return
        inferred = [t for result in self.results(results) for t in members(result)]
        for place, (spec, (kind, shape)) in enumerate(zip(inferred, graph.outputs, strict=True)):
            if not agree(spec.shape, shape, graph.guards) or str(spec.dtype) != kind:
                raise InvalidValue(
                    f"{self.name}: infer says {spec.dtype}{list(spec.shape)} for output {place}, "
                    f"build makes {kind}{list(shape)}",
                    "both describe the same output",
                    "correct one of them, or leave infer out",
                )

    def source(self, dtypes: list[str]) -> tuple[str, str, str]:
        """(name, text, function) of the hand-written kernel for these element types."""
        return self.member("kernel").source(self.name, self.signature, dtypes)

    def call_otherwise(self, *args: Any, **kwargs: Any) -> Any:
        """A call that is not one on arrays: on traced tensors, a framework's, or a mistake."""
        if "out_dtype" in kwargs and self.member("others"):
            operator, kwargs = out_dtype.chosen(self, args, kwargs)
            return operator(*args, **kwargs)
        return dispatch.call(self, args, kwargs)

    def bind(self, args: tuple, kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments of a call by name, in schema order, with defaults filled in."""
        values = bound(self.name, self.schema, self.arguments, args, kwargs)
        return dict(zip([a.name for a in self.arguments], values, strict=True))

    def __repr__(self) -> str:
        return f"<operator {self.schema}>"

    def _repr_html_(self) -> str:
        from pto.language.callable_cells import operator_cell

        return operator_cell(self)


_operators: list[Operator | None] = []  # by index of the registry; None: defined in C++
_named: dict[str, Operator] = {}
_lock = Lock()


def operators() -> tuple[Operator, ...]:
    """All operators defined in Python, in that order, gradient operators included."""
    return tuple(one for one in _operators if one is not None)


def op(schema: str, types: str = "") -> Callable[[type], Operator]:
    """Decorates a class that defines an operator: docs/operators.md.

    Example:
        @pto.op("halved(Tensor x) -> Tensor")
        class Halved:
            def build(x): return x / 2
        print(Halved(x))
    """
    check_schema(schema, types)

    def define(definition: type) -> Operator:
        check_is_class(definition)
        chosen = types or vars(definition).get("types", "")
        operator = complete(Operator(schema, definition, chosen))
        if operator.member("inplace"):
            of = _core.inplace_schema(operator.signature)
            in_place = inplace_definition(definition)
            in_place.__module__ = definition.__module__
            operator.in_place = op(of, chosen)(in_place)
        return operator

    return define


def complete(operator: Operator) -> Operator:
    """Adds an operator and its gradient to the registry."""
    check_definition(operator)
    saved, wanted = probed(operator) if operator.member("grad") else ((), ())
    if wanted:
        operator.gradient = gradient_of(operator, saved, wanted)
    if isinstance(operator.member("gradient"), type):
        complete(gradient_by_hand(operator))
    with _lock:
        _register(operator)
    return operator


def _described_for_registry(operator: Operator) -> _core.OperatorDefinition:
    """The operator, and by it its gradient operator, for the registry."""
    made = _core.OperatorDefinition()
    made.schema, made.types = operator.signature, operator.types_text
    made.document = operator.__doc__ or ""
    made.autocast = AUTOCAST[operator.member("autocast")]
    made.bounded = ", ".join(operator.member("bounded") or ())
    if kernel := operator.member("kernel"):
        made.set_native()
        made.takes_strides = kernel.takes_strides
    made.packing = list(operator.member("packing") or ())
    made.gradient_name = gradient_name(operator)
    gradient = operator.gradient
    if gradient:
        made.set_gradient(_described_for_registry(gradient.operator))
    if gradient or made.gradient_name:
        saved = gradient.saved if gradient else operator.member("saved") or ()
        wanted = gradient.wanted if gradient else operator.member("wanted") or ()
        made.saved, made.wanted = operator.places(saved), operator.places(wanted)
    return made


def _register(operator: Operator) -> None:
    added = [*chain(operator)]
    if old := replaced(operator, _named.get(operator.name)):
        for one, before in zip(added, chain(old), strict=True):
            one.index = before.index
            _operators[one.index] = newest[one.name] = one
            one.bind_schema(one.index, arguments)
            _core.renew_operator(one.index)
            times_replaced[one.index] += 1
        _named[operator.name] = operator
        return
    index = _core.define_operator(_described_for_registry(operator))
    _named[operator.name] = operator
    _operators.extend([None] * (index - len(_operators)))
    for number, one in enumerate(added, index):
        _operators.append(one)
        one.index, newest[one.name] = number, one
        one.bind_schema(number, arguments)
    _core.announce_operators(index)


def _trace(index: int, tensors: list, attributes: list) -> _core.Graph:
    operator = _operators[index] if index < len(_operators) else None
    if operator is None or operator.member("build") is None:
        raise InvalidType(
            f"operator {index} cannot be traced",
            "it is written by hand, so there is nothing to trace",
            "define it with build",
        )
    return operator.trace(tensors, attributes)


_core.set_operator_callbacks(
    _trace,
    lambda index, *given: _operators[index].inferred(*given),
    lambda index, *given: _operators[index].source(*given),
    prebuilt.find,
)
