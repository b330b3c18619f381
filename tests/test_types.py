# SPDX-License-Identifier: Apache-2.0
"""Type checkers accept a program on the public surface and the examples; stubs are current.

`./dev test --site` installs mypy and pyright; elsewhere those tests are skipped.
"""

import ast
import importlib.util
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from code_pages import DOCS, fences, folder_of, pages

import pto

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = sorted(str(file.relative_to(ROOT)) for file in (ROOT / "examples").rglob("*.py"))
# Programs of frameworks, which may be missing here, and whose own types are not strict.
WITHIN_LIBRARIES = [name for name in EXAMPLES if re.search("setup.py|/demo/|/frameworks/", name)]
FILES = ["tests/typed_surface.py", *(name for name in EXAMPLES if name not in WITHIN_LIBRARIES)]
UNTYPED = ["--disable-error-code=import-untyped", "--disable-error-code=import-not-found",
           "--allow-untyped-decorators", "--allow-subclassing-any",
           "--untyped-calls-exclude=torch", "--untyped-calls-exclude=transformers"]  # fmt: skip
HEAD = """import numpy as np

import pto
import pto.torch

a = np.ones((3, 4), np.float32)


@pto.jit
def h(x: pto.Tensor, scale: float = 1.0) -> pto.Tensor:
    return x * scale


class Layer:
    @pto.jit
    def m(self, x: pto.Tensor) -> pto.Tensor:
        return x


@pto.op("wrong(Tensor x) -> Tensor")
class Wrong(pto.Definition):
    def grad(ctx: pto.GradientContext, d: pto.Tensor) -> pto.Tensor:
        return ctx.kept("x")

"""
CALLS = """
h()
h(kk=3)
h(a, scale="a")
h.nothing
Layer().m()
pto.nothing(a)
pto.config.cxxx
pto.config.cxxx = a
pto.testing.check("softmax")
pto.testing.check(Wrong, 3)
pto.ops.softmax(a, dimension=1)
pto.torch.softmax(a, dimension=1)
pto.exp("a")
pto.softmax(a, dimension=1)
"""
TRACED = """
float(x)
x.nothing
x + "a"
"a" - x
x @ 3
x[1.5]
x.reshape("a")
x.softmax(dimension=1)
pto.exp(x).nothing
pto.softmax(x, dimension=1)
pto.amax(x, "a")
pto.sum(x, axes=1)
pto.cast(x)
pto.cast(x, 7)
pto.topk(x)
pto.where(x)
pto.where(x, "a", 1)
pto.zeros("a")
pto.arange("a")
pto.pad(x)
pto.rms_norm(x, epsilon=1e-6)
pto.layer_norm(x, eps="a")
pto.gelu(x, approximate=3)
pto.options(merg=4)
pto.matmul(x, x, 7)
pto.concat(x, "a")
"""


def stubs():
    spec = importlib.util.spec_from_file_location("stubs", ROOT / "docs/stubs.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.files()


def test_stubs_are_what_dev_docs_writes():
    for path, text in stubs().items():
        assert path.read_text() == text, f"{path.relative_to(ROOT)}: run ./dev docs"


def test_every_operator_has_a_signature_that_binds_its_call():
    for name in pto.ops.__all__:
        operator = getattr(pto.ops, name)
        found = inspect.signature(operator)
        assert [*found.parameters][: len(operator.arguments)] == [
            a.name for a in operator.arguments
        ]
        required = [a.name for a in operator.arguments if not a.has_default]
        found.bind(**dict.fromkeys(required, 1))
        with pytest.raises(TypeError):
            found.bind(nothing=1)


def test_an_operator_of_pytorch_has_the_signature_of_its_operator():
    pytest.importorskip("torch")
    import pto.torch

    for name in ("softmax", "gelu", "concat", "split"):
        found = inspect.signature(getattr(pto.torch, name))
        assert found == inspect.signature(getattr(pto.ops, name))
    assert inspect.signature(pto.torch.softmax.default).parameters["dim"].default == -1


def test_a_base_for_type_checkers_changes_no_operator():
    @pto.op("typed_base(Tensor x, *, float by=1.0) -> Tensor")
    class Moved(pto.Definition):
        def build(x, by):
            return x + by

    assert Moved(np.ones(2), by=2.0).tolist() == [3.0, 3.0]


def defining_classes(text):
    """The classes of a program that stand under @op or @pto.tile_op."""
    for node in ast.walk(ast.parse(text)):
        decorators = node.decorator_list if isinstance(node, ast.ClassDef) else []
        if any(re.match(r"(pto\.)?(tile_)?op\(", ast.unparse(one)) for one in decorators):
            yield node


def test_a_class_that_pages_and_examples_define_has_the_base_for_type_checkers():
    texts = [(page, body) for page in pages() if page.is_relative_to(DOCS)
             for kind, body in fences(page) if kind == "python"]  # fmt: skip
    texts += [(ROOT / name, (ROOT / name).read_text()) for name in EXAMPLES]
    found = [(path, node) for path, text in texts for node in defining_classes(text)]
    names = {path.name for path, _ in found}
    assert {"2_operator.md", "3_operator.md", "tutorial_add.md", "language.md"} <= names
    for path, node in found:
        bases = [ast.unparse(base).removeprefix("pto.") for base in node.bases]
        assert bases == ["Definition"], f"{path}: {node.name}"


def mypy(*files, folder=ROOT, flags=()):
    pytest.importorskip("mypy")
    flags = ["--strict", "--explicit-package-bases", "--follow-imports=silent", *flags]
    command = [sys.executable, "-m", "mypy", *flags, *files]
    env = {**os.environ, "MYPYPATH": str(ROOT)}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)


