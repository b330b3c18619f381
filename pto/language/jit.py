# SPDX-License-Identifier: Apache-2.0
"""@pto.jit: a Python function over tensors becomes native code at its first call.

    @pto.jit
    def scale(x, factor=2.0):
        return x * factor

    y = scale(torch.randn(4096, 1024))    # torch in, torch out; NumPy in, NumPy out; no copies

A kernel, kept on disk, serves one number of axes, element types and constants, and all sizes but 1,
which broadcasts. Numbers, texts, None and what holds them are constants, captured ones too, which
each call compares (captures.py); a float that steers nothing is a number of the call.

With torch tensors the function is an operator of PyTorch wherever PyTorch does more than run it:
gradients, transforms, compilation, profiling, npu tensors (jit_operator.py).
"""

import functools
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, overload

from pto import _core
from pto.config import config
from pto.errors import InvalidType, InvalidValue, TracedCondition
from pto.language import adapters, arguments
from pto.language.annotations import TensorType, annotations_of
from pto.language.call_numbers import traced
from pto.language.call_types import Parameters, TypedCall
from pto.language.callable_cells import call_text
from pto.language.captures import Capturing
from pto.language.code_reads import CodeReads
from pto.language.location import describe, fail, shown, user_line, without_our_frames
from pto.language.method import Method, is_in_class, keep_in_graphs
from pto.language.misuse import told, told_of_constant
from pto.language.operation import compile_with, names_of
from pto.language.program import Program, is_program
from pto.language.results import LEAF, Form
from pto.language.static_sizes import PerSize
from pto.language.stepping import NeedsSteps, warn_of_steps
from pto.language.tile_hints import inside
from pto.language.tools import Tools
from pto.language.tuned import form_of, with_choices
from pto.language.versions import warn_of_versions
from pto.language.watched import state, watched

_VARIADIC = 0x04 | 0x08  # code flags: *args, **kwargs


