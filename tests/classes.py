# SPDX-License-Identifier: Apache-2.0
"""Names of classes: each qualified name belongs to one class, in headers and between .cpp files.

Two classes of one qualified name in one program are no error that a compiler or a linker finds: it
takes the functions of either. Classes in functions and in namespaces without a name are apart.
"""

import re
from collections import defaultdict
from collections.abc import Iterator

from repository import File, Offence, blanked

# A head ends in the brace that follows it. A specialisation ("Name<") is of a template that counts.
_HEAD = re.compile(
    r"\b(?P<space>(?:inline\s+)?namespace\b)(?P<path>[\s\w:]*)\{"
    r"|\b(?:struct|class|union|enum(?:\s+(?:class|struct))?)\s+"
    r"(?:alignas\s*\([^)]*\)\s*|\[\[[^\]]*\]\]\s*|[A-Z][A-Z_0-9]+\s+)*"
    r"(?P<name>[A-Za-z_][\w:]*)\s*(?P<rest>(?:final\s*)?(?::[^;{}()]*)?)\{"
    r"|\bextern\s*\{|\{|\}"
)


def classes(text: str) -> Iterator[tuple[str, int]]:
    """(qualified name, line) of each class, struct, union and enumeration with a name."""
    text, scopes = blanked(text), []
    for match in _HEAD.finditer(text):
        if match.group() == "}":
            if scopes:
                scopes.pop()
        elif match["space"]:
            scopes.append(match["path"].strip() or None)
        elif match["name"]:
            if None not in scopes:
                name = "::".join([*filter(None, scopes), match["name"]])
                yield name, text.count("\n", 0, match.start()) + 1
            scopes.append(match["name"])
        else:
            scopes.append("" if match.group().startswith("extern") else None)


def second_classes(files: list[File]) -> Iterator[Offence]:
    """Classes whose qualified name a class of another file has."""
    places: dict[str, dict[str, int]] = defaultdict(dict)
    for file in files:
        if file.is_cpp and file.path.parts[0] == "pto":
            for name, line in classes(file.text):
                places[name].setdefault(file.name, line)
    for name, found in sorted(places.items()):
        first, *others = sorted(found.items())
        for file, line in others:
            yield Offence(
                f"{file}:{line}", f"a second class {name}, the first is at {first[0]}:{first[1]}",
                "a program with both is undefined: either takes the other's functions, unseen",
                "give each its own first name",
            )  # fmt: skip
