# SPDX-License-Identifier: Apache-2.0
"""Models from files that pto.torch.package() wrote: they run without Dynamo and without a compiler.

    model = pto.load("m.pto")
    y = model(x, mask=mask)          # as the model that was exported

A call checks element types and sizes, and runs the steps of the graph: compiled programs,
operators of the library, operators of PyTorch, whose version must be that which packaged it. The
model owns its weights; buffers that it writes change from call to call.
Thread safety: any thread may call; calls that write buffers belong to one thread at a time.
"""

import json
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

import pto.torch  # noqa: F401 makes torch.ops.pto
import torch
from pto import _core, container
from pto.adapters.torch.graph_function import check, function_of
from pto.adapters.torch.packing_function import PackingFunction, is_packed
from pto.container import Package
from pto.errors import InvalidType, InvalidValue
from pto.language import arguments
from pto.language.package import PackagedFunction
from torch.utils import _pytree as pytree

KIND, ALIGNMENT = "model", 64
_OF_OPERATOR = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "neg", "pos", "abs", "eq",
                "ne", "lt", "le", "gt", "ge", "and_", "or_", "xor", "not_")  # fmt: skip
NUMBER_FUNCTIONS = {name: getattr(operator, name) for name in _OF_OPERATOR} | {
    name: getattr(torch, name) for name in dir(torch) if name.startswith("sym_")
}


def weight_pieces(weight: torch.Tensor) -> Iterable[bytes]:
    """Pieces of a payload that hold a weight's elements, row-major, with zeros up to a multiple of
    ALIGNMENT."""
    flat = weight.contiguous().flatten()
    content = bytes(flat.view(torch.uint8).numpy()) if flat.numel() else b""
    return content, b"\0" * (-len(content) % ALIGNMENT)


class PackagedStep(_core.Callable):
    """A compiled program of a file, called with torch tensors."""

    def __init__(self, programs: _core.ProgramPackage, place: int, about: dict[str, Any]):
        self.programs, self.place, self.about = programs, place, about
        names = tuple(f"x{i}" for i in range(len(about["strides"])))
        self.bind_function(about["name"], names, (), arguments, False, True)
        if any(about["constants"]):
            arguments.load_weight_owner()

    def specialise(self, tensors: list, constants: list, numbers: list) -> tuple:
        """The program, at the first call with such tensors: for _core.Callable."""
        strides = [one[2] for one in tensors]
        wanted = self.about["strides"]
        # A size of 1 or 0 can close gaps: a lower class is a special case of a higher one.
        if any(given > most for given, most in zip(strides, wanted, strict=True)):
            raise InvalidValue(
                f"{self.programs.shown}: {self.about['name']} got tensors with other strides",
                f"it was compiled for the classes {wanted}, and got {strides}",
                "package the model again: an operator of PyTorch arranges its result anew",
            )
        return self.programs.program(self.place), None if self.about["results"] == 1 else tuple, 0

    def captured(self) -> tuple:
        """No value outside of its parameters is part of it."""
        return (), ()

    def call_in_library(self, *tensors: Any) -> Any:
        """Makes a call on tensors that do not simply lie in memory."""
        from pto.graphs.program import as_they_lie  # which packages seldom need

        return self(*as_they_lie(self.about["name"], tensors))