def pyright(*files):
    if (program := shutil.which("pyright", path=Path(sys.executable).parent)) is None:
        pytest.skip("./dev test --site installs pyright")
    command = [program, "--pythonpath", sys.executable, *files]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


@pytest.mark.parametrize("check", [mypy, pyright])
def test_a_type_checker_accepts_the_public_surface(check):
    done = check(*FILES)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("check", [mypy, pyright])
def test_a_type_checker_finds_each_mistake_and_no_other(check, tmp_path):
    calls, traced = CALLS.strip().splitlines(), TRACED.strip().splitlines()
    text = f"{HEAD}\n{CALLS}\n\ndef f(x: pto.Tensor) -> None:\n"
    text += "".join(f"    {line}\n" for line in traced)
    (tmp_path / "wrong.py").write_text(text)
    lines = text.splitlines()
    found = check(str(tmp_path / "wrong.py")).stdout
    reported = {lines[int(n) - 1].strip() for n in re.findall(r"wrong\.py:(\d+):.*error", found)}
    assert reported == {*calls, *traced, 'return ctx.kept("x")'}, found


@pytest.mark.parametrize("check", [mypy, pyright])
@pytest.mark.parametrize("adapter", ["jax", "mindspore"])
def test_a_type_checker_refuses_what_an_adapter_refuses(check, adapter, tmp_path):
    head = f"import numpy as np\n\nimport pto.{adapter} as adapter\n\nx = np.ones(3, np.float32)\n"
    for call, code in (("softmax", 0), ("nonzero", 1)):
        file = tmp_path / f"{adapter}_{call}.py"
        file.write_text(f"{head}adapter.{call}(x)\n")
        done = check(str(file))
        assert done.returncode == code, done.stdout + done.stderr
        assert (f"{file.name}:6" in done.stdout) == bool(code), done.stdout


def test_mypy_accepts_calls_of_operators_that_a_page_defines(tmp_path):
    folder_of(DOCS / "tutorial_add.md", tmp_path)
    done = mypy("with_numpy.py", folder=tmp_path, flags=UNTYPED)
    assert done.returncode == 0, done.stdout + done.stderr


def test_mypy_accepts_programs_within_libraries():
    inside = "examples/frameworks/torch"  # its files import each other
    others = [name for name in WITHIN_LIBRARIES if not name.startswith(inside)]
    names = sorted(file.name for file in (ROOT / inside).glob("*.py"))
    for done in (mypy(*others, flags=UNTYPED), mypy(*names, folder=ROOT / inside, flags=UNTYPED)):
        assert done.returncode == 0, done.stdout + done.stderr


def test_pyright_accepts_programs_within_libraries(tmp_path):
    def place(path):
        return os.path.relpath(path, tmp_path)

    folders = [*(ROOT / "examples/frameworks").iterdir(), ROOT]  # else jax is the folder jax
    settings = {
        "include": [place(ROOT / name) for name in WITHIN_LIBRARIES],
        "reportMissingImports": False,
        "executionEnvironments": [
            {"root": place(folder), "extraPaths": [str(ROOT)]} for folder in folders
        ],
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    done = pyright("--project", str(tmp_path))
    assert done.returncode == 0 and "0 errors" in done.stdout, done.stdout + done.stderr
