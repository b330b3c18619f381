# SPDX-License-Identifier: Apache-2.0
"""Random programs: NumPy, the interpreter, every pass and the compiled form agree on each.

A C++ compiler takes most of a program's second, so that it sees every fifth. The deep run takes
10,000 programs and compiles all, in chunks for the processes of pytest; so does
PTO_PROGRAMS=2000:2500 with these seeds, in any run.
"""

import concurrent.futures
import importlib.util
import os
import warnings
from collections import Counter

import numpy as np
import pytest
import random_programs

import pto
from pto import _core
from pto.language.verify import verify_passes

IS_LONG = os.environ.get("PTO_DEEP") == "1" or "PTO_PROGRAMS" in os.environ


def chunks():
    chosen = os.environ.get("PTO_PROGRAMS", "0:10000" if IS_LONG else "0:60")
    first, end = map(int, chosen.split(":"))
    return [range(at, min(at + 250, end)) for at in range(first, end, 250)]


def function_of(text, path):
    path.write_text("import pto\n\n\n" + text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return next(value for name, value in vars(module).items() if name.startswith("program"))


def on_numpy(text, arrays):
    names = {"pto": random_programs.on_numpy}
    exec(text, names)
    with warnings.catch_warnings(action="ignore"):
        results = next(v for name, v in names.items() if name.startswith("program"))(*arrays)
    return [*results, *arrays]


def is_compiled(seed):
    return seed % 5 == 0 or IS_LONG


def defect(text, seed, path):
    """The defect of a program, or ""; and its graph."""
    want = on_numpy(text, random_programs.random_arrays(seed))
    program = pto.jit(function_of(text, path))
    arrays = random_programs.random_arrays(seed)
    report = (pto.verify if is_compiled(seed) else verify_passes)(program, *arrays)
    if not report.is_equal:
        return str(report), ""
    graph = program.trace(*arrays)
    named = dict(zip(("x", "y", "rows", "lengths", "out"), arrays, strict=True), scale=-2.0)
    found = {"interpreter": pto.interpret(graph, *(named[one[0]] for one in graph.inputs))}
    if is_compiled(seed):
        found["compiled form"] = [*program(*arrays), *arrays]
    for stage, results in found.items():  # the interpreter gives `out`, too, where it is written
        wanted = want if len(results) == len(want) else [*want[:4], want[-1]]
        for place, (a, b) in enumerate(zip(wanted, results, strict=False)):
            if not np.array_equal(a, b):
                return f"result {place} of the {stage} is {b!r} instead of {a!r}", ""
    return "", str(graph)


def kind_of_defect(text, seed, path):
    """The first words of a defect, or the error; "" where NumPy does not run the text either."""
    try:
        on_numpy(text, random_programs.random_arrays(seed))
    except Exception:  # noqa: BLE001 a text that was cut may be any nonsense
        return ""
    try:
        return " ".join(defect(text, seed, path)[0].split()[:5])
    except Exception as error:  # noqa: BLE001 a defect of any kind
        return f"{type(error).__name__} {str(error).partition('.py:')[2].partition(' ')[2][:40]}"


def failure_of(text, seed, folder):
    """The failure of a program with the shortest text that has it, or ""; and the graph."""
    path = folder / f"random_{seed}.py"
    try:
        wrong, graph = defect(text, seed, path)
    except Exception as error:  # noqa: BLE001 a defect of any kind
        wrong, graph = f"{type(error).__name__}: {error}", ""
    if not wrong:
        path.unlink()
        return "", graph
    kind = kind_of_defect(text, seed, path)
    attempts = iter(range(60))
    small = random_programs.shrunk(text, lambda shorter: next(attempts, None) is not None and (
        kind_of_defect(shorter, seed, path) == kind))  # fmt: skip
    return f"seed {seed}: {wrong}\n{small}", graph


@pytest.mark.parametrize("seeds", chunks(), ids=lambda seeds: f"from {seeds[0]}")
def test_random_programs_compute_what_numpy_does(tmp_path, seeds, capfd):
    """To the bit, at every stage; a failing program is shown as the shortest text that fails."""
    made, failures = Counter(), []

    def check(seed):
        failure, graph = failure_of(random_programs.random_program(seed), seed, tmp_path)
        failures.extend([failure] if failure else [])
        made.update(op for op in ("loop", "branch", "repeat") if f" = {op}(" in graph)

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(check, seeds))
    assert not failures, "\n\n".join(failures[:5])
    told = capfd.readouterr().err
    assert "is interpreted" not in told, told  # the C++ compiler refused a text
    assert made["loop"] > len(seeds) / 3 and made["branch"] > len(seeds) / 3, made
    assert made["repeat"] > len(seeds) / 8, made


