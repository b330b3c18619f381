# SPDX-License-Identifier: Apache-2.0
"""Context: the first argument of an orchestration at level host; it allocates, submits and waits.

    def my_orch(ctx, args):
        for chip in ctx.peers():
            part = ctx.alloc((1024,), "float32")
            ctx.submit(chip, "compute", [pto.Arg.input(args["x"]), pto.Arg.output(part)])

Tasks that touch common memory follow each other in the order of submission, on any devices. Only
the orchestrating thread uses the context, until its function returns.
"""

import os
import sys
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pto.errors import Failure, InvalidType, InvalidValue, UnknownName
from pto.tasks.arguments import Arg, ParamType, TensorHandle, check_arg
from pto.tasks.origin import Origin, own_frames
from pto.tasks.package import CompiledPackage
from pto.tasks.runtime import refuse_fork
from pto.tasks.shared import PrivateCopies

if TYPE_CHECKING:
    from pto.tasks.host_runtime import HostRuntime


class HostKernel:
    """A program that the workers know by a number; they drop it with this object."""

    def __init__(
        self,
        engine: Any,
        name: str,
        number: int,
        package: CompiledPackage | None = None,
    ) -> None:
        self.name, self.number, self.package = name, number, package
        self._engine = engine

    @property
    def origin(self) -> Origin:
        """The C++ of the function that a task of this kernel begins with."""
        if self.package is None:
            return Origin()
        origin = self.package.origin
        first = [*origin.functions.values()][:1]  # none of a package that was loaded
        return Origin(origin.sources, dict.fromkeys([self.name], *first) if first else {})

    def __del__(self) -> None:
        self._engine.remove_program(self.number)


class Node:
    """A submitted task: ctx.wait() waits for it, and after= makes others follow it."""

    __slots__ = ("id", "_context")

    def __init__(self, number: int, context: "Context") -> None:
        self.id, self._context = number, context

    @property
    def done(self) -> bool:
        """Says whether it has ended, in whichever way."""
        self._context.refuse_fork()
        return self._context._engine.is_done(self.id)

    def __repr__(self) -> str:
        return f"<task {self.id}: {'done' if self.done else 'under way'}>"


_live: "weakref.WeakSet[Context]" = weakref.WeakSet()


def _end_all() -> None:
    """Ends what a forked child has copies of: its tasks would go into its parent's mailboxes."""
    for context in list(_live):
        context.end()


os.register_at_fork(after_in_child=_end_all)


class AwaitedTaskFailed(Failure):
    """Raised by wait() inside an orchestration; its run raises the task's own failure."""


