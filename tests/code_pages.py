# SPDX-License-Identifier: Apache-2.0
"""The code of a page as steps, run by the Python of the tests or of an environment with the wheel.

    folder = folder_of(page, tmp_path)             # with the files that the page shows
    for step in steps(page):
        check(step, folder, CHECKOUT)

A block whose first line is a comment with the name of a file is that file; where a name stands
twice, the second one, a solution, counts. A file of Python runs by itself if no command names it.
Other ```python blocks are cells of one program, in the order of the page; those that import a
framework are cells of a second program, for that framework. Other ```cpp blocks are programs, and
their first line says how to compile them; one in C is a file that a command compiles. A ```sh block
is a command; a ```text block right below it is what it prints, where `...` stands for anything.
"""

import functools
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAME = re.compile(r"(?:#|//) ([\w/]+\.\w+)\n")
COMPILE = re.compile(r"//\s+g\+\+ (.*)")
FRAMEWORK = re.compile(
    r"^\s*(?:import|from) (?:pto\.)?(jax|tensorflow|mindspore|onnxruntime)\b", re.M
)
KINDS = {"python", "cpp", "c", "cmake", "sh", "text", "names"}  # the last two are no code
MACHINE = re.compile(r"(?:sudo |pip |apt|git |cd |\./dev )")  # changes the machine: not run
PART = re.compile(r"pto/aten|infini/ops|--aten|pto\.aten\.enable")  # needs a part that is built
TORCH = "$(python -c 'import os, torch; print(os.path.dirname(torch.__file__))')/lib"
SECONDS_MAX = 900  # of a step


@dataclass(frozen=True)
class Place:
    """A Python that has pto, and the environment in which a user would start it."""

    python: Path
    env: dict[str, str]

    def run(self, command: str, folder: Path) -> subprocess.CompletedProcess:
        """Runs a command of the shell, in which `python` is this Python."""
        path = f"{self.python.parent}{os.pathsep}{self.env.get('PATH', os.defpath)}"
        return subprocess.run(
            ["bash", "-e", "-c", command], cwd=folder, env={**self.env, "PATH": path}, text=True,
            capture_output=True, stdin=subprocess.DEVNULL, timeout=SECONDS_MAX,
        )  # fmt: skip

    @functools.cache  # noqa: B019 a place lives as long as the tests
    def has(self, module: str) -> bool:
        find = f"import importlib.util as u, sys; sys.exit(u.find_spec('{module}') is None)"
        return self.run(f'python -c "{find}"', Path("/")).returncode == 0

    def __hash__(self) -> int:
        return hash(self.python)


CHECKOUT = Place(
    Path(sys.executable),
    {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])},
)


@dataclass(frozen=True)
class Step:
    """One thing that a reader of a page would run, in a folder with the files of the page."""

    page: Path
    title: str
    command: str
    framework: str = ""  # which it needs; it is an extra of the package
    prints: str | None = None

    def __str__(self) -> str:
        return f"{self.page.stem}-{self.title}"


def pages() -> list[Path]:
    """Every page with code; README.md is the last one."""
    found = [*sorted(DOCS.rglob("*.md")), ROOT / "README.md"]
    return [page for page in found if {"python", "cpp", "sh"} & {kind for kind, _ in fences(page)}]


def lessons() -> list[Path]:
    """The pages that are notebooks."""
    return [*sorted((DOCS / "tutorials").glob("*.md")), DOCS / "cpp/1_tiles.md"]


def fences(page: Path) -> list[tuple[str, str]]:
    """Kind and text of each block."""
    return FENCE.findall(page.read_text())


def blocks(page: Path) -> dict[str, list[str]]:
    """The files of a page by name, in the order of the page."""
    named: dict[str, list[str]] = {}
    for _, body in fences(page):
        if found := NAME.match(body):
            named.setdefault(found.group(1), []).append(body)
    return named


def cells(page: Path, framework: str = "") -> str:
    """The program of a page's cells: those without a framework, and those for this one."""
    found = [body for kind, body in fences(page) if kind == "python" and not NAME.match(body)]
    of = [FRAMEWORK.search(body) for body in found]
    chosen = [b for b, f in zip(found, of, strict=True) if not f or f.group(1) == framework]
    return "\n".join(chosen)


