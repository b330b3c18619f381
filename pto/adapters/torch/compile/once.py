# SPDX-License-Identifier: Apache-2.0
"""Steps of a graph that read none of its inputs: causal masks, tables of positions.

    steps = steady_steps(lines, constants, is_small)     # lines: [("v3 = k0(k1)", step), ...]
    made = values_of(lines, steps, constants)            # {"v3": tensor}

Their programs run once, when the graph is compiled, and every call reads what they made. Thread
safety: pure functions.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import torch
from pto.adapters.torch.compile.plan import ATTENTION, PROGRAM, Step
from pto.adapters.torch.graph_function import NAME, definition, function_of
from torch._subclasses.fake_tensor import unset_fake_temporarily

Lines = Sequence[tuple[str, Step | None]]  # statements, and the steps to which they belong
_NAMES = re.compile(rf"\b(?:{NAME.pattern}|k\d+|(?:s|u|zuf|zf)\d+|args)\b")


def _of(lines: Lines, step: Step) -> Iterator[str]:
    return (text for text, of in lines if of is step)


def _assigned(text: str) -> set[str]:
    left, _, right = text.partition(" = ")
    return set(_NAMES.findall(left)) if right else set()


def steady_steps(
    lines: Lines, constants: Collection[str], is_small: Callable[[Step], bool]
) -> list[Step]:
    """The programs that read constants and each other alone, and whose results only programs and
    attention read: what a caller gets, or a step writes, is made anew by each call."""
    known, found = set(constants), []
    steps = dict.fromkeys(step for _, step in lines if step is not None and step.kind == PROGRAM)
    for step in steps:
        own = {name for text in _of(lines, step) for name in _assigned(text)}
        read = {name for text in _of(lines, step) for name in _NAMES.findall(text)} - own
        if read <= known and is_small(step):
            known |= own
            found.append((step, own))
    others = [text for text, step in lines if step is None or step.kind not in (PROGRAM, ATTENTION)]
    kept_apart = {name for text in others for name in _NAMES.findall(text)}
    refused: set[str] = set()
    steady = []
    for step, own in found:
        read = {name for text in _of(lines, step) for name in _NAMES.findall(text)}
        if own & kept_apart or read & refused:
            refused |= own
        else:
            steady.append(step)
    return steady


def values_of(lines: Lines, steps: Sequence[Step], space: Mapping[str, Any]) -> dict[str, Any]:
    """The values of the names that these steps assign."""
    texts = [text for text, step in lines if step in steps]
    if not texts:
        return {}
    once = function_of(definition("once()", [*texts, "return locals()"]), dict(space))
    with torch.no_grad(), unset_fake_temporarily():
        return dict(once())
