# SPDX-License-Identifier: Apache-2.0
"""Records of ATen's overloads, and the library that has them: the PyTorch of this process.

    record = library().records("add")[0]
    record.name, record.overload        # "add", "Tensor"
    record.arguments[2]                 # Argument("alpha", "Scalar", is_keyword_only=True, ...)

Nothing here imports PyTorch: library() loads adapters/torch/aten, which does, at the first use. It
reads records from the dispatcher of the installed PyTorch when somebody asks for them.

Thread safety: any thread may ask.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pto.errors import Failure
from pto.language import adapters


class _Required:
    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED = _Required()  # the default of an argument that has none


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of an overload; `type` is the schema's text without its alias: "int[2]?"."""

    name: str
    type: str
    is_keyword_only: bool = False
    is_written: bool = False  # "Tensor(a!)"
    default: Any = REQUIRED

    @property
    def is_required(self) -> bool:
        return self.default is REQUIRED


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """One overload: "add.Tensor"; its `overload` is "" for the one without a name.

    `cpu` and `meta` say whether the dispatcher has a kernel for dense CPU tensors, and one that
    computes only shapes. `handle` is the library's callable. Each overload has one record.
    """

    name: str
    overload: str
    schema: str  # "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"
    arguments: tuple[Argument, ...]
    returns: tuple[str, ...]  # types: "Tensor", "Tensor[]", "int"
    tags: frozenset[str]
    cpu: bool
    meta: bool
    handle: Any = field(repr=False)

    @property
    def full_name(self) -> str:
        return f"{self.name}.{self.overload}" if self.overload else self.name

    @property
    def outputs(self) -> tuple[Argument, ...]:
        """The arguments that are written and given by keyword: those of an `out` overload."""
        return tuple(a for a in self.arguments if a.is_written and a.is_keyword_only)

    @property
    def output_names(self) -> tuple[str, ...]:
        return tuple(a.name for a in self.outputs)

    @property
    def is_functional(self) -> bool:
        """Whether a call makes its results, and writes nothing that it is given."""
        return not any(argument.is_written for argument in self.arguments)


class Fronts(Protocol):
    """Places before PyTorch's kernels, by the full names of their overloads."""

    names: tuple[str, ...]

    def install(self, full_name: str) -> str | None:
        """Puts one there, once in a process; returns why it cannot be, or None."""
        ...

    def forget(self) -> None:
        """Lets the next calls ask again which implementation runs them."""
        ...

    def process(self, names: Collection[str] | None, slot: int | None = None) -> None:
        """Turns these on for the process, and all others off.

        Their calls ask for `slot`; None: for what takes calls by itself.
        """
        ...

    def enter(self, names: Collection[str], slot: int | None = None) -> int:
        """Does so for the thread and its threads for gradients; the last one that is on counts."""
        ...

    def leave(self, entered: int) -> None:
        """Ends the enter() of this thread that returned this number."""
        ...


