# SPDX-License-Identifier: Apache-2.0
"""The command `./dev test`: style, C++ tests, sanitizers, pytest, and where the minutes went.

Each function gets the module of ./dev, which runs commands and builds.
"""

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

from choose import Chosen, by_folder, by_name, programs
from laws import ROOT, laws
from minutes import VARIABLE, Minutes

SANITIZERS = ("tsan", "asan")  # tsan's tests wait longest: asan compiles meanwhile
DEEP_SANITIZERS = ("asan_loops",)  # the loops of products and attention: ten minutes of compiling


def everything(dev: ModuleType, deep: bool) -> int:
    """All tests, pytest last, whose closing line ends the output; any failure makes it 1.

    C++ tests wait for much of their time, so those of one build run while the next one compiles.
    """
    minutes = Minutes()
    minutes.built(log_of(dev, "default"), STARTS.get("default", 0))
    if deep:
        build(dev, minutes, "default", "deep_tests")
    for noted in (dev.BUILD / "default" / "coverage").glob("*.txt"):
        noted.unlink()  # of a run with other targets
    with ThreadPoolExecutor(1) as beside:  # one after another
        results = [beside.submit(checks, dev, minutes, "default", deep), beside.submit(style, dev)]
        for preset in (*SANITIZERS, *(DEEP_SANITIZERS if deep else ())):
            build(dev, minutes, preset, "quick_tests")
            results.append(beside.submit(checks, dev, minutes, preset, deep))
    failed = [name for result in results for name in result.result()]
    if pytest(dev, minutes):
        failed.append("pytest")
    if failed:
        dev.say("FAILED: " + ", ".join(failed))
    return int(bool(failed))


def checks(dev: ModuleType, minutes: Minutes, preset: str, deep: bool) -> list[str]:
    """What failed of a build's C++ tests."""
    about = "" if preset == "default" else f" under {preset}"
    return [f"C++ tests{about}"] if ctest(dev, minutes, preset, deep) else []


def style(dev: ModuleType) -> list[str]:
    """What failed of the checks of style, which keep one core busy."""
    dev.say("style: tests/tidy.py and formatters")
    tidy = dev.shown([dev.PYTHON, "tests/tidy.py"])
    fmt = dev.fmt(check=True)
    return ["tests/tidy.py"] * bool(tidy) + ["./dev fmt --check"] * bool(fmt)


STARTS: dict[str, int] = {}  # preset: where ninja's log ended before this run


def log_of(dev: ModuleType, preset: str) -> Path:
    return dev.BUILD / preset / ".ninja_log"


def note_log(dev: ModuleType, preset: str) -> None:
    """Called before something is built."""
    log = log_of(dev, preset)
    STARTS[preset] = log.stat().st_size if log.exists() else 0


def build(dev: ModuleType, minutes: Minutes, preset: str, target: str) -> None:
    note_log(dev, preset)
    dev.cmake(preset, target)
    minutes.built(log_of(dev, preset), STARTS[preset])


def ctest(dev: ModuleType, minutes: Minutes, preset: str, deep: bool) -> int:
    """Runs C++ tests. ThreadSanitizer wants a fixed address layout, hence setarch."""
    fixed = ["setarch", "-R"] if preset == "tsan" and shutil.which("setarch") else []
    dev.say(f"ctest {preset}")
    report = dev.LOGS / f"ctest_{preset}.xml"
    chosen = [] if deep and preset == "default" else ["-L", "quick"]
    command = [*fixed, dev.BIN / "ctest", "--test-dir", dev.BUILD / preset, *chosen]
    code = dev.shown([*command, "--output-on-failure", "--output-junit", report, "-j", dev.JOBS])
    minutes.ran(report)
    return code


def pytest(dev: ModuleType, minutes: Minutes) -> int:
    """All of pytest, a process for each core; it prints the minutes before its closing line."""
    dev.say("pytest")
    noted = dev.LOGS / "minutes.json"
    minutes.write(noted)
    command = [dev.PYTHON, "-m", "pytest", "-n", dev.JOBS, "--dist", "worksteal"]
    # A thread of PyTorch that spins for one whose core another process has takes 20 ms a call.
    env = {"OMP_WAIT_POLICY": "PASSIVE", **os.environ, VARIABLE: str(noted)}
    env.pop("PYTHONDONTWRITEBYTECODE", None)  # each child would compile pto's modules anew
    return dev.shown(command, env=env)


