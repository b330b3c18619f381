# SPDX-License-Identifier: Apache-2.0
"""Each rule of tests/tidy.py can fail; ./dev test runs them on the repository."""

from pathlib import Path

import pytest
import rooms
import tidy

CPP = "// SPDX-License-Identifier: Apache-2.0\n"
PY = "# SPDX-License-Identifier: Apache-2.0\n"
LONG_BODY = "".join(f"  x += {i};\n" for i in range(80))
SHARED_LINES = "".join(f"int value_{i}();\n" for i in range(30))


def offences(root: Path, files: dict[str, str]) -> list[str]:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return [str(offence) for offence in tidy.check(root)]


BROKEN = {
    "no licence line": ({"pto/ir/a.hpp": "#pragma once\n"}, "no licence line"),
    "a long file": ({"pto/ir/a.py": PY + "x = 1\n" * 400}, "401 lines"),
    "a long pass": ({"pto/passes/a.cpp": CPP + "\n" * 300}, "at most 300"),
    "a long adapter": ({"pto/adapters/torch/a.cpp": CPP + "\n" * 400}, "at most 400"),
    "a long line": ({"pto/ir/a.hpp": CPP + "int " + "a" * 100 + ";\n"}, "columns"),
    "a long C++ function": (
        {"pto/ir/a.cpp": CPP + "namespace pto {\nint f(int x) const {\n" + LONG_BODY + "}\n}\n"},
        "f has 82 lines",
    ),
    "a long Python function": ({"pto/ir/a.py": PY + "def f(x):\n" + LONG_BODY}, "f has 81 lines"),
    "a name without meaning": ({"pto/ir/graph_utils.hpp": CPP}, "'utils' does not say"),
    "a folder without meaning": ({"pto/common/a.hpp": CPP}, "'common' does not say"),
    "a path of one machine": ({"docs/why.md": "see /home" + "/someone/x"}, "absolute path"),
    "unfinished work": ({"pto/ir/a.hpp": CPP + "// TO" + "DO: rest\n"}, "unfinished"),
    "Python's lock": (
        {"pto/bindings/a.cpp": CPP + "nb::gil_scoped_release unlocked;\n"},
        "gil_scoped_release takes Python's lock",
    ),
    "intrinsics": ({"pto/ir/a.cpp": CPP + "#include <immintrin.h>\n"}, "147 ms"),
    "a std header in isa": ({"pto/isa/a.hpp": CPP + "#include <cmath>\n"}, "<cmath>"),
    "a page of rooms that differs": (
        {"docs/architecture.md": "| `ir` | graphs | `isa` |\n"},
        "ir: ['isa'] / ['base',",
    ),
    "isa uses base": ({"pto/isa/a.hpp": CPP + '#include "pto/base/dims.hpp"\n'}, "isa uses"),
    "ir uses codegen": ({"pto/ir/a.cpp": CPP + '#include "pto/codegen/a.hpp"\n'}, "ir uses"),
    "ir uses launch": ({"pto/ir/a.cpp": CPP + '#include "pto/launch/pool.hpp"\n'}, "ir uses"),
    "codegen uses a tile": ({"pto/codegen/a.cpp": CPP + '#include "pto/isa/a.hpp"\n'}, "codegen"),
    "the umbrella in op": (
        {"pto/operators/a.cpp": CPP + "#include <pto/pto-inst.hpp>\n"},
        "operators uses",
    ),
    "Python imports upwards": (
        {"pto/language/a.py": PY + "from pto.adapters import torch\n"},
        "language uses pto.adapters.torch",
    ),
    "a relative import upwards": (
        {"pto/language/a.py": PY + "from ..ops import gelu\n"},
        "language uses pto.ops.gelu",
    ),
    "an import by name upwards": (
        {
            "pto/language/a.py": PY
            + "import importlib\nimportlib.import_module('pto.adapters.jax')\n"
        },
        "language uses pto.adapters.jax",
    ),
    "an import by a computed name": (
        {"pto/ir/a.py": PY + "import importlib\nimportlib.import_module(f'pto.{name}')\n"},
        "ir uses pto.?",
    ),
    "a file too many": (
        {f"pto/studio/{name}.py": PY + f"{name} = 1\n" * 390 for name in "abc"},
        f"budget of this room is {rooms.BUDGETS['studio']}",
    ),
    "the facade inside": ({"pto/ops/a.py": PY + "import pto\n"}, "ops uses pto"),
    "a framework in the core": ({"pto/language/a.py": PY + "import torch\n"}, "imports torch"),
    "a comment that opens with a fragment": (
        {"pto/ir/a.hpp": CPP + "// Of a run: what it touches.\nint f();\n"},
        "opens with 'Of'",
    ),
    "a second paragraph that does": (
        {"compat/a.h": CPP + "// Runs.\n//\n// Those that wait go on.\n"},
        "opens with 'Those'",
    ),
    "a comment behind code that does": (
        {"pto/runtime.h": CPP + "int n;  // What is left\n"},
        "opens with 'What'",
    ),
    "a docstring that does": (
        {"pto/isa/a.py": PY + 'def f():\n    """Whose rows."""\n'},
        "a.py:3: a comment opens with 'Whose'",
    ),
    "data without a seed": (
        {"tests/a.py": PY + "import torch\nX = {'a': torch.randn(3)}\ntorch.manual_seed(0)\n"},
        "a.py:3: torch.randn() draws",
    ),
    "data of a decorator without a seed": (
        {"tests/a.py": PY + "@cases(np.random.uniform(2))\ndef test(x):\n    pass\n"},
        "np.random.uniform() draws",
    ),
    "a generator without a seed": (
        {"tests/a.py": PY + "RNG = np.random.default_rng()\n"},
        "np.random.default_rng() draws",
    ),
    "two classes of one name": (
        {
            "pto/ir/a.hpp": CPP + "namespace pto {\nstruct Step {\n  int a;\n};\n}\n",
            "pto/codegen/b.cpp": CPP + "namespace pto {\nenum class Step : int { A };\n}\n",
        },
        "pto/ir/a.hpp:3: a second class pto::Step, the first is at pto/codegen/b.cpp:3",
    ),
    "a class within a class of another file": (
        {
            "pto/ir/a.hpp": CPP + "namespace pto {\nclass A final {\n  struct B {};\n};\n}\n",
            "pto/ir/b.hpp": CPP + "namespace pto {\nstruct alignas(64) A::B {\n};\n}\n",
        },
        "a second class pto::A::B",
    ),
    "a fix that names a list elsewhere": (
        {
            "pto/ir/a.cpp": CPP
            + 'void f() { fail({"x is 3", "of two kinds", "take one "\n"of these"}); }\n'
        },
        "a.cpp:2: a text says 'take one of these'",
    ),
    "a fix that names nothing": (
        {"pto/ir/a.py": PY + 'f = g("x is 3", "it is a name", "pass one")\n'},
        "says 'pass one'",
    ),
    "an article before any type": (
        {"pto/ir/a.py": PY + 'text = f"x is a {type(x).__name__}"\n'},
        "is a {type(x).__name__}",
    ),
    "an article before any given type": (
        {"pto/ir/a.hpp": CPP + 'auto text = "x is a " + given + ", not so";\n'},
        "is a {given}",
    ),
    "a wrong article": ({"compat/a.h": CPP + 'auto text = "x is a int";\n'}, "says 'a '"),
    "another wrong article": ({"pto/ir/a.py": PY + 't = "an bool", 3\n'}, "says 'an '"),
    "one in the plural": ({"pto/ir/a.py": PY + 't = f"got 1 tasks of {n}"\n'}, "says '1 tasks'"),
    "an actor who is nobody": (
        {"pto/ir/a.py": PY + 't = "a tensor that nobody made"\n'},
        "says 'that nobody made'",
    ),
    "two files alike": (
        {"pto/ir/a.hpp": CPP + SHARED_LINES, "pto/ir/b.hpp": CPP + SHARED_LINES + "int more();\n"},
        "stand in",
    ),
}


