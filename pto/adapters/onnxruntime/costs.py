# SPDX-License-Identifier: Apache-2.0
"""Whether a group of nodes is faster as one of our kernels than where stock runs its nodes.

    estimate(nodes, inputs, outputs, stock).reason    # "" where we take the group

`costs.json` has a column for each target, with the times of single nodes of stock and of ours;
`python -m bench.onnx_costs` measures and writes it. A kernel of several nodes is taken to cost a
call, the elements that it reads and writes, and what its nodes compute beyond moving an element. A
size that the model leaves open counts as 1 on the first axis and as 32 on others; an unnamed number
of rows of a matrix, a batch times a length, as 16 at least. The decision depends on the model and
the target alone. Thread safety: any thread may ask.
"""

import functools
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pto.adapters.onnxruntime.graph import OnnxNode, OnnxValue
from pto.adapters.onnxruntime.stock import Stock
from pto.errors import InvalidValue
from pto.measured_target import target

TABLE = Path(__file__).with_name("costs.json")
TARGETS = ("portable", "avx2", "avx512")
ROWS = (1, 16, 256)  # of the measured products
FILTERS = (1, 4, 8)  # of the measured convolutions
SMALL_WEIGHT = 256 << 10  # elements; products of fewer rows than ROWS[1] find those in the cache
OPEN_FIRST, OPEN = 1, 32  # what sizes that a model leaves open count as
MARGIN, LEAST_US = 0.95, 0.3  # our time is at most this part of stock's, and so much less
MOVE = "Neg"  # a node that moves its elements and computes next to nothing
# Nodes that were measured with two tensors of one size.
_OF_TWO = {"Add", "Sub", "Mul", "Div", "Max", "Min", "Sum", "Mean", "Equal", "Less", "Greater",
           "LessOrEqual", "GreaterOrEqual"}  # fmt: skip
_SAME = {"Flatten": "Reshape", "Squeeze": "Unsqueeze", "Dropout": "Identity",
         "CastLike": "Cast", "Mod": "Div", "PRelu": "LeakyRelu", "Celu": "Elu",
         "ThresholdedRelu": "LeakyRelu", "Shrink": "LeakyRelu", "Swish": "Mish",
         "RMSNormalization": "LayerNormalization", "And": "Equal", "Or": "Equal", "Xor": "Equal",
         "Not": "Equal", "IsNaN": "Equal", "IsInf": "Equal", "Where": "Add",
         "BatchNormalization": "Mul", "LpNormalization": "LogSoftmax"}  # fmt: skip


@dataclass(frozen=True)
class Estimate:
    """Microseconds of a group by ours and by stock; `missing` names a type that nobody measured."""

    ours_us: float
    stock_us: float
    missing: str = ""

    @property
    def reason(self) -> str:
        """Why stock runs the group; "" where we do."""
        if self.missing:
            return f"nobody has measured {self.missing}"
        if self.ours_us <= min(MARGIN * self.stock_us, self.stock_us - LEAST_US):
            return ""
        return f"stock takes {self.stock_us:.1f} us, our kernel {self.ours_us:.1f} us"


def checked(text: str) -> dict[str, dict]:
    """The columns of a table. Raises InvalidValue for a broken one."""
    try:
        columns = json.loads(text)
        for target in TARGETS:
            column = columns[target]
            cells = [*column["nodes"].values(), *sum(column["products"].values(), [])]
            for name, size in (("nodes", 4), ("products", 2)):
                lines = column[name].values()
                lines = lines if name == "nodes" else [pair for line in lines for pair in line]
                if any(len(line) != size for line in lines):
                    raise ValueError(f"a cell of {target}, {name} has not {size} numbers")
            if any(len(line) != len(ROWS) for line in column["products"].values()):
                raise ValueError(f"a line of {target}, products has not {len(ROWS)} cells")
            numbers = [n for cell in cells for n in cell] + [column["reorder"]]
            if not all(isinstance(n, int | float) and 0 <= n < math.inf for n in numbers):
                raise ValueError(f"a cell of {target} is no time")
            for name in {MOVE, "Transpose"} - {*column["nodes"]} | {"Conv"} - {*column["products"]}:
                raise ValueError(f"{target} lacks {name}")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        what = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
        raise _broken(what) from error
    return columns