class Jit(Capturing, Tools, TypedCall[Parameters], _core.Callable):
    """A compiled function; call it as the Python function: call_types.py tells type checkers so.

    `out=` takes an array (a container of them as the result is one) to write into, unless the
    function has a parameter of that name. Safe to call from several threads.
    """

    writes = False  # into tensors: program.py
    fuse = True  # False: a leaf of a function that calls it: tile_hints.py
    chosen: dict[str, Any] | None = None  # options beside those of its lines; None: see tuned.py
    is_recorded = False  # its programs tell a recording of their statements: recording.py

    def __init__(self, function: Callable, constants: Iterable[str] = (), autocast: str = "",
                 short_writes: bool = False):  # fmt: skip
        code, kind = getattr(function, "__code__", None), type(function).__name__
        name = getattr(function, "__name__", kind) + ("" if code else f" ({kind})")
        if code is None or code.co_flags & _VARIADIC:
            raise InvalidType(
                f"@pto.jit: {name} is not a plain function with named parameters",
                "every parameter is a tensor or a constant with a name",
                "decorate a def without *args and **kwargs, and only once",
                f"{shown(code.co_filename)}:{code.co_firstlineno}" if code else "",
            )
        names = names_of(function)
        defaults = function.__defaults__ or ()
        named = function.__kwdefaults__ or {}
        if code.co_kwonlyargcount:  # from the first default on, Ellipsis: none
            defaults += tuple(named.get(n, ...) for n in names[code.co_argcount :])
        self.is_method = is_in_class(function)
        self.bind_function(name, names, defaults, arguments, self.is_method)
        self.parameters, self.defaults, self.autocast = names, defaults, autocast
        self.short_writes = short_writes
        self.constants = frozenset(constants)
        self._check_options(name)
        self.reads: dict[type, set] = defaultdict(set)  # of a method's objects, see watched.py
        self.groups: dict[tuple, Any] = {}  # of operators, see jit_operator.py
        self.steering = 0  # bits of floats that are constants of operators
        self.own, self.grown, self.code, self.told = {}, {}, CodeReads(), set()  # see captures.py
        self.rewritten: Callable | None = None  # with branches: see begin_branches()
        self.values: dict[int, set] = defaultdict(set)  # of constants that were compiled for
        self.compiled_for: dict[str, str] = {}  # texts of calls, and of their results
        functools.update_wrapper(self, function)
        self.take_kinds({})

    def take_kinds(self, kinds: dict[str, TensorType]) -> None:
        """Sets what annotations say of the parameters."""
        self.kinds = {name: kind for name, kind in kinds.items()
                      if name in self.parameters and not kind.is_free}  # fmt: skip
        self.constant_parameters = tuple(name for name in self.parameters
                                         if name in kinds and kinds[name].is_constant)  # fmt: skip

    def annotated(self, tensors: list) -> list:
        """(dtype, shape, stride class, whether it is constant) of tensors, as annotated."""
        found = []
        for name, about in zip(self.parameters, tensors, strict=True):
            if about is not None:
                kind, shape, *rest = about
                shape = self.kinds[name].shape(name, kind, shape) if name in self.kinds else shape
                about = (kind, shape, *rest[:1], name in self.constant_parameters)
            found.append(about)
        return found

    def _check_options(self, name: str) -> None:
        if unknown := sorted(self.constants - set(self.parameters)):
            raise InvalidValue(
                f"@pto.jit: {name} has no parameter {unknown[0]!r} that could be a constant",
                f"its parameters are {', '.join(self.parameters)}",
                "name one of these",
            )
        if self.autocast not in ("", "low", "f32"):
            raise InvalidValue(
                f"@pto.jit: {name}: autocast is {self.autocast!r}",
                "it says what a region of mixed precision does with the arguments",
                "write 'low', 'f32', or leave it out for the widest type among them",
            )

    def __repr__(self) -> str:
        return f"<pto.jit {self.__name__}>"

    def traced_function(self) -> Callable:
        """The function that a tracing runs."""
        return self.rewritten or self.__wrapped__

    def call_traced(self, *args: Any, **kwargs: Any) -> Any:
        """The function as a part of another one that is being traced."""
        function = self.traced_function()
        try:
            return inside(self, function)(*args, **kwargs)
        except TracedCondition as error:
            error.is_new = error.is_new or self.begin_branches(function)
            raise

    def begin_branches(self, traced: Callable) -> bool:
        """Makes branches of the program of `if` and `while`; says whether that is new to a tracing.

        `traced` is the function that the tracing ran: another thread may have made branches of it
        meanwhile. Only a function that turns out to choose by traced values is rewritten.
        """
        from pto.language.rewrite_source import has_branches, rewritten

        if self.rewritten or not has_branches(self.__wrapped__):
            return traced is not self.traced_function()
        self.rewritten = rewritten(self.__wrapped__)
        return True

    def is_object(self, place: int, value: Any) -> bool:
        """Says whether a value of a parameter is the object of a method."""
        if place != 0 or not self.is_method:
            return False
        return arguments.classify(type(value)) in (arguments.UNKNOWN, arguments.STRUCTURE)

    def state(self, instance: Any) -> tuple:
        """The values that the method is known to read of such an object, for the kernels' key."""
        return state(instance, self.reads[type(instance)], self.code)

    def __hash__(self) -> int:
        """Makes the function known to torch.compile, which asks for the hash before all else."""
        keep_in_graphs(self)
        return object.__hash__(self)

    def __reduce__(self) -> str:
        return self.__qualname__  # by name, as a Python function; a copy is the function itself

    @property
    def compiled(self) -> "Jit":
        """Itself: what a Program has, too."""
        return self

    def plain(self, args: tuple, kwargs: dict[str, Any]) -> tuple["Jit", tuple, dict[str, Any]]:
        return self, args, kwargs

    def forget_kernels(self) -> None:
        """Lets the next calls compile anew, recorded ones too; calls in progress go on."""
        super().forget_kernels()
        self.__dict__.pop("_recorded", None)

    def recorded_form(self) -> "Jit":
        """The function as one whose programs tell a recording of their statements; made once."""
        if (made := self.__dict__.get("_recorded")) is None:
            made = form_of(self, is_recorded=True)
            made = self.__dict__.setdefault("_recorded", made)
        return made

    def trace_with_form(self, *args: Any, **kwargs: Any) -> tuple[_core.Graph, Form]:
        """The graph that a call compiles, and how its outputs stand in the result."""
        return self._graph(*self.describe_call(*args, **kwargs))

    def warm(self, *args: Any, **kwargs: Any) -> "Jit":
        """Compiles for these arguments without running; a later call finds the kernel on disk."""
        tensors, constants, numbers = self.describe_call(*args, **kwargs)
        graph, form = self._graph(tensors, constants, numbers)
        self._compiled(graph, tensors, form)
        return self

    def jit_of(self, calls: list[tuple[tuple, dict]]) -> "Jit":
        """Itself: the function that is compiled for such calls."""
        return self

    def package(self, path: Any, *examples: Any, texts: bool = False) -> None:
        """Saves the function compiled for such calls, to be loaded by pto.load(): package.py. With
        `texts` the file carries your lines, the stages and the C++, for python -m pto studio."""
        from pto.language.package import save  # seldom needed

        save(self, path, examples, texts)

    def specialise(
        self, tensors: list, constants: list, numbers: list[bool]
    ) -> tuple[_core.Program | None, Any, int]:
        """(program, form, 0) for tensors of these types; (None, form, bits) if numbers steer.

        The compiled call asks for it when it has no kernel. `tensors` has (dtype, shape, stride
        class) for each parameter that is a tensor, else None, and then `constants` has its value;
        `numbers` says which of these may be numbers of the call. The bits mark numbers that must
        be constants; then nothing was compiled. `form` is in the compiled call's terms. Without
        program and bits the call goes to call_interpreted().
        """
        try:
            graph, form, steering = self.traced(tensors, constants, numbers)
        except NeedsSteps as error:
            warn_of_steps(self.__name__, error)
            return None, None, 0
        plain = None if form.is_leaf else tuple if form.is_row else form
        if graph is None:
            return None, plain, steering
        warn_of_versions(self, tensors, constants, numbers)
        call, result = call_text(self.parameters, tensors, constants, graph)
        self.compiled_for[call] = result
        return self._compiled(graph, tensors, form), plain, 0

    def traced(
        self, tensors: list, constants: list, numbers: list[bool]
    ) -> tuple[_core.Graph | None, Form, int]:
        """(graph, form, 0), or (None, form, bits of the numbers that have to be constants)."""
        fixed = [yes and name not in self.constants
                 for yes, name in zip(numbers, self.parameters, strict=True)]  # fmt: skip
        steering = sum(1 << i for i, yes in enumerate(numbers) if yes and not fixed[i])
        if steering:
            return None, LEAF, steering
        objects = constants[:1] if tensors[0] is None and self.is_object(0, constants[0]) else []
        seen = [watched(one, self.reads[type(one)], self.code) for one in objects]
        constants = [*seen, *constants[len(objects) :]]
        try:
            tensors = self.annotated(tensors)
            with self.noting_own(*objects):
                return self._traced(tensors, constants, fixed)
        except Exception as error:
            given = zip(self.parameters, constants, tensors, strict=True)
            if (known := told(error, self.__wrapped__.__code__)
                or told_of_constant(error, self.__name__, given)) is None:  # fmt: skip
                raise
            raise without_our_frames(known) from error.__cause__

    def _traced(self, tensors: list, constants: list, numbers: list[bool]) -> tuple:
        function = self.traced_function()
        try:
            return traced(self.__name__, function, tensors, constants, numbers, self.writes,
                          self.short_writes)  # fmt: skip
        except TracedCondition as error:
            if not (error.is_new or self.begin_branches(function)):
                raise
        return self._traced(tensors, constants, numbers)

    def _graph(self, tensors: list, constants: list, numbers: list[bool]) -> tuple:
        """(graph, form), with steering numbers as constants."""
        graph, form, steering = self.traced(tensors, constants, numbers)
        if graph is None:
            numbers = [yes and not steering >> i & 1 for i, yes in enumerate(numbers)]
            return self._graph(tensors, constants, numbers)
        return graph, form

    def _compiled(self, graph: _core.Graph, tensors: list, form: Form) -> _core.Program:
        graph, strides = with_choices(self, graph), [t[2] for t in tensors if t]
        writes = self._writes(len(graph.outputs), tensors, form)
        return _core.compile(graph, strides, config.dump, target=config.target, writes=writes,
                             is_recorded=self.is_recorded)  # fmt: skip

    def _writes(self, outputs: int, tensors: list, form: Form) -> list[int]:
        """For each output the number of the tensor that becomes it, or -1."""
        return []

    def call_interpreted(self, /, *args: Any, **kwargs: Any) -> Any:
        """Makes a call in the interpreter, step by step: pto.config.interpret."""
        from pto.language.step_call import step_call

        return step_call(self, args, kwargs)

    def call_in_library(self, /, *args: Any, **kwargs: Any) -> Any:
        """Makes a call through PyTorch: by the operator of this function for such arguments."""
        from pto.language import jit_operator

        return jit_operator.call(self, args, kwargs)

    def operator(self, *args: Any, **kwargs: Any) -> Any:
        """PyTorch's operator for calls with such arguments: torch.ops.pto_jit.NAME_DIGEST.

        A process that loads an exported program asks for the operators in it first.
        """
        from pto.language import jit_operator

        return jit_operator.operator(self, args, kwargs)


