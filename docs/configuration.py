# SPDX-License-Identifier: Apache-2.0
"""Writes docs/configuration.md from the table of settings below: ./dev docs

Limits, sizes of chips and the files that read a variable come from the sources.
"""

import importlib
import re
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).resolve().parent
ROOT, PAGE = DOCS.parent, DOCS / "configuration.md"
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from environment_reads import reads  # noqa: E402


@dataclass(frozen=True)
class Setting:
    """One row: the attribute of pto.config, the variable of the environment, or both."""

    variable: str
    value: str
    default: str
    does: str
    counts: str  # from when a new value counts
    attribute: str = ""


def chip_bytes(region: str) -> str:
    """The default size of a memory of the simulated chips."""
    text = (ROOT / "pto/isa/kernel/simulator.hpp").read_text()
    rows = re.search(r"kKilobytes\[2\]\[kRegions\] = \{\{(.*?)\}, \{(.*?)\}\}", text)
    place = ("UB", "L1", "L0A", "L0B", "L0C").index(region)
    first, second = (row.split(",")[place].strip() for row in rows.groups())
    return f"{first} KB" if first == second else f"{first} KB; {second} KB for a5"


COMPILATION, CALL, FIRST, START = "next compilation", "next call", "first use", "start"
COMPILER = [
    Setting("PTO_CXX", "name or path", "the first usable `g++`, `c++` or `clang++` on `PATH`",
            "the C++ compiler of kernels", COMPILATION, "cxx"),
    Setting("PTO_CACHE_DIR", "folder", "`$XDG_CACHE_HOME/openpto`, else `~/.cache/openpto`",
            "compiled kernels, see [the cache](#the-cache)", COMPILATION, "cache_dir"),
    Setting("PTO_CACHE_BYTES", "bytes, above 0", "1 GB", "size beyond which the cache is swept",
            COMPILATION),
    Setting("PTO_COMPILE_SECONDS", "seconds, above 0", "120",
            "time after which a compiler is ended", COMPILATION),
    Setting("PTO_INCLUDE_DIR", "folder", "that of the package", "the folder that holds `pto/isa`",
            COMPILATION),
    Setting("PTO_TARGET", "`portable`, `avx2`, `avx512`", "the best that the CPU has",
            "the instructions that kernels use, see [platforms](platforms.md)", COMPILATION,
            "target"),
    Setting("PTO_TUNED", "files, `:` between them", "none",
            "options that `pto.tune` found on other machines, read after `tuned.json` of this one",
            COMPILATION, "tuned"),
    Setting("", "function of stage and text", "None", "sees each jitted function that is compiled",
            COMPILATION, "dump"),
    Setting("PTO_INTERPRET", "`1`", "off", "calls of jitted functions run in steps on the "
            "[interpreter](language.md#looking-at-values)", CALL, "interpret"),
]  # fmt: skip
MACHINE = [
    Setting("PTO_NUM_THREADS", "at least 1; more than the cores counts as the cores",
            "cores that the process may use: affinity and the quota of its control group",
            "threads of a call, the caller included", CALL, "threads"),
    Setting("PTO_SPIN_US", "µs, at most 1000000", "100",
            "how long an idle thread of the pool spins before it sleeps", FIRST),
    Setting("PTO_GRAIN_BYTES", "bytes", "L2 / 4, from 64 KB to 512 KB",
            "a launch that touches no more bytes stays on the calling thread", FIRST),
    Setting("PTO_STREAM_BYTES", "bytes", "half of the last cache, at most 64 MB",
            "a launch that writes as many bytes stores past the caches", FIRST),
    Setting("PTO_POOL_BYTES", "bytes", "256 MB, or the recent peak of live bytes if it is larger",
            "memory in large blocks that is kept for the next calls", FIRST),
]  # fmt: skip
PRODUCTS = [
    Setting("PTO_WEIGHTS", "`sampled`, `compared`, `never`", "`sampled`",
            "how a weight is compared with its packed copy at each call: 64 elements, all, "
            "or nothing is packed", CALL, "weights"),
    Setting("PTO_MATMUL_PRECISION", "`highest`, `high`, `medium`", "`highest`",
            "the error of [products of f32](products.md#precision-of-f32): that of f32, of 16 "
            "bits, of bf16", CALL, "matmul_precision"),
]  # fmt: skip
TORCH = [
    Setting("PTO_TORCH_ATTENTION", "`1`", "off",
            "PyTorch's `scaled_dot_product_attention` runs on our kernels", CALL,
            "torch_attention"),
    Setting("PTO_MEASURED", "`1`", "off",
            "what `pto.aten.measure()` found here goes before the package's table", CALL,
            "measured"),
    Setting("PTO_BY_SIZE", "`1`", "off",
            "rows of `pto.aten` also take sizes at which they were measured to be faster", CALL,
            "by_size"),
    Setting("PTO_ATEN_NAMES", "file, a name a line", "all names",
            "the operators that `pto.aten` has; `pto.aten.restrict` does the same", FIRST),
    Setting("PTO_ONNXRUNTIME_TAKES", "`faster`, `all`", "`faster`",
            "the nodes of ONNX Runtime that get our kernels: where they were measured to be "
            "faster, or all that have one", "next session", "onnxruntime_takes"),
    Setting("PTO_NPU_DEVICES", "1 to 16", "2", "npu devices of the process", FIRST),
    Setting("PTO_NPU_CHECKED", "`1`", "off",
            "memory of an npu device can be read only by its kernels: a missing copy is a crash",
            FIRST),
]  # fmt: skip
SIMULATED = [
    Setting("PTO_CPU_SIM_NUM_CORES", "number above 0", "4",
            "cores of a launch of the public simulator's form that states none", CALL),
    *(Setting(f"PTO_CPU_SIM_{region}_BYTES", "bytes, above 0", chip_bytes(region),
              f"the size of {region} that `NPUMemoryModel` tells", CALL)
      for region in ("UB", "L1", "L0A", "L0B", "L0C")),
]  # fmt: skip
SYSTEM = [
    Setting("PATH", "folders", "`/usr/bin:/bin`", "where compilers are looked for", COMPILATION),
    Setting("TMPDIR", "folder", "`/tmp`", "temporary files; kernels if the cache is not writable",
            COMPILATION),
    Setting("XDG_CACHE_HOME", "folder", "`~/.cache`", "the folder above the cache", COMPILATION),
    Setting("HOME", "folder", "`/tmp`", "`~` above", COMPILATION),
    Setting("PYTHONBREAKPOINT", "`0`", "unset", "`pto.breakpoint()` does nothing", CALL),
]  # fmt: skip
CHECKOUT = [
    Setting("CXX", "name or path", "`g++`", "the compiler with which `./dev` builds", START),
    Setting("PTO_DEEP", "`1`", "off", "long forms of the tests; `./dev test --deep`", START),
    Setting("PTO_DEV_LOCKED", "`1`", "off", "set by `./dev` for the `./dev` that it starts", START),
]  # fmt: skip
GROUPS = {
    "Compiler and cache": COMPILER,
    "Threads and memory": MACHINE,
    "Products": PRODUCTS,
    "PyTorch and ONNX Runtime": TORCH,
    "The public simulator's sizes": SIMULATED,
    "Variables of the system": SYSTEM,
    "In a checkout": CHECKOUT,
}
LIMITS = [  # file, constant, meaning
    ("pto/operators/registry.cpp", "kMaxOperators", "operators of a process, with their gradients"),
    ("pto/bindings/constants.hpp", "kMaxConstantDepth", "containers in containers of a constant"),
    ("pto/base/dims.hpp", "kMaxParts", "terms of one size that follows from others"),
    ("pto/isa/program.hpp", "kMostRounds", "iterations of a loop that `while` or `break` ends"),
    ("pto/tasks/chip.py", "_WORKERS_MOST", "workers of a runtime"),
    ("pto/tasks/chip.py", "_WINDOW_MOST", "tasks in flight"),
    ("pto/tasks/cores/submit.cpp", "kBlocksMost", "blocks of a task"),
    ("pto/tasks/book/task_order.hpp", "kMost", "tasks of a program that `rt.check` takes"),
    ("pto/device/npu/stream.hpp", "kMaxDevices", "npu devices of a process"),
]
TEXT = """\
# Configuration

Written by `./dev docs` from `docs/configuration.py`; do not edit.

A setting is an attribute of `pto.config`, a variable of the environment, or both. The variable
gives the first value of the attribute. An assignment goes before it:

```python
import pto

pto.config.threads = 1              # an unknown name or a wrong value is an error
print(pto.config)                   # every attribute with its value
```

{changed}

An empty variable is an unset one, and an empty text brings back the default of `cxx`, `cache_dir`,
`target` and `tuned`. `python -m pto machine` prints the machine, and the sizes that follow from it.
The tables say from when an assignment counts, and a changed variable that has
no attribute; the variables of `threads`, `weights`, `matmul_precision` and `interpret` are
read once.

{groups}
## The cache

Compiled kernels lie in one folder, `PTO_CACHE_DIR`, which is made for its owner alone. The name of
an entry has the digest of everything that it was made from: source, headers, flags, compiler and
the features of the CPU. A changed compiler or package finds no entry, and compiles.

| file | holds |
|---|---|
| `NAME-DIGEST.so` | a kernel, with a digest of its content |
| `header-DIGEST.gch` | the headers of the instruction set, parsed |
| `compiler-*.txt`, `toolchain-*.txt` | which compiler there is, and which one made the kernels |
| `failed-NAME-*` | the source (`.cpp`), graph (`.txt`) or log of something that did not compile |
| `tuned.json`, `aten_ratios.json` | what `pto.tune` and `pto.aten.measure` found on this machine |
| `torch/`, `tensorflow/`, `mindspore/`, `custom_op/` | parts of adapters that were built here |
| `*.lock`, `*.tmp`, `work-*` | compilations under way; an hour later they are removed |

- An entry counts as missing if its digest is wrong, if another user than you or root wrote it, or
  if others may write it.
- Processes may share the folder. One compiles a kernel, the others wait for it.
- Beyond `PTO_CACHE_BYTES` the entries that were not used for the longest time are removed, down to
  80 % of it, at most once an hour.
- The folder may be removed at any time. Kernels are compiled again; adapters want
  `python -m pto adapters build` again, and measurements are lost.
- If the folder cannot be written, one warning says so, and each process compiles in `TMPDIR`.
- Where no compiler is installed, kernels of the folder still run:
  [without a compiler](language.md#without-a-compiler).

## Limits

Beyond a limit there is an error.

| at most | of |
|---|---|
{limits}
"""