class PackagedModel:
    """A compiled model of a file; `weights` are its tensors by name."""

    def __init__(self, package: Package):
        header, self.shown = package.header, package.shown
        _check_version(package)
        self.__name__, self.inputs = header["name"], header["inputs"]
        size = header["code_bytes"]
        programs = None
        if header["programs"]:
            programs = _core.ProgramPackage(package.shown, bytes(package.payload[:size]))
        steps = [PackagedStep(programs, i, one) for i, one in enumerate(header["programs"])]
        operators = []
        for one in header["operators"]:
            code = package.payload[size : size + one["bytes"]]
            operators.append(PackagedFunction(Package("program", one, code, package.shown)))
            size += one["bytes"]
        self._weights = list(_read_weights(header["weights"], package.payload[size:]))
        known = ((one, self._weights[one["weight"]]) for one in self.inputs if "weight" in one)
        own = {id(weight) for one, weight in known if is_packed(one, weight)}
        constants = {n: _constant(value, steps, operators, own, package)
                     for n, value in header["constants"].items()}  # fmt: skip
        check(header["text"], constants)
        self._run = function_of(header["text"], constants)
        self._header, self._code = header, bytes(package.payload[:size])
        self.weights = {one["name"]: self._weights[one["weight"]] for one in self.inputs
                        if "weight" in one}  # fmt: skip
        self._arguments = _containers(header["arguments"], package)
        self._form = _containers(header["form"], package)
        by_place, by_name = self._arguments.children()
        leaves = [one.is_leaf() for one in (*by_place.children(), *by_name.children())]
        self._calls = by_place.num_children, by_name.context, all(leaves)
        self._writes = [one.get("writes") for one in header["results"]]
        self._asked = [one for one in self.inputs if "weight" not in one]
        # All inputs of a call, and the places of those that it is given. Caches are cold after a
        # call that read all weights: the next one looks at few objects.
        self._values = [self._weights[one["weight"]] if "weight" in one else None
                        for one in self.inputs]  # fmt: skip
        self._places = [i for i, one in enumerate(self.inputs) if "weight" not in one]
        self._dtypes = [getattr(torch, one.get("dtype", ""), None) for one in self._asked]
        self._symbols, self._sizes_of = free_sizes(self._asked)

    @staticmethod
    def from_package(package: Package) -> "PackagedModel":
        package.check_kind(KIND)
        with container.checked_header(package.shown):
            return PackagedModel(package)

    def __reduce__(self) -> tuple:
        """As the content of a file, with the weights as they are now."""
        header = {name: value for name, value in self._header.items() if name != "kind"}
        pieces = [piece for one in self._weights for piece in weight_pieces(one)]
        content = container.content_of(KIND, header, [self._code, *pieces])
        return _restored, (b"".join(content), self.shown)

    def __repr__(self) -> str:
        bytes_ = sum(one.nbytes for one in self._weights)
        return f"<pto packaged {self.__name__}: weights of {bytes_ / 1e6:.1f} MB>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        given = self._flat(args, kwargs)
        sizes: dict[str, int] = {}
        for about, value, dtype in zip(self._asked, given, self._dtypes, strict=True):
            self._check(about, value, dtype, sizes)
        self._check_derived(given, sizes)
        values = self._values.copy()
        for place, one in zip(self._places, given, strict=True):
            values[place] = one.contiguous() if isinstance(one, torch.Tensor) else one
        # Weights are the model's own: nobody else writes them.
        before = _core.exchange_thread_weight_check("trusted")
        try:
            with torch.no_grad():
                results = self._run(values)
                if any(self._writes):
                    results = self._write(results, given)
        finally:
            _core.exchange_thread_weight_check(before)
        return pytree.tree_unflatten(results, self._form)

    def _write(self, results: list[Any], given: list[Any]) -> list[Any]:
        """Writes what replaces weights and inputs; returns the other results."""
        known = self.weights | {a["name"]: v for a, v in zip(self._asked, given, strict=True)}
        for name, result in zip(self._writes, results, strict=True):
            if name is not None:
                known[name].copy_(result)
        return [r for name, r in zip(self._writes, results, strict=True) if name is None]

    def _flat(self, args: tuple, kwargs: dict[str, Any]) -> list[Any]:
        """The leaves of the arguments in the order of the export."""
        by_place, names, are_leaves = self._calls
        if are_leaves and len(args) == by_place and kwargs.keys() == set(names):
            leaves = [*args, *(kwargs[name] for name in names)]
            if all(isinstance(one, torch.Tensor) for one in leaves):
                return leaves
        if sorted(kwargs) == sorted(names):
            kwargs = {name: kwargs[name] for name in names}
        flat, form = pytree.tree_flatten((args, kwargs))
        if form != self._arguments:
            counts = self._arguments.child(0).num_children
            where = ""
            if len(args) == counts and [*kwargs] == [*names]:
                places = [*(f"argument {place}" for place in range(counts)), *names]
                rows = zip(places, _of_each(form), _of_each(self._arguments), strict=True)
                differ = next(place for place, given, wanted in rows if given != wanted)
                where = f", {differ} in other containers or with other keys"
            raise InvalidType(
                f"{self.shown}: the call has {len(args)} arguments by place and"
                f" {', '.join(kwargs) or 'none'} by name{where}",
                f"the model was exported with {counts} by place and {', '.join(names) or 'none'} by"
                " name, containers included",
                "pass arguments as they were passed to torch.export.export()",
            )
        return flat

    def _check(
        self, about: dict[str, Any], value: Any, dtype: torch.dtype | None, sizes: dict[str, int]
    ) -> None:
        name = about["name"]
        if "value" in about or "number" in about:
            self._check_number(about, value, sizes)
            return
        is_tensor = isinstance(value, torch.Tensor)
        if not is_tensor or value.device.type != "cpu" or value.layout is not torch.strided:
            found = f"{value.layout} on {value.device}" if is_tensor else type(value).__name__
            self._refuse(f"the input {name} is {found}", "it is a dense tensor on the CPU",
                         "pass x.cpu(), or torch.as_tensor(x)", InvalidType)  # fmt: skip
        if value.requires_grad and torch.is_grad_enabled():
            self._refuse(f"the input {name} requires a gradient",
                         "a package has the code of the model, and none of its gradient",
                         "pass x.detach(), or call it under torch.no_grad()")  # fmt: skip
        if value.dtype is not dtype or value.ndim != len(about["shape"]):
            self._refuse(f"the input {name} is {value.dtype} with {value.ndim} axes",
                         f"it was exported as {about['dtype']} with {len(about['shape'])}",
                         "pass such a tensor", InvalidType)  # fmt: skip
        pairs = zip(value.shape, about["shape"], about["ranges"], strict=True)
        for axis, (size, wanted, range_) in enumerate(pairs):
            which = f"axis {axis} of the input {name}"
            self._check_size(which, size, wanted, range_, sizes)
        for axis, symbol, factor, offset in about.get("tells", ()):
            which = f"axis {axis} of the input {name}"
            sizes[symbol] = self._told(which, value.shape[axis], factor, offset)

    def _check_number(self, about: dict[str, Any], value: Any, sizes: dict[str, int]) -> None:
        name = about["name"]
        if "number" in about and isinstance(value, int):
            which = f"the input {name}"
            self._check_size(which, value, about["number"], about["range"], sizes)
            for _, symbol, factor, offset in about.get("tells", ()):
                sizes[symbol] = self._told(which, value, factor, offset)
        elif "number" in about or (type(value), value) != (type(about["value"]), about["value"]):
            wanted = repr(about["value"]) if "value" in about else "an int"
            self._refuse(f"the input {name} is {value!r:.40}", f"it was exported as {wanted}",
                         "export the model for this value")  # fmt: skip

    def _check_size(
        self, which: str, size: int, wanted: int | str, range_: Sequence | None, sizes: dict
    ) -> None:
        if isinstance(wanted, str):
            least, most = range_
            if size < least or (most is not None and size > most):
                limit = f"at least {least}" + (f" and at most {most}" if most is not None else "")
                one = ", and let it squeeze no axis of this size" if size < 2 else ""
                self._refuse(f"{which} has the size {size}", f"the packaged model takes {limit}",
                             f"export it with another range of this size{one}")  # fmt: skip
            wanted = sizes.setdefault(wanted, size) if wanted.isidentifier() else size
        if size != wanted:
            self._refuse(f"{which} has the size {size}", f"it was exported for {wanted} here",
                         "pass such a tensor, or export the size as free")  # fmt: skip

    def _told(self, which: str, size: int, factor: int, offset: int) -> int:
        """The n of a size that is factor * n + offset."""
        n, rest = divmod(size - offset, factor)
        if rest:
            below = size - rest
            self._refuse(f"{which} has the size {size}",
                         f"it was exported for sizes {factor} n{offset and f' + {offset}' or ''}:"
                         f" those beside {size} are {below} and {below + factor}",
                         "pass a tensor with such a size")  # fmt: skip
        return n

    def _check_derived(self, given: list[Any], sizes: dict[str, int]) -> None:
        """Compares sizes that the export expressed by others."""
        wanted = self._sizes_of([sizes[name] for name in self._symbols])
        for about, value, expected in zip(self._asked, given, wanted, strict=True):
            if isinstance(value, torch.Tensor) and list(value.shape) != expected:
                shown = ", ".join(map(str, about["shape"]))
                self._refuse(f"the input {about['name']} has the sizes {list(value.shape)}",
                             f"those of the others make them {expected}: {shown}",
                             "pass tensors whose sizes go together")  # fmt: skip

    def _refuse(self, what: str, why: str, fix: str, kind: type = InvalidValue) -> None:
        raise kind(f"{self.shown}: {what}", why, fix)


