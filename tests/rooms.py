# SPDX-License-Identifier: Apache-2.0
"""The rooms of pto/: what may use what, how large each may be, and that no files form a circle.

An arrow is an #include, an import, or an import by name (importlib). tests/tidy.py runs the rules.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator

from repository import File, Offence

# Each room may use these rooms, and what they may use. "isa/*.def" are the tables of instructions;
# "_core" is the extension module, by which Python reaches C++.
MAY_USE = {
    "abi": [],
    "base": ["abi"],
    "isa": ["abi"],
    "ir": ["base", "isa/*.def", "_core"],
    "passes": ["ir"],
    "codegen": ["ir"],
    "launch": ["base"],
    "compiler": ["passes", "codegen", "launch"],
    "operators": ["launch"],
    "tasks": ["launch", "compiler", "isa"],
    "device": ["tasks"],
    "language": ["ir", "compiler", "operators"],
    "ops": ["language", "isa"],
    "models": ["language", "ops"],
    "formulas": ["language", "ops"],
    "aten": ["operators", "formulas"],
    "graphs": ["language", "operators"],
    "adapters": ["operators", "device", "compiler", "language", "ops", "models", "aten",
                 "formulas", "graphs", "bindings"],
    "bench": ["adapters"],
    "bindings": ["isa", "compiler", "operators", "tasks"],
    "studio": [],
    "testing": ["adapters", "language"],
}  # fmt: skip
# Lines that are neither blank nor comment, tests apart; "pto": the files beside the rooms.
# A commit that raises a number says why.
BUDGETS = {
    "abi": 905,
    "adapters": 19250,
    "aten": 3545,
    "base": 1910,
    "bench": 1225,
    "bindings": 5760,
    "cmake": 90,
    "codegen": 4145,  # loads at places of an index took 145, short last axes 175
    "compat": 3955,
    "compiler": 2260,
    "device": 465,
    "formulas": 600,
    "graphs": 190,
    "ir": 5615,
    "isa": 22880,  # functions of doubles on vectors took 300; elements some steps apart 180
    "language": 13370,
    "launch": 7285,
    "models": 1155,
    "operators": 3390,
    "ops": 4980,
    "passes": 3670,
    "pto": 2365,
    "studio": 635,
    "tasks": 11845,
    "testing": 1150,  # most of it moved here from tests/conformance
}
FRAMEWORKS = {"torch", "tensorflow", "jax", "onnxruntime", "mindspore", "transformers"}


def reach(folder: str) -> set[str]:
    """The folders that `folder` may use, directly or through others, itself included."""
    found, todo = set(), [folder]
    while todo:
        one = todo.pop()
        if one not in found:
            found.add(one)
            todo += MAY_USE.get(one, [])
    return found


def names_used(file: File, node: ast.AST) -> Iterator[str]:
    """The names that one node of a Python file imports; "pto.?" if importlib computes the name."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        package = list(file.path.parts[:-1])
        base = package[: len(package) - node.level + 1] if node.level else []
        stem = [*base, *(node.module or "").split(".")] if node.module else base
        yield from (".".join([*stem, alias.name]) for alias in node.names)
    elif isinstance(node, ast.Call) and node.args:
        if ast.unparse(node.func).rpartition(".")[2] not in ("import_module", "__import__"):
            return
        name = node.args[0]
        parts = name.values if isinstance(name, ast.JoinedStr) else [name]
        texts = [part.value if isinstance(part, ast.Constant) else "?" for part in parts]
        yield "".join(map(str, texts))


def uses(file: File) -> Iterator[tuple[int, str]]:
    """(line, "pto/ir/graph.hpp" or "pto.ir.x") for everything of pto/ that the file uses."""
    if file.is_cpp:
        for number, line in enumerate(file.lines, 1):
            match = re.match(r'\s*#\s*include\s*[<"](pto/[^>"]+)[>"]', line)
            if match:
                yield number, match.group(1)
    elif file.kind == ".py":
        for node in file.nodes:
            yield from ((node.lineno, name) for name in names_used(file, node))


def is_allowed(file: File, used: str) -> bool:
    parts = re.split(r"[/.]", used) if file.kind == ".py" else used.split("/")
    if parts[0] != "pto" or len(parts) == 1:
        return parts[0] != "pto"  # `import pto` is the facade, which imports this folder
    room = "adapters" if parts[1] in FRAMEWORKS or parts[1] == "?" else parts[1]
    if used == "pto/pto-inst.hpp":
        room = "isa"
    if used.startswith("pto/isa/") and used.endswith(".def") and "isa/*.def" in reach(file.folder):
        return True
    return room not in {*MAY_USE, "_core"} or room in reach(file.folder)


