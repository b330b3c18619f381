# SPDX-License-Identifier: Apache-2.0
"""A law: nonsense for any argument of any public callable is a pto.Error, or a framework's own
error with our text, or works. Never another exception. Calls are made from the signatures."""

import functools
import inspect
import itertools

import numpy as np
import pytest
import torch

import pto
import pto.torch

X = np.ones((2, 3), "f4")
NONSENSE = {
    "None": None,
    "text": "abc",
    "an object": object(),
    "NaN": float("nan"),
    "infinity": float("inf"),
    "a huge number": 10**40,
    "a negative number": -5,
    "a list": [1, "a"],
    "a dict": {"a": 1},
    "a set": {1, 2},
    "bytes": b"x",
    "a function": len,
    "a type": int,
    "an array of objects": np.array([object(), None]),
    "an array of texts": np.array(["a", "b"]),
    "an array of nine axes": np.ones((1,) * 9, "f4"),
    "an empty array": np.ones((0, 3), "f4"),
    "a complex number": 1j,
}
# Made by the library itself, or only annotations.
NOT_CALLED = {"DType", "Tensor", "Trace", "Jit", "CompiledPackage", "Error"}
LANGUAGE = [
    name for name in pto.__all__
    if callable(getattr(pto, name)) and not name[0].isupper() and name not in ("config",)
]  # fmt: skip


def good(parameter, tensor):
    """A fitting value for a parameter that has no default, from its name and annotation."""
    is_tensor = parameter.annotation is pto.Tensor or parameter.name in ("x", "a", "b")
    return tensor if is_tensor else {"kind": "f32", "dim": 0}.get(parameter.name, 1)


def attempt(call):
    """None where the call is as it must be, else what it raised."""
    try:
        call()
    except pto.Error:
        return None
    except Exception as error:
        ours = "why:" in str(error) and "fix:" in str(error)
        return None if ours else f"{type(error).__name__}: {error}"
    return None


def findings(function, tensor, values):
    """(argument, value, what was raised) for each nonsense in the place of each argument."""
    parameters = list(inspect.signature(function).parameters.values())
    found = []
    for at, (about, value) in itertools.product(range(len(parameters)), values.items()):
        args, kwargs = [], {}
        for place, parameter in enumerate(parameters):
            if place != at and parameter.default is not parameter.empty:
                continue
            given = value if place == at else good(parameter, tensor)
            if parameter.kind in (parameter.KEYWORD_ONLY,) or (place == at and args == [] and at):
                kwargs[parameter.name] = given
            elif parameter.kind is parameter.VAR_KEYWORD:
                kwargs["nonsense"] = given
            elif place == len(args):
                args.append(given)
            else:
                kwargs[parameter.name] = given
        raised = attempt(lambda args=args, kwargs=kwargs: function(*args, **kwargs))
        if raised:
            found.append((parameters[at].name, about, raised))
    return found


@pytest.mark.parametrize("name", LANGUAGE)
def test_nonsense_in_a_traced_function(name):
    function, found = getattr(pto, name), []

    def body(x):
        found.extend(findings(function, x, NONSENSE))
        return x * 2

    pto.jit(body).trace(X)
    assert not found


@pytest.mark.parametrize("name", LANGUAGE)
def test_nonsense_outside_a_traced_function(name):
    few = {n: NONSENSE[n] for n in ("None", "text", "a set", "an array of texts", "a huge number")}
    assert not findings(getattr(pto, name), X, few)


@pytest.mark.parametrize("name", pto.ops.__all__)
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_nonsense_in_an_operator(name, library):
    operator, found = getattr(pto.ops, name), []
    names = [a.name for a in operator.arguments]
    array = X if library == "numpy" else torch.ones(2, 3)
    plain = {"Tensor": array, "Tensor[]": [array], "int": 1, "int[]": [0, 1], "float": 1.0}
    plain |= {"bool": True, "str": "none", "SymInt": 1}
    for at, (about, value) in itertools.product(names, NONSENSE.items()):
        given = {a.name: plain[a.kind] for a in operator.arguments if not a.has_default}
        raised = attempt(lambda given=given, at=at, value=value: operator(**{**given, at: value}))
        if raised:
            found.append((at, about, raised))
    assert not found


@pto.jit
def compiled(x, factor=2.0):
    return x * factor


@pytest.mark.parametrize("about", NONSENSE)
def test_nonsense_in_a_compiled_function(about):
    value = NONSENSE[about]
    for call in (compiled, compiled.trace, compiled.explain, compiled.warm):
        assert attempt(lambda call=call: call(value)) is None
        assert attempt(lambda call=call: call(X, value)) is None
    assert attempt(lambda: compiled(X, out=value)) is None
    assert attempt(lambda: pto.jit(value)) is None
    assert attempt(lambda: pto.op(value)) is None
    assert attempt(lambda: pto.op("f(Tensor x) -> Tensor")(value)) is None


SETTINGS = ("cxx", "cache_dir", "target", "threads", "dump")


@pytest.mark.parametrize("name", SETTINGS)
def test_nonsense_in_a_setting(name):
    before = getattr(pto.config, name)
    try:
        for value in NONSENSE.values():
            if not (isinstance(value, str) and name in ("cxx", "cache_dir")):
                assert attempt(lambda value=value: setattr(pto.config, name, value)) is None
    finally:
        setattr(pto.config, name, before)


RUNTIME = {
    "Arg.input": lambda v: pto.Arg.input(v),
    "Arg.output": lambda v: pto.Arg.output(v),
    "Arg.inout": lambda v: pto.Arg.inout(v),
    "Arg.scalar": lambda v: pto.Arg.scalar(v),
    "Arg.scalar dtype": lambda v: pto.Arg.scalar(1, dtype=v),
    "TensorHandle": lambda v: pto.TensorHandle(v),
    "TensorHandle dtype": lambda v: pto.TensorHandle((2,), v),
    "TensorHandle.of": lambda v: pto.TensorHandle.of(v),
    "KernelSource": lambda v: pto.KernelSource(v),
    "compile": lambda v: pto.compile(v),
    "Runtime": lambda v: pto.Runtime(v),
    "register": lambda v: pto.Runtime().register(v),
}


@pytest.mark.parametrize("name", RUNTIME)
def test_nonsense_in_the_runtime(name):
    call = RUNTIME[name]
    raised = {about: attempt(functools.partial(call, value)) for about, value in NONSENSE.items()}
    assert not {about: error for about, error in raised.items() if error}
