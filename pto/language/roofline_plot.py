# SPDX-License-Identifier: Apache-2.0
"""Roofline: the statements of a report beside what this machine can do, as a picture.

    plot = attend.report(q, k, v).roofline()     # a picture and a table, at the end of a cell
    plot.svg()                                   # text of an SVG
    plot.points[0].rate                          # operations a second

To the right a statement does more operations with each byte, further up more in a second. The line
that rises is the bandwidth: of memory, or broken, of a cache. The level one is the peak. Operations
are multiply-adds and operations on elements. Both axes are logarithmic.

Thread safety: plain values.
"""

import html
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pto.cells import ShownAsText, table
from pto.language.program_page import rates
from pto.units import count_text

if TYPE_CHECKING:
    from pto.language.recording import Recorded
    from pto.language.report import ProgramReport

_WIDTH, _HEIGHT, _LEFT, _BELOW = 640, 400, 70, 50  # pixels; margins for the numbers
_ROOM = 4.0  # beside the outermost things, as a factor


@dataclass(frozen=True)
class Rates:
    """The ceilings of a machine, each in a second: `bytes` of memory, `near_bytes` of a cache."""

    operations: float
    bytes: float
    near_bytes: float


@dataclass(frozen=True)
class Point:
    """A statement: operations a byte, operations a second, and the part of its own roofline."""

    title: str
    intensity: float
    rate: float
    share: float | None
    lines: tuple[str, ...]

    @property
    def row(self) -> tuple[str, ...]:
        share = "" if self.share is None else f"{self.share:.0%}"
        return (self.title, f"{self.intensity:.3g}", count_text(self.rate), share,
                ", ".join(self.lines))  # fmt: skip


@dataclass(frozen=True)
class Roofline(ShownAsText):
    """The statements of which bytes and operations are known, the longest first."""

    name: str
    points: tuple[Point, ...]
    rates: Rates
    HEADS = ("statement", "operations a byte", "a second", "of its roofline", "line")

    def __str__(self) -> str:
        peak, far, near = map(
            count_text, (self.rates.operations, self.rates.bytes, self.rates.near_bytes)
        )
        head = (f"{self.name}: at most {peak} operations a second, {far} bytes of memory, "
                f"{near} of a cache")  # fmt: skip
        rows = [self.HEADS, *(one.row for one in self.points)]
        widths = [max(len(row[i]) for row in rows) for i in range(len(self.HEADS))]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
        return "\n".join([head, *(f"  {line}" for line in lines)])

    def _cells(self) -> Iterator[str]:
        yield self.svg()
        yield table(("", *self.HEADS), [(n, *one.row) for n, one in enumerate(self.points, 1)])

    def svg(self) -> str:
        """The picture as the text of an SVG; points have the numbers of their rows."""
        return _Plot(self).svg()


def roofline(report: "ProgramReport", found: "Recorded") -> Roofline:
    """The roofline of the report of a recorded call; its ceilings are those of report.html()."""
    points = [
        Point(one.step.title, one.operations / one.bytes, one.operations * one.calls / one.total_s,
              one.roofline_share, tuple(one.step.lines))
        for one in report.statements
        if one.bytes and one.operations and one.calls and one.total_s > 0
    ]  # fmt: skip
    return Roofline(report.name, tuple(points), Rates(**rates(found, report)))


class _Plot:
    """The picture: two logarithmic axes, ceilings, numbered points."""

    def __init__(self, of: Roofline):
        self.of = of
        rates, points = of.rates, of.points
        self.peak = rates.operations
        if not math.isfinite(self.peak):  # no way to multiply was found
            self.peak = max([one.rate for one in points], default=1.0)
        turns = [self.peak / rate for rate in (rates.bytes, rates.near_bytes)]
        xs = [*turns, *(one.intensity for one in points)]
        ys = [self.peak, *(one.rate for one in points)]
        self.low = min(xs) / _ROOM, min(*ys, min(xs) * rates.bytes) / _ROOM
        self.high = max(xs) * _ROOM, max(ys) * _ROOM

    def x(self, value: float) -> float:
        part = math.log(value / self.low[0]) / math.log(self.high[0] / self.low[0])
        return round(_LEFT + part * (_WIDTH - _LEFT - 10), 1)

    def y(self, value: float) -> float:
        part = math.log(value / self.low[1]) / math.log(self.high[1] / self.low[1])
        return round((1 - part) * (_HEIGHT - _BELOW - 10) + 10, 1)

    def svg(self) -> str:
        parts = [*self._axes(), *self._ceiling(self.of.rates.bytes, ""),
                 *self._ceiling(self.of.rates.near_bytes, ' stroke-dasharray="6 4"'),
                 *self._points()]  # fmt: skip
        return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
                f'width="{_WIDTH}" height="{_HEIGHT}" font-family="sans-serif" font-size="11">'
                f"<title>{html.escape(self.of.name)}</title>{''.join(parts)}</svg>")  # fmt: skip

    def _axes(self) -> Iterator[str]:
        bottom, right = _HEIGHT - _BELOW, _WIDTH - 10
        for power in _powers(self.low[0], self.high[0]):
            x = self.x(10.0**power)
            yield _line([(x, 10), (x, bottom)], "#ddd")
            yield _text(x, bottom + 15, "middle", count_text(10.0**power))
        for power in _powers(self.low[1], self.high[1]):
            y = self.y(10.0**power)
            yield _line([(_LEFT, y), (right, y)], "#ddd")
            yield _text(_LEFT - 6, y + 4, "end", count_text(10.0**power))
        yield _line([(_LEFT, 10), (_LEFT, bottom), (right, bottom)], "#333")
        yield _text((_LEFT + right) / 2, _HEIGHT - 12, "middle", "operations a byte")
        turned = _text(-bottom / 2, 14, "middle", "operations a second")
        yield f'<g transform="rotate(-90)">{turned}</g>'

    def _ceiling(self, rate: float, dashes: str) -> Iterator[str]:
        turn = self.peak / rate
        first = max(self.low[0], self.low[1] / rate)  # where it enters the picture
        corners = [(first, first * rate), (turn, self.peak), (self.high[0], self.peak)]
        yield _line([(self.x(x), self.y(y)) for x, y in corners], "#404040", dashes)

    def _points(self) -> Iterator[str]:
        for number, one in enumerate(self.of.points, 1):
            x, y = self.x(one.intensity), self.y(one.rate)
            yield (f'<circle cx="{x}" cy="{y}" r="5" fill="#b0413e">'
                   f"<title>{html.escape(' '.join(one.row))}</title></circle>")  # fmt: skip
            yield _text(x + 8, y + 4, "start", str(number))


def _powers(low: float, high: float) -> range:
    """The powers of ten between two numbers."""
    return range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)


def _line(points: list[tuple[float, float]], colour: str, more: str = "") -> str:
    corners = " ".join(f"{x},{y}" for x, y in points)
    return f'<polyline points="{corners}" fill="none" stroke="{colour}"{more}/>'


def _text(x: float, y: float, anchor: str, text: str) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}">{html.escape(text)}</text>'
