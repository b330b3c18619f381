# SPDX-License-Identifier: Apache-2.0
"""The instruction set as data: every form of every instruction, from the two tables.

    >>> [form.operands for form in forms("TADDS")]
    ['d, a, scalar']

`instructions.def` holds the instructions that compute one value an element, `forms.def` the others
and further forms. Documentation and the coverage test read both through this module.
"""

import re
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
INTEGER = "i8 u8 i16 u16 i32 u32 i64 u64"
SETS = {
    "float": "f16 bf16 f32",
    "integer": INTEGER,
    "number": f"f16 bf16 f32 {INTEGER}",
    "word": "i8 u8 i16 u16 i32 u32 f16 bf16 f32",
    "any": f"f16 bf16 f32 f64 {INTEGER}",
}
VALUE_SETS = {"kFloat": "{float} f64", "kInteger": "{integer}"}  # others: {any}


@dataclass(frozen=True)
class Form:
    """One way to call an instruction."""

    mnemonic: str
    operands: str  # as the header writes them; temporaries in brackets
    types: tuple[str, ...]  # the tiles', joined with colons, written once where all are equal
    meaning: str
    difference: str  # from the public documentation or simulator, and why; or ""
    header: str
    family: str


def rows(table: str) -> list[list[str]]:
    """Every row of a table as [macro, argument, ...]; quoted arguments lose their quotes."""
    text = (FOLDER / table).read_text()
    body = re.sub(r"^\s*//.*|//[^\"\n]*$", "", text, flags=re.M).split("#endif")[-1]
    body = body.split("#undef")[0]
    found, end = [], 0
    for match in re.finditer(r"(PTO_\w+)\(", body):
        if match.start() < end:
            continue  # a part of the row before
        arguments, end = _arguments(body, match.end())
        found.append([match.group(1), *arguments])
    return found


def _arguments(body: str, at: int) -> tuple[list[str], int]:
    depth, start, quoted, arguments = 1, at, False, []
    while depth:
        char = body[at]
        quoted ^= char == '"' and body[at - 1] != "\\"
        if not quoted:
            depth += (char == "(") - (char == ")")
            if (char == "," and depth == 1) or depth == 0:
                arguments.append(_unquoted(body[start:at]))
                start = at + 1
        at += 1
    return arguments, at


def _unquoted(argument: str) -> str:
    """Returns the text of a literal, adjacent ones joined; anything else as it stands."""
    argument = argument.strip()
    if argument.startswith('"'):
        return "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', argument)).replace('\\"', '"')
    return argument


def types_of(text: str) -> tuple[str, ...]:
    """Lists the combinations that a types column stands for.

    >>> types_of("u8:T:T | T=f32 f16")
    ('u8:f32:f32', 'u8:f16:f16')
    """
    text = re.sub(r"\{(\w+)\}", lambda match: SETS[match.group(1)], text)
    patterns, _, values = (part.strip() for part in text.partition("| T="))
    found = []
    for pattern in patterns.split():
        for value in values.split() if re.search(r"\bT\b", pattern) else [""]:
            parts = re.sub(r"\bT\b", value, pattern).split(":")
            found.append(parts[0] if len(set(parts)) == 1 else ":".join(parts))
    return tuple(dict.fromkeys(found))


def forms(mnemonic: str = "") -> list[Form]:
    """Lists every form, in the order of the tables; or those of one named instruction."""
    return [f for f in [*_value_forms(), *_other_forms()] if mnemonic in ("", f.mnemonic)]


def _notes() -> dict[str, str]:
    """Maps each mnemonic to the difference of its rows from the public documentation."""
    return {
        name: text
        for macro, *a in rows("forms.def")
        if macro == "PTO_NOTE"
        for names, text in [a]
        for name in names.split()
    }


def _value_forms() -> list[Form]:
    found, values, notes = [], {}, _notes()

    def add(name, operands, types, meaning, header, family):
        types = types_of(VALUE_SETS.get(types, "{any}"))
        note = notes.get(name, "")
        found.append(Form(name, operands, types, meaning, note, header, family))

    for macro, *a in rows("instructions.def"):
        kind = macro.removeprefix("PTO_").removesuffix("_OURS")
        if kind in ("UNARY", "BINARY"):
            a = [a[0], a[2], a[3], a[4]]
        if kind in ("UNARY", "BINARY", "BINARY_ONLY", "TERNARY", "ACCUMULATE"):
            operands = {"UNARY": "d, a", "TERNARY": "d, a, b, c"}.get(kind, "d, a, b")
            value = re.sub(r"\bc\b", "d", a[1]) if kind == "ACCUMULATE" else a[1]
            values[a[0]] = (value, a[3])
            add(a[0], operands, a[3], f"d = {value}", "elementwise/elementwise.hpp", "Element-wise")
        elif kind == "SCALAR":
            value, types = values[a[1]]
            meaning = "d = " + re.sub(r"\bb\b", "scalar", value)
            add(
                a[0],
                "d, a, scalar",
                types,
                meaning,
                "elementwise/elementwise.hpp",
                "Tile and scalar",
            )
        elif kind in ("ROW_EXPAND", "COL_EXPAND"):
            value, types = values[a[1]]
            which = "a value a row" if kind == "ROW_EXPAND" else "one row"
            meaning = f"d = {value}, where one operand is {which}"
            add(a[0], "d, a, b", types, meaning, "elementwise/expand.hpp", "Broadcast")
        elif kind == "REDUCE":
            for name, axis in ((a[0], "row"), (a[1], "column")):
                add(name, "d, s", a[7], f"{a[3]} of each {axis}", "reduce/reduce.hpp", "Reduction")
            meaning = f"d = {a[4]} where both are valid, else the valid one, else 0"
            add(a[2], "d, a, b", a[7], meaning, "elementwise/partial.hpp", "Partly valid tiles")
    return found


def _other_forms() -> list[Form]:
    found, header, family = [], "", ""
    for macro, *a in rows("forms.def"):
        if macro == "PTO_FAMILY":
            header, family = a
        elif macro == "PTO_FORM":
            found.append(Form(a[0], a[1], types_of(a[2]), a[3], a[4], header, family))
    return found
