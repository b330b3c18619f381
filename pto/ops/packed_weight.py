# SPDX-License-Identifier: Apache-2.0
"""PackedWeight: a weight as the loops of products read it, packed once, kept and saved.

    packed = pto.pack_weight(weight, "linear")     # outputs x inputs
    y = pto.ops.linear(x, packed, bias)            # the bits of linear(x, weight, bias)
    packed.save("w.pto")
    packed = pto.load("w.pto")                     # in another process of such a machine

A weight is packed for an operator, for the CPU and for pto.config.matmul_precision where these
matter (`layout` says for what); a call that reads it otherwise is an error. There are no gradients.

Invariant: a PackedWeight never changes, and keeps nothing of the weight but its packed elements.
Thread safety: threads may share it.
"""

import os
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pto import _core, container
from pto.config import PRECISIONS, config
from pto.container import Package
from pto.errors import InvalidType, InvalidValue
from pto.language.arguments import adapter
from pto.language.dtypes import dtype
from pto.language.infer import Spec
from pto.language.location import describe
from pto.ops.linear import MatMulPacked, PackRight, PackWeight
from pto.ops.packed import LinearInt4Packed, LinearInt8Packed, LinearPacked
from pto.ops.quantized import PackInt4, PackInt8

ALIGNMENT = 64  # bytes, a cache line


@dataclass(frozen=True)
class Kind:
    """An operator whose argument `weight` may be packed: who packs it, and who takes it packed.

    Axis `inputs` of the weight holds the inputs, `each` in an element; the other one the outputs.
    """

    weight: str
    packer: Any
    taker: Any
    inputs: int = 1
    each: int = 1


KINDS = {
    "linear": Kind("weight", PackWeight, LinearPacked),
    "linear_int8": Kind("weight", PackInt8, LinearInt8Packed),
    "linear_int4": Kind("weight", PackInt4, LinearInt4Packed, each=2),
    "matmul": Kind("b", PackRight, MatMulPacked, inputs=0),
}


def pack_weight(weight: Any, kind: str = "linear") -> "PackedWeight":
    """Packs a matrix, of NumPy, torch or a library with DLPack, for the operator `kind`: linear,
    linear_int8 or linear_int4, whose weight is outputs x inputs, or matmul, whose b it is."""
    if not isinstance(kind, str) or kind not in KINDS:
        raise InvalidValue(
            f"pack_weight: kind is {kind!r:.60}", "each operator reads weights in its own way",
            f"pass the operator that takes it: {', '.join(KINDS)}",
        )  # fmt: skip
    if getattr(weight, "ndim", 0) != 2 or not hasattr(weight, "dtype"):
        raise InvalidType(
            f"pack_weight: the weight is {describe(weight)}", "a weight is a matrix",
            "pass a NumPy array or a tensor of two axes",
        )  # fmt: skip
    packer, of, shape = KINDS[kind].packer, dtype(weight.dtype), tuple(map(int, weight.shape))
    layout = _core.matmul_layout(of.name)
    (floats,) = packer.member("infer")(**packer.bind((Spec(shape, of),), {})).shape
    data = _aligned(floats)
    data[:] = 0  # what lies between is saved too
    if isinstance(weight, np.ndarray):
        packer(weight, out=data)
    else:
        packer(_Elements(weight), out=_Elements(data))
    if _core.matmul_layout(of.name) != layout:  # a thread changed the precision meanwhile
        return pack_weight(weight, kind)
    return PackedWeight(kind, of.name, shape, layout, data)


class _Elements:
    """A tensor of any library as nothing but its elements: no adapter takes the call."""

    def __init__(self, tensor: Any):
        self.tensor = tensor.detach() if hasattr(tensor, "detach") else tensor
        self.dtype, self.shape = tensor.dtype, tensor.shape

    def __dlpack__(self, **how: Any) -> object:
        return self.tensor.__dlpack__(**how)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.tensor.__dlpack_device__()


