# SPDX-License-Identifier: Apache-2.0
"""A plan as one Python function: a statement a step, with views where ATen's steps need them.

    run = Replay(graph, module, of, steps).function()      # run([a, b]) -> [y], empties its list

A value has up to two names: `v3` is the tensor as the graph promises it, `m3` the same one with its
axes in the order of memory, which programs make and take. The function makes one from the other
when a step asks for it, and deletes a name behind its last use. Steps that read no input run once
(once.py). Thread safety: any thread may run the function.
"""

import operator
import re
from collections.abc import Callable, Sequence
from typing import Any

import torch
from pto.adapters.torch.compile.checks import is_check, operands
from pto.adapters.torch.compile.groups import made_by
from pto.adapters.torch.compile.once import steady_steps, values_of
from pto.adapters.torch.compile.plan import ATTENTION, OPERATOR, PROGRAM, Step, is_computed
from pto.adapters.torch.compile.rows import is_operator
from pto.adapters.torch.compile.sizes import expression, lift_of, solutions, text_of
from pto.adapters.torch.compile.translate import (
    Translation,
    given_of,
    inverse,
    is_part,
    is_symbolic,
    overload_of,
)
from pto.adapters.torch.graph_function import NAME, definition, function_of
from torch import fx
from torch._subclasses.fake_tensor import unset_fake_temporarily

_METHODS = {"view": "view", "permute": "permute", "expand": "expand", "unsqueeze": "unsqueeze",
            "transpose.int": "transpose", "_unsafe_view": "view"}  # fmt: skip
# Tensors of one number, and the argument that is it, or the number itself.
_FILLED = {"full": "1", "full_like": "1", "scalar_tensor": "0", "ones": 1, "ones_like": 1,
           "zeros": 0, "zeros_like": 0, "new_empty_strided": 0}  # fmt: skip
ONCE_BYTES = 1 << 20  # of the results of a step that runs once
_NAME = re.compile(rf"\b{NAME.pattern}\b")


def _is_filled(node: fx.Node) -> bool:
    return overload_of(node) in _FILLED


def _only_reads(node: fx.Node) -> bool:
    """Says whether a node is an operator of ours that writes no argument."""
    target = node.target
    return (isinstance(target, torch._ops.OpOverload) and is_operator(target.name())
            and not target._schema.is_mutable)  # fmt: skip


def _token_of(node: fx.Node) -> fx.Node | None:
    """The token that a call with effects takes and makes anew, to keep its place among others: a
    step calls the operator itself, since the plan keeps the order. None for other nodes."""
    if node.target is not torch.ops.higher_order.with_effects:
        return None
    token, called, *_ = node.args
    is_one = isinstance(called, torch._ops.OpOverload) and len(called._schema.returns) <= 1
    return token if is_one else None


