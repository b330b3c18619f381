# SPDX-License-Identifier: Apache-2.0
"""Writes what type checkers read in place of names that load at their first use.

pto/__init__.pyi has every name of `pto` with the module that defines it, and the operations of the
language with their signatures, once for traced tensors and once for arrays; pto/ops/__init__.pyi
has the operators as functions, from their schemas, and so has pto/models/__init__.pyi;
pto/torch.pyi and its siblings are the adapters, which have these and the user's operators.
`./dev docs` runs it. Python itself says the same: inspect.signature(pto.ops.gelu).
"""

import ast
import functools
import inspect
import re
import subprocess
import sys
from collections.abc import Sequence
from operator import or_
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin

import pto
from pto.adapters.record import Record
from pto.language import operands, tile_hints
from pto.language.tensor import Tensor

PTO = Path(__file__).resolve().parent.parent / "pto"
ADAPTERS = ("torch", "tensorflow", "jax", "onnxruntime", "mindspore")
KNOW_SIZES = ("jax", "mindspore")  # before a program runs; they refuse what does not
ROOMS = ("aten", "comm", "models", "ops", "testing")
PROPERTIES = {
    "T": "Tensor",
    "dtype": "DType",
    "mT": "Tensor",
    "ndim": "int",
    "shape": "tuple[Any, ...]",
}
# Members that need the values of a traced tensor: an error at run time, and to a type checker.
NO_DATA = ("__int__", "__float__", "__index__", "__complex__", "item", "tolist", "__array__",
           "__dlpack__", "numpy", "__bool__", "__iter__", "__len__", "__delitem__",
           "__init__")  # fmt: skip
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
import builtins
from collections.abc import Sequence
from typing import Any

from pto.language.casting import CastMode, SaturationMode
from pto.language.dtypes import DType
from pto.language.operands import Axes, Key, Kind, Operand, Shape, Whole
from pto.language.ordering import Sorted
from pto.language.quantization import Quantized

def other_name(name: str) -> str: ...

class Tensor:"""
)
FACADE = (
    LICENCE
    + """# Written by ./dev docs: the names of pto, and the signatures of its operations.
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeAlias, overload

from pto.language.operands import Array, Axes, Kind, Operand, Shape, Whole
from pto.language.ordering import Sorted
from pto.language.quantization import Quantized
from pto.language.tensor import Tensor as _Tensor
"""
)
ALIASES = """
# A parameter of a traced function: inside it is a traced tensor, a call gives it any array.
Tensor: TypeAlias = _Tensor | Any
Constant: TypeAlias = Tensor  # whose elements stay as they are

