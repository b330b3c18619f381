# SPDX-License-Identifier: Apache-2.0
"""python -m pto adapters: framework, version, what is built, and the command that builds it."""

import os
import pathlib
import shlex
import subprocess

import children
import pytest
import tomllib

from pto.__main__ import ADAPTERS

torch = pytest.importorskip("torch")
from pto.adapters.torch import build  # noqa: E402

ROOT = pathlib.Path(__file__).parents[1]
BUILD = "python -m pto adapters build torch"
WITHOUT_TORCH = "import sys; sys.modules['torch'] = None; sys.argv = ['pto', 'adapters']\n"
MAIN = "from pto.__main__ import main; sys.exit(main())\n"


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess:
    return children.run(*arguments, env={**os.environ, **environment})


def line_of(framework: str, done: subprocess.CompletedProcess) -> str:
    assert done.returncode == 0, done.stderr
    [line] = [line for line in done.stdout.splitlines() if line.startswith(f"{framework}: ")]
    return line.removeprefix(f"{framework}: ")


def test_one_line_an_adapter_says_version_operators_and_what_is_built():
    done = run("-m", "pto", "adapters")
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == list(ADAPTERS)
    line = line_of("torch", done)
    assert line.startswith(f"PyTorch {torch.__version__}, ") and " operators, " in line
    assert line.endswith("gradients in C++" if build.built() else BUILD)


def test_what_is_not_built_comes_with_the_command_that_builds_it(tmp_path):
    done = run("-m", "pto", "adapters", PTO_CACHE_DIR=str(tmp_path))
    assert line_of("torch", done).endswith(f"gradients through Python; for C++: {BUILD}")
    tensorflow = line_of("tensorflow", done)
    assert tensorflow.startswith("not installed") or tensorflow.endswith(
        "not built; to build it: python -m pto adapters build tensorflow"
    )


def test_a_framework_that_is_missing_is_listed_with_the_command_that_installs_it():
    done = run("-c", WITHOUT_TORCH + MAIN)
    assert line_of("torch", done) == "not installed; to use it: pip install torch==2.13.0"


@pytest.mark.parametrize(("raised", "told"), [
    ("ImportError('jaxlib is too old')", "jaxlib is too old; it is tested with: pip install jax=="),
    ("__import__('pto.errors').errors.Failure('damaged', 'why', 'build it')",
     "damaged; to mend it: build it"),
], ids=["framework", "adapter"])  # fmt: skip
def test_an_adapter_that_does_not_load_is_listed_with_the_reason(tmp_path, raised, told):
    (tmp_path / "jax.py").write_text(f"raise {raised}")
    done = run("-m", "pto", "adapters", PYTHONPATH=os.pathsep.join([str(tmp_path), str(ROOT)]))
    assert line_of("jax", done).startswith(f"not usable: {told}")
    assert len(done.stdout.splitlines()) == len(ADAPTERS)


def test_an_adapter_of_a_framework_that_is_missing_is_not_built():
    done = run("-c", WITHOUT_TORCH.replace("'adapters'", "'adapters', 'build', 'torch'") + MAIN)
    assert done.returncode == 1
    assert "build torch: the framework is not installed" in done.stderr
    assert "pip install torch==2.13.0" in done.stderr


def test_the_versions_that_are_named_are_those_of_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = {
        name: " ".join(map(shlex.quote, packages))
        for name, packages in project["optional-dependencies"].items()
    }
    assert {name: extras[name] for name in ADAPTERS} == ADAPTERS


def test_an_adapter_that_comes_prebuilt_has_nothing_to_build():
    done = run("-m", "pto", "adapters", "build", "jax")
    assert done.returncode == 0 and done.stdout.startswith("jax: nothing to build"), done.stderr


def test_a_part_that_an_adapter_does_not_have_is_refused():
    done = run("-m", "pto", "adapters", "build", "torch", "--xla")
    assert done.returncode == 1 and "build torch --xla: there is no such part" in done.stderr


def test_a_build_that_fails_says_why_and_leaves_no_library(tmp_path):
    done = run("-m", "pto", "adapters", "build", "torch",
               PTO_CACHE_DIR=str(tmp_path), PTO_CXX="/bin/false")  # fmt: skip
    assert done.returncode == 1 and done.stdout == ""
    assert "building the PyTorch gradients: " in done.stderr
    assert "/bin/false fails when asked for its version" in done.stderr and "fix: " in done.stderr
    assert not list(tmp_path.rglob("*.so"))


def test_a_build_without_a_compiler_says_how_to_get_one(tmp_path):
    done = run("-m", "pto", "adapters", "build", "torch",
               PTO_CACHE_DIR=str(tmp_path), PTO_CXX="", PATH=str(tmp_path))  # fmt: skip
    assert done.returncode == 1
    assert "no C++ compiler was found" in done.stderr and "install g++ 12" in done.stderr
