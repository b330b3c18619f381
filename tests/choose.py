# SPDX-License-Identifier: Apache-2.0
"""What `./dev test NAME` and `./dev test pto/ROOM` run: C++ programs with a filter, pytest's
arguments.

A name is that of a test, or a part of it, as docs/laws.md lists them. A folder of pto/ stands for
the C++ tests whose sources include something of it, directly or through others, and for the Python
tests of its subjects; what a subject needs beyond its folder is written in SUBJECTS.
"""

import difflib
import json
import re
from dataclasses import dataclass, field
from pathlib import Path

from laws import ROOT, Law, laws

INCLUDE = re.compile(r'^\s*#\s*include\s+[<"](pto/[^">]+)[">]', re.M)
UNITY = re.compile(r'^#include "(/.*\.cpp)"$', re.M)  # as CMake writes it
# The files of tests/ by what they are about: the folders of pto/ whose change can break them.
# Later rows add to earlier ones; every folder breaks what is in tests/errors.
EVERY = ("abi", "base", "isa", "ir", "passes", "codegen", "compiler", "language", "launch")
SUBJECTS = {
    "test_*": (),
    "test_isa*|test_instructions|test_many*|test_narrow*|test_one_rounding|test_compat|"
    "test_cpp*|test_checked*|test_valid*|test_bounded*": ("abi", "isa", "base", "launch", "compat"),
    "test_jit*|test_daemon*|test_interpre*|test_stepping|"
    "test_language*|test_program*|test_explain|test_health|"
    "test_differ*|test_long*|test_short*|test_empty*|test_packed*|test_no_copies|test_dlpack|"
    "test_buffer_protocol|test_fake_shapes|test_locks|test_bound_call|"
    "test_annotations|test_axis*|test_carried_state|test_casts|test_compiled*|"
    "test_compositions|test_control*|test_data_sizes|test_dict_arguments|test_logic|"
    "test_signed_zeros|test_sums_at*|test_methods|test_gaps_in_place|test_loop_inv*|test_paths|"
    "test_hints|test_options|test_parts*|test_tune|test_jumps|test_returns|test_known*|test_tile*|"
    "test_verify|test_random_programs|test_pypto*|test_examples|test_readme|"
    "test_tutorial|test_notebooks|test_types|test_pages|test_*_page|"
    "test_exercises|test_contributing|test_package*|test_library|"
    "test_prebuilt|test_redefinition|test_pictures|test_kernel_sources": EVERY,
    "test_header_examples": ("abi", "isa", "tasks", "operators", "compat"),
    "test_runtime*|test_thread*|test_task*": ("abi", "base", "launch", "tasks", "operators"),
    "test_ops|test_op*|test_numpy*|test_custom*|test_kernel*|test_conformance|test_minilm|"
    "test_demo|test_linear|test_quantized*|test_weights|test_attention*|test_pages|"
    "test_convolution|test_products*|test_out_dtype|test_matmul_precision|test_packed_weight|"
    "test_product_limits|test_small_products": (
        *EVERY,
        "operators",
        "ops",
    ),
    "test_testing": (*EVERY, "operators", "testing"),
    "test_aten*": ("language", "operators", "adapters", "aten"),
    "test_compile_*": (*EVERY, "operators", "ops", "aten", "graphs", "adapters"),
    "test_infini*": ("operators", "adapters", "aten", "compat"),
    "test_model*": (*EVERY, "operators", "ops", "models"),
    "test_torch*|test_npu*|test_jit_torch|test_guide*|test_jax*|test_onnx*|test_tensorflow*|"
    "test_mindspore*|test_adapter*|test_conformance": (
        *EVERY,
        "operators",
        "ops",
        "adapters",
        "device",
        "tasks",
    ),
    "test_wheel*|test_sources_alone|test_cmake|test_bench|test_bench_goals|test_bench_rooflines": (
        "base",
        "codegen",
        "compiler",
        "bindings",
        "adapters",
        "tasks",
        "bench",
    ),
    "test_bench_command|test_command_line": (
        "bench",
        "isa",
        "launch",
        "operators",
        "ops",
        "adapters",
    ),
    "test_studio*": ("language", "tasks", "studio"),
    "test_dev|test_changelog|test_site*|test_tidy|test_laws|test_choose|test_children": (),
}
EVERYWHERE = {"bindings", "errors", "__init__.py", "config.py"}  # what every Python test uses


