# SPDX-License-Identifier: Apache-2.0
"""Style as a test: sizes, names, duplicates, and the rooms of pto/. Prints what / why / fix.

    python tests/tidy.py [ROOT]        exit code 1 when something offends

Each rule is a function of a File (or of all files) that yields Offences; RULES lists them, and
tests/test_tidy.py shows that each can fail. The rules of rooms stand in rooms.py, those of English
in prose.py, that of class names in classes.py, that of random data in draws.py.
"""

import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from classes import second_classes
from draws import unseeded_draws
from prose import openings, wording
from repository import File, Offence, blanked, repository_files
from rooms import budgets, circles, frameworks, may_use, page_of_rooms

ISA_SYSTEM_HEADERS = {"stdint.h", "stddef.h"}
FORBIDDEN_NAMES = {"util", "utils", "helper", "helpers", "common", "misc", "impl"}
FORBIDDEN_NAMES |= {"manager", "v2", "legacy"}
MAX_LINES = {".cpp": 500, ".py": 400, ".hpp": 400, ".h": 400, ".def": 1200}  # a table is one part
MAX_PASS_LINES, MAX_ADAPTER_LINES, MAX_FUNCTION_LINES, MAX_COLUMNS = 300, 400, 70, 100
MAX_ALIKE, MIN_ALIKE_LINES = 0.8, 20
MACHINE_PATH = re.compile(r"""(?<![\w.$}\-/])/(?:home|root|work|Users|mnt|tmp)/\w""")
TAKES_PYTHON_LOCK = re.compile(r"gil_scoped_\w+|PyEval_RestoreThread|PyGILState_Ensure")
UNFINISHED = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X)\b")


# --- rules of one file ---------------------------------------------------------------------------


def spdx(file: File) -> Iterator[Offence]:
    head = "\n".join(file.lines[:2])
    if file.is_code and file.lines and "SPDX-License-Identifier: Apache-2.0" not in head:
        yield Offence(
            file.at(1), "no licence line", "every source file opens with its SPDX identifier",
            "put 'SPDX-License-Identifier: Apache-2.0' in a comment on the first line",
        )  # fmt: skip


def line_limit(file: File) -> int | None:
    if file.folder == "passes" and file.is_cpp:
        return MAX_PASS_LINES
    if file.folder == "adapters":
        return MAX_ADAPTER_LINES
    return MAX_LINES.get(file.kind)


def sizes(file: File) -> Iterator[Offence]:
    limit = line_limit(file)
    if limit and len(file.lines) > limit:
        yield Offence(
            file.name, f"{len(file.lines)} lines", f"a file of this kind has at most {limit}",
            "split it by responsibility (parse / check / emit)",
        )  # fmt: skip
    quoted = False  # text of somebody else, kept as it is printed
    for number, line in enumerate(file.lines, 1):
        if line.strip() in ("// clang-format off", "// clang-format on"):
            quoted = line.endswith("off")
        if file.is_code and len(line) > MAX_COLUMNS and not quoted:
            yield Offence(
                file.at(number), f"{len(line)} columns", f"a line has at most {MAX_COLUMNS}",
                "break it, or run ./dev fmt",
            )  # fmt: skip


def python_functions(file: File) -> Iterator[tuple[str, int, int]]:
    for node in file.nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node.lineno, node.end_lineno - node.lineno + 1


def cpp_functions(file: File) -> Iterator[tuple[str, int, int]]:
    """Function bodies by braces: a '{' after ')' and its qualifiers, outside another body."""
    body = r"\)\s*(?:const|noexcept|override|final|mutable|&|->[\w:<>,*&\s]+|:[^;{}]*)*\s*$"
    text, stack, head = blanked(file.text), [], 0
    for position, char in enumerate(text):
        if char == "{":
            opening = text[head:position]
            inside = any(start is not None for start, _ in stack)
            is_body = not inside and re.search(body, opening)
            start = head + len(opening) - len(opening.lstrip()) if is_body else None
            stack.append((start, opening))
        elif char == "}" and stack:
            start, opening = stack.pop()
            if start is not None:
                name = re.search(r"([\w~]+|operator\W+)\s*\(", opening)
                first, last = text.count("\n", 0, start), text.count("\n", 0, position)
                yield name.group(1) if name else "?", first + 1, last - first + 1
        if char in "{};":
            head = position + 1


def function_sizes(file: File) -> Iterator[Offence]:
    if file.kind == ".py":
        found = python_functions(file)
    elif file.is_cpp:
        found = cpp_functions(file)
    else:
        return
    for name, line, lines in found:
        if lines > MAX_FUNCTION_LINES:
            yield Offence(
                file.at(line), f"{name} has {lines} lines",
                f"a function has at most {MAX_FUNCTION_LINES}, better 30",
                "give its parts names of their own",
            )  # fmt: skip


