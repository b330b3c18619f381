# SPDX-License-Identifier: Apache-2.0
"""Calls operators outside graphs, on tensors with data.

A call goes through the module built from eager.cpp if there is one, else through ops.Custom, which
takes three times as long. Either way an operator with its attributes becomes an object once, a
target, which takes only tensors. Thread safety: any thread may call.
"""

import functools
import importlib.util
import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

from mindspore import Tensor, ops
from mindspore.graph.jit_context import jit_context
from pto.adapters.gradient import gradient_plan, picked
from pto.adapters.mindspore import build, gradient
from pto.adapters.mindspore.inference import InferredPrimitive
from pto.adapters.mindspore.primitive import (
    OperatorPrimitive,
    bound_attributes,
    call_text,
    dtype_name,
    record,
    refuse_bounded,
    refuse_gradient,
    refuse_type,
    require_tensors,
    returns_many,
)
from pto.errors import Failure

TARGETS = 1024  # attributes of an operator for which a target is kept


@functools.cache
def extension() -> ModuleType | None:
    """The module built from eager.cpp, or None where it was not built."""
    path = build.built()
    if path is None:
        return None
    spec = importlib.util.spec_from_file_location("pto_mindspore_eager", path)
    try:
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    except ImportError as error:
        raise Failure(
            f"the fast calls of MindSpore cannot be loaded: {error}",
            "they were built for this MindSpore, but the file is damaged",
            f"remove {path} and run: python -m pto adapters build mindspore",
        ) from None
    return module


class Eager:
    """One operator; calling it takes one entry for each tensor argument, and the attributes.

    An entry is a tensor, None, or a list of tensors.
    """

    def __init__(self, index: int, in_cpp: bool = True) -> None:
        """`in_cpp`: through the module built from eager.cpp, where it was built."""
        self.index = index
        self.record = record(index)
        tensors = self.record.tensors
        self.many = returns_many(index)
        self._is_plain = all(a.kind == "Tensor" and not a.optional for a in tensors)
        self._is_bounded = self.record.is_bounded
        self._ones = (1,) * len(tensors)
        self._has_floats = any(a.kind == "float" for a in self.record.attributes)
        self._returns_lists = any(o.is_list for o in self.record.outputs)
        self.primitive = functools.lru_cache(TARGETS)(self._make_primitive)
        self._call = functools.lru_cache(TARGETS)(self._make_call)
        self._target = functools.lru_cache(TARGETS)(self._make_inferred)
        if in_cpp and extension() is not None and not self._returns_lists:
            self._target = self._call

    def __call__(self, entries: tuple, attributes: tuple) -> Any:
        if self._is_bounded:
            refuse_bounded(self.index)
        counts = self._ones
        if not self._is_plain:
            counts, entries = self._flatten(entries)
        require_tensors(self.index, entries)
        results = self.target(counts, attributes)(*entries)
        if self._returns_lists:
            return self._structured(results, counts, attributes, entries)
        return results

    def target(self, counts: tuple[int, ...], attributes: tuple) -> Callable:
        """Returns the target for calls with these counts and attributes."""
        find = self.primitive if jit_context() else self._target
        for value in attributes:
            # Its hash is not that of its value.
            if isinstance(value, Tensor) or type(value).__hash__ is None:
                return self.target(counts, bound_attributes(self.index, counts, attributes))
        if self._has_floats and 0.0 in attributes:  # which equals -0.0, another attribute
            signs = tuple(math.copysign(1, v) for v in attributes if isinstance(v, float))
            return find(counts, attributes, signs)
        return find(counts, attributes)

    def flat(self, counts: tuple[int, ...], attributes: tuple, tensors: tuple) -> tuple:
        """The results one after another."""
        results = self.target(counts, attributes)(*tensors)
        return tuple(results) if self.many else (results,)

    def _flatten(self, entries: tuple) -> tuple[tuple, tuple]:
        counts: list[int] = []
        flat: list[Any] = []
        for a, entry in zip(self.record.tensors, entries, strict=True):
            is_list = a.kind == "Tensor[]"
            if is_list and not isinstance(entry, list | tuple):
                refuse_type(self.index, type(entry).__name__, is_list)
            members = list(entry) if is_list else [] if entry is None and a.optional else [entry]
            counts.append(len(members))
            flat += members
        return tuple(counts), tuple(flat)

    def _output_counts(self, counts: tuple, attributes: tuple, tensors: tuple) -> list[int]:
        if not self._returns_lists:
            return [1] * len(self.record.outputs)
        kinds = ((dtype_name(self.index, t.dtype), t.ndim) for t in tensors)
        bound = list(bound_attributes(self.index, counts, attributes))
        outputs = self.record.shapes(self.record.by_argument(counts, kinds), bound).outputs
        return [len(o) if isinstance(o, list) else 1 for o in outputs]

    def _structured(self, results: Any, counts: tuple, attributes: tuple, tensors: tuple) -> Any:
        structured: list[Any] = []
        sizes = self._output_counts(counts, attributes, tensors)
        flat = iter(results)
        for output, size in zip(self.record.outputs, sizes, strict=True):
            members = tuple(next(flat) for _ in range(size))
            structured.append(members if output.is_list else members[0])
        return structured[0] if len(structured) == 1 else tuple(structured)

    def _make_primitive(
        self, counts: tuple[int, ...], attributes: tuple, _signs: tuple = ()
    ) -> OperatorPrimitive:
        bound = bound_attributes(self.index, counts, attributes)
        return OperatorPrimitive(self.index, call_text(counts, bound), self._rule(counts, bound))

    def _make_inferred(
        self, counts: tuple[int, ...], attributes: tuple, _signs: tuple = ()
    ) -> InferredPrimitive:
        bound = bound_attributes(self.index, counts, attributes)
        return InferredPrimitive(self.index, counts, bound, self._rule(counts, bound))

    def _rule(self, counts: tuple[int, ...], attributes: tuple) -> Callable:
        def backward(tensors: tuple, out: Any, dout: Any) -> tuple:
            return self._backward(counts, attributes, tensors, out, dout)

        return gradient.rule(sum(counts), backward)

    def _make_call(
        self, counts: tuple[int, ...], attributes: tuple, _signs: tuple = ()
    ) -> Callable:
        bound = bound_attributes(self.index, counts, attributes)
        return extension().EagerCall(self.record.name, call_text(counts, bound), self.many)

    def _backward(
        self, counts: tuple, attributes: tuple, tensors: tuple, out: Any, dout: Any
    ) -> tuple:
        sizes = self._output_counts(counts, attributes, tensors)
        plan = gradient_plan(self.index, counts, tuple(sizes))
        if plan is None:
            refuse_gradient(self.index)
        outs, d_outs = (tuple(x) if self.many else (x,) for x in (out, dout))
        taken = picked(plan, (*d_outs, *tensors, *outs))
        results = eager(plan.op).flat(plan.counts, (*attributes, plan.all_needs), tuple(taken))
        return tuple(
            gradient.summed(results[place], tensor) if place >= 0 else ops.zeros_like(tensor)
            for place, tensor in zip(plan.places, tensors, strict=True)
        )


eager = functools.cache(Eager)
