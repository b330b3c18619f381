# SPDX-License-Identifier: Apache-2.0
"""Writes docs/functions.md, the reference of every function of the language: ./dev docs

    python docs/functions.py -      # prints it

A docstring says what a function does, and may end with lines that a person must write:

    Formula: min(max(x, low), high)
    Shapes: any that broadcast
    Example: pto.clip(x, -0.5, 1)

An example is an expression, or below its line the body of a function, over the arrays of probes.py.
Without these lines the formula is that of the instruction table, or the first sentence; the shapes
are those that probes.py finds to be accepted; and the example is a call with the first arrays that
give no NaN. Element types, results and gradients are asked from the language: probes.py.
"""

import functools
import inspect
import os
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

DOCS = Path(__file__).resolve().parent
sys.path[:0] = [str(DOCS.parent), str(DOCS)]

import probes  # noqa: E402

import pto  # noqa: E402
from pto import _core  # noqa: E402
from pto.language import operands  # noqa: E402
from pto.language.tensor import Tensor  # noqa: E402

GROUPS = {
    "Arithmetic": "abs neg add sub mul div floor_divide remainder fmod pow square reciprocal sqrt "
    "rsqrt sign clip clamp maximum minimum lerp",
    "Exponentials and logarithms": "exp exp2 expm1 log log2 log10 log1p logaddexp logsumexp",
    "Angles": "sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh",
    "Rounding": "floor ceil round trunc frac",
    "Comparisons and conditions": "eq ne lt le gt ge where masked_fill isnan isinf isfinite "
    "nan_to_num",
    "Bits": "bitwise_and bitwise_or bitwise_xor bitwise_not bitwise_left_shift "
    "bitwise_right_shift logical_and logical_or logical_not",
    "Reductions": "sum prod mean var std amax amin argmax argmin any all count_nonzero sum_to "
    "row_max_single row_sum_single",
    "Scans and order": "cumsum cumprod cummax cummin sort argsort topk",
    "Products": "matmul scaled_mm",
    "Neural networks": "relu relu6 leaky_relu elu gelu silu mish sigmoid logsigmoid hardsigmoid "
    "hardswish softplus erf softmax log_softmax online_softmax layer_norm rms_norm",
    "Views and shapes": "reshape flatten squeeze unsqueeze transpose permute broadcast_to "
    "broadcast_like expand_clone clone concat stack view assemble move pad fillpad flip tril triu",
    "Positions": "gather take_along_dim index_select scatter scatter_add scatter_update index_add "
    "scatter_ scatter_add_ index_add_ one_hot",
    "New tensors": "zeros ones full zeros_like ones_like full_like arange eye tensor",
    "Casts and quantised numbers": "cast quantize quantize_by dequantize",
    "Control": "loop loop_unroll is_loop_begin is_loop_end cond check min max ceildiv "
    "symbolic_scalar",
    "Hints": "leaf cut options function set_semantic_label set_vec_tile_shapes "
    "get_vec_tile_shapes set_cube_tile_shapes get_cube_tile_shapes",
    "Looking at values": "print breakpoint",
    "Around functions": "jit op tile_op cpp_kernel package dtype interpret interpret_with_bounds "
    "verify health tune device_synchronize",
    "Shapes of operators": "require_equal broadcast size_broadcast size_max size_min",
}
OUTSIDE = ("Around functions", "Shapes of operators")  # their examples stand outside of functions
WITHOUT_NUMBERS = ("Hints", "Looking at values", "Around functions")  # which compute none
MEMBERS = {  # of tensors, which are no function of pto, as the page spells them
    "__getitem__": "x[key]", "__setitem__": "x[key] = value", "__pos__": "+x",
    "__divmod__": "divmod(x, y)", "float": "x.float", "size": "x.size",
}  # fmt: skip
ABOUT = {  # what a tensor says of itself, and what whole numbers of a program have
    "x.shape": "the sizes, each an int, or a number that the call knows",
    "x.ndim": "the number of axes", "x.dim()": "the same", "x.dtype": "the element type",
    "x.valid_shape": "the shape: every element exists",
    "x.T.shape": "`x.T` has the axes in the opposite order",
    "x.mT.shape": "`x.mT` has the last two axes exchanged",
    "x.shape[1].min(2)": "[min](#min) of two whole numbers",
    "x.shape[1].max(2)": "[max](#max) of two whole numbers",
    "round(i[0])": "the number itself", "i[0].as_variable()": "the number itself",
}  # fmt: skip
SYMBOLS = {"add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%",
           "pow": "**", "matmul": "@", "and": "&", "or": "|", "xor": "^", "lshift": "<<",
           "rshift": ">>", "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">",
           "ge": ">="}  # fmt: skip