class JitMethod(Method, Jit):
    """A jitted method; what it reads of its object is a constant."""


class ProgramJit(Jit):
    """The compiled part of a program: it returns what the program writes, see program.py."""

    writes = True

    def _writes(self, outputs: int, tensors: list, form: Form) -> list[int]:
        given = [name for name, t in zip(self.parameters, tensors, strict=True) if t]
        written = [given.index(name) for name in form.written]
        return [-1] * (outputs - len(written)) + written if written else []

    def call_in_library(self, /, *args: Any, **kwargs: Any) -> Any:
        """Runs a call as an operator; with npu tensors once the current stream has come to it."""
        devices = {getattr(getattr(x, "device", None), "type", "cpu")
                   for x in (*args, *kwargs.values())}  # fmt: skip
        if devices == {"cpu"}:
            return super().call_in_library(*args, **kwargs)
        on_device = adapters.load("torch.on_device")
        if on_device.takes([*args, *kwargs.values()]):
            return on_device.call(self, args, kwargs)
        raise InvalidValue(
            f"{self.__name__}: a program gets a tensor on the device {max(devices - {'cpu'})}",
            "loops and writes run on CPU tensors, and on plain npu tensors without a gradient",
            "pass x.cpu(), or x.detach() of an npu tensor",
            user_line(),
        )


