# SPDX-License-Identifier: Apache-2.0
"""check(): tests an operator as pto's own operators are tested.

    report = pto.testing.check(Squash)           # AssertionError with the table, where one fails
    print(report)

Its calls are the `samples` of its class, or made from the schema, in every element type that it
takes; the first one also with gaps, other strides, subnormals, NaN and infinities. Compared are
results with `oracle` within `tolerance`; each mode of every installed framework, bit by bit, with
the results on NumPy arrays; the gradient with differences; and hostile arguments must be refused
with a text, or computed.

Thread safety: one check at a time.
"""

import dataclasses
import functools
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pto.language.dtypes import dtype as element_type
from pto.language.dtypes import numpy_type
from pto.language.op import Operator
from pto.testing.cases import Case, adapter_record, cases, flat, members, types_of
from pto.testing.close import FLOATS, Closeness, shown
from pto.testing.expected import (
    by_output,
    closeness,
    expected,
    gradient_case,
    same_bits,
    wanted,
)
from pto.testing.frameworks import Skipped, chosen
from pto.testing.hostile import outcomes
from pto.testing.requirements import check_operator

SLOW = ("inductor",)  # modes that compile C++ for a minute: with deep=True
STEP, DIFFERENCES = 1e-6, 1e-5  # of differences in f64, and their error


@dataclass
class Row:
    """One line of the table: what was compared where."""

    what: str
    where: str
    passed: int = 0
    ulp: float = 0.0
    bounds: float = 0.0
    failures: list[str] = field(default_factory=list)
    skipped: Counter = field(default_factory=Counter)

    @property
    def result(self) -> str:
        if self.failures:
            return f"{len(self.failures)} FAILED: {self.failures[0]}"
        return "passed" if self.passed else f"skipped: {next(iter(self.skipped), 'no case')}"

    @property
    def cells(self) -> tuple[str, ...]:
        errors = (shown(self.ulp) if self.ulp else "", shown(self.bounds) if self.bounds else "")
        return self.what, self.where, str(self.passed), *errors, self.result

    def close(self, case: str, found: Iterable[Closeness]) -> None:
        for one in found:
            self.ulp, self.bounds = max(self.ulp, one.ulp), max(self.bounds, one.bounds)
            self.judge(one.is_good, f"{case}: {one}")

    def judge(self, is_good: bool, text: str) -> None:
        if is_good:
            self.passed += 1
        else:
            self.failures.append(text)


@dataclass(frozen=True)
class Report:
    """The findings of check(); its text is a table."""

    name: str
    rows: tuple[Row, ...]
    seconds: float
    HEADS = ("compared", "where", "cases", "ULP", "x bound", "result")

    @property
    def is_good(self) -> bool:
        return not any(row.failures for row in self.rows)

    def __str__(self) -> str:
        table = [self.HEADS, *(row.cells for row in self.rows)]
        widths = [max(len(line[i]) for line in table) for i in range(len(self.HEADS) - 1)]
        lines = ["  ".join([*map(str.ljust, line, widths), line[-1]]).rstrip() for line in table]
        count = sum(row.passed for row in self.rows)
        verdict = "all as stated" if self.is_good else "NOT as stated"
        more = [f"  {text}" for row in self.rows for text in row.failures[1:6]]
        return "\n".join([f"{self.name}: {count} comparisons in {self.seconds:.0f} s, {verdict}",
                          *lines, *more])  # fmt: skip

    def _repr_html_(self) -> str:
        from html import escape

        def line(cells: Iterable[str], tag: str) -> str:
            return f"<tr>{''.join(f'<{tag}>{escape(c)}</{tag}>' for c in cells)}</tr>"

        rows = [line(self.HEADS, "th"), *(line(row.cells, "td") for row in self.rows)]
        return f"<b>{escape(self.name)}</b><table>{''.join(rows)}</table>"


def check(
    operator: Callable[..., Any],
    frameworks: str | Iterable[str] | None = None,
    *,
    deep: bool = False,
) -> Report:
    """Compares an operator with its oracle, in all installed frameworks or those named.

    `operator` is what @op made of a class; type checkers take that for a class or a function.
    `frameworks` names them as the table does or as Python imports them: "PyTorch" or "torch".
    Raises AssertionError with the table where a comparison fails. `deep` also compiles by Inductor,
    and runs every mode on every case.
    """
    began = time.perf_counter()
    check_operator(operator)
    kinds = chosen(frameworks)
    rows = [_against_oracle(operator, dtype) for dtype in types_of(operator)]
    for kind in kinds:
        rows += _in_framework(operator, kind, deep)
    rows += [_gradient(operator), _hostile(operator)]
    report = Report(operator.name, tuple(rows), time.perf_counter() - began)
    if not report.is_good:
        raise AssertionError(str(report))
    return report