class Context:
    """The devices, memory and tasks of one run."""

    def __init__(
        self,
        runtime: "HostRuntime",
        engine: Any,
        kernels: dict[str, HostKernel],
        copies: PrivateCopies,
    ) -> None:
        self._runtime, self._engine, self._kernels, self._copies = runtime, engine, kernels, copies
        self._places = {device: place for place, device in enumerate(runtime.devices)}
        self._scopes: list[list[TensorHandle]] = []
        self._used: set[HostKernel] = set()
        self._is_over = False
        _live.add(self)

    def peers(self) -> list[int]:
        """The devices' ids."""
        return list(self._places)

    def alloc(self, shape: Sequence[int], dtype: Any = "float32") -> TensorHandle:
        """A tensor of zeros in memory that all devices share."""
        self._check()
        handle = self._runtime._memory.alloc(shape, dtype)
        if self._scopes:
            self._scopes[-1].append(handle)
        return handle

    def submit(
        self, chip: int, kernel: str, args: Sequence[Arg], after: Sequence[Node] = ()
    ) -> Node:
        """A task on one device: the kernel on these arguments, when what it follows is done."""
        return self._submit(self._found(kernel), [(chip, args)], after)

    def submit_group(
        self,
        chips: Sequence[int],
        kernel: str,
        args: Sequence[Arg] | Mapping[int, Sequence[Arg]],
        after: Sequence[Node] = (),
    ) -> Node:
        """One task on several devices at once; it is done when all members are.

        `args`: the same for all, or a dict from each device to its own.
        """
        chips = list(chips) if hasattr(chips, "__iter__") else chips
        if not isinstance(chips, list) or not chips:
            raise (InvalidType if chips != [] else InvalidValue)(
                f"submit_group: {kernel!r} got {'no devices' if chips == [] else repr(chips)}",
                "a group has a list of devices, at least one",
                "pass ctx.peers(), or some of them",
            )
        for chip in chips:
            self._place(chip)
        if isinstance(args, Mapping) and set(args) != set(chips):
            raise InvalidValue(
                f"submit_group: arguments for {list(args)}, chips are {chips}",
                "each member has its own", "pass one entry for each chip",
            )  # fmt: skip
        members = [(c, args[c] if isinstance(args, Mapping) else args) for c in chips]
        return self._submit(self._found(kernel), members, after)

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Lets go, at its end, of tensors allocated inside; the end of their tasks frees them."""
        self.scope_begin()
        try:
            yield
        finally:
            self.scope_end()

    def scope_begin(self) -> None:
        """Begins a scope() that scope_end() ends."""
        self._check()
        self._scopes.append([])

    def scope_end(self) -> None:
        """Ends the innermost scope."""
        if not self._scopes:
            raise InvalidValue(
                "scope_end: no scope has begun", "each end belongs to a begin",
                "call scope_begin() first, or write: with ctx.scope()",
            )  # fmt: skip
        for handle in self._scopes.pop():
            handle.data = None

    def wait(self, what: Any) -> None:
        """Waits for a task, or for the tasks that write an array; raises where one has failed.

        A private array is copied back by a wait for it, not by one for its task. From then to the
        next task that uses it, the array is the orchestration's: that task sees what was written.
        """
        self._check()
        if isinstance(what, Node):
            succeeded = self._engine.wait_task(what.id)
        else:
            succeeded = self._copies.wait(what)
        if not succeeded:
            raise AwaitedTaskFailed(
                "a task that the orchestration waits for has failed",
                "the run ends with the error of the task that failed first",
                "do not catch this exception",
            )

    def end(self) -> None:
        """Ends the orchestration: the context and its nodes refuse everything from now on."""
        self._is_over = True

    def refuse_fork(self) -> None:
        """Raises Failure in a process that was forked from that of the run."""
        refuse_fork(self._runtime._process)

    # --- for pto.comm ----------------------------------------------------------------------------

    def submit_collective(
        self, chip: int, name: str, args: Sequence[Arg], after: Sequence[Node] = ()
    ) -> Node:
        """A task of pto.comm on one device."""
        return self._submit(self._runtime.collective(name), [(chip, args)], after)

    def submit_gate(self, element: Any, compare: int, value: float, after: Sequence[Node]) -> Node:
        """A task that is done when the comparison of the first element with the value holds."""
        self._check()
        core, ids = [self._copies.core(Arg.input(element))], self._ids_of(after)
        return self._node(self._enter_gate(core, compare, value, ids, self._site()))

    # --- inside ----------------------------------------------------------------------------------

    def _check(self) -> None:
        if self._is_over:
            self.refuse_fork()
            raise Failure(
                "the orchestration has ended", "a context belongs to one run of it",
                "use it inside the function only",
            )  # fmt: skip

    def _found(self, name: str) -> HostKernel:
        self._check()
        kernel = self._kernels.get(name) if isinstance(name, str) else None
        if kernel is None:
            known = ", ".join(map(repr, self._kernels)) or "none"
            raise UnknownName(
                f"unknown kernel {name!r:.60}", f"this program was registered with: {known}",
            f"submit a kernel of that list, or register {name!r:.60} too",
            )  # fmt: skip
        return kernel

    def _submit(self, kernel: HostKernel, members: list, after: Sequence[Node]) -> Node:
        self._check()
        ids, site = self._ids_of(after), self._site()
        placed = [(self._place(chip), _checked(kernel, args)) for chip, args in members]
        core = [(place, [arg.as_core() for arg in args]) for place, args in placed]
        task = self._enter(kernel, core, ids, site)
        if task is None:  # some array is private
            users: list[list[int]] = []
            core = [(place, self._shared(args, users)) for place, args in placed]
            task = self._enter(kernel, core, ids, site)
            for tasks in users:
                tasks.append(task)
        self._used.add(kernel)
        return self._node(task)

    def _shared(self, args: Sequence[Arg], users: list[list[int]]) -> list:
        """Arguments for the engine; read arrays come first, since they may have to be copied in."""
        order = sorted(range(len(args)), key=lambda i: args[i].type == ParamType.OUTPUT)
        core = {i: self._copies.core(args[i], users) for i in order}
        return [core[i] for i in range(len(args))]

    def _enter(self, kernel: HostKernel, core: list, ids: list[int], site: str) -> int | None:
        """Submits the task and returns its id; None, and submits nothing, for a private array."""
        return self._engine.submit(kernel.number, kernel.name, core, ids, site) or None

    def _enter_gate(self, *gate: Any) -> int:
        return self._engine.submit_gate(*gate)

    def _ids_of(self, after: Sequence[Node]) -> list[int]:
        if not after:
            return []
        nodes = list(after) if hasattr(after, "__iter__") else [after]
        strangers = [one for one in nodes if not isinstance(one, Node) or one._context is not self]
        if strangers:
            raise InvalidType(
                f"after: {strangers[0]!r:.60} is no task of this run",
                "after lists tasks that must end first",
                "pass a list of what submit() has returned in this run",
            )
        return [node.id for node in nodes]

    def _site(self) -> str:
        frame = sys._getframe(own_frames())
        file = frame.f_code.co_filename
        self._runtime._tracing.files.add(file)
        return f"{file.rpartition('/')[2]}:{frame.f_lineno}"

    def _node(self, number: int) -> Node:
        return Node(number, self)

    def _place(self, chip: int) -> int:
        place = self._places.get(chip) if type(chip) is int else None
        if place is None:
            raise InvalidValue(
                f"unknown chip {chip!r}",
                f"this runtime has {list(self._places)}",
                "pass the number of a chip of that list",
            )
        return place


def _checked(kernel: HostKernel, args: Any) -> Sequence[Arg]:
    if isinstance(args, Mapping | str) or not hasattr(args, "__iter__"):
        raise InvalidType(
            f"{kernel.name!r}: args is of type {type(args).__name__}",
            "a task has a list of arguments",
            "pass a list, such as [pto.Arg.input(x), pto.Arg.output(y)], or []",
        )
    args = list(args)
    for place, arg in enumerate(args):
        check_arg(f"{kernel.name!r}: argument {place}", arg)
    if kernel.package is not None:
        kernel.package.check(kernel.name, args)
    return args