def some(dev: ModuleType, arguments: list[str]) -> int:
    """Tests by name, by a folder of pto/, or what pytest makes of its own arguments."""
    chosen, rest = Chosen(), []
    for argument in arguments:
        folder = argument.strip("/")
        if folder.split("/")[0] == "pto" and Path(ROOT, folder).is_dir():
            found = by_folder(folder)
        elif is_of_pytest(argument, rest):
            rest.append(argument)
            continue
        else:
            found = by_name(argument)
        for file, names in found.cpp.items():
            chosen.cpp[file] = [*chosen.cpp.get(file, []), *names]
        chosen.python += [p for p in found.python if p not in chosen.python]
    code = run_programs(dev, chosen) if chosen.cpp else 0
    if chosen.python or rest or not chosen.cpp:
        files = [a for a in rest if not a.startswith("-") and Path(a.split("::")[0]).exists()]
        only = chosen.python or files or not chosen.cpp
        if only:
            code = dev.shown([dev.PYTHON, "-m", "pytest", *rest, *chosen.python]) or code
    return code


def is_of_pytest(argument: str, before: list[str]) -> bool:
    """An option, the value of one, or a path of tests."""
    is_value = bool(before) and before[-1] in ("-k", "-m", "-n", "-p", "-W", "-o", "-c", "--dist")
    return argument.startswith("-") or is_value or Path(ROOT, argument.split("::")[0]).exists()


def run_programs(dev: ModuleType, chosen: Chosen) -> int:
    """Builds the C++ test programs of these sources and runs the chosen tests of them."""
    folder, code = dev.BUILD / "default", 0
    suites: dict[str, list[str]] = {}
    for law in laws():
        if law.file in chosen.cpp and law.suite:
            suites.setdefault(law.file, []).append(f"*{law.suite}.*")
    found = programs(folder, list(chosen.cpp))
    if missing := set(chosen.cpp) - {source for sources in found.values() for source in sources}:
        raise SystemExit(
            f"error: no test program has {', '.join(sorted(missing))}\n  why: none of the default"
            " build compiles it\n  fix: name a test of another file"
        )
    dev.cmake("default", "cpu_gate", *found)
    for program, sources in found.items():
        patterns = {p for s in sources for p in chosen.cpp[s] or suites.get(s, [])}
        target = program[len("isa_") : -len("_test")] if program.startswith("isa_") else ""
        gate = [folder / "cpu_gate", target] if target else []
        dev.say(f"{program} {len(patterns)} patterns")
        ran = dev.shown([*gate, folder / program, "--gtest_filter=" + ":".join(sorted(patterns))])
        code = code or (ran if ran != 77 else 0)
    return code


def models(dev: ModuleType) -> int:
    """Operators of real models inside the modules of transformers, in an environment of its own."""
    python = dev.environment("models", "torch", "models")
    chosen = [ROOT / "tests" / f"test_model_{name}.py" for name in ("modules", "examples")]
    here = {**os.environ, "PYTHONPATH": str(ROOT)}
    return dev.shown([python, "-m", "pytest", *chosen], env=here)


def site(dev: ModuleType) -> int:
    """The site and the studio's pages in Debian's chromium, pictures, notebooks, type checkers, and
    every page's code with the wheel and its extras only."""
    dev.APT.update({
        "/usr/bin/chromium": "chromium", "/usr/bin/chromedriver": "chromium-driver",
        "/usr/bin/dot": "graphviz",
    })  # fmt: skip
    dev.debian_packages()
    dev.environment("site", "site")
    for group in ("pages", "notebooks", "types"):
        dev.pip(group)
    names = ("studio", "site", "pictures", "task_pictures", "notebooks", "types", "wheel_pages")
    files = [file for name in names for file in sorted(ROOT.glob(f"tests/test_{name}*.py"))]
    env = {**os.environ, "PTO_SITE": "1"}
    return dev.shown([dev.PYTHON, "-m", "pytest", *files], env=env)


def test(dev: ModuleType, arguments: list[str]) -> int:
    deep = "--deep" in arguments
    if "--frameworks" in arguments:
        return dev.frameworks(deep)
    if "--site" in arguments:
        return site(dev)
    if "--models" in arguments:
        return models(dev)
    os.environ["PTO_DEEP"] = "1" if deep else ""
    rest = [a for a in arguments if a != "--deep"]
    return some(dev, rest) if rest else everything(dev, deep)