def groups() -> str:
    files, parts = reads(ROOT)[0], []
    for title, rows in GROUPS.items():
        parts.append(f"## {title}\n")
        has_attributes = any(row.attribute for row in rows)
        heads = ["`pto.config`"] * has_attributes + [
            "variable", "value", "default", "does", "counts from", "read in"]  # fmt: skip
        parts += ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
        for row in rows:
            where = ", ".join(f"`{file}`" for file in sorted(files.get(row.variable, ())))
            names = [row.attribute] * has_attributes + [row.variable]
            names = [f"`{name}`" if name else " " for name in names]
            cells = [*names, row.value, row.default, row.does, row.counts, where or " "]
            parts.append("| " + " | ".join(cells) + " |")
        parts.append("")
    return "\n".join(parts)


def power(number: int) -> str:
    """A number as people read it: 2^20, 32,768."""
    is_power = number >= 1 << 20 and number & (number - 1) == 0
    return f"2^{number.bit_length() - 1}" if is_power else f"{number:,}"


def constant(file: str, name: str) -> int:
    """The value of a constant of a source."""
    if file.endswith(".py"):
        return int(getattr(importlib.import_module(file[:-3].replace("/", ".")), name))
    text = re.search(rf"\b{name} = ([^;]*);", (ROOT / file).read_text()).group(1)
    base, _, shift = re.sub(r"int64_t\((\d+)\)", r"\1", text).partition("<<")
    return int(base) << int(shift or 0)


def limits() -> list[tuple[int, str]]:
    """(number, meaning) of each limit, those of a call first."""
    text = (ROOT / "pto/abi/limits.h").read_text()
    found = re.findall(r"PTO_MAX_\w+ = (\d+),?\s*// (.*)", text)
    calls = [(int(number), meaning) for number, meaning in found]
    return calls + [(constant(file, name), meaning) for file, name, meaning in LIMITS]


def settings() -> list[Setting]:
    return [row for rows in GROUPS.values() for row in rows]


# Attributes whose assignment changes the environment.
INHERITED = ("cxx", "cache_dir", "tuned", "target", "torch_attention", "measured", "by_size",
             "onnxruntime_takes")  # fmt: skip


def page() -> str:
    names = ", ".join(f"`{name}`" for name in INHERITED)
    changed = textwrap.fill(
        f"An assignment to {names} changes the environment of the process, which its children "
        "inherit; the others belong to this process alone.", 100)  # fmt: skip
    rows = "\n".join(f"| {power(number)} | {meaning} |" for number, meaning in limits())
    return TEXT.format(changed=changed, groups=groups(), limits=rows)


if __name__ == "__main__":
    PAGE.write_text(page())