@dataclass
class Chosen:
    """Sources of C++ tests with names of tests (none: all of them), and arguments of pytest."""

    cpp: dict[str, list[str]] = field(default_factory=dict)
    python: list[str] = field(default_factory=list)


def by_name(name: str, found: list[Law] | None = None) -> Chosen:
    """The tests of this name; without one, those that have it as a part."""
    found = laws() if found is None else found
    full = {law: f"{law.suite}.{law.name}" if law.suite else law.name for law in found}
    chosen = [law for law in found if name in (full[law], law.name)]
    chosen = chosen or [law for law in found if name in full[law]]
    if not chosen:
        known = {*full.values(), *(law.name for law in found)}
        close = difflib.get_close_matches(name, known, 3, 0.5)
        raise SystemExit(
            f"error: there is no test {name!r}\n  why: it is no name of docs/laws.md, no part of"
            f" one, no folder of pto/ and no file of tests/\n  fix: "
            + (f"take one like {', '.join(close)}" if close else "look for it in docs/laws.md")
        )
    result = Chosen()
    for law in chosen:
        if law.suite:
            result.cpp.setdefault(law.file, []).append(f"*{law.suite}.{law.name}*")
        else:
            result.python.append(f"{law.file}::{law.name}")
    return result


def users(folder: str, root: Path = ROOT) -> set[str]:
    """The files that include a file of this folder, directly or through others, and its own."""
    includers: dict[str, set[str]] = {}
    files = [p for p in root.glob("pto/**/*") if p.suffix in (".hpp", ".cpp", ".h", ".def")]
    for path in files:
        for included in INCLUDE.findall(path.read_text()):
            includers.setdefault(included, set()).add(path.relative_to(root).as_posix())
    found = {p.relative_to(root).as_posix() for p in files if p.is_relative_to(root / folder)}
    todo = list(found)
    while todo:
        new = includers.get(todo.pop(), set()) - found
        found |= new
        todo += new
    # A header without templates is used through its .cpp: what links it is what includes it.
    return found


def by_folder(folder: str, root: Path = ROOT) -> Chosen:
    """What a change below pto/ROOM can break."""
    folder = folder.strip("/")
    room = Path(folder).parts[1] if len(Path(folder).parts) > 1 else ""
    result = Chosen()
    for file in sorted(users(folder, root)):
        if file.endswith("_test.cpp"):
            result.cpp[file] = []
    python = set()
    for patterns, rooms in SUBJECTS.items():
        for pattern in patterns.split("|"):
            files = {p.relative_to(root).as_posix() for p in root.glob(f"tests/{pattern}.py")}
            if room in rooms or room in EVERYWHERE or folder == "pto":
                python |= files
    result.python = [*sorted(python), "tests/errors"]
    return result


def programs(build: Path, sources: list[str]) -> dict[str, list[str]]:
    """The test programs of a build that hold these sources: target -> sources."""
    found: dict[str, list[str]] = {}
    for command in json.loads((build / "compile_commands.json").read_text()):
        target = re.search(r"CMakeFiles/(\w+)\.dir/", command.get("output", command["command"]))
        if not target or "_deep_" in target[1]:
            continue
        for name in sources_of(Path(command["file"])):
            if name in sources:
                found.setdefault(target[1], []).append(name)
    return found


def sources_of(file: Path) -> list[str]:
    """The names of what one run of the compiler reads: a source, or those that CMake made one."""
    files = [file]
    if file.parent.name == "Unity":
        files = [Path(name) for name in UNITY.findall(file.read_text())]
    return [f.relative_to(ROOT).as_posix() for f in files if f.is_relative_to(ROOT)]
