# SPDX-License-Identifier: Apache-2.0
"""PyTorch's dispatcher as the library of pto.aten: its schemas as records, its kernels as slot 8.

An operator of another namespace than aten has it in its name, "torchvision::nms". Records are read
when a name is asked for.
Thread safety: any thread may ask.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

import torch
from pto.adapters.torch import direct
from pto.adapters.torch.aten import arrays, calls, places, shapes
from pto.adapters.torch.aten.fronts import Fronts
from pto.adapters.torch.aten.values import convert, describe
from pto.aten.records import REQUIRED, Argument, Record

_KEYS = ("CPU", "SparseCPU", "SparseCsrCPU", "QuantizedCPU", "MkldnnCPU", "NestedTensorCPU",
         "Meta", "PrivateUse1")  # fmt: skip


class Dispatcher:
    """The operators of the process; see records.Library."""

    convert = staticmethod(convert)
    describe = staticmethod(describe)
    call = staticmethod(calls.call)
    is_settled = staticmethod(shapes.settles)
    refused = staticmethod(calls.refused)
    fronts = staticmethod(Fronts)
    dense_type = staticmethod(arrays.dense_type)
    overlap = staticmethod(places.overlap)
    is_same = staticmethod(places.is_same)
    shape = staticmethod(arrays.shape)
    is_contiguous = staticmethod(arrays.is_contiguous)
    is_dense = staticmethod(arrays.is_dense)
    strides_of = staticmethod(arrays.strides_of)
    permuted = staticmethod(arrays.permuted)
    relaid = staticmethod(arrays.relaid)
    copied = staticmethod(arrays.copied)
    as_tensors = staticmethod(calls.as_tensors)

    def is_writable(self, value: Any) -> bool:
        return arrays.why_not_written(value) is None

    def fit(self, record: Record, values: Mapping[str, Any]) -> bool | None:
        return shapes.fit(record, {n: calls.as_tensors(value) for n, value in values.items()})

    def strides(self, record: Record, values: Mapping[str, Any]) -> list[tuple[int, ...]] | None:
        return shapes.strides(record, {n: calls.as_tensors(value) for n, value in values.items()})

    def as_numpy(self, value: Any) -> Any:
        return value if arrays.kind(value) == "numpy" else arrays.array(value, "numpy")

    def __init__(self) -> None:
        self.version = torch.__version__.partition("+")[0]
        self._records: dict[str, tuple[Record, ...]] = {}
        self._overloads = self._listed()

    def _listed(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for full in torch._C._dispatch_get_all_op_names():
            name, _, overload = full.removeprefix("aten::").partition(".")
            found.setdefault(name, []).append(overload)
        return found

    def names(self, namespace: str = "aten") -> frozenset[str]:
        listed = self._listed()
        return frozenset(one for one in listed if _space_of(one) == namespace)

    def records(self, name: str) -> tuple[Record, ...]:
        if not self._records.get(name):
            self._records[name] = self._read(name)
        return self._records[name]

    def _read(self, name: str) -> tuple[Record, ...]:
        if name not in self._overloads and self._family(name) is not None:  # registered since
            self._overloads = self._listed()
        registered = set(self._overloads.get(name, ()))
        if not registered:
            return ()
        family = self._family(name)
        order = ["" if o == "default" else o for o in family.overloads()]
        later = sorted(registered.difference(order))  # registered since PyTorch has read the name
        return tuple(self._record(name, o, family) for o in (*order, *later) if o in registered)

    def _record(self, name: str, overload: str, family: Any) -> Record:
        operator = getattr(family, overload or "default")
        schema = operator._schema
        full = _qualified(name) + (f".{overload}" if overload else "")
        return Record(
            name=name,
            overload=overload,
            schema=str(schema).removeprefix("aten::"),
            arguments=tuple(map(_argument, schema.arguments)),
            returns=tuple(_type_text(one) for one in schema.returns),
            tags=frozenset(tag.name for tag in operator.tags),
            cpu=_has(full, "CPU"),
            meta=_has(full, "Meta"),
            handle=operator,
        )

    def is_current(self, record: Record) -> bool:
        """Whether PyTorch still has the operator of a record, and has not defined it anew."""
        family = self._family(record.name)
        return getattr(family, record.overload or "default", None) is record.handle

    def reread(self, name: str) -> tuple[Record, ...]:
        """The overloads of a name as PyTorch has them now; those that are the same stay so."""
        before = {one.overload: one for one in self._records.pop(name, ())}
        self._overloads = self._listed()
        found = [before.get(one.overload, one) for one in self._read(name)]
        self._records[name] = tuple(
            one if self.is_current(one) else self._record(name, one.overload, self._family(name))
            for one in found
        )
        return self._records[name]

    def _family(self, name: str) -> Any:
        """PyTorch's object for a name; None where it has none."""
        space, _, bare = _qualified(name).partition("::")
        return getattr(getattr(torch.ops, space), bare, None)

    def planned(self, record: Record, learn: Callable, fail: Callable) -> Any:
        """A callable that skips what earlier calls did; None: there is none."""
        return direct.aten_call(_qualified(record.name), record.overload, learn, fail)

    def refuses(self, record: Record, values: Mapping[str, Any]) -> str | None:
        """Why there is no kernel: the dispatcher has none for dense CPU tensors, and all are."""
        if record.cpu or not all(map(_is_dense, places.flat(values))):
            return None
        full = _qualified(record.full_name)
        if _has(full, "CPU"):  # somebody has registered one since
            return None
        kernels = ", ".join(key for key in _KEYS if _has(full, key)) or "nothing"
        return (
            f"PyTorch {self.version} has no kernel of it for dense tensors of the CPU; it has some"
            f" for {kernels}"
        )


def _space_of(name: str) -> str:
    return name.partition("::")[0] if "::" in name else "aten"


def _qualified(name: str) -> str:
    """The name as PyTorch spells it: "aten::add"."""
    return name if "::" in name else f"aten::{name}"


def _is_dense(value: Any) -> bool:
    is_tensor = isinstance(value, torch.Tensor)
    return not is_tensor or (value.layout is torch.strided and value.device.type == "cpu")


def _has(full_name: str, key: str) -> bool:
    return torch._C._dispatch_has_computed_kernel_for_dispatch_key(full_name, key)


def _argument(argument: Any) -> Argument:
    return Argument(
        name=argument.name,
        type=_type_text(argument),
        is_keyword_only=argument.kwarg_only,
        is_written=bool(argument.alias_info and argument.alias_info.is_write),
        default=argument.default_value if argument.has_default_value() else REQUIRED,
    )


def _type_text(argument: Any) -> str:
    """The type as a schema spells it; PyTorch gives "Optional[List[int]]" and 2 for int[2]?."""
    text, length = str(argument.real_type), argument.N if hasattr(argument, "N") else None
    text = text.replace("number", "Scalar")
    while match := re.search(r"(Optional|List)\[([^\[\]]*(?:\[\d*\])?\??)\]", text):
        ending = "?" if match[1] == "Optional" else f"[{length or ''}]"
        text = text[: match.start()] + match[2] + ending + text[match.end() :]
    return text