def may_use(file: File) -> Iterator[Offence]:
    if file.folder not in MAY_USE:
        return
    for line, used in uses(file):
        if not is_allowed(file, used):
            allowed = sorted(reach(file.folder) - {file.folder}) or ["nothing"]
            yield Offence(
                file.at(line), f"{file.folder} uses {used}",
                f"{file.folder} may use {', '.join(allowed)}",
                "move the code to the folder that may, or pass the value in",
            )  # fmt: skip


def frameworks(file: File) -> Iterator[Offence]:
    """`import pto` imports no framework: only adapters do, others inside a function at most."""
    if file.kind != ".py" or file.path.parts[0] != "pto" or file.folder == "adapters":
        return
    for node in file.tree.body:
        found = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        found += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
        for name in found:
            if name.split(".")[0] in FRAMEWORKS:
                yield Offence(
                    file.at(node.lineno), f"imports {name} at module level",
                    "import pto loads no framework",
                    "move the code to pto/adapters, or look into sys.modules",
                )  # fmt: skip


# --- rules of all files --------------------------------------------------------------------------


def imported_when_run(file: File) -> set[str]:
    """The imports of a file, except those for types alone."""
    found = {used for _, used in uses(file)}
    if file.kind == ".py":
        for node in file.nodes:
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
                inner = {name for one in ast.walk(node) for name in names_used(file, one)}
                found -= inner
    return found


def arrows(files: list[File]) -> dict[str, set[str]]:
    """The files of pto/ that each file of pto/ uses."""
    known = {file.name for file in files if file.path.parts[0] == "pto"}

    def file_of(used: str) -> str | None:
        parts = used.split(".")
        places = [used]
        for n in range(len(parts), 1, -1):  # "pto" alone is the facade
            stem = "/".join(parts[:n])
            places += [f"{stem}.py", f"{stem}/__init__.py"]
        return next((place for place in places if place in known), None)

    return {
        file.name: {to for used in imported_when_run(file) if (to := file_of(used))} - {file.name}
        for file in files
        if file.name in known and (file.is_cpp or file.kind == ".py")
    }


def circles(files: list[File]) -> Iterator[Offence]:
    """Files that use each other, directly or through others."""
    left = arrows(files)
    while True:  # who uses nobody, or is used by nobody, is in no circle
        used = {to for those in left.values() for to in those}
        ends = {name for name in left if name not in used or not left[name] & left.keys()}
        if not ends:
            break
        left = {name: those - ends for name, those in left.items() if name not in ends}
    for name in sorted(left):
        yield Offence(
            name, f"is in a circle with {', '.join(sorted(left[name]))}",
            "files that use each other are read and tested only together",
            "move what both need into a third file, or pass it in",
        )  # fmt: skip


def code_lines(file: File) -> int:
    """Lines that are neither blank nor comment nor docstring."""
    if file.is_cpp:
        text = re.sub(r"//[^\n]*|/\*(?:.|\n)*?\*/", "", file.text)
        return sum(1 for line in text.splitlines() if line.strip())
    lines = {i for i, t in enumerate(file.lines, 1) if t.strip() and not t.lstrip().startswith("#")}
    if file.kind == ".py":
        for node in file.nodes:
            first = getattr(node, "body", None)
            first = first[0] if isinstance(first, list) and first else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                lines -= set(range(first.lineno, first.end_lineno + 1))
    return len(lines)


def budgets(files: list[File]) -> Iterator[Offence]:
    lines: Counter[str] = Counter()
    for file in files:
        is_test = file.path.stem.endswith("_test")
        if file.is_code and file.path.parts[0] in ("pto", "compat") and not is_test:
            lines[file.folder or file.path.parts[0]] += code_lines(file)
    for room, count in sorted(lines.items()):
        most = BUDGETS.get(room, 0)
        if count > most:
            yield Offence(
                room, f"{count} lines that are neither blank nor comment",
                f"the budget of this room is {most}",
                "say it in fewer lines, or raise the budget in a commit that says why",
            )  # fmt: skip


PAGE, ROW = "docs/architecture.md", re.compile(r"^\| `(\w+)` \| .* \| (.*) \|$", re.M)


def page_of_rooms(files: list[File]) -> Iterator[Offence]:
    """The table of rooms that people read says what MAY_USE says."""
    page = next((file for file in files if file.name == PAGE), None)
    if page is None:
        return
    said = {room: re.findall(r"`([^`]+)`", uses) for room, uses in ROW.findall(page.text)}
    rooms = sorted(said.keys() | MAY_USE.keys())
    differ = [
        f"{r}: {said.get(r)} / {MAY_USE.get(r)}" for r in rooms if said.get(r) != MAY_USE.get(r)
    ]
    if differ:
        yield Offence(
            PAGE, "its table / MAY_USE in tests/rooms.py: " + "; ".join(differ),
            "people read the one, the rules hold the other",
            "write both alike, in this order",
        )  # fmt: skip