def _broken(what: str) -> InvalidValue:
    return InvalidValue(
        f"the table of costs {TABLE} is broken: {what}",
        "it says which nodes of ONNX Runtime stay with it",
        "install the package again, or write it by python -m bench.onnx_costs",
    )


@functools.cache
def table() -> dict[str, dict]:
    """The table of the package. Raises InvalidValue for a broken one."""
    try:
        text = TABLE.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise _broken(str(error)) from error
    return checked(text)


def elements(value: OnnxValue, first: int = 0, last: int | None = None) -> int:
    """The elements of a value, or of these axes of it, with what open sizes count as."""
    sizes = [n if isinstance(n, int) else OPEN if axis else OPEN_FIRST
             for axis, n in enumerate(value.shape or ())]  # fmt: skip
    return math.prod(sizes[first:last])


def _most(node: OnnxNode) -> int:
    return max((elements(v) for v in (*node.inputs, *node.outputs) if v is not None), default=1)


def convolution_us(node: OnnxNode) -> list[float] | None:
    """Microseconds of a convolution by stock and by ours; None for one that nobody has measured:
    of more filters, where stock's blocked layout serves, of groups, or with strides."""
    x, weight, result = node.input(0), node.input(1), node.outputs[0]
    known = all(v is not None and v.shape and v.dtype == "f32" for v in (x, weight, result))
    if not known or not all(isinstance(n, int) for n in weight.shape) or len(weight.shape) != 4:
        return None
    is_plain = set(node.get("strides", [1])) == {1} and node.get("group", 1) == 1
    filters, *rest = weight.shape
    if not is_plain or filters > FILTERS[-1]:
        return None
    nearest = min(range(len(FILTERS)), key=lambda i: abs(math.log(FILTERS[i] / filters)))
    millions = elements(result) * math.prod(rest) / 1e6
    return [cell * millions for cell in table()[target()]["products"]["Conv"][nearest]]


def is_ours(node: OnnxNode) -> bool:
    """Says whether we run a convolution faster."""
    us = convolution_us(node) if node.type == "Conv" and node.domain == "" else None
    return us is not None and Estimate(us[1], us[0]).reason == ""