def _of_each(form: pytree.TreeSpec) -> list[pytree.TreeSpec]:
    """The containers of each argument, by place and then by name."""
    return [one for part in form.children() for one in part.children()]


def _restored(content: bytes, shown: str) -> PackagedModel:
    """A model that was pickled or copied."""
    return PackagedModel.from_package(container.opened(content, shown))


def _check_version(package: Package) -> None:
    here = torch.__version__.partition("+")[0]
    if package.header["torch"] != here:
        package.refuse(f"was packaged by PyTorch {package.header['torch']}",
                       f"here is PyTorch {here}, whose operators may differ",
                       "package the model again with this version")  # fmt: skip


def _containers(text: str, package: Package) -> pytree.TreeSpec:
    """The containers of arguments or results; their classes register themselves with PyTorch."""
    try:
        return pytree.treespec_loads(text)
    except NotImplementedError as error:
        name = next((one for one in _kinds(json.loads(text)[1]) if one in str(error)), text)
        package.refuse(f"has a container of the class {name}",
                       "PyTorch does not know the class in this process",
                       f"import {name.rpartition('.')[0]} before pto.load()")  # fmt: skip


def _kinds(form: dict[str, Any]) -> Iterator[str]:
    yield str(form["type"])
    for child in form["children_spec"]:
        yield from _kinds(child)