class Library(Protocol):
    """The questions that the surface asks PyTorch; adapters/torch/aten answers them."""

    version: str

    def names(self, namespace: str = "aten") -> frozenset[str]:
        """The names of all operators of a namespace, without overloads; those of another than aten
        begin with it, "torchvision::nms"."""
        ...

    def records(self, name: str) -> tuple[Record, ...]:
        """The overloads of a name, in the dispatcher's order; none where it is unknown."""
        ...

    def reread(self, name: str) -> tuple[Record, ...]:
        """The overloads of a name anew; those that have not changed keep their records."""
        ...

    def is_current(self, record: Record) -> bool:
        """Whether PyTorch has the overload still, as the record describes it."""
        ...

    def convert(self, type_: str, value: Any) -> tuple[int, Any] | None:
        """How far a value is from a type, and the value as PyTorch takes it; None: it takes none.

        0: the value is of the type. 1: it is widened, as an int for a float. 2: it is a number for
        a tensor.
        """
        ...

    def call(self, record: Record, values: Mapping[str, Any], like: Any) -> Any:
        """Runs an overload with converted values; results are of the kind of its arrays.

        `like`, an array or the name of a kind, is the kind where the call has no array. Raises
        Error with PyTorch's refusal.
        """
        ...

    def planned(
        self, record: Record, learn: Callable[..., Any], fail: Callable[..., Any]
    ) -> Callable[..., Any] | None:
        """A callable for an overload that skips what an earlier call of its kind did, or None.

        learn(args, kwargs) makes a call with all checks; it returns the result and whether calls
        of this kind may skip them. fail(args, kwargs, error) raises for PyTorch's error.
        """
        ...

    def is_settled(self, record: Record, values: Mapping[str, Any]) -> bool:
        """Whether calls on PyTorch's tensors like this one need no check of their outputs."""
        ...

    def refused(self, record: Record, values: Mapping[str, Any], error: Exception) -> Exception:
        """PyTorch's refusal of a call as an error of ours of the same built-in class."""
        ...

    def fronts(self, run: Callable[[int, int | None, tuple], Any]) -> Fronts:
        """The fronts, which call run(index of the front, slot, arguments in the schema's order).

        run() returns the result and how later calls like it run, see enabling.py. Raises Failure
        where the fronts are not built.
        """
        ...

    def refuses(self, record: Record, values: Mapping[str, Any]) -> str | None:
        """Why the dispatcher has no kernel for a call; None: it has one."""
        ...

    def dense_type(self, value: Any) -> str | None:
        """The element type of a dense CPU array that needs no gradient, as "float32".

        "" for any other array; None for a value that is no array.
        """
        ...

    def overlap(self, one: Any, other: Any) -> bool:
        """Whether two values are arrays whose memory may have a byte in common."""
        ...

    def is_same(self, one: Any, other: Any) -> bool:
        """Whether two arrays have the same elements at the same places."""
        ...

    def is_writable(self, value: Any) -> bool:
        """Whether an array can be written where it lies."""
        ...

    def fit(self, record: Record, values: Mapping[str, Any]) -> bool | None:
        """Whether what a call writes has the sizes of its results; None: that is not known."""
        ...

    def strides(self, record: Record, values: Mapping[str, Any]) -> list[tuple[int, ...]] | None:
        """The strides of the results of a functional call, in elements; None: not known."""
        ...

    def strides_of(self, value: Any) -> tuple[int, ...]:
        """The strides of an array, in elements."""
        ...

    def is_dense(self, value: Any) -> bool:
        """Whether an array has no gaps and repeats no element, in whatever order of its axes."""
        ...

    def permuted(self, value: Any, axes: Sequence[int]) -> Any:
        """A view with axes in another order; axes that it lacks in front have the size 1."""
        ...

    def relaid(self, value: Any, strides: Sequence[int]) -> Any:
        """The array itself where it has these strides in elements, or a copy that has them."""
        ...

    def shape(self, value: Any) -> tuple[int, ...]:
        """The sizes of an array."""
        ...

    def is_contiguous(self, value: Any) -> bool:
        """Whether an array lies row by row without gaps."""
        ...

    def copied(self, value: Any) -> Any:
        """A copy of an array, of the same kind, sizes and order."""
        ...

    def as_numpy(self, value: Any) -> Any:
        """An array as NumPy's, over the same memory where it can be."""
        ...

    def as_tensors(self, value: Any) -> Any:
        """An array, or a list of them, as PyTorch's tensors; other values as they are."""
        ...

    def describe(self, value: Any) -> str:
        """A value in an error: "f32[3, 4]", "2.5", "a list of 3 f32 arrays"."""
        ...


_library: Library | None = None


def register(found: Library) -> None:
    """Called by the adapter when it is loaded."""
    global _library
    _library = found


def library() -> Library:
    """The library of this process. Raises Failure where PyTorch is not installed."""
    if _library is None:
        try:
            adapters.load("torch.aten")
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            raise Failure(
                "pto.aten needs PyTorch, which is not installed",
                "its operators, with their schemas and kernels, are those of the installed PyTorch",
                "install it: pip install torch==2.13.0",
            ) from error
    assert _library is not None, "the adapter registers its library when it is loaded"
    return _library


def record_of(full_name: str) -> Record:
    """The record of an overload by its full name, "add.Tensor", which PyTorch has to have."""
    name, _, overload = full_name.partition(".")
    return next(one for one in library().records(name) if one.overload == overload)


def listed(names: Iterable[str]) -> list[str]:
    """Names as a list; a text is one name."""
    return [names] if isinstance(names, str) else list(names)


def arrays_in(values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Every array among values and in their lists, with the name of its argument."""
    for name, value in values.items():
        for one in value if isinstance(value, list) else (value,):
            if library().dense_type(one) is not None:
                yield name, one


def known(records: Sequence[Record]) -> str:
    """The names of overloads, as an error lists them."""
    return ", ".join(r.overload or "default" for r in records)
