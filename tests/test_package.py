# SPDX-License-Identifier: Apache-2.0
"""A loaded function is the jitted one that was packaged, in a process without a compiler."""

import os
import pickle
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import package_cases
import pytest
import torch
from package_cases import calls, parts, program, same, save_all, scaled

import pto
from pto import container
from pto.language.results import taken_apart
from pto.whole_files import write_whole

ROOT = Path(__file__).resolve().parent.parent
CHILD = """
import pickle, sys, threading
from pathlib import Path
import pto
from pto.language.results import taken_apart

folder = Path(sys.argv[1])
loaded = {path.stem: pto.load(path) for path in folder.glob("*.pto")}

def run(name, args):
    args = pickle.loads(pickle.dumps(args))  # fresh arrays
    return [*taken_apart(loaded[name](*args))[0], *args]

def differ(all_of_them):
    for case, before in zip(cases, found):
        if pickle.dumps(run(*case)) != pickle.dumps(before):
            all_of_them.append(case)

cases, torn = pickle.loads((folder / "calls").read_bytes()), []
found = [run(*case) for case in cases]
threads = [threading.Thread(target=differ, args=(torn,)) for _ in range(2)]
for one in threads: one.start()
for one in threads: one.join()
(folder / "found").write_bytes(pickle.dumps((found, torn)))
"""


def fresh(args):
    """The arguments again, arrays with the same gaps in memory of their own."""
    return [one if not isinstance(one, np.ndarray) else with_gaps(one) for one in args]


def with_gaps(array):
    if array.ndim == 1 and array.strides != array.itemsize * 1 and array.size > 1:
        step = array.strides[0] // array.itemsize
        copy = np.zeros(array.size * step, array.dtype)[::step][: array.size]
        copy[:] = array
        return copy
    return array.copy("K")


