# SPDX-License-Identifier: Apache-2.0
"""Functions below a compiled one that are too small to be graphs of their own.

    if runs_faster_in_eager(graph, inputs):      # where Dynamo hands over a graph
        raise SkipFrame                          # eager mode runs the function from now on

Where PyTorch cannot capture a model whole, it captures the functions that the model calls one by
one. Each graph costs the call its guards and wrappers, which take longer than a few operations on a
few elements do (bench/architectures.py: Deberta, whose scripted functions break the graph). The
function that the user compiled is never left out. `left` has what was, as "file.py:12".
Thread safety: PyTorch captures on one thread at a time.
"""

import os
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any

import torch
from pto.adapters.torch.compile.compiled import line_of
from torch import fx

OPERATIONS_MOST, ELEMENTS_MOST = 4, 4096
_NO_OPERATIONS = ("placeholder", "output", "get_attr")
_CAPTURES, _ENTERS = "torch/_dynamo/convert_frame.py", "torch/_dynamo/eval_frame.py"
_PYTORCH = os.path.dirname(torch.__file__)
left: list[str] = []


def runs_faster_in_eager(graph: fx.GraphModule, inputs: Sequence[Any]) -> bool:
    """Says whether a graph is left to eager mode, and notes it."""
    operations = [node for node in graph.graph.nodes if node.op not in _NO_OPERATIONS]
    if len(operations) > OPERATIONS_MOST or not _is_called_by_the_model():
        return False
    values = [*inputs, *(node.meta.get("example_value") for node in operations)]
    if any(_elements(value) > ELEMENTS_MOST for value in values):
        return False
    left.extend(filter(None, map(line_of, operations[:1])))
    return True


def _elements(value: Any) -> int:
    if isinstance(value, list | tuple):
        return max(map(_elements, value), default=0)
    if not isinstance(value, torch.Tensor):
        return 0
    count = value.numel()
    return count if isinstance(count, int) else count.node.hint or 0


def _is_called_by_the_model() -> bool:
    """Says whether the function that Dynamo captures is called by another one, not by the object
    that torch.compile() returned."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and not frame.f_code.co_filename.endswith(_CAPTURES):
        frame = frame.f_back
    while frame is not None and _is_between(frame.f_code.co_filename):
        frame = frame.f_back
    return frame is not None and not frame.f_code.co_filename.endswith(_ENTERS)


def _is_between(file: str) -> bool:
    return file.startswith(_PYTORCH) and not file.endswith(_ENTERS)