__version__: str
"""
SHARED = {name: getattr(operands, name)
          for name in ("Axes", "Key", "Kind", "Operand", "Shape", "Whole")}  # fmt: skip


def text_of(annotation: Any) -> str:
    """An annotation as a stub spells it: without modules, the unions of operands.py by name."""
    for name, union in SHARED.items():
        if annotation == union:
            return name
    members, origin = get_args(annotation), get_origin(annotation)
    if isinstance(annotation, UnionType) and type(None) in members:
        rest = functools.reduce(or_, [one for one in members if one is not type(None)])
        return f"{text_of(rest)} | None"
    if origin is Sequence:
        return f"Sequence[{text_of(members[0])}]"
    if annotation in (inspect.Parameter.empty, Any):
        return "Any"
    plain = isinstance(annotation, type) and not members
    return re.sub(r"\b(?:\w+\.)+", "", annotation.__name__ if plain else str(annotation))


def definition(name: str, operator: Any) -> str:
    """One operator as a function of a stub."""
    parts = parameters_of(operator)
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
            lines.append(method(name, member))
    compared = [f"    def {name}(self, other: Operand) -> Tensor: ...  # type: ignore[override]"
                for name in ("__eq__", "__ne__")]  # fmt: skip
    about = f'    """{(Tensor.__doc__ or "").strip()}"""\n'
    known = "    def __class_getitem__(cls, sizes: Any) -> Any: ..."
    # In the class `float` is the method x.float().
    lines = [re.sub(r"(?<!def )\bfloat\b", "builtins.float", line) for line in lines]
    body = "\n".join([about, known, *compared, *lines])
    return f"{TENSOR}\n{body}\n\nclass ShortPart(Tensor): ...\n"


def parameters_of(function: Any) -> list[str]:
    """The parameters of a function as a stub spells them; those of NAME_ are those of NAME."""
    found, star = [], False
    name = getattr(function, "__name__", "")
    function = getattr(pto.language, name[:-1], function) if name.endswith("_") else function
    for one in inspect.signature(function).parameters.values():
        stars = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
        if one.kind is one.KEYWORD_ONLY and not star:
            found.append("*")
        star = star or one.kind in (one.KEYWORD_ONLY, one.VAR_POSITIONAL)
        default = "" if one.default is one.empty else " = ..."
        found.append(f"{stars}{one.name}: {text_of(one.annotation)}{default}")
    return found


def method(name: str, function: Any) -> str:
    """A method of the stub of pto.Tensor; an operator of Python without a type gives a tensor."""
    _, *rest = parameters_of(function)
    result = text_of(inspect.signature(function).return_annotation)
    if result == "Any" and name.startswith("__"):
        result = "Tensor"
    return f"    def {name}({', '.join(['self', *rest])}) -> {result}: ..."


def runs_on_arrays(function: Any) -> bool:
    """Says whether @operation made a function, which then takes arrays too: operation.py."""
    return inspect.isfunction(function) and function.__code__.co_name == "checked"


def operation(name: str, function: Any) -> str:
    """A function of the language: on traced tensors, and with arrays in their place."""
    result = text_of(inspect.signature(function).return_annotation)
    traced = f"({', '.join(parameters_of(function))})"
    arrays = re.sub(r"\bTensor\b", "Array", traced.replace("Operand", "Array | float"))
    traced = re.sub(r"\bTensor\b", "_Tensor", f"{traced} -> {result}")
    return f"@overload\ndef {name}{traced}: ...\n@overload\ndef {name}{arrays} -> Any: ..."


def options() -> str:
    """pto.options with the parameters that its tables name."""
    kinds = {name: kind.__name__ for name, kind in tile_hints._OPTIONS.items()}
    kinds |= dict.fromkeys(tile_hints._HINTS, "Sequence[Any]") | {"semantic_label": "str"}
    given = ", ".join(f"{name}: {kind} = ..." for name, kind in kinds.items())
    return f"def options(*, {given}) -> AbstractContextManager[None]: ..."


def imported(file: Path) -> dict[str, str]:
    """The module of each name that a file imports from others of pto."""
    found = {}
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("pto."):
            found |= dict.fromkeys((one.name for one in node.names), node.module)
    return found


def facade() -> str:
    """The stub of pto: each name from where it is defined, and the operations of the language."""
    of = imported(PTO / "language/__init__.py") | imported(PTO / "__init__.py")
    of |= dict.fromkeys(ADAPTERS + ROOMS, "pto")
    names = sorted({*dir(pto)} - {"Constant", "Tensor", "options"})
    here = [name for name in names if name not in ADAPTERS and runs_on_arrays(getattr(pto, name))]
    others = sorted({*names} - {*here}, key=lambda name: (of[name], name))
    lines = [f"from {of[name]} import {name} as {name}" for name in others]
    made = [operation(name, getattr(pto, name)) for name in here]
    return FACADE + "\n".join([*lines, ALIASES, options(), *made, ""])


def files() -> dict[Path, str]:
    """The text of each stub."""
    texts = {PTO / "__init__.pyi": facade(), PTO / "language/tensor.pyi": tensor()}
    for module in (pto.ops, pto.models):
        texts[Path(module.__file__).with_suffix(".pyi")] = operators(module)
    for name in ADAPTERS:
        text = f"from pto.adapters.{name} import *  # noqa: F403\n"
        if name != "onnxruntime":  # whose operators are nodes of a model
            known = "".join(
                f"from pto.{room} import *  # noqa: F403\n" for room in ("models", "ops")
            )
            others = "def __getattr__(name: str) -> Any: ...  # operators of users\n"
            text = f"{known}{text}{others}"
            if name in KNOW_SIZES:
                text = refused() + text.replace("noqa: F403", "noqa: E402, F403")
            text = f"from typing import Any, NoReturn\n{text}"
        texts[PTO / f"{name}.pyi"] = LICENCE + text
    return {path: formatted(path, text) for path, text in texts.items()}


def refused() -> str:
    """Operators of pto.ops whose results have sizes that follow from data, as functions that take
    nothing. They stand in front of the others: type checkers keep the first of a name."""
    made = ""
    for name in pto.ops.__all__:
        if Record((operator := getattr(pto.ops, name)).index).is_bounded:
            parts = ", ".join(parameters_of(operator)).replace("Any", "NoReturn")
            made += f"def {name}({parts}) -> NoReturn: ...  # its size follows from data\n"
    return made


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
