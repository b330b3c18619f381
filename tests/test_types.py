# SPDX-License-Identifier: Apache-2.0
"""Type checkers accept a program on the public surface and the examples; stubs are current.

`./dev test --site` installs mypy and pyright; elsewhere those tests are skipped.
"""

import importlib.util
import inspect
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import pto

ROOT = Path(__file__).resolve().parent.parent
FILES = [
    "tests/typed_surface.py",
    *sorted(str(file.relative_to(ROOT)) for file in (ROOT / "examples").glob("0*.py")),
    *sorted(str(file.relative_to(ROOT)) for file in (ROOT / "examples/runtime").glob("*.py")),
    *sorted(str(file.relative_to(ROOT)) for file in (ROOT / "examples/models").glob("*.py")),
]
# Programs that replace parts of libraries, whose own types are not strict.
WITHIN_LIBRARIES = [
    "examples/frameworks/torch/my_ops.py",
    *sorted(str(file.relative_to(ROOT)) for file in (ROOT / "examples/demo").glob("*.py")),
]
UNTYPED = ["--disable-error-code=import-untyped", "--allow-untyped-decorators",
           "--untyped-calls-exclude=torch", "--untyped-calls-exclude=transformers"]  # fmt: skip
WRONG = """import pto

def f(x: pto.Tensor) -> pto.Tensor:
    float(x)
    return pto.ops.softmax(x, dimension=1) or pto.nothing(x) or x.nothing
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


def mypy(*files):
    pytest.importorskip("mypy")
    flags = ["--strict", "--explicit-package-bases", "--follow-imports=silent"]
    command = [sys.executable, "-m", "mypy", *flags, *files]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def pyright(*files):
    if (program := shutil.which("pyright", path=Path(sys.executable).parent)) is None:
        pytest.skip("./dev test --site installs pyright")
    command = [program, "--pythonpath", sys.executable, *files]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


@pytest.mark.parametrize("check", [mypy, pyright])
def test_a_type_checker_accepts_the_public_surface_and_finds_mistakes(check, tmp_path):
    done = check(*FILES)
    assert done.returncode == 0, done.stdout + done.stderr
    (tmp_path / "wrong.py").write_text(WRONG)
    found = check(str(tmp_path / "wrong.py")).stdout
    for wrong in ("float", "dimension", "nothing"):
        assert wrong in found, found


def test_mypy_accepts_programs_that_replace_parts_of_libraries():
    done = mypy(*UNTYPED, *WITHIN_LIBRARIES)
    assert done.returncode == 0, done.stdout + done.stderr
