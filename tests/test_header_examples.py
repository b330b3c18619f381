# SPDX-License-Identifier: Apache-2.0
"""The indented example of each public header compiles, and each header of pto/abi as C.

header_examples.txt declares what an example takes for granted. The examples of a group are compiled
together, each as a function of its header's namespace.
"""

import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pto import build_config

ROOT = Path(__file__).resolve().parent.parent
FORWARDS = 3  # lines of code of a header that only includes others: its first line says all
# Parts of libpto, which no kernel includes, and headers that include a framework's.
APART = re.compile(r"isa/cpu/matmul_(loops|pack|types)|hpu_custom_op|perf_lib|synapse|torch_npu|"
                   r"tensorflow")  # fmt: skip
ORCHESTRATION = re.compile(r"orchestration|runtime(_api)?\.h|_deps\.h|tasks/precompiled")
OPERATOR = re.compile(r"pto/operators/")
SIMULATOR = re.compile(r"compat/pto/|kernel/simulator|pipe_state")
INFINI = re.compile(r"compat/infini/")  # its Tensor is no other's
KERNEL = re.compile(r"compat/(?!pto/|.*orchestration)|abi/|pto-inst")
ALONE = re.compile(r"kernel/ch(ip|ecked)|cpu_stub|simulator_rules")  # a macro before the include
WHOLE = re.compile(r'extern "C"|__global__|PTO_INLINE|int32_t \w+\(')  # no body of a function
OUTSIDE = re.compile(r"#|PTO_KERNEL|using namespace")  # lines of a body that stand before or behind
COMMON = """
template <class T, int R = 16, int C = 64>
using Block = pto::Tile<pto::TileType::Vec, T, R, C>;
using View = pto::GlobalTensor<float, pto::Shape<1, 1, 1, 16, 64>, pto::Stride<1, 1, 1, 64, 1>>;
"""
NAMES = """  Block<float> a, b, c, d, s, t, tmp;
  float *x = nullptr, *y = nullptr, *out = nullptr;
  int n = 64;
"""


@dataclass
class Given:
    """The declarations for one example."""

    inside: str = "pto"
    top: list[str] = field(default_factory=list)
    body: list[str] = field(default_factory=list)


def given() -> dict[str, Given]:
    found: dict[str, Given] = {}
    for line in (ROOT / "tests/header_examples.txt").read_text().splitlines():
        if line.startswith("-- "):
            header, _, inside = line[3:].partition(" in ")
            current = found[header] = Given(f"pto::{inside}" if inside else "pto")
        elif line.strip() and found:
            (current.top if line.startswith("top ") else current.body).append(
                line.removeprefix("top ")
            )
    return found


def opening(path: Path) -> list[str]:
    """The comment in which a header begins, without its marks."""
    lines = path.read_text().splitlines()[1:]
    end = next((i for i, line in enumerate(lines) if not line.startswith("//")), len(lines))
    return [line[2:] for line in lines[:end]]


def example(path: Path) -> list[str]:
    return [line[5:] for line in opening(path) if line.startswith(" " * 5)]


def headers() -> list[Path]:
    places = ["pto/isa", "pto/abi", "pto/tasks/orchestration", "compat"]
    found = [path for place in places for path in (ROOT / place).rglob("*.h*")]
    found += [ROOT / f"pto/{name}" for name in ("pto-inst.hpp", "runtime.h", "tasks/precompiled.h",
              "operators/define.hpp", "operators/kernel_arguments.hpp")]  # fmt: skip
    return sorted(path for path in found if not APART.search(str(path.relative_to(ROOT))))


HEADERS = [str(path.relative_to(ROOT)) for path in headers()]
GIVEN = given()


def group_of(header: str) -> str:
    for name, pattern in (("alone", ALONE), ("operator", OPERATOR), ("simulator", SIMULATOR),
                          ("orchestration", ORCHESTRATION), ("infini", INFINI),
                          ("kernel", KERNEL)):  # fmt: skip
        if pattern.search(header):
            return name
    return "isa"


GROUPS: dict[str, list[str]] = {}
for one in HEADERS:
    if example(ROOT / one):
        GROUPS.setdefault(group_of(one), []).append(one)


def in_namespace(name: str, text: str) -> str:
    """The text in a namespace, that of the target where the instructions lie."""
    _, *inner = name.split("::")
    if not inner:
        return f"namespace pto {{\n{text}}}\n"
    opened = "".join(f"namespace {one} {{\n" for one in inner[1:])
    return f"PTO_NAMESPACE_BEGIN\n{opened}{text}{'}' * len(inner[1:])}\nPTO_NAMESPACE_END\n"