def free_sizes(asked: list[dict[str, Any]]) -> tuple[list[str], Callable[[list[int]], list]]:
    """The symbols among the sizes of inputs, and a function of these: the sizes of each input, a
    number that is a size among them."""
    every = [one.get("shape", [one["number"]] if "number" in one else []) for one in asked]
    plain = {size for sizes in every for size in sizes
             if isinstance(size, str) and size.isidentifier()}  # fmt: skip
    symbols = sorted(plain | {told[1] for one in asked for told in one.get("tells", ())})
    shapes = ", ".join(f"[{', '.join(map(str, sizes))}]" for sizes in every)
    bound = "".join(f"{name}, " for name in symbols)
    head = f"    {bound}= args\n" if symbols else ""
    text = f"def run(args):\n{head}    return [{shapes}]\n"
    check(text, {})
    return symbols, function_of(text, {})


def _constant(
    described: list[Any], steps: list[PackagedStep], operators: list[PackagedFunction],
    own: set[int], package: Package,
) -> Any:  # fmt: skip
    """A constant of the function from what the header says of it. Raises what is wrong with it."""
    kind, *given = described
    if kind == "program":
        return steps[given[0]]
    if kind == "packaged":
        function, *packing = given
        if not packing:
            return operators[function]
        *places, packer = packing
        return PackingFunction(operators[function], operators[packer], own, *places)
    if kind == "operator":
        name, overload, is_direct = given
        space, _, short = name.partition("::")
        packet = getattr(getattr(torch.ops, space), short, None)
        if packet is None:
            package.refuse(f"calls the operator {name}", "it is not registered in this process",
                           "import the library that defines it first")  # fmt: skip
        found = getattr(packet, overload)
        return found._op if is_direct else found
    if kind == "of numbers":
        return NUMBER_FUNCTIONS[given[0]]
    if kind == "of torch":
        found = getattr(torch, given[0])
        if not isinstance(found, torch.dtype | torch.layout | torch.memory_format):
            raise ValueError(f"torch.{given[0]} is no type of elements and no layout")
        return found
    if kind == "device":
        return torch.device(given[0])
    if kind == "carrier":
        return torch.zeros(1, dtype=torch.uint8)
    if kind == "complex":
        return complex(given[0])
    return float(given[0]) if kind == "number" else given[0]


def _read_weights(described: list[dict[str, Any]], payload: memoryview) -> Iterator[torch.Tensor]:
    """The weights, each in memory of its own; one whose elements repeat is dense."""
    at = 0
    for one in described:
        dense = torch.empty(one["shape"], dtype=getattr(torch, one["dtype"]))
        size = dense.nbytes
        if at + size > len(payload):
            raise ValueError("the payload has fewer weights than the header")
        if size:
            read = np.frombuffer(payload[at : at + size], np.uint8)
            dense.flatten().view(torch.uint8).numpy()[:] = read
        made = dense
        if list(dense.stride()) != one["strides"] and 0 not in one["strides"]:
            made = torch.empty_strided(one["shape"], one["strides"], dtype=dense.dtype)
            made.copy_(dense)
        at += size + -size % ALIGNMENT
        yield made
