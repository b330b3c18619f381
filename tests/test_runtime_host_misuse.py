# SPDX-License-Identifier: Apache-2.0
"""Level host: each mistake is an error with what, why and fix, and the runtime goes on."""

import functools
import threading

import numpy as np
import pytest
import python_kernels
import torch
from host_cases import Inout, Number, good_run, run

import pto
from pto.errors import TaskFailure

LOCK = threading.Lock()  # no process can send it to another

MISUSES = [
    (lambda ctx: ctx.submit(5, "add", []), ValueError, r"chip 5\n.*\[3, 8\]"),
    (lambda ctx: ctx.submit(True, "add", []), ValueError, "chip True"),
    (lambda ctx: ctx.submit(3, "sub", []), KeyError, "unknown kernel 'sub'(.|\n)*'add'"),
    (lambda ctx: ctx.submit(3, "add", [1]), TypeError, "argument 0 is of type int"),
    (lambda ctx: ctx.submit_group([], "add", []), ValueError, "got no devices"),
    (lambda ctx: ctx.submit_group([3, 3], "add", []), ValueError, "comes twice"),
    (lambda ctx: ctx.submit_group([3], "add", {8: []}), ValueError, r"arguments for \[8\]"),
    (lambda ctx: ctx.alloc((2, -1)), ValueError, r"shape is \(2, -1\)"),
    (lambda ctx: ctx.alloc((2,), "float33"), TypeError, "float33"),
    (lambda ctx: ctx.alloc((2**60, 8)), ValueError, "shape"),
    (lambda ctx: ctx.alloc((2**61, 2**61)), ValueError, "fit 63 bits"),
    (lambda ctx: ctx.alloc((2**62,), "float64"), ValueError, "fit 63 bits"),
    (lambda ctx: ctx.alloc(None), ValueError, "shape is None"),
    (lambda ctx: ctx.alloc(pto.f32), ValueError, r"shape is pto.f32(.|\n)*alloc\(\(4, 1024\)"),
    (lambda ctx: ctx.alloc((2,), "object"), TypeError, "element type is 'object'"),
    (lambda ctx: ctx.alloc((2,), "V"), TypeError, "element type is 'V'"),
    (lambda ctx: ctx.alloc((2,), object), TypeError, "element type is 'object'"),
    (lambda ctx: ctx.alloc((2,), np.dtype(">f4")), TypeError, "element type is '>f4'"),
    (lambda ctx: ctx.alloc((2,), None), TypeError, "unknown element type 'None'"),
    (lambda ctx: ctx.submit(3, "add", None), TypeError, "'add': args is of type NoneType"),
    (lambda ctx: ctx.submit(3, "add", Number(1)), TypeError, "'add': args is of type Arg"),
    (lambda ctx: ctx.submit_group([3], "add", {3: None}), TypeError, "'add': args is of type None"),
    (lambda ctx: ctx.submit_group(3, "add", []), TypeError, "submit_group: 'add' got 3"),
    (lambda ctx: ctx.submit_group([[3]], "add", {3: []}), ValueError, r"chip \[3\]"),
    (lambda ctx: ctx.wait(7), TypeError, "7"),
    (lambda ctx: ctx.submit(3, "add", [], after=7), TypeError, "after: 7 is no task"),
    (lambda ctx: ctx.submit(3, "add", [], after=[None]), TypeError, "after: None is no task"),
    (lambda ctx: pto.comm.notify(ctx, 3, ctx.alloc((1,), "int32"), 1.5), ValueError, "not whole"),
    (lambda ctx: pto.comm.notify(ctx, 3, ctx.alloc((1,), "int32"), 2**40), ValueError,
     "the signal is int32"),
    (lambda ctx: ctx.submit(3, "relu", [Inout(np.broadcast_to(np.float32(1), 3)), Number(3)]),
     ValueError, "read-only"),
    (lambda ctx: ctx.submit(3, "relu", [Inout(np.zeros(4, "f4, i1")["f0"]), Number(4)]), TypeError,
     r"argument 0 is no array (.|\n)*ascontiguousarray\(x\), also a field of packed records"),
    (lambda ctx: ctx.submit(3, "relu", [Inout(torch.ones(4).to(torch.float8_e5m2)), Number(4)]),
     TypeError, r"torch tensor of torch.float8_e5m2\n(.|\n)*x.view\(torch.uint8\)"),
    (lambda ctx: pto.comm.all_reduce(ctx, {}), TypeError, "no tensors"),
    (lambda ctx: pto.comm.all_reduce(ctx, {3: ctx.alloc((2,)), 8: ctx.alloc((3,))}), ValueError,
     r"float32\[2\] and float32\[3\]"),
    (lambda ctx: pto.comm.all_reduce(ctx, {3: ctx.alloc((2,))}, "mean"), ValueError, "'mean'"),
    (lambda ctx: pto.comm.gather(ctx, 3, ctx.alloc((3, 2)), {3: ctx.alloc((2,))}), ValueError,
     r"the whole has the shape \[3, 2\]"),
    (lambda ctx: pto.comm.wait(ctx, ctx.alloc((1,), "int32"), 1, "=>"), ValueError, "'=>'"),
    (lambda ctx: pto.comm.wait(ctx, ctx.alloc((1,), "int64"), 2**53 + 1), ValueError,
     "value is 9007199254740993"),
    (lambda ctx: pto.comm.wait(ctx, ctx.alloc((1,), "int64"), "a"), TypeError, "value is 'a'"),
    (lambda ctx: pto.comm.wait(ctx, ctx.alloc((1,), "int64"), None), TypeError, "value is None"),
    (lambda ctx: pto.comm.wait(ctx, ctx.alloc((0,), "int64"), 0), ValueError, "has no elements"),
    (lambda ctx: pto.comm.notify(ctx, 3, ctx.alloc((0,), "int64")), ValueError, "has no elements"),
    (lambda ctx: pto.comm.broadcast(ctx, ctx.alloc((2,)), {3: [1, 2]}), TypeError,
     r"got \[1, 2\], of type list"),
    (lambda ctx: pto.comm.gather(ctx, 3, [[1, 2]], {3: ctx.alloc((2,))}), TypeError,
     r"got \[\[1, 2\]\], of type list"),
]  # fmt: skip


