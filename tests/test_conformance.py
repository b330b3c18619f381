# SPDX-License-Identifier: Apache-2.0
"""The conformance matrix: every operator in every framework that is installed, in every mode.

Results have the bits of those on NumPy arrays of the same layout, or of dense ones where a
framework makes them dense; gradients those of the gradient operator; and NumPy's are within the
operator's tolerance of its oracle. More than one sample and layouts in other types than f32, one of
the two half types of each operator, and slow modes on more than one case, are in the deep run. What
ran is written to build/conformance, from which ./dev test --frameworks makes docs/conformance.md.
"""

import collections
import functools
import re

import numpy as np
import pytest
from conformance.operators import OPERATORS
from conformance.report import PAGE, missing, write

from pto import _core
from pto.language.dtypes import numpy_type
from pto.testing.cases import Case, adapter_record, cases, members, types_of
from pto.testing.expected import by_output, expected, gradient_case, is_close, same_bits
from pto.testing.frameworks import FRAMEWORKS, Skipped

INSTALLED = [one for one in FRAMEWORKS if one.is_installed()]
WITH_GRADIENT = {name: one for name, one in OPERATORS.items() if adapter_record(one).gradient >= 0}
QUICK_TYPES = ("f32",)  # of all samples, of layouts and of slow modes; the rest is in the deep run
SLOW_LAYOUTS = ("every second element", "transposed", "negative stride", "stride 0")
HALVES = ("f16", "bf16")  # whose kernels cost most


@functools.cache
def made(kind):
    return kind()


def chosen(framework, mode, operator, deep):
    """The cases of one cell. Quick: one sample in each type, all samples and layouts in f32;
    gradients, whose kernels cost most, in f32 only and without layouts, since strides are no
    operator's own."""
    full, types = mode in framework.full, types_of(operator)
    first = next((t for t in types if t in QUICK_TYPES), types[0])
    if not deep:
        other = HALVES[list(OPERATORS.values()).index(operator) % 2]
        types = [t for t in types if t != other]
    for dtype in types if full and mode != "gradient" or deep else [first]:
        whole = deep or full and dtype == first
        for number, case in enumerate(cases(operator, dtype, variants=full and whole)):
            is_slow = mode == "gradient" and case.name in SLOW_LAYOUTS and not deep
            if number == 0 or whole and not is_slow:
                yield case


@pytest.mark.parametrize("framework", INSTALLED, ids=lambda kind: kind.name)
@pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS)
def test_an_operator_has_the_same_bits_in_every_mode(framework, operator, deep):
    wrong, cells = [], {}
    for mode, run in framework.modes.items():
        if mode == "inductor" and not deep and operator.name not in ("gelu", "layer_norm", "top_k"):
            cells[mode] = {"passed": 0, "reasons": ["compiles C++: in ./dev test --deep"]}
            continue
        passed, reasons = 0, collections.Counter()
        for case in chosen(framework, mode, operator, deep):
            with np.errstate(all="ignore"):
                try:
                    got = run(made(framework), case)
                except Skipped as reason:
                    reasons[str(reason)] += 1
                    continue
                good = any(same_bits(got, expected(mode, c)) for c in (case, case.dense()))
            if framework.name == "NumPy":
                good = is_close(case, got)
            if not good:
                wrong.append(f"{mode} {case.dtype} {case.name}")
            passed += good
        cells[mode] = {"passed": passed, "reasons": sorted(reasons)}
    write(framework.name, operator.name, cells)
    assert wrong == []


@pytest.mark.parametrize("framework", INSTALLED, ids=lambda kind: kind.name)
def test_the_number_of_an_element_type_leads_to_ours_and_back(framework):
    for row in _core.dtypes():
        kind = numpy_type(row.name)
        if row.kind == "float":
            x = np.array([-1.5, 0, 2.25]).astype(kind)
        else:  # of the highest bit a sign, or a large number
            x = np.array([1 << 8 * row.bytes - 1, 0, 5], f"u{row.bytes}")
            x = x.astype(bool) if row.kind == "bool" else x.view(kind)
        name, want = "nonzero", np.argwhere(x)  # which reads every type
        if row.kind == "float" or row.name in ("i32", "i64"):
            name, want = "relu", np.maximum(x, kind.type(0))
        case = Case(OPERATORS[name], row.name, "numbers", (x,), {})
        try:
            [got] = next(iter(framework.modes.values()))(made(framework), case)
        except Skipped:
            continue
        assert got.dtype == want.dtype, row.name
        assert got.tolist() == want.tolist(), row.name


def test_a_row_of_an_element_type_says_what_numpy_and_dlpack_say():
    codes = {"bool": 6, "signed": 0, "unsigned": 1, "float": 2}
    for row in _core.dtypes():
        kind = numpy_type(row.name)
        assert (kind.name, kind.itemsize) == (row.numpy, row.bytes)
        assert row.code == (4 if row.name == "bf16" else codes[row.kind])


def test_the_page_has_a_row_for_every_operator_in_every_framework():
    """The page is made where all frameworks are installed, and a new operator easily forgotten."""
    text = PAGE.read_text()
    assert text.count("\n## ") == len(FRAMEWORKS) + 1
    assert missing(text, OPERATORS) == {}, "run ./dev test --frameworks and commit the page"
    without_gelu = re.sub(r"^\| gelu \|.*\n", "", text, count=1, flags=re.MULTILINE)
    assert list(missing(without_gelu, OPERATORS).values()) == [["gelu"]]


def test_every_operator_says_what_a_matrix_needs():
    for operator in OPERATORS.values():
        assert callable(operator.member("oracle")), operator.name
        assert operator.member("tolerance"), operator.name


@pytest.mark.parametrize("operator", WITH_GRADIENT.values(), ids=WITH_GRADIENT)
def test_a_gradient_operator_gives_what_is_needed_and_nothing_else(operator, deep):
    first = next(cases(operator, types_of(operator)[0], variants=False))
    once = gradient_case(first)
    twice = gradient_case(once) if deep else None
    for case in (once, twice) if twice else (once,):
        needs = case.operator.arguments[-1].name
        everything = by_output(case)
        for bit in range(-1, len(everything)):
            case.kwargs[needs] = 1 << bit if bit >= 0 else 0
            for place, (got, full) in enumerate(zip(by_output(case), everything, strict=True)):
                if place != bit:
                    assert all(t.size == 0 for t in members(got))
                    continue
                for a, b in zip(members(got), members(full), strict=True):
                    np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