@overload
def jit(function: Callable[Parameters, Any]) -> Jit[Parameters]: ...
@overload
def jit(*, constants: Iterable[str] = (), autocast: str = "", short_writes: bool = False,
        fuse: bool = True
        ) -> Callable[[Callable[Parameters, Any]], Jit[Parameters]]: ...  # fmt: skip
def jit(
    function: Callable | None = None, *, constants: Iterable[str] = (), autocast: str = "",
    short_writes: bool = False, fuse: bool = True,
) -> Any:  # fmt: skip
    """Compiles a function over tensors at its first call: docs/language.md.

    `constants` names float parameters that are constants of the compilation. `autocast` says what
    regions of mixed precision cast floating-point arguments to: "low" for their type, "f32", or
    nothing for the widest among them. With `short_writes` a tensor that is assigned to a larger
    part fills its beginning and does not stretch, in this function and in those that it calls.
    Without `fuse` it is a leaf in functions that call it, as in `with pto.leaf(its name)`.

    Example: print(pto.jit(lambda x: x + x)(x))
    """
    for name, given in (("short_writes", short_writes), ("fuse", fuse)):
        if not isinstance(given, bool):
            what = f"jit: {name} is {describe(given)}"
            fail(what, "it says yes or no", "pass True or False", InvalidType)
    if not isinstance(constants, Iterable):
        what = f"jit: constants is {describe(constants)}"
        fail(what, "it names parameters", 'pass their names: constants=("n", "mode")', InvalidType)
    names = [constants] if isinstance(constants, str) else [*constants]

    def made(function: Callable) -> Any:
        kinds = annotations_of(function)
        if any(kind.is_static for kind in kinds.values()):
            return PerSize(function, kinds, lambda kinds: one(function, kinds))
        return one(function, kinds)

    def one(function: Callable, kinds: dict[str, TensorType]) -> Any:
        found = plain(function)
        found.take_kinds(kinds)
        found.compiled.fuse = fuse
        return found

    def plain(function: Callable) -> Any:
        if is_program(function):
            return Program(function, lambda f: ProgramJit(f, names if f is function else {
                *names} & {*names_of(f)}, autocast, short_writes))  # fmt: skip
        kind = JitMethod if is_in_class(function) else Jit
        return kind(function, names, autocast, short_writes)

    return made if function is None else made(function)


@compile_with
@functools.cache
def eager(function: Callable) -> Jit:
    """A function of the language as a compiled one, for calls on arrays."""
    return Jit(function)