def test_a_text_shrinks_to_the_lines_that_fail():
    for seed in range(20):
        text = random_programs.random_program(seed) + "    a = a + marked\n"

        def fails(shorter):
            try:
                compile(shorter, "random", "exec")
            except SyntaxError:
                return False
            return "marked" in shorter

        small = random_programs.shrunk(text, fails)
        assert small.splitlines() == [text.splitlines()[0], "    a = a + marked"]


def test_a_program_that_fails_is_shown_as_its_shortest_text(tmp_path, monkeypatch):
    real = _core.explain

    def broken(graph, dump, **named):
        def altered(stage, text):
            becomes = "minimum(" if stage == "fold_constants" else "maximum("
            dump(stage, text.replace("maximum(", becomes))

        real(graph, altered, **named)

    monkeypatch.setattr(_core, "explain", broken)
    texts = {s: random_programs.random_program(s) for s in range(1, 9)}
    seed = min((s for s in texts if random_programs.random_arrays(s)[0].size and
                texts[s].count("small(") > 4), key=lambda s: len(texts[s]))  # fmt: skip
    text = texts[seed]
    failure, _ = failure_of(text, seed, tmp_path)
    assert "the stage fold_constants is wrong" in failure
    small = failure[failure.rindex("def program") :]
    assert len(small.splitlines()) < len(text.splitlines())
    assert "fold_constants" in defect(small, seed, tmp_path / "again.py")[0]


def test_hints_change_no_bit_of_a_random_program(tmp_path, deep):
    """Numbers with all their digits, so that each order of a sum and each rounding shows."""
    count, kernels = 0, []
    texts = map(random_programs.random_program, range(2000 if deep else 120))
    short = [(seed, text) for seed, text in enumerate(texts)  # many kernels compile for minutes
             if "unroll" not in text and 11 < text.count("\n") < 18]  # fmt: skip
    for seed, text in short if deep else short[:6]:
        hinted = random_programs.with_hints(text, seed)
        found = []
        for form, source in enumerate((text, hinted)):
            program = pto.jit(function_of(source, tmp_path / f"hinted_{seed}_{form}.py"))
            arrays = [a * np.float32(0.37) + np.float32(0.01) if a.dtype == np.float32 else a
                      for a in random_programs.random_arrays(seed)]  # fmt: skip
            found.append([*program(*arrays), *arrays])
            kernels.append(len(program.explain(*arrays).steps_of("kernel")))
        for place, (a, b) in enumerate(zip(*found, strict=True)):
            assert a.dtype == b.dtype and a.tobytes() == b.tobytes(), (
                f"seed {seed}: result {place} is {b!r} instead of {a!r}\n{hinted}"
            )
        count += hinted.count("pto.cut()") + hinted.count("with pto.")
    assert count > len(kernels) and sum(kernels[1::2]) > sum(kernels[::2])


def few_rows(seed):
    """The random arrays, of at most 4 rows: loops in loops in loops go over them, in Python."""
    x, y, rows, lengths, out = (a[:4].copy() for a in random_programs.random_arrays(seed))
    return x, y, rows % max(len(x), 1), lengths, out


def test_random_programs_in_steps_compute_what_numpy_does(tmp_path, deep):
    arrays_of = random_programs.random_arrays if deep else few_rows
    for seed in range(40):
        text = random_programs.random_program(seed)
        want = on_numpy(text, arrays_of(seed))
        program = pto.jit(function_of(text, tmp_path / f"steps_{seed}.py"))
        arrays = arrays_of(seed)
        pto.config.interpret = True
        try:
            found = [*program(*arrays), *arrays]
        finally:
            pto.config.interpret = False
        for place, (a, b) in enumerate(zip(want, found, strict=True)):
            assert np.array_equal(a, b), f"seed {seed}, result {place}: {b!r}, not {a!r}\n{text}"
