# SPDX-License-Identifier: Apache-2.0
"""Writes what type checkers read in place of names that load at their first use.

pto/__init__.pyi has every name of `pto` with the module that defines it; pto/ops/__init__.pyi has
the operators as functions, from their schemas, and so has pto/models/__init__.pyi; pto/torch.pyi
and its siblings are the adapters, which have the user's operators too.
`./dev docs` runs it. Python itself says the same: inspect.signature(pto.ops.gelu).
"""

import ast
import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import pto
from pto.language.tensor import Tensor

PTO = Path(__file__).resolve().parent.parent / "pto"
ADAPTERS = ("torch", "tensorflow", "jax", "onnxruntime", "mindspore")
ROOMS = ("aten", "comm", "models", "ops", "testing")
PROPERTIES = {
    "dtype": "DType",
    "ndim": "int",
    "T": "Tensor",
    "mT": "Tensor",
    "shape": "tuple[Any, ...]",
}
# Members that need the values of a traced tensor: an error at run time, and to a type checker.
NO_DATA = ("__int__", "__float__", "__index__", "__complex__", "item", "tolist", "__array__",
           "__dlpack__", "numpy", "__bool__", "__iter__", "__len__", "__init__")  # fmt: skip
ORDER, OBJECT = ("__lt__", "__le__", "__gt__", "__ge__"), {*vars(object), "__getattr__"}
LICENCE = "# SPDX-License-Identifier: Apache-2.0\n"
HEAD = (
    LICENCE
    + """# Written by ./dev docs from the operators' schemas; arrays are those of any library.
from collections.abc import Sequence
from typing import Any

"""
)


TENSOR = (
    LICENCE
    + """# Written by ./dev docs from the class as pto has filled it.
from typing import Any

from pto.language.dtypes import DType

def other_name(name: str) -> str: ...

class Tensor:"""
)


def text_of(annotation: Any) -> str:
    if annotation is Any:
        return "Any"
    return annotation.__name__ if isinstance(annotation, type) else str(annotation).replace(
        "collections.abc.", "").replace("typing.", "")  # fmt: skip


def definition(name: str, operator: Any) -> str:
    """One operator as a function of a stub."""
    parts, star = [], False
    for one in inspect.signature(operator).parameters.values():
        if one.kind is one.KEYWORD_ONLY and not star:
            parts.append("*")
            star = True
        default = "" if one.default is one.empty else " = ..."
        parts.append(f"{one.name}: {text_of(one.annotation)}{default}")
    lines = (operator.__doc__ or "").strip().splitlines()
    lines = [f'    """{lines[0]}', *(line.rstrip() for line in lines[1:])] if lines else ['    """']
    if len(lines) == 1:
        lines[0] += '"""'
    else:
        lines.append('    """')
    head = f"def {name}({', '.join(parts)}) -> Any:"
    if len(head) > 100:
        head = "\n".join([f"def {name}(", *(f"    {part}," for part in parts), ") -> Any:"])
    return "\n".join([head, *lines])


def operators(module: Any) -> str:
    """The stub of a module of operators."""
    parts = []
    for name in module.__all__:
        operator = getattr(module, name)
        parts.append(definition(name, operator))
        if operator.in_place is not None:
            parts.append(definition(f"{name}_", operator.in_place))
    return HEAD + "\n\n".join(parts) + "\n"


def tensor() -> str:
    """The stub of pto.Tensor, whose operators and methods register themselves."""
    lines = []
    for name, member in sorted(vars(Tensor).items()):
        if name in NO_DATA or (name.startswith("_") and not name.startswith("__")):
            continue
        if isinstance(member, property):
            lines += [
                "    @property",
                f"    def {name}(self) -> {PROPERTIES.get(name, 'Any')}: ...",
            ]
        elif inspect.isfunction(member) and (name in ORDER or name not in OBJECT):
            lines.append(
                f"    def {name}({parameters_of(member)}) -> {returned(name, member)}: ..."
            )
    compared = [f"    def {name}(self, other: Any) -> Tensor: ...  # type: ignore[override]"
                for name in ("__eq__", "__ne__")]  # fmt: skip
    about = f'    """{(Tensor.__doc__ or "").strip()}"""\n'
    known = "    def __class_getitem__(cls, sizes: Any) -> Any: ..."
    body = "\n".join([about, known, *compared, *lines])
    return f"{TENSOR}\n{body}\n\nclass ShortPart(Tensor): ...\n"


def parameters_of(function: Any) -> str:
    """The parameters of a method, each of any type, the first one `self`."""
    found, star = ["self"], False
    for one in [*inspect.signature(function).parameters.values()][1:]:
        if one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD):
            found.append(f"{'*' * (1 + (one.kind is one.VAR_KEYWORD))}{one.name}: Any")
            star = star or one.kind is one.VAR_POSITIONAL
            continue
        if one.kind is one.KEYWORD_ONLY and not star:
            found.append("*")
            star = True
        found.append(f"{one.name}: Any" + ("" if one.default is one.empty else " = ..."))
    return ", ".join(found)


def returned(name: str, function: Any) -> str:
    """The type that a method returns; operators return tensors."""
    known = str(inspect.signature(function).return_annotation)
    if name == "__setitem__":
        return "None"
    is_tensor = "Tensor" in known and "tuple" not in known
    return "Tensor" if is_tensor or name.startswith("__") else "Any"


def imported(file: Path) -> dict[str, str]:
    """The module of each name that a file imports from others of pto."""
    found = {}
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("pto."):
            found |= dict.fromkeys((one.name for one in node.names), node.module)
    return found


def facade() -> str:
    """The stub of pto: each name from where it is defined."""
    of = imported(PTO / "language/__init__.py") | imported(PTO / "__init__.py")
    of["Tensor"] = "pto.language.tensor"
    of |= dict.fromkeys(ADAPTERS + ROOMS, "pto")
    names = sorted(set(dir(pto)), key=lambda name: (of[name], name))
    lines = [f"from {of[name]} import {name} as {name}" for name in names if name != "Constant"]
    lines += ["", "Constant = Tensor  # a parameter whose elements stay as they are"]
    return LICENCE + "\n".join([*lines, "", "__version__: str", ""])


def files() -> dict[Path, str]:
    """The text of each stub."""
    texts = {PTO / "__init__.pyi": facade(), PTO / "language/tensor.pyi": tensor()}
    for module in (pto.ops, pto.models):
        texts[Path(module.__file__).with_suffix(".pyi")] = operators(module)
    for name in ADAPTERS:
        text = f"from pto.adapters.{name} import *  # noqa: F403\n"
        if name != "onnxruntime":  # whose operators are nodes of a model
            text = f"from typing import Any\n{text}def __getattr__(name: str) -> Any: ...\n"
        texts[PTO / f"{name}.pyi"] = LICENCE + text
    return {path: formatted(path, text) for path, text in texts.items()}


def formatted(path: Path, text: str) -> str:
    """The text as ./dev fmt leaves it."""
    for action in (["check", "--fix", "--exit-zero", "-q"], ["format"]):
        command = [sys.executable, "-m", "ruff", *action, "--stdin-filename", str(path), "-"]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
        text = done.stdout
    return text


if __name__ == "__main__":
    for path, text in files().items():
        path.write_text(text)
        print(f"wrote pto/{path.relative_to(PTO)}")
