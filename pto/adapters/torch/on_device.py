# SPDX-License-Identifier: Apache-2.0
"""Runs a function over CPU tensors on npu tensors, in the order of the current stream.

    y = on_device.call(function, (x, 2.0), {})     # x and y lie on the npu

The function gets CPU tensors over the same memory, so it writes into the npu tensors. It runs as
the CPU kernel of an operator without npu kernel does: after everything that is queued on the
stream. Results that are arguments come back as the caller's npu tensors.

Invariant: `_waiting` holds a call until it has run.
Thread safety: any thread may call.
"""

import itertools
from collections.abc import Callable
from typing import Any

import torch
from pto.language.results import LEAF, Form, taken_apart

_library = torch.library.Library("pto_program", "DEF")
_library.define("run(int call, Tensor[] tensors) -> Tensor[]")
_numbers = itertools.count()
_waiting: dict[int, "_Call"] = {}


class _Call:
    """A call, and the form of its result once it has run; None: it has no result."""

    def __init__(self, function: Callable, args: tuple, kwargs: dict[str, Any]):
        self.function, self.args, self.kwargs = function, args, kwargs
        self.form: Form | None = LEAF
        self.keys = (torch._C._dispatch_tls_local_include_set(),
                     torch._C._dispatch_tls_local_exclude_set())  # fmt: skip

    def run(self, aliases: list[torch.Tensor]) -> list[torch.Tensor]:
        """Runs under the caller's dispatch keys: those of a kernel would look like a mode."""
        rest = iter(aliases)
        args = [next(rest) if is_tensor(one) else one for one in self.args]
        kwargs = {name: next(rest) if is_tensor(one) else one for name, one in self.kwargs.items()}
        with torch._C._ForceDispatchKeyGuard(*self.keys):
            result = self.function(*args, **kwargs)
        leaves, self.form = ([], None) if result is None else taken_apart(result)
        return leaves


def is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def takes(values: list) -> bool:
    """Says whether the tensors among the values are plain ones, at least one of them on the npu."""
    tensors = [value for value in values if is_tensor(value)]
    plain = all(type(one) in (torch.Tensor, torch.nn.Parameter) for one in tensors)
    graded = torch.is_grad_enabled() and any(one.requires_grad for one in tensors)
    return plain and not graded and any(one.device.type == "npu" for one in tensors)


def call(function: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
    """The result of the function, with tensors on the npu; raises what the function raises."""
    number, waiting = next(_numbers), _Call(function, args, kwargs)
    _waiting[number] = waiting
    try:
        tensors = [value for value in (*args, *kwargs.values()) if is_tensor(value)]
        leaves = torch.ops.pto_program.run(number, tensors)
        return None if waiting.form is None else waiting.form.assemble(leaves)
    finally:
        del _waiting[number]


_library.impl("run", lambda number, aliases: _waiting[number].run(aliases), "CPU")