PREFIXES = {"__neg__": "-x", "__invert__": "~x", "__abs__": "abs(x)"}
BY_NAME = {
    "move": "move",
    "view": "view",
    "__matmul__": "matmul",
    "__neg__": "neg",
    "__abs__": "abs",
}  # methods with code of their own
ROWS = {row[0]: row[4] for row in _core.operations()}
INTRO = """# Functions of the language

The functions of `pto` for functions under `@pto.jit`, and those around them: signature, element
types, shapes, formula, gradient, and an example with its result. How they work together, in loops
and branches, is told in [The tile language](language.md).

Types are those of the arrays in the example; in brackets, or behind a semicolon, stand those of the
result. The gradient is that of the sum of the results, or the reason why there is none. `Axes` is
an axis, several, or None for all; `Operand` a tensor, or one number for all elements; `Whole` a
size, a position or a count; `Shape` one of them or several; `Key` an index, as in `x[0, 1:]`;
`Kind` an element type, as [dtype](#dtype) takes it.

The examples stand in a function under `@pto.jit` with these arrays as its parameters, and those of
the last two groups outside of it. `./dev docs` runs them by the interpreter, and asks the language
for types and gradients.

```python
import numpy as np
import pto

{arrays}```
"""
OF_OUTSIDE = {"types": "none of its own", "gradient": "none: it computes no tensor of a function"}


def public() -> list[str]:
    """The names of the functions of the language in `pto`."""
    found = []
    for name in dir(pto):
        if name in ("torch", "tensorflow", "jax", "onnxruntime", "mindspore") or name[0].isupper():
            continue
        value = getattr(pto, name)
        if callable(value) and (getattr(value, "__module__", "") or "").startswith("pto.language"):
            found.append(name)
    return found


def facts(doc: str | None) -> tuple[str, dict[str, str]]:
    """(the text of a docstring, its lines that a person must write, by their words)."""
    parts = re.split(r"^(Formula|Shapes|Example):[ \n]", inspect.cleandoc(doc or ""), flags=re.M)
    given = {word: textwrap.dedent(text).strip("\n").rstrip()
             for word, text in zip(parts[1::2], parts[2::2], strict=True)}  # fmt: skip
    return parts[0].strip(), given


def spelled(member: str) -> str:
    """How a program writes a member of a tensor, "x + y" for `__add__`; "" where it does not."""
    if member in PREFIXES:
        return PREFIXES[member]
    if member.startswith("__"):
        symbol = SYMBOLS.get(member.strip("_"))
        return f"x {symbol} y" if symbol else ""
    return "" if member.startswith("_") or member in MEMBERS else f"x.{member}"


def methods_of(function: Callable) -> list[str]:
    """How tensors spell a function: its methods and operators."""
    members = [member for member, value in vars(Tensor).items()
               if value is function or member in BY_NAME
               and getattr(pto, BY_NAME[member]) is function]  # fmt: skip
    return sorted(f"`{found}`" for member in members if (found := spelled(member)))


