# SPDX-License-Identifier: Apache-2.0
"""Trace: runs a Python function on symbolic tensors and keeps what it computes as a Graph.

    trace = Trace("double")
    x = trace.input("x", "f32", (Dim.symbol(0), 384))
    graph, form = trace.finish(x * 2)

Thread safety: a trace belongs to one thread; several may run at once.
"""

from collections.abc import Sequence
from typing import NoReturn

from pto import _core
from pto.errors import InvalidType
from pto.language.dtypes import dtype as element_type
from pto.language.location import describe, fail, traced_line
from pto.language.results import Form, taken_apart
from pto.language.tensor import Tensor


class Trace:
    """One tracing: inputs first, then the operations that its Tensors record, then `finish`."""

    def __init__(self, name: str):
        self.name = name
        self.builder = _core.GraphBuilder(name)
        self.open = True
        self.has_numbers = False  # parameters that may turn out to steer: call_numbers.py

    def here(self) -> _core.GraphBuilder:
        """The builder, told the user's line, for the node that is recorded next."""
        if not self.open:
            fail(
                f"a traced tensor of {self.name} was used after its tracing ended",
                "a traced tensor stands for a value inside one compiled function only",
                "return it from the function; don't keep it in a variable outside",
                InvalidType,
            )
        self.builder.set_location(*traced_line())
        return self.builder

    def input(self, name: str, dtype: object, shape: Sequence) -> Tensor:
        """A tensor parameter; sizes are int, or Dim where known only at the call."""
        return Tensor(
            self, self.builder.input(name, str(element_type(dtype)), tuple(shape)), is_input=True
        )

    def scalar(self, name: str, dtype: object) -> Tensor:
        """A number given at each call; it takes the element type of what it meets."""
        return Tensor(self, self.builder.scalar(name, str(element_type(dtype))), weak=True)

    def outputs_of(self, result: object) -> tuple[list[Tensor], Form]:
        """The tensors of `result`, one or a container of them, and how they stand in it.

        Raises InvalidType where one was never computed by the function.
        """
        outputs, form = taken_apart(result)
        if not outputs:
            self._not_computed(f"an empty {'dict' if form.kind is dict else 'sequence'}", "")
        for place, output in enumerate(outputs):
            if not isinstance(output, Tensor) or output.trace is not self:
                self._not_computed(describe(output), "" if form.is_leaf else f"output {place} ")
        return outputs, form

    def finish(self, result: object) -> tuple[_core.Graph, Form]:
        """The graph that returns `result`, and its form; see outputs_of()."""
        outputs, form = self.outputs_of(result)
        for output in outputs:
            self.builder.output(output.value)
        self.open = False
        return self.builder.build(), form

    def _not_computed(self, found: str, which: str) -> NoReturn:
        raise InvalidType(
            f"{self.name} returned {which or ''}{found}, which it did not compute",
            "every output is a tensor computed from the inputs; what is not returned is lost",
            "return the result, a tensor, or a tuple, list or dict of tensors",
        )