def all_of(function, args):
    """The leaves of the result, and the arrays as the call left them."""
    args = fresh(args)
    return [*taken_apart(function(*args))[0], *args]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The folder of the packages, and the calls that they were made for."""
    folder = tmp_path_factory.mktemp("packages")
    return folder, save_all(folder)


def test_a_loaded_function_is_the_jitted_one_without_a_compiler(saved):
    folder, cases = saved
    rng = np.random.default_rng()
    cases = [*cases, *calls(rng)]
    (folder / "calls").write_bytes(pickle.dumps([(f.__name__, args) for f, args in cases]))
    env = {**os.environ, "PATH": "", "CXX": "/no/compiler", "PTO_CXX": "/no/compiler",
           "PTO_CACHE_DIR": str(folder / "none"), "PYTHONPATH": str(ROOT)}  # fmt: skip
    done = subprocess.run([sys.executable, "-c", CHILD, str(folder)], env=env,
                          capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0 and not done.stderr, done.stderr
    found, torn = pickle.loads((folder / "found").read_bytes())
    assert not torn and not (folder / "none").exists()
    for (function, args), one in zip(cases, found, strict=True):
        same(one, all_of(function, pickle.loads(pickle.dumps(args))))


def test_a_loaded_function_takes_arrays_as_the_jitted_one_does(saved):
    folder, cases = saved
    for function, args in cases:
        loaded = pto.load(folder / f"{function.__name__}.pto")
        same(all_of(loaded, args), all_of(function, args))
        tensors = [torch.from_numpy(one) if isinstance(one, np.ndarray) else one
                   for one in fresh(args)]  # fmt: skip
        found = [*taken_apart(loaded(*tensors))[0], *tensors]
        assert all(isinstance(one, torch.Tensor) for one in found[:1])
        same([one.numpy() if isinstance(one, torch.Tensor) else one for one in found],
             all_of(function, args))  # fmt: skip


def test_arrays_with_gaps_are_copied_where_the_code_wants_none(saved):
    x = np.arange(48, dtype=np.float32).reshape(6, 8)
    loaded = pto.load(saved[0] / "parts.pto")
    for one in (x.T, x[:, ::2], x[::-1], x[::2, 1:3]):
        same(taken_apart(loaded(one))[0], taken_apart(parts(one.copy()))[0])


def test_a_loaded_function_has_names_defaults_out_and_forms(saved):
    x, w = np.ones((3, 8), np.float32), np.ones(8, np.float32)
    loaded = pto.load(saved[0] / "scaled.pto")
    assert (loaded(w=w, x=x) == scaled(x, w)).all()
    assert loaded(x, w, out=(out := np.zeros_like(x))) is out and (out == 7).all()
    found = pto.load(saved[0] / "parts.pto")(x)
    assert [*found] == ["mean", "ends"] and type(found["mean"]) is list
    assert type(found["ends"]).__name__ == "Pair" and found["ends"]._fields == ("low", "high")
    with pytest.raises(TypeError, match=r"scaled\(\) missing a required argument: 'w'"):
        loaded(x)


def test_what_a_function_captured_travels_with_it(saved, monkeypatch):
    x, w = np.zeros((3, 8), np.float32), np.ones(8, np.float32)
    loaded = pto.load(saved[0] / "scaled.pto")
    monkeypatch.setattr(package_cases, "SHIFT", 5.0)
    assert (loaded(x, w) == 3).all() and (scaled(x, w) == 5).all()


def test_types_stand_for_arrays(tmp_path):
    kind = pto.Tensor[pto.DYN, 1, pto.bf16]
    parts.package(tmp_path / "f.pto", kind)
    x = torch.randn(4, 1).bfloat16()
    loaded = pto.load(tmp_path / "f.pto")
    assert loaded.variants == ("parts(x: bf16[s0, 1])", "parts(x: bf16[1, 1])")
    for one in (x, x[:1]):
        assert torch.equal(loaded(one)["ends"].low, parts(one)["ends"].low)
    fixed.package(tmp_path / "g.pto", pto.Tensor[pto.DYN, 8, pto.f32], pto.Tensor[3, pto.f32])
    np.testing.assert_array_equal(pto.load(tmp_path / "g.pto")(X, X[0, :3]), X * 3)


def test_tensors_of_pytorch_run_as_compiled_in_any_mode_and_no_gradient_is_lost(saved):
    x, w = torch.ones(3, 8), torch.ones(8)
    loaded = pto.load(saved[0] / "scaled.pto")
    with torch.autocast("cpu"), torch.overrides.BaseTorchFunctionMode():
        assert torch.equal(loaded(x, w), torch.full((3, 8), 7.0))
    with pytest.raises(pto.Error, match="a tensor requires a gradient\n.*\n.*detach"):
        loaded(x.requires_grad_(), w)
    with torch.no_grad():
        assert loaded(x, w).sum() == 24 * 7


def test_npu_tensors_run_in_the_order_of_their_stream(saved):
    import pto.torch  # noqa: F401 which makes the device
    from pto.adapters.torch import activation

    if not activation.is_active():
        pytest.skip("the npu device is not built")
    x, lengths = torch.randn(5, 7), torch.tensor([1, 7, 3, 0, 4])
    loaded = pto.load(saved[0] / "program.pto")
    wanted = loaded(x, lengths, out := torch.ones(5), 0.25)
    there = out.new_ones(5).to("npu")
    found = loaded((x / 2).to("npu") * 2, lengths.to("npu"), there, 0.25)
    assert found[0].device.type == "npu" and torch.equal(found[0].cpu(), wanted[0])
    assert torch.equal(there.cpu(), out)


# --- refusals ------------------------------------------------------------------------------------


@dataclass
class Config:
    width: int = 3


@pto.jit
def configured(x, config=None):
    return x * (config.width if config else 2)


@pto.jit
def fixed(x: pto.Tensor[pto.DYN, 8], y: pto.Tensor[pto.STATIC]):
    return x * y.shape[0]


class Model:
    @pto.jit
    def forward(self, x):
        return x


X = np.ones((2, 8), np.float32)


@pytest.mark.parametrize("function, path, examples, kind, text", [
    (parts, X, ("f.pto",), TypeError, "parts.package: the path is a value of type numpy.ndarray"),
    (parts, "f.pto", (), TypeError, r"parts\(\) missing a required argument: 'x'"),
    (parts, "f.pto", (3,), TypeError, "no argument is an array"),
    (parts, "f.pto", ("x",), TypeError, "no argument is an array"),
    (parts, "f.pto", ((X,), X), TypeError,
     "an example is a value of type numpy.ndarray behind one that is a tuple"),
    (parts, "f.pto", (pto.Tensor[pto.DYN, 8],), TypeError, "example is .*\n.*an element type"),
    (parts, "f.pto", (pto.Tensor[..., pto.f32],), TypeError, "a number or pto.DYN for each axis"),
    (program, "f.pto", ([X], [X], [X]), TypeError, "an argument is a list of tensors"),
    (configured, "f.pto", (X, Config()), TypeError,
     r"configured.package: config is a value of type .*Config\n.*keeps numbers, texts, None"),
    (fixed, "f.pto", (X[:, :1], X[0]), ValueError, "x has the size 1 along axis 1"),
    (fixed, "f.pto", ((X, X[0]), (X, X[0, :3])), ValueError, "have 2 sets of STATIC sizes"),
    (Model.forward, "f.pto", (X,), TypeError, "forward: a method has no package"),
])  # fmt: skip
def test_what_cannot_be_packaged_is_refused_before_a_file_is_written(
    function, path, examples, kind, text, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(kind, match=text):
        function.package(path, *examples)
    assert not any(tmp_path.iterdir())


def test_equal_examples_make_one_variant(saved):
    assert len(pto.load(saved[0] / "program.pto").variants) == 3


def test_a_call_that_no_variant_serves_names_both(saved):
    loaded, x = pto.load(saved[0] / "scaled.pto"), np.ones((3, 8), np.float32)
    text = r"scaled.pto: no variant serves the call scaled\(x: f"
    for args in ((x, x), (x, x[0].astype(np.float64)), (x, x[0], 2.0, 7), (x[:, :1], x[0]),
                 (x, x[0], 2.0, 2, Config())):  # fmt: skip
        with pytest.raises(ValueError, match=text) as raised:
            loaded(*args)
        assert "\n    scaled(x: f32[1, s0], w: f32[s1], scale: float, power=2" in raised.value.why
    fixed.package(path := saved[0].parent / "fixed.pto", X, X[0])
    with pytest.raises(ValueError, match="axis 0 of y has size 3, but 8 is required"):
        pto.load(path)(X, X[0, :3])


def test_a_packaged_function_names_what_it_has_not(saved):
    loaded = pto.load(saved[0] / "parts.pto")
    with pytest.raises(pto.Error, match="a packaged function has no variant\n.*mean variants"):
        loaded.variant  # noqa: B018
    assert not hasattr(loaded, "_variant")


def test_a_packaged_function_has_no_graph(saved):
    loaded = pto.load(saved[0] / "parts.pto")
    with pytest.raises(
        TypeError, match="a packaged function is called by one that is being traced"
    ):
        pto.jit(lambda x: loaded(x)["mean"][1])(X)


def test_other_kinds_are_told_apart(saved):
    path = saved[0] / "parts.pto"
    with pytest.raises(
        ValueError, match="parts.pto holds a jitted function, not a program of tasks"
    ):
        pto.CompiledPackage.load(path)
    assert container.described(path).startswith("parts.pto: a jitted function, ")


def test_a_file_is_replaced_as_a_whole_also_while_another_replaces_it(tmp_path):
    path = tmp_path / "a.json"

    def pieces():
        yield b"last, "
        write_whole(path, [b"first"])
        assert path.read_bytes() == b"first"
        (unfinished,) = {*tmp_path.iterdir()} - {path}
        assert unfinished.suffix == ".tmp"  # the cache sweeps what a killed process left of those
        yield b"whole"

    write_whole(path, pieces())
    assert path.read_bytes() == b"last, whole" and [*tmp_path.iterdir()] == [path]
    with pytest.raises(TypeError):
        write_whole(path, [b"half", None])
    assert path.read_bytes() == b"last, whole" and [*tmp_path.iterdir()] == [path]


def test_a_link_and_a_pipe_stay_where_a_file_is_written_to_them(tmp_path):
    file, link, pipe = tmp_path / "here" / "file", tmp_path / "link", tmp_path / "pipe"
    file.parent.mkdir()
    link.symlink_to(file)
    for content in (b"made", b"replaced"):
        write_whole(link, [content])
        assert link.is_symlink() and file.read_bytes() == content
    os.mkfifo(pipe)  # as /dev/null, which root could replace
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_whole(pipe, [b"to the ", b"reader"])
        assert pipe.is_fifo() and os.read(reader, 99) == b"to the reader"
    finally:
        os.close(reader)