def test_files_that_use_each_other_are_reported(tmp_path):
    two = {
        "pto/ir/a.hpp": CPP + '#include "pto/ir/b.hpp"\n',
        "pto/ir/b.hpp": CPP + '#include "pto/ir/c.hpp"\n',
        "pto/ir/c.hpp": CPP + '#include "pto/ir/a.hpp"\n',
        "pto/ir/outside.cpp": CPP + '#include "pto/ir/a.hpp"\n',
        "pto/language/a.py": PY + "def f():\n    from pto.language.b import g\n",
        "pto/language/b.py": PY + "from pto.language import a\n",
        "pto/language/c.py": PY
        + "from typing import TYPE_CHECKING\nfrom pto.language import d\n"
        + "if TYPE_CHECKING:\n    from pto.language.d import D\n",
        "pto/language/d.py": PY
        + "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from pto.language.c import C\n",
    }
    found = [text.partition(":")[0] for text in offences(tmp_path, two)]
    assert found == [*(f"pto/ir/{n}.hpp" for n in "abc"), *(f"pto/language/{n}.py" for n in "ab")]


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_rule_is_reported_with_why_and_fix(name, tmp_path):
    files, expected = BROKEN[name]
    found = offences(tmp_path, files)
    assert len(found) == 1, found
    assert expected in found[0]
    assert "why: " in found[0] and "fix: " in found[0]