@pytest.mark.parametrize("misuse, kind, text", MISUSES)
def test_misuse_inside_an_orchestration_says_what_why_and_fix(two, kernels, misuse, kind, text):
    with pytest.raises(kind, match=text) as raised:
        run(two, lambda ctx, args: misuse(ctx), kernels)
    assert raised.value.why and raised.value.fix
    good_run(two, kernels)


@pytest.mark.parametrize("wait", [
    lambda two: two.run("first"), lambda two: two.submit("first").result(),
    lambda two: two.capture("first").replay(), lambda two: two.close()],
    ids=["run", "result", "replay", "close"])  # fmt: skip
def test_an_orchestration_that_waits_for_a_run_of_its_runtime_is_refused(two, wait):
    two.register("first", orch=lambda ctx, args: "first")
    two.register("second", orch=lambda ctx, args: wait(two))
    for call in (lambda: two.run("second"), lambda: two.submit("second").result(10)):
        with pytest.raises(RuntimeError, match="waits for another run of its runtime"):
            call()
    assert two.run("first") == "first"


def test_a_wrong_number_of_arguments_names_both_signatures(two, kernels):
    with pytest.raises(TaskFailure, match="add"):
        run(two, lambda ctx, args: ctx.submit(3, "add", [Number(3)]) and None, kernels)


@pytest.mark.parametrize("wait", [
    lambda ctx, gate, after: None, lambda ctx, gate, after: ctx.wait(gate),
    lambda ctx, gate, after: ctx.wait(after)], ids=["at the end", "a gate", "what follows it"],
)  # fmt: skip
def test_a_gate_that_never_opens_is_a_deadlock_not_a_hang(two, kernels, wait):
    def orch(ctx, args):
        gate = pto.comm.wait(ctx, ctx.alloc((1,), "int32"))
        out = ctx.alloc((4,))
        ctx.submit(3, "relu", [Inout(out), Number(4)], after=[gate])
        wait(ctx, gate, out)

    with pytest.raises(TaskFailure, match="a deadlock"):
        run(two, orch, kernels, deadline=20)


