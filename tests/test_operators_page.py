# SPDX-License-Identifier: Apache-2.0
"""docs/operators.md: its operator, one new file, runs in every framework; what it names exists."""

import os
import re

import children
import pytest
from code_pages import ROOT, blocks

from pto.testing.frameworks import FRAMEWORKS

PAGE = (ROOT / "docs" / "operators.md").read_text()
CHECK = """
x = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)
y = np.ones(4, np.float32)
np.testing.assert_allclose(Damped(x, y, factor=2.0), Damped.member("oracle")(x, y, 2.0), rtol=1e-6)
out = np.empty_like(x)
assert Damped(x, y, out=out) is out
print(sorted(op_.name for op_ in pto.language.op.operators() if op_.name.startswith("damped")))
"""
EVERY_MODE = """
import itertools, sys
from pto.testing.cases import cases
from pto.testing.expected import expected, is_close, same_bits
from pto.testing.frameworks import FRAMEWORKS, Skipped
from damped import Damped

kind = next(one for one in FRAMEWORKS if one.name == sys.argv[1])
framework = kind()
for name, mode in kind.modes.items():
    if name == "inductor":
        continue  # a minute; other tests compile
    calls = 0
    for dtype in ("f32", "f64"):
        found = cases(Damped, dtype, variants=False)
        for case in itertools.islice(found, 2 if dtype == "f32" else 1):
            try:
                got = mode(framework, case)
            except Skipped:
                continue
            assert same_bits(got, expected(name, case)), name
            assert "gradient" in name or is_close(case, got), name
            calls += 1
    print(name, calls > 0)
"""


@pytest.fixture
def damped(tmp_path):
    """A folder with the page's operator as its only file."""
    [block] = blocks(ROOT / "docs/operators.md")["damped.py"]
    (tmp_path / "damped.py").write_text(block)
    return tmp_path


def run(folder, *command):
    paths = os.pathsep.join([str(folder), str(ROOT), str(ROOT / "tests")])
    done = children.run(*command, cwd=folder, env={**os.environ, "PYTHONPATH": paths})
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda kind: kind.name)
def test_one_new_file_is_an_operator_of_every_framework(framework, damped):
    if not framework.is_installed():
        pytest.skip(f"{framework.name} is not installed")
    modes = run(damped, "-c", EVERY_MODE, framework.name)
    assert "True" in modes and "False" not in modes, modes


def test_the_operator_of_the_page_runs(damped):
    program = "import pto.language.op, numpy as np\nfrom damped import Damped\n" + CHECK
    assert (
        run(damped, "-c", program) == "['damped', 'damped_backward', 'damped_backward_backward']\n"
    )


def test_the_files_that_the_page_names_exist():
    names = re.findall(r"`(pto/[\w/.]+)`", PAGE)
    assert names and [name for name in names if not (ROOT / name).exists()] == []