def product_us(node: OnnxNode) -> list[float] | None:
    """Microseconds of a product by stock and by ours."""
    a, b, result = node.input(0), node.input(1), node.outputs[0]
    name = node.type if node.type == "Gemm" or b.is_constant else "MatMul of two"
    line = table()[target()]["products"].get(name)
    if line is None or not a.shape or not result.shape:
        return None
    columns = result.shape[-1] if isinstance(result.shape[-1], int) else OPEN
    rows = max(elements(result) // max(columns, 1), 1)
    if result.shape[0] is None and len(result.shape) == 2:
        rows = max(rows, ROWS[1])  # a size without a name is computed: a batch times a length
    if rows < ROWS[1] and b.is_constant and elements(b) < SMALL_WEIGHT:
        return [0.0, 0.0]
    depth = a.shape[0 if node.get("transA", 0) else -1]
    millions = rows * columns * (depth if isinstance(depth, int) else OPEN) / 1e6
    nearest = min(range(len(ROWS)), key=lambda i: abs(math.log(ROWS[i] / rows)))
    return [cell * millions for cell in line[nearest]]


def gather_us(node: OnnxNode) -> list[float] | None:
    """Microseconds of a Gather by stock and by ours. It was measured with blocks of one element;
    the elements of a longer block are moved together."""
    x, indices, result = node.input(0), node.input(1), node.outputs[0]
    column = table()[target()]["nodes"]
    if node.type not in column or not x.shape:
        return None
    outer = elements(x, 0, node.get("axis", 0) % len(x.shape))
    blocks, moved = max(outer * elements(indices), 1), elements(result)
    both = column[node.type], column[MOVE]
    (stock_us, block_stock, ours_us, block_ours), (_, stock_ns, _, ours_ns) = both
    if moved <= blocks:
        stock_ns = ours_ns = 0.0
    return [stock_us + (blocks * block_stock + moved * stock_ns) / 1e3,
            ours_us + (blocks * block_ours + moved * ours_ns) / 1e3]  # fmt: skip


_ALONE = {"MatMul": product_us, "Gemm": product_us, "Conv": convolution_us, "Gather": gather_us}
_MULTIPLIED = (2, 3)  # exponents for which stock multiplies


def _cell(cells: dict, node: OnnxNode) -> list[float] | None:
    """The cell of a node, less what it would take to read a second tensor, where it reads but a
    number or a row; what our kernel reads is counted for the group."""
    name = _SAME.get(node.type, node.type)
    exponent = node.data(1) if name == "Pow" else None
    if exponent is not None and exponent.size == 1 and exponent.item() in _MULTIPLIED:
        name = "Mul"
    if name not in cells:
        return None
    stock_us, stock_ns, ours_us, ours_ns = cells[name]
    if name in _OF_TWO:
        half = cells[MOVE][3] / 2
        ours_ns -= half
        small = [v for v in node.inputs if v is not None and elements(v) * 8 <= _most(node)]
        stock_ns -= half if small else 0.0
    elif name.endswith("Softmax") and (node.get("axis", -1) + 1) % max(len(node.input(0).shape), 1):
        stock_us += 2 * cells["Transpose"][0]
        stock_ns += 2 * cells["Transpose"][1]
    return [stock_us, stock_ns, ours_us, ours_ns]


def estimate(
    nodes: Sequence[OnnxNode],
    inputs: Sequence[OnnxValue],
    outputs: Sequence[OnnxValue],
    stock: Stock,
) -> Estimate:
    """Our time and stock's for a group of nodes with these inputs and outputs."""
    if len(nodes) == 1 and nodes[0].type in _ALONE and nodes[0].domain == "":
        us = _ALONE[nodes[0].type](nodes[0])
        return Estimate(us[1], us[0]) if us else Estimate(0, 0, nodes[0].type)
    column = table()[target()]
    move_ns = column["nodes"][MOVE][3]
    call_us = computed = stock_us = 0.0
    for node in nodes:
        cell = _cell(column["nodes"], node)
        if cell is None:
            return Estimate(0, 0, node.type)
        count = _most(node)
        call_us = max(call_us, cell[2])
        computed += max(cell[3] - move_ns, 0.0) * count
        if not stock.is_part_of_gelu(node, nodes):
            stock_us += cell[0] + cell[1] * count / 1e3
    moved = move_ns * sum(map(elements, (*inputs, *outputs))) / 2
    moved += column["reorder"] * sum(map(elements, stock.borders(nodes)))
    return Estimate(call_us + (computed + moved) / 1e3, stock_us)


def write(column: dict) -> None:
    """Puts a column, that of this target, into the table."""
    columns = json.loads(TABLE.read_text()) if TABLE.exists() else {}
    columns[target()] = column
    lines = []
    for name in sorted(columns):
        parts = []
        for part in ("nodes", "products"):
            rows = [f'   "{k}": {json.dumps(v)}' for k, v in sorted(columns[name][part].items())]
            parts.append(f'  "{part}": {{\n' + ",\n".join(rows) + "\n  }")
        parts.append(f'  "reorder": {columns[name]["reorder"]}')
        lines.append(f' "{name}": {{\n' + ",\n".join(parts) + "\n }")
    TABLE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
