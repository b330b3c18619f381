# SPDX-License-Identifier: Apache-2.0
"""Collectives between the devices of a run at level host, as tasks of its orchestration.

    def my_orch(ctx, args):
        parts = {chip: ctx.alloc((1 << 20,)) for chip in ctx.peers()}
        for chip, part in parts.items():
            ctx.submit(chip, "gradient", [pto.Arg.output(part)])
        pto.comm.all_reduce(ctx, parts)          # each part becomes the sum of all

`tensors` maps each device to the tensor on which it works, all of one shape and element type. All
memory is shared, so a device reads what it needs from the others' tensors; edges follow from the
bytes, as for all tasks. Reductions take the devices in the order of the mapping, so results do not
depend on timing. Operations are sum, product, min and max. Each function returns its task or
tasks, for ctx.wait() and after=.
"""

import operator
from collections.abc import Mapping, Sequence
from typing import Any, SupportsFloat, SupportsIndex

from pto.errors import InvalidType, InvalidValue
from pto.tasks.arguments import Arg
from pto.tasks.host_context import Context, Node

_OPERATIONS = ("sum", "product", "min", "max")
_COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")  # in the order of the engine's


def put(ctx: Context, chip: int, dst: Any, src: Any, after: Sequence[Node] = ()) -> Node:
    """dst = src, by the device that owns src."""
    return ctx.submit_collective(chip, "copy", [Arg.output(dst), Arg.input(src)], after)


def get(ctx: Context, chip: int, dst: Any, src: Any, after: Sequence[Node] = ()) -> Node:
    """dst = src, by the device that owns dst."""
    return ctx.submit_collective(chip, "copy", [Arg.output(dst), Arg.input(src)], after)


def notify(
    ctx: Context, chip: int, signal: Any, value: int = 1, op: str = "add",
    after: Sequence[Node] = (),
) -> Node:  # fmt: skip
    """signal += value, or signal = value with op="set": a tensor of int32 or int64."""
    if op not in ("add", "set"):
        raise InvalidValue(
            f"notify: op is {op!r}", "a signal is added to or set", "pass 'add' or 'set'"
        )
    to, number = _signal("notify", Arg.inout(signal)), Arg.scalar(value, dtype="int64")
    if to.dtype == "int32" and not -(2**31) <= number.data < 2**31:
        raise InvalidValue(
            f"notify: value is {value}, and the signal is int32",
            "an int32 lies between -2**31 and 2**31 - 1", "allocate the signal as int64",
        )  # fmt: skip
    return ctx.submit_collective(chip, op, [to, number], after)


def wait(
    ctx: Context, signal: Any, value: int = 1, compare: str = ">=", after: Sequence[Node] = ()
) -> Node:
    """A task that is done when the comparison of the signal's first element with the value holds.

    It occupies no device; a task that must come after it says so: after=[node]. If no task is left
    that could change the signal, the run fails: a deadlock.
    """
    if compare not in _COMPARISONS:
        raise InvalidValue(
            f"wait: compare is {compare!r}", "it names a comparison of the signal with the value",
            f"pass one of {', '.join(_COMPARISONS)}",
        )  # fmt: skip
    _signal("wait", Arg.input(signal))
    if isinstance(value, str) or not isinstance(value, SupportsFloat | SupportsIndex):
        raise InvalidType(
            f"wait: value is {value!r:.60}, of type {type(value).__name__}",
            "the signal is compared with a number", "pass an int or a float",
        )  # fmt: skip
    if isinstance(value, SupportsIndex) and not _is_double(operator.index(value)):
        raise InvalidValue(
            f"wait: value is {value}", "it is compared as a double, which is not that number",
            f"pass a number of at most 53 bits, such as {2**53}",
        )  # fmt: skip
    return ctx.submit_gate(signal, _COMPARISONS.index(compare), float(value), after)


def broadcast(ctx: Context, src: Any, tensors: Mapping[int, Any]) -> list[Node]:
    """Each device copies src to its tensor."""
    return [_copy(ctx, chip, t, src) for chip, t in _checked(tensors) if t is not src]


def reduce(
    ctx: Context, chip: int, dst: Any, tensors: Mapping[int, Any], op: str = "sum"
) -> list[Node]:
    """dst, on one device, becomes the sum of all tensors."""
    _check_operation(op)
    sources = [Arg.input(tensor) for _, tensor in _checked(tensors)]
    return [ctx.submit_collective(chip, op, [Arg.output(dst), *sources])]