def test_a_gate_stays_closed_while_the_orchestration_waits_for_others(two, kernels):
    def orch(ctx, args):
        signal, out = ctx.alloc((1,), "int32"), ctx.alloc((4,))
        gate = pto.comm.wait(ctx, signal)
        ctx.wait(ctx.submit(3, "relu", [Inout(out), Number(4)]))
        pto.comm.notify(ctx, 3, signal)
        ctx.wait(gate)

    run(two, orch, kernels)


def test_alloc_takes_our_element_types(two):
    for kind in (pto.f32, pto.i8, pto.f16):
        assert (
            two.alloc((2,), kind).dtype
            == {"f32": "float32", "i8": "int8", "f16": "float16"}[str(kind)]
        )


def test_a_context_is_of_no_use_after_its_run(two):
    context, _ = run(two, lambda ctx, args: ctx, {})
    for call in (lambda: context.alloc((1,)), lambda: context.submit(3, "add", [])):
        with pytest.raises(RuntimeError, match="has ended"):
            call()


@pytest.mark.parametrize("options, kind, text", [
    ({"devices": 2}, TypeError, "devices is 2"),
    ({"devices": []}, ValueError, "a runtime has 1 to"),
    ({"devices": [0, 0]}, ValueError, "different devices"),
    ({"devices": ["a"]}, TypeError, "ids are numbers"),
    ({"memory": 0}, ValueError, "memory is 0"),
    ({"memory": 1 << 70}, ValueError, r"memory is 1180591620717411303424\n.*2\*\*62"),
    ({"threads": -1}, ValueError, "threads is -1"),
    ({"threads": 1 << 40}, ValueError, "threads is 1099511627776"),
    ({"platform": "a2a3"}, ValueError, "a2a3sim"),
    ({"device": 0}, TypeError, "unknown keyword 'device'(.|\n)*devices")])  # fmt: skip
def test_a_runtime_refuses_what_it_does_not_know(options, kind, text):
    with pytest.raises(kind, match=text):
        pto.Runtime(level="host", **options)


async def awaits(ctx, args):
    ctx.alloc((1,))


def generates(ctx, args):
    yield ctx.alloc((1,))


async def generates_and_awaits(ctx, args):
    yield ctx.alloc((1,))


class Awaits:
    async def __call__(self, ctx, args):
        ctx.alloc((1,))


@pytest.mark.parametrize("change, kind, text", [
    ({"orch": "orch.cpp"}, TypeError, "orch is of type str"),
    ({"orch": awaits}, TypeError, "returns a coroutine, which nobody runs"),
    ({"orch": functools.partial(awaits)}, TypeError, "returns a coroutine, which nobody runs"),
    ({"orch": Awaits()}, TypeError, "returns a coroutine, which nobody runs"),
    ({"orch": generates}, TypeError, "returns a generator, which nobody runs"),
    ({"orch": generates_and_awaits}, TypeError, "returns an async generator, which nobody runs"),
    ({"kernels": []}, TypeError, "kernels is of type list"),
    ({"kernels": {"a": 3}}, TypeError, "kernel 'a' is of type int"),
    ({"kernels": {"": python_kernels.halve}}, TypeError, "a kernel has the name ''"),
    ({"kernels": {"a": lambda x: LOCK.acquire()}}, TypeError,
     "'a' cannot reach another process: (.*)lock")])  # fmt: skip
def test_register_refuses_what_it_cannot_use(two, change, kind, text):
    with pytest.raises(kind, match=text):
        two.register("it", **{"orch": lambda ctx, args: None, **change})
    with pytest.raises(KeyError, match="nothing is registered under 'it'"):
        two.run("it")