def _against_oracle(operator: Any, dtype: str) -> Row:
    row = Row("oracle", f"NumPy {dtype}")
    stated = {str(element_type(kind)) for kind in operator.member("tolerance") or {}}
    if dtype not in stated and numpy_type(dtype).name in FLOATS:
        operator = _Stated(operator, dtype)
        row.where += " (default)"
    for case in cases(operator, dtype):
        _guarded(row, case, lambda case=case: row.close(
            f"{case.dtype} {case.name}", closeness(case, case.results())))  # fmt: skip
    return row


class _Stated:
    """An operator whose class states a tolerance for one more type."""

    def __init__(self, operator: Operator, dtype: str):
        self.operator = operator
        default = FLOATS[numpy_type(dtype).name][2]
        self.tolerance = {**(operator.member("tolerance") or {}), dtype: default}

    def member(self, name: str) -> Any:
        return self.tolerance if name == "tolerance" else self.operator.member(name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.operator, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.operator(*args, **kwargs)


def _in_framework(operator: Operator, kind: Any, deep: bool) -> list[Row]:
    """A row for each mode: the samples in the first type, and one sample in each other type."""
    try:
        framework, rows = kind(), []
    except Exception as error:  # noqa: BLE001 whatever keeps it from its start is a finding
        return [Row("start", kind.name, failures=[_first_line(error)])]
    for mode, run in kind.modes.items():
        row = Row(mode, kind.name)
        rows.append(row)
        if mode in SLOW and not deep:
            row.skipped["compiles C++: with deep=True"] += 1
            continue
        for number, dtype in enumerate(types_of(operator)):
            whole = deep or (number == 0 and mode in kind.full)
            for case in list(cases(operator, dtype, variants=whole))[: None if whole else 1]:
                _guarded(row, case, functools.partial(_bits, row, mode, run, framework, case))
    return rows


def _bits(row: Row, mode: str, run: Callable, framework: Any, case: Case) -> None:
    got = run(framework, case)
    good = any(same_bits(got, expected(mode, one)) for one in (case, case.dense()))
    row.judge(good, f"{case.dtype} {case.name}: not the bits of the call on NumPy arrays")


def _guarded(row: Row, case: Case, run: Callable[[], None]) -> None:
    with np.errstate(all="ignore"):
        try:
            run()
        except Skipped as reason:
            row.skipped[str(reason)] += 1
        except Exception as error:  # noqa: BLE001 whatever a definition raises is a finding
            row.failures.append(f"{case.dtype} {case.name}: {_first_line(error)}")


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"


def _gradient(operator: Operator) -> Row:
    """The gradient for gradients of 1, along a random direction, beside differences of f64."""
    row = Row("gradient", "NumPy f64, differences")
    if adapter_record(operator).gradient < 0 or "f64" not in types_of(operator):
        row.skipped["no gradient" if adapter_record(operator).gradient < 0 else "no f64"] += 1
        return row
    for case in cases(operator, "f64", variants=False):
        _guarded(row, case, lambda case=case: _compare_gradient(row, case))
    return row


def _compare_gradient(row: Row, case: Case) -> None:
    record = adapter_record(case.operator)
    places = [a for a in wanted(case) if a < len(case.args)]
    rng = np.random.default_rng(0)
    along = {a: [rng.standard_normal(t.shape) for t in members(case.args[a])] for a in places}

    def moved(step: float) -> float:
        args = list(case.args)
        for a in places:
            values = [t + step * d for t, d in zip(members(args[a]), along[a], strict=True)]
            args[a] = values if isinstance(args[a], list) else values[0]
        found = by_output(dataclasses.replace(case, args=tuple(args)))
        return sum(float(t.sum()) for o, about in zip(found, record.outputs, strict=True)
                   if about.is_differentiable for t in members(o))  # fmt: skip

    difference = (moved(STEP) - moved(-STEP)) / (2 * STEP)
    given = by_output(gradient_case(case))
    slope = 0.0
    for gradient, place in zip(given, record.wanted, strict=True):
        if place in along:
            pairs = zip(members(gradient), along[place], strict=True)
            slope += sum(float((d * np.broadcast_to(v, d.shape)).sum()) for d, v in pairs)
    row.close(case.name, [Closeness.of(np.float64([slope]), [difference], DIFFERENCES)])
    row.ulp = 0.0  # of differences, says nothing


def _hostile(operator: Operator) -> Row:
    row = Row("hostile arguments", "NumPy")
    case = next(cases(operator, types_of(operator)[0], variants=False))
    if not any(isinstance(t, np.ndarray) for t in flat(list(case.args))):
        row.skipped["no array among the arguments"] += 1
        return row

    def judge() -> None:
        for name, wrong in outcomes(case):
            row.judge(not wrong, f"{name}: {wrong}")

    _guarded(row, case, judge)
    return row