def source_of(number: int, header: str) -> str:
    """The example as a function, or as it stands where it is one."""
    has = GIVEN.get(header, Given())
    lines = example(ROOT / header)
    outside = [line for line in lines if OUTSIDE.match(line)]
    is_whole = any(WHOLE.match(line) for line in lines)
    mark = f'#line 1 "example of {header}"\n'
    top = "".join(f"{line}\n" for line in has.top)
    function = re.search(r'extern "C" [\w ]*?(\w+)\(', "\n".join(lines))
    rename = f"#define {function[1]} {function[1]}_{number}\n" if function else ""
    undo = "".join(f"#undef {word}\n" for word in re.findall(r"#define (\w+)", top + rename))
    if is_whole:
        text = f"namespace example_{number} {{\nusing namespace pto;\n{rename}{top}{mark}"
        includes = "".join(f"{line}\n" for line in lines if line.startswith("#"))
        rest = "".join(f"{line}\n" for line in lines if not line.startswith("#"))
        return f"{includes}{text}{rest}\n}}\n{undo}"
    body = "".join(f"{line}\n" for line in lines if line not in outside)
    before = "".join(f"{line}\n" for line in outside if line.startswith("#"))
    after = "".join(f"{line}\n" for line in outside if not line.startswith(("#", "using")))
    written = "".join(f"  {line}\n" for line in has.body)
    common = NAMES if group_of(header) in ("isa", "simulator") else ""
    open_at = f"inline void example_{number}() {{\n{common}{{\n{written}{{\n{mark}"
    function_text = f"{open_at}{body}}}\n}}\n}}\n"
    if has.inside == "pto" and group_of(header) not in ("isa", "simulator"):
        placed = function_text
    else:
        placed = in_namespace(has.inside, function_text)
    return f"{before}{top}{placed}{after}{undo}"


def check(folder: Path, group: str, of: list[str]) -> None:
    includes = "".join(f'#include "{one.removeprefix("compat/")}"\n' for one in of)
    head = ""
    if group in ("isa", "simulator"):
        head = "#include <pto/pto-inst.hpp>\n"
    text = head + includes + (COMMON if head else "")
    text += "".join(source_of(number, one) for number, one in enumerate(of))
    (folder / "examples.cpp").write_text(text)
    flags = ["-D__CPU_SIM"] if group == "simulator" else []
    flags += ["-std=c++20" if group == "operator" else "-std=c++17"]
    command = ["g++", "-fsyntax-only", "-w", "-DPTO_PORTABLE", *flags,
               f"-I{ROOT}", f"-I{build_config.compat_dir()}", "examples.cpp"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr[:6000]


@pytest.mark.parametrize("group", sorted(GROUPS.keys() - {"alone"}))
def test_the_examples_of_headers_compile(group, tmp_path):
    check(tmp_path, group, GROUPS[group])


@pytest.mark.parametrize("header", GROUPS["alone"])
def test_an_example_that_defines_macros_compiles(header, tmp_path):
    (tmp_path / "example.cpp").write_text("\n".join(example(ROOT / header)) + "\n")
    command = ["g++", "-std=c++17", "-fsyntax-only", "-DPTO_PORTABLE", f"-I{ROOT}",
               f"-I{build_config.compat_dir()}", "example.cpp"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[:3000]


def test_the_headers_of_abi_are_c(tmp_path):
    headers = sorted((ROOT / "pto/abi").glob("*.h"))
    for place, header in enumerate(headers):
        (tmp_path / f"{place}.c").write_text(f'#include "pto/abi/{header.name}"\n')
    command = ["gcc", "-std=c11", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}",
               *[f"{place}.c" for place in range(len(headers))]]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert headers and done.returncode == 0, done.stderr[:3000]


def test_a_public_header_has_an_example_unless_it_forwards():
    def lines_of(header: str) -> int:
        text = re.sub(r"//[^\n]*", "", (ROOT / header).read_text())
        return sum(1 for line in text.splitlines() if line.strip())

    assert [h for h in HEADERS if not example(ROOT / h) and lines_of(h) > FORWARDS] == []


def test_declarations_belong_to_an_example():
    assert sorted(GIVEN.keys() - {o for g in GROUPS.values() for o in g}) == []