@functools.cache
def aliases() -> list[tuple[str, str]]:
    """Unions of pto.language.operands and their names; none stands in a later one."""
    names = ("Key", "Shape", "Operand", "Whole", "Kind", "Axes")
    return [(without_modules(str(getattr(operands, name))), name) for name in names]


def without_modules(text: str) -> str:
    return re.sub(r"\b(?:[a-z_]+\.)+(?=[A-Z])", "", text)  # pto.language.tensor.Tensor


def signature(name: str, value: Callable) -> str:
    """The signature, in a line for each parameter where it is long."""
    text = without_modules(str(inspect.signature(value)))
    text = re.sub(r"<(\w+\.\w+): [^>]*>", r"\1", text)  # <CastMode.NONE: 'none'>
    for union, short in aliases():
        text = text.replace(union, short)
    if len(text) + len(name) > 95:
        inside = re.split(r", (?![^\[]*\])", text[1 : text.rindex(")")])
        text = "(\n    " + ",\n    ".join(inside) + ",\n" + text[text.rindex(")") :]
    return f"{name}{text}"


class Entry:
    """One function of the page; raises where a part is missing."""

    def __init__(self, name: str, value: Any, group: str = ""):
        self.name, self.value, self.group = name, value, group
        self.about, self.given = facts(value.__doc__)
        if name.endswith("_") and hasattr(pto, name):  # scatter_ writes what scatter returns
            base = Entry(name[:-1], getattr(pto, name[:-1]))
            call = base.given["Example"].replace(f"pto.{base.name}(x", f"pto.{name}(z")
            example = f"z = x.clone()\n{call}\nreturn z"
            self.given = {"Shapes": base.given["Shapes"], "Example": example}

    def example(self) -> probes.Example:
        if code := self.given.get("Example"):
            return probes.Example(code)
        parameters = inspect.signature(self.value).parameters.values()
        needed = [
            one.name
            for one in parameters
            if one.default is one.empty or (one.name == "dim" and one.default is None)
        ]
        count = sum(name != "dim" for name in needed)
        for arrays in probes.CANDIDATES if count <= 2 else ():
            left = iter(arrays)
            given = ["1" if name == "dim" else next(left) for name in needed]
            found = probes.Example(f"pto.{self.name}({', '.join(given)})")
            try:
                values = probes.taken_apart(found.run()[0])[0]
            except pto.Error:
                continue
            if not any(np.isnan(np.asarray(one, np.float64)).any() for one in values):
                return found
        raise ValueError(
            f"{self.name}: the arrays of probes.py do not fit; write a line `Example:` with a call "
            "in its docstring"
        )

    def shapes(self, example: probes.Example) -> str:
        if "Shapes" in self.given:
            return self.given["Shapes"]
        kind = str(pto.dtype(probes.KNOWN[example.parameters[0]].dtype))
        parameters = inspect.signature(self.value).parameters
        rules = probes.rules(self.value, kind, len(example.arrays), parameters)
        if found := next(rules, None):
            return found
        raise ValueError(
            f"{self.name}: no rule of probes.py about shapes holds; write a line `Shapes:` in its "
            "docstring"
        )

    def formula(self) -> str:
        if "Formula" in self.given:
            return f"`{self.given['Formula']}`"
        if self.name in ROWS:
            first = next(iter(inspect.signature(self.value).parameters))
            return "`" + re.sub(r"\ba\b(?!xis)", first, ROWS[self.name]) + "`"
        if self.group in WITHOUT_NUMBERS:
            return "none: it computes no numbers of its own"
        first, _, self.about = self.about.partition("\n\n")
        return " ".join(first.split())

    def lines(self) -> Iterator[str]:
        """The part of the page below the heading."""
        yield f"```text\n{signature(self.name, self.value)}\n```\n"
        formula = self.formula()
        if self.about:
            yield re.sub(r"docs/((\w+)\.md)", r"[\2](\1)", self.about) + "\n"
        if self.group in OUTSIDE:
            if not (code := self.given.get("Example", "")):
                raise ValueError(
                    f"{self.name}: it runs outside of a traced function; write lines below "
                    "`Example:` in its docstring"
                )
            result, printed = probes.outside(code), ""
            yield parts(formula, self.given.get("Shapes", "none of its own"), **OF_OUTSIDE)
        else:
            example = self.example()
            code = example.code
            result, printed = example.result()
            types = "; ".join(filter(None, [example.types(), self.chosen_types(example)]))
            yield parts(formula, self.shapes(example), types or "none", example.gradient(),
                        ", ".join(methods_of(self.value)))  # fmt: skip
        yield f"```text\n{probes.session(code, printed, result)}\n```\n"

    def chosen_types(self, example: probes.Example) -> str:
        """The element types that a parameter of the function may name."""
        parameters = [*inspect.signature(self.value).parameters]
        for name in ("dtype", "out_dtype"):
            if name in parameters and probes.is_expression(example.code):
                found = example.accepted(name, parameters.index(name))
                return f"`{name}`: {probes.named(found)}"
        return ""


