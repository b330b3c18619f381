# SPDX-License-Identifier: Apache-2.0
"""docs/operators.md: its operator runs as it stands there, and its files and commands exist."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "operators.md").read_text()
CHECK = """
x = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)
y = np.ones(4, np.float32)
np.testing.assert_allclose(Damped(x, y, factor=2.0), Damped.member("oracle")(x, y, 2.0), rtol=1e-6)
out = np.empty_like(x)
assert Damped(x, y, out=out) is out
print(sorted(op_.name for op_ in pto.language.op.operators() if op_.name.startswith("damped")))
"""


def test_the_operator_of_the_page_runs(tmp_path):
    [block] = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    program = tmp_path / "damped.py"
    program.write_text(block + "import pto.language.op\n" + CHECK)
    run = subprocess.run([sys.executable, program], capture_output=True, text=True, cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert run.stdout == "['damped', 'damped_backward', 'damped_backward_backward']\n"


def test_the_files_that_the_page_names_exist():
    names = re.findall(r"`(pto/[\w/.]+)`", PAGE)
    assert names and [name for name in names if not (ROOT / name).exists()] == []