ALLOWED = {
    "pto/ir/a.cpp": CPP + '#include <vector>\n#include "pto/isa/instructions.def"\n',
    "pto/compiler/a.cpp": CPP + '#include "pto/base/dims.hpp"\n#include "pto/abi/host.h"\n',
    "pto/isa/add_test.cpp": CPP + '#include <gtest/gtest.h>\n#include "pto/isa/add.hpp"\n',
    "pto/language/a.py": PY + "from pto import _core\nfrom pto.language import trace\n",
    "pto/adapters/torch/a.py": PY + "import torch\n",
    "pto/__init__.py": PY + "from pto.ops import gelu\n",
    "tests/a.py": PY + "# Of no room.\nimport pto, torch\n",
    "tests/b.py": PY
    + "X = np.random.default_rng(0).random(3), torch.rand(3, generator=draws)\n"
    + "F = lambda: torch.rand(3)\ndef f():\n    return random.random()\n",
    "tests/c.py": PY + "torch.manual_seed(0)\nX = torch.rand(3)\n",
    "pto/ir/prose.hpp": CPP
    + "// Keeps the data\n// Of a run; Whose, What.\nint what();  // of a run\n",
    "pto/ir/prose.py": PY
    + 'def f():\n    """Runs it.\n    Of one.\n    """\n    return "# What "\n',
    "pto/ir/classes.hpp": CPP + "namespace pto {\ntemplate <class T>\nstruct A {};\nstruct B;\n}\n",
    "pto/ir/other_classes.cpp": CPP
    + "namespace pto {\nnamespace {\nclass A {};\n}\ntemplate <>\nstruct A<int> {};\n"
    + "void f() {\n  struct B {};\n}\nnamespace inner {\nstruct A {};\n}\n}\n",
    "pto/ir/text.cpp": CPP
    + 'auto t = "known: " + joined(names), "use one of these";  // an int, "a int"\n'
    + 'auto u = "an f32, a u8, an hour, and a of b; a one";\n',
    "pto/ir/text.py": PY
    + 'def f():\n    """A int."""\n    g(f"known: {names}", "take one of these", "21 tasks")\n',
    "bench/a.cpp": CPP + "#include <immintrin.h>\n",
    "pto/ir/short.cpp": CPP + 'const char* s = "{";\n' + "int f() {\n  return 1;\n}\n" * 9,
}


def test_what_the_design_allows_is_not_reported(tmp_path):
    assert offences(tmp_path, ALLOWED) == []
