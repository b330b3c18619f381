# SPDX-License-Identifier: Apache-2.0
"""Says which operator of the library computes a standard node, and with which attributes.

The operator's tensors are the node's first inputs in their order; constant inputs become
attributes. Thread safety: pure functions.
"""

from dataclasses import dataclass, field

from pto.adapters.onnxruntime.graph import OnnxNode, OnnxValue
from pto.formulas import NotExpressible


@dataclass(frozen=True)
class LibraryOperator:
    """An operator of the library, whose tensors are the first `tensors` inputs of the node.

    `prepared` names, by place of a constant input, the operator that is run on it once; its result
    takes the constant's place.
    """

    operator: str
    tensors: int
    attributes: dict[str, object] = field(default_factory=dict)
    prepared: dict[int, str] = field(default_factory=dict)


def product(node: OnnxNode) -> LibraryOperator:
    """A product; a constant right operand of rank 2 is packed once, when the session is made."""
    b = node.inputs[1]
    if _is_packed(b):
        return LibraryOperator("matmul_packed", 2, {"cols": b.shape[1]}, {1: "_pack_right"})
    return LibraryOperator("matmul", 2)


def _is_packed(b: OnnxValue) -> bool:
    return b.is_constant and b.dtype in ("f32", "f16", "bf16") and len(b.shape) == 2


def gemm(node: OnnxNode) -> LibraryOperator:
    """alpha a b + beta c; as a linear layer, whose weight is packed once, where it is one."""
    flags = {f"transpose_{x}": bool(node.get(f"trans{x.upper()}", 0)) for x in "ab"}
    numbers = {name: node.get(name, 1.0) for name in ("alpha", "beta")}
    b, c = node.inputs[1], node.input(2)
    columns = b.shape[0 if flags["transpose_b"] else 1]
    is_layer = not flags["transpose_a"] and numbers == {"alpha": 1.0, "beta": 1.0}
    if is_layer and _is_packed(b) and (c is None or c.shape == (columns,)):
        pack = "_pack_weight" if flags["transpose_b"] else "_pack_right"
        return LibraryOperator("linear_packed", len(node.inputs), {"outputs": columns}, {1: pack})
    return LibraryOperator("gemm", len(node.inputs), numbers | flags)


def convolution(node: OnnxNode) -> LibraryOperator:
    """A convolution of images. Raises NotExpressible for other ranks and uneven padding."""
    pads = node.get("pads", [0] * 4)
    if len(node.input(0).shape) != 4 or pads[:2] != pads[2:]:
        raise NotExpressible
    if node.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        raise NotExpressible
    numbers = {"stride": node.get("strides", [1, 1]), "dilation": node.get("dilations", [1, 1])}
    numbers |= {"padding": pads[:2], "groups": node.get("group", 1)}
    return LibraryOperator("conv2d", len(node.inputs), numbers)


def transpose(node: OnnxNode) -> LibraryOperator:
    reverse = list(range(len(node.input(0).shape)))[::-1]
    return LibraryOperator("transpose", 1, {"perm": node.get("perm", reverse)})


def gather(node: OnnxNode) -> LibraryOperator:
    return LibraryOperator("gather", 2, {"dim": node.get("axis", 0)})


def concat(node: OnnxNode) -> LibraryOperator:
    return LibraryOperator("concat", len(node.inputs), {"dim": node.get("axis", 1)})


def slice_(node: OnnxNode) -> LibraryOperator:
    """A slice; starts, ends, axes and steps are inputs, in version 1 attributes without steps."""

    def given(place: int, name: str, default: list[int]) -> list[int]:
        data = node.data(place)
        return list(node.get(name, default)) if data is None else data.reshape(-1).tolist()

    starts, ends = given(1, "starts", []), given(2, "ends", [])
    axes = given(3, "axes", list(range(len(starts))))
    steps = given(4, "steps", [1] * len(starts))
    lists = {"starts": starts, "ends": ends, "axes": axes, "steps": steps}
    return LibraryOperator("slice", 1, lists)