def files(page: Path) -> dict[str, str]:
    """All files of a page by name: those that it shows, and those that its other blocks make."""
    found = {name: bodies[-1] for name, bodies in blocks(page).items()}
    for step in steps(page):
        if step.title.startswith("cells"):
            found[f"{step.title}.py"] = cells(page, step.framework)
    found.update({f"program_{n}.cpp": body for n, body in enumerate(programs(page), 1)})
    return found


def programs(page: Path) -> list[str]:
    """Its C++ programs that have no name."""
    return [body for kind, body in fences(page) if kind == "cpp" and not NAME.match(body)]


def folder_of(page: Path, base: Path) -> Path:
    """A new folder with the files of a page."""
    for name, body in files(page).items():
        (base / name).parent.mkdir(parents=True, exist_ok=True)
        (base / name).write_text(body)
    return base


def steps(page: Path) -> list[Step]:
    """What a reader runs, in the order of the page; all cells run where the first one stands."""
    found = fences(page)
    shell = "".join(body for kind, body in found if kind == "sh")
    made: dict[str, Step] = {}
    if PART.search("".join(body for _, body in found)):
        made["adapters"] = Step(page, "adapters", "python -m pto adapters build torch")
    for at, (kind, body) in enumerate(found):
        name, uses = NAME.match(body), FRAMEWORK.search(body)
        framework = uses.group(1) if uses else ""
        title = name.group(1) if name else ""
        if kind == "python" and not title:
            title = f"cells_with_{framework}" if framework else "cells"
            made.setdefault(title, Step(page, title, with_paths(page, f"{title}.py"), framework))
        elif kind == "python" and title not in shell:
            command = (
                "python -m pytest -q -p no:cacheprovider" if title[:5] == "test_" else "python"
            )
            made.setdefault(title, Step(page, title, f"{command} {title}", framework))
        elif kind == "c":
            assert title and title in shell, f"no command of {page.name} compiles a program in C"
        elif kind == "cpp" and not title:
            program = f"program_{sum(one.startswith('program') for one in made) + 1}"
            made[program] = Step(page, program, compiled(program, body))
        elif kind == "sh" and not all(map(MACHINE.match, body.splitlines())):
            follows = found[at + 1] if at + 1 < len(found) else ("", "")
            prints = follows[1] if follows[0] == "text" and is_next(page, body) else None
            made[f"sh_{at}"] = Step(page, f"sh_{at}", body, prints=prints)
    return [*made.values()]


def is_next(page: Path, body: str) -> bool:
    """Whether a ```text block stands right below this command."""
    return f"```sh\n{body}```\n\n```text\n" in page.read_text()


def with_paths(page: Path, file: str) -> str:
    """The command that runs cells; pages about `import pypto` say where that lies."""
    paths = "PYTHONPATH=$PYTHONPATH:$(python -m pto config --compat) "
    return f"{paths if 'import pypto' in page.read_text() else ''}python {file}"


def compiled(program: str, body: str) -> str:
    """Compiles a C++ program by its first line and runs it; it is told where PyTorch lies."""
    found = COMPILE.search(body.partition("\n")[0])
    assert found, f"the first line of a C++ program says how to compile it:\n{body[:200]}"
    flags = re.sub(r"\S+\.cpp ?", "", found.group(1))
    return f"g++ {program}.cpp -o {program} {flags}\n./{program} {TORCH}"


def check(step: Step, folder: Path, place: Place) -> str:
    """Runs a step, which succeeds and prints what the page says; returns what it printed."""
    if step.framework and not place.has(step.framework):
        pytest.skip(f"this environment is without the extra {step.framework}")
    done = place.run(step.command, folder)
    said = f"{step}: {step.command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    assert done.returncode == 0, said
    if step.prints is not None:
        parts = map(re.escape, step.prints.strip().split("..."))
        assert re.fullmatch(".*".join(parts), done.stdout.strip(), re.DOTALL), said
    return done.stdout


def run_notebook(page: Path, folder: Path, place: Place) -> None:
    """Runs the cells of a lesson with Jupyter, in a folder of its own."""
    done = place.run(f"python {ROOT}/tests/run_notebook.py {page}", folder)
    assert done.returncode == 0, f"{page}\n{done.stderr[-3000:]}"
    assert int(done.stdout.split()[-1]) == sum(kind == "python" for kind, _ in fences(page))