def gather(ctx: Context, chip: int, dst: Any, tensors: Mapping[int, Any]) -> list[Node]:
    """dst[i], on one device, becomes the i-th tensor."""
    _check_rows("gather", dst, tensors)
    return [_copy(ctx, chip, dst[i], t) for i, (_, t) in enumerate(_checked(tensors))]


def scatter(ctx: Context, src: Any, tensors: Mapping[int, Any]) -> list[Node]:
    """The i-th device's tensor becomes src[i]."""
    _check_rows("scatter", src, tensors)
    return [_copy(ctx, chip, t, src[i]) for i, (chip, t) in enumerate(_checked(tensors))]


def all_gather(ctx: Context, tensors: Mapping[int, Any], results: Mapping[int, Any]) -> list[Node]:
    """results[chip][i], on every device, becomes the i-th tensor."""
    return [node for chip, dst in _checked(results) for node in gather(ctx, chip, dst, tensors)]


def all_reduce(ctx: Context, tensors: Mapping[int, Any], op: str = "sum") -> list[Node]:
    """Each tensor becomes the sum of all.

    Each device reduces one piece of them, then takes the others' pieces.
    """
    _check_operation(op)
    all_tensors = _checked(tensors)
    length = _shape(all_tensors[0][1])[0]
    n = min(len(all_tensors), max(1, length))
    pieces = [slice(i * length // n, (i + 1) * length // n) for i in range(n)]
    for (chip, own), piece in zip(all_tensors, pieces, strict=False):
        args = [Arg.inout(own[piece]), *(Arg.input(t[piece]) for _, t in all_tensors)]
        ctx.submit_collective(chip, op, args)
    return [
        _copy(ctx, chip, tensor[piece], all_tensors[i][1][piece])
        for chip, tensor in all_tensors
        for i, piece in enumerate(pieces)
        if tensor is not all_tensors[i][1]
    ]


def _is_double(number: int) -> bool:
    return number.bit_length() <= 64 and int(float(number)) == number


def _copy(ctx: Context, chip: int, dst: Any, src: Any) -> Node:
    return ctx.submit_collective(chip, "copy", [Arg.output(dst), Arg.input(src)])


def _signal(call: str, signal: Arg) -> Arg:
    if signal.size == 0:
        raise InvalidValue(
            f"{call}: the signal, {signal!r}, has no elements",
            "a wait compares its first element", 'allocate it: ctx.alloc((1,), "int32")',
        )  # fmt: skip
    return signal


def _checked(tensors: Mapping[int, Any]) -> list[tuple[int, Any]]:
    if not isinstance(tensors, Mapping) or not tensors:
        raise InvalidType(
            f"a collective got {type(tensors).__name__ if tensors else 'no tensors'}",
            "each tensor belongs to a device", "pass a dict from each device to its tensor",
        )  # fmt: skip
    if any(_shape(t) == () for t in tensors.values()):
        raise InvalidValue(
            "a collective got a tensor without dimensions",
            "a collective cuts tensors along their first dimension", "reshape it to [1]",
        )  # fmt: skip
    alike = {(_shape(t), str(t.dtype).rpartition(".")[2]) for t in tensors.values()}
    if len(alike) > 1:
        raise InvalidValue(
            f"a collective got {' and '.join(f'{d}{list(s)}' for s, d in sorted(alike))}",
            "all tensors of a collective have one shape and element type",
            "reshape or convert one of them",
        )
    return list(tensors.items())


def _check_rows(call: str, whole: Any, tensors: Mapping[int, Any]) -> None:
    shape = _shape(_checked(tensors)[0][1])
    if _shape(whole) != (len(tensors), *shape):
        raise InvalidValue(
            f"{call}: the whole has the shape {list(_shape(whole))}, its parts {list(shape)}",
            f"the first dimension of the whole counts the devices, here {len(tensors)}",
            f"make it {[len(tensors), *shape]}",
        )  # fmt: skip


def _shape(tensor: Any) -> tuple[int, ...]:
    if not hasattr(tensor, "shape") or not hasattr(tensor, "dtype"):
        raise InvalidType(
            f"a collective got {tensor!r:.60}, of type {type(tensor).__name__}",
            "it needs the shape and the element type of each tensor",
            "pass a TensorHandle, a NumPy array or a torch tensor",
        )
    return tuple(tensor.shape)


def _check_operation(op: str) -> None:
    if op not in _OPERATIONS:
        raise InvalidValue(
            f"unknown reduction {op!r}",
            "a reduction has the name of an operation",
            f"pass one of {', '.join(_OPERATIONS)}",
        )