def parts(formula: str, shapes: str, types: str, gradient: str, also: str = "") -> str:
    """The lines between the words of a function and its example."""
    named = {"Also": also, "Types": types, "Shapes": shapes, "Formula": formula,
             "Gradient": gradient}  # fmt: skip
    return "".join(f"- **{word}** {text}\n" for word, text in named.items() if text)


def members() -> Iterator[str]:
    """The part about members of tensors that are no functions of pto."""
    yield "## Members of tensors\n"
    yield "| form | gives | of the arrays above |\n|---|---|---|"
    for code, words in ABOUT.items():
        printed = probes.Example(f"pto.print({code})\nreturn x").run()[1].strip()
        yield f"| `{code}` | {words} | `{printed}` |"
    yield "\n`x += y` and its like stand for `x = x + y`. `pto.Tensor[8, pto.DYN]` is an"
    yield "annotation: [Declarations](language.md#declarations). `old`, `put` and `value` serve"
    yield "tracing.\n"
    for name, heading in MEMBERS.items():
        yield f"### {heading}\n"
        yield from Entry(f"Tensor.{name}", vars(Tensor)[name]).lines()


def anchor(heading: str) -> str:
    """The id that a heading gets from GitHub and MkDocs."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def page() -> str:
    """The text of docs/functions.md."""
    groups = {title: names.split() for title, names in GROUPS.items()}
    listed = [name for names in groups.values() for name in names]
    if wrong := sorted({*listed} ^ {*public()}):
        raise ValueError(
            f"the groups of docs/functions.py and pto differ in {', '.join(wrong)}: every function "
            "of the language stands in one group; add the name to GROUPS, or take it out"
        )
    contents, bodies = [], []
    for title, names in groups.items():
        links = ", ".join(f"[{name}](#{anchor(name)})" for name in names)
        contents.append(f"- [{title}](#{anchor(title)}): {links}")
        bodies.append(f"## {title}\n")
        known: dict[int, str] = {}
        for name in names:
            value = getattr(pto, name)
            bodies.append(f"### {name}\n")
            if (other := known.setdefault(id(value), name)) != name:
                bodies.append(f"Another name of [{other}](#{anchor(other)}).\n")
                continue
            bodies += Entry(name, value, title).lines()
    contents.append("- [Members of tensors](#members-of-tensors)")
    head = INTRO.format(arrays=probes.ARRAYS)
    return "\n".join([head, *contents, "", *bodies, *members()])


def main(arguments: list[str]) -> int:
    os.environ["PYTHONBREAKPOINT"] = "0"  # pto.breakpoint passes over its line
    text = page()
    if arguments == ["-"]:
        sys.stdout.write(text)
    else:
        (DOCS / "functions.md").write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