class PackedWeight:
    """A packed weight: `kind`, the operator that takes it, `dtype` and `shape` of the weight, and
    `layout`, for what it is packed. pack_weight() and load() make them."""

    def __init__(
        self, kind: str, dtype: str, shape: tuple[int, int], layout: str, data: np.ndarray
    ):
        self._facts = (kind, dtype, shape, layout)
        self._data = data  # of f32, one axis
        self._torch: Any = None  # the same memory
        self._types: set = {dtype}  # how libraries name the weight's type, as far as calls had them
        _core.count_packed_weight(data.nbytes)
        weakref.finalize(self, _core.count_packed_weight, -data.nbytes).atexit = False

    @property
    def kind(self) -> str:
        return self._facts[0]

    @property
    def dtype(self) -> str:
        return self._facts[1]

    @property
    def shape(self) -> tuple[int, int]:
        return self._facts[2]

    @property
    def layout(self) -> str:
        return self._facts[3]

    @property
    def nbytes(self) -> int:
        """Bytes that it keeps, as pto.memory() counts them."""
        return self._data.nbytes

    @property
    def inputs(self) -> int:
        kind = KINDS[self.kind]
        return self.shape[kind.inputs] * kind.each

    @property
    def outputs(self) -> int:
        return self.shape[1 - KINDS[self.kind].inputs]

    def save(self, path: str | os.PathLike) -> None:
        """Writes it; a file of that name is replaced as a whole."""
        container.save(path, self._content())

    @staticmethod
    def load(path: str | os.PathLike) -> "PackedWeight":
        """Reads a saved one; InvalidValue where the file is damaged or this CPU reads another
        layout."""
        return PackedWeight.from_package(container.read(path))

    def to_bytes(self) -> bytes:
        """The content of the file that save() writes."""
        return b"".join(self._content())

    @staticmethod
    def from_bytes(content: bytes, shown: str = "the package") -> "PackedWeight":
        return PackedWeight.from_package(container.opened(content, shown))

    def _content(self) -> list[Any]:
        names = ("operator", "dtype", "shape", "layout")
        header = dict(zip(names, self._facts, strict=True))
        return container.content_of("weight", header, [memoryview(self._data).cast("B")])

    @staticmethod
    def from_package(package: Package) -> "PackedWeight":
        package.check_kind("weight")
        with container.checked_header(package.shown):
            kind, name, shape, layout = (
                package.header[n] for n in ("operator", "dtype", "shape", "layout")
            )
            rows, cols = map(int, shape)
            texts = (kind, name, layout)
            if (
                kind not in KINDS
                or min(rows, cols) < 0
                or not all(isinstance(t, str) for t in texts)
            ):
                raise ValueError("not a weight of an operator")
            known = list(dict.fromkeys(_core.matmul_layout(name, p) for p in PRECISIONS))
            if layout not in known:
                own = " or ".join(map(repr, known))
                package.refuse(f"is packed as {layout!r:.80}",
                               f"for {name} this CPU and this pto read {own}",
                               "pack the weight again on this machine")  # fmt: skip
            data = _aligned(len(package.payload) // 4)
            memoryview(data).cast("B")[:] = package.payload
            return PackedWeight(kind, name, (rows, cols), layout, data)

    def call_operator(self, operator: Any, values: dict[str, Any]) -> Any:
        """Calls an operator with this weight; `values` are the arguments by name."""
        kind, taker = KINDS[self.kind], KINDS[self.kind].taker
        name = operator.name
        if name != self.kind:
            raise InvalidValue(
                f"{name}: got a weight that is packed for {self.kind}",
                "each operator reads weights in its own way",
                f"call pto.ops.{self.kind}, or pack the weight for one of {', '.join(KINDS)}",
            )
        defaults = {a.name: a.default for a in operator.arguments if a.has_default}
        taken = {a.name: values[a.name] for a in taker.arguments if a.name in values}
        taken.pop("packed", None)
        beside = [n for n, v in values.items()
                  if n not in (*taken, kind.weight) and v is not defaults[n]]  # fmt: skip
        places = [n for n, v in values.items() if v is self]
        if places != [kind.weight] or beside:
            other = ", ".join([*beside, *(n for n in places if n != kind.weight)])
            raise InvalidType(
                f"{name}: a packed weight, and also {other}",
                f"a packed weight stands for {kind.weight}, beside {', '.join(taken)}",
                f"pass it as {kind.weight}, and leave out {other}",
            )
        x = values[operator.arguments[0].name]
        self._check(name, operator, x, values)
        sizes = {a.name: self.outputs for a in taker.attributes if a.kind == "SymInt"}
        return taker(packed=self._array_for(x), **taken, **sizes)

    def _check(self, name: str, operator: Any, x: Any, values: dict[str, Any]) -> None:
        """Raises where this weight cannot be multiplied by x in this process."""
        own = operator.by_name[KINDS[self.kind].weight].type
        for argument in operator.tensors:
            kind = getattr(values[argument.name], "dtype", None)
            if argument.type != own or kind is None or kind in self._types:
                continue
            given = dtype(kind).name
            if given != self.dtype:
                raise InvalidType(
                    f"{name}: {argument.name} is {given}, the packed weight {self.dtype}",
                    "a product takes elements of one type",
                    f"convert {argument.name}, or pack the weight as {given}",
                )
            self._types.add(kind)
        shape = getattr(x, "shape", ())
        if len(shape) > 0 and isinstance(shape[-1], int) and shape[-1] != self.inputs:
            raise InvalidValue(
                f"{name}: {operator.arguments[0].name} has {shape[-1]} inputs, "
                f"the packed weight {self.inputs}",
                "both are the contraction of the product", "pass the weight of these inputs",
            )  # fmt: skip
        now = _core.matmul_layout(self.dtype)
        if now != self.layout:
            fits = [p for p in PRECISIONS if _core.matmul_layout(self.dtype, p) == self.layout]
            fix = f"or set pto.config.matmul_precision = {fits[0]!r}" if fits else "in this process"
            raise InvalidValue(
                f"{name}: the weight is packed as {self.layout!r}",
                f"at matmul_precision {config.matmul_precision!r} this CPU reads {now!r}",
                f"pack the weight again, {fix}",
            )

    def _array_for(self, x: Any) -> Any:
        """The packed elements as an array of the library of x, where that takes no other."""
        if adapter(type(x)) != "torch":
            return self._data
        if self._torch is None:
            import torch

            self._torch = torch.from_numpy(self._data)
        return self._torch

    def __repr__(self) -> str:
        shape = " x ".join(map(str, self.shape))
        return f"<weight of {self.kind}, {self.dtype} {shape}, packed as {self.layout}>"

    def __copy__(self) -> "PackedWeight":
        return self

    def __deepcopy__(self, _: Mapping) -> "PackedWeight":
        return self

    def __reduce__(self) -> tuple:
        return PackedWeight.from_bytes, (self.to_bytes(),)


def _aligned(floats: int) -> np.ndarray:
    """Memory for floats that begins with a cache line."""
    memory = np.empty(floats + ALIGNMENT // 4, np.float32)
    first = -memory.ctypes.data % ALIGNMENT // 4
    return memory[first : first + floats]