def names(file: File) -> Iterator[Offence]:
    if file.path.parts[0] == "compat":  # paths and names of others, under which they are looked for
        return
    for part in file.path.parts:
        bad = FORBIDDEN_NAMES & set(re.split(r"[_.\-]", part.lower()))
        if bad:
            yield Offence(
                file.name, f"the name '{part}'", f"'{bad.pop()}' does not say what a file is for",
                "name the responsibility",
            )  # fmt: skip


def texts(file: File) -> Iterator[Offence]:
    for number, line in enumerate(file.lines, 1):
        if MACHINE_PATH.search(line):
            yield Offence(
                file.at(number), "an absolute path of one machine", "it exists nowhere else",
                "derive the path, or take a temporary folder",
            )  # fmt: skip
        if UNFINISHED.search(line):
            yield Offence(
                file.at(number), "a note of unfinished work", "what is committed is finished",
                "finish it, or take it out",
            )  # fmt: skip
        found = TAKES_PYTHON_LOCK.search(line)
        if found and file.is_cpp and file.path.name != "python_lock.hpp":
            yield Offence(
                file.at(number), f"{found[0]} takes Python's lock",
                "a daemon thread that does so when Python has ended aborts the process",
                "use Unlocked or Locked of pto/bindings/python_lock.hpp",
            )  # fmt: skip


def include_headers(file: File) -> Iterator[Offence]:
    """The instruction set compiles in milliseconds because it includes nothing."""
    if not file.is_cpp:
        return
    for number, line in enumerate(file.lines, 1):
        match = re.match(r"\s*#\s*include\s*<([^>]+)>", line)
        header = match.group(1) if match else ""
        by_hand = file.path.parts[0] == "bench"  # the hand-written reference that we compete with
        if re.fullmatch(r"\w*mmintrin\.h|x86intrin\.h", header) and not by_hand:
            yield Offence(
                file.at(number), f"includes <{header}>", "it adds 147 ms to each compile",
                "use pto/isa/cpu/vec.hpp, or a compiler builtin as a leaf there",
            )  # fmt: skip
        elif (
            file.folder == "isa"
            and header
            and header not in ISA_SYSTEM_HEADERS
            and not header.startswith("pto/")
            and not file.path.stem.endswith("_test")
        ):
            yield Offence(
                file.at(number), f"pto/isa includes <{header}>",
                "only <stdint.h> and <stddef.h> are allowed there: kernels compile in 100 ms",
                "use a builtin, or declare what is needed in pto/abi/host.h",
            )  # fmt: skip


# --- rules of all files --------------------------------------------------------------------------


def normalised(file: File) -> Counter[str]:
    """The lines that carry meaning, spaces and comments apart."""
    text = blanked(file.text) if file.is_cpp else re.sub(r"#.*", "", file.text)
    lines = (re.sub(r"\s+", "", line) for line in text.splitlines())
    return Counter(line for line in lines if len(line) > 3)


def alike(files: list[File]) -> Iterator[Offence]:
    counted = [(file, normalised(file)) for file in files if file.is_code]
    counted = [(f, lines, lines.total()) for f, lines in counted if lines.total() > MIN_ALIKE_LINES]
    having = defaultdict(list)  # line: the files so far that have it, by index, and how often
    for index, (file, lines, total) in enumerate(counted):
        shared = Counter()  # index of a file before: the number of lines of both
        for line, times in lines.items():
            for before, others_times in having[line]:
                shared[before] += min(times, others_times)
            having[line].append((index, times))
        for before in sorted(shared):
            other, _, others_total = counted[before]
            same = shared[before] / min(total, others_total)
            if same > MAX_ALIKE:
                yield Offence(
                    file.name, f"{same:.0%} of its lines stand in {other.name} too",
                    f"two files are at most {MAX_ALIKE:.0%} alike",
                    "parametrise one, drop the other",
                )  # fmt: skip


RULES = [
    spdx,
    sizes,
    function_sizes,
    names,
    texts,
    openings,
    wording,
    include_headers,
    may_use,
    frameworks,
    unseeded_draws,
]
RULES_OF_ALL = [alike, circles, budgets, page_of_rooms, second_classes]


def check(root: Path) -> list[Offence]:
    """Every offence in the tree, in the order of files."""
    files = repository_files(root)
    found = [offence for file in files for rule in RULES for offence in rule(file)]
    return found + [offence for rule in RULES_OF_ALL for offence in rule(files)]


def main() -> int:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    offences = check(root)
    print("\n".join(map(str, offences)) if offences else "tidy: nothing to report")
    return int(bool(offences))


if __name__ == "__main__":
    sys.exit(main())