class Replay:
    """Writes the function of a plan."""

    def __init__(
        self, graph: fx.Graph, module: fx.GraphModule, of: Translation, steps: Sequence[Step]
    ):
        self.graph, self.module, self.of, self.steps = graph, module, of, steps
        self.space: dict[str, Any] = {}
        self.lines: list[str] = []
        self.step_of_line: dict[int, Step] = {}  # of all lines
        self.once: list[Step] = []  # steps of which calls run nothing
        self.called: list[Step | None] = []  # the step of each line that a call runs
        self.numbers = {node: place for place, node in enumerate(graph.nodes)}
        self.known: set[str] = set()  # names that have a value
        self.fresh: set[fx.Node] = set()  # values in memory of their own, as promised
        self.shown: dict[fx.Node, fx.Node] = {}  # the view that a step makes of a value
        self.constants: dict[int, str] = {}
        self.overloads: dict[str, torch._ops.OpOverload] = {}  # of constants that are their calls
        self.symbols: set[str] = set()
        self.carriers: dict[str, str] = {}

    # --- the function -----------------------------------------------------------------------------

    def function(self) -> Callable[[list], list]:
        self._begin()
        for step in self.steps:
            first = len(self.lines)
            self._step(step)
            for line in range(first, len(self.lines)):
                self.step_of_line[line] = step
        (output,) = (node for node in self.graph.nodes if node.op == "output")
        given = output.args[0] if isinstance(output.args[0], list | tuple) else output.args
        self.lines.append(f"return [{', '.join(self._text(one) for one in given)}]")
        self.source = definition("run(args)", self._tidied(self.lines))
        lines = [(text, self.step_of_line.get(place)) for place, text in enumerate(self.lines)]
        self.once = steady_steps(lines, set(self.space), self._is_small)
        self.space |= values_of(lines, self.once, self.space)
        kept = [(text, step) for text, step in lines if step not in self.once]
        self.called = [step for _, step in kept]
        text = definition("run(args)", self._tidied([text for text, _ in kept]))
        return function_of(text, self.space)

    def _is_small(self, step: Step) -> bool:
        sizes = [self.of.promise(value).bytes for value in step.group.results]
        return None not in sizes and sum(sizes) <= ONCE_BYTES

    def observed(self) -> Callable[[list, Callable[[int, dict], None]], list]:
        """The function with `see(number of the step, all names)` behind each step; it keeps all."""
        lines = []
        for place, line in enumerate(self.lines):
            lines.append(line)
            step = self.step_of_line.get(place)
            if step is not None and self.step_of_line.get(place + 1) is not step:
                lines.append(f"see({self.steps.index(step)}, locals())")
        return function_of(definition("observed(args, see)", lines), self.space)

    def _begin(self) -> None:
        inputs = [node for node in self.graph.nodes if node.op == "placeholder"]
        for node in inputs:
            self.known.add(self._v(node))
        if inputs:
            self.lines.append(f"{', '.join(self._v(node) for node in inputs)}, = args")
            self.lines.append("args.clear()")
        given = [(expression(node.meta["val"]), self._v(node)) for node in inputs
                 if isinstance(node.meta.get("val"), torch.SymInt)]  # fmt: skip
        for node in inputs:
            if isinstance(node.meta.get("val"), torch.Tensor):
                for axis, size in enumerate(self.of.promise(node).shape):
                    given.append((size, f"{self._v(node)}.size({axis})"))
        for symbol, (place, factor, offset) in solutions([size for size, _ in given]).items():
            text = given[place][1]
            is_plain = (factor, offset) == (1, 0)
            self._bind(symbol, text if is_plain else f"({text} - {offset}) // {factor}")
        for node in self.graph.nodes:
            if node.op == "get_attr":
                self.known.add(self._v(node))
                self.space[self._v(node)] = operator.attrgetter(node.target)(self.module)

    def _bind(self, size: Any, text: str) -> None:
        """Gives a symbol its name, where this is its value."""
        if not isinstance(size, int) and size.is_Symbol and size.name not in self.symbols:
            self.symbols.add(size.name)
            self.lines.append(f"{size.name} = {text}")

    def _tidied(self, lines: Sequence[str]) -> list[str]:
        """The lines, which let go of each tensor behind the last one that names it."""
        last: dict[str, int] = {}
        for place, line in enumerate(lines):
            for name in _NAME.findall(line):
                last[name] = place
        dead: dict[int, list[str]] = {}
        for name, place in last.items():
            if name not in self.space and place < len(lines) - 1:
                dead.setdefault(place, []).append(name)
        return [
            f"{line}; del {', '.join(dead[place])}" if place in dead else line
            for place, line in enumerate(lines)
        ]

    # --- names ------------------------------------------------------------------------------------

    def _v(self, node: fx.Node) -> str:
        return f"v{self.numbers[node]}"

    def _m(self, node: fx.Node) -> str:
        return f"m{self.numbers[node]}"

    def _order(self, node: fx.Node) -> tuple[int, ...] | None:
        """The order of the axes in memory, where it is another than that of the value."""
        order = self.of.promise(node).order
        return None if order is None or list(order) == sorted(order) else order

    def value(self, node: fx.Node) -> str:
        """The name of a value as the graph promises it."""
        name = self._v(node)
        if name in self.known:
            return name
        if self._m(node) in self.known:
            order = self._order(node)
            self.lines.append(f"{name} = {self._m(node)}.permute({inverse(order)})")
        elif (seen := self._seen(node)) is not None:
            base, rest = seen.split(", ", 1)
            is_read = all(map(_only_reads, node.users))
            text = f"strided_view({seen})" if is_read else f"{base}.as_strided({rest})"
            self.lines.append(f"{name} = {text}")
        elif is_part(node):
            self.lines.append(f"{name} = {self.value(node.args[0])}[{node.args[1]}]")
        else:
            assert self.of.is_lazy(node), f"{node} has no value yet"
            text = self._filled(node) if _is_filled(node) else self._call(node)
            self.lines.append(f"{name} = {text}")
        self.known.add(name)
        return name

    def _filled(self, node: fx.Node) -> str:
        """A tensor of one number, perhaps in the sizes of a tensor that no step makes."""
        promise, number = self.of.promise(node), _FILLED[overload_of(node)]
        sizes, strides = (", ".join(map(text_of, one)) for one in (promise.shape, promise.strides))
        is_given = isinstance(number, str)
        value = self._text(node.args[int(number)]) if is_given else str(number)
        dtype = self._constant(node.meta["val"].dtype)
        return f"filled([{sizes}], [{strides}], {value}, {dtype})"

    def in_memory(self, node: fx.Node) -> str:
        """The name of a value whose axes stand in the order in which programs read them."""
        return self.arranged(node, self.of.promise(node).reading)

    def arranged(self, node: fx.Node, order: Sequence[int]) -> str:
        """The text of a value with its axes in this order, which its view's base often has."""
        if list(order) == sorted(order):
            return self.value(node)
        permuted = overload_of(node) == "permute" and self.of.is_lazy(node)
        if permuted and node.args[0] in self.shown.values():
            return self._permuted(node, order)
        if (seen := self._seen(node, order)) is not None:
            return f"strided_view({seen})"
        if permuted:
            return self._permuted(node, order)
        if self._order(node) == tuple(order) and not self.of.is_lazy(node):
            if self._m(node) not in self.known:
                self.lines.append(f"{self._m(node)} = {self.value(node)}.permute({tuple(order)})")
                self.known.add(self._m(node))
            return self._m(node)
        return f"{self.value(node)}.permute({tuple(order)})"

    def _permuted(self, node: fx.Node, order: Sequence[int]) -> str:
        """As arranged(), of what the permutation `node` permutes."""
        axes = [axis % len(order) for axis in node.args[1]]
        return self.arranged(node.args[0], [axes[axis] for axis in order])

    def _seen(self, node: fx.Node, order: Sequence[int] = ()) -> str | None:
        """The arguments of as_strided() that view a result of our steps, its axes in this order;
        None for other nodes.

        Such results begin at their memory and have the promised strides, so the strides of a view
        of a view are known too.
        """
        bases = list(dict.fromkeys(self.of.bases(node)))
        seen = node.meta["val"]
        if not isinstance(seen, torch.Tensor) or not self.of.is_lazy(node):
            return None
        base = self.shown.get(bases[0], bases[0]) if len(bases) == 1 else None
        if base not in self.fresh:
            return None
        order = order or range(seen.ndim)
        offset = text_of(expression(seen.storage_offset() - base.meta["val"].storage_offset()))
        promise = self.of.promise(node)
        sizes = "".join(f"{text_of(promise.shape[axis])}, " for axis in order)
        strides = "".join(f"{text_of(promise.strides[axis])}, " for axis in order)
        name = self._m(base) if self._m(base) in self.known else self.value(base)
        return f"{name}, ({sizes}), ({strides}), {offset}"

    # --- text -------------------------------------------------------------------------------------

    def _text(self, value: Any) -> str:
        """An argument as Python text."""
        if isinstance(value, fx.Node):
            return self._number(value) if is_symbolic(value) else self.value(value)
        if isinstance(value, torch.SymInt):
            return text_of(expression(value))
        if isinstance(value, list):
            return f"[{', '.join(map(self._text, value))}]"
        if isinstance(value, tuple):
            return f"({', '.join(map(self._text, value))}{',' if len(value) == 1 else ''})"
        if value is None or isinstance(value, bool | int | str):
            return repr(value)
        if isinstance(value, float) and value == value and abs(value) != float("inf"):
            return repr(value)
        return self._constant(value)

    def _number(self, node: fx.Node) -> str:
        """A symbolic number: by its name where it was computed, else as an expression of sizes."""
        value = node.meta["val"]
        if self._v(node) in self.known or is_computed(node):
            return self._v(node)
        if isinstance(value, torch.SymInt):
            return text_of(expression(value))
        return repr(value)

    def _constant(self, value: Any) -> str:
        if id(value) not in self.constants:
            self.constants[id(value)] = f"k{len(self.constants)}"
            self.space[self.constants[id(value)]] = value  # which keeps the id its own
        return self.constants[id(value)]

    def _call(self, node: fx.Node) -> str:
        """A node as a call of its target; common views are methods."""
        method = _METHODS.get(overload_of(node) or "")
        if method and not node.kwargs:
            first, *rest = node.args
            while method == "view" and overload_of(first) == "view" and self.of.is_lazy(first):
                first = first.args[0]  # any reshape that is a view of a view is one of its base
                rest = [list(node.meta["val"].shape)]
            return f"{self.value(first)}.{method}({', '.join(map(self._text, rest))})"
        target, given = node.target, node.args
        token = _token_of(node)
        if token is not None:
            _, target, *given = given
        is_pure = isinstance(target, torch._ops.OpOverload) and not target._schema.is_mutable
        args = [self._text(one) for one in given]
        args += [f"{name}={self._text(one)}" for name, one in node.kwargs.items()]
        called = self._constant(target)
        is_ours = is_operator(overload_of(node) or "")  # which take calls directly: direct.py
        if is_pure and not is_ours:
            self.overloads[called], self.space[called] = target, target._op
        made = f"{called}({', '.join(args)})"
        return made if token is None else f"({self.value(token)}, {made})"

    # --- steps ------------------------------------------------------------------------------------

    def _step(self, step: Step) -> None:
        if step.kind == PROGRAM:
            self._program(step)
        elif step.kind == ATTENTION:
            self._attention(step.node)
        else:
            self._foreign(step.node)
            if step.kind == OPERATOR:
                self.fresh.update(made_by(step.node))

    def _program(self, step: Step) -> None:
        group = step.group
        args = [self.in_memory(value) for value in group.inputs]
        args += [self._carrier(symbol) for symbol in group.sizes]
        call = f"{self._constant(step.program)}({', '.join(args)})"
        names = [self._m(v) if self._order(v) else self._v(v) for v in group.results]
        self.lines.append(f"{', '.join(names)} = {call}" if names else call)
        self.known.update(names)
        for value in group.results:
            if not self.of.promise(value).is_exact:
                self._restride(value)
            if self.of.is_lazy(value):
                (base,) = self.of.bases(value)
                self.shown[base] = value
        self.fresh.update(group.results)

    def _restride(self, value: fx.Node) -> None:
        """Gives a value the strides that the graph promises, where no permutation of a new tensor
        has them."""
        promise, name = self.of.promise(value), self.value(value)
        sizes, strides = (", ".join(map(text_of, one)) for one in (promise.shape, promise.strides))
        self.lines.append(f"{name} = with_strides({name}, ({sizes},), ({strides},))")

    def _carrier(self, symbol: Any) -> str:
        """A tensor without elements of its own whose size is that of a symbol."""
        size = text_of(symbol + lift_of(symbol))
        if size not in self.carriers:
            self.carriers[size] = name = f"z{len(self.carriers)}"
            with unset_fake_temporarily():
                one = torch.zeros(1, dtype=torch.uint8)
            self.lines.append(f"{name} = {self._constant(one)}.expand({size})")
        return self.carriers[size]

    def _foreign(self, node: fx.Node) -> None:
        name, text = self._v(node), self._call(node)
        if is_check(node):  # whose error shows values: they stay as long
            kept = operands(node, lambda one: bool({self._v(one), self._m(one)} & self.known))
            text = ", ".join([text, *map(self._text, kept)])
        self.lines.append(f"{name} = {text}")
        self.known.add(name)
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt):
            self._bind(expression(value), name)
        for part in made_by(node):
            if part is not node and part.users:
                self.value(part)

    def _attention(self, node: fx.Node) -> None:
        given = given_of(node)
        result = next((user for user in node.users if user.args[1] == 0), None)
        if result is None:
            return
        order = self._order(result)
        apart = order == (0, 2, 1, 3)
        read = [self.arranged(given[n], order if apart else (0, 1, 2, 3))
                for n in ("query", "key", "value")]  # fmt: skip
        mask = "None" if given.get("attn_mask") is None else self.value(given["attn_mask"])
        options = [f"scale={given['scale']!r}"] if given.get("scale") is not None else []
        options += ["causal=True"] if given.get("is_causal") else []
        options += ["layout='LHD'"] if apart else []
        call = self._constant(torch.ops.pto.attention)
        name = self._m(result) if apart else self._v(result)
        self.lines.append(f"{name} = {call}({', '.join([*read, mask, *options])})")
        self.known.add(name)
        if not (apart and self.of.promise(result).is_exact):
            self._restride(result)
        self.fresh.add(result)
